//! The first eight bytes, which have the same layout in all versions.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::{Part, author::Cursor};

use crate::error::{Error, Fault, Result};
use crate::version::Version;

/// The first four bytes of a file, in every version.
pub(crate) const MAGIC: [u8; 4] = *b"MAG!";

impl Version {
    /// Reads the magic and the version number.
    pub(crate) fn decode(c: &mut Cursor<'_>) -> Result<Self> {
        c.record("header", None);
        let malformed =
            |field, at, fault| Error::Malformed { part: Part::new("header").with_field(field), at, fault };
        let magic = c.bytes(4, "magic")?;
        if magic != MAGIC {
            let mut found = [0; 4];
            found.copy_from_slice(magic);
            return Err(malformed("magic", 0, Fault::Magic(found)));
        }
        let number = c.u32("version")?;
        let known = Self::ALL.iter().find(|version| version.number() == number);
        known.copied().ok_or_else(|| malformed("version", 4, Fault::Version(number)))
    }
}
