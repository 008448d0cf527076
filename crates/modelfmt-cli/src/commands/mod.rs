//! One module for each command. Each takes the arguments, calls the library, and prints text or JSON.

mod batch;
pub(crate) mod bom;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod convert;
mod converted;
mod derivation;
pub(crate) mod diff;
mod done;
pub(crate) mod edit;
pub(crate) mod extract;
#[cfg(feature = "remote")]
pub(crate) mod fetch;
pub(crate) mod inspect;
pub(crate) mod keygen;
pub(crate) mod outboard;
mod output;
pub(crate) mod plan;
mod programs;
pub(crate) mod prove;
pub(crate) mod report;
pub(crate) mod seal;
pub(crate) mod show;
pub(crate) mod sign;
mod topics;
pub(crate) mod unseal;
pub(crate) mod verify;

use std::io::{self, BufWriter, Write};
use std::time::Instant;

use anstyle::{AnsiColor, Style};
use modelfmt::Model;
use modelfmt::wording::Printable;

use crate::failure::{Result, say};
use crate::units::{count, seconds, size};
use crate::walk::files;

/// Prints through a buffer. Fails if standard output fails.
fn print(write: impl FnOnce(&mut dyn Write) -> Result) -> Result {
    let mut out = BufWriter::new(anstream::AutoStream::auto(io::stdout().lock()));
    write(&mut out)?;
    out.flush()?;
    Ok(())
}

pub(crate) use topics::topic;

/// Returns the first word of a file's line.
fn verdict(is_ok: bool) -> String {
    let (word, color) = if is_ok { ("ok", AnsiColor::Green) } else { ("FAILED", AnsiColor::Red) };
    let style = Style::new().fg_color(Some(color.into())).bold();
    format!("{style}{word}{style:#}")
}

/// Returns text such as `6 tensors`.
fn tensors(number: usize) -> String {
    format!("{} tensor{}", count(number as u64), if number == 1 { "" } else { "s" })
}

/// Prints the line of a command that wrote something: what, how much, and how long it took.
fn say_written(what: &str, tensors: &str, nbytes: u64, begun: Instant) {
    let (what, nbytes, time) = (Printable(what), size(nbytes), seconds(begun.elapsed()));
    say(format_args!("wrote {what}: {tensors}, {nbytes} in {time}"));
}

/// Returns the total length of all tensors in bytes, for progress bars. Tensors that are only declared do not
/// count, because they can claim any size.
fn nbytes(model: &Model) -> u64 {
    let tensors = model.tensors().filter(|tensor| tensor.has_data);
    tensors.fold(0, |sum, tensor| sum.saturating_add(tensor.nbytes))
}
