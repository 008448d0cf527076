//! BLAKE3 is a tree: each chunk of 1 KiB has a value, each parent has a value computed from its two children,
//! and the value at the top is the hash that `b3sum` prints. If you keep the parents, you can prove a part of
//! a file without the rest of it.
//!
//! This crate makes and checks **outboards**, files that hold the parents of another file: `FILE.obao4` next
//! to `FILE`, which is not changed. The crate does no I/O: it tells you which bytes it needs.
//!
//! ```text
//! FILE, in groups of 16 KiB      FILE.obao4: a parent is 64 bytes, the values of its left and its right half
//!
//!            A                   ┌───────┬───────┬───────┬───────┬───────┬──
//!       ┌────┴────┐              │ A     │ B     │ D     │ E     │ C     │ …   each before its left subtree,
//!       B         C              └───────┴───────┴───────┴───────┴───────┴──   that before the right one
//!     ┌─┴─┐     ┌─┴─┐
//!     D   E     ⋮   ⋮            64 × (groups − 1) bytes: 0.39 % of the file. No magic, no length, no hash
//!    ┌┴┐ ┌┴┐
//!    0 1 2 3 …                   parents within a group are left out: a group is hashed whole
//! ```
//!
//! This is the layout of the crate `bao-tree` with a block size of 2^4 chunks, and the suffix is the one that
//! its users use. You need not trust an outboard: you supply the hash, and with a wrong outboard no bytes
//! pass the check.
//!
//! # Making an outboard
//!
//! [`outboard`] makes the outboard of bytes in memory. For a large file, several threads can make the
//! [`Branch`]es of pieces in any order, and a [`Builder`] joins them.
//!
//! # Proving a range
//!
//! ```
//! use blake3_tree::{GROUP, Verifier};
//!
//! let file: Vec<u8> = (0..1_000_000u64).map(|i| (i * i >> 3) as u8).collect();
//! let (hash, outboard) = blake3_tree::outboard(&file); // the hash from a source that you trust, the outboard from anywhere
//!
//! let verifier = Verifier::new(hash, file.len() as u64);
//! verifier.check_len(outboard.len() as u64)?;
//! let mut walk = verifier.walk(500_000);
//! while let Some(need) = walk.need() {
//!     walk.feed(&outboard[need.start as usize..need.end as usize])?; // read it from wherever it is
//! }
//! let page = walk.finish().ok_or("nothing more is needed")?;
//! let range = page.around(&(500_000..500_100)); // the group that holds these bytes
//! assert!(range.end - range.start == GROUP);
//! let mut bytes = file[range.start as usize..range.end as usize].to_vec();
//! page.check(range.start, &bytes)?;
//! bytes[5] ^= 1;
//! assert!(page.check(range.start, &bytes).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Hashing in any order
//!
//! A [`Run`] is the hash state of a contiguous part of an input. Runs are joined until they cover the whole
//! input. So several threads can hash one input, and one pass over some bytes can hash many overlapping
//! inputs.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod build;
mod compare;
mod page;
mod run;
mod shape;
mod verify;

pub use build::{Branch, Builder, Recorder, outboard, root_of};
pub use compare::{Differences, Different};
pub use page::{Mismatch, Page};
pub use run::{BLOCK, CHUNK, Run, subtree_len};
pub use shape::{GROUP, Shape};
pub use verify::{Verifier, Walk};

/// Returns the BLAKE3 hash of bytes in memory.
#[must_use]
pub fn hash(bytes: &[u8]) -> [u8; 32] {
    *blake3::hash(bytes).as_bytes()
}

/// The README's example, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
