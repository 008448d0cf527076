//! Finds the model in a folder.

use std::io;
use std::path::{Path, PathBuf};

use modelfmt::{Error, OpenOptions};
use modelfmt_core::source::BoxSource;

use super::{judged, open_error, shown};
use crate::blocking::Store;
use crate::error::Fault;
use crate::url::Location;

/// The maximum number of files of a folder that are opened, because each takes a request.
const MAX_OPENED: usize = 64;

/// Finds the model in a folder, if there is exactly one. Only files that may be indexes of sets are opened;
/// other files are judged by their names.
///
/// # Errors
/// [`Error::NoModel`], which names the models if there are several; other errors if the server cannot list
/// its files.
pub(super) fn model_in(store: &Store, folder: &Location, options: &OpenOptions) -> Result<Location, Error> {
    let names = store.list(folder).map_err(|error| open_error(folder, error.fault()))?;
    if names.is_empty() {
        return Err(open_error(folder, &Fault::NotFound(404)));
    }
    let is_file = |name: &String| !name.ends_with('/') && !name.starts_with('.');
    let files = names.into_iter().filter(is_file).map(PathBuf::from);
    let models: Vec<PathBuf> = files.filter(|path| modelfmt::folder::is_model_name(path)).collect();
    let indexes: Vec<PathBuf> =
        models.iter().filter(|path| may_be_index(path)).take(MAX_OPENED).cloned().collect();
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

/// Finds the model in a folder whose URL lacks the final slash, if there is no file with that name.
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

/// Checks whether a file may name other files: the index of a set (APR2 indexes are named like their files),
/// or the first file of a split.
fn may_be_index(path: &Path) -> bool {
    let name = path.to_string_lossy();
    name.ends_with(".json") || name.ends_with(".apr") || name.contains("-00001-of-")
}
