//! BLAKE3 and outboards, written only from their documents: a hash of 32-bit words at a time, and a check
//! from the top down.

#![allow(clippy::cast_possible_truncation, reason = "words of a counter, and lengths below a block")]

/// The size of a group in bytes.
const GROUP: usize = 16 << 10;
const CHUNK: usize = 1 << 10;
const BLOCK: usize = 64;

const IV: [u32; 8] =
    [0x6A09_E667, 0xBB67_AE85, 0x3C6E_F372, 0xA54F_F53A, 0x510E_527F, 0x9B05_688C, 0x1F83_D9AB, 0x5BE0_CD19];
const PERMUTATION: [usize; 16] = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8];

const CHUNK_START: u32 = 1;
const CHUNK_END: u32 = 2;
const PARENT: u32 = 4;
const ROOT: u32 = 8;

type Value = [u8; 32];

fn words<const N: usize>(bytes: &[u8]) -> [u32; N] {
    let mut words = [0; N];
    for (word, four) in words.iter_mut().zip(bytes.chunks(4)) {
        let mut padded = [0; 4];
        padded[..four.len()].copy_from_slice(four);
        *word = u32::from_le_bytes(padded);
    }
    words
}

fn mix(state: &mut [u32; 16], [a, b, c, d]: [usize; 4], x: u32, y: u32) {
    for (word, first, second) in [(x, 16, 12), (y, 8, 7)] {
        state[a] = state[a].wrapping_add(state[b]).wrapping_add(word);
        state[d] = (state[d] ^ state[a]).rotate_right(first);
        state[c] = state[c].wrapping_add(state[d]);
        state[b] = (state[b] ^ state[c]).rotate_right(second);
    }
}

fn compress(value: &Value, block: &[u8], counter: u64, flags: u32) -> Value {
    const ROWS: [[usize; 4]; 8] = [
        [0, 4, 8, 12],
        [1, 5, 9, 13],
        [2, 6, 10, 14],
        [3, 7, 11, 15],
        [0, 5, 10, 15],
        [1, 6, 11, 12],
        [2, 7, 8, 13],
        [3, 4, 9, 14],
    ];
    let mut message: [u32; 16] = words(block);
    let mut state = [0; 16];
    state[..8].copy_from_slice(&words::<8>(value));
    state[8..12].copy_from_slice(&IV[..4]);
    state[12] = counter as u32;
    state[13] = (counter >> 32) as u32;
    state[14] = block.len() as u32;
    state[15] = flags;
    for _ in 0..7 {
        for (row, pair) in ROWS.into_iter().zip(message.chunks(2)) {
            mix(&mut state, row, pair[0], pair[1]);
        }
        message = PERMUTATION.map(|from| message[from]);
    }
    let mut out = [0; 32];
    for (bytes, at) in out.chunks_mut(4).zip(0..) {
        bytes.copy_from_slice(&(state[at] ^ state[at + 8]).to_le_bytes());
    }
    out
}

fn first_value() -> Value {
    let mut value = [0; 32];
    value.chunks_mut(4).zip(IV).for_each(|(bytes, word)| bytes.copy_from_slice(&word.to_le_bytes()));
    value
}

/// Returns the value of a parent.
fn parent(left: &Value, right: &Value, is_root: bool) -> Value {
    let flags = PARENT | if is_root { ROOT } else { 0 };
    compress(&first_value(), &[&left[..], right].concat(), 0, flags)
}

/// Returns the length of the left half: the largest power of two of `unit`s that leaves something for the
/// right.
fn left_len(len: usize, unit: usize) -> usize {
    let mut left = unit;
    while left * 2 < len {
        left *= 2;
    }
    left
}

/// Returns the value of a subtree that begins at byte `at` of the input.
fn subtree(bytes: &[u8], at: usize, is_root: bool) -> Value {
    if bytes.len() > CHUNK {
        let (left, right) = bytes.split_at(left_len(bytes.len(), CHUNK));
        return parent(&subtree(left, at, false), &subtree(right, at + left.len(), false), is_root);
    }
    let mut value = first_value();
    let blocks: Vec<&[u8]> = if bytes.is_empty() { vec![&[]] } else { bytes.chunks(BLOCK).collect() };
    for (number, block) in blocks.iter().enumerate() {
        let is_last = number + 1 == blocks.len();
        let start = if number == 0 { CHUNK_START } else { 0 };
        let end = if is_last { CHUNK_END | if is_root { ROOT } else { 0 } } else { 0 };
        value = compress(&value, block, (at / CHUNK) as u64, start | end);
    }
    value
}

/// Returns the number of parents over `len` bytes.
fn parents(len: usize) -> usize {
    len.div_ceil(GROUP).saturating_sub(1)
}

/// Returns the BLAKE3 of a file, and its outboard.
#[must_use]
pub fn outboard(file: &[u8]) -> (Value, Vec<u8>) {
    fn go(bytes: &[u8], at: usize, is_root: bool, out: &mut Vec<u8>) -> Value {
        if bytes.len() <= GROUP {
            return subtree(bytes, at, is_root);
        }
        let here = out.len();
        out.extend([0; 64]);
        let (left, right) = bytes.split_at(left_len(bytes.len(), GROUP));
        let l = go(left, at, false, out);
        let r = go(right, at + left.len(), false, out);
        out[here..here + 64].copy_from_slice(&[l, r].concat());
        parent(&l, &r, is_root)
    }
    let mut out = Vec::new();
    (go(file, 0, true, &mut out), out)
}

/// Returns a range of a file, if hash and outboard prove it.
#[must_use]
pub fn proved(file: &[u8], outboard: &[u8], hash: &Value, start: usize, end: usize) -> Option<Vec<u8>> {
    struct Check<'a> {
        file: &'a [u8],
        outboard: &'a [u8],
        range: (usize, usize),
        out: Vec<u8>,
    }
    fn go(c: &mut Check<'_>, at: usize, len: usize, node: usize, value: &Value, is_root: bool) -> Option<()> {
        let (start, end) = c.range;
        if at >= end || at + len <= start {
            return Some(());
        }
        if len <= GROUP {
            let bytes = &c.file[at..at + len];
            if subtree(bytes, at, is_root) != *value {
                return None;
            }
            c.out.extend(&bytes[start.saturating_sub(at)..(end - at).min(len)]);
            return Some(());
        }
        let stored = &c.outboard[64 * node..64 * node + 64];
        let (left, right) = (stored[..32].try_into().ok()?, stored[32..].try_into().ok()?);
        if parent(&left, &right, is_root) != *value {
            return None;
        }
        let half = left_len(len, GROUP);
        go(c, at, half, node + 1, &left, false)?;
        go(c, at + half, len - half, node + 1 + parents(half), &right, false)
    }
    if outboard.len() != 64 * parents(file.len()) {
        return None;
    }
    let mut check = Check { file, outboard, range: (start, end), out: Vec::new() };
    go(&mut check, 0, file.len(), 0, hash, true)?;
    Some(check.out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slow_hash_is_that_of_the_library() {
        for len in [0, 1, 64, 65, 1024, 1025, 2048, 5000, GROUP, GROUP + 1, 100_000] {
            let file: Vec<u8> = (0..len).map(|i| (((i * i) >> 3) % 251) as u8).collect();
            let (hash, parents) = outboard(&file);
            assert_eq!(hash, *blake3::hash(&file).as_bytes(), "{len}");
            assert_eq!(proved(&file, &parents, &hash, len / 3, len).unwrap(), file[len / 3..]);
        }
    }
}
