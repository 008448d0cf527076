//! Compares two models: tensors that are missing, renamed, reshaped or changed, or have another dtype; and
//! metadata.

mod compare;
mod decoded;
#[cfg(not(target_arch = "wasm32"))]
mod hub_files;

use std::collections::{HashMap, HashSet};

use modelfmt_core::value::Value;
use modelfmt_core::{DType, Execution};
use serde::ser::{Serialize, SerializeMap, Serializer};

use compare::{Compared, compare};
use modelfmt_metadata::flattened::differences;
pub use modelfmt_metadata::flattened::{ListDiff, MetadataDiff, flat_metadata};
use modelfmt_model::error::Result;
use modelfmt_model::model::Model;
use modelfmt_model::tied_weights::{Ties, check_reading};

/// The options of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct DiffOptions {
    /// Also computes the norms of changed tensors ([`Changed::norms`]), and lists the tensors that changed
    /// most first.
    pub norms: bool,
    /// The largest difference at which values still count as equal. A NaN and a number are never equal;
    /// different bits for the same number are always equal.
    pub tolerance: Option<f64>,
    /// Does not compare metadata.
    pub ignore_metadata: bool,
    /// Compares only values: another dtype or scheme is not a difference. -0 equals 0, and all NaNs are
    /// equal.
    pub ignore_dtype: bool,
}

/// The differences between two models: the object that `modelfmt diff --json` prints.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Diff {
    /// The number of tensors in either model. A tensor that is in both counts once, and so does a renamed
    /// tensor.
    pub tensors: usize,
    /// Tensors that only the first model has, and that are not [renamed](Self::renamed).
    pub only_in_a: Vec<String>,
    /// Tensors that only the second model has, and that are not [renamed](Self::renamed).
    pub only_in_b: Vec<String>,
    /// Tensors with the same dtype, shape and bytes under another name.
    pub renamed: Vec<Renamed>,
    /// Tensors of both models that differ.
    pub changed: Vec<Changed>,
    /// Metadata keys with different values.
    pub metadata: Vec<MetadataDiff>,
}

/// The same tensor under two names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renamed {
    /// Its name in the first model.
    pub a: String,
    /// Its name in the second model.
    pub b: String,
}

/// A tensor that differs between the models.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Changed {
    /// The name of the tensor.
    pub name: String,
    /// The dtypes in both models, if they differ. A decoded weight counts as f32.
    pub dtype: Option<(DType, DType)>,
    /// The scheme of the weight in each model, such as `gptq (u4 in groups of 128)`, if a model stores it as
    /// several tensors and it was decoded.
    pub schemes: Option<[Option<String>; 2]>,
    /// The shapes in both models, if they differ.
    pub shape: Option<(Vec<u64>, Vec<u64>)>,
    /// How the values differ, if they do.
    pub values: Option<ValueDiff>,
    /// The norms of the values, if they were [asked for](DiffOptions::norms).
    pub norms: Option<Norms>,
}

/// The distance between the values of two tensors, as vectors a and b. Each norm is `None` if the values are
/// not numbers, if the tensors do not have the same number of values, or if there are no values. It is NaN if
/// a value is NaN or infinite.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Norms {
    /// The root of the mean square of a − b.
    pub rmse: Option<f64>,
    /// The cosine of the angle between a and b; `None` also if one of them is all zero.
    pub cosine: Option<f64>,
    /// ‖a − b‖ / ‖a‖: 0 if nothing differs, infinite if only a is all zero.
    pub rel_norm: Option<f64>,
}

/// How the values of a tensor differ.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ValueDiff {
    /// The largest absolute difference; NaN if one of two values is a NaN, otherwise infinite if one is an
    /// infinity. `None` if the values are not numbers, or if the tensors do not have the same number of
    /// values.
    pub max_abs: Option<f64>,
    /// The largest difference relative to the larger magnitude of the two; NaN and infinite in the same cases
    /// as `max_abs`.
    pub max_rel: Option<f64>,
}

impl Diff {
    /// Checks that nothing differs.
    #[must_use]
    pub const fn is_same(&self) -> bool {
        self.different_tensors() == 0 && self.metadata.is_empty()
    }

    /// Returns the number of tensors that differ, are renamed, or are only in one model.
    #[must_use]
    pub const fn different_tensors(&self) -> usize {
        self.only_in_a.len() + self.only_in_b.len() + self.renamed.len() + self.changed.len()
    }
}

/// Compares two models: tensors by name, then by bytes; metadata by the keys of [`flat_metadata`]. Order and
/// layout do not count, and neither do keys that a conversion adds because its target requires them. A model
/// and its lossless conversion are therefore equal. A weight that one model stores as several tensors, as in
/// GPTQ, and the other model stores in another way, is decoded. If both models were opened as folders, the
/// files next to the weights are compared too: as metadata, under the name of the file.
///
/// # Errors
/// If a model cannot be read, or the progress callback stops the work.
pub fn diff(a: &Model, b: &Model, work: &Execution<'_>) -> Result<Diff> {
    diff_with(a, b, &DiffOptions::default(), work)
}

