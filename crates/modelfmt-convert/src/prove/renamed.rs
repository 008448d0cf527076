//! Finds tensors under other names by the digests of their values. Each tensor of BASE is derived once for
//! each type, however many tensors are looked for.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use modelfmt_core::{AnyError, DType, Execution};

use super::base::{Base, Derivation};
use super::compare::derive;
use modelfmt_model::checked::CheckedValues;
use modelfmt_model::error::Result;
use modelfmt_model::model::Model;

/// The number of bytes at the beginning of a tensor that are hashed first. Only if they match is the whole
/// tensor derived.
const BEGIN: u64 = 64 << 10;
/// The number of bytes that are read at once.
const PIECE: u64 = 1 << 20;

/// The dtype and the shape, which tensors must have in common.
type Kind = (DType, Vec<u64>);

/// A derivation from BASE, and the kind of the result.
struct Candidate {
    kind: Kind,
    derivation: Derivation,
}

/// The origins of tensors of DERIVED.
#[derive(Default)]
pub(super) struct Found {
    /// The number of the group of each tensor, by the tensor's position.
    pub(super) group_of: BTreeMap<usize, usize>,
    /// For each group of equal tensors, all derivations that give them.
    pub(super) groups: Vec<Vec<Derivation>>,
}

impl Found {
    /// Returns a derivation of a tensor of DERIVED, and whether the derivation is new: whether it uses a
    /// tensor of BASE that no tensor has used so far. The first new derivation of the group is preferred.
    /// `next` is where to look in each group: a derivation that is not new never becomes new again.
    pub(super) fn take(
        &self,
        position: usize,
        next: &mut [usize],
        is_new: impl Fn(&Derivation) -> bool,
    ) -> Option<(&Derivation, bool)> {
        let group = *self.group_of.get(&position)?;
        let (derivations, next) = (self.groups.get(group)?, next.get_mut(group)?);
        while let Some(derivation) = derivations.get(*next) {
            if is_new(derivation) {
                return Some((derivation, true));
            }
            *next = next.saturating_add(1);
        }
        Some((derivations.first()?, false))
    }
}

/// Looks for the tensors of DERIVED at these positions. Tensors of BASE whose names are not in `known` are
/// preferred.
pub(super) fn find(
    base: &Base<'_>,
    derived: &Model,
    positions: &[usize],
    known: &BTreeSet<String>,
    work: &Execution<'_>,
) -> Result<Found> {
    let mut kinds: BTreeMap<usize, Kind> = BTreeMap::new();
    for &position in positions {
        let info = derived.info(position)?;
        if info.has_data {
            kinds.insert(position, (info.dtype, info.shape.to_vec()));
        }
    }
    let candidates = candidates(base, &kinds, known)?;
    if candidates.is_empty() {
        return Ok(Found::default());
    }
    let readers = base.readers(&candidates.iter().map(|candidate| &candidate.derivation))?;
    // Compare the digests of the beginnings first, so that only few tensors have to be derived in whole.
    let all: Vec<&Candidate> = candidates.iter().collect();
    let made = of_candidates(derived, &readers, &all, Some(BEGIN), work)?;
    let made = all.iter().zip(made).filter_map(|(candidate, hash)| Some((*candidate, hash?)));
    let made: Vec<(&Candidate, blake3::Hash)> = made.collect();
    let positions: Vec<usize> = kinds.keys().copied().collect();
    let begins = of_derived(derived, &positions, Some(BEGIN), work)?;
    let wanted: Vec<(usize, &Kind, blake3::Hash)> =
        kinds.iter().zip(begins).map(|((at, kind), hash)| (*at, kind, hash)).collect();
    let of_wanted: HashSet<_> = wanted.iter().map(|(_, kind, hash)| (*kind, *hash)).collect();
    let of_made: HashSet<_> = made.iter().map(|(candidate, hash)| (&candidate.kind, *hash)).collect();
    let likely: Vec<&Candidate> = made
        .iter()
        .filter(|(candidate, hash)| of_wanted.contains(&(&candidate.kind, *hash)))
        .map(|(candidate, _)| *candidate)
        .collect();
    let mut by_hash: HashMap<(&Kind, blake3::Hash), Vec<&Candidate>> = HashMap::new();
    for (candidate, hash) in likely.iter().zip(of_candidates(derived, &readers, &likely, None, work)?) {
        if let Some(hash) = hash {
            by_hash.entry((&candidate.kind, hash)).or_default().push(candidate);
        }
    }
    let begun = wanted.iter().filter(|(_, kind, hash)| of_made.contains(&(*kind, *hash)));
    let (begun, of_begun): (Vec<usize>, Vec<&Kind>) = begun.map(|(at, kind, _)| (*at, *kind)).unzip();
    let mut found = Found::default();
    let mut numbers = HashMap::new();
    for ((position, kind), hash) in begun.iter().zip(of_begun).zip(of_derived(derived, &begun, None, work)?) {
        let Some(candidates) = by_hash.get(&(kind, hash)) else { continue };
        let number = *numbers.entry((kind, hash)).or_insert_with(|| {
            found.groups.push(candidates.iter().map(|candidate| candidate.derivation.clone()).collect());
            found.groups.len().saturating_sub(1)
        });
        found.group_of.insert(*position, number);
    }
    readers.iter().try_for_each(|reader| reader.finish(work))?;
    Ok(found)
}

