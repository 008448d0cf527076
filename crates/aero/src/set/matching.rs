//! Checks that the files of a set are the ones that its index means. A file can be undamaged and belong to
//! another version of the model.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::collections::BTreeSet;

use modelfmt_core::claims::{Claims, WantedRange};
use modelfmt_core::{Execution, Fetch, OpenFile, Part, author::ShardMap as _};
use sha2::{Digest as _, Sha256};

use super::SetIndex;
use super::index::HEAD;
use crate::chunks::malformed;
use crate::control;
use crate::error::{Fault, Hex, Result};
use crate::index::Index;

/// The longest file with the tensor index that is always hashed when tensors are copied.
const MAX_EAGER_HASH_LEN: u64 = 64 << 20;

/// Checks the file with the tensor index before tensors are copied. If the tensor index has no hashes that
/// tie a part to the set, checking the part's SHA-256 would mean reading the part twice. In this case a note
/// says that it is not checked.
pub(super) async fn check_head<S: Fetch>(
    set: &SetIndex,
    head: &OpenFile<Index, S>,
    wanted: &[WantedRange],
    claims: &mut Claims,
) -> Result<()> {
    let mut of_head = claims.for_set_file(HEAD, set.file_part(HEAD));
    control::check_all(head.index(), head.source(), &mut of_head).await?;
    if head.source().size() <= MAX_EAGER_HASH_LEN {
        hash(set, head.source()).await?;
    }
    let mut unchecked = BTreeSet::new();
    for wanted in wanted {
        // Only a hash in the set's own index proves that these values belong to the set.
        let has_values = set.info(wanted.position).is_some_and(|info| info.nbytes > 0);
        if has_values && set.hash(wanted.position)?.is_none() {
            unchecked.insert(set.shard_of(wanted.position)?);
        }
    }
    if !unchecked.is_empty() {
        let unchecked = unchecked.len();
        claims.note(format!(
            "the SHA-256 of {unchecked} of the set's files is not checked, and the tensor index has no hashes: a file of another version \
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

/// Computes the SHA-256 of each of these files. SHA-256 needs a file's bytes in order, so each thread takes a
/// whole file.
pub(super) async fn sha256s<S: Fetch>(
    sources: &[&S],
    work: &Execution<'_>,
) -> Vec<Result<[u8; 32], modelfmt_core::author::ScanError>> {
    let hashed = S::each_whole(sources, Sha256::new, |hasher, bytes| hasher.update(bytes), work).await;
    hashed.into_iter().map(|hashed| hashed.map(|hasher| hasher.finalize().into())).collect()
}
