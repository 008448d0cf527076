//! Digests: of tensors as trees of pages, and of a file as its statement.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use blake3::hazmat::{ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};

/// A BLAKE3-256 hash, or a node in its tree.
pub(crate) type Hash = [u8; 32];

/// Returns a label that separates one use of a hash or key from all others.
pub(crate) fn label(text: &str) -> Vec<u8> {
    let mut label = b"APR2-SEAL-1 ".to_vec();
    label.extend(text.as_bytes());
    label.push(0);
    label
}

/// Hashes several parts, one after another.
pub(crate) fn hash(parts: &[&[u8]]) -> Hash {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize().into()
}

/// Hashes bytes.
pub(crate) fn hash_of(bytes: &[u8]) -> Hash {
    blake3::hash(bytes).into()
}

/// Returns the statement of a file: the hash of everything that a signature covers.
pub(crate) fn statement(header: &[u8], metadata: &[u8], index: &[u8], body: &[u8]) -> Hash {
    let [metadata, index, body] = [metadata, index, body].map(|part| hash(&[part]));
    hash(&[&label("statement"), header, &metadata, &index, &body])
}

/// Returns the identifier of a key.
pub(crate) fn key_id(kind: &str, key: &[u8]) -> Hash {
    hash(&[&label(kind), key])
}

/// Returns the number of entries in the page table of a tensor of `size` stored bytes.
pub(crate) const fn pages_of(size: u64, page: u64) -> u64 {
    if size > page { size.div_ceil(page) } else { 0 }
}

/// Computes the node over one page of a tensor that has several pages.
pub(crate) fn page_node(page: u64, number: u64, bytes: &[u8]) -> Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.set_input_offset(number.saturating_mul(page));
    hasher.update(bytes);
    hasher.finalize_non_root()
}

/// Computes the digest over the nodes of all pages, or `None` if there are fewer than two.
pub(crate) fn root(nodes: &[ChainingValue]) -> Option<Hash> {
    let (left, right) = split(nodes)?;
    Some(merge_subtrees_root(&node(left)?, &node(right)?, Mode::Hash).into())
}

fn node(nodes: &[ChainingValue]) -> Option<ChainingValue> {
    match split(nodes) {
        Some((left, right)) => Some(merge_subtrees_non_root(&node(left)?, &node(right)?, Mode::Hash)),
        None => nodes.first().copied(),
    }
}

/// Splits nodes into two subtrees. The left one has the largest power of two that leaves something for the
/// right one.
fn split(nodes: &[ChainingValue]) -> Option<(&[ChainingValue], &[ChainingValue])> {
    let left = nodes.len().checked_sub(1)?.checked_ilog2()?;
    nodes.split_at_checked(1 << left)
}

/// Formats lower-case hex digits, which is how errors and JSON show hashes.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len().saturating_mul(2)), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // a String takes everything
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_give_the_hash_of_the_whole() {
        let bytes: Vec<u8> = (0..20_000u32).map(|n| (n * n).to_le_bytes()[1]).collect();
        for (len, page) in
            [(1025, 1024), (2048, 1024), (3000, 1024), (20_000, 1024), (20_000, 4096), (16_384, 4096)]
        {
            let nodes: Vec<_> = (0..)
                .zip(bytes[..len].chunks(page))
                .map(|(n, part)| page_node(page as u64, n, part))
                .collect();
            assert_eq!(nodes.len() as u64, pages_of(len as u64, page as u64));
            assert_eq!(root(&nodes), Some(*blake3::hash(&bytes[..len]).as_bytes()), "{len} in {page}");
        }
        assert_eq!((root(&[]), root(&[[0; 32]]), pages_of(1024, 1024)), (None, None, 0));
    }
}
