//! What has been written of a file.

use modelfmt_core::author::Crc;
use modelfmt_write::Sink;

use crate::error::WriteError;

/// Where a tensor came to lie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// From the start of the file.
    pub(crate) offset: u64,
    /// The bytes that it takes.
    pub(crate) size: u64,
    pub(crate) compressed: bool,
}

/// What was written before the index: the data section.
pub(crate) struct Written {
    pub(crate) crc: Crc,
    /// Where each tensor lies; `None` if all lie as planned.
    pub(crate) places: Option<Vec<Place>>,
}

/// Writes bytes at a place.
pub(crate) fn put(sink: &dyn Sink, at: u64, bytes: &[u8]) -> Result<(), WriteError> {
    sink.write_at(at, bytes).map_err(|source| WriteError::Write { path: sink.name(), source })
}
