//! An output without a file.

use std::io;

use super::sink::{Output, Sink};

/// A sink that discards all bytes, for dry runs and measurements. Bytes [read back](Output::read_back) are
/// zeros, so a hash computed from them has the right length but the wrong value.
#[derive(Clone, Debug, Default)]
pub struct Discard {
    name: Option<String>,
}

impl Discard {
    /// Creates a sink whose [`Sink::name`] returns `name`.
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
