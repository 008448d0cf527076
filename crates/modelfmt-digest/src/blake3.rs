//! BLAKE3: a hash of a tree. A run holds the subtrees of its bytes.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use blake3_tree::{CHUNK, Run, subtree_len};

use super::{BLOCK, DigestKind, Parcel};

/// BLAKE3-256 of a range whose pieces come in any order. A piece takes about 3 KiB until its neighbours have been hashed.
///
/// ```
/// use modelfmt_digest::{Blake3, Ledger, Spans};
///
/// let bytes = [7; 1000];
/// let ledger = Ledger::<Blake3, 2>::new([Spans::Whole(1000), Spans::Even { len: 1000, size: 300 }]);
/// ledger.observe(500, &bytes[500..]); // in any order, from several threads
/// ledger.observe(0, &bytes[..500]);
/// let [whole, pages] = ledger.finish();
/// assert_eq!((whole.len(), pages.len()), (1, 4));
/// assert_eq!(whole[0], blake3_tree::hash(&bytes));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Blake3;

impl DigestKind for Blake3 {
    const NAME: &'static str = "blake3";
    type Digest = [u8; 32];
    type Run = Run;

    fn begin(at: u64) -> Run {
        Run::empty(at)
    }

    fn extend(total: u64, run: &mut Run, bytes: &[u8]) {
        run.extend(total, bytes);
    }

    fn join(total: u64, first: Run, second: Run) -> Run {
        first.join(total, second)
    }

    fn finish(total: u64, run: Run) -> [u8; 32] {
        run.finish(total)
    }

    fn whole(bytes: &[u8]) -> [u8; 32] {
        blake3_tree::hash(bytes)
    }

    /// A step ends at the end of a leaf or of a subtree.
    fn step(at: u64, most: u64) -> u64 {
        let in_chunk = at % CHUNK;
        if in_chunk != 0 || most < CHUNK {
            CHUNK.saturating_sub(in_chunk).min(most)
        } else {
            subtree_len(at, most).min(BLOCK)
        }
    }
}

impl Parcel for Run {
    fn put(&self, out: &mut Vec<u8>) {
        self.to_bytes().put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        Self::from_bytes(&Vec::take(from)?)
    }
}
