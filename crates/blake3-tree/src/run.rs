//! BLAKE3 of an input whose pieces come in any order.

use blake3::hazmat::{ChainingValue, HasherExt as _, Mode, merge_subtrees_non_root, merge_subtrees_root};

/// The size of a leaf of BLAKE3 in bytes.
pub const CHUNK: u64 = blake3::CHUNK_LEN as u64;

/// The largest subtree that is hashed at once: small enough that the bytes are still in a near cache when the next hash
/// goes over them, large enough for all lanes of a processor.
pub const BLOCK: u64 = 256 << 10;

/// Contiguous bytes of an input: the chaining values of the largest subtrees within them, and the bytes at
/// both ends that share a chunk with their neighbours. The memory for the values grows with the logarithm of
/// the number of bytes; the bytes at the ends are at most two chunks.
///
/// ```
/// use blake3_tree::Run;
///
/// let input = [5; 10_000];
/// let (first, second) = input.split_at(3333);
/// let second = Run::new(10_000, 3333, second); // on another thread, perhaps
/// let first = Run::new(10_000, 0, first);
/// assert_eq!(first.join(10_000, second).finish(10_000), *blake3::hash(&input).as_bytes());
/// ```
#[derive(Clone, Debug)]
pub struct Run {
    /// The position in the input at which the run ends.
    end: u64,
    /// The bytes before the first chunk boundary, if the run begins within a chunk.
    head: Vec<u8>,
    /// Subtrees in order, each with its position, its length in whole chunks and its chaining value. Two that
    /// form a larger one are joined.
    trees: Vec<(u64, u64, ChainingValue)>,
    /// The bytes of an incomplete chunk, from its beginning on. An input of at most one chunk is kept whole.
    tail: Vec<u8>,
}

impl Run {
    /// Makes an empty run at byte `at` of the input.
    #[must_use]
    pub const fn empty(at: u64) -> Self {
        Self { end: at, head: Vec::new(), trees: Vec::new(), tail: Vec::new() }
    }

    /// Checks whether the run begins within a chunk and does not reach the end of that chunk.
    fn is_head(&self) -> bool {
        self.trees.is_empty() && self.tail.is_empty() && !self.end.is_multiple_of(CHUNK)
    }

    /// Returns the position in the input at which the run ends.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.end
    }

    /// Adds the following bytes, at most up to the end of their chunk. `total` is the length of the input.
    fn loose(&mut self, total: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if self.is_head() {
            self.head.extend(bytes);
            self.end += bytes.len() as u64;
            return;
        }
        self.tail.extend(bytes);
        self.end += bytes.len() as u64;
        // An input of one chunk has no chaining values, only a root.
        if total > CHUNK && (self.end.is_multiple_of(CHUNK) || self.end == total) {
            let start = self.end - self.tail.len() as u64;
            let value = chaining_value(start, &self.tail);
            self.tail.clear();
            self.push(total, (start, CHUNK, value));
        }
    }

    /// Adds the following bytes, which are a subtree as [`subtree_len`] cuts it.
    fn subtree(&mut self, total: u64, bytes: &[u8]) {
        let (start, len) = (self.end, bytes.len() as u64);
        self.end += len;
        self.push(total, (start, len, chaining_value(start, bytes)));
    }

    /// Adds the next subtree. Two neighbours of the same size are joined, except for the two that make the
    /// root.
    fn push(&mut self, total: u64, (mut start, mut len, mut value): (u64, u64, ChainingValue)) {
        while let Some(&(left_start, left_len, left)) = self.trees.last()
            && left_len == len
            && left_start.is_multiple_of(len.saturating_mul(2))
            && left_len.saturating_add(len) < total
        {
            self.trees.pop();
            value = merge_subtrees_non_root(&left, &value, Mode::Hash);
            (start, len) = (left_start, len.saturating_mul(2));
        }
        self.trees.push((start, len, value));
    }

    /// Hashes bytes that begin at position `at` of an input of `total` bytes.
    #[must_use]
    pub fn new(total: u64, at: u64, bytes: &[u8]) -> Self {
        let mut run = Self::empty(at);
        run.extend(total, bytes);
        run
    }

    /// Adds the following bytes.
    pub fn extend(&mut self, total: u64, bytes: &[u8]) {
        let in_chunk = self.end % CHUNK;
        let (head, mut rest) = split(bytes, if in_chunk == 0 { 0 } else { CHUNK - in_chunk });
        self.loose(total, head);
        while rest.len() as u64 >= CHUNK && total > CHUNK {
            let len = subtree_len(self.end, rest.len() as u64).min(BLOCK);
            // The whole input is the root and not a subtree.
            let (bytes, after) = split(rest, if len == total { len / 2 } else { len });
            self.subtree(total, bytes);
            rest = after;
        }
        self.loose(total, rest);
    }

    /// Joins this run with `second`, which begins where this one ends.
    #[must_use]
    pub fn join(mut self, total: u64, second: Self) -> Self {
        self.loose(total, &second.head);
        for tree in second.trees {
            self.push(total, tree);
        }
        if !second.tail.is_empty() {
            self.tail = second.tail;
        }
        self.end = second.end;
        self
    }

    /// Returns the hash, once the run has all bytes of the input.
    #[must_use]
    pub fn finish(mut self, total: u64) -> [u8; 32] {
        if total <= CHUNK {
            return *blake3::hash(&self.tail).as_bytes();
        }
        let Some((_, _, mut value)) = self.trees.pop() else { return [0; 32] }; // longer than a chunk, so there is one
        while let Some((_, _, left)) = self.trees.pop() {
            if self.trees.is_empty() {
                return *merge_subtrees_root(&left, &value, Mode::Hash).as_bytes();
            }
            value = merge_subtrees_non_root(&left, &value, Mode::Hash);
        }
        value
    }
}

