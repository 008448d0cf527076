//! Streams a [`Plan`] into a sink.

use modelfmt_core::write::{Region, Sink, TensorData};
use modelfmt_core::{Execution, Extent};

use crate::error::{Error, Result};
use crate::layout::Plan;

impl Plan {
    /// Writes the file, pulling each tensor's values once, in pieces. Memory does not depend on the model's size.
    ///
    /// # Errors
    /// [`Error::Data`] if values cannot be had, [`Error::Write`] if the sink fails, [`Error::Cancelled`].
    pub fn write(&self, data: &dyn TensorData, sink: &dyn Sink, work: &Execution<'_>) -> Result<()> {
        let failed = |source| Error::Write { path: sink.name(), source };
        sink.write_at(0, &self.head).map_err(failed)?;
        let begin = self.head.len() as u64;
        let extent = Extent::new(begin, self.file_len.saturating_sub(begin), self.file_len)
            .map_err(|fault| crate::v1::wire::common(modelfmt_core::Part::new("data"), begin, fault))?;
        let region = Region { extent, fill: self.fill, segments: &self.segments };
        region.write(data, sink, work, |_, _| (), drop).map_err(|error| error.named(&self.tensors))
    }
}
