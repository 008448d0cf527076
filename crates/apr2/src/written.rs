//! The result of writing the data section.

use modelfmt_core::author::Crc;
use modelfmt_write::Sink;

use crate::error::WriteError;

/// The place where a tensor was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The offset from the start of the file.
    pub(crate) offset: u64,
    /// The number of bytes that the tensor takes.
    pub(crate) size: u64,
    pub(crate) compressed: bool,
}

/// The data section after it was written. The index is written later.
pub(crate) struct Written {
    pub(crate) crc: Crc,
    /// The place of each tensor, or `None` if all are as planned.
    pub(crate) places: Option<Vec<Place>>,
}

/// Writes bytes at an offset.
pub(crate) fn put(sink: &dyn Sink, at: u64, bytes: &[u8]) -> Result<(), WriteError> {
    sink.write_at(at, bytes).map_err(|source| WriteError::Write { path: sink.name(), source })
}
