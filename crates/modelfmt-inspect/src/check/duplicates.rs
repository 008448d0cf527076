//! Finds tensors that are equal to another tensor.

use std::collections::HashMap;

use modelfmt_core::{DType, Execution};

use super::Found;
use modelfmt_model::error::Result;
use modelfmt_model::model::Model;
use modelfmt_model::tied_weights::Ties;

/// What equal tensors have in common: the dtype, the shape, and a value that identifies their bytes.
type Key<'a, T> = (DType, &'a [u64], T);

/// Finds the tensors that are equal to an earlier one. Returns a map from the position of each to the
/// position of the earlier tensor.
pub(super) fn duplicates(
    model: &Model,
    positions: &[usize],
    ties: &Ties,
    found: &[Found],
    work: &Execution<'_>,
) -> Result<HashMap<usize, usize>> {
    let several = |&(position, _): &(usize, usize)| {
        model.container().info(position).is_some_and(|info| info.elements() > 1)
    };
    let tensors = || positions.iter().copied().zip(ties.groups.iter().copied()).filter(several);
    let mut alike = HashMap::<Key<'_, u64>, Vec<usize>>::new();
    for (position, group) in tensors() {
        let fingerprint = found.get(group).map_or(0, |found| found.fingerprint);
        if let Some(key) = key(model, position, fingerprint) {
            let groups = alike.entry(key).or_default();
            if groups.last() != Some(&group) {
                groups.push(group);
            }
        }
    }
    // Tensors that share their bytes are equal. For other tensors with equal fingerprints, the hashes decide.
    let mut doubtful: Vec<usize> = alike.into_values().filter(|groups| groups.len() > 1).flatten().collect();
    doubtful.sort_unstable();
    doubtful.dedup();
    let firsts: Vec<usize> = doubtful.iter().filter_map(|&group| ties.firsts.get(group).copied()).collect();
    let no_progress = |_| work.advance(0); // they have been counted
    let hashes = model.hashes(&firsts, &Execution { progress: Some(&no_progress), ..*work })?;
    let hashes: HashMap<usize, _> = doubtful.into_iter().zip(hashes).collect();

    let (mut first_of, mut same) = (HashMap::new(), HashMap::new());
    for (position, group) in tensors() {
        let bytes = hashes.get(&group).map_or(Bytes::Group(group), |hash| Bytes::Hash(*hash.as_bytes()));
        if let Some(key) = key(model, position, bytes) {
            let first = *first_of.entry(key).or_insert(position);
            if first != position {
                same.insert(position, first);
            }
        }
    }
    Ok(same)
}

/// Identifies the bytes of a tensor.
#[derive(PartialEq, Eq, Hash)]
enum Bytes {
    /// The number of a group of tensors that share their bytes.
    Group(usize),
    Hash([u8; 32]),
}

fn key<T>(model: &Model, position: usize, bytes: T) -> Option<Key<'_, T>> {
    let info = model.container().info(position)?;
    Some((info.dtype, info.shape, bytes))
}
