//! The model that a folder stands for.

use std::io;
use std::path::{Path, PathBuf};

use modelfmt::Error;
use modelfmt_core::source::BoxSource;

use super::{not_opened, shown};
use crate::blocking::Store;
use crate::error::Fault;
use crate::url::Location;

/// How many files of a folder are looked at: what each of them is costs a request.
const LOOKED_AT: usize = 64;

/// The model in a folder, if there is one and no other. Only what may be the index of a set is looked at: of other files the name counts.
///
/// # Errors
/// [`Error::NoModel`] names the models, if there are several; others if the server does not list its files.
pub(super) fn model_in(store: &Store, folder: &Location) -> Result<Location, Error> {
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
            Some(name) => Ok(Box::new(store.open(&folder.sibling(name))?)),
            None => Err(io::ErrorKind::Unsupported.into()), // its name says that it is a model
        }
    };
    let model = modelfmt::folder::find_models(models, open).only(&shown(folder))?;
    Ok(folder.sibling(&model.to_string_lossy()))
}

/// The model in the folder that a URL names without its last slash, where there is no file of that name.
pub(super) fn model_in_unmarked(store: &Store, at: &Location) -> Option<Result<Location, Error>> {
    let is_listed = matches!(at, Location::Bucket(_) | Location::Hf(_)) && !at.is_folder();
    let folder = at.as_folder();
    let has_files = is_listed && store.list(&folder).is_ok_and(|names| !names.is_empty());
    has_files.then(|| model_in(store, &folder))
}

/// Whether a file may name others: the index of a set, that of APR2 too, which is called as its files are, and the first file of a split.
fn may_be_index(path: &Path) -> bool {
    let name = path.to_string_lossy();
    name.ends_with(".json") || name.ends_with(".apr") || name.contains("-00001-of-")
}
