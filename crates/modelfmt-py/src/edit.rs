//! Edits metadata and names of a file without changing its values.

use std::path::{Path, PathBuf};

use modelfmt::Error;
use modelfmt::convert::Overwrite;
use modelfmt::convert::RenameRule;
use modelfmt::edit::{Edit, Edited};
use modelfmt::edit::{EditMethod, EditOptions, NewValue};
use modelfmt::keys::PrivateKey;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{Keywords, raise, refuse};
use crate::opening::listed;
use crate::options::object;
use crate::policy;
use crate::sealing::signing_key;
use crate::signed;
use crate::work::{self, Progress};

/// Edits a file; returns what became of it.
#[pyfunction]
#[pyo3(signature = (path, output, set, unset, metadata, rename, drop, sign, revision, overwrite, dry_run, policy, progress))]
#[expect(clippy::too_many_arguments, reason = "the keywords of a Python function")]
pub(crate) fn edit<'py>(
    py: Python<'py>,
    path: PathBuf,
    output: Option<PathBuf>,
    set: &Bound<'py, PyAny>,
    unset: Vec<String>,
    metadata: Option<Bound<'py, PyAny>>,
    rename: Vec<(String, String)>,
    drop: Vec<String>,
    sign: Option<Bound<'py, PyAny>>,
    revision: Option<u64>,
    overwrite: bool,
    dry_run: bool,
    policy: Option<PathBuf>,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let mut options = EditOptions::default();
    options.open = policy::options(py, policy)?;
    let judge = options.open.clone();
    options.metadata = metadata.map(|text| object(&text)).transpose()?;
    options.set = object(set)?.into_iter().map(|(key, value)| (key, NewValue::Value(value))).collect();
    (options.unset, options.drop, options.revision) = (unset, drop, revision);
    for (old, new) in rename {
        let rule = RenameRule::new(old, new).map_err(|why| refuse(py, "usage", &format!("rename: {why}")))?;
        options.rename.push(rule);
    }
    let beside = sign.map(|keys| signers(&path, &keys, &mut options)).transpose()?.flatten();
    let plan = if dry_run { Edit::new } else { Edit::after_recovery };
    let planned = py.detach(|| plan(&path, &options)).map_err(|error| raise(py, &error))?;
    let progress = Progress { callback: progress, total: planned.nbytes() };
    let overwrite = if overwrite { Overwrite::Replace } else { Overwrite::Refuse };
    if let Some(key) = &beside {
        planned.check(output.as_deref(), overwrite).map_err(|error| raise(py, &error))?;
        signed::expect_signable(py, path.clone(), key, &judge, &progress)?;
    }
    let edited = if dry_run {
        work::run(py, None, &progress, move |work| planned.dry_run(output.as_deref(), overwrite, work))?
    } else {
        // An edit in place that has begun must be completed or undone, so the caller waits for it.
        work::run_to_end(py, None, &progress, move |work| match output {
            None => planned.write(work),
            Some(output) => planned.write_to(output, overwrite, work),
        })?
    };
    let edited = edited.map_err(|error: Error| raise(py, &error))?;
    progress.finish()?;
    let signature = match beside.filter(|_| !dry_run) {
        Some(key) => Some(signed::sign_changed(py, edited.path.clone(), key, &judge)?),
        None => None,
    };
    answer(py, edited, signature.as_deref())
}

/// Returns the result of an edit. A note about a signature that was renewed is left out.
fn answer<'py>(py: Python<'py>, edited: Edited, signature: Option<&Path>) -> PyResult<Bound<'py, PyDict>> {
    let notes = edited.notes.iter().filter(|note| signature.is_none() || note.file.as_deref() != signature);
    let notes: Vec<String> = notes.map(|note| note.in_words(&Keywords)).collect();
    let result = PyDict::new(py);
    result.set_item("how", word(edited.method))?;
    result.set_item("path", edited.path.into_os_string())?;
    result.set_item("nbytes", edited.nbytes)?;
    result.set_item("set", edited.set)?;
    result.set_item("unset", edited.unset)?;
    result.set_item("renamed", edited.renamed)?;
    result.set_item("dropped", edited.dropped)?;
    result.set_item("notes", notes)?;
    Ok(result)
}

/// Returns the key for a signature next to the file. For an APR2 file, adds the keys that sign inside to the
/// options instead.
fn signers(path: &Path, keys: &Bound<'_, PyAny>, options: &mut EditOptions) -> PyResult<Option<PrivateKey>> {
    let (py, keys) = (keys.py(), listed("sign", keys)?);
    if options.is_empty() {
        let why = "sign: it signs the changed file, but you asked for no change; to sign the file as it is, use modelfmt.sign";
        return Err(refuse(py, "usage", why));
    }
    if signed::is_inside(path) {
        options.sign = keys.iter().map(signing_key).collect::<PyResult<_>>()?;
        return Ok(None);
    }
    if options.revision.is_some() {
        return Err(refuse(py, "usage", "revision: only signatures inside APR2 files have one"));
    }
    signed::key_of_changed(py, path, &keys).map(Some)
}

/// Undoes an edit that was interrupted, and says whether there was one.
#[pyfunction]
pub(crate) fn recover(py: Python<'_>, path: PathBuf) -> PyResult<bool> {
    let judge = policy::options(py, None)?;
    judge.judge_place(&path).map_err(|error| raise(py, &error))?;
    let recovered = py.detach(|| modelfmt::edit::recover(&path)).map_err(|error| raise(py, &error))?;
    Ok(recovered != modelfmt::edit::Recovered::Nothing)
}

const fn word(how: EditMethod) -> &'static str {
    match how {
        EditMethod::Unchanged => "unchanged",
        EditMethod::InPlace => "in place",
        EditMethod::NewFile => "new file",
        _ => "written",
    }
}
