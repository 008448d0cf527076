//! Writes models into buckets.

use std::io;
use std::path::{Path, PathBuf};

use modelfmt::convert::{ConvertOptions, Converted, Overwrite};
use modelfmt::convert::{Saving, files_of_index};
use modelfmt::wording::{Choice, Note};
use modelfmt::{Conversion, Error, Execution, Limits, Model};
use modelfmt_core::Source as _;
use modelfmt_write::{Discard, NewFiles as _, Output as _, Sink, TensorData};

use super::shown;
use crate::blocking::Store;
use crate::error::Error as RemoteError;
use crate::url::Location;
use crate::write::NewObjects;

/// Converts a model into an object in a bucket, or into the objects of a set. If a set is replaced, objects of the old set that
/// the new one does not have are removed afterwards.
///
/// # Errors
/// The errors of [`Conversion::write`]. The option `outboard` is also an error, because an outboard can be
/// written only next to a local file.
pub fn convert(store: &Store, at: &Location, conversion: Conversion<'_>) -> Result<Converted, Error> {
    let (model, work) = (conversion.model(), &conversion.chosen_execution());
    let bucket = Bucket::of_model(store, at, model, conversion.chosen())?;
    let conversion = conversion.plan()?;
    let bucket = bucket.expecting(conversion.nbytes());
    if !conversion.target().is_set() {
        return bucket.one(|object| conversion.write_to_sink(object, work));
    }
    let index = conversion.index_name(&bucket.name)?;
    let old = bucket.files_of_old(&index);
    let mut converted =
        conversion.write_to_files(&bucket.name, &bucket.files, work).map_err(|error| bucket.named(error))?;
    let new: Vec<&str> = converted.files.iter().map(|file| file.path.as_str()).collect();
    let inputs = inputs(model);
    let is_input = |old: &str| inputs.contains(&shown(&at.sibling(old)));
    let stale = old.iter().filter(|old| !new.contains(&old.as_str()) && !is_input(old));
    let notes: Vec<Note> = stale.map(|stale| bucket.remove(&index, stale).into()).collect();
    converted.notes.extend(notes);
    Ok(converted)
}

/// Does everything that [`convert()`] does, but writes nothing, like `Conversion::dry_run`.
///
/// # Errors
/// If the target format cannot hold the model, the model cannot be read, or the bucket cannot be written to.
pub fn dry_run(store: &Store, at: &Location, conversion: Conversion<'_>) -> Result<Converted, Error> {
    let work = &conversion.chosen_execution();
    let bucket = Bucket::of_model(store, at, conversion.model(), conversion.chosen())?;
    let conversion = conversion.plan()?;
    if conversion.target().is_set() {
        let done = conversion.dry_run_to_files(&bucket.name, &bucket.files, work);
        return done.map_err(|error| bucket.named(error));
    }
    bucket.check()?;
    let nothing = Discard::named(&bucket.name);
    conversion.write_to_sink(&nothing, work).map_err(|error| bucket.named(error))
}

/// Writes tensors, with the values in `data`, into a bucket, as `Saving::write` does into files. The path of
/// `saving` is `at`.
///
/// # Errors
/// The errors of `Saving::write`.
pub fn save(
    store: &Store,
    at: &Location,
    saving: &Saving<'_>,
    data: &dyn TensorData,
    work: &Execution<'_>,
) -> Result<(), Error> {
    let options = saving.options();
    expect_no_outboard(options)?;
    let bucket = Bucket::new(store, at, options.output.overwrite)?.expecting(saving.nbytes());
    if !saving.target().is_set() {
        return bucket.one(|object| saving.write_to_sink(data, object, work));
    }
    let index = saving.index_name(&bucket.name).map_err(|error| bucket.named(error))?;
    let old = bucket.files_of_old(&index);
    let new = saving.write_to_files(data, &bucket.name, &bucket.files, work);
    let new = new.map_err(|error| bucket.named(error))?;
    for stale in old.iter().filter(|old| new.iter().all(|new| new.path != **old)) {
        let _ = bucket.remove(&index, stale);
    }
    Ok(())
}

/// Calls `write` with a sink for objects in the folder of `at`, each of at most `nbytes`. The sink can be
/// used to write the parts of a set (`PartPlan`). Errors name the objects by their URLs.
///
/// # Errors
/// The errors of `write`, and [`Error::Write`] for a URL that is not in a bucket.
pub fn write_parts<T>(
    store: &Store,
    at: &Location,
    overwrite: Overwrite,
    nbytes: u64,
    write: impl FnOnce(&NewObjects) -> Result<T, Error>,
) -> Result<T, Error> {
    let bucket = Bucket::new(store, at, overwrite)?.expecting(nbytes);
    write(&bucket.files).map_err(|error| bucket.named(error))
}

