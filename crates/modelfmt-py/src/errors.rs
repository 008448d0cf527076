//! Errors of the library as exceptions of the package. `modelfmt._errors` has the classes; this module
//! chooses among them.

use std::error::Error as StdError;
use std::path::Path;
use std::{io, iter};

use modelfmt::convert::Unsupported;
use modelfmt::modelfmt_core::author::with_causes;
use modelfmt::wording::{Choice, Remedy, Words};
use modelfmt::{Error, keys, oms};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// The names of the library's fields and remedies, as keywords of the package.
pub(crate) struct Keywords;

impl Words for Keywords {
    fn choice(&self, choice: Choice) -> &str {
        match choice {
            Choice::Target => "format",
            Choice::Output => "path",
            other => other.name(),
        }
    }

    fn remedy(&self, remedy: Remedy) -> String {
        match remedy {
            Remedy::Overwrite => "overwrite=True".to_owned(),
            Remedy::SkipVerification => "verify=False".to_owned(),
            Remedy::AllowTies => "allow_ties=True".to_owned(),
            Remedy::Stringify => "stringify=True".to_owned(),
            Remedy::Lossy => "lossy=True".to_owned(),
            Remedy::Exclude => "exclude=[…]".to_owned(),
            Remedy::Widen(_) => "widen=True".to_owned(),
            Remedy::Cast { to, by_name: true } => format!("cast={{NAME: \"{to}\"}}"),
            Remedy::Cast { to, by_name: false } => format!("cast=\"{to}\""),
            Remedy::Dequantize(to) => format!("dequantize=\"{to}\""),
            Remedy::Quantize(to) => format!("quantize=\"{to}\""),
            Remedy::Scales => "scales={WEIGHT: SCALE}".to_owned(),
            Remedy::ListNames => "list(model)".to_owned(),
            Remedy::Unlock => "identity=, passphrase= or raw_key=".to_owned(),
            other => other.to_string(),
        }
    }
}

/// Returns the library's error as an exception.
pub(crate) fn raise(py: Python<'_>, error: &Error) -> PyErr {
    let mut text = match error {
        Error::Damaged { path, error } => {
            let remedy = Keywords.remedy(Remedy::SkipVerification);
            format!("{}: {error}; {remedy} takes values as they are", path.display())
        }
        error => error.in_words(&Keywords),
    };
    if let Error::Unsupported { unsupported, .. } = error
        && unsupported.len() > 1
    {
        for group in Unsupported::grouped(unsupported) {
            text.push_str("\n  ");
            text.push_str(&group.in_words(&Keywords));
        }
    }
    let errno = add_causes(&mut text, error);
    let text = text.replace("--allow-instance-credentials", "allow_instance_credentials=True");
    let name = match error {
        Error::NoSuchTensor { name, .. } => Some(name.as_str()),
        _ => None,
    };
    make(py, error.code(), &text, remedies(error), (errno, path_of(error), name))
}

/// Appends the causes of an error to its text, except those that the text already contains. Returns the
/// number of the system's error.
fn add_causes(text: &mut String, error: &dyn StdError) -> Option<i32> {
    let mut errno = None;
    for cause in iter::successors(error.source(), |&cause| cause.source()) {
        errno = errno.or_else(|| cause.downcast_ref::<io::Error>().and_then(errno_of));
        let more = cause.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
    }
    errno
}

/// Returns the keywords that would help.
fn remedies(error: &Error) -> Vec<String> {
    let mut remedies: Vec<Remedy> = error.remedy().into_iter().collect();
    if let Error::Unsupported { unsupported, .. } = error {
        remedies.extend(unsupported.iter().filter_map(|item| item.remedy));
    }
    let mut remedies: Vec<String> = remedies.into_iter().map(|remedy| Keywords.remedy(remedy)).collect();
    remedies.sort();
    remedies.dedup();
    remedies
}

