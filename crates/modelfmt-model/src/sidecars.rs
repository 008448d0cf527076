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
    /// The files of the other value that a policy allows.
    #[cfg(all(feature = "policy", not(target_arch = "wasm32")))]
    Judged(Box<OpenOptions>, Box<Sidecars>),
    /// No file in this folder: the model has a pin or a signature, which does not cover them.
    Untrusted(PathBuf),
}

impl Sidecars {
    /// Returns the files beside a model whose file or index is `file`.
    pub(crate) fn of(options: &OpenOptions, file: &Path) -> Self {
        let found = Self::trusted(options, file);
        #[cfg(all(feature = "policy", not(target_arch = "wasm32")))]
        if options.policy.is_some() {
            return Self::Judged(Box::new(options.clone()), Box::new(found));
        }
        found
    }

    /// Returns the files in a folder that may be read with these options.
    #[must_use]
    pub fn in_folder(options: &OpenOptions, folder: &Path) -> Self {
        Self::of(options, &folder.join("config.json"))
    }

    fn trusted(options: &OpenOptions, file: &Path) -> Self {
        let folder = folder_of(file).to_owned();
        #[cfg(feature = "sign")]
        if let Some(signed) = &options.signed {
            return Self::Signed(folder, Arc::clone(signed));
        }
        if options.binds_content() { Self::Untrusted(folder) } else { Self::Folder(folder) }
    }

    /// Returns the path of the file with that name, if files are read at all.
    #[cfg(all(feature = "policy", not(target_arch = "wasm32")))]
    fn path(&self, name: &str) -> Option<PathBuf> {
        match self {
            Self::Nothing | Self::Untrusted(_) => None,
            Self::Judged(_, files) => files.path(name),
            Self::Folder(folder) | Self::Signed(folder, _) => Some(folder.join(name)),
        }
    }

    /// Opens the file with that name, if it is a regular file and may be read.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn open(&self, name: &str) -> io::Result<Option<BoxSource>> {
        let path = match self {
            Self::Nothing | Self::Untrusted(_) => return Ok(None),
            #[cfg(all(feature = "policy", not(target_arch = "wasm32")))]
            Self::Judged(options, files) => return judged(options, files, name),
            Self::Folder(folder) => folder.join(name),
            #[cfg(feature = "sign")]
            Self::Signed(folder, signed) if signed.covers(&folder.join(name)) => folder.join(name),
            #[cfg(feature = "sign")]
            Self::Signed(..) => return Ok(None),
        };
        // A pipe or a device with that name is not read. A link that leads nowhere is an error:
        // the file should be there.
        if !is_file(&path) {
            return if path.is_symlink() { std::fs::metadata(&path).map(|_| None) } else { Ok(None) };
        }
        let source = FileSource::open(&path)?;
        #[cfg(feature = "sign")]
        if let Self::Signed(_, signed) = self {
            return Ok(Some(Box::new(signed.source(&path, source)?)));
        }
        Ok(Some(Box::new(source)))
    }

    /// Returns why the file with that name is ignored, if it is: a rule of a policy, or the pin or signature
    /// of the model.
    #[must_use]
    pub fn ignored(&self, name: &str) -> Option<String> {
        #[cfg(feature = "policy")]
        if let Some(why) = self.refusal(name) {
            return Some(why);
        }
        let text = || format!("the pin or the signature does not cover the {name} beside the file");
        self.ignores(name).then(text)
    }

    /// Returns why a policy refuses the file with that name.
    #[cfg(feature = "policy")]
    fn refusal(&self, name: &str) -> Option<String> {
        let Self::Judged(options, files) = self else { return None };
        let path = files.path(name).filter(|path| is_file(path))?;
        match FileSource::open(&path) {
            Ok(source) => {
                options.judged(&path, Box::new(source)).err().map(|error| error.without_path(&path))
            }
            Err(error) => Some(error.to_string()),
        }
    }

    /// Checks whether there is a file with that name that is ignored, because the pin or signature of the
    /// model does not cover it or a policy refuses it.
    pub fn ignores(&self, name: &str) -> bool {
        match self {
            Self::Nothing | Self::Folder(_) => false,
            #[cfg(all(feature = "policy", not(target_arch = "wasm32")))]
            Self::Judged(_, files) => files.ignores(name) || self.refusal(name).is_some(),
            #[cfg(feature = "sign")]
            Self::Signed(folder, signed) => {
                let path = folder.join(name);
                !signed.covers(&path) && is_file(&path)
            }
            Self::Untrusted(folder) => is_file(&folder.join(name)),
        }
    }
}

/// Opens a file if the policy allows it. A refused file is not read, like a file that a pin or a signature
/// does not cover.
#[cfg(all(feature = "policy", not(target_arch = "wasm32")))]
fn judged(options: &OpenOptions, files: &Sidecars, name: &str) -> io::Result<Option<BoxSource>> {
    let Some(path) = files.path(name) else { return Ok(None) };
    match files.open(name)? {
        Some(source) => Ok(options.judged(&path, source).ok()),
        None => Ok(None),
    }
}

fn is_file(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file())
}
