//! What differs between two models: tensors missing, renamed, reshaped, retyped or changed, and metadata.

use std::collections::{HashMap, HashSet};

use modelfmt_core::value::Value;
use modelfmt_core::{DType, Execution, TensorInfo};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::convert::MetadataDiff;
use crate::convert::flat::differences;
use crate::error::Result;
use crate::model::Model;
use crate::ties::{Ties, check_reading};
use crate::values::{Numbers, Pieces, is_numeric};

/// What differs between two models: the object that `modelfmt diff --json` prints.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Diff {
    /// Tensors that only the first has, and that are not [renamed](Self::renamed).
    pub only_in_a: Vec<String>,
    /// Tensors that only the second has, and that are not [renamed](Self::renamed).
    pub only_in_b: Vec<String>,
    /// Tensors with the same dtype, shape and bytes under another name.
    pub renamed: Vec<Renamed>,
    /// Tensors of both that are not the same.
    pub changed: Vec<Changed>,
    /// Metadata keys with different values.
    pub metadata: Vec<MetadataDiff>,
}

/// The same tensor under two names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renamed {
    /// Its name in the first model.
    pub a: String,
    /// Its name in the second.
    pub b: String,
}

/// A tensor that is not the same in both models.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Changed {
    /// Its name.
    pub name: String,
    /// Whether its type changed.
    pub dtype: Option<(DType, DType)>,
    /// Whether its dimensions changed.
    pub shape: Option<(Vec<u64>, Vec<u64>)>,
    /// How its values changed, if they did.
    pub values: Option<ValueDiff>,
}

/// How the values of a tensor differ.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ValueDiff {
    /// The largest absolute difference; infinite where a number meets a NaN or an infinity. `None` if the values are not
    /// numbers, or not as many in both.
    pub max_abs: Option<f64>,
    /// The largest difference relative to the larger magnitude of the two.
    pub max_rel: Option<f64>,
}

impl Diff {
    /// Whether nothing differs.
    #[must_use]
    pub fn is_same(&self) -> bool {
        *self == Self::default()
    }
}

/// Compares two models: tensors by name, then by bytes; metadata by key, as [`Model::flat_metadata`] gives it. Order and layout do not count, nor does what a
/// conversion adds because its target asks for it: a model and what it was converted to are the same.
///
/// # Errors
/// If either cannot be read, or the progress callback stops the work.
pub fn diff(a: &Model, b: &Model, work: &Execution<'_>) -> Result<Diff> {
    a.expect_tensors()?;
    b.expect_tensors()?;
    a.open_all()?;
    b.open_all()?;
    let mut diff = Diff { metadata: differences(a, b)?, ..Diff::default() };
    let (mut common, mut lost) = (Vec::new(), Vec::new());
    for (position, info) in a.tensors().enumerate() {
        match b.container().find(info.name) {
            Some(other) => common.push((position, other)),
            None => lost.push(position),
        }
    }
    diff.changed = all_changed(a, b, &common, work)?;
    let new = b.tensors().enumerate().filter(|(_, info)| a.container().find(info.name).is_none());
    let new: Vec<usize> = new.map(|(position, _)| position).collect();
    renamed(&mut diff, (a, &lost), (b, &new), work)?;
    Ok(diff)
}

/// Those of the pairs of tensors that are not the same. Values are compared once where both sides are tied to those of another pair.
fn all_changed(a: &Model, b: &Model, pairs: &[(usize, usize)], work: &Execution<'_>) -> Result<Vec<Changed>> {
    let of_a = Ties::of(a, pairs.iter().map(|&(of_a, _)| of_a))?;
    let of_b = Ties::of(b, pairs.iter().map(|&(_, of_b)| of_b))?;
    let (mut firsts, mut known, mut places) = (Vec::new(), HashMap::new(), Vec::new());
    for (groups, &pair) in of_a.groups.iter().zip(&of_b.groups).zip(pairs) {
        let next = firsts.len();
        let place = *known.entry(groups).or_insert(next);
        if place == next {
            firsts.push(pair);
        }
        places.push(place);
    }
    let read = known.keys().map(|&(&of_one, &of_other)| of_a.stored(of_one) + of_b.stored(of_other));
    let size = of_a.size(a).saturating_add(of_b.size(b));
    check_reading(read, size, a)?;
    let one = |(): &mut (), number: u64| {
        let pair = usize::try_from(number).ok().and_then(|number| firsts.get(number));
        pair.map_or(Ok(None), |&(of_a, of_b)| values_of(a, of_a, b, of_b, work))
    };
    let values = work.map(firsts.len() as u64, || (), one)?;
    let values = places.iter().map(|&place| values.get(place).copied().flatten());
    Ok(pairs
        .iter()
        .zip(values)
        .filter_map(|(&(of_a, of_b), values)| changed(a, of_a, b, of_b, values))
        .collect())
}

