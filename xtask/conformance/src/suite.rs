//! What the suite consists of: formats, their files, and what a reader must find in each.
//!
//! The expected reading is what the code that makes a file meant to write. No reader contributes to it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

/// What a reader must do with a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Read it.
    Read,
    /// Refuse it, when it is opened or when it is checked.
    Refused,
    /// Read or refuse it.
    Either,
}

impl Verdict {
    /// Returns the letter that the name of such a file begins with.
    const fn letter(self) -> char {
        match self {
            Self::Read => 'y',
            Self::Refused => 'n',
            Self::Either => 'i',
        }
    }
}

/// A file of the suite.
pub(crate) struct Case {
    verdict: Verdict,
    /// The file's name in the folder of its format.
    pub(crate) file: String,
    /// The anchor of a heading on the format's page in `docs/formats`.
    pub(crate) section: &'static str,
    /// The rule that the file keeps or breaks, or why a reader may do either.
    rule: String,
    pub(crate) bytes: Vec<u8>,
    reading: Option<Reading>,
}

impl Case {
    /// Returns the file's line in the manifest.
    fn entry(&self, page: &str) -> String {
        let verdict = match self.verdict {
            Verdict::Read => "read",
            Verdict::Refused => "refused",
            Verdict::Either => "either",
        };
        let text = |text: &str| Value::from(text).to_string();
        let mut line = format!(
            r#"{{"file": {}, "verdict": "{verdict}", "rule": {}, "section": "{page}#{}""#,
            text(&self.file),
            text(&self.rule),
            self.section
        );
        if let Some(reading) = &self.reading {
            let tensors = Value::from(reading.tensors.clone());
            let _ = write!(line, r#", "tensors": {tensors}, "metadata": {}"#, reading.metadata);
        }
        line + "}"
    }
}

/// What a reader must find in a file.
#[derive(Clone)]
pub(crate) struct Reading {
    tensors: Vec<Value>,
    metadata: Value,
}

impl Reading {
    /// Returns a reading without tensors or metadata.
    pub(crate) fn empty() -> Self {
        Self { tensors: Vec::new(), metadata: Map::new().into() }
    }

    /// Adds a tensor. `values` are little-endian and row-major, whatever the file has.
    pub(crate) fn tensor(mut self, name: &str, dtype: &str, shape: &[u64], values: &[u8]) -> Self {
        let digest = Sha256::digest(values).iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        self.tensors.push(json!({"name": name, "dtype": dtype, "shape": shape, "sha256": digest}));
        self
    }

    /// Adds a tensor without values.
    pub(crate) fn declared(mut self, name: &str, dtype: &str, shape: &[u64]) -> Self {
        self.tensors.push(json!({"name": name, "dtype": dtype, "shape": shape, "sha256": null}));
        self
    }

    /// Sets the metadata.
    pub(crate) fn metadata(mut self, metadata: Value) -> Self {
        self.metadata = metadata;
        self
    }
}

/// A format and its files.
pub(crate) struct Format {
    /// The name of its folder.
    pub(crate) name: &'static str,
    extension: &'static str,
    /// The page that the sections are on.
    pub(crate) page: &'static str,
    pub(crate) cases: Vec<Case>,
}

impl Format {
    pub(crate) const fn new(name: &'static str, extension: &'static str, page: &'static str) -> Self {
        Self { name, extension, page, cases: Vec::new() }
    }

    /// Adds a file that must be read.
    pub(crate) fn read(
        &mut self,
        name: impl AsRef<str>,
        section: &'static str,
        rule: impl Into<String>,
        bytes: Vec<u8>,
        reading: Reading,
    ) {
        self.add(Verdict::Read, name.as_ref(), section, rule.into(), bytes, Some(reading));
    }

    /// Adds a file that must be refused.
    pub(crate) fn refused(
        &mut self,
        name: impl AsRef<str>,
        section: &'static str,
        rule: impl Into<String>,
        bytes: Vec<u8>,
    ) {
        self.add(Verdict::Refused, name.as_ref(), section, rule.into(), bytes, None);
    }

    /// Adds a file that a reader may read or refuse. If it reads the file, it must find `reading`, if there
    /// is one.
    pub(crate) fn either(
        &mut self,
        name: impl AsRef<str>,
        section: &'static str,
        why: impl Into<String>,
        bytes: Vec<u8>,
        reading: Option<Reading>,
    ) {
        self.add(Verdict::Either, name.as_ref(), section, why.into(), bytes, reading);
    }

    /// Adds files that end before each of these fields of a sound file, and one byte into it.
    pub(crate) fn cut(&mut self, kind: &str, section: &'static str, sound: &[u8], fields: &[(&str, usize)]) {
        for (field, at) in fields {
            let name = field.replace(' ', "-");
            for (len, cut) in [(*at, "before"), (at + 1, "inside")] {
                let Some(bytes) = sound.get(..len).filter(|_| len < sound.len()) else { continue };
                if self.cases.iter().all(|case| case.bytes != bytes) {
                    let rule = format!("the file ends {cut} {field}");
                    self.refused(format!("{kind}cut-{cut}-{name}"), section, rule, bytes.to_vec());
                }
            }
        }
    }

    fn add(
        &mut self,
        verdict: Verdict,
        name: &str,
        section: &'static str,
        rule: String,
        bytes: Vec<u8>,
        reading: Option<Reading>,
    ) {
        let file = format!("{}_{name}.{}", verdict.letter(), self.extension);
        self.cases.push(Case { verdict, file, section, rule, bytes, reading });
    }

    /// Returns what is wrong with the suite itself.
    pub(crate) fn faults(&self) -> Vec<String> {
        let (mut names, mut contents) = (BTreeMap::new(), BTreeMap::new());
        let mut faults = Vec::new();
        for case in &self.cases {
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(c);
            if !case.file.chars().all(plain) {
                faults.push(format!(
                    "{}/{}: a name of other characters than a-z, 0-9, - _ .",
                    self.name, case.file
                ));
            }
            if names.insert(&case.file, ()).is_some() {
                faults.push(format!("{}/{}: made twice", self.name, case.file));
            }
            if let Some(other) = contents.insert(&case.bytes, &case.file) {
                faults.push(format!("{}/{}: the same bytes as {other}", self.name, case.file));
            }
        }
        faults
    }

    /// Returns the text of `manifest.json`, with one line for each file.
    pub(crate) fn manifest(&self) -> String {
        let mut entries: Vec<_> = self.cases.iter().map(|case| (&case.file, case.entry(self.page))).collect();
        entries.sort();
        let entries: Vec<_> = entries.into_iter().map(|(_, entry)| entry).collect();
        format!("{{\"format\": \"{}\", \"files\": [\n{}\n]}}\n", self.name, entries.join(",\n"))
    }
}

/// Makes bytes that repeat only after 251.
pub(crate) fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|n| ((n * 37 + 11) % 251) as u8).collect()
}
