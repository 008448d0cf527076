//! Writes tensors that are in memory in one call, and writes plans to a path.

use modelfmt_core::value::Object;

use crate::error::WriteError;
use crate::layout::Plan;
use crate::options::WriteOptions;

modelfmt_write::save! {
    "AERO", Plan, WriteOptions, WriteError, &Object;

    /// ```
    /// use aero::{Reader, View, value::Object};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.aero");
    /// let metadata = Object::from_iter([("model_name", "tiny"), ("architecture", "none")]);
    /// let w = View::new(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?;
    /// aero::save(&path, [("w", w)], &metadata)?;
    /// assert_eq!(Reader::open(&path)?.tensor("w")?.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn save;
}
