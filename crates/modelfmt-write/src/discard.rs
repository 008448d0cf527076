//! Writing without a file.

use std::io;

use super::sink::{Output, Sink};

/// Takes bytes and keeps none of them, for rehearsals and measurements. Its bytes [read back](Output::read_back) as zeros, so a hash
/// that is made of them has the length of the real one, and another value.
#[derive(Clone, Debug, Default)]
pub struct Discard {
    name: Option<String>,
}

impl Discard {
    /// One with a name, as [`Sink::name`] gives it.
    #[must_use]
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: Some(name.into()) }
    }
}

impl Sink for Discard {
    fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn name(&self) -> String {
        self.name.as_deref().unwrap_or("the output").to_owned()
    }
}

impl Output for Discard {
    fn read_back(&self, _: u64, out: &mut [u8]) -> io::Result<()> {
        out.fill(0);
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn remove_old(&self) -> io::Result<()> {
        Ok(())
    }

    fn commit(self) -> io::Result<()> {
        Ok(())
    }
}
