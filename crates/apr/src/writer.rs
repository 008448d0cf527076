//! Streams a [`Plan`] into a sink.

use modelfmt_core::{
    Execution, Part,
    author::{Crc, Extent},
};
use modelfmt_write::{Region, Sink, TensorData};

use crate::error::{WriteError, unfit};
use crate::layout::Plan;

impl Plan {
    /// Writes the file. Values are pulled from `data` in order and in pieces. `data` numbers the tensors in
    /// the order of their descriptions. Memory use does not depend on the model's size.
    ///
    /// # Errors
    /// [`WriteError::Data`] if values cannot be read, [`WriteError::Write`] if the sink refuses bytes,
    /// [`WriteError::Cancelled`] if the progress callback stops the work. The owner of the sink must then
    /// discard what has been written.
    pub fn write(
        &self,
        data: &dyn TensorData,
        sink: &dyn Sink,
        work: &Execution<'_>,
    ) -> Result<(), WriteError> {
        let failed = |source| WriteError::Write { path: sink.name(), source };
        sink.write_at(0, &self.head).map_err(failed)?;
        let begin = self.head.len() as u64;
        let extent = Extent::new(begin, self.data_end.saturating_sub(begin), self.data_end)
            .map_err(|fault| unfit(Part::new("data"), fault))?;
        let region = Region { extent, fill: 0, segments: &self.segments };
        let mut crc = Crc::of(&self.head);
        let written = region.write(data, sink, work, |_, bytes| Crc::of(bytes), |next| crc = crc.then(next));
        written.map_err(|error| error.named(&self.tensors))?;
        sink.write_at(self.data_end, &crc.value.to_le_bytes()).map_err(failed)
    }
}
