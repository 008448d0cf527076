//! Streams a [`Plan`] into a sink: the header, then the values of each tensor, once and in pieces.

use modelfmt_core::Execution;
use modelfmt_write::{Region, Sink, TensorData};

use crate::error::WriteError;
use crate::layout::Plan;

impl Plan {
    /// Writes the file. `data` numbers the tensors as they were given to [`Plan::new`].
    ///
    /// # Errors
    /// If a value cannot be read, if the sink refuses bytes, or if the progress callback stops the work.
    pub fn write(
        &self,
        data: &dyn TensorData,
        sink: &dyn Sink,
        work: &Execution<'_>,
    ) -> Result<(), WriteError> {
        sink.write_at(0, &self.head).map_err(|source| WriteError::Write { path: sink.name(), source })?;
        let region = Region { extent: self.data, fill: 0, segments: &self.segments };
        region.write(data, sink, work, |_, _| (), drop).map_err(|error| error.named(&self.tensors))
    }
}
