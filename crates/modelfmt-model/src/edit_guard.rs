//! Files that are not being edited.

use std::io;

use modelfmt_core::source::{FileSource, Files, Folder};

/// The files of a set. Opening one that is being edited fails.
pub(crate) struct UneditedFiles(pub(crate) Folder);

impl Files for UneditedFiles {
    type Source = FileSource;

    fn open(&self, path: &str) -> io::Result<FileSource> {
        let source = self.0.open(path)?;
        let file = self.0.path().join(path);
        if let Some(journal) = modelfmt_write::edit::interrupted_by(&file) {
            let name = journal.file_name().unwrap_or_default().to_string_lossy();
            let text = format!(
                "an edit of it was interrupted or is still running; the journal {name} can undo or complete it, which the next edit does first"
            );
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, text));
        }
        Ok(source)
    }
}
