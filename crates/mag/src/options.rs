//! The options for writing a file.

use crate::checksum::Checksum;

/// Options for writing a file of version 1.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    pub(crate) checksum: Checksum,
    pub(crate) reserve: u64,
}

impl WriteOptions {
    /// Creates the default options: CRC-32, as in the document.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Leaves this many bytes between the records and the first buffer, for edits in place
    /// ([`Index::edit`](crate::Index::edit)).
    #[must_use]
    pub const fn reserve(mut self, nbytes: u64) -> Self {
        self.reserve = nbytes;
        self
    }

    /// Sets the kind of checksum. magnetron up to 0.1.2 needs [`Checksum::Crc32c`].
    #[must_use]
    pub const fn checksum(mut self, checksum: Checksum) -> Self {
        self.checksum = checksum;
        self
    }
}

#[cfg(feature = "v0_3")]
/// Options for writing a file of version 0.3: the time and the writer in its manifest.
///
/// The default time is a constant instead of the current time, so that the same input gives the same bytes
/// (docs/formats/mag.md#timestamps).
#[derive(Clone, Debug)]
pub struct ManifestOptions {
    pub(crate) timestamp: String,
    pub(crate) magnetron_version: String,
    pub(crate) reserve: u64,
}

#[cfg(feature = "v0_3")]
impl Default for ManifestOptions {
    fn default() -> Self {
        Self {
            timestamp: "1970-01-01T00:00:00+00:00".to_owned(),
            magnetron_version: "0.2.2".to_owned(),
            reserve: 0,
        }
    }
}

#[cfg(feature = "v0_3")]
impl ManifestOptions {
    /// Creates the default options: the beginning of 1970, and the latest magnetron that this crate was
    /// tested with.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Leaves this many bytes between the manifest and the values, for edits in place
    /// ([`Index::edit`](crate::Index::edit)).
    #[must_use]
    pub const fn reserve(mut self, nbytes: u64) -> Self {
        self.reserve = nbytes;
        self
    }

    /// Sets the time of writing, in ISO 8601 with a time zone, such as `2026-01-31T12:00:00+00:00`.
    #[must_use]
    pub fn timestamp(mut self, timestamp: impl Into<String>) -> Self {
        self.timestamp = timestamp.into();
        self
    }

    /// Sets the version of magnetron that the manifest names.
    #[must_use]
    pub fn magnetron_version(mut self, version: impl Into<String>) -> Self {
        self.magnetron_version = version.into();
        self
    }
}