/// Stores runs, or passes them to another process.
impl Run {
    /// Returns the run as bytes, for the same version of this crate.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(self.end.to_le_bytes());
        for bytes in [&self.head, &self.tail] {
            out.extend((bytes.len() as u64).to_le_bytes());
            out.extend(bytes);
        }
        for (start, len, value) in &self.trees {
            out.extend(start.to_le_bytes());
            out.extend(len.to_le_bytes());
            out.extend(value);
        }
        out
    }

    /// Reads a run from bytes, or returns `None` if they are not a run. Bytes that were changed or were never
    /// a run may still be accepted; then the hash is wrong, and nothing panics.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        const MOST: u64 = 1 << 62; // of a place in an input, so that no sum is too large
        let mut rest = bytes;
        let end = number(&mut rest)?;
        let mut ends = || {
            let len = number(&mut rest).filter(|len| *len <= CHUNK)?;
            let (bytes, after) = rest.split_at_checked(usize::try_from(len).ok()?)?;
            rest = after;
            Some(bytes.to_vec())
        };
        let (head, tail) = (ends()?, ends()?);
        let mut trees = Vec::new();
        while !rest.is_empty() {
            let (start, len) = (number(&mut rest)?, number(&mut rest)?);
            let (value, after) = rest.split_first_chunk()?;
            rest = after;
            if start > end || len > end {
                return None;
            }
            trees.push((start, len, *value));
        }
        (end <= MOST && tail.len() as u64 <= end).then_some(Self { end, head, trees, tail })
    }
}

