//! JSON that is safe for a terminal.

use std::io::{self, Write};

use modelfmt::wording::escaped_json;

/// A writer that escapes text in JSON that would disturb a terminal; JSON itself requires this only below
/// U+0020. Streams that strip escape sequences, as pipes do here, then find none to strip.
pub(crate) struct EscapedJson<W>(pub(crate) W);

impl<W: Write> Write for EscapedJson<W> {
    fn write(&mut self, json: &[u8]) -> io::Result<usize> {
        self.write_all(json).map(|()| json.len())
    }

    /// The serializer splits text only at ASCII characters, so each piece is UTF-8.
    fn write_all(&mut self, json: &[u8]) -> io::Result<()> {
        let text = str::from_utf8(json).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        self.0.write_all(escaped_json(text).as_bytes())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
