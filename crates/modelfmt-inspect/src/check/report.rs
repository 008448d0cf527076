//! The report of a check: the object that `modelfmt check --json` prints.

use std::path::{Path, PathBuf};

use modelfmt_core::{TensorInfo, author::Shortened};
use serde::ser::{Serialize, SerializeMap, Serializer};
use tensor_stats::{Outlier, Powers};

use super::scan::{Found, has_numbers};

/// The findings of a check: the object that `modelfmt check --json` prints.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CheckReport {
    /// The path of the model.
    pub path: PathBuf,
    /// The tensors with findings, in the model's order.
    pub tensors: Vec<TensorFindings>,
    /// Where an index and its files disagree, or why the model could not be read.
    pub disagreements: Vec<String>,
    /// Tensors that could only be compared with other tensors, with the reason.
    pub unread: Vec<String>,
    /// The number of tensors whose values were checked; `None` if the model could not be read.
    pub tensors_checked: Option<usize>,
    /// The number of tensors without values: a dimension is 0, or they are only declared.
    pub without_values: usize,
    /// What the pickles of a PyTorch checkpoint or of another file name; `None` if there are no pickles.
    pub pickle: Option<PickleFindings>,
    /// Oddities in texts of the metadata, and in templates next to the model.
    pub texts: Vec<TextFinding>,
    /// The vocabularies and other long lists of the metadata that were not searched.
    pub unsearched: Vec<String>,
}

/// An oddity in a text of the metadata, or in a template in a file next to the model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextFinding {
    /// The key of the text, such as `tokenizer.chat_template`, or the name of the file.
    pub name: String,
    /// The byte offset in the text.
    pub at: u64,
    /// A description for people.
    pub what: String,
    /// Whether a template renderer could run code that the file chooses. The other findings are not faults.
    pub runs_code: bool,
}

impl std::fmt::Display for TextFinding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}, byte {}: {}", Shortened(&self.name), self.at, self.what)
    }
}

/// What the pickles of a file name. Code in them is never run here.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PickleFindings {
    /// The Python call that would run the code in such a file.
    pub loader: &'static str,
    /// Every class and function that the pickles name, as `module.name`, sorted.
    pub globals: Vec<String>,
    /// The named or called items that do more than build plain values and tensors, with their location.
    pub unknown: Vec<String>,
}

impl PickleFindings {
    /// Makes empty findings for a file that `loader` loads.
    #[cfg(any(feature = "npy", feature = "pytorch"))]
    pub(super) const fn of(loader: &'static str) -> Self {
        Self { loader, globals: Vec::new(), unknown: Vec::new() }
    }

    /// Checks whether loading the file with [`loader`](Self::loader) runs code that the file chooses.
    #[must_use]
    pub const fn runs_code(&self) -> bool {
        !self.unknown.is_empty()
    }
}

/// The findings for one tensor.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TensorFindings {
    /// The name of the tensor.
    pub name: String,
    /// The number of values that are NaN.
    pub nan: u64,
    /// The number of values that are infinite.
    pub inf: u64,
    /// The index of the first value that is NaN or infinite, counted from 0 in the order of storage.
    pub first_bad: Option<u64>,
    /// The largest magnitude, if it is far beyond most others: at least 2^15 times as large, by exponents.
    pub outlier: Option<Outlier>,
    /// The number of values in each power of two, if there is an outlier. Not part of the JSON output.
    pub powers: Option<Powers>,
    /// Whether all values are zero.
    pub is_zero: bool,
    /// Whether all values are the same number, including zero.
    pub is_constant: bool,
    /// The first tensor of the model with the same dtype, shape and bytes, if it is not this one.
    pub same_as: Option<String>,
}

impl CheckReport {
    pub(super) fn new(path: &Path) -> Self {
        let path = path.to_owned();
        let (tensors, disagreements, unread) = (Vec::new(), Vec::new(), Vec::new());
        let (texts, unsearched) = (Vec::new(), Vec::new());
        Self {
            path,
            tensors,
            disagreements,
            unread,
            tensors_checked: None,
            without_values: 0,
            pickle: None,
            texts,
            unsearched,
        }
    }

    /// Makes the report for a model that cannot be opened or read.
    #[must_use]
    pub fn unreadable(path: impl AsRef<Path>, reason: String) -> Self {
        Self { disagreements: vec![reason], ..Self::new(path.as_ref()) }
    }

    /// Checks that no tensor contains NaN or an infinity, that the index and the files agree, and that
    /// neither a pickle nor a template could run code. Values far beyond the others, and tensors that are
    /// zero, constant or duplicates, do not count as faults.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        let runs_code = self.pickle.as_ref().is_some_and(PickleFindings::runs_code);
        !runs_code
            && !self.texts.iter().any(|text| text.runs_code)
            && self.disagreements.is_empty()
            && self.tensors.iter().all(|tensor| tensor.nan == 0 && tensor.inf == 0)
    }

    /// Says which texts were not searched, if there are any.
    #[must_use]
    pub fn not_searched(&self) -> Option<String> {
        const NAMED: usize = 4;
        let named: Vec<&str> = self.unsearched.iter().take(NAMED).map(String::as_str).collect();
        let more = self.unsearched.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (!named.is_empty()).then(|| format!("not searched: {}{more}", named.join(", ")))
    }

    pub(super) const fn set_checked(&mut self, tensors: usize) {
        self.tensors_checked = Some(tensors);
    }

    pub(super) fn add(
        &mut self,
        info: TensorInfo<'_>,
        found: &Found,
        outlier: Option<(Outlier, Powers)>,
        same_as: Option<String>,
    ) {
        if !has_numbers(info.dtype) {
            let (name, dtype) = (Shortened(info.name), info.dtype);
            self.unread.push(format!("tensor {name:?}: {dtype} values cannot be read as numbers"));
        }
        // A tensor of one number is always constant, and often equal to another tensor, so this is not a
        // finding.
        let is_several = info.elements() > 1;
        let (outlier, powers) = outlier.unzip();
        let findings = TensorFindings {
            name: info.name.to_owned(),
            nan: found.values.nan(),
            inf: found.values.infinite(),
            first_bad: found.values.first_bad(),
            outlier,
            powers,
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
        self.nan > 0
            || self.inf > 0
            || self.outlier.is_some()
            || self.is_zero
            || self.is_constant
            || self.same_as.is_some()
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
        let texts: Vec<String> =
            self.texts.iter().map(ToString::to_string).chain(self.not_searched()).collect();
        map.serialize_entry("findings", &findings.chain(runs).chain(&texts).collect::<Vec<_>>())?;
        if let Some(pickle) = &self.pickle {
            map.serialize_entry("globals", &pickle.globals)?;
            map.serialize_entry("runs_code", &pickle.runs_code())?;
        }
        map.end()
    }
}

impl Serialize for TensorFindings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(8))?;
        map.serialize_entry("name", &self.name)?;
        map.serialize_entry("nan", &self.nan)?;
        map.serialize_entry("inf", &self.inf)?;
        map.serialize_entry("first_bad", &self.first_bad)?;
        map.serialize_entry("outlier", &self.outlier.map(Magnitudes))?;
        map.serialize_entry("zero", &self.is_zero)?;
        map.serialize_entry("constant", &self.is_constant)?;
        map.serialize_entry("same_as", &self.same_as)?;
        map.end()
    }
}

/// An outlier as JSON.
struct Magnitudes(Outlier);

impl Serialize for Magnitudes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("max_abs", &self.0.max_abs)?;
        map.serialize_entry("median_abs", &self.0.median_abs)?;
        map.end()
    }
}
