//! Models are written into buckets.

use std::io;
use std::path::Path;

use modelfmt::convert::files_of_index;
use modelfmt::modelfmt_core::write::{NewFiles as _, Output as _};
use modelfmt::{
    Conversion, ConvertOptions, Converted, Error, Execution, Format, Limits, Model, Note, Overwrite,
    Source as _,
};
use modelfmt_remote::blocking::Store;
use modelfmt_remote::{Error as RemoteError, Location, NewObjects};

use crate::args::Convert;
use crate::commands::Nowhere;
use crate::failure::{Failure, Result};
use crate::remote;

/// Converts a model into an object of a bucket, or into the objects of a set; or does a dry run of that.
pub(crate) fn convert(
    place: &Location,
    args: &Convert,
    model: &Model,
    target: Format,
    options: &ConvertOptions,
    work: &Execution<'_>,
) -> Result<Converted> {
    if options.outboard {
        let why = "--outboard: it is written beside files of this machine; convert into one, and copy both";
        return Err(Failure::Usage(why.to_owned()));
    }
    let failed = |source| Failure::Job(Error::Write { path: place.to_string().into(), source });
    if model.path() == Path::new(&place.to_string()) {
        let text = "it is a file of the input, which no output replaces; choose another name";
        return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, text)));
    }
    let store = remote::store(&args.how.open).map_err(failed)?;
    let refused = |error: RemoteError| failed(io::Error::other(error.fault().clone()));
    let files = NewObjects::new(store.inner().clone(), place, options.overwrite).map_err(refused)?;
    let conversion = Conversion::new(model, target, options)?;
    let files = files.expecting(conversion.nbytes());
    let name = files.file_name().to_owned();
    let named = |error| Failure::Job(named(place, error));
    if conversion.target().is_set() {
        if args.how.dry_run {
            return conversion.dry_run_to_files(&name, &files, work).map_err(named);
        }
        let index = conversion.index_name(&name)?;
        let old = match options.overwrite {
            Overwrite::Replace => files_of_old(&store, &place.sibling(&index), &index),
            Overwrite::Refuse => Vec::new(),
        };
        let mut converted = conversion.write_to_files(&name, &files, work).map_err(named)?;
        let is_kept = |old: &String| {
            converted.files.iter().any(|file| file.path == *old)
                || model.input_paths().any(|path| path == Path::new(&place.sibling(old).to_string()))
        };
        let stale: Vec<String> = old.into_iter().filter(|old| !is_kept(old)).collect();
        converted.notes.extend(stale.iter().map(|stale| Note::from(remove(&files, &index, stale))));
        return Ok(converted);
    }
    let of_object = |source| named(Error::Write { path: name.clone().into(), source });
    files.check(&name).map_err(of_object)?;
    if args.how.dry_run {
        let mut converted = conversion.write_to_sink(&Nowhere, work).map_err(named)?;
        converted.files.iter_mut().for_each(|file| file.path.clone_from(&name));
        return Ok(converted);
    }
    let object = files.create(&name).map_err(of_object)?;
    let converted = conversion.write_to_sink(&object, work).map_err(named)?;
    object.commit().map_err(of_object)?;
    Ok(converted)
}

/// The files of the set that is about to be replaced, if there is one whose index can be read.
fn files_of_old(store: &Store, place: &Location, index: &str) -> Vec<String> {
    let read = || -> io::Result<Vec<String>> {
        let object = store.uncached().open(place)?;
        let len = object.len().min(Limits::default().index_len);
        files_of_index(index, &*object.read(0..len)?)
    };
    read().unwrap_or_default()
}

/// Removes an object of a set that has been replaced; says so.
fn remove(files: &NewObjects, index: &str, stale: &str) -> String {
    match files.create(stale).and_then(|object| object.remove_old()) {
        Ok(()) => format!("{stale:?} is removed: it belonged to what {index:?} was before"),
        Err(error) => {
            format!("{stale:?} belonged to what {index:?} was before and cannot be removed: {error}")
        }
    }
}

/// An error whose file is named as a URL, once.
fn named(place: &Location, error: Error) -> Error {
    let url = |path: &Path| match path.to_str() {
        Some(name) if !Location::is_url(name) => place.sibling(name).to_string().into(),
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
