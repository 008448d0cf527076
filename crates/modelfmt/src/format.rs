//! Which format a file is of: told by its content, never by its name.

use std::fmt;
use std::io;
use std::str::FromStr;

use modelfmt_core::Source;
use modelfmt_core::value::{Value, json};

/// A file format, or the form of a model of many files. All are always listed, whatever features are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Format {
    /// AERO 0.1.
    Aero,
    /// Many AERO files and their index JSON.
    AeroSet,
    /// MAG 1.
    Mag,
    /// OINF 1.
    Oinf,
    /// APR2 2.0.
    Apr2,
    /// Many APR2 files and their manifest JSON.
    Apr2Sharded,
    /// APR1; read only.
    Apr1,
    /// safetensors.
    Safetensors,
    /// Many safetensors files and their index JSON.
    SafetensorsSharded,
    /// GGUF; read only.
    Gguf,
}

impl Format {
    /// Every format.
    pub const ALL: &'static [Self] = &[
        Self::Aero,
        Self::AeroSet,
        Self::Mag,
        Self::Oinf,
        Self::Apr2,
        Self::Apr2Sharded,
        Self::Apr1,
        Self::Safetensors,
        Self::SafetensorsSharded,
        Self::Gguf,
    ];

    /// The name that the program prints and takes, such as `apr2-sharded`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aero => "aero",
            Self::AeroSet => "aeroset",
            Self::Mag => "mag",
            Self::Oinf => "oinf",
            Self::Apr2 => "apr2",
            Self::Apr2Sharded => "apr2-sharded",
            Self::Apr1 => "apr1",
            Self::Safetensors => "safetensors",
            Self::SafetensorsSharded => "safetensors-sharded",
            Self::Gguf => "gguf",
        }
    }

    /// The cargo feature that this format needs.
    #[must_use]
    pub const fn feature(self) -> &'static str {
        match self {
            Self::Aero | Self::AeroSet => "aero",
            Self::Mag => "mag",
            Self::Oinf => "oinf",
            Self::Apr2 | Self::Apr2Sharded | Self::Apr1 => "apr2",
            Self::Safetensors | Self::SafetensorsSharded => "safetensors",
            Self::Gguf => "gguf",
        }
    }

    /// Whether this build can read the format.
    #[must_use]
    pub const fn is_enabled(self) -> bool {
        match self {
            Self::Aero | Self::AeroSet => cfg!(feature = "aero"),
            Self::Mag => cfg!(feature = "mag"),
            Self::Oinf => cfg!(feature = "oinf"),
            Self::Apr2 | Self::Apr2Sharded | Self::Apr1 => cfg!(feature = "apr2"),
            Self::Safetensors | Self::SafetensorsSharded => cfg!(feature = "safetensors"),
            Self::Gguf => cfg!(feature = "gguf"),
        }
    }

    /// Whether the format is written as well as read.
    #[must_use]
    pub const fn is_writable(self) -> bool {
        !matches!(self, Self::Apr1 | Self::Gguf)
    }

    /// Whether a model of this format consists of several files.
    #[must_use]
    pub const fn is_set(self) -> bool {
        matches!(self, Self::AeroSet | Self::Apr2Sharded | Self::SafetensorsSharded)
    }

    /// The format that a file name asks for when a model is written: by its ending.
    #[must_use]
    pub fn of_output(name: &str) -> Option<Self> {
        // The longer endings first.
        const ENDINGS: &[(&str, Format)] = &[
            (".aeroset.json", Format::AeroSet),
            (".safetensors.index.json", Format::SafetensorsSharded),
            (".aero", Format::Aero),
            (".mag", Format::Mag),
            (".oinf", Format::Oinf),
            (".apr", Format::Apr2),
            (".safetensors", Format::Safetensors),
        ];
        ENDINGS.iter().find(|(ending, _)| name.ends_with(ending)).map(|&(_, format)| format)
    }

    /// Tells the format from the first bytes of a file of `file_len` bytes; [`PROBE`] of them are enough for all but
    /// the JSON of sets, which is told by its keys: see [`detect`](Self::detect).
    #[must_use]
    pub fn of_first_bytes(first: &[u8], file_len: u64) -> Option<Self> {
        // Exact magics first, in a fixed order; what has no magic comes last and by proof.
        const MAGICS: &[(&[u8], Format)] = &[
            (b"AERO", Format::Aero),
            (b"MAG!", Format::Mag),
            (b"OINF\0", Format::Oinf),
            (b"APR2", Format::Apr2),
            (b"APR1", Format::Apr1),
            (b"GGUF", Format::Gguf),
        ];
        if let Some(&(_, format)) = MAGICS.iter().find(|(magic, _)| first.starts_with(magic)) {
            return Some(format);
        }
        let header_len = u64::from_le_bytes(*first.first_chunk()?);
        let plausible = header_len.checked_add(8).is_some_and(|end| end <= file_len);
        (plausible && header_len >= 2 && first.get(8) == Some(&b'{')).then_some(Self::Safetensors)
    }

    /// Tells the format of a source; `None` if it is none of these.
    ///
    /// # Errors
    /// If the source cannot be read.
    pub fn detect(source: &(impl Source + ?Sized)) -> io::Result<Option<Self>> {
        let first = source.read(0..source.len().min(PROBE))?;
        if let Some(format) = Self::of_first_bytes(&first, source.len()) {
            return Ok(Some(format));
        }
        let is_json = first.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
        if !is_json || source.len() > MAX_INDEX_JSON {
            return Ok(None);
        }
        let text = source.read(0..source.len())?;
        Ok(json::parse(&text).ok().and_then(|index| Self::of_json(&index)))
    }

    fn of_json(index: &Value) -> Option<Self> {
        if index.path(["format", "name"]).and_then(Value::as_str) == Some("AEROSET") {
            return Some(Self::AeroSet);
        }
        if index.get("apr_version").is_some() && index.get("shards").is_some() {
            return Some(Self::Apr2Sharded);
        }
        index.get("weight_map").map(|_| Self::SafetensorsSharded)
    }
}