/// Compares two models with options. Tensors that are in both models are read once, in pieces, so memory does
/// not depend on their size.
///
/// # Errors
/// If a model cannot be read, or the progress callback stops the work.
pub fn diff_with(a: &Model, b: &Model, options: &DiffOptions, work: &Execution<'_>) -> Result<Diff> {
    a.expect_tensors()?;
    b.expect_tensors()?;
    a.open_all()?;
    b.open_all()?;
    let (a, b) = decoded::both(a, b)?;
    let (a, b) = (&*a, &*b);
    let metadata = if options.ignore_metadata { Vec::new() } else { differences(a, b)? };
    #[cfg(not(target_arch = "wasm32"))]
    let metadata = match options.ignore_metadata {
        true => metadata,
        false => metadata.into_iter().chain(hub_files::differences(a, b)).collect(),
    };
    let mut diff = Diff { metadata, ..Diff::default() };
    let (mut common, mut lost) = (Vec::new(), Vec::new());
    for (position, info) in a.tensors().enumerate() {
        match b.container().find(info.name) {
            Some(other) => common.push((position, other)),
            None => lost.push(position),
        }
    }
    diff.changed = all_changed(a, b, &common, options, work)?;
    if options.ignore_dtype {
        for changed in &mut diff.changed {
            (changed.dtype, changed.schemes) = (None, None);
        }
        diff.changed.retain(|changed| changed.what().next().is_some());
    }
    if options.norms {
        // NaN sorts first, whatever its sign.
        let rank = |norm: f64| if norm.is_nan() { f64::NAN } else { norm };
        let most = |changed: &Changed| changed.norms.and_then(|norms| norms.rel_norm).map_or(-1.0, rank);
        diff.changed.sort_by(|x, y| most(y).total_cmp(&most(x)));
    }
    let new = b.tensors().enumerate().filter(|(_, info)| a.container().find(info.name).is_none());
    let new: Vec<usize> = new.map(|(position, _)| position).collect();
    renamed(&mut diff, (a, &lost), (b, &new), work)?;
    diff.tensors = a.tensor_count() + diff.only_in_b.len();
    Ok(diff)
}

/// Returns the pairs of tensors that differ. If both tensors of a pair are tied to those of another pair,
/// their values are compared only once.
fn all_changed(
    a: &Model,
    b: &Model,
    pairs: &[(usize, usize)],
    options: &DiffOptions,
    work: &Execution<'_>,
) -> Result<Vec<Changed>> {
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
    let read =
        known.keys().map(|&(&of_one, &of_other)| of_a.stored(of_one).saturating_add(of_b.stored(of_other)));
    let size = of_a.size(a).saturating_add(of_b.size(b));
    check_reading(read, size, a)?;
    let one = |(): &mut (), number: u64| {
        let pair = usize::try_from(number).ok().and_then(|number| firsts.get(number));
        pair.map_or(Ok(Compared::default()), |&(of_a, of_b)| compare((a, of_a), (b, of_b), options, work))
    };
    let compared = work.map(firsts.len() as u64, || (), one)?;
    let compared = places.iter().map(|&place| compared.get(place).copied().unwrap_or_default());
    Ok(pairs
        .iter()
        .zip(compared)
        .filter_map(|(&(of_a, of_b), compared)| changed(a, of_a, b, of_b, compared))
        .collect())
}

/// Pairs the tensors that only one model has, by dtype, shape and hash.
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
    // Hash only tensors for which the other model has a tensor of the same dtype and shape.
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

fn changed(a: &Model, at_a: usize, b: &Model, at_b: usize, compared: Compared) -> Option<Changed> {
    let (of_a, of_b) = (a.container().info(at_a)?, b.container().info(at_b)?);
    let schemes = [a.scheme(at_a), b.scheme(at_b)];
    let changed = Changed {
        name: of_a.name.to_owned(),
        dtype: (of_a.dtype != of_b.dtype).then_some((of_a.dtype, of_b.dtype)),
        shape: (of_a.shape != of_b.shape).then(|| (of_a.shape.to_vec(), of_b.shape.to_vec())),
        schemes: (schemes != [None, None]).then(|| schemes.map(|scheme| scheme.map(str::to_owned))),
        values: compared.values,
        norms: compared.norms,
    };
    let same = changed.what().next().is_none();
    (!same).then_some(changed)
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
    /// Returns the names of what changed: `dtype`, `shape`, `values`.
    pub fn what(&self) -> impl Iterator<Item = &'static str> {
        let parts = [
            ("dtype", self.dtype.is_some() || self.schemes.is_some()),
            ("shape", self.shape.is_some()),
            ("values", self.values.is_some()),
        ];
        parts.into_iter().filter(|&(_, changed)| changed).map(|(name, _)| name)
    }
}

impl Serialize for Changed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // NaN and infinities are written as text, as in all JSON output of this project.
        let number = |number: Option<f64>| number.map_or(Value::Null, Value::from);
        let values = self.values.unwrap_or_default();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", &self.name)?;
        map.serialize_entry("what", &self.what().collect::<Vec<_>>())?;
        map.serialize_entry("max_abs", &number(values.max_abs))?;
        map.serialize_entry("max_rel", &number(values.max_rel))?;
        if let Some(schemes) = &self.schemes {
            map.serialize_entry("schemes", schemes)?;
        }
        if let Some(norms) = self.norms {
            map.serialize_entry("rmse", &number(norms.rmse))?;
            map.serialize_entry("cosine", &number(norms.cosine))?;
            map.serialize_entry("rel_norm", &number(norms.rel_norm))?;
        }
        map.end()
    }
}
