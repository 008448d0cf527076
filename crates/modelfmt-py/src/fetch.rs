//! Fetches, resumes and repairs files from URLs.

use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use modelfmt::Pin;
use modelfmt::modelfmt_core::author::with_causes;
use modelfmt::policy::Policy;
use modelfmt_remote::Location;
use modelfmt_remote::fetch::{FetchError, FetchOptions, FetchProgress, Fetched};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{of_file, refuse};
use crate::opening::Opening;
use crate::policy;
use crate::remote::Place;
use crate::work;

/// The files to fetch, and how to fetch them.
struct Job {
    urls: Vec<Location>,
    out: PathBuf,
    pin: Option<[u8; 32]>,
    force: bool,
    include: Vec<String>,
    exclude: Vec<String>,
    policy: Option<Arc<Policy>>,
}

/// Fetches a file, a set or a repository; returns what was done.
#[pyfunction]
#[pyo3(signature = (urls, out, pin, overwrite, include, exclude, given, threads, progress))]
#[expect(clippy::too_many_arguments, reason = "the keywords of a Python function")]
pub(crate) fn fetch<'py>(
    py: Python<'py>,
    urls: Vec<PathBuf>,
    out: PathBuf,
    pin: Option<&str>,
    overwrite: bool,
    include: Vec<String>,
    exclude: Vec<String>,
    given: &Bound<'py, PyDict>,
    threads: Option<usize>,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let usage = |text: &str| refuse(py, "usage", text);
    let pin = match pin.map(str::parse) {
        None => None,
        Some(Ok(Pin::B3(hash))) => Some(hash),
        Some(Ok(_)) => return Err(usage("pin: fetch takes b3:HEX, the BLAKE3 of the whole file")),
        Some(Err(error)) => return Err(usage(&format!("pin: {error}"))),
    };
    let opening = Opening::new(given)?;
    let policy = policy::policy(py, opening.policy)?;
    let allowed = opening.allowed;
    let (mut store, mut locations) = (None, Vec::new());
    for url in urls {
        match Place::new(py, url, allowed)? {
            Place::Url { at, store: of_all } => {
                locations.push(at);
                store = Some(of_all);
            }
            Place::Path(path) => {
                return Err(usage(&format!("{}: it is no URL of a server", path.display())));
            }
        }
    }
    let Some(store) = store else { return Err(usage("there is no URL to fetch from")) };
    let total = Arc::new(AtomicU64::new(0));
    let of_job = Arc::clone(&total);
    let tell = |done: u64| match &progress {
        Some(callback) => {
            let total = total.load(Ordering::Relaxed).max(done);
            callback.call1((done, total)).map(drop)
        }
        None => Ok(()),
    };
    let job = Job { urls: locations, out, pin, force: overwrite, include, exclude, policy };
    let fetched = work::run_telling(py, threads, &tell, move |work| {
        let seen = AtomicU64::new(0);
        let progress = |now: FetchProgress| {
            of_job.store(now.total, Ordering::Relaxed);
            let more = match now.is_checking {
                true => 0,
                false => now.done.saturating_sub(seen.fetch_max(now.done, Ordering::Relaxed)),
            };
            work.advance(more)
        };
        run(&store, &job, work.threads, &progress)
    })?;
    let fetched = fetched.map_err(|error| raise(py, &error))?;
    tell(fetched.size)?;
    said(py, &fetched)
}

fn run(
    store: &modelfmt_remote::blocking::Store,
    job: &Job,
    threads: usize,
    progress: &(dyn Fn(FetchProgress) -> ControlFlow<()> + Sync),
) -> Result<Fetched, FetchError> {
    let options = FetchOptions::new()
        .force(job.force)
        .include(job.include.iter().cloned())
        .exclude(job.exclude.iter().cloned())
        .threads(threads)
        .progress(progress);
    let options = match job.pin {
        Some(hash) => options.pin(hash),
        None => options,
    };
    let options = match &job.policy {
        Some(policy) => options.policy(Arc::clone(policy)),
        None => options,
    };
    store.fetch(&job.urls, &job.out, &options)
}

/// Returns what was done, as keywords of `modelfmt.Fetched`.
fn said<'py>(py: Python<'py>, fetched: &Fetched) -> PyResult<Bound<'py, PyDict>> {
    let said = PyDict::new(py);
    said.set_item("path", fetched.path.as_os_str())?;
    said.set_item("size", fetched.size)?;
    said.set_item("kept", fetched.kept)?;
    said.set_item("fetched", fetched.fetched)?;
    said.set_item("bad", fetched.bad)?;
    said.set_item("requests", fetched.requests)?;
    let sources = fetched.sources.iter();
    let sources: Vec<_> = sources.map(|source| (source.url.as_str(), source.bytes, source.refused)).collect();
    said.set_item("sources", sources)?;
    said.set_item("checked_by", fetched.checked_by.map(|by| by.name()))?;
    let files = fetched.files.iter().map(|file| self::said(py, file)).collect::<PyResult<Vec<_>>>()?;
    said.set_item("files", files)?;
    said.set_item("notes", &fetched.notes)?;
    Ok(said)
}

fn raise(py: Python<'_>, error: &FetchError) -> PyErr {
    let text =
        with_causes(error).replace("--force", "overwrite=True").replace("--pin b3:HEX", "pin=\"b3:…\"");
    match error {
        FetchError::Local { path, source } => of_file(py, error.code(), &text, path, source),
        FetchError::Remote(remote) => {
            let source = io::Error::from(remote.clone());
            of_file(py, error.code(), &text, remote.location().as_ref(), &source)
        }
        FetchError::Refused { path, .. } => {
            of_file(py, error.code(), &text, path, &io::ErrorKind::AlreadyExists.into())
        }
        _ => refuse(py, error.code(), &text),
    }
}
