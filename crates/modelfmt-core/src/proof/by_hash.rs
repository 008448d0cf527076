//! Proves bytes by a single hash of the whole range.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use blake3_tree::{Branch, Page, Recorder, Shape};

use super::{Hex, Part, Proof, ProofError, named};
use crate::claims::{Claim, Claims};
use crate::error::AnyError;
use crate::execution::{Execution, PIECE};
use crate::extent::Extent;
use crate::fetch::{Fetch, ScanError, ScanRange};
use crate::ledger::DigestKind;

/// The default maximum number of groups. Each takes 64 bytes of memory.
const GROUPS: u64 = 1 << 16;

/// The maximum length of a range that is hashed by one thread.
const SHORT: u64 = 8 << 20;

/// Proves a range of a file by its digest. The first read reads and checks the whole range once, and keeps at
/// most 4 MiB of hashes. Later reads are checked against these: in groups of 16 KiB for a range of up to a
/// GiB, and in larger groups for a longer one.
pub struct HashProof {
    range: Range<u64>,
    expected: Expected,
    page: OnceLock<Arc<Page>>,
    root: Arc<str>,
    groups: u64,
}

enum Expected {
    Blake3([u8; 32]),
    /// Another digest, checked as a claim about the whole range. The function creates new claims for each
    /// pass.
    Other(Box<dyn Fn() -> Claims + Send + Sync>),
}

impl fmt::Debug for HashProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HashProof({:?}, {})", self.range, self.root)
    }
}

impl HashProof {
    /// Creates the proof of a whole file of `len` bytes by its BLAKE3 hash.
    #[must_use]
    pub fn new(hash: [u8; 32], len: u64) -> Self {
        Self::for_range(0..len, hash, named(&hash))
    }

    /// Creates the proof of a range of a file by its BLAKE3 hash; `root` names the hash in errors.
    #[must_use]
    pub const fn for_range(range: Range<u64>, hash: [u8; 32], root: Arc<str>) -> Self {
        Self { range, expected: Expected::Blake3(hash), page: OnceLock::new(), root, groups: GROUPS }
    }

    /// Sets the maximum number of groups. Each takes 64 bytes of memory.
    #[must_use]
    pub const fn groups(mut self, groups: u64) -> Self {
        self.groups = groups;
        self
    }

    /// Creates the proof of a whole file of `len` bytes by a digest of another kind. `root` names the
    /// expected digest in errors, and `show` formats the digest that was found.
    #[must_use]
    pub fn with_digest<K: DigestKind>(
        len: u64,
        root: Arc<str>,
        expected: K::Digest,
        show: fn(&K::Digest) -> String,
    ) -> Self {
        let named = Arc::clone(&root);
        let claims = move || {
            let mut claims = Claims::new();
            let whole = Extent::new(0, len, len).map(|extent| Claim { extent, expected, what: () });
            let root = Arc::clone(&named);
            let failed = move |_: &Claim<_, ()>, found| {
                let error = ProofError::Whole { found: show(&found), root: Arc::clone(&root) };
                AnyError::Io { at: 0, len, source: error.into() }
            };
            claims.for_file().add::<K, ()>(whole.into_iter().collect(), 1, failed);
            claims
        };
        let expected = Expected::Other(Box::new(claims));
        Self { range: 0..len, expected, page: OnceLock::new(), root, groups: GROUPS }
    }

    /// Returns the range of the file that the proof covers.
    #[must_use]
    pub const fn range(&self) -> &Range<u64> {
        &self.range
    }

    /// Reads the whole range and checks it.
    async fn pass<S: Fetch>(&self, source: &S) -> io::Result<Page> {
        let shape = Shape::at_most(self.range.end.saturating_sub(self.range.start), self.groups);
        let (mut recorder, piece) = (Recorder::new(shape), shape.group().max(PIECE));
        let branch = |at: u64, bytes: &[u8]| Branch::new(shape, at.saturating_sub(self.range.start), bytes);
        let claims = match &self.expected {
            Expected::Blake3(_) => None,
            Expected::Other(claims) => Some(claims()),
        };
        let mut take = |branch: Option<Branch>| branch.iter().for_each(|branch| recorder.push(branch));
        let is_short = self.range.end.saturating_sub(self.range.start) <= SHORT;
        if claims.is_some() || is_short {
            // Other digests may need the bytes in order.
            let mut at = self.range.start;
            while at < self.range.end {
                let end = self.range.end.min(at.saturating_add(piece));
                let bytes = source.fetch(at..end).await?;
                claims.iter().for_each(|claims| claims.observe(0, at, &bytes));
                take(branch(at, &bytes));
                at = end;
            }
        } else {
            let scan = ScanRange::new(self.range.clone(), piece, branch);
            source.scan(&scan, &Execution::default(), take).await.map_err(|error| match error {
                ScanError::Io { source, .. } => source,
                ScanError::Cancelled => io::ErrorKind::Interrupted.into(),
            })?;
        }
        let (found, page) = recorder.finish().ok_or(io::ErrorKind::UnexpectedEof)?;
        if let Expected::Blake3(expected) = &self.expected
            && *expected != found
        {
            let found = format!("b3:{}", Hex(&found));
            return Err(ProofError::Whole { found, root: Arc::clone(&self.root) }.into());
        }
        if let Some(failure) = claims.and_then(|claims| claims.failure()) {
            return Err(match failure {
                AnyError::Io { source, .. } => source,
                other => io::Error::other(other),
            });
        }
        Ok(page)
    }
}

impl Proof for HashProof {
    async fn part<S: Fetch>(&self, source: &S, _: u64) -> io::Result<Part> {
        let page = match self.page.get() {
            Some(page) => Arc::clone(page),
            None => {
                let page = Arc::new(self.pass(source).await?);
                Arc::clone(self.page.get_or_init(|| page))
            }
        };
        Ok(Part::new(self.range.start, page, Arc::clone(&self.root)))
    }

    fn is_slow(&self, _: &Range<u64>) -> bool {
        self.page.get().is_none()
    }
}
