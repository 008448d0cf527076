//! Models are written into buckets.

use std::io;
use std::path::Path;

use modelfmt::modelfmt_core::write::{NewFiles as _, Output as _};
use modelfmt::{Conversion, ConvertOptions, Converted, Error, Execution, Format, Model};
use modelfmt_remote::{Error as RemoteError, Location, NewObjects};

use crate::args::OpenArgs;
use crate::failure::{Failure, Result};
use crate::remote;

/// Converts a model into an object of a bucket, or into the objects of a set.
pub(crate) fn convert(
    place: &Location,
    open: &OpenArgs,
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
    let store = remote::store(open).map_err(failed)?.inner().clone();
    let refused = |error: RemoteError| failed(io::Error::other(error.fault().clone()));
    let files = NewObjects::new(store, place, options.overwrite).map_err(refused)?;
    let conversion = Conversion::new(model, target, options)?;
    let files = files.expecting(conversion.nbytes());
    let name = files.file_name().to_owned();
    let named = |error| Failure::Job(named(place, error));
    if conversion.target().is_set() {
        return conversion.write_to_files(&name, &files, work).map_err(named);
    }
    let of_object = |source| named(Error::Write { path: name.clone().into(), source });
    files.check(&name).map_err(of_object)?;
    let object = files.create(&name).map_err(of_object)?;
    let converted = conversion.write_to_sink(&object, work).map_err(named)?;
    object.commit().map_err(of_object)?;
    Ok(converted)
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
