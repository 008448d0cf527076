//! What was found: the object that `modelfmt check --json` prints.

use std::path::{Path, PathBuf};

use modelfmt_core::{TensorInfo, author::Shortened};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::scan::{Found, has_numbers};

/// What a check of a model found: the object that `modelfmt check --json` prints.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckReport {
    /// The model.
    pub path: PathBuf,
    /// The tensors with findings, in the model's order.
    pub tensors: Vec<TensorFindings>,
    /// Where an index and its files disagree, or why the model could not be read.
    pub disagreements: Vec<String>,
    /// Which tensors could only be compared with others, and why.
    pub unread: Vec<String>,
    /// How many tensors have values that were looked at; `None` if the model could not be read.
    pub looked_at: Option<usize>,
    /// How many tensors have none: a dimension of them is 0, or they are only declared.
    pub without_values: usize,
    /// What a checkpoint of PyTorch names; `None` for other formats.
    pub pickle: Option<PickleFindings>,
}

/// What the pickles of a checkpoint name. Nothing of it is ever run here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PickleFindings {
    /// Every class and function that they name, `module.name`, sorted.
    pub globals: Vec<String>,
    /// Those that do more than build plain values and tensors: what is named or called, and where.
    pub unknown: Vec<String>,
}

impl PickleFindings {
    /// Whether code of the file's choice runs where it is loaded by `torch.load(weights_only=False)` or by `pickle`.
    #[must_use]
    pub const fn runs_code(&self) -> bool {
        !self.unknown.is_empty()
    }
}

/// The findings about a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TensorFindings {
    /// Its name.
    pub name: String,
    /// How many values are NaN.
    pub nan: u64,
    /// How many values are infinite.
    pub inf: u64,
    /// Whether all are zero.
    pub is_zero: bool,
    /// Whether all are the same number, zero included.
    pub is_constant: bool,
    /// The first tensor of the model with the same dtype, shape and bytes, if that is another.
    pub same_as: Option<String>,
}

impl CheckReport {
    pub(super) fn new(path: &Path) -> Self {
        let path = path.to_owned();
        let (tensors, disagreements, unread) = (Vec::new(), Vec::new(), Vec::new());
        Self { path, tensors, disagreements, unread, looked_at: None, without_values: 0, pickle: None }
    }

    /// A report on a model that cannot be opened or read.
    #[must_use]
    pub fn unreadable(path: impl AsRef<Path>, reason: String) -> Self {
        Self { disagreements: vec![reason], ..Self::new(path.as_ref()) }
    }

    /// Whether no tensor holds NaN or an infinity, index and files agree, and no pickle would run code. Zero, constant and duplicate tensors do not count as faults.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        let runs_code = self.pickle.as_ref().is_some_and(PickleFindings::runs_code);
        !runs_code
            && self.disagreements.is_empty()
            && self.tensors.iter().all(|tensor| tensor.nan == 0 && tensor.inf == 0)
    }

    pub(super) const fn looked_at(&mut self, tensors: usize) {
        self.looked_at = Some(tensors);
    }

    pub(super) fn add(&mut self, info: TensorInfo<'_>, found: &Found, same_as: Option<String>) {
        if !has_numbers(info.dtype) {
            let (name, dtype) = (Shortened(info.name), info.dtype);
            self.unread.push(format!("tensor {name:?}: {dtype} values cannot be read as numbers"));
        }
        // A number alone is constant, and like many others: no finding.
        let is_several = info.elements() > 1;
        let findings = TensorFindings {
            name: info.name.to_owned(),
            nan: found.values.nan(),
            inf: found.values.infinite(),
            is_zero: is_several && found.values.is_zero(),
            is_constant: is_several && found.values.is_constant(),
            same_as,
        };
        if findings.is_any() {
            self.tensors.push(findings);
        }
    }
}

impl TensorFindings {
    const fn is_any(&self) -> bool {
        self.nan > 0 || self.inf > 0 || self.is_zero || self.is_constant || self.same_as.is_some()
    }
}

impl Serialize for CheckReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(4))?;
        map.serialize_entry("path", &self.path.display().to_string())?;
        map.serialize_entry("ok", &self.is_ok())?;
        map.serialize_entry("tensors", &self.tensors)?;
        let without = match self.without_values {
            0 => None,
            1 => Some("1 tensor has no values".to_owned()),
            several => Some(format!("{several} tensors have no values")),
        };
        let findings = self.disagreements.iter().chain(&self.unread).chain(&without);
        let runs = self.pickle.iter().flat_map(|pickle| &pickle.unknown);
        map.serialize_entry("findings", &findings.chain(runs).collect::<Vec<_>>())?;
        if let Some(pickle) = &self.pickle {
            map.serialize_entry("globals", &pickle.globals)?;
            map.serialize_entry("runs_code", &pickle.runs_code())?;
        }
        map.end()
    }
}

impl Serialize for TensorFindings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(6))?;
        map.serialize_entry("name", &self.name)?;
        map.serialize_entry("nan", &self.nan)?;
        map.serialize_entry("inf", &self.inf)?;
        map.serialize_entry("zero", &self.is_zero)?;
        map.serialize_entry("constant", &self.is_constant)?;
        map.serialize_entry("same_as", &self.same_as)?;
        map.end()
    }
}
