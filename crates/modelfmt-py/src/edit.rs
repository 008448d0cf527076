//! Metadata and names of a file, changed without its values.

use std::path::PathBuf;

use modelfmt::convert::RenameRule;
use modelfmt::edit::{EditMethod, EditOptions, NewValue};
use modelfmt::{Edit, Error, Overwrite};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{Keywords, raise, refuse};
use crate::options::object;
use crate::work::{self, Progress};

/// Edits a file; returns what became of it.
#[pyfunction]
#[pyo3(signature = (path, output, set, unset, metadata, rename, drop, overwrite, dry_run, progress))]
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
    overwrite: bool,
    dry_run: bool,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let mut options = EditOptions::default();
    options.metadata = metadata.map(|text| object(&text)).transpose()?;
    options.set = object(set)?.into_iter().map(|(key, value)| (key, NewValue::Value(value))).collect();
    (options.unset, options.drop) = (unset, drop);
    for (old, new) in rename {
        let rule = RenameRule::new(old, new).map_err(|why| refuse(py, "usage", &format!("rename: {why}")))?;
        options.rename.push(rule);
    }
    let result = PyDict::new(py);
    let planned = py.detach(|| Edit::new(&path, &options)).map_err(|error| raise(py, &error))?;
    if dry_run {
        let how = if output.is_some() { EditMethod::NewFile } else { planned.method() };
        result.set_item("how", word(how))?;
        result.set_item("path", output.unwrap_or(path).into_os_string())?;
        result.set_item("nbytes", planned.nbytes())?;
        result.set_item("renamed", planned.renamed())?;
        result.set_item("dropped", planned.dropped())?;
        return Ok(result);
    }
    let progress = Progress { callback: progress, total: planned.nbytes() };
    let overwrite = if overwrite { Overwrite::Replace } else { Overwrite::Refuse };
    // What was begun in place is finished or put back, so it is waited for.
    let edited = work::run_to_end(py, None, &progress, move |work| match output {
        None => planned.write(work),
        Some(output) => planned.write_to(output, overwrite, work),
    })?;
    let edited = edited.map_err(|error: Error| raise(py, &error))?;
    progress.finish()?;
    result.set_item("how", word(edited.method))?;
    result.set_item("path", edited.path.into_os_string())?;
    result.set_item("nbytes", edited.nbytes)?;
    result.set_item("set", edited.set)?;
    result.set_item("unset", edited.unset)?;
    result.set_item("renamed", edited.renamed)?;
    result.set_item("dropped", edited.dropped)?;
    let notes: Vec<String> = edited.notes.iter().map(|note| note.in_words(&Keywords)).collect();
    result.set_item("notes", notes)?;
    Ok(result)
}

/// Undoes an edit that was interrupted, and says whether there was one.
#[pyfunction]
pub(crate) fn recover(py: Python<'_>, path: PathBuf) -> PyResult<bool> {
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
