//! Reports: pages about models.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use modelfmt::convert::Overwrite;
use modelfmt::modelfmt_write::{AtomicFile, InputFiles, Output as _, Sink as _};
use modelfmt::report::ReportOptions;
use modelfmt::{Error, Model as Opened};
use pyo3::prelude::*;

use crate::errors::raise;
use crate::model::{Model, nbytes};
use crate::work::{self, Progress};

/// The page that `modelfmt report` writes, and whether `check` and `verify` have found no fault.
#[pyfunction]
#[pyo3(signature = (model, other, out, overwrite, threads, progress))]
pub(crate) fn report(
    py: Python<'_>,
    model: &Model,
    other: Option<Bound<'_, Model>>,
    out: Option<PathBuf>,
    overwrite: bool,
    threads: Option<usize>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<(String, bool)> {
    let model = Arc::clone(model.model());
    let other = other.map(|other| Arc::clone(other.borrow().model()));
    let models: Vec<&Opened> = std::iter::once(&*model).chain(other.as_deref()).collect();
    let overwrite = if overwrite { Overwrite::Replace } else { Overwrite::Refuse };
    let file = out.as_deref().map(|path| create(path, overwrite, &models)).transpose();
    let file = file.map_err(|error| raise(py, &error))?;
    let read = |model: &&Opened| nbytes(model).saturating_add(model.container().file_size());
    let compared = if other.is_some() { nbytes(&model) } else { 0 };
    let total = models.iter().map(read).fold(compared, u64::saturating_add);
    let progress = Progress { callback: progress, total };
    let page = work::run(py, threads, &progress, move |work| {
        let page = modelfmt::report::report(&model, other.as_deref(), &ReportOptions::new(), work)?;
        if let (Some(path), Some(file)) = (&out, file) {
            let failed = |source| Error::Write { path: path.clone(), source };
            file.write_at(0, page.html().as_bytes()).map_err(failed)?;
            file.commit().map_err(failed)?;
        }
        Ok(page)
    })?;
    let page = page.map_err(|error: Error| raise(py, &error))?;
    progress.finish()?;
    let is_ok = page.is_ok();
    Ok((page.into_html(), is_ok))
}

/// Begins the page. It appears when it is complete, and replaces no file of the models.
fn create(path: &Path, overwrite: Overwrite, models: &[&Opened]) -> Result<AtomicFile, Error> {
    let inputs = InputFiles::new(models.iter().flat_map(|model| model.read_paths()));
    AtomicFile::create_protecting(path, overwrite, &inputs).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => Error::Exists { path: path.to_owned() },
        _ => Error::Write { path: path.to_owned(), source },
    })
}
