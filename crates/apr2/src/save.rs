//! Writes tensors that are in memory in one call, and writes plans to a path.

use crate::error::WriteError;
use crate::layout::{Plan, WriteOptions};
use crate::metadata::Metadata;

modelfmt_write::save! {
    "APR2", Plan, WriteOptions, WriteError, &Metadata;

    /// ```
    /// use apr2::{Metadata, Reader, View};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.apr");
    /// let metadata = Metadata::new("tiny", Default::default());
    /// let w = View::new(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?;
    /// apr2::save(&path, [("w", w)], &metadata)?;
    /// assert_eq!(Reader::open(&path)?.tensor("w")?.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn save;
}
