//! A module a command: arguments in, a call of the library, text or JSON out.

pub(crate) mod completions;
pub(crate) mod convert;
pub(crate) mod diff;
pub(crate) mod extract;
pub(crate) mod inspect;
pub(crate) mod show;
pub(crate) mod verify;

use std::borrow::Cow;
use std::io::{self, BufWriter, Write};
use std::time::Instant;

use modelfmt::{Model, Printable};

use crate::failure::{Result, say};
use crate::units::{count, seconds, size};

/// Prints through a buffer, and says when standard output takes no more.
fn print(write: impl FnOnce(&mut dyn Write) -> Result) -> Result {
    let mut out = BufWriter::new(anstream::AutoStream::auto(io::stdout().lock()));
    write(&mut out)?;
    out.flush()?;
    Ok(())
}

/// The line of a command that did something: what was written, how much, and how long that took.
fn say_written(what: &str, tensors: usize, nbytes: u64, begun: Instant) {
    let (tensors, s) = (count(tensors as u64), if tensors == 1 { "" } else { "s" });
    let (what, nbytes, time) = (Printable(what), size(nbytes), seconds(begun.elapsed()));
    say(format_args!("wrote {what}: {tensors} tensor{s}, {nbytes} in {time}"));
}

/// The bytes of all tensors, for progress bars. Tensors that are declared only can claim any number.
fn nbytes(model: &Model) -> u64 {
    let tensors = model.tensors().filter(|tensor| tensor.has_data);
    tensors.fold(0, |sum, tensor| sum.saturating_add(tensor.nbytes))
}

/// Takes JSON and escapes the text in it that would disturb a terminal; JSON itself asks for that below U+0020 only. A
/// stream that strips escape sequences, as a pipe does here, has nothing to take out of what is left.
struct EscapedJson<W>(W);

impl<W: Write> Write for EscapedJson<W> {
    fn write(&mut self, json: &[u8]) -> io::Result<usize> {
        self.write_all(json).map(|()| json.len())
    }

    /// The serializer cuts text at ASCII characters only, so a piece is UTF-8.
    fn write_all(&mut self, json: &[u8]) -> io::Result<()> {
        let text = str::from_utf8(json).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        self.0.write_all(escaped(text).as_bytes())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

pub(crate) fn escaped(json: &str) -> Cow<'_, str> {
    // What is below has been escaped, or stands between the texts.
    let is_escaped = |c: char| c >= '\u{7f}' && Printable::is_escaped(c);
    if !json.contains(is_escaped) {
        return json.into();
    }
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if is_escaped(c) {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        } else {
            out.push(c);
        }
    }
    out.into()
}
