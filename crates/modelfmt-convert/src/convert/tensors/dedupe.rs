//! Finds tensors with equal values, so that they share their bytes in the target
//! (docs/formats/conversion.md#equal-tensors).

use std::collections::{BTreeMap, HashMap};

use modelfmt_core::{DType, Execution};

use modelfmt_model::error::Result;
use modelfmt_model::job::tensors::{Item, Origin, OutputTensors};
use modelfmt_model::model::Model;

/// What tensors must have in common so that equal values give equal output.
#[derive(PartialEq, Eq, Hash)]
struct Kind<'a> {
    from: DType,
    to: DType,
    nbytes: u64,
    /// The shape, because a conversion may depend on it. `None` if the values are copied.
    shape: Option<&'a [u64]>,
}

/// Finds tensors whose values equal those of an earlier tensor, and adds each to `tied` with the number of
/// the first such tensor. Returns how many there are and how many bytes of the source they take. Only tensors
/// of the same kind are read, in pieces; a hash of each is kept.
pub(crate) fn find(
    model: &Model,
    tensors: &OutputTensors,
    tied: &mut BTreeMap<usize, usize>,
    work: &Execution<'_>,
) -> Result<(usize, u64)> {
    let mut kinds: HashMap<Kind<'_>, Vec<(usize, usize)>> = HashMap::new();
    let untied = tensors.items.iter().enumerate().filter(|(number, _)| !tied.contains_key(number));
    for (number, &Item { origin, from, to, scaling, .. }) in untied {
        let (Origin::Model(position), None) = (origin, scaling) else { continue };
        if tensors.importance.contains_key(&position) {
            continue; // Equal values give other blocks.
        }
        let Some(info) = model.container().info(position) else { continue };
        if info.has_data && info.nbytes > 0 {
            let shape = (from != to).then_some(info.shape);
            let kind = Kind { from, to, nbytes: info.nbytes, shape };
            kinds.entry(kind).or_default().push((number, position));
        }
    }
    let mut several: Vec<_> = kinds.into_iter().filter(|(_, members)| members.len() > 1).collect();
    several.sort_unstable_by_key(|(_, members)| members.first().map(|&(number, _)| number));
    let positions: Vec<usize> =
        several.iter().flat_map(|(_, members)| members.iter().map(|&(_, position)| position)).collect();
    let mut hashes = model.hashes(&positions, work)?.into_iter();
    let (mut count, mut saved) = (0usize, 0u64);
    for (kind, members) in several {
        let mut firsts = HashMap::new();
        for ((number, _), hash) in members.into_iter().zip(hashes.by_ref()) {
            let first = *firsts.entry(hash).or_insert(number);
            if first != number {
                tied.insert(number, first);
                count = count.saturating_add(1);
                saved = saved.saturating_add(kind.nbytes);
            }
        }
    }
    // If a tensor shares the bytes of another tensor, map it to the first tensor of the group.
    let firsts: Vec<(usize, usize)> =
        tied.iter().filter_map(|(&number, of)| Some((number, *tied.get(of)?))).collect();
    tied.extend(firsts);
    Ok((count, saved))
}
