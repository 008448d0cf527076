//! The model that a folder stands for.

use std::io;
use std::path::{Path, PathBuf};

use modelfmt::{Error, OpenOptions};
use modelfmt_core::source::BoxSource;

use super::{judged, not_opened, shown};
use crate::blocking::Store;
use crate::error::Fault;
use crate::url::Location;

/// The most files of a folder that are looked at, because each costs a request.
const LOOKED_AT: usize = 64;

/// The model in a folder, if there is exactly one. Only possible indexes of sets are looked into; other files are judged by their
/// names.
///
/// # Errors
/// [`Error::NoModel`], which names the models if there are several; other errors if the server does not list its files.
pub(super) fn model_in(store: &Store, folder: &Location, options: &OpenOptions) -> Result<Location, Error> {
    let names = store.list(folder).map_err(|error| not_opened(folder, error.fault()))?;
    if names.is_empty() {
        return Err(not_opened(folder, &Fault::NotFound(404)));
    }
    let is_file = |name: &String| !name.ends_with('/') && !name.starts_with('.');
    let files = names.into_iter().filter(is_file).map(PathBuf::from);
    let models: Vec<PathBuf> = files.filter(|path| modelfmt::folder::is_model_name(path)).collect();
    let indexes: Vec<PathBuf> =
        models.iter().filter(|path| may_be_index(path)).take(LOOKED_AT).cloned().collect();
    let open = |path: &Path| -> io::Result<BoxSource> {
        match path.to_str().filter(|_| indexes.iter().any(|index| index == path)) {
            Some(name) => {
                let index = folder.sibling(name);
                judged(&index, options).map_err(|_| io::Error::from(io::ErrorKind::PermissionDenied))?;
                Ok(Box::new(store.open(&index)?))
            }
            None => Err(io::ErrorKind::Unsupported.into()), // its name says that it is a model
        }
    };
    let model = modelfmt::folder::find_models(models, open).only(&shown(folder))?;
    Ok(folder.sibling(&model.to_string_lossy()))
}

/// The model in the folder that a URL names without the final slash, if there is no file with that name.
pub(super) fn model_in_unmarked(
    store: &Store,
    at: &Location,
    options: &OpenOptions,
) -> Option<Result<Location, Error>> {
    let is_listed = matches!(at, Location::Bucket(_) | Location::Hf(_)) && !at.is_folder();
    let folder = at.as_folder();
    let has_files = is_listed && store.list(&folder).is_ok_and(|names| !names.is_empty());
    has_files.then(|| model_in(store, &folder, options))
}

/// Whether a file may name others: the index of a set (one of APR2 has a name like its files), or the first file of a split.
fn may_be_index(path: &Path) -> bool {
    let name = path.to_string_lossy();
    name.ends_with(".json") || name.ends_with(".apr") || name.contains("-00001-of-")
}
