//! JSON that is safe for a terminal.

use std::borrow::Cow;
use std::io::{self, Write};

use modelfmt::wording::Printable;

/// A writer that escapes text in JSON that would disturb a terminal; JSON itself requires this only below U+0020. Then a stream
/// that strips escape sequences, as for a pipe here, finds none to strip.
pub(crate) struct EscapedJson<W>(pub(crate) W);

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

/// The JSON with such text escaped.
pub(crate) fn escaped(json: &str) -> Cow<'_, str> {
    // Control characters below U+007F were escaped by the serializer, or are white space between the strings.
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
