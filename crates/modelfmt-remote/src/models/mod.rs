//! Opens and verifies models at URLs, and writes them into buckets, with the names and errors of `modelfmt`.
//!
//! ```no_run
//! use modelfmt::OpenOptions;
//! use modelfmt_remote::{Options, blocking::Store, models};
//!
//! let store = Store::new(Options::new())?;
//! let model = models::open(&store, &"s3://models/m.gguf".parse()?, &OpenOptions::new())?;
//! println!("{} tensors", model.tensor_count());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod folder;
mod read;
mod write;

use std::io;
use std::path::Path;

pub use read::{open, verify};
pub use write::{convert, dry_run, save, write_parts};

use modelfmt::OpenOptions;

use crate::error::{Error, Fault, Result};
use crate::url::Location;

/// Parses a path that is the URL of a file or folder; `None` if it is not a URL. The error for an invalid URL
/// shows only its scheme, because the rest may be secret.
///
/// # Errors
/// [`Fault::Url`] for an invalid URL.
pub fn location(path: &Path) -> Result<Option<Location>> {
    let Some(text) = path.to_str() else { return Ok(None) };
    // A local file may have such a name. If there is none, the path is taken for a URL of an unknown kind.
    if !Location::is_url(text) && (!has_scheme(text) || path.exists()) {
        return Ok(None);
    }
    let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
    let place = text.parse().map_err(|fault| Error::new(&format_args!("{scheme}://…"), fault))?;
    Ok(Some(place))
}

/// Checks whether a text begins with a URL scheme. A single letter may be a Windows drive.
fn has_scheme(text: &str) -> bool {
    let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme).as_bytes();
    scheme.len() > 1
        && scheme.first().is_some_and(u8::is_ascii_alphabetic)
        && scheme.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte))
}

/// Returns a URL in the form that the errors of `modelfmt` show, without parts that may be secret.
fn shown(at: &Location) -> std::path::PathBuf {
    at.to_string().into()
}

/// Returns the error of opening a file. The error itself contains the name of the file.
fn open_error(at: &Location, fault: &Fault) -> modelfmt::Error {
    let kind = match fault {
        Fault::NotFound(_) => io::ErrorKind::NotFound,
        Fault::Denied { .. } | Fault::NoCredentials { .. } => io::ErrorKind::PermissionDenied,
        _ => io::ErrorKind::Other,
    };
    modelfmt::Error::Open { path: shown(at), source: io::Error::new(kind, fault.clone()) }
}

/// Returns the options for a file at a URL. If a policy refuses the URL, the file is not requested. The folder
/// of the file may have been listed before.
#[cfg(feature = "policy")]
fn judged(at: &Location, options: &OpenOptions) -> std::result::Result<OpenOptions, modelfmt::Error> {
    if let Some(policy) = options.get_policy() {
        policy.check_url(&at.whole())?;
    }
    Ok(options.clone().at_url(at.whole()))
}

/// Returns the options unchanged: without the feature, there is no policy.
#[cfg(not(feature = "policy"))]
#[allow(clippy::unnecessary_wraps, reason = "as with the feature")]
fn judged(_: &Location, options: &OpenOptions) -> std::result::Result<OpenOptions, modelfmt::Error> {
    Ok(options.clone())
}
