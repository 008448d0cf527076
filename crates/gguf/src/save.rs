//! Writes tensors that are in memory in one call, and writes plans to a path.

use crate::error::WriteError;
use crate::layout::Plan;
use crate::metadata::Metadata;
use crate::options::WriteOptions;

modelfmt_write::save! {
    "GGUF", Plan, WriteOptions, WriteError, &Metadata;

    /// ```
    /// use modelfmt_gguf::{MetaValue, Metadata, Reader, View};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.gguf");
    /// let mut metadata = Metadata::new();
    /// metadata.push("general.architecture", MetaValue::String("llama"))?;
    /// let w = View::new(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?;
    /// modelfmt_gguf::save(&path, [("w", w)], &metadata)?;
    /// assert_eq!(Reader::open(&path)?.tensor("w")?.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn save;
}
