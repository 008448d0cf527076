//! Loads through an asynchronous reader.

use super::{LoadOptions, Loaded, load_opened};
use crate::error::Error;
use crate::execution::Execution;
use crate::plan::Pick;
use crate::read::{AsyncReader, Opened};

impl<T: Opened> AsyncReader<T> {
    /// Fills your buffers with tensors or parts of them, in the order of `picks`, with as many requests in
    /// flight as [`LoadOptions::in_flight`] allows. Each buffer must be as long as its values. The future
    /// only makes requests, copies, and with [`verify`](LoadOptions::verify) hashes, on the thread that polls
    /// it. It uses only the progress callback of `work`.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::NoData`]; [`Error::OutOfRange`] for a buffer of another length; if values do not match the
    /// digests in their file. The buffers may then hold some of the values, checked or not.
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
