//! The path of a model's signature.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use modelfmt_core::source::folder_of;

/// The name of a folder's signature.
pub(crate) const OF_FOLDER: &str = "model.sig";

/// Returns the path of a model's signature: `FILE.sig` for a file, `FOLDER/model.sig` for a folder.
#[must_use]
pub fn signature_path(model: &Path) -> PathBuf {
    if model.is_dir() { model.join(OF_FOLDER) } else { file_signature_path(model) }
}

/// Like [`signature_path`], for a path that is known to be a file, without a query of the file system.
#[must_use]
pub fn file_signature_path(file: &Path) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(".sig");
    name.into()
}

/// Returns the [`signature_path`] of the folder that contains a file.
#[must_use]
pub fn folder_signature_path(file: &Path) -> PathBuf {
    folder_of(file).join(OF_FOLDER)
}

/// Returns the path of a signature relative to its model, or `None` if it is outside the model.
pub(crate) fn within(model: &Path, signature: &Path) -> Option<String> {
    let relative = match signature.strip_prefix(model) {
        Ok(relative) => relative.to_owned(),
        // The paths may name the same folder in different ways. The signature need not exist yet, but its folder does.
        Err(_) => {
            let folder = folder_of(signature).canonicalize().ok()?;
            folder.join(signature.file_name()?).strip_prefix(model.canonicalize().ok()?).ok()?.to_owned()
        }
    };
    let names: Option<Vec<&str>> = relative.components().map(|name| name.as_os_str().to_str()).collect();
    names.filter(|names| !names.is_empty()).map(|names| names.join("/"))
}

/// Returns the name of the model in the statement.
pub(crate) fn name_of(model: &Path) -> String {
    let named = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    named(model).or_else(|| named(&model.canonicalize().ok()?)).unwrap_or_else(|| "model".to_owned())
}
