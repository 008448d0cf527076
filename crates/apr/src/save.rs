//! Writes tensors that are in memory, in one call.

use std::path::Path;

use modelfmt_core::write::{Overwrite, Views};
use modelfmt_core::{Execution, View};

use crate::error::Result;
use crate::layout::{Plan, WriteOptions};
use crate::metadata::Metadata;

/// Writes tensors that are in memory to a new file at `path`. It appears there when it is complete; a file that exists is
/// not replaced. Use [`Plan`] for options, for values that are not in memory, or to replace a file.
///
/// ```
/// use apr::{Metadata, Reader, View};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.apr");
/// let metadata = Metadata::new("tiny", Default::default());
/// let w = View::new(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?;
/// apr::save(&path, [("w", w)], &metadata)?;
/// assert_eq!(Reader::open(&path)?.tensor("w")?.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`Plan::new`] and [`Plan::write_file`].
pub fn save<'a>(
    path: impl AsRef<Path>,
    tensors: impl IntoIterator<Item = (&'a str, View<'a>)>,
    metadata: &Metadata,
) -> Result<()> {
    let views: Views<'a> = tensors.into_iter().collect();
    let plan = Plan::new(views.specs(), metadata, &WriteOptions::new())?;
    plan.write_file(path, Overwrite::Refuse, &views, &Execution::default())
}
