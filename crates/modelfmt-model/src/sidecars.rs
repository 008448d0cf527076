//! Files beside a model: which of them are read.

use std::io;
use std::path::{Path, PathBuf};
#[cfg(feature = "sign")]
use std::sync::Arc;

use modelfmt_core::source::{BoxSource, FileSource, folder_of};

use crate::open::OpenOptions;

/// The files beside a model that may be read for what it does not say itself. This is the one place where they are opened, so that whatever was
/// demanded of the model is demanded of them too.
#[derive(Clone, Debug)]
pub enum Sidecars {
    /// None: it was not opened by its path.
    Nothing,
    /// Those of this folder.
    Folder(PathBuf),
    /// Those of this folder, if the signature of the folder covers them.
    #[cfg(feature = "sign")]
    Signed(PathBuf, Arc<modelfmt_oms::SignedFiles>),
    /// None of this folder: the model must be what a pin or a signature says, which does not cover them.
    Untrusted(PathBuf),
}

impl Sidecars {
    /// For a model whose file, or whose index, is `file`.
    pub(crate) fn of(options: &OpenOptions, file: &Path) -> Self {
        let folder = folder_of(file).to_owned();
        #[cfg(feature = "sign")]
        if let Some(signed) = &options.signed {
            return Self::Signed(folder, Arc::clone(signed));
        }
        if options.binds_content() { Self::Untrusted(folder) } else { Self::Folder(folder) }
    }

    /// The file of that name, if it is a regular file and may be read.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(&self, name: &str) -> io::Result<Option<BoxSource>> {
        let path = match self {
            Self::Nothing | Self::Untrusted(_) => return Ok(None),
            Self::Folder(folder) => folder.join(name),
            #[cfg(feature = "sign")]
            Self::Signed(folder, signed) if signed.covers(&folder.join(name)) => folder.join(name),
            #[cfg(feature = "sign")]
            Self::Signed(..) => return Ok(None),
        };
        // A pipe or a device of that name is not read.
        if !is_file(&path) {
            return Ok(None);
        }
        let source = FileSource::open(&path)?;
        #[cfg(feature = "sign")]
        if let Self::Signed(_, signed) = self {
            return Ok(Some(Box::new(signed.source(&path, source)?)));
        }
        Ok(Some(Box::new(source)))
    }

    /// Whether there is a file of that name that is not read, because what was demanded of the model says nothing about it.
    pub fn ignores(&self, name: &str) -> bool {
        match self {
            Self::Nothing | Self::Folder(_) => false,
            #[cfg(feature = "sign")]
            Self::Signed(folder, signed) => {
                let path = folder.join(name);
                !signed.covers(&path) && is_file(&path)
            }
            Self::Untrusted(folder) => is_file(&folder.join(name)),
        }
    }
}

fn is_file(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file())
}
