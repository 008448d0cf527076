//! Models at URLs. They are read by ranges from buckets and web servers, and written to buckets.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use modelfmt::convert::Saving;
use modelfmt::convert::{ConvertOptions, Converted};
use modelfmt::modelfmt_write::{TensorData, TensorSpec};
use modelfmt::verify::FileReport;
use modelfmt::{Conversion, Error, Execution, Format, Model, Object, OpenOptions, VerifyLevel};
use modelfmt_remote::blocking::Store;
use modelfmt_remote::{DiskCache, Environment, Location, Options, models};
use pyo3::prelude::*;

use crate::errors::{raise, refuse};

/// What requests may do.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Allowed {
    pub(crate) instance_credentials: bool,
    pub(crate) private_redirects: bool,
    /// Whether the user's cache is neither read nor written.
    pub(crate) no_cache: bool,
}

/// The place of an existing or a future model.
#[derive(Clone)]
pub(crate) enum Place {
    Path(PathBuf),
    Url { at: Location, store: Store },
}

/// The store of this process: connections are reused, and limits apply to all files together.
struct Shared {
    /// A fork has its parent's store, but not the thread that fetches.
    process: u32,
    allowed: Allowed,
    /// Credentials that are set later require a new store.
    environment: Environment,
    store: Store,
}

static SHARED: Mutex<Option<Shared>> = Mutex::new(None);

/// Returns the store for these permissions. The interpreter must be attached, so that no other thread of
/// Python changes the environment in the meantime, or forks.
fn store(_: Python<'_>, allowed: Allowed) -> io::Result<Store> {
    let (process, environment) = (std::process::id(), Environment::process());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    let is_same = |shared: &&Shared| {
        shared.process == process
            && shared.allowed == allowed
            && shared.environment.with_prefix("").eq(environment.with_prefix(""))
    };
    if let Some(shared) = shared.as_ref().filter(is_same) {
        return Ok(shared.store.clone());
    }
    let options = Options::new()
        .instance_credentials(allowed.instance_credentials)
        .private_redirects(allowed.private_redirects)
        .environment(environment.clone());
    let cache = DiskCache::for_user(|name| environment.var(name).map(str::to_owned));
    let store = Store::new(match cache.filter(|_| !allowed.no_cache) {
        Some(cache) => options.cache(cache),
        None => options,
    })?;
    *shared = Some(Shared { process, allowed, environment, store: store.clone() });
    Ok(store)
}

/// Removes the parts of incomplete objects from buckets. It is called at the end of the process, which ends threads that still
/// write.
#[pyfunction]
pub(crate) fn abort_uploads(py: Python<'_>) {
    py.detach(|| modelfmt_remote::abort_uploads(END));
}

/// How long the end of the process may wait for uploads to be aborted.
const END: Duration = Duration::from_secs(5);

impl Place {
    /// Returns the place that a text names: a URL or a path. An invalid URL is an error, and never a path,
    /// because it may hold a secret.
    pub(crate) fn new(py: Python<'_>, path: PathBuf, allowed: Allowed) -> PyResult<Self> {
        let at = match models::location(&path) {
            Ok(None) => return Ok(Self::Path(path)),
            Ok(Some(Location::File(path))) => return Ok(Self::Path(path)),
            Ok(Some(at)) => at,
            Err(error) => return Err(refuse(py, "cannot-open", &error.to_string())),
        };
        let unopened = |source| Error::Open { path: at.to_string().into(), source };
        let store = store(py, allowed).map_err(|source| raise(py, &unopened(source)))?;
        Ok(Self::Url { at, store })
    }

    pub(crate) const fn is_remote(&self) -> bool {
        matches!(self, Self::Url { .. })
    }

    /// Returns the path, or the URL without the parts that may be secret.
    pub(crate) fn shown(&self) -> PathBuf {
        match self {
            Self::Path(path) => path.clone(),
            Self::Url { at, .. } => at.to_string().into(),
        }
    }

    pub(crate) fn open(&self, options: &OpenOptions) -> Result<Model, Error> {
        match self {
            Self::Path(path) => options.open(path),
            Self::Url { at, store } => models::open(store, at, options),
        }
    }

    pub(crate) fn verify(
        &self,
        options: &OpenOptions,
        level: VerifyLevel,
        work: &Execution<'_>,
    ) -> FileReport {
        match self {
            Self::Path(path) => options.verify(path, level, work),
            Self::Url { at, store } => models::verify(store, at, options, level, work),
        }
    }

    /// Converts a model into this place.
    pub(crate) fn convert(
        &self,
        model: &Model,
        target: Format,
        options: &ConvertOptions,
        work: &Execution<'_>,
    ) -> Result<Converted, Error> {
        match self {
            Self::Path(path) => {
                Conversion::new(model, path).to(target).options(options).execution(work).write()
            }
            Self::Url { at, store } => models::convert(
                store,
                at,
                Conversion::to_format(model, target).options(options).execution(work),
            ),
        }
    }

    /// Writes tensors with the values of `data` into this place.
    pub(crate) fn save<'a>(
        &self,
        format: Format,
        specs: Vec<TensorSpec<'a>>,
        (metadata, options): (&Object, &ConvertOptions),
        data: &dyn TensorData,
        work: &Execution<'_>,
    ) -> Result<(), Error> {
        let path = self.shown();
        let saving = Saving::new(format, &path, specs, metadata, options)?;
        match self {
            Self::Path(_) => saving.write(data, work),
            Self::Url { at, store } => models::save(store, at, &saving, data, work),
        }
    }

    /// Returns the path or URL of a file that was written, for the caller.
    pub(crate) fn written(&self, file: &Path) -> String {
        match self {
            Self::Path(path) => {
                path.parent().unwrap_or(Path::new("")).join(file).to_string_lossy().into_owned()
            }
            Self::Url { at, .. } => at.sibling(&file.to_string_lossy()).to_string(),
        }
    }
}
