//! Sources that check every byte before they return it.
//!
//! For each position in a file, a [`Proof`] returns which bytes around it can be checked, and how.
//! [`VerifiedSource`] wraps a source and checks what it reads. A reader over it therefore gets only checked
//! bytes, for the index of a file as well as its values, in any format. [`AsyncVerifiedSource`] does the same
//! for asynchronous sources.
//!
//! A whole file is proved by its BLAKE3 hash, which you must get from a trusted place, with
//!
//! - an outboard ([`OutboardProof`]): a small separate file, which need not be trusted. To check a range, its
//!   groups of 16 KiB and a few parents of the tree are read;
//! - or nothing else ([`HashProof`]): then the first read reads the whole file once. It keeps at most 4 MiB
//!   of hashes, which prove every later read.
//!
//! If code reads a whole file anyway, such as for the digest that a signature covers, a [`Recording`] keeps
//! the same hashes, and [`RecordedProof`] proves later reads by them.
//!
//! ```
//! use modelfmt_core::Source;
//! use modelfmt_core::proof::VerifiedSource;
//!
//! # let file = vec![7; 100_000];
//! let (hash, outboard) = blake3_tree::outboard(&file); // `modelfmt_write::write_outboard` makes one of a file that is not in memory
//! let source = VerifiedSource::by_outboard(&file, hash, &outboard)?;
//! assert_eq!(*source.read(5..9)?, [7; 4]); // read, checked, and then given
//!
//! let mut damaged = file.clone();
//! damaged[50_000] ^= 1;
//! let source = VerifiedSource::by_outboard(&damaged, hash, &outboard)?;
//! assert!(source.read(5..9).is_ok());
//! assert!(source.read(50_001..50_002).is_err()); // it is in the same group
//! # Ok::<(), std::io::Error>(())
//! ```
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod by_hash;
mod by_outboard;
mod recorded;
mod verified;

use std::fmt;
use std::future::Future;
use std::io;
use std::ops::Range;
use std::sync::Arc;

pub use blake3_tree::{GROUP, Mismatch, Page};

pub use self::by_hash::HashProof;
pub use self::by_outboard::OutboardProof;
pub use self::recorded::{RecordedProof, Recording};
pub use self::verified::{AsyncVerifiedSource, VerifiedSource};
use crate::fetch::Fetch;

/// The proof of a file's bytes.
pub trait Proof {
    /// Returns the proof of the bytes around byte `at` of the file in `source`, which is not trusted. Bytes
    /// that are read for the proof are checked before they are used.
    ///
    /// # Errors
    /// [`ProofError`] inside the I/O error, if bytes that the proof needs do not match; an I/O error if they
    /// cannot be read.
    fn part<S: Fetch>(&self, source: &S, at: u64) -> impl Future<Output = io::Result<Part>>;

    /// Returns whether [`part`](Self::part) must read much more than `range` first. Then other threads wait
    /// for the first one that calls it.
    fn is_slow(&self, range: &Range<u64>) -> bool {
        let _ = range;
        false
    }

    /// Returns whether the proved bytes include hashes of all other bytes of the model: see
    /// [`Source::unproved`](crate::Source::unproved).
    fn has_all_hashes(&self) -> bool {
        false
    }
}

/// A part of a file, with its proof.
#[derive(Clone, Debug)]
pub struct Part(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Page {
        /// The offset in the file at which the tree of the page begins.
        base: u64,
        page: Arc<Page>,
        /// The trusted hash, for errors.
        root: Arc<str>,
    },
    Free(Range<u64>),
}

impl Part {
    /// Creates a part from a page of a hash tree that begins at byte `base` of the file. `root` names its
    /// trusted hash in errors.
    #[must_use]
    pub const fn new(base: u64, page: Arc<Page>, root: Arc<str>) -> Self {
        Self(Kind::Page { base, page, root })
    }

    /// Creates a part that needs no proof here: its reader checks the bytes before it uses them, or never
    /// uses them.
    #[must_use]
    pub const fn unchecked(range: Range<u64>) -> Self {
        Self(Kind::Free(range))
    }

    /// Returns the range of the file that the part proves.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        match &self.0 {
            Kind::Page { base, page, .. } => moved(*base, &page.range()),
            Kind::Free(range) => range.clone(),
        }
    }

    /// Returns the range that must be read to check `range`.
    #[must_use]
    pub fn around(&self, range: &Range<u64>) -> Range<u64> {
        match &self.0 {
            Kind::Page { base, page, .. } => {
                let within = |at: u64| at.saturating_sub(*base);
                moved(*base, &page.around(&(within(range.start)..within(range.end))))
            }
            Kind::Free(all) => range.start.max(all.start)..range.end.min(all.end),
        }
    }

    /// Checks that `bytes` are the bytes of the file from `at` on. They must be exactly the range that
    /// [`around`](Self::around) returns for some range.
    ///
    /// # Errors
    /// [`ProofError::Bytes`].
    pub fn check(&self, at: u64, bytes: &[u8]) -> Result<(), ProofError> {
        let Kind::Page { base, page, root } = &self.0 else { return Ok(()) };
        let len = bytes.len() as u64;
        let checked = match at.checked_sub(*base) {
            Some(within) => page.check(within, bytes),
            None => Err(Mismatch::Groups { at, len }),
        };
        checked.map_err(|mismatch| {
            let (start, len) = match mismatch {
                Mismatch::Bytes { at, len } => (base.saturating_add(at), len),
                _ => (at, len),
            };
            ProofError::Bytes { start, end: start.saturating_add(len), root: Arc::clone(root) }
        })
    }
}

/// Converts a range of a tree to a range of the file.
const fn moved(base: u64, range: &Range<u64>) -> Range<u64> {
    base.saturating_add(range.start)..base.saturating_add(range.end)
}

/// The error for bytes that do not match their proof. It is the inner error of an [`io::Error`] of kind
/// [`InvalidData`](io::ErrorKind::InvalidData), so every reader passes it on.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProofError {
    /// A range of the file does not match.
    #[error(
        "bytes {start} to {end} are not those of {root}: the file is damaged, was changed, or is another one"
    )]
    Bytes {
        /// The start of the range.
        start: u64,
        /// The end of the range.
        end: u64,
        /// The trusted hash.
        root: Arc<str>,
    },
    /// The whole file does not match, and it is unknown which part is wrong.
    #[error("its hash is {found} and not {root}: the file is damaged, was changed, or is another one")]
    Whole {
        /// The hash that was found.
        found: String,
        /// The trusted hash.
        root: Arc<str>,
    },
    /// The outboard does not match.
    #[error(
        "{name} is not the outboard of a file with {root}: {mismatch}; make it again, from an intact file"
    )]
    Outboard {
        /// The name of the outboard.
        name: Arc<str>,
        /// The mismatch.
        mismatch: Mismatch,
        /// The trusted hash.
        root: Arc<str>,
    },
}

tensor_core::debug_as_sentence!(ProofError);

impl ProofError {
    /// Returns the proof error inside an I/O error, if there is one.
    #[must_use]
    pub fn within(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

impl From<ProofError> for io::Error {
    fn from(error: ProofError) -> Self {
        Self::new(io::ErrorKind::InvalidData, error)
    }
}

/// Formats a hash in the notation of pins: `b3:` and hex.
fn named(hash: &[u8; 32]) -> Arc<str> {
    format!("b3:{}", Hex(hash)).into()
}

/// Prints a hash in hex.
struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests;
