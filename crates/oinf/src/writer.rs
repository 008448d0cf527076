//! Streams a `Plan` into a sink.

use std::ops::Range;

use modelfmt_core::{DType, Execution, Part, author::Extent};
use modelfmt_write::{BoxError, Region, Sink, TensorData};

use crate::error::{Fault, WriteError};
use crate::layout::Plan;
use crate::metadata::{bool_fault, stray_fault, ternary_fault};

impl Plan {
    /// Writes the file. Values are pulled from `data` in pieces. Everything that comes before the values in
    /// the file is written last.
    ///
    /// `data` numbers the tensors in the order of the descriptions given to [`Plan::new`]. Memory use does
    /// not depend on the model's size.
    ///
    /// # Errors
    /// [`WriteError::Data`] if values cannot be read, [`WriteError::Unsupported`] for values that `verify`
    /// refuses, such as a boolean of 2, [`WriteError::Write`] if the sink refuses bytes,
    /// [`WriteError::Cancelled`] if the progress callback stops the work. The owner of the sink must then
    /// discard what has been written.
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
        let data = WithQuants { data, plan: self };
        let written = region.write(&data, sink, work, |at, bytes| self.check_values(at, bytes), keep);
        written.map_err(|error| error.named(&self.table))?;
        first?;
        // The header is written last, so that an unfinished file does not look like an OINF file.
        sink.write_at(0, &self.head).map_err(|source| WriteError::Write { path: sink.name(), source })
    }

    /// Checks the booleans, the ternaries and the bits after packed elements in a piece of the file, so that
    /// nothing is written that `verify` would refuse.
    fn check_values(&self, at: u64, bytes: &[u8]) -> Result<(), WriteError> {
        let end = at.saturating_add(bytes.len() as u64);
        let first = self.segments.partition_point(|segment| segment.extent.end() <= at);
        let here = self.segments.get(first..).unwrap_or_default();
        for segment in here.iter().take_while(|segment| segment.extent.offset() < end) {
            let Some(info) = self.table.info(segment.tensor) else { continue };
            let within = |offset: u64| usize::try_from(offset.clamp(at, end) - at).unwrap_or(usize::MAX);
            let range = within(segment.extent.offset())..within(segment.extent.end());
            let values = bytes.get(range).unwrap_or_default();
            let is_end = segment.extent.end() <= end;
            let last = values.last().filter(|_| is_end);
            let stray = last.and_then(|&last| stray_fault(info.dtype, last, info.elements()));
            let fault = match info.dtype {
                DType::Bool => bool_fault(values),
                dtype => stray.or_else(|| ternary_fault(dtype, values)),
            };
            if let Some(fault) = fault {
                return Err(WriteError::Unsupported { part: Part::named("tensor", info.name), fault });
            }
        }
        Ok(())
    }
}

/// The values of the tensors, followed by the quant payloads.
struct WithQuants<'a> {
    data: &'a dyn TensorData,
    plan: &'a Plan,
}

impl WithQuants<'_> {
    /// Returns the quant payload with this number, or `None` if the number belongs to a tensor.
    fn payload(&self, number: usize) -> Option<&[u8]> {
        let quant = self.plan.quants.get(number.checked_sub(self.plan.table.len())?);
        quant.map(|quant| &*quant.bytes)
    }
}

impl TensorData for WithQuants<'_> {
    fn read(&self, tensor: usize, offset: u64, out: &mut [u8]) -> Result<(), BoxError> {
        match self.payload(tensor) {
            Some(payload) => [payload].read(0, offset, out),
            None => self.data.read(tensor, offset, out),
        }
    }

    fn borrow(&self, tensor: usize, range: Range<u64>) -> Option<&[u8]> {
        match self.payload(tensor) {
            Some(payload) => {
                payload.get(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?)
            }
            None => self.data.borrow(tensor, range),
        }
    }
}

fn too_long() -> WriteError {
    WriteError::Unsupported { part: Part::new("file"), fault: Fault::TooLong }
}
