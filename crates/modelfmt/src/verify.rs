//! Verification of files, those that cannot be opened included.

#[cfg(not(target_arch = "wasm32"))]
use std::path::Path;
use std::path::PathBuf;

#[cfg(not(target_arch = "wasm32"))]
use modelfmt_core::source::{BoxSource, FileSource};
use modelfmt_core::{Execution, Report, VerifyLevel};
use serde::ser::{Serialize, SerializeMap, Serializer};

#[cfg(not(target_arch = "wasm32"))]
use crate::error::Error;
use crate::error::Result;
use crate::formats::Format;
use crate::model::Model;
#[cfg(not(target_arch = "wasm32"))]
use crate::open::OpenOptions;

/// What verification found in one file: the object that `modelfmt verify --json` prints.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FileReport {
    /// The file.
    pub path: PathBuf,
    /// Its format, if its content tells one.
    pub format: Option<Format>,
    /// What was checked and found.
    pub report: Report,
}

/// Verifies a file, or a set by its index. A file that cannot even be opened gives a report that says why.
#[must_use]
#[cfg(not(target_arch = "wasm32"))]
pub fn verify(path: impl AsRef<Path>, level: VerifyLevel, work: &Execution<'_>) -> FileReport {
    let path = path.as_ref();
    let detect = || FileSource::open(path).and_then(|source| Format::detect(&source)).ok().flatten();
    reported(path, lenient().open(path), detect, level, work)
}

/// As [`verify`], for a source that is one file; `name` stands for it in the report.
#[must_use]
#[cfg(not(target_arch = "wasm32"))]
pub fn verify_source(name: &str, source: BoxSource, level: VerifyLevel, work: &Execution<'_>) -> FileReport {
    let format = Format::detect(&source).ok().flatten();
    reported(Path::new(name), lenient().open_source(name, source, None), || format, level, work)
}

/// A checksum that a reader would refuse is one of the findings.
#[cfg(not(target_arch = "wasm32"))]
fn lenient() -> OpenOptions {
    OpenOptions::new().ignore_checksum(true)
}

#[cfg(not(target_arch = "wasm32"))]
fn reported(
    path: &Path,
    opened: Result<Model>,
    detect: impl FnOnce() -> Option<Format>,
    level: VerifyLevel,
    work: &Execution<'_>,
) -> FileReport {
    let (format, report) = match opened {
        Ok(model) => (Some(model.format()), model.verify_with(level, work)),
        Err(error) => (detect(), Report::unreadable(level, reason(path, &error))),
    };
    FileReport { path: path.to_owned(), format, report }
}

/// The error without the file's name, which the report carries, and with its causes.
#[cfg(not(target_arch = "wasm32"))]
fn reason(path: &Path, error: &Error) -> String {
    let mut text = match error {
        Error::File { error, .. } => error.to_string(),
        other => other.to_string(),
    };
    if let Some(rest) = text.strip_prefix(&format!("{}: ", path.display())) {
        text = rest.to_owned();
    }
    let mut cause = match error {
        Error::File { error, .. } => std::error::Error::source(error),
        _ => None,
    };
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}

impl FileReport {
    /// Whether nothing was found.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.report.is_ok()
    }
}

impl Serialize for FileReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(6))?;
        map.serialize_entry("path", &self.path.display().to_string())?;
        map.serialize_entry("format", &self.format.map(Format::name))?;
        map.serialize_entry("level", self.report.level.name())?;
        map.serialize_entry("ok", &self.is_ok())?;
        map.serialize_entry("checks", &self.report.checks)?;
        map.serialize_entry("errors", &self.report.errors)?;
        map.end()
    }
}

impl Model {
    /// Checks the file and reports every finding, on all cores.
    #[must_use]
    pub fn verify(&self, level: VerifyLevel) -> Report {
        self.verify_with(level, &Execution::default())
    }

    /// As [`verify`](Self::verify), with the work done as `work` says.
    #[must_use]
    pub fn verify_with(&self, level: VerifyLevel, work: &Execution<'_>) -> Report {
        self.container().verify(level, work)
    }
}
