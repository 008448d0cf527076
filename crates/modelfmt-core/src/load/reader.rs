//! Loads through a reader whose source is waited for.

use super::{LoadOptions, Loaded, load_opened};
use crate::error::Error;
use crate::execution::Execution;
use crate::plan::Pick;
use crate::read::{AsyncReader, Opened};

impl<T: Opened> AsyncReader<T> {
    /// Fills buffers of your own with tensors or parts of them, in the order of `picks`, with several requests under way at once: as many as
    /// [`LoadOptions::in_flight`] allows. Each buffer is as long as the values. The future does no more than to ask and to copy, and with
    /// [`verify`](LoadOptions::verify) to hash, where it is polled; of `work`, it uses the progress.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::NoData`]; [`Error::OutOfRange`] for a buffer of another length; if values are not what their file states. The
    /// buffers may hold some of the values then, checked or not.
    pub async fn load_into(
        &self,
        picks: &[Pick],
        buffers: &mut [&mut [u8]],
        options: &LoadOptions,
        work: &Execution<'_>,
    ) -> Result<Loaded, Error<T::Fault>> {
        let loaded = load_opened(&self.0, picks, buffers, options, work).await;
        loaded.map_err(|error| self.0.named(error))
    }
}
