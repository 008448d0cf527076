//! Models at URLs: of buckets and web servers, read by ranges.

use std::io;
use std::path::Path;
use std::sync::OnceLock;

use modelfmt::Pin;
use modelfmt::modelfmt_core::source::{BoxSource, SharedFiles};
use modelfmt_remote::blocking::Store;
use modelfmt_remote::{Error, Fault, Location, Options};

use crate::args::OpenArgs;
use crate::failure::{Failure, Result};

/// A file at a URL.
pub(crate) struct Remote {
    /// The URL without what may be secret.
    pub(crate) name: String,
    pub(crate) source: BoxSource,
    /// The files beside it.
    pub(crate) files: SharedFiles,
}

/// What an argument names, if it is a URL. What is no valid one is an error here, so that nothing prints it as a path.
pub(crate) fn location(path: &Path) -> Result<Option<Location>> {
    let Some(text) = path.to_str().filter(|text| Location::is_url(text)) else { return Ok(None) };
    let shown = || text.split_once("://").map_or("", |(scheme, _)| scheme).to_owned();
    let place = text.parse().map_err(|fault| Failure::Input(format!("{}://…: {fault}", shown())))?;
    Ok(Some(place))
}

/// Opens the file at a URL.
pub(crate) fn open(place: &Location, args: &OpenArgs) -> Result<Remote> {
    let failed = |error: &Error| opening(place, error.fault());
    let store = store(args)
        .map_err(|source| Failure::Job(modelfmt::Error::Open { path: "thread".into(), source }))?;
    let source = store.open(place).map_err(|error| failed(&error))?;
    if let Some(Pin::B3(_)) = args.pin {
        check_outboard(&store, place)?;
    }
    Ok(Remote { name: place.to_string(), source: Box::new(source), files: store.beside(place) })
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
    let made = Store::new(options)?;
    Ok(STORE.get_or_init(|| made).clone())
}

/// Without an outboard, all of the file would have to be read for a byte of it.
fn check_outboard(store: &Store, place: &Location) -> Result {
    let name = format!("{}.obao4", place.file_name());
    match store.open(&place.sibling(&name)).map(|_| ()) {
        Err(error) if matches!(error.fault(), Fault::NotFound(_)) => Err(Failure::Input(format!(
            "{place}: there is no {name} beside it, without which --pin b3: would take reading all of it; download it first, or put \
             there what `modelfmt outboard` writes"
        ))),
        _ => Ok(()),
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
