//! Pins: hashes from a trusted source that say which file the caller expects.

use std::fmt;
use std::str::FromStr;

use crate::wording::ParseError;

/// A hash that identifies a file or its content. If a file is opened with a pin (`OpenOptions::pin` of modelfmt), every byte of its
/// index and its values is checked against the pin before the caller gets it.
///
/// ```
/// use modelfmt::Pin;
///
/// let text = format!("b3:{}", "0123456789abcdef".repeat(4));
/// let pin: Pin = text.parse()?;
/// assert_eq!(pin.to_string(), text);
/// assert!("md5:0123".parse::<Pin>().is_err());
/// # Ok::<(), modelfmt::wording::ParseError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Pin {
    /// The BLAKE3 of the whole file, as `b3sum` prints it. With an outboard beside the file, a read costs
    /// little more than its bytes; without one, the whole file is hashed once, when it is opened.
    B3([u8; 32]),
    /// The BLAKE3 of the bytes of an AERO file before its first payload: header, table of contents and names.
    /// The hashes in these bytes cover everything else.
    Aero([u8; 32]),
    /// The statement of a sealed APR2 file or set: the hash that its signatures sign. It covers names,
    /// shapes, metadata and values, but not the signers and the recipients of the file.
    Seal([u8; 32]),
}

impl Pin {
    const fn parts(&self) -> (&'static str, &[u8; 32]) {
        match self {
            Self::B3(hash) => ("b3", hash),
            Self::Aero(hash) => ("aero", hash),
            Self::Seal(hash) => ("seal", hash),
        }
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, hash) = self.parts();
        write!(f, "{kind}:")?;
        hash.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The message that says what a valid pin looks like.
const SYNTAX: &str = "a pin is b3:HEX (the BLAKE3 of the whole file), aero:HEX (of an AERO's bytes before its payloads) or seal:HEX (the statement of \
                     a sealed APR2), with 64 hex digits";

impl FromStr for Pin {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let unknown = |why: &str| ParseError::new(format!("{why}; {SYNTAX}"));
        let (kind, digits) =
            text.split_once(':').ok_or_else(|| unknown("it does not say which kind of pin it is"))?;
        let make = match kind {
            "b3" => Self::B3,
            "aero" => Self::Aero,
            "seal" => Self::Seal,
            _ => return Err(unknown("there is no such kind of pin")),
        };
        let hash = hash(digits).ok_or_else(|| unknown("what follows the colon is not 64 hex digits"))?;
        Ok(make(hash))
    }
}

fn hash(digits: &str) -> Option<[u8; 32]> {
    if digits.len() != 64 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let mut hash = [0; 32];
    for (byte, at) in hash.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()?;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_are_read_as_they_are_printed() {
        for kind in ["b3", "aero", "seal"] {
            let text = format!("{kind}:{}", "0a".repeat(32));
            assert_eq!(text.parse::<Pin>().unwrap().to_string(), text);
            assert_eq!(text.replace("0a", "0A").parse(), text.parse::<Pin>());
        }
        let digits = "0".repeat(64);
        for bad in ["", "b3", "b3:", "b3:12", &digits, &format!("sha256:{digits}"), &format!("b3:{digits}0")]
        {
            assert!(bad.parse::<Pin>().is_err(), "{bad}");
        }
        assert!(format!("b3:{}", "é".repeat(32)).parse::<Pin>().is_err());
        assert!(format!("b3:+{}", "0".repeat(63)).parse::<Pin>().is_err());
    }
}
