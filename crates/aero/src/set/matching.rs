//! Checks that the files of a set are those that its index means: a file can be undamaged and belong to another version.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::collections::BTreeSet;

use modelfmt_core::claims::{Claims, Wanted};
use modelfmt_core::{Execution, Fetch, OpenFile, Part, author::ShardMap as _};
use sha2::{Digest as _, Sha256};

use super::SetIndex;
use super::index::HEAD;
use crate::chunks::malformed;
use crate::control;
use crate::error::{Fault, Hex, Result};
use crate::index::Index;

/// The longest file with the tensor index that is hashed without being asked for.
const SOON: u64 = 64 << 20;

/// Checks the file with the tensor index before tensors are copied. If no hash in the tensor index ties a part to the set, the
/// part would have to be read twice for its SHA-256. Then a note says that it is not checked.
pub(super) async fn check_head<S: Fetch>(
    set: &SetIndex,
    head: &OpenFile<Index, S>,
    wanted: &[Wanted],
    claims: &mut Claims,
) -> Result<()> {
    let mut of_head = claims.for_set_file(HEAD, set.file_part(HEAD));
    control::check_all(head.index(), head.source(), &mut of_head).await?;
    if head.source().size() <= SOON {
        hash(set, head.source()).await?;
    }
    let mut loose = BTreeSet::new();
    for wanted in wanted {
        // Only a hash in the set's own index proves that these values belong to the set.
        let has_values = set.info(wanted.position).is_some_and(|info| info.nbytes > 0);
        if has_values && set.hash(wanted.position)?.is_none() {
            loose.insert(set.shard_of(wanted.position)?);
        }
    }
    if !loose.is_empty() {
        let loose = loose.len();
        claims.note(format!(
            "the SHA-256 of {loose} of the set's files is not checked, and the tensor index has no hashes: a file of another version \
             of the model would not show; verify checks it"
        ));
    }
    Ok(())
}

async fn hash<S: Fetch>(set: &SetIndex, source: &S) -> Result<()> {
    let Some(expected) = set.global_tidx().sha256 else { return Ok(()) };
    let found = sha256s(&[source], &Execution::sequential()).await.pop();
    let Some(found) = found.transpose()?.filter(|&found| found != expected) else { return Ok(()) };
    let (found, expected) = (Hex::new(found), Hex::new(expected));
    let text = format!("has SHA-256 {found}, but the index of the set says {expected}");
    Err(malformed(Part::new("its content"), 0, Fault::Set(text)))
}

/// The SHA-256 of each of these files. It needs a file's bytes in order, so each thread takes a whole file.
pub(super) async fn sha256s<S: Fetch>(
    sources: &[&S],
    work: &Execution<'_>,
) -> Vec<Result<[u8; 32], modelfmt_core::author::ScanError>> {
    let hashed = S::each_whole(sources, Sha256::new, |hasher, bytes| hasher.update(bytes), work).await;
    hashed.into_iter().map(|hashed| hashed.map(|hasher| hasher.finalize().into())).collect()
}
