//! Writes tensors that are in memory in one call, and writes plans to a path.

use modelfmt_core::value::Object;

use crate::error::WriteError;
use crate::layout::{Plan, WriteOptions};

modelfmt_write::save! {
    "safetensors", Plan, WriteOptions, WriteError, impl Into<Option<&'a Object>>;

    /// ```
    /// use modelfmt_safetensors::{Reader, View, value::Object};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.safetensors");
    /// let metadata = Object::from_iter([("format", "pt")]);
    /// let w = View::new(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?;
    /// modelfmt_safetensors::save(&path, [("w", w)], &metadata)?;
    /// assert_eq!(Reader::open(&path)?.tensor("w")?.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn save;
}