fn expect_no_outboard(options: &ConvertOptions) -> Result<(), Error> {
    let why = "it is written beside files of this machine; convert into one, and copy both";
    match options.output.outboard {
        true => Err(Error::Usage { choice: Choice::Outboard, why: why.to_owned(), remedy: None }),
        false => Ok(()),
    }
}

/// The place in a bucket that a model is written to.
struct Bucket<'a> {
    store: &'a Store,
    at: &'a Location,
    overwrite: Overwrite,
    files: NewObjects,
    /// The name of the object, or of the index of the set.
    name: String,
}

impl<'a> Bucket<'a> {
    fn new(store: &'a Store, at: &'a Location, overwrite: Overwrite) -> Result<Self, Error> {
        let files = NewObjects::new(store.inner().clone(), at, overwrite).map_err(|error| {
            let source = io::Error::other(error.fault().clone());
            Error::Write { path: shown(at), source }
        })?;
        let name = files.file_name().to_owned();
        Ok(Self { store, at, overwrite, files, name })
    }

    fn of_model(
        store: &'a Store,
        at: &'a Location,
        model: &Model,
        options: &ConvertOptions,
    ) -> Result<Self, Error> {
        expect_no_outboard(options)?;
        if inputs(model).contains(&shown(at)) {
            let why = "it is a file of the input, which must not be overwritten; choose another name";
            let source = io::Error::new(io::ErrorKind::InvalidInput, why);
            return Err(Error::Write { path: shown(at), source });
        }
        Self::new(store, at, options.output.overwrite)
    }

    fn expecting(self, nbytes: u64) -> Self {
        Self { files: self.files.expecting(nbytes), ..self }
    }

    fn check(&self) -> Result<(), Error> {
        self.files.check(&self.name).map_err(|source| self.failed(source))
    }

    /// Writes one object, which appears when it is complete.
    fn one<T>(&self, write: impl FnOnce(&dyn Sink) -> Result<T, Error>) -> Result<T, Error> {
        self.check()?;
        let object = self.files.create(&self.name).map_err(|source| self.failed(source))?;
        let done = write(&object).map_err(|error| self.named(error))?;
        object.commit().map_err(|source| self.failed(source))?;
        Ok(done)
    }

    /// Returns the files of the set that will be replaced, if there is one whose index can be read.
    fn files_of_old(&self, index: &str) -> Vec<String> {
        if self.overwrite == Overwrite::Refuse {
            return Vec::new();
        }
        let read = || -> io::Result<Vec<String>> {
            let object = self.store.uncached().open(&self.at.sibling(index))?;
            let len = object.len().min(Limits::default().index_len);
            files_of_index(index, &*object.read(0..len)?)
        };
        read().unwrap_or_default()
    }

    /// Removes an object of a set that has been replaced, and returns a message about it.
    fn remove(&self, index: &str, stale: &str) -> String {
        match self.files.create(stale).and_then(|object| object.remove_old()) {
            Ok(()) => format!("{stale:?} is removed: it belonged to the previous {index:?}"),
            Err(error) => {
                format!("{stale:?} belonged to the previous {index:?} and cannot be removed: {error}")
            }
        }
    }

    fn failed(&self, source: io::Error) -> Error {
        self.named(Error::Write { path: self.name.clone().into(), source })
    }

    /// Returns the error with a URL as the name of its file, unless it has a URL already.
    fn named(&self, error: Error) -> Error {
        let url = |path: &Path| match path.to_str() {
            Some(name) if !Location::is_url(name) => shown(&self.at.sibling(name)),
            _ => path.to_owned(),
        };
        match error {
            Error::Exists { path } => Error::Exists { path: url(&path) },
            Error::Write { path, source } if source.kind() == io::ErrorKind::AlreadyExists => {
                Error::Exists { path: url(&path) }
            }
            Error::Write { path, source } => {
                let source = match RemoteError::within(&source) {
                    Some(error) => io::Error::new(source.kind(), error.fault().clone()),
                    None => source,
                };
                Error::Write { path: url(&path), source }
            }
            other => other,
        }
    }
}

/// Returns the URLs of a model and of all its files.
fn inputs(model: &Model) -> Vec<PathBuf> {
    let path = model.path();
    let Some(Ok(at)) = path.to_str().filter(|text| Location::is_url(text)).map(str::parse::<Location>) else {
        return Vec::new();
    };
    let others = model.container().file_paths().into_iter().map(|file| shown(&at.sibling(&file)));
    others.chain([path.to_owned()]).collect()
}
