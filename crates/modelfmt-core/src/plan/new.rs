//! Plans for reading tensors, built from an index alone.

use std::ops::Range;

use tensor_core::TensorInfo;

use super::runs::Runs;
use super::{Pick, PlanBuilder, PlanOptions, PlannedRange, ProofRange, ReadPlan};
use crate::claims::{Claims, WantedRange};
use crate::error::Error;
use crate::file_index::FileIndex;
use crate::table::Stored;

/// The maximum number of parts of a compressed tensor that are planned one by one. More parts are planned as
/// one range.
const MAX_PARTS: u64 = 1 << 16;

impl ReadPlan {
    /// Plans the reads of these tensors of a file from its index alone; nothing is read. A part of a
    /// compressed tensor counts as the whole tensor.
    ///
    /// # Errors
    /// If there is no such tensor, or a slice does not fit it.
    pub fn from_index<I: FileIndex>(
        index: &I,
        picks: &[Pick],
        options: PlanOptions,
    ) -> Result<Self, Error<I::Fault>> {
        let mut plan = Self::builder(options);
        for pick in picks {
            let absent = || Error::no_such_position(pick.position);
            let info = index.tensors().info(pick.position).ok_or_else(absent)?;
            let location = index.location(pick.position).ok_or_else(absent)?;
            let part = |_| index.stored_extent(pick.position).ok_or_else(absent);
            add(&mut plan, pick, &info, Stored::of(0, &location), &part)?;
        }
        Ok(plan.finish(vec![None]))
    }
}

impl ReadPlan {
    /// Adds the claims that verify each of the plan's ranges.
    #[must_use]
    pub fn with_claims(self, claims: &Claims) -> Self {
        let mut proofs = Vec::new();
        let mut add = |file: usize, range: &Range<u64>| {
            let found = claims.covering(file, range).into_iter();
            proofs.extend(found.map(|(range, by)| ProofRange { file, range, by }));
        };
        for PlannedRange { file, runs, .. } in self.ranges() {
            if runs.count() > MAX_PARTS {
                add(*file, &runs.hull());
            } else {
                runs.iter().for_each(|run| add(*file, &run));
            }
        }
        self.with_proofs(proofs)
    }
}

/// Returns the bytes that these runs cover of the tensor at a position, in the form in which claims are
/// requested.
pub(crate) fn wanted_of(position: usize, runs: &Runs) -> Vec<WantedRange> {
    let runs = runs.clone().joined(PlanOptions::local().gap);
    if runs.count() > MAX_PARTS {
        return vec![WantedRange { position, range: Some(runs.hull()) }];
    }
    runs.iter().map(|run| WantedRange { position, range: Some(run) }).collect()
}

/// Maps a range of a tensor's values to the range of the file that is read for it.
type PartOf<'p, F> = &'p dyn Fn(Range<u64>) -> Result<Range<u64>, Error<F>>;

/// Adds the reads for one tensor, or for a part of it.
pub(crate) fn add<F>(
    plan: &mut PlanBuilder,
    pick: &Pick,
    info: &TensorInfo<'_>,
    stored: Stored,
    part: PartOf<'_, F>,
) -> Result<(), Error<F>> {
    let Stored { file, offset: Some(offset), nbytes, encoding } = stored else { return Ok(()) };
    let runs = match &pick.slice {
        None => Runs::contiguous(0..info.nbytes),
        Some(slice) => slice.of(info).map_err(|fault| Error::slice(info, fault))?.runs,
    };
    if runs.is_empty() {
        return Ok(());
    }
    if !encoding.is_compressed() {
        let end = runs.hull().end;
        let placed = runs.moved(offset).filter(|_| end <= nbytes);
        plan.add(file, placed.ok_or_else(|| Error::out_of_range(info, 0, end))?);
        return Ok(());
    }
    let joined = runs.joined(plan.options().gap);
    if joined.count() > MAX_PARTS {
        plan.add(file, Runs::contiguous(part(joined.hull())?));
        return Ok(());
    }
    for run in &joined {
        plan.add(file, Runs::contiguous(part(run)?));
    }
    Ok(())
}
