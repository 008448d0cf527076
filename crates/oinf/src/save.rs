//! Writes tensors that are in memory in one call, and writes plans to a path.

use crate::error::WriteError;
use crate::layout::{Plan, WriteOptions};
use crate::metadata::Metadata;

modelfmt_write::save! {
    "OINF", Plan, WriteOptions, WriteError, &Metadata<'_>;

    /// ```
    /// use oinf::{Metadata, Reader, View};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.oinf");
    /// let metadata = Metadata::new();
    /// let w = View::new(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?;
    /// oinf::save(&path, [("w", w)], &metadata)?;
    /// assert_eq!(Reader::open(&path)?.tensor("w")?.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn save;
}