/// Returns the exception for an error of reading, making or using a key.
pub(crate) fn of_key(py: Python<'_>, error: &keys::Error) -> PyErr {
    let text = with_causes(error);
    match error {
        keys::Error::Read { path, source } => of_file(py, "cannot-read", &text, path, source),
        keys::Error::Write { path, source } => of_file(py, "cannot-write", &text, path, source),
        keys::Error::Exists { path } => make(py, "exists", &text, Vec::new(), (None, Some(path), None)),
        _ => refuse(py, "key", &text),
    }
}

/// Returns the exception for an error of making a signature next to a file.
pub(crate) fn of_signature(py: Python<'_>, error: &oms::Error) -> PyErr {
    of_signature_saying(py, error, with_causes(error))
}

/// Like `of_signature`, with another text.
pub(crate) fn of_signature_saying(py: Python<'_>, error: &oms::Error, text: String) -> PyErr {
    match error {
        oms::Error::Read { path, source } => of_file(py, "cannot-read", &text, path, source),
        oms::Error::Write { path, source } => of_file(py, "cannot-write", &text, path, source),
        oms::Error::Exists { path } => {
            let remedy = Keywords.remedy(Remedy::Overwrite);
            let text = format!("{text}; {remedy} replaces it");
            make(py, "exists", &text, vec![remedy], (None, Some(path), None))
        }
        oms::Error::Changed { path } => make(py, "changed", &text, Vec::new(), (None, Some(path), None)),
        oms::Error::Unsignable { .. } => refuse(py, "refused", &text),
        oms::Error::Key(error) => of_key(py, error),
        _ => refuse(py, "key", &text),
    }
}

/// Returns the exception for a system error about a file.
pub(crate) fn of_file(py: Python<'_>, code: &str, text: &str, path: &Path, source: &io::Error) -> PyErr {
    make(py, code, text, Vec::new(), (errno_of(source), Some(path), None))
}

/// Returns the number of the system's error. An error that a server or the library reports has no number, and
/// gets one for its kind.
fn errno_of(error: &io::Error) -> Option<i32> {
    let by_kind = match error.kind() {
        io::ErrorKind::NotFound => Some(2),
        io::ErrorKind::PermissionDenied => Some(13),
        io::ErrorKind::AlreadyExists => Some(17),
        io::ErrorKind::IsADirectory => Some(21),
        _ => None,
    };
    error.raw_os_error().or(by_kind)
}

fn path_of(error: &Error) -> Option<&Path> {
    match error {
        Error::Open { path, .. }
        | Error::File { path, .. }
        | Error::Refused { path, .. }
        | Error::Damaged { path, .. }
        | Error::UnknownFormat { path, .. }
        | Error::NoTensors { path, .. }
        | Error::Unmapped { path, .. }
        | Error::Adapter { path, .. }
        | Error::Imatrix { path, .. }
        | Error::NoHubFolder { path, .. }
        | Error::NoModel { path, .. }
        | Error::NotEnabled { path, .. }
        | Error::Policy { path, .. }
        | Error::Exists { path }
        | Error::Write { path, .. } => Some(path),
        _ => None,
    }
}

/// Returns `modelfmt._errors.make`.
fn factory(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    MAKE.import(py, "modelfmt._errors", "make").cloned()
}

/// Returns an error of the package itself, with a code that `modelfmt._errors` knows.
pub(crate) fn refuse(py: Python<'_>, code: &str, text: &str) -> PyErr {
    make(py, code, text, Vec::new(), (None, None, None))
}

/// Calls `modelfmt._errors.make`. The details are the number of the system's error and the path for a file,
/// and the name for a tensor.
fn make(
    py: Python<'_>,
    code: &str,
    text: &str,
    remedies: Vec<String>,
    (errno, path, name): (Option<i32>, Option<&Path>, Option<&str>),
) -> PyErr {
    let path = path.map(|path| path.to_string_lossy());
    let made = factory(py).and_then(|make| make.call1((code, text, remedies, errno, path, name)));
    made.map_or_else(|error| error, PyErr::from_value)
}
