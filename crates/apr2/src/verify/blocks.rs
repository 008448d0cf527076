//! Decodes the LZ4 blocks of one tensor from any source.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::{Execution, Fetch, author::with_causes};

use super::plan::groups_of;
use crate::blocks::Compressed;
use crate::error::{Error, Result};
use crate::index::Index;

/// Decodes the LZ4 blocks of the tensor at a position and returns the faults. Returns none if the tensor is
/// not compressed. `source` has the plaintext of the blocks at the tensor's offset in the file.
///
/// # Errors
/// If the blocks cannot be read, or if the progress callback of `work` stops it.
pub async fn check_blocks(
    index: &Index,
    position: usize,
    source: &impl Fetch,
    work: &Execution<'_>,
) -> Result<Vec<String>> {
    let stored = index.tensors.plain(position).filter(|stored| stored.compressed);
    let Some(stored) = stored else { return Ok(Vec::new()) };
    let name = index.tensors().info(position).map_or("", |info| info.name);
    let tensor = Compressed { number: position, name, stored };
    let (mut scratch, mut found) = (Vec::new(), Vec::new());
    for group in groups_of(&tensor, source).await? {
        let (at, len) = (group.range.start, group.range.end.saturating_sub(group.range.start));
        let bytes = source.fetch(group.range.clone()).await;
        let bytes = bytes.map_err(|source| Error::Io { at, len, source })?;
        let faults = tensor.check(&bytes, (group.first, group.count), at, &mut scratch, |_| {});
        found.extend(faults.iter().map(|error| with_causes(error)));
        if work.advance(0).is_break() {
            return Err(Error::Cancelled);
        }
    }
    Ok(found)
}
