//! The files of a model, byte for byte.

#[cfg(not(target_arch = "wasm32"))]
use std::collections::BTreeSet;
#[cfg(not(target_arch = "wasm32"))]
use std::path::PathBuf;

use modelfmt_core::Source;
#[cfg(not(target_arch = "wasm32"))]
use modelfmt_core::source::folder_of;

use crate::error::Result;
#[cfg(not(target_arch = "wasm32"))]
use crate::formats::Format;
#[cfg(not(target_arch = "wasm32"))]
use crate::hub_names::{ABOUT_WEIGHTS, READ_BESIDE, SIGNATURE};
use crate::model::Model;

/// A file of a model. For a set, this is its index or a file that the index names.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ModelFile<'a> {
    /// The name. In a set, the name is relative to the folder of the index.
    pub name: String,
    model: &'a Model,
    /// The number of the file among those that hold tensors; `None` for an index.
    number: Option<usize>,
}

impl<'a> ModelFile<'a> {
    /// Returns the bytes of the file, as they are stored. Reads are checked against the pin and the signature
    /// of the model, if it has been opened with them.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn source(&self) -> Result<&'a dyn Source> {
        match (self.number, &self.model.index_file) {
            (None, Some((_, index))) => Ok(&**index),
            (number, _) => {
                let container = self.model.container();
                container.source_of(number.unwrap_or(0)).map_err(|error| self.model.failed(error))
            }
        }
    }
}

/// Returns the paths of a model's files, and of all files that may be read with them, as
/// [`Model::read_paths`] does.
#[cfg(not(target_arch = "wasm32"))]
#[must_use]
pub fn read_with(own: &[PathBuf]) -> Vec<PathBuf> {
    let signature = |path: &PathBuf| {
        let mut name = path.clone().into_os_string();
        name.push(".sig");
        PathBuf::from(name)
    };
    let signatures = own.iter().map(signature);
    let folders: BTreeSet<PathBuf> = own.iter().map(|path| folder_of(path).to_owned()).collect();
    // The format of a model that a map computes is not that of its file.
    let format = |path: &PathBuf| Format::from_file_name(path.file_name()?.to_str()?);
    let is_described = own.iter().all(|path| format(path).is_some_and(|format| format.family() == "gguf"));
    let names = || {
        let about = ABOUT_WEIGHTS.into_iter().chain(READ_BESIDE).filter(|_| !is_described);
        about.chain([SIGNATURE])
    };
    let beside = folders.iter().flat_map(|folder| names().map(|name| folder.join(name)));
    own.iter().cloned().chain(signatures).chain(beside).collect()
}

impl Model {
    /// Returns the files of the model: its file, or the index of a set and then the files that the index
    /// names.
    #[must_use]
    pub fn files(&self) -> Vec<ModelFile<'_>> {
        self.members().flat_map(Self::own_files).collect()
    }

    /// Returns the paths of all files that may be read for the model, and that no output may replace: its own,
    /// their signatures, and the files of a hub folder beside them. Some may not exist. A GGUF says itself what
    /// those files say.
    #[cfg(not(target_arch = "wasm32"))]
    #[must_use]
    pub fn read_paths(&self) -> Vec<PathBuf> {
        read_with(&self.input_paths().collect::<Vec<_>>())
    }

    fn own_files(&self) -> Vec<ModelFile<'_>> {
        let file = |name: String, number| ModelFile { name, model: self, number };
        let mut files: Vec<_> = self.index_file.iter().map(|(name, _)| file(name.clone(), None)).collect();
        let parts = self.container().file_paths();
        files.extend(parts.into_iter().enumerate().map(|(number, name)| file(name, Some(number))));
        if files.is_empty() {
            files.push(file(self.file_name(), Some(0)));
        }
        files
    }

    /// Returns the name of the model's only file.
    fn file_name(&self) -> String {
        #[cfg(not(target_arch = "wasm32"))]
        let path = self.on_disk.as_deref().unwrap_or(&self.path);
        #[cfg(target_arch = "wasm32")]
        let path = &self.path;
        path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
    }
}
