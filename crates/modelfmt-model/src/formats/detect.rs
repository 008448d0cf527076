//! Detects the format of a file. Its content decides, never its name.

use std::fmt;
use std::io;
use std::str::FromStr;

use modelfmt_core::author::now_or_never;
use modelfmt_core::{Fetch, Source};

use super::Format;
use super::capabilities::{Access, Capabilities};
use super::entry::Detection;
use modelfmt_rules::wording::Choice;
use modelfmt_rules::wording::ParseError;

impl Format {
    /// Returns the name that the program prints and accepts, such as `apr2-sharded`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.entry().name
    }

    /// Returns the cargo feature that this format needs.
    #[must_use]
    pub const fn feature(self) -> &'static str {
        self.entry().feature
    }

    /// Checks whether this build can read the format.
    #[must_use]
    pub const fn is_enabled(self) -> bool {
        self.entry().fns.is_some()
    }

    /// Checks whether the format can be written, in a build where it is enabled.
    #[must_use]
    pub const fn is_writable(self) -> bool {
        matches!(self.entry().capabilities.access, Access::ReadWrite)
    }

    /// Checks whether a model of this format consists of several files.
    #[must_use]
    pub const fn is_set(self) -> bool {
        self.entry().is_set
    }

    /// Returns the sharded form of this format, whose files have a maximum size, if there is one.
    #[must_use]
    pub const fn sharded(self) -> Option<Self> {
        self.entry().sharded
    }

    /// Returns what the format can hold.
    #[must_use]
    pub const fn capabilities(self) -> &'static Capabilities {
        &self.entry().capabilities
    }

    /// Returns the extension of its files, including the dot, if it has its own.
    #[must_use]
    pub const fn extension(self) -> Option<&'static str> {
        self.entry().ending
    }

    /// Returns the format that current tools expect for the same extension, if it is another one. The
    /// extension alone selects this format.
    #[must_use]
    pub const fn read_today(self) -> Option<Self> {
        match self {
            Self::Apr2 => Some(Self::Apr),
            _ => None,
        }
    }

    /// Returns the format to write for a file name: the writable format with the longest extension that fits.
    #[must_use]
    pub fn for_output(name: &str) -> Option<Self> {
        Self::from_file_name(name).filter(|format| format.is_writable())
    }

    /// Returns the format with the longest extension that fits a file name. Only the content says what a file
    /// really is: see [`detect`](Self::detect).
    #[must_use]
    pub fn from_file_name(name: &str) -> Option<Self> {
        let len = |format: &Self| Some(format.extension().filter(|ending| name.ends_with(ending))?.len());
        let fits = Self::ALL.iter().copied().filter_map(|format| Some((len(&format)?, format)));
        fits.max_by_key(|(len, _)| *len).map(|(_, format)| format)
    }

    /// Checks whether the writer of the format supports a choice.
    pub fn takes(self, choice: Choice) -> bool {
        self.entry().choices.contains(&choice)
    }

    /// The number of first bytes that [`Format::from_first_bytes`] looks at.
    pub const PROBE_LEN: u64 = 20;

    /// Detects the format from the first bytes of a file of `file_len` bytes. [`PROBE_LEN`](Self::PROBE_LEN) bytes are enough for
    /// all formats but the JSON index of a set, which is detected by its keys: see [`detect`](Self::detect).
    #[must_use]
    pub fn from_first_bytes(first: &[u8], file_len: u64) -> Option<Self> {
        // Exact magics come first, in a fixed order. Formats without a magic come last and need other evidence.
        let has_magic = |format: &Self| match format.entry().detection {
            Detection::Magic(magic) => first.starts_with(magic),
            Detection::Header(is_header) => is_header(first),
            Detection::FirstBytes(_) | Detection::Index(_) | Detection::Opening => false,
        };
        let matches_first_bytes = |format: &Self| match format.entry().detection {
            Detection::FirstBytes(is_first) => is_first(first, file_len),
            Detection::Magic(_) | Detection::Header(_) | Detection::Index(_) | Detection::Opening => false,
        };
        let all = || Self::ALL.iter().copied();
        all().find(has_magic).or_else(|| all().find(matches_first_bytes))
    }

    /// Detects the format of a source; `None` if it has no known format.
    ///
    /// # Errors
    /// If the source cannot be read.
    pub fn detect(source: &(impl Source + ?Sized)) -> io::Result<Option<Self>> {
        let first = source.read(0..source.len().min(Self::PROBE_LEN))?;
        if let Some(format) = Self::from_first_bytes(&first, source.len()) {
            return Ok(Some(format));
        }
        if let Some(format) = Self::of_archive(&first, source)? {
            return Ok(Some(format));
        }
        if !may_be_index(&first, source.len()) {
            return Ok(None);
        }
        super::index::detect(source)
    }

    /// Returns the format of a zip archive, from the names in its directory.
    pub(crate) fn of_archive(first: &[u8], source: &(impl Source + ?Sized)) -> io::Result<Option<Self>> {
        Ok(now_or_never(super::zip::detect(first, source)).transpose()?.flatten())
    }

    /// Detects the format of an asynchronous source. A source that may be the index of a set, and is not longer than `max_index`,
    /// is fetched whole.
    #[allow(dead_code, reason = "with no format switched on nothing is opened")]
    pub(crate) async fn detect_async(source: &impl Fetch, max_index: u64) -> io::Result<Option<Self>> {
        let len = source.size();
        let first = source.fetch(0..len.min(Self::PROBE_LEN)).await?;
        if let Some(format) = Self::from_first_bytes(&first, len) {
            return Ok(Some(format));
        }
        if let Some(format) = super::zip::detect(&first, source).await? {
            return Ok(Some(format));
        }
        if !may_be_index(&first, len) || len > max_index {
            return Ok(None);
        }
        super::index::detect(&*source.fetch(0..len).await?)
    }
}