/// The first bytes that [`Format::of_first_bytes`] looks at.
pub const PROBE: u64 = 16;

/// The index JSON of a set is read whole; none is longer than this.
pub(crate) const MAX_INDEX_JSON: u64 = 1 << 30;

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// No format has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no format is named {0:?}; there are aero, aeroset, mag, oinf, apr2, apr2-sharded, apr1, safetensors, safetensors-sharded and gguf"
)]
pub struct UnknownFormat(pub String);

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        Self::ALL
            .iter()
            .copied()
            .find(|format| format.name() == name)
            .ok_or_else(|| UnknownFormat(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_tells_the_format() {
        let detect = |bytes: &[u8]| Format::detect(&bytes).unwrap();
        assert_eq!(detect(b"MAG!"), Some(Format::Mag));
        assert_eq!(detect(b"OINF\0...."), Some(Format::Oinf));
        assert_eq!(detect(b"\x02\0\0\0\0\0\0\0{}"), Some(Format::Safetensors));
        assert_eq!(detect(b"\x03\0\0\0\0\0\0\0{}"), None, "the header would be longer than the file");
        assert_eq!(detect(br#" {"format": {"name": "AEROSET"}}"#), Some(Format::AeroSet));
        assert_eq!(detect(br#"{"apr_version": "2.0.0", "shards": []}"#), Some(Format::Apr2Sharded));
        assert_eq!(detect(br#"{"weight_map": {}}"#), Some(Format::SafetensorsSharded));
        for nothing in [&b""[..], b"{", b"{}", b"MAG", b"hello world, this is text"] {
            assert_eq!(detect(nothing), None);
        }
    }

    #[test]
    fn names_read_back_and_endings_choose() {
        for &format in Format::ALL {
            assert_eq!(format.name().parse(), Ok(format));
        }
        assert_eq!(Format::of_output("m.safetensors.index.json"), Some(Format::SafetensorsSharded));
        assert_eq!(Format::of_output("m.apr"), Some(Format::Apr2));
        assert_eq!(Format::of_output("m.json"), None);
    }
}
