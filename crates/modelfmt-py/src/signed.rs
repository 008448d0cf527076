//! Signatures beside files, and keys.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use modelfmt::keys::{KeyType, PrivateKey, PublicKey, write_pair};
use modelfmt::modelfmt_core::author::with_causes;
use modelfmt::oms::{self, SignOptions, VerifyOptions};
use modelfmt::{Format, Overwrite, detached_signature};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::refuse;
use crate::opening::{Opening, private_key};
use crate::remote::Place;
use crate::work::{self, Progress};

/// Whether the keys are of a signature beside the file or folder, and not within: only APR2 files hold their own.
pub(crate) fn is_beside(opening: &Opening, place: &Place) -> bool {
    let holds_its_own = |format| matches!(format, Format::Apr2 | Format::Apr2Sharded);
    match place {
        Place::Path(path) if !opening.keys.is_empty() => {
            path.is_dir() || modelfmt::probe(path).is_ok_and(|found| !found.format.is_some_and(holds_its_own))
        }
        _ => false,
    }
}

/// Demands that the signature beside a model is by one of the keys, and of every byte that it covers.
pub(crate) fn demand(py: Python<'_>, model: &Arc<modelfmt::Model>, keys: Vec<PublicKey>) -> PyResult<()> {
    let model = Arc::clone(model);
    let path = model.path().display().to_string();
    let found = work::run(py, None, &Progress::none(), move |work| {
        detached_signature(model.path(), model.format(), &keys, &VerifyOptions::new(), work)
    })?;
    let why = match found {
        Some(found) if found.is_trusted == Some(true) => return Ok(()),
        Some(found) => found.problem.unwrap_or_else(|| "it is by none of the keys".to_owned()),
        None => "there is no signature beside it that covers it".to_owned(),
    };
    Err(refuse(py, "signature", &format!("{path}: {why}")))
}

/// Signs a file or folder by a signature beside it; returns what became of it.
#[pyfunction]
#[pyo3(signature = (path, key, overwrite, allow_symlinks, trust_mtime, ignore, progress))]
#[expect(clippy::too_many_arguments, reason = "the keywords of a Python function")]
pub(crate) fn sign<'py>(
    py: Python<'py>,
    path: PathBuf,
    key: &Bound<'py, PyAny>,
    overwrite: bool,
    allow_symlinks: bool,
    trust_mtime: bool,
    ignore: Vec<String>,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let key = private_key(key)?;
    if let Some(format) = format(&path).filter(|format| format.is_set()) {
        let why = format!(
            "{}: {format} names other files, which a signature of this one would not cover; sign the folder",
            path.display()
        );
        return Err(refuse(py, "refused", &why));
    }
    let total = std::fs::metadata(&path).map_or(0, |file| if file.is_file() { file.len() } else { 0 });
    let progress = Progress { callback: progress, total };
    let options = SignOptions::new()
        .overwrite(if overwrite { Overwrite::Replace } else { Overwrite::Refuse })
        .allow_symlinks(allow_symlinks)
        .trust_mtime(trust_mtime)
        .ignore(ignore);
    let signed = work::run(py, None, &progress, move |work| oms::sign(&path, &key, &options, work))?;
    let signed = signed.map_err(|error| match error {
        oms::Error::Exists { .. } => {
            refuse(py, "exists", &format!("{}; overwrite=True replaces it", with_causes(&error)))
        }
        error => refuse(py, "key", &with_causes(&error)),
    })?;
    progress.finish()?;
    let result = PyDict::new(py);
    result.set_item("path", signed.path.into_os_string())?;
    result.set_item("key_id", signed.key_id.to_string())?;
    result.set_item("files", signed.files)?;
    result.set_item("nbytes", signed.nbytes)?;
    Ok(result)
}

/// What a file is; nothing for a folder.
fn format(path: &Path) -> Option<Format> {
    if path.is_dir() { None } else { modelfmt::probe(path).ok()?.format }
}

/// Makes a key, and returns where its public half is and its id.
#[pyfunction]
pub(crate) fn keygen(py: Python<'_>, path: PathBuf, key_type: &str) -> PyResult<(OsString, String)> {
    let failed = |error: &modelfmt::keys::Error| {
        let is_there = matches!(error, modelfmt::keys::Error::Exists { .. });
        refuse(py, if is_there { "exists" } else { "key" }, &with_causes(error))
    };
    let key_type: KeyType =
        key_type.parse().map_err(|error| refuse(py, "usage", &format!("key_type: {error}")))?;
    let key = PrivateKey::generate(key_type).map_err(|error| failed(&error))?;
    let public = write_pair(&path, &key).map_err(|error| failed(&error))?;
    Ok((public.into_os_string(), key.public().id().to_string()))
}
