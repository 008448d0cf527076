//! Unnamed temporary files.

use std::fs::File;
use std::io;

/// Creates an unnamed temporary file in the folder that `TMPDIR` names.
pub(super) fn create() -> io::Result<File> {
    tempfile::tempfile().map_err(|error| {
        let folder = std::env::temp_dir();
        let text = format!("no temporary file in {}, which TMPDIR chooses: {error}", folder.display());
        io::Error::new(error.kind(), text)
    })
}
