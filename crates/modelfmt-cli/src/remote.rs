//! Models at URLs: of buckets and web servers, read by ranges.

use std::io;
use std::path::Path;
use std::sync::OnceLock;

use modelfmt::Pin;
use modelfmt::modelfmt_core::source::{BoxSource, Files, SharedFiles, shared_files};
use modelfmt_remote::blocking::Store;
use modelfmt_remote::{DiskCache, Error, Fault, Location, Options};

use crate::args::OpenArgs;
use crate::failure::{Failure, Result};

/// How the name of an outboard ends.
const OUTBOARD: &str = ".obao4";

/// A file at a URL.
pub(crate) struct Remote {
    /// The URL without what may be secret.
    pub(crate) name: String,
    pub(crate) source: BoxSource,
    /// The files beside it.
    pub(crate) files: SharedFiles,
    /// Whether the server was asked for it.
    pub(crate) was_asked: bool,
}

/// What an argument names, if it is a URL. What is no valid one is an error here, so that nothing prints it as a path.
pub(crate) fn location(path: &Path) -> Result<Option<Location>> {
    let Some(text) = path.to_str().filter(|text| Location::is_url(text)) else { return Ok(None) };
    let shown = || text.split_once("://").map_or("", |(scheme, _)| scheme).to_owned();
    let place = text.parse().map_err(|fault| Failure::Input(format!("{}://…: {fault}", shown())))?;
    Ok(Some(place))
}

/// What is asked of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cache {
    /// Nothing: what the server has is to be judged.
    Not,
    /// What the server says is still the same.
    Asking,
    /// What is there, where a pin says what the file must be. If it is not that, the server has to be asked.
    Trusting,
}

/// Opens the file at a URL.
pub(crate) fn open(place: &Location, args: &OpenArgs, cache: Cache) -> Result<Remote> {
    let failed = |error: &Error| opening(place, error.fault());
    let store = store(args)
        .map_err(|source| Failure::Job(modelfmt::Error::Open { path: "thread".into(), source }))?;
    let mut store = match cache {
        Cache::Not => store.uncached(),
        Cache::Asking => store,
        Cache::Trusting => store.revalidating(args.pin.is_none()),
    };
    let of_outboard = store.clone();
    let is_new = matches!(args.pin, Some(Pin::B3(_))) && outboard_is_new(&store, place)?;
    if is_new && cache == Cache::Trusting {
        // It may be that of another state than the one which the cache has.
        store = store.revalidating(true);
    }
    let source = store.open(place).map_err(|error| failed(&error))?;
    let others = if cache == Cache::Trusting { store.revalidating(true) } else { store };
    let files = Beside { store: of_outboard, place: place.clone(), others: others.beside(place) };
    let files = shared_files(files);
    let was_asked = source.object().was_asked();
    Ok(Remote { name: place.to_string(), source: Box::new(source), files, was_asked })
}

/// The files beside a file. What a pin does not prove by itself is asked for.
struct Beside {
    store: Store,
    place: Location,
    others: SharedFiles,
}

impl Files for Beside {
    type Source = BoxSource;

    fn open(&self, path: &str) -> io::Result<BoxSource> {
        if path.ends_with(OUTBOARD) {
            return Ok(Box::new(self.store.open(&outboard_of(&self.place))?)); // there is one, whatever it is called here
        }
        self.others.open(path)
    }
}

fn outboard_of(place: &Location) -> Location {
    place.sibling(&format!("{}{OUTBOARD}", place.file_name()))
}

/// One store for the whole run: connections are kept, and limits hold for all files together.
pub(crate) fn store(args: &OpenArgs) -> io::Result<Store> {
    static STORE: OnceLock<Store> = OnceLock::new();
    if let Some(store) = STORE.get() {
        return Ok(store.clone());
    }
    let options = Options::new()
        .instance_credentials(args.remote.allow_instance_credentials)
        .private_redirects(args.remote.allow_private_redirects);
    let cache = DiskCache::of_user(|name| std::env::var(name).ok()).filter(|_| !args.remote.no_cache);
    let made = Store::new(match cache {
        Some(cache) => options.cache(cache),
        None => options,
    })?;
    Ok(STORE.get_or_init(|| made).clone())
}

/// Whether the server was asked for the outboard. Without one, all of the file would have to be read for a byte of it.
fn outboard_is_new(store: &Store, place: &Location) -> Result<bool> {
    let name = format!("{}{OUTBOARD}", place.file_name());
    match store.open(&outboard_of(place)) {
        Ok(outboard) => Ok(outboard.object().was_asked()),
        Err(error) if matches!(error.fault(), Fault::NotFound(_)) => Err(Failure::Input(format!(
            "{place}: there is no {name} beside it, without which --pin b3: would take reading all of it; download it first, or put \
             there what `modelfmt outboard` writes"
        ))),
        Err(_) => Ok(true),
    }
}

/// The error of opening, which names the file itself.
fn opening(place: &Location, fault: &Fault) -> Failure {
    let kind = match fault {
        Fault::NotFound(_) => io::ErrorKind::NotFound,
        Fault::Denied { .. } | Fault::NoCredentials { .. } => io::ErrorKind::PermissionDenied,
        _ => io::ErrorKind::Other,
    };
    let source = io::Error::new(kind, fault.clone());
    Failure::Job(modelfmt::Error::Open { path: place.to_string().into(), source })
}
