//! The report of a verifier.

use std::fmt;

#[cfg(feature = "serde")]
use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::error::Part;

/// The level of detail of a verification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VerifyLevel {
    /// Structure only: the index is read, nothing is hashed.
    Header,
    /// Also every checksum that covers structure and metadata.
    Control,
    /// Every byte that any checksum, hash or rule covers.
    #[default]
    Full,
}

impl VerifyLevel {
    /// Returns `header`, `control` or `full`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Header => "header",
            Self::Control => "control",
            Self::Full => "full",
        }
    }
}

/// The outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// The check has no findings.
    Ok,
    /// The check has findings.
    Failed,
    /// The file has nothing to check.
    Absent,
}

impl Status {
    /// Returns `ok`, `failed` or `absent`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Absent => "absent",
        }
    }
}

/// Formats a finding: what is wrong with a part of a file, and where.
pub fn finding(part: &Part, at: u64, what: impl fmt::Display) -> String {
    format!("{part} at byte {at}: {what}")
}

/// Formats an error with its causes, on one line. A cause is omitted if the text before it ends with the same
/// text.
#[must_use]
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.map(ToString::to_string).fold(error.to_string(), |text, cause| match text.ends_with(&cause) {
        true => text,
        false => format!("{text}: {cause}"),
    })
}

/// One kind of check and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Check {
    /// `structure`, `crc`, `ihsh`, `chunk-hashes`, `tensor-hashes`, `page-hashes`, `set-hashes`, `shard-crcs`, `lz4`,
    /// `padding`, `values`, `extents` or `signature`.
    pub name: &'static str,
    /// The outcome.
    pub status: Status,
    /// What was checked, or the first finding.
    pub detail: String,
    /// Whether the check has no findings but did not cover everything, for example content whose hash was
    /// never recorded. Then `detail` describes what it did not cover.
    pub is_partial: bool,
}

impl Check {
    const fn new(name: &'static str, status: Status, detail: String) -> Self {
        Self { name, status, detail, is_partial: false }
    }
}

/// The results of all checks, and all findings.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The level of the verification.
    pub level: VerifyLevel,
    /// The checks that the format has at this level, in order.
    pub checks: Vec<Check>,
    /// All findings of all checks: what, where, which rule.
    pub errors: Vec<String>,
}

impl Report {
    /// Creates a report without checks.
    #[must_use]
    pub const fn new(level: VerifyLevel) -> Self {
        Self { level, checks: Vec::new(), errors: Vec::new() }
    }

    /// Creates a report on a file that cannot be opened.
    #[must_use]
    pub fn unreadable(level: VerifyLevel, reason: String) -> Self {
        let check = Check::new("structure", Status::Failed, reason.clone());
        Self { level, checks: vec![check], errors: vec![reason] }
    }

    /// Adds a check: failed if it has findings, otherwise passed. `looked_at` describes what was checked,
    /// such as "12 chunks".
    pub fn add(&mut self, name: &'static str, findings: Vec<String>, looked_at: impl Into<String>) {
        let (status, detail) = match findings.as_slice() {
            [] => (Status::Ok, looked_at.into()),
            [one] => (Status::Failed, one.clone()),
            [first, others @ ..] => (Status::Failed, format!("{first} (and {} more)", others.len())),
        };
        self.checks.push(Check::new(name, status, detail));
        self.errors.extend(findings);
    }

    /// Adds a check like [`add`](Self::add), but one that did not cover everything. `looked_at` describes
    /// what it did not cover.
    pub fn add_partial(&mut self, name: &'static str, findings: Vec<String>, looked_at: impl Into<String>) {
        self.add(name, findings, looked_at);
        if let Some(check) = self.checks.last_mut() {
            check.is_partial = check.status == Status::Ok;
        }
    }

    /// Adds a check for which the file has nothing to check.
    pub fn add_absent(&mut self, name: &'static str, why: impl Into<String>) {
        self.checks.push(Check::new(name, Status::Absent, why.into()));
    }

    /// Returns whether there are no findings.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.errors.is_empty() && self.checks.iter().all(|check| check.status != Status::Failed)
    }

    /// Returns the check with that name, if it was made.
    #[must_use]
    pub fn check(&self, name: &str) -> Option<&Check> {
        self.checks.iter().find(|check| check.name == name)
    }

    /// Returns the report if it has no findings, otherwise an error that contains it.
    ///
    /// # Errors
    /// [`VerifyError`] if there are findings.
    pub fn into_result(self) -> Result<Self, VerifyError> {
        if self.is_ok() { Ok(self) } else { Err(VerifyError(self)) }
    }
}

/// A report with findings, as an error.
#[derive(Clone, PartialEq, Eq)]
pub struct VerifyError(pub Report);

tensor_core::debug_as_sentence!(VerifyError);

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.errors.as_slice() {
            [] => f.write_str("verification failed"),
            [one] => f.write_str(one),
            [first, others @ ..] => write!(f, "{first} (and {} more findings)", others.len()),
        }
    }
}

impl std::error::Error for VerifyError {}

#[cfg(feature = "serde")]
impl Serialize for Check {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut check = serializer.serialize_struct("Check", 3)?;
        check.serialize_field("name", self.name)?;
        check.serialize_field("status", self.status.name())?;
        check.serialize_field("detail", &self.detail)?;
        check.end()
    }
}

#[cfg(feature = "serde")]
impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut report = serializer.serialize_struct("Report", 4)?;
        report.serialize_field("level", self.level.name())?;
        report.serialize_field("ok", &self.is_ok())?;
        report.serialize_field("checks", &self.checks)?;
        report.serialize_field("errors", &self.errors)?;
        report.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_fail_a_report() {
        let mut report = Report::new(VerifyLevel::Full);
        report.add("structure", Vec::new(), "3 tensors");
        report.add_absent("ihsh", "the file has none");
        report.add_partial("chunk-hashes", Vec::new(), "all but one");
        assert!(report.clone().into_result().is_ok() && report.check("chunk-hashes").unwrap().is_partial);
        report.add_partial("tensor-hashes", vec!["c".to_owned()], "all but one");
        assert!(!report.check("tensor-hashes").unwrap().is_partial);
        report.errors.clear();
        report.add("crc", vec!["a".to_owned(), "b".to_owned()], "");
        assert_eq!(report.check("crc").unwrap().detail, "a (and 1 more)");
        assert_eq!(report.clone().into_result().unwrap_err().to_string(), "a (and 1 more findings)");
    }

    #[cfg(feature = "serde")]
    #[test]
    fn a_report_is_what_verify_prints() {
        let mut report = Report::new(VerifyLevel::Full);
        report.add("structure", Vec::new(), "3 tensors");
        report.add("crc", vec!["a".to_owned(), "b".to_owned()], "");
        let json = serde_json::to_string(&report).unwrap();
        let start =
            r#"{"level":"full","ok":false,"checks":[{"name":"structure","status":"ok","detail":"3 tensors"}"#;
        assert!(json.starts_with(start) && json.ends_with(r#""errors":["a","b"]}"#), "{json}");
    }
}