/// Pairs tensors that only one model has by dtype, shape and hash.
fn renamed(
    diff: &mut Diff,
    a: (&Model, &[usize]),
    b: (&Model, &[usize]),
    work: &Execution<'_>,
) -> Result<()> {
    let kind = |model: &Model, position: usize| {
        let info = model.container().info(position)?;
        info.has_data.then(|| (info.dtype, info.shape.to_vec()))
    };
    // Only tensors with a counterpart of the same dtype and shape are worth hashing.
    let kinds = |model, positions: &[usize]| -> HashSet<_> {
        positions.iter().filter_map(|&position| kind(model, position)).collect()
    };
    let (of_a, of_b) = (kinds(a.0, a.1), kinds(b.0, b.1));
    let candidates = |model: &Model, positions: &[usize], others: &HashSet<_>| -> Result<Vec<_>> {
        let is_wanted = |&position: &usize| kind(model, position).is_some_and(|kind| others.contains(&kind));
        let wanted: Vec<usize> = positions.iter().copied().filter(is_wanted).collect();
        let hashes = model.hashes(&wanted, work)?;
        Ok(wanted.into_iter().zip(hashes).collect())
    };
    let mut by_hash = HashMap::<_, Vec<usize>>::new();
    for (position, hash) in candidates(a.0, a.1, &of_b)?.into_iter().rev() {
        by_hash.entry((kind(a.0, position), hash)).or_default().push(position); // popped in file order
    }
    let hashes: HashMap<usize, _> = candidates(b.0, b.1, &of_a)?.into_iter().collect();
    let mut paired = vec![false; a.0.tensor_count()];
    for &position in b.1 {
        let name = |model: &Model, position| {
            model.container().info(position).map_or("", |info| info.name).to_owned()
        };
        let hash = hashes.get(&position);
        let partner = hash.and_then(|&hash| by_hash.get_mut(&(kind(b.0, position), hash))?.pop());
        match partner {
            Some(partner) => {
                diff.renamed.push(Renamed { a: name(a.0, partner), b: name(b.0, position) });
                paired.get_mut(partner).into_iter().for_each(|paired| *paired = true);
            }
            None => diff.only_in_b.push(name(b.0, position)),
        }
    }
    let alone = a.1.iter().filter(|&&position| paired.get(position) != Some(&true));
    diff.only_in_a
        .extend(alone.filter_map(|&position| Some(a.0.container().info(position)?.name.to_owned())));
    Ok(())
}

/// How the values of two tensors differ, if they do.
fn values_of(
    a: &Model,
    at_a: usize,
    b: &Model,
    at_b: usize,
    work: &Execution<'_>,
) -> Result<Option<ValueDiff>> {
    let (Some(of_a), Some(of_b)) = (a.container().info(at_a), b.container().info(at_b)) else {
        return Ok(None);
    };
    match (of_a.has_data, of_b.has_data) {
        (true, true) => values((a, at_a, of_a), (b, at_b, of_b), work),
        (false, false) => Ok(None),
        _ => Ok(Some(ValueDiff::default())),
    }
}

fn changed(a: &Model, at_a: usize, b: &Model, at_b: usize, values: Option<ValueDiff>) -> Option<Changed> {
    let (of_a, of_b) = (a.container().info(at_a)?, b.container().info(at_b)?);
    let changed = Changed {
        name: of_a.name.to_owned(),
        dtype: (of_a.dtype != of_b.dtype).then_some((of_a.dtype, of_b.dtype)),
        shape: (of_a.shape != of_b.shape).then(|| (of_a.shape.to_vec(), of_b.shape.to_vec())),
        values,
    };
    let same = changed.dtype.is_none() && changed.shape.is_none() && changed.values.is_none();
    (!same).then_some(changed)
}

type Side<'a> = (&'a Model, usize, TensorInfo<'a>);

/// Elements that are compared at once: a multiple of every block.
const ELEMENTS: u64 = 1 << 19;

