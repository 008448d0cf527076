//! A module a command: arguments in, a call of the library, text or JSON out.

pub(crate) mod completions;
pub(crate) mod convert;
pub(crate) mod diff;
pub(crate) mod extract;
pub(crate) mod inspect;
pub(crate) mod show;
pub(crate) mod verify;

use std::io::{self, BufWriter, Write};

use crate::failure::Result;

/// Prints through a buffer, and says when standard output takes no more.
fn print(write: impl FnOnce(&mut dyn Write) -> Result) -> Result {
    let mut out = BufWriter::new(anstream::AutoStream::auto(io::stdout().lock()));
    write(&mut out)?;
    out.flush()?;
    Ok(())
}
