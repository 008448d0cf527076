//! Errors of the library as exceptions of the package: `modelfmt._errors` has the classes, this says which error is which.

use std::error::Error as StdError;
use std::io;

use modelfmt::{Choice, Error, Remedy, Words};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// What the library calls by its fields, as keywords of the package.
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
            Remedy::Lossy => "lossy=True".to_owned(),
            Remedy::Exclude => "exclude=[…]".to_owned(),
            Remedy::Widen(_) => "widen=True".to_owned(),
            Remedy::Cast { to, by_name: true } => format!("cast={{NAME: \"{to}\"}}"),
            Remedy::Cast { to, by_name: false } => format!("cast=\"{to}\""),
            Remedy::Dequantize(to) => format!("dequantize=\"{to}\""),
            Remedy::Quantize(to) => format!("quantize=\"{to}\""),
            Remedy::Scales => "scales={WEIGHT: SCALE}".to_owned(),
            Remedy::ListNames => "list(model)".to_owned(),
            other => other.to_string(),
        }
    }
}

/// The library's error as an exception.
pub(crate) fn raise(py: Python<'_>, error: &Error) -> PyErr {
    let mut text = match error {
        Error::Damaged { path, error } => {
            format!(
                "{}: {error}; {} takes values as they are",
                path.display(),
                Keywords.remedy(Remedy::SkipVerification)
            )
        }
        error => error.in_words(&Keywords),
    };
    let mut remedies: Vec<String> = Vec::new();
    if let Error::Unsupported { unsupported, .. } = error {
        if unsupported.len() > 1 {
            for group in modelfmt::convert::Unsupported::grouped(unsupported) {
                text.push_str("\n  ");
                text.push_str(&group.in_words(&Keywords));
            }
        }
        remedies.extend(unsupported.iter().filter_map(|item| item.remedy).map(|item| Keywords.remedy(item)));
    }
    remedies.extend(error.remedy().map(|remedy| Keywords.remedy(remedy)));
    remedies.sort();
    remedies.dedup();
    let mut errno = None;
    let mut cause: Option<&(dyn StdError + 'static)> = error.source();
    while let Some(inner) = cause {
        errno = errno.or_else(|| inner.downcast_ref::<io::Error>().and_then(errno_of));
        let more = inner.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = inner.source();
    }
    let name = match error {
        Error::NoSuchTensor { name, .. } => Some(name.as_str()),
        _ => None,
    };
    let path = path_of(error).map(|path| path.to_string_lossy().into_owned());
    let made = factory(py).and_then(|make| make.call1((error.code(), text, remedies, errno, path, name)));
    made.map_or_else(|error| error, PyErr::from_value)
}

/// The number of the system's error; what a server says has none, and gets that of the same kind.
fn errno_of(error: &io::Error) -> Option<i32> {
    let by_kind = match error.kind() {
        io::ErrorKind::NotFound => Some(2),
        io::ErrorKind::PermissionDenied => Some(13),
        _ => None,
    };
    error.raw_os_error().or(by_kind)
}

fn path_of(error: &Error) -> Option<&std::path::Path> {
    match error {
        Error::Open { path, .. }
        | Error::File { path, .. }
        | Error::Refused { path, .. }
        | Error::Damaged { path, .. }
        | Error::UnknownFormat { path, .. }
        | Error::NoTensors { path, .. }
        | Error::NoModel { path, .. }
        | Error::NotEnabled { path, .. }
        | Error::Exists { path }
        | Error::Write { path, .. } => Some(path),
        _ => None,
    }
}

/// `modelfmt._errors.make`
fn factory(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    MAKE.import(py, "modelfmt._errors", "make").cloned()
}

/// An error of the package that the library knows nothing of.
pub(crate) fn refuse(py: Python<'_>, code: &str, text: &str) -> PyErr {
    let made = factory(py).and_then(|make| {
        make.call1((code, text, Vec::<String>::new(), None::<i32>, None::<String>, None::<String>))
    });
    made.map_or_else(|error| error, PyErr::from_value)
}
