//! Plans for reading tensors of an open model.

use super::Container;
use crate::claims::WantedRange;
use crate::error::AnyError;
use crate::plan::{Pick, PlanOptions, ReadPlan, add, wanted_of};

impl ReadPlan {
    /// Plans the reads of these tensors. No values are read, except for the headers of the blocks before a
    /// part of a compressed tensor. Tensors that are declared without data add nothing.
    ///
    /// # Errors
    /// If there is no such tensor, the file of a set that has it is missing or broken, or a slice does not fit its tensor.
    pub fn new(
        container: &(impl Container + ?Sized),
        picks: &[Pick],
        options: PlanOptions,
    ) -> Result<Self, AnyError> {
        let mut plan = Self::builder(options);
        for pick in picks {
            let stored = container.stored(pick.position)?;
            let info = container.info(pick.position);
            let info = info.ok_or_else(|| AnyError::no_such_position(pick.position))?;
            let part = |range| container.stored_range(pick.position, range);
            add(&mut plan, pick, &info, stored, &part)?;
        }
        let mut files: Vec<Option<String>> = container.file_paths().into_iter().map(Some).collect();
        if files.is_empty() {
            files.push(None);
        }
        Ok(plan.finish(files))
    }

    /// Plans the reads of these tensors, with the digests in the files that verify each range. Digests that are not in the index,
    /// such as the hashes of pages, are read.
    ///
    /// # Errors
    /// If there is no such tensor, the file of a set that has it is missing or broken, or a slice does not
    /// fit its tensor; if the digests in a file cannot be read.
    pub fn verified(
        container: &(impl Container + ?Sized),
        picks: &[Pick],
        options: PlanOptions,
    ) -> Result<Self, AnyError> {
        let plan = Self::new(container, picks, options)?;
        let claims = container.claims_of(&wanted(container, picks)?)?;
        Ok(plan.with_claims(&claims))
    }
}

/// Returns the values of these tensors, or of parts of them, for which claims are needed.
///
/// # Errors
/// If there is no such tensor, or a slice does not fit it.
pub(crate) fn wanted(
    container: &(impl Container + ?Sized),
    picks: &[Pick],
) -> Result<Vec<WantedRange>, AnyError> {
    let mut wanted = Vec::with_capacity(picks.len());
    for Pick { position, slice } in picks {
        let position = *position;
        let Some(slice) = slice else {
            wanted.push(WantedRange::whole(position));
            continue;
        };
        let info = container.info(position).ok_or_else(|| AnyError::no_such_position(position))?;
        let runs = slice.of(&info).map_err(|fault| AnyError::slice(&info, fault))?.runs;
        wanted.extend(wanted_of(position, &runs));
    }
    Ok(wanted)
}
