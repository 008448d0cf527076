//! Models at URLs: of buckets and web servers, read by ranges, and written into buckets.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use modelfmt::modelfmt_core::write::{NewFiles as _, Output as _};
use modelfmt::{
    Conversion, Converted, Error, Execution, FileReport, Model, OpenOptions, Overwrite, Pin, VerifyLevel,
};
use modelfmt_remote::blocking::Store;
use modelfmt_remote::{Environment, Error as RemoteError, Fault, Location, NewObjects, Options};
use pyo3::prelude::*;

use crate::errors::{raise, refuse};

/// What requests may do.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Allowed {
    pub(crate) instance_credentials: bool,
    pub(crate) private_redirects: bool,
}

/// Where a model is, or will be.
#[derive(Clone)]
pub(crate) enum Place {
    Path(PathBuf),
    Url { at: Location, store: Store },
}

/// The store of this process. Connections are kept, and limits hold for all files together.
struct Shared {
    /// A fork has the store of its parent, but not the thread that fetches.
    process: u32,
    allowed: Allowed,
    /// Whoever sets a credential wants it to count.
    environment: Environment,
    store: Store,
}

static SHARED: Mutex<Option<Shared>> = Mutex::new(None);

/// Called with the interpreter attached: so no other thread of Python changes the environment meanwhile, or forks.
fn store(_: Python<'_>, allowed: Allowed) -> io::Result<Store> {
    let (process, environment) = (std::process::id(), Environment::process());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    let is_same = |shared: &&Shared| {
        shared.process == process
            && shared.allowed == allowed
            && shared.environment.starting("").eq(environment.starting(""))
    };
    if let Some(shared) = shared.as_ref().filter(is_same) {
        return Ok(shared.store.clone());
    }
    let options = Options::new()
        .instance_credentials(allowed.instance_credentials)
        .private_redirects(allowed.private_redirects)
        .environment(environment.clone());
    let store = Store::new(options)?;
    *shared = Some(Shared { process, allowed, environment, store: store.clone() });
    Ok(store)
}

impl Place {
    /// The place that a text names: a URL or a path. What is no valid URL is an error, so that nothing prints it as a path.
    pub(crate) fn new(py: Python<'_>, path: PathBuf, allowed: Allowed) -> PyResult<Self> {
        let Some(text) = path.to_str().filter(|text| Location::is_url(text)) else {
            return Ok(Self::Path(path));
        };
        let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
        let at: Location =
            text.parse().map_err(|fault| refuse(py, "cannot-open", &format!("{scheme}://…: {fault}")))?;
        if let Location::File(path) = at {
            return Ok(Self::Path(path));
        }
        let store =
            store(py, allowed).map_err(|source| raise(py, &Error::Open { path: "thread".into(), source }))?;
        Ok(Self::Url { at, store })
    }

    pub(crate) const fn is_remote(&self) -> bool {
        matches!(self, Self::Url { .. })
    }

    /// The path, or the URL without what may be secret.
    pub(crate) fn shown(&self) -> PathBuf {
        match self {
            Self::Path(path) => path.clone(),
            Self::Url { at, .. } => at.to_string().into(),
        }
    }

    pub(crate) fn open(&self, options: &OpenOptions, pin: Option<Pin>) -> Result<Model, Error> {
        let Self::Url { at, store } = self else { return options.open(self.shown()) };
        let source = opened(at, store, pin)?;
        options.open_source(&at.to_string(), Box::new(source), Some(store.beside(at)))
    }

    pub(crate) fn verify(
        &self,
        options: &OpenOptions,
        pin: Option<Pin>,
        level: VerifyLevel,
        work: &Execution<'_>,
    ) -> FileReport {
        let Self::Url { at, store } = self else { return options.verify(self.shown(), level, work) };
        match opened(at, store, pin) {
            Ok(source) => {
                options.verify_source(&at.to_string(), Box::new(source), Some(store.beside(at)), level, work)
            }
            Err(error) => options.unreadable(self.shown(), &error, level),
        }
    }

    /// Writes a conversion to this place.
    pub(crate) fn write(
        &self,
        model: &Model,
        conversion: Conversion<'_>,
        overwrite: Overwrite,
        work: &Execution<'_>,
    ) -> Result<Converted, Error> {
        let Self::Url { at, store } = self else { return conversion.write(self.shown(), work) };
        let failed = |source| Error::Write { path: at.to_string().into(), source };
        if model.path() == Path::new(&at.to_string()) {
            let text = "it is a file of the input, which no output replaces; choose another name";
            return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, text)));
        }
        let files = new_objects(at, store, overwrite)?.expecting(conversion.nbytes());
        let name = files.file_name().to_owned();
        let named = |error| named(at, error);
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

    /// A file that was written, as it is named to the caller.
    pub(crate) fn written(&self, file: &Path) -> String {
        match self {
            Self::Path(path) => {
                path.parent().unwrap_or(Path::new("")).join(file).to_string_lossy().into_owned()
            }
            Self::Url { at, .. } => at.sibling(&file.to_string_lossy()).to_string(),
        }
    }
}

/// New objects beside a URL.
pub(crate) fn new_objects(at: &Location, store: &Store, overwrite: Overwrite) -> Result<NewObjects, Error> {
    NewObjects::new(store.inner().clone(), at, overwrite).map_err(|error| {
        let source = io::Error::other(error.fault().clone());
        Error::Write { path: at.to_string().into(), source }
    })
}

fn opened(at: &Location, store: &Store, pin: Option<Pin>) -> Result<modelfmt_remote::blocking::File, Error> {
    let source = store.open(at).map_err(|error| opening(at, error.fault()))?;
    if let Some(Pin::B3(_)) = pin {
        check_outboard(at, store)?;
    }
    Ok(source)
}

/// Without an outboard, all of the file would have to be read for a byte of it.
fn check_outboard(at: &Location, store: &Store) -> Result<(), Error> {
    let name = format!("{}.obao4", at.file_name());
    match store.open(&at.sibling(&name)).map(drop) {
        Err(error) if matches!(error.fault(), Fault::NotFound(_)) => {
            let why = format!(
                "there is no {name} beside it, without which a pin b3: would take reading all of it; download it first, or put there \
                 what `modelfmt outboard` writes"
            );
            let source = io::Error::new(io::ErrorKind::Unsupported, why);
            Err(Error::Open { path: at.to_string().into(), source })
        }
        _ => Ok(()),
    }
}

/// The error of opening, which names the file itself.
fn opening(at: &Location, fault: &Fault) -> Error {
    let kind = match fault {
        Fault::NotFound(_) => io::ErrorKind::NotFound,
        Fault::Denied { .. } | Fault::NoCredentials { .. } => io::ErrorKind::PermissionDenied,
        _ => io::ErrorKind::Other,
    };
    Error::Open { path: at.to_string().into(), source: io::Error::new(kind, fault.clone()) }
}

/// An error whose file is named as a URL, once.
pub(crate) fn named(at: &Location, error: Error) -> Error {
    let url = |path: &Path| match path.to_str() {
        Some(name) if !Location::is_url(name) => at.sibling(name).to_string().into(),
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
