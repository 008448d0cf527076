//! Streams a [`Plan`] into a sink.

use modelfmt_core::{Execution, Part, author::Extent};
use modelfmt_write::{Region, Sink, TensorData};

use crate::error::WriteError;
use crate::layout::Plan;

impl Plan {
    /// Writes the file. Each tensor's values are pulled once, in pieces, so memory use does not depend on the
    /// model's size.
    ///
    /// # Errors
    /// [`WriteError::Data`] if values cannot be read, [`WriteError::Write`] if the sink fails, [`WriteError::Cancelled`] if the
    /// progress callback stops the work.
    pub fn write(
        &self,
        data: &dyn TensorData,
        sink: &dyn Sink,
        work: &Execution<'_>,
    ) -> Result<(), WriteError> {
        let failed = |source| WriteError::Write { path: sink.name(), source };
        sink.write_at(0, &self.head).map_err(failed)?;
        let begin = self.head.len() as u64;
        let extent = Extent::new(begin, self.file_len.saturating_sub(begin), self.file_len)
            .map_err(|fault| WriteError::unsupported(Part::new("data"), fault))?;
        let region = Region { extent, fill: 0, segments: &self.segments };
        region.write(data, sink, work, |_, _| (), drop).map_err(|error| error.named(&self.tensors))
    }
}
