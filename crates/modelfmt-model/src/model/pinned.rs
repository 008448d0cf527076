//! Opens files with a pin, against which every byte is checked before it is returned.

use std::io;
use std::path::Path;

use modelfmt_core::proof::{OutboardProof, ProofError, VerifiedSource};
#[cfg(not(target_arch = "wasm32"))]
use modelfmt_core::source::FileSource;
use modelfmt_core::source::{BoxSource, SharedFiles};
use modelfmt_core::{AnyError, Source as _};

use crate::error::{Error, Result};
use crate::formats::Format;
use crate::formats::capabilities::PinKind;
use modelfmt_rules::pin::Pin;

/// The extension that the outboard of a file adds to its name.
pub(crate) const ENDING: &str = ".obao4";

/// A pin, and the outboard that the file was checked with.
#[derive(Clone, Debug)]
pub(crate) struct Pinned {
    pub(crate) pin: Pin,
    /// The name of the outboard, if there is one.
    pub(crate) outboard: Option<String>,
}

/// Opens the outboard of a file on disk, if it has one.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn outboard_of(file: &Path) -> Result<Option<BoxSource>> {
    let path = path_of_outboard(file);
    match FileSource::open(&path) {
        Ok(source) => Ok(Some(Box::new(source))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::Open { path, source }),
    }
}

/// Returns the path of the outboard of a file.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn path_of_outboard(file: &Path) -> std::path::PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(ENDING);
    path.into()
}

/// Opens the outboard of a file among the files beside it, if there is one.
pub(crate) fn outboard_among(files: &SharedFiles, name: &str) -> Result<Option<BoxSource>> {
    // For a URL, `name` is the whole URL.
    let name = format!("{}{ENDING}", name.rsplit('/').next().unwrap_or(name));
    match files.open(&name) {
        Ok(source) => Ok(Some(source)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::Open { path: name.into(), source }),
    }
}

/// Wraps a source so that it is checked against a hash.
pub(crate) fn by_hash(
    path: &Path,
    source: BoxSource,
    hash: [u8; 32],
    outboard: Option<BoxSource>,
) -> Result<(BoxSource, Pinned)> {
    let pin = Pin::B3(hash);
    let Some(outboard) = outboard else {
        return Ok((Box::new(VerifiedSource::by_hash(source, hash)), Pinned { pin, outboard: None }));
    };
    let name = format!("{}{ENDING}", path.file_name().unwrap_or(path.as_os_str()).to_string_lossy());
    let proof = OutboardProof::new(hash, source.len(), outboard, &name);
    let proof = proof.map_err(|error| unproved(path, error))?;
    Ok((Box::new(VerifiedSource::new(source, proof)), Pinned { pin, outboard: Some(name) }))
}

/// Returns the error of a source whose format is not known yet.
pub(crate) fn unproved(path: &Path, source: io::Error) -> Error {
    match ProofError::within(&source) {
        Some(_) => Error::file(path.to_owned(), AnyError::Io { at: 0, len: Format::PROBE_LEN, source }),
        None => Error::Open { path: path.to_owned(), source },
    }
}

/// Fails if files of this format cannot have such a pin.
pub(crate) fn check(path: &Path, format: Format, pin: Pin) -> Result<()> {
    let why = match pin {
        Pin::Aero(_) if format.properties().pin != Some(PinKind::Head) => {
            format!("this kind of pin is for AERO files, and the file is {format}")
        }
        Pin::Seal(_) if format.properties().pin != Some(PinKind::Statement) => {
            format!("this kind of pin is for sealed APR2 files, and the file is {format}")
        }
        Pin::Seal(_) if !cfg!(feature = "seal") => {
            "this build has the feature `seal` of modelfmt switched off, without which no such pin is checked".to_owned()
        }
        Pin::B3(_) if format.is_set() && !format.fns().is_some_and(|fns| fns.proves_files) => {
            "its index has no hashes of the files that it names, so that a pin of it proves none of their bytes; \
             pin a file by itself, or convert the model to one file or to an AEROSET"
                .to_owned()
        }
        _ => return Ok(()),
    };
    Err(Error::Unpinnable { path: path.to_owned(), pin, why })
}
