//! Makes a bill of materials of models, the output of `modelfmt bom`, as [CycloneDX](https://cyclonedx.org)
//! 1.6 or [SPDX](https://spdx.dev) 3.0.1.
//!
//! It states the name and version of each model, its licence, the models that it was made from, its
//! parameters and dtypes, and the digests of its files. These are facts about the files and statements of
//! their metadata; unknown items are left out. The same models give the same bytes: the caller supplies the
//! time, and identifiers are made from the content.
//!
//! ```
//! use modelfmt::bom::{BomOptions, Spec, bom};
//! use modelfmt::{Execution, Model};
//!
//! let model = Model::open("../../testdata/reference/one-shard.aero")?;
//! let bom = bom(&[&model], &BomOptions::new(), &Execution::default())?;
//! let json = bom.to_json(Spec::CycloneDx)?;
//! assert!(json.contains(r#""specVersion": "1.6""#));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod base;
mod created;
mod cyclonedx;
mod files;
mod licence;
mod spdx3;
mod subject;
mod text;
mod url;

use std::str::FromStr;

use modelfmt_core::Execution;
use modelfmt_core::value::json::{self, JsonError};
use modelfmt_core::value::{Object, Value};
use modelfmt_model::error::Result;
use modelfmt_model::model::Model;
use modelfmt_rules::wording::{ParseError, escaped_json};

pub use created::Created;
#[cfg(feature = "report")]
pub(crate) use subject::Stated;
use subject::Subject;

/// A specification of bills of materials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Spec {
    /// CycloneDX 1.6, with components of the type `machine-learning-model`.
    #[default]
    CycloneDx,
    /// SPDX 3.0.1, with elements of its AI profile.
    Spdx,
}

impl Spec {
    /// All specifications.
    pub const ALL: [Self; 2] = [Self::CycloneDx, Self::Spdx];

    /// Returns the name in the arguments of the program.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CycloneDx => "cyclonedx",
            Self::Spdx => "spdx",
        }
    }
}

impl FromStr for Spec {
    type Err = ParseError;

    fn from_str(name: &str) -> Result<Self, ParseError> {
        let found = Self::ALL.into_iter().find(|spec| spec.name() == name);
        found.ok_or_else(|| ParseError::new("expected cyclonedx or spdx"))
    }
}

/// The options of a bill of materials.
#[derive(Clone, Copy, Debug, Default)]
pub struct BomOptions {
    tensors: bool,
    created: Created,
}

impl BomOptions {
    /// Makes options for files without their tensors.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Also lists each tensor with the BLAKE3 hash of its values. For this, all values are read once more.
    #[must_use]
    pub const fn tensors(mut self, tensors: bool) -> Self {
        self.tensors = tensors;
        self
    }

    /// Sets the time that SPDX requires; 1970-01-01T00:00:00Z by default. CycloneDX has no time.
    #[must_use]
    pub const fn created(mut self, created: Created) -> Self {
        self.created = created;
        self
    }
}

/// A bill of materials.
#[derive(Clone, Debug)]
pub struct Bom {
    subjects: Vec<Subject>,
    created: Created,
}

/// Reads the models and computes the digests of their files. A file is read in pieces, once for both digests.
/// To list signers, open a model with their keys, so that their signatures are verified.
///
/// # Errors
/// If a file is missing, cannot be read, changes meanwhile or does not match the pin or signature of the
/// model, or if the progress callback stops the work.
pub fn bom(models: &[&Model], options: &BomOptions, work: &Execution<'_>) -> Result<Bom> {
    let subjects: Result<Vec<Subject>> =
        models.iter().map(|model| Subject::of(model, options.tensors, work)).collect();
    Ok(Bom { subjects: subjects?, created: options.created })
}

impl Bom {
    /// Returns the number of files of all models.
    #[must_use]
    pub fn file_count(&self) -> usize {
        self.subjects.iter().map(|subject| subject.files.len()).sum()
    }

    /// Returns the JSON text, with a newline at its end. Characters that would disturb a terminal are
    /// escaped.
    ///
    /// # Errors
    /// Currently never: the text has few levels, and only values that JSON can hold.
    pub fn to_json(&self, spec: Spec) -> Result<String, JsonError> {
        const NO_UUID: &str = "00000000-0000-0000-0000-000000000000";
        let uuid = uuid(json::to_string(&self.render(spec, NO_UUID))?.as_bytes());
        let text = json::to_string_pretty(&self.render(spec, &uuid))?;
        Ok(escaped_json(&text).into_owned() + "\n")
    }

    fn render(&self, spec: Spec, uuid: &str) -> Object {
        match spec {
            Spec::CycloneDx => cyclonedx::document(&self.subjects, uuid),
            Spec::Spdx => spdx3::document(&self.subjects, uuid, self.created),
        }
    }
}

/// Returns a UUID of version 8 (RFC 9562): the beginning of the BLAKE3 hash of the content.
fn uuid(content: &[u8]) -> String {
    let hash = blake3::hash(content);
    let mut bytes = [0_u8; 16];
    bytes.iter_mut().zip(hash.as_bytes()).for_each(|(to, from)| *to = *from);
    bytes[6] = bytes[6] & 0x0f | 0x80; // version 8
    bytes[8] = bytes[8] & 0x3f | 0x80; // the variant of RFC 9562
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}

/// Makes an object from these members, without the members whose value is `None`.
fn object<const N: usize>(members: [(&str, Option<Value>); N]) -> Object {
    members.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}
