//! Computes all hashes over a shard in one pass over its bytes, because the hashes of tensors, of pages and
//! of the whole shard cover the same bytes.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;

use modelfmt_core::ledger::{Blake3, Ledger, Spans};

/// The state of a pass over a shard: the hashes of the whole shard, of each tensor, and of each page.
pub(crate) type Pass = Ledger<Blake3, 3>;

/// Starts a pass over a shard of `len` bytes. The ranges of the tensors must ascend, and must not overlap or
/// be empty.
pub(crate) fn pass(len: u64, tensors: Vec<Range<u64>>, page_size: Option<u64>) -> Pass {
    let pages = page_size.map_or(Spans::Listed(Vec::new()), |size| Spans::Even { len, size });
    Ledger::new([Spans::Whole(len), Spans::Listed(tensors), pages])
}

/// The hashes of a shard.
pub(crate) struct Hashes {
    pub(crate) whole: [u8; 32],
    pub(crate) tensors: Vec<[u8; 32]>,
    pub(crate) pages: Vec<[u8; 32]>,
}

impl From<Pass> for Hashes {
    fn from(pass: Pass) -> Self {
        let [whole, tensors, pages] = pass.finish();
        Self { whole: whole.first().copied().unwrap_or_default(), tensors, pages }
    }
}
