//! Streams a plan into a sink.

use modelfmt_core::write::{Region, Sink, TensorData};
use modelfmt_core::{DType, Execution, Part, author::Extent};

use crate::error::{Fault, WriteError};
use crate::layout::Plan;
use crate::metadata::bool_fault;

impl Plan {
    /// Writes the file: tensors in pieces, as `data` gives them, then all that comes before them.
    ///
    /// `data` numbers tensors as their descriptions were given to [`Plan::new`]. Memory does not depend on their size.
    ///
    /// # Errors
    /// [`WriteError::Data`] if values cannot be had, [`WriteError::Unsupported`] for a boolean that is neither 0 nor 1, [`WriteError::Write`],
    /// [`WriteError::Cancelled`]. What has been written by then is for the sink's owner to discard.
    pub fn write(
        &self,
        data: &dyn TensorData,
        sink: &dyn Sink,
        work: &Execution<'_>,
    ) -> Result<(), WriteError> {
        let len = self.head.len() as u64;
        let extent = Extent::new(len, self.file_len().saturating_sub(len), self.file_len());
        let extent = extent.map_err(|_| too_long())?;
        // OINF 1, "High-Level Layout": payloads are padded with 0x00.
        let region = Region { extent, fill: 0, segments: &self.segments };
        let mut first = Ok(());
        let keep = |seen: Result<(), WriteError>| {
            if first.is_ok() {
                first = seen;
            }
        };
        let written = region.write(data, sink, work, |at, bytes| self.bools(at, bytes), keep);
        written.map_err(|error| error.named(&self.table))?;
        first?;
        // The header last: until then these are no bytes of an OINF file.
        sink.write_at(0, &self.head).map_err(|source| WriteError::Write { path: sink.name(), source })
    }

    /// Checks the booleans in a piece of the file: what `verify` would refuse is not written.
    fn bools(&self, at: u64, bytes: &[u8]) -> Result<(), WriteError> {
        let end = at.saturating_add(bytes.len() as u64);
        let first = self.segments.partition_point(|segment| segment.extent.end() <= at);
        let here = self.segments.get(first..).unwrap_or_default();
        for segment in here.iter().take_while(|segment| segment.extent.offset() < end) {
            let info = self.table.info(segment.tensor).filter(|info| info.dtype == DType::Bool);
            let Some(info) = info else { continue };
            let within = |offset: u64| usize::try_from(offset.clamp(at, end) - at).unwrap_or(usize::MAX);
            let range = within(segment.extent.offset())..within(segment.extent.end());
            if let Some(fault) = bool_fault(bytes.get(range).unwrap_or_default()) {
                return Err(WriteError::Unsupported { part: Part::named("tensor", info.name), fault });
            }
        }
        Ok(())
    }
}

fn too_long() -> WriteError {
    WriteError::Unsupported { part: Part::new("file"), fault: Fault::TooLong }
}