fn values(a: Side<'_>, b: Side<'_>, work: &Execution<'_>) -> Result<Option<ValueDiff>> {
    let same_type = a.2.dtype == b.2.dtype;
    let numeric = is_numeric(a.2.dtype) && is_numeric(b.2.dtype) && a.2.elements() == b.2.elements();
    if same_type && a.2.nbytes == b.2.nbytes {
        if same_bytes(a, b, work)? {
            return Ok(None);
        }
    } else if !numeric {
        return Ok(Some(ValueDiff::default()));
    }
    if !numeric || (same_type && a.2.dtype == DType::Bool) {
        return Ok(Some(ValueDiff::default()));
    }
    let (mut max_abs, mut max_rel) = (0f64, 0f64);
    let mut left = Pieces::of_elements(a.0, a.1, ELEMENTS)?;
    let mut right = Pieces::of_elements(b.0, b.1, ELEMENTS)?;
    while let (Some(x), Some(y)) = (left.next_numbers(work)?, right.next_numbers(work)?) {
        for (place, (&a, &b)) in x.floats.iter().zip(&y.floats).enumerate() {
            let exact = |numbers: &Numbers, float| numbers.integers.get(place).copied().or(integer(float));
            let (abs, rel) = match (exact(&x, a), exact(&y, b)) {
                (Some(i), Some(j)) if i != j => {
                    let abs = i.abs_diff(j) as f64;
                    (abs, abs / a.abs().max(b.abs()))
                }
                _ => difference(a, b),
            };
            max_abs = max_abs.max(abs);
            max_rel = max_rel.max(rel);
        }
    }
    // Another type with the same numbers is a change of type only; other bits of the same numbers (-0, NaN) are a change.
    if !same_type && max_abs == 0.0 {
        return Ok(None);
    }
    Ok(Some(ValueDiff { max_abs: Some(max_abs), max_rel: Some(max_rel) }))
}

fn same_bytes(a: Side<'_>, b: Side<'_>, work: &Execution<'_>) -> Result<bool> {
    let (mut left, mut right) = (Pieces::new(a.0, a.1)?, Pieces::new(b.0, b.1)?);
    let quiet = Execution { progress: None, ..*work };
    loop {
        match (left.next(work)?, right.next(&quiet)?) {
            (Some(x), Some(y)) if x == y => {}
            (None, None) => return Ok(true),
            _ => return Ok(false),
        }
    }
}

/// The integer that a float is, where different integers of 64 bits have the same float: from 2^53 on.
#[expect(clippy::cast_possible_truncation, reason = "in this range every float is an integer below 2^127")]
fn integer(x: f64) -> Option<i128> {
    const FIRST: f64 = (1u64 << 53) as f64;
    const END: f64 = (1u128 << 100) as f64;
    (FIRST..END).contains(&x.abs()).then_some(x as i128)
}

/// The absolute difference, and that relative to the larger magnitude.
fn difference(x: f64, y: f64) -> (f64, f64) {
    if x == y || (x.is_nan() && y.is_nan()) {
        return (0.0, 0.0);
    }
    let abs = (x - y).abs();
    if !x.is_finite() || !y.is_finite() {
        return (f64::INFINITY, f64::INFINITY);
    }
    (abs, abs / x.abs().max(y.abs()))
}

impl Serialize for Diff {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(6))?;
        map.serialize_entry("same", &self.is_same())?;
        map.serialize_entry("only_in_a", &self.only_in_a)?;
        map.serialize_entry("only_in_b", &self.only_in_b)?;
        map.serialize_entry("renamed", &self.renamed)?;
        map.serialize_entry("changed", &self.changed)?;
        map.serialize_entry("metadata", &self.metadata)?;
        map.end()
    }
}

impl Serialize for Renamed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("a", &self.a)?;
        map.serialize_entry("b", &self.b)?;
        map.end()
    }
}

impl Changed {
    /// What changed: `dtype`, `shape`, `values`.
    pub fn what(&self) -> impl Iterator<Item = &'static str> {
        let parts = [
            ("dtype", self.dtype.is_some()),
            ("shape", self.shape.is_some()),
            ("values", self.values.is_some()),
        ];
        parts.into_iter().filter(|&(_, changed)| changed).map(|(name, _)| name)
    }
}

impl Serialize for Changed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // NaN and infinities are written as text, as everywhere.
        let number = |number: Option<f64>| number.map_or(Value::Null, Value::from);
        let values = self.values.unwrap_or_default();
        let mut map = serializer.serialize_map(Some(4))?;
        map.serialize_entry("name", &self.name)?;
        map.serialize_entry("what", &self.what().collect::<Vec<_>>())?;
        map.serialize_entry("max_abs", &number(values.max_abs))?;
        map.serialize_entry("max_rel", &number(values.max_rel))?;
        map.end()
    }
}

impl Serialize for MetadataDiff {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("key", &self.key)?;
        map.serialize_entry("a", &self.a)?;
        map.serialize_entry("b", &self.b)?;
        map.end()
    }
}