/// Checks whether a file with these first bytes may be the index of a set. Only its keys can decide, and they
/// may be anywhere in the file.
fn may_be_index(first: &[u8], len: u64) -> bool {
    first.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{') && len <= MAX_INDEX_JSON
}

/// The maximum length of the index JSON of a set, in bytes.
pub(crate) const MAX_INDEX_JSON: u64 = 1 << 30;

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Format {
    type Err = ParseError;

    fn from_str(name: &str) -> Result<Self, ParseError> {
        Self::ALL.iter().copied().find(|format| format.name() == name).ok_or_else(|| unknown(name))
    }
}

/// Returns the error for a name that no format has.
fn unknown(name: &str) -> ParseError {
    let mut why = format!("no format is named {name:?}; there are");
    for (number, format) in Format::ALL.iter().enumerate() {
        why.push_str(match number {
            0 => " ",
            _ if number + 1 == Format::ALL.len() => " and ",
            _ => ", ",
        });
        why.push_str(format.name());
    }
    ParseError::new(why)
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
        let weights = |file: &str| format!(r#"{{"metadata": {{}}, "weight_map": {{"a": "{file}"}}}}"#);
        assert_eq!(detect(weights("m-1-of-2.safetensors").as_bytes()), Some(Format::SafetensorsSharded));
        assert_eq!(detect(weights("m-1-of-2.bin").as_bytes()), Some(Format::PytorchSharded));
        assert_eq!(detect(b"\x93NUMPY\x01\0"), Some(Format::Npy));
        let zip = |name: &str| {
            let len = u8::try_from(name.len()).unwrap();
            [b"PK\x03\x04", &[0; 22][..], &[len, 0, 0, 0], name.as_bytes()].concat()
        };
        let first = |bytes: &[u8]| Format::from_first_bytes(bytes, 1 << 20);
        assert_eq!(first(&zip("arr_0.npy")), Some(Format::Npz));
        for name in ["archive/data.pkl", "m/byteorder", "x/data/0", "model/code/__torch__.py"] {
            assert_eq!(first(&zip(name)), Some(Format::Pytorch), "{name}");
        }
        for name in ["word/document.xml", "metadata.json", "data.pkl", ""] {
            assert_eq!(first(&zip(name)), None, "{name}");
        }
        let magic = b"\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.";
        assert_eq!(detect(&[b"\x80\x02", &magic[..]].concat()), Some(Format::Pytorch));
        assert_eq!(detect(&[b"\x80\x04\x95\x0d\0\0\0\0\0\0\0", &magic[..]].concat()), Some(Format::Pytorch));
        assert_eq!(detect(b"\x80\x04\x95\x0d\0\0\0\0\0\0\0}."), None, "a pickle of another program");
        let old = |version: u8, offset: u8| [b"APR2", &[version][..], &[0; 7], &[offset], &[0; 7]].concat();
        assert_eq!(detect(&old(2, 64)), Some(Format::Apr));
        assert_eq!((detect(&old(2, 32)), detect(&old(1, 64))), (Some(Format::Apr2), Some(Format::Apr2)));
        assert_eq!((detect(b"APR2"), detect(b"APR\0")), (Some(Format::Apr2), Some(Format::Apr)));
        assert_eq!(detect(b"APRN"), Some(Format::Aprn));
        assert_eq!(detect(br#"{"format": {"name": "AEROSETS"}}"#), None);
        for nothing in [&b""[..], b"{", b"{}", b"MAG", b"hello world, this is text"] {
            assert_eq!(detect(nothing), None);
        }
    }

    #[test]
    fn names_read_back_and_endings_choose() {
        for &format in Format::ALL {
            assert_eq!(format.name().parse(), Ok(format));
        }
        assert_eq!(Format::for_output("m.safetensors.index.json"), Some(Format::SafetensorsSharded));
        assert_eq!(Format::for_output("m.apr"), Some(Format::Apr2));
        assert_eq!(Format::for_output("m.json"), None);
    }
}
