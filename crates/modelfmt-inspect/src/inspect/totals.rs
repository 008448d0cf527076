//! Sums over tensors, by dtype.

use std::collections::BTreeMap;

use modelfmt_core::{DType, TensorInfo};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

/// Sums over tensors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sums {
    /// The number of tensors.
    pub tensors: u64,
    /// The number of their elements.
    pub elements: u64,
    /// The length of their values in bytes, from dtypes and shapes.
    pub nbytes: u64,
}

impl Sums {
    pub(super) fn add(&mut self, info: &TensorInfo<'_>) {
        self.tensors += 1;
        self.elements = self.elements.saturating_add(info.elements());
        self.nbytes = self.nbytes.saturating_add(info.nbytes);
    }

    pub(super) const fn join(&mut self, other: &Self) {
        self.tensors = self.tensors.saturating_add(other.tensors);
        self.elements = self.elements.saturating_add(other.elements);
        self.nbytes = self.nbytes.saturating_add(other.nbytes);
    }
}

/// Sums over all tensors and over the tensors of each dtype.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Sums over all tensors.
    pub all: Sums,
    /// Sums over the tensors of each dtype that occurs, in the order of the dtypes.
    pub by_dtype: BTreeMap<DType, Sums>,
}

impl Totals {
    pub(crate) fn of<'a>(tensors: impl Iterator<Item = TensorInfo<'a>>) -> Self {
        let mut totals = Self::default();
        for info in tensors {
            totals.all.add(&info);
            totals.by_dtype.entry(info.dtype).or_default().add(&info);
        }
        totals
    }
}

impl Serialize for Totals {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(4))?;
        map.serialize_entry("tensors", &self.all.tensors)?;
        map.serialize_entry("elements", &self.all.elements)?;
        map.serialize_entry("nbytes", &self.all.nbytes)?;
        map.serialize_entry("dtypes", &ByDType(&self.by_dtype))?;
        map.end()
    }
}

struct ByDType<'a>(&'a BTreeMap<DType, Sums>);

impl Serialize for ByDType<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.0.len()))?;
        for (dtype, sums) in self.0 {
            list.serialize_element(&Row("dtype", dtype.name(), None, sums))?;
        }
        list.end()
    }
}

/// A JSON row of sums: the key and the value of its name, and its depth if there is one.
pub(super) struct Row<'a>(
    pub(super) &'static str,
    pub(super) &'a str,
    pub(super) Option<usize>,
    pub(super) &'a Sums,
);

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(key, name, depth, sums) = self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(key, name)?;
        if let Some(depth) = depth {
            map.serialize_entry("depth", depth)?;
        }
        map.serialize_entry("tensors", &sums.tensors)?;
        map.serialize_entry("elements", &sums.elements)?;
        map.serialize_entry("nbytes", &sums.nbytes)?;
        map.end()
    }
}
