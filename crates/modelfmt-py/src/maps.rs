//! Mapped files, whose arrays are parts of the map.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use modelfmt::modelfmt_core::Encoding;
use modelfmt::modelfmt_core::source::{BoxSource, Files, Folder, SharedFiles, check_relative, shared_files};
use modelfmt::{Error, Location, OpenOptions};

use crate::raw::{Block, PrivateMap, SharedMap};

/// The mapped files of a model, by their names in the set. The file itself is "".
#[derive(Default)]
pub(crate) struct Maps(Mutex<HashMap<String, Arc<PrivateMap>>>);

impl Maps {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<PrivateMap>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, name: &str, path: &Path) -> io::Result<SharedMap> {
        Ok(self.keep(name, PrivateMap::open(path)?))
    }

    pub(crate) fn keep(&self, name: &str, map: PrivateMap) -> SharedMap {
        let map = Arc::new(map);
        self.lock().insert(name.to_owned(), Arc::clone(&map));
        SharedMap(map)
    }

    /// Returns the part of a map that holds a tensor's values unchanged.
    pub(crate) fn block(&self, model: &modelfmt::Model, position: usize, len: u64) -> Option<Block> {
        let is_raw = |at: &Location| at.encoding == Encoding::Raw && at.stored_nbytes == len;
        let location = model.location(position).ok().filter(is_raw)?;
        let map = Arc::clone(self.lock().get(location.file.as_deref().unwrap_or_default())?);
        Block::of_map(&map, location.offset?, len)
    }
}

/// The files of a set, mapped.
struct MappedFolder {
    folder: Folder,
    maps: Arc<Maps>,
}

impl Files for MappedFolder {
    type Source = BoxSource;

    fn open(&self, path: &str) -> io::Result<BoxSource> {
        check_relative(path).map_err(|fault| io::Error::new(io::ErrorKind::InvalidInput, fault))?;
        Ok(Box::new(self.maps.open(path, &self.folder.path().join(path))?))
    }
}

/// Opens the model at a path. The maps are `None` if the values must be checked: then they are read through
/// the model instead of being lent from the map.
pub(crate) fn open_mapped(
    path: &Path,
    options: &OpenOptions,
) -> Result<(modelfmt::Model, Option<Arc<Maps>>), Error> {
    let failed = |source| Error::Open { path: path.to_owned(), source };
    let maps = Arc::new(Maps::default());
    let source = maps.open("", path).map_err(failed)?;
    let files: SharedFiles =
        shared_files(MappedFolder { folder: Folder::containing(path), maps: Arc::clone(&maps) });
    let model = options.open_source(&path.to_string_lossy(), Box::new(source), Some(files))?;
    Ok((model, (!options.binds_content()).then_some(maps)))
}