/// Returns every derivation from a tensor of BASE to a kind that is looked for. Tensors of BASE that no tensor
/// is made from yet come first, and for each of these groups the most direct derivations first.
fn candidates(
    base: &Base<'_>,
    kinds: &BTreeMap<usize, Kind>,
    known: &BTreeSet<String>,
) -> Result<Vec<Candidate>> {
    let mut by_elements: HashMap<u64, BTreeSet<&Kind>> = HashMap::new();
    for kind in kinds.values() {
        let elements = modelfmt_core::element_count(&kind.1).unwrap_or(0);
        by_elements.entry(elements).or_default().insert(kind);
    }
    let mut candidates = Vec::new();
    for origin in base.all() {
        let kinds = base.info(origin).and_then(|info| by_elements.get(&info.elements()));
        let is_known = base.names(origin).iter().all(|name| known.contains(name));
        for kind in kinds.into_iter().flatten() {
            let derivations = base.derivations(&[origin], kind.0, &kind.1)?.into_iter();
            // The arithmetic of other builds is tried only for tensors with names that BASE has.
            let derivations =
                derivations.filter(|derivation| derivation.recipe.variant.is_none()).enumerate();
            let of_kind =
                |(rank, derivation)| ((is_known, rank), Candidate { kind: (*kind).clone(), derivation });
            candidates.extend(derivations.map(of_kind));
        }
    }
    candidates.sort_by_key(|(order, _)| *order);
    Ok(candidates.into_iter().map(|(_, candidate)| candidate).collect())
}

/// Returns the digests of the beginnings of tensors, or of all their values.
fn of_derived(
    derived: &Model,
    positions: &[usize],
    most: Option<u64>,
    work: &Execution<'_>,
) -> Result<Vec<blake3::Hash>> {
    let run = |buffer: &mut Vec<u8>, number: u64| {
        let position = usize::try_from(number).ok().and_then(|number| positions.get(number)).copied();
        let position = position.unwrap_or(usize::MAX);
        let nbytes = derived.info(position)?.nbytes;
        let read = |at: u64, out: &mut [u8]| derived.read_into(position, at, out).map(|()| true);
        digest(derived, nbytes.min(most.unwrap_or(u64::MAX)), buffer, read, work)
    };
    let hashes = work.map(positions.len() as u64, Vec::new, run)?;
    Ok(hashes.into_iter().map(|hash| hash.unwrap_or_else(|| blake3::hash(&[]))).collect())
}

/// Returns the digests of the beginnings of derived tensors, or of all their values; `None` where they cannot
/// be computed.
fn of_candidates(
    derived: &Model,
    readers: &[CheckedValues<'_>],
    candidates: &[&Candidate],
    most: Option<u64>,
    work: &Execution<'_>,
) -> Result<Vec<Option<blake3::Hash>>> {
    let run = |buffer: &mut Vec<u8>, number: u64| {
        let Some(candidate) = usize::try_from(number).ok().and_then(|number| candidates.get(number)) else {
            return Ok(None);
        };
        let program = &candidate.derivation.recipe.program;
        let Some(nbytes) = program.nbytes() else { return Ok(None) };
        let read =
            |at: u64, out: &mut [u8]| derive(&candidate.derivation, readers, candidate.kind.0, at, out);
        digest(derived, nbytes.min(most.unwrap_or(u64::MAX)), buffer, read, work)
    };
    work.map(candidates.len() as u64, Vec::new, run)
}

/// Returns the digest of `nbytes` bytes that `read` supplies in pieces; `None` if it cannot supply them.
fn digest(
    derived: &Model,
    nbytes: u64,
    buffer: &mut Vec<u8>,
    read: impl Fn(u64, &mut [u8]) -> Result<bool>,
    work: &Execution<'_>,
) -> Result<Option<blake3::Hash>> {
    let (mut hasher, mut at) = (blake3::Hasher::new(), 0_u64);
    while at < nbytes {
        let len = PIECE.min(nbytes.saturating_sub(at));
        buffer.resize(usize::try_from(len).unwrap_or(usize::MAX), 0);
        if !read(at, buffer)? {
            return Ok(None);
        }
        hasher.update(buffer);
        at = at.saturating_add(len);
        if work.advance(0).is_break() {
            return Err(derived.failed(AnyError::Cancelled));
        }
    }
    Ok(Some(hasher.finalize()))
}
