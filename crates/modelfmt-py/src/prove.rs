//! Proves that a model is derived from another.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use modelfmt::Error;
use modelfmt::prove::ProveOptions;
use pyo3::prelude::*;

use crate::answers::globs;
use crate::errors::{raise, refuse};
use crate::model::Model;
use crate::work::{self, Progress};

/// What `modelfmt prove --json` prints.
#[pyfunction]
#[pyo3(signature = (base, derived, map, pre, lora, imatrix, complete, allow_added, allow_changed, threads, progress))]
#[expect(clippy::too_many_arguments, reason = "the keywords of a Python function")]
pub(crate) fn prove(
    py: Python<'_>,
    base: &Model,
    derived: &Model,
    map: Option<String>,
    pre: Option<String>,
    lora: Vec<String>,
    imatrix: Option<PathBuf>,
    complete: bool,
    allow_added: Vec<String>,
    allow_changed: Vec<String>,
    threads: Option<usize>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<String> {
    let mut options = ProveOptions::default();
    (options.map, options.pre, options.require_all) = (map, pre, complete);
    let parsed: Result<Vec<_>, _> = lora.iter().map(|rule| rule.parse()).collect();
    options.lora = parsed.map_err(|error| refuse(py, "usage", &format!("lora: {error}")))?;
    options.imatrix = imatrix;
    options.allow_added = globs(py, &allow_added)?;
    options.allow_changed = globs(py, &allow_changed)?;
    let (base, derived) = (Arc::clone(base.model()), Arc::clone(derived.model()));
    let progress = Progress { callback: progress, total: derived.container().file_size() };
    let proof = work::run(py, threads, &progress, move |work| {
        modelfmt::prove::prove(&base, &derived, &options, work)
    })?;
    let proof = proof.map_err(|error: Error| raise(py, &error))?;
    progress.finish()?;
    Ok(serde_json::to_string(&proof).map_err(io::Error::other)?)
}
