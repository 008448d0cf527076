//! Verifies files, including files that cannot be opened.
//!
//! [`verify()`] checks every checksum, every hash and every rule of the format. Its [`FileReport`] lists the checks and the
//! findings. For a file that cannot be opened, the report says why.
//!
//! ```
//! use modelfmt::verify::{Status, verify};
//! use modelfmt::{Execution, VerifyLevel};
//!
//! let file = verify("../../testdata/reference/one-shard.aero", VerifyLevel::Full, &Execution::default());
//! assert!(file.report.checks.iter().all(|check| check.status != Status::Failed));
//! ```

use std::path::{Path, PathBuf};

#[cfg(not(target_arch = "wasm32"))]
use modelfmt_core::source::FileSource;
use modelfmt_core::source::{BoxSource, SharedFiles};
use modelfmt_core::{Execution, VerifyLevel};
pub use modelfmt_core::{Report, Status};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::error::{Error, Result};
use crate::formats::Format;
use crate::model::Model;
use crate::open::OpenOptions;
use modelfmt_rules::pin::Pin;

/// The result of verifying one file: the object that `modelfmt verify --json` prints.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FileReport {
    /// The file.
    pub path: PathBuf,
    /// Its format, if it was detected.
    pub format: Option<Format>,
    /// The pin that it was checked against. Without a pin, the file was only checked against itself.
    pub pin: Option<Pin>,
    /// The checks and the findings.
    pub report: Report,
    /// Warnings about what was ignored on opening. They are no faults of the file: see [`Model::warnings`].
    pub warnings: Vec<String>,
}

/// Verifies a file, or a set by its index. If it cannot be opened, the report says why.
#[must_use]
#[cfg(not(target_arch = "wasm32"))]
pub fn verify(path: impl AsRef<Path>, level: VerifyLevel, work: &Execution<'_>) -> FileReport {
    OpenOptions::new().verify(path, level, work)
}

/// Verifies a source with the default options. The report names it `name`. The index of a set needs `files`, which opens the other
/// files.
#[must_use]
pub fn verify_source(
    name: &str,
    source: BoxSource,
    files: Option<SharedFiles>,
    level: VerifyLevel,
    work: &Execution<'_>,
) -> FileReport {
    OpenOptions::new().verify_source(name, source, files, level, work)
}

/// For verification, a wrong checksum is a finding; for opening, it is an error.
impl OpenOptions {
    /// Verifies a file, or a set by its index, with these options, such as a [pin](Self::pin). If it cannot be opened, the report
    /// says why.
    #[must_use]
    #[cfg(not(target_arch = "wasm32"))]
    pub fn verify(&self, path: impl AsRef<Path>, level: VerifyLevel, work: &Execution<'_>) -> FileReport {
        let path = path.as_ref();
        let detect = || FileSource::open(path).and_then(|source| Format::detect(&source)).ok().flatten();
        let opened = self.clone().ignore_checksum(true).open(path);
        self.reported(path, &opened, detect, level, work)
    }

    /// Verifies a source with these options. The report names it `name`. The index of a set needs `files`, which opens the other
    /// files.
    #[must_use]
    pub fn verify_source(
        &self,
        name: &str,
        source: BoxSource,
        files: Option<SharedFiles>,
        level: VerifyLevel,
        work: &Execution<'_>,
    ) -> FileReport {
        let format = Format::detect(&source).ok().flatten();
        let options = self.clone().ignore_checksum(true);
        let opened = options.open_source(name, source, files);
        options.reported(Path::new(name), &opened, || format, level, work)
    }

    /// Returns the report for a file that could not be opened, with the error that says why.
    #[must_use]
    pub fn unreadable(&self, path: impl AsRef<Path>, error: &Error, level: VerifyLevel) -> FileReport {
        let path = path.as_ref();
        let report = Report::unreadable(level, error.without_path(path));
        FileReport { path: path.to_owned(), format: None, pin: self.pin, report, warnings: Vec::new() }
    }

    fn reported(
        &self,
        path: &Path,
        opened: &Result<Model>,
        detect: impl FnOnce() -> Option<Format>,
        level: VerifyLevel,
        work: &Execution<'_>,
    ) -> FileReport {
        let (format, report) = match opened {
            Ok(model) => (Some(model.format()), model.verify_with(level, work)),
            // A file that a policy refuses is not read.
            Err(error @ Error::Policy { .. }) => (None, Report::unreadable(level, error.without_path(path))),
            Err(error) => (detect(), Report::unreadable(level, error.without_path(path))),
        };
        let warnings = opened.as_ref().map(Model::warnings).unwrap_or_default();
        FileReport { path: path.to_owned(), format, pin: self.pin, report, warnings }
    }
}

impl FileReport {
    /// Checks whether there are no findings.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.report.is_ok()
    }
}

impl Serialize for FileReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(7))?;
        map.serialize_entry("path", &self.path.display().to_string())?;
        map.serialize_entry("format", &self.format.map(Format::name))?;
        map.serialize_entry("pin", &self.pin.map(|pin| pin.to_string()))?;
        map.serialize_entry("level", self.report.level.name())?;
        map.serialize_entry("ok", &self.is_ok())?;
        map.serialize_entry("checks", &self.report.checks)?;
        map.serialize_entry("errors", &self.report.errors)?;
        map.end()
    }
}

impl Model {
    /// Checks the model on up to 8 threads, and reports every finding.
    #[must_use]
    pub fn verify(&self, level: VerifyLevel) -> Report {
        self.verify_with(level, &Execution::default())
    }

    /// Checks the model on as many threads as `work` says, and reports progress to `work`, which can stop it.
    #[must_use]
    pub fn verify_with(&self, level: VerifyLevel, work: &Execution<'_>) -> Report {
        let mut report = self.container().verify(level, work);
        self.report_pin(&mut report, work);
        report
    }
}
