//! The two checksums that writers of MAG 1 use.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

/// The kind of checksum in a file (docs/formats/mag.md#checksum).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Checksum {
    /// CRC-32 (IEEE) of the header and the records, with the checksum field taken as zero. This is the
    /// literal reading of the document.
    #[default]
    Crc32,
    /// CRC-32C (Castagnoli) of the bytes after the checksum field, up to the end of the last record.
    /// magnetron writes this one.
    Crc32c,
}

impl Checksum {
    /// Returns `crc32` or `crc32c`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crc32 => "crc32",
            Self::Crc32c => "crc32c",
        }
    }
}

/// Computes both checksums while the header and the records are read.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    crc32: crc32fast::Hasher,
    crc32c: u32,
}

impl Running {
    /// Starts with the header's bytes before and after its checksum.
    pub(crate) fn new([before, after]: [&[u8]; 2]) -> Self {
        let mut crc32 = crc32fast::Hasher::new();
        crc32.update(before);
        crc32.update(&[0; 4]);
        crc32.update(after);
        Self { crc32, crc32c: crc32c::crc32c(after) }
    }

    pub(crate) fn update(&mut self, records: &[u8]) {
        self.crc32.update(records);
        self.crc32c = crc32c::crc32c_append(self.crc32c, records);
    }

    pub(crate) fn value(&self, kind: Checksum) -> u32 {
        match kind {
            Checksum::Crc32 => self.crc32.clone().finalize(),
            Checksum::Crc32c => self.crc32c,
        }
    }

    /// Returns the kind of checksum whose value is `stored`, if any.
    pub(crate) fn kind_of(&self, stored: u32) -> Option<Checksum> {
        [Checksum::Crc32, Checksum::Crc32c].into_iter().find(|&kind| self.value(kind) == stored)
    }
}