fn number(from: &mut &[u8]) -> Option<u64> {
    let (bytes, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(u64::from_le_bytes(*bytes))
}

/// Returns the length of the largest subtree that begins at byte `at` of an input and has at most `most`
/// bytes, at least a chunk.
#[must_use]
pub fn subtree_len(at: u64, most: u64) -> u64 {
    let fits = 1u64 << most.max(1).ilog2();
    if at == 0 { fits } else { fits.min(1 << at.trailing_zeros()) }
}

/// Returns the chaining value of a subtree, whose chunks are complete except for the last chunk of the input.
///
/// `at` is a multiple of the subtree's length rounded up to a power of two chunks. [`subtree_len`] and
/// [`Run`] ensure this, unless runs are joined that are not neighbours; then this returns a value that no
/// bytes have. So the assertions of `set_input_offset` and `update` hold.
fn chaining_value(at: u64, bytes: &[u8]) -> ChainingValue {
    let chunks = (bytes.len() as u64).div_ceil(CHUNK);
    let is_subtree = at.is_multiple_of(CHUNK)
        && chunks > 0
        && subtree_len(at, chunks.next_power_of_two() * CHUNK) >= chunks * CHUNK;
    if !is_subtree {
        return [0; 32];
    }
    let mut hasher = blake3::Hasher::new();
    hasher.set_input_offset(at).update(bytes);
    hasher.finalize_non_root()
}

fn split(bytes: &[u8], at: u64) -> (&[u8], &[u8]) {
    bytes.split_at(usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(len: usize) -> Vec<u8> {
        (0..len as u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
    }

    /// Returns the hash computed from runs that begin at these positions, joined in this order.
    fn by_runs(bytes: &[u8], mut cuts: Vec<usize>, order: &[usize]) -> [u8; 32] {
        let total = bytes.len() as u64;
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        cuts.dedup();
        let pieces = cuts.windows(2).map(|cut| Run::new(total, cut[0] as u64, &bytes[cut[0]..cut[1]]));
        let mut runs: Vec<Run> = pieces.map(|run| Run::from_bytes(&run.to_bytes()).unwrap()).collect();
        for pick in order.iter().cycle() {
            if runs.len() < 2 {
                break;
            }
            let at = pick % (runs.len() - 1);
            let second = runs.remove(at + 1);
            let first = runs.remove(at);
            runs.insert(at, first.join(total, second));
        }
        let run = runs.pop().unwrap_or_else(|| Run::new(0, 0, &[]));
        assert_eq!(run.end(), total);
        assert!(run.head.is_empty() && run.trees.len() <= 64);
        run.finish(total)
    }

    proptest! {
        #[test]
        fn runs_make_the_hash_however_they_are_cut_and_joined(
            len in prop_oneof![0usize..5000, 0usize..300_000, Just(1024), Just(2048), Just(65_536), Just(262_144), Just(524_288)],
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..30),
            aligned in proptest::collection::vec(0usize..600, 0..10),
            order in proptest::collection::vec(0usize..1000, 1..40),
        ) {
            let all = bytes(len);
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(len + 1)).collect();
            cuts.extend(aligned.into_iter().map(|chunk| (chunk * 1024).min(len)));
            prop_assert_eq!(by_runs(&all, cuts, &order), *blake3::hash(&all).as_bytes());
        }
    }

    #[test]
    fn bytes_that_are_no_run_make_no_good_hash() {
        let all = bytes(10_000);
        let good = *blake3::hash(&all).as_bytes();
        let run = Run::new(10_000, 0, &all).to_bytes();
        assert_eq!(Run::from_bytes(&run).unwrap().finish(10_000), good);
        for cut in 0..run.len() {
            let cut = Run::from_bytes(&run[..cut]).map(|run| run.finish(10_000));
            assert_ne!(cut, Some(good));
        }
        let run = Run::new(10_000, 1500, &bytes(5000)).to_bytes();
        for at in 0..run.len() {
            let mut changed = run.clone();
            changed[at] ^= 0x80;
            if let Some(changed) = Run::from_bytes(&changed) {
                let _ = Run::new(10_000, 0, &bytes(1500)).join(10_000, changed).finish(10_000);
            }
        }
    }

    #[test]
    fn inputs_around_the_sizes_of_trees() {
        for len in [0, 1, 1023, 1024, 1025, 2047, 2048, 2049, 3072, 3073, 4096, 4097, 7 * 1024, 8 * 1024 + 1]
        {
            let all = bytes(len);
            let expected = *blake3::hash(&all).as_bytes();
            for step in [1usize, 7, 512, 1000, 1024, 2048, 3000, 100_000] {
                let cuts: Vec<usize> = (0..len).step_by(step).collect();
                for order in [&[0usize][..], &[usize::MAX / 2], &[3, 1, 4, 1, 5, 9, 2, 6]] {
                    assert_eq!(by_runs(&all, cuts.clone(), order), expected, "{len} {step}");
                }
            }
        }
    }
}
