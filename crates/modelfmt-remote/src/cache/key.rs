//! The keys of objects in the cache, and the notes about URLs.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// Identifies an object that pages belong to, in the state that its entity tag names. No secret can be
/// derived from the key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CacheKey([u8; 32]);

impl CacheKey {
    /// Returns the key of an object in the state that its entity tag names. `url` has no credentials and no
    /// query; `server` is the endpoint, if the URL does not contain it. `None` for a weak tag (`W/…`), which
    /// does not identify bytes.
    #[must_use]
    pub(crate) fn tagged(server: &str, url: &str, etag: &str, len: u64) -> Option<Self> {
        let is_strong = !etag.is_empty() && !etag.starts_with("W/");
        is_strong.then(|| Self::of("etag", &[server, url, etag, &len.to_string()]))
    }

    /// Returns the key of a URL, whatever object it leads to.
    #[must_use]
    pub(crate) fn url(server: &str, url: &str) -> Self {
        Self::of("url", &[server, url])
    }

    fn of(kind: &str, parts: &[&str]) -> Self {
        let mut hasher = Sha256::new();
        for part in [kind].iter().chain(parts) {
            // Hash each part with its length, so that no two lists of parts give the same text.
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        Self(hasher.finalize().into())
    }
}

impl fmt::Display for CacheKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for CacheKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CacheKey({self})")
    }
}

/// The entity tag and length of an object when the server was last asked. The next request asks whether they have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// The entity tag, as the server sends it.
    pub(crate) etag: String,
    /// The number of bytes.
    pub(crate) len: u64,
}

impl Known {
    /// Formats the length, a space and the tag.
    pub(super) fn to_text(&self) -> String {
        format!("{} {}", self.len, self.etag)
    }

    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let (len, etag) = std::str::from_utf8(text).ok()?.split_once(' ')?;
        // The tag will be sent in a header.
        let is_header = !etag.is_empty() && etag.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        Some(Self { etag: etag.to_owned(), len: len.parse().ok()? }).filter(|_| is_header)
    }
}
