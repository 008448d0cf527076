//! Finds which files beside a model may be read.

use std::io;
use std::path::{Path, PathBuf};
#[cfg(feature = "sign")]
use std::sync::Arc;

use modelfmt_core::source::{BoxSource, FileSource, folder_of};

use crate::open::OpenOptions;

/// The files beside a model that may be read for information that the model lacks. They are opened only here, so that a pin or
/// signature for the model also applies to them.
#[derive(Clone, Debug)]
pub enum Sidecars {
    /// No files: the model was not opened by its path.
    Nothing,
    /// The files in this folder.
    Folder(PathBuf),
    /// The files in this folder that the signature of the folder covers.
    #[cfg(feature = "sign")]
    Signed(PathBuf, Arc<modelfmt_oms::SignedFiles>),
    /// No file in this folder: the model has a pin or a signature, which does not cover them.
    Untrusted(PathBuf),
}

impl Sidecars {
    /// The files beside a model whose file or index is `file`.
    pub(crate) fn of(options: &OpenOptions, file: &Path) -> Self {
        let folder = folder_of(file).to_owned();
        #[cfg(feature = "sign")]
        if let Some(signed) = &options.signed {
            return Self::Signed(folder, Arc::clone(signed));
        }
        if options.binds_content() { Self::Untrusted(folder) } else { Self::Folder(folder) }
    }

    /// Opens the file with that name, if it is a regular file and may be read.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn open(&self, name: &str) -> io::Result<Option<BoxSource>> {
        let path = match self {
            Self::Nothing | Self::Untrusted(_) => return Ok(None),
            Self::Folder(folder) => folder.join(name),
            #[cfg(feature = "sign")]
            Self::Signed(folder, signed) if signed.covers(&folder.join(name)) => folder.join(name),
            #[cfg(feature = "sign")]
            Self::Signed(..) => return Ok(None),
        };
        // A pipe or a device with that name is not read.
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

    /// Whether there is a file with that name that is ignored, because the pin or signature of the model does not cover it.
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
