//! Opens and verifies models.

use std::io;
use std::sync::{Mutex, PoisonError};

use modelfmt::verify::FileReport;
use modelfmt::{Error, Execution, Model, OpenOptions, Pin, VerifyLevel};
use modelfmt_core::source::{BoxSource, Files, SharedFiles, shared_files};

use super::folder::{model_in, model_in_unmarked};
use super::{judged, open_error, shown};
use crate::blocking::{File, Store};
use crate::error::Fault;
use crate::url::Location;

/// The suffix of the name of an outboard.
const OUTBOARD: &str = ".obao4";

/// Opens the model at a URL, as `OpenOptions::open` does for a path. A folder with exactly one model can be
/// opened as that model, if the server can list its files, as buckets and Hugging Face can.
///
/// If the store has a cache, the server is asked whether the file is still the same. With a pin, it is asked
/// only if the bytes in the cache do not match the pin. A [`Pin::B3`] needs an outboard in the same folder,
/// because otherwise the whole file would have to be read.
///
/// # Errors
/// The errors of `OpenOptions::open`.
pub fn open(store: &Store, at: &Location, options: &OpenOptions) -> Result<Model, Error> {
    at_model(store, at, options, |at| open_file(store, at, options))
}

/// Calls a function with a file, or with the model in a folder.
fn at_model<T>(
    store: &Store,
    at: &Location,
    options: &OpenOptions,
    open: impl Fn(&Location) -> Result<T, Error>,
) -> Result<T, Error> {
    if at.is_folder() {
        return open(&model_in(store, at, options)?);
    }
    match open(at) {
        Err(error) if is_missing(&error, at) => match model_in_unmarked(store, at, options) {
            Some(model) => open(&model?),
            None => Err(error),
        },
        opened => opened,
    }
}

/// Checks whether the error means that there is no such file.
fn is_missing(error: &Error, at: &Location) -> bool {
    matches!(error, Error::Open { path, source } if source.kind() == io::ErrorKind::NotFound && *path == shown(at))
}

fn open_file(store: &Store, at: &Location, options: &OpenOptions) -> Result<Model, Error> {
    let options = &judged(at, options)?;
    let opened = Opened::new(store, at, options, Cache::Trusting)?;
    let asked_server = opened.asked_server;
    match options.open_source(&opened.name, opened.source, Some(opened.files)) {
        // The cache may have an older file than the one that was pinned.
        Err(_) if !asked_server => {
            let opened = Opened::new(store, at, options, Cache::Asking)?;
            options.open_source(&opened.name, opened.source, Some(opened.files))
        }
        opened => opened,
    }
}

/// Verifies the model at a URL, as `OpenOptions::verify` does for a path. Everything is read from the server,
/// and nothing from the cache.
#[must_use]
pub fn verify(
    store: &Store,
    at: &Location,
    options: &OpenOptions,
    level: VerifyLevel,
    work: &Execution<'_>,
) -> FileReport {
    let opened = at_model(store, at, options, |at| {
        let options = judged(at, options)?;
        Ok((Opened::new(store, at, &options, Cache::Not)?, options))
    });
    match opened {
        Ok((Opened { name, source, files, .. }, options)) => {
            options.verify_source(&name, source, Some(files), level, work)
        }
        Err(error) => options.unreadable(shown(at), &error, level),
    }
}

/// How the cache is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cache {
    /// Not at all, because the file on the server has to be checked.
    Not,
    /// For bytes that have not changed on the server. The server is asked.
    Asking,
    /// For everything, because a pin states what the file must be. If the bytes do not match the pin, the
    /// server is asked after all.
    Trusting,
}

/// An opened file.
struct Opened {
    name: String,
    source: BoxSource,
    /// The other files in its folder.
    files: SharedFiles,
    /// Whether the server was asked when it was opened.
    asked_server: bool,
}

impl Opened {
    fn new(store: &Store, at: &Location, options: &OpenOptions, cache: Cache) -> Result<Self, Error> {
        let pin = options.expected_pin();
        let mut store = match cache {
            Cache::Not => store.uncached(),
            Cache::Asking => store.clone(),
            Cache::Trusting => store.revalidating(pin.is_none()),
        };
        let of_outboard = store.clone();
        let has_outboard = matches!(pin, Some(Pin::B3(_)));
        let outboard = if has_outboard { open_outboard(&store, at)? } else { None };
        let is_new = outboard.as_ref().is_none_or(|outboard| outboard.object().asked_server());
        if has_outboard && is_new && cache == Cache::Trusting {
            // The outboard may belong to another version than the one in the cache.
            store = store.revalidating(true);
        }
        let source = store.open(at).map_err(|error| open_error(at, error.fault()))?;
        let others = if cache == Cache::Trusting { store.revalidating(true) } else { store };
        let (others, outboard) = (others.beside(at), Mutex::new(outboard));
        let files = Beside { store: of_outboard, at: at.clone(), outboard, others };
        let asked_server = source.object().asked_server();
        Ok(Self { name: at.to_string(), source: Box::new(source), files: shared_files(files), asked_server })
    }
}

/// The other files in the folder of a file. For files that the pin does not prove, the server is asked.
struct Beside {
    store: Store,
    at: Location,
    /// The outboard, which was opened to check that it exists. The first reader takes it.
    outboard: Mutex<Option<File>>,
    others: SharedFiles,
}

impl Files for Beside {
    type Source = BoxSource;

    fn open(&self, path: &str) -> io::Result<BoxSource> {
        if path.ends_with(OUTBOARD) {
            // The outboard exists, whatever name the caller expects.
            return match self.outboard.lock().unwrap_or_else(PoisonError::into_inner).take() {
                Some(outboard) => Ok(Box::new(outboard)),
                None => Ok(Box::new(self.store.open(&outboard_of(&self.at))?)),
            };
        }
        self.others.open(path)
    }
}

fn outboard_of(at: &Location) -> Location {
    at.sibling(&outboard_name(at))
}

fn outboard_name(at: &Location) -> String {
    format!("{}{OUTBOARD}", at.file_name())
}

/// Opens the outboard of a file. A missing outboard is an error, because without it the whole file would have
/// to be read for a single byte. Returns `None` if opening fails for another reason, which may be temporary.
fn open_outboard(store: &Store, at: &Location) -> Result<Option<File>, Error> {
    match store.open(&outboard_of(at)) {
        Ok(outboard) => Ok(Some(outboard)),
        Err(error) if matches!(error.fault(), Fault::NotFound(_)) => {
            let why = format!(
                "there is no {} next to it, so checking a b3: pin would need the whole file; get the file first with `modelfmt fetch`, or put there \
                 what `modelfmt outboard` writes",
                outboard_name(at)
            );
            let source = io::Error::new(io::ErrorKind::Unsupported, why);
            Err(Error::Open { path: shown(at), source })
        }
        Err(_) => Ok(None),
    }
}
