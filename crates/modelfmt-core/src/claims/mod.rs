//! Checks what a file claims about its own bytes while they are read for another purpose.
//!
//! A writer that reads values and hashes them again would give damaged bytes a valid hash. So code that
//! copies values asks the source which digests cover them ([`Container::claims`](crate::Container::claims)),
//! reads through the claims ([`Container::values_into`](crate::Container::values_into)), and finally checks
//! that all of them hold ([`Claims::finish`]).
//!
//! Claims refer to ranges of a file, not to values, so compression, casts, the order of tensors and the
//! number of threads make no difference. A range arrives in pieces, in any order, and every byte is hashed
//! once, by the thread that has read it. Bytes of a claimed range that the caller did not request (gaps,
//! omitted tensors) are read at the end.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod lane;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{AnyError, CommonFault, Error, Part};
use crate::execution::PIECE;
use crate::extent::Extent;
use crate::fetch::Fetch;
use crate::ledger::DigestKind;
use crate::source::Source;
use tensor_core::Bytes;

use lane::{AnyLane, Checked};

/// A digest that a file states for a range of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim<D, W> {
    /// The range.
    pub extent: Extent,
    /// The digest that its bytes must have.
    pub expected: D,
    /// The description of the range, for errors.
    pub what: W,
}

/// A tensor whose values are to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedRange {
    /// The position of the tensor.
    pub position: usize,
    /// The bytes of its values that are wanted; `None` for all.
    pub range: Option<Range<u64>>,
}

impl WantedRange {
    /// Requests all values of the tensor at a position.
    #[must_use]
    pub const fn whole(position: usize) -> Self {
        Self { position, range: None }
    }
}

/// The claims that are checked during one job, and the progress of the checks.
#[derive(Default)]
pub struct Claims {
    files: BTreeMap<usize, Vec<Box<dyn AnyLane>>>,
    /// The files that have already been checked in full.
    checked: BTreeSet<usize>,
    notes: Vec<String>,
    /// Whether the bytes are used only after all claims have been found to hold.
    is_deferred: bool,
    /// Shared by all members.
    has_failed: Arc<AtomicBool>,
    /// The claims of each member in order, if the container consists of several.
    members: Vec<Member>,
}

/// The claims of one member of a container that consists of several.
struct Member {
    /// The number of its first file in the whole container.
    first_file: usize,
    /// Its name in errors.
    name: String,
    claims: Claims,
}

impl fmt::Debug for Claims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Claims {{ files: {}, notes: {:?} }}", self.files.len(), self.notes)
    }
}

impl Claims {
    /// Creates an empty set of claims, which checks nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Promises that the bytes are used only after [`finish`](Self::finish) has found that all claims hold.
    /// Bytes that a claim covers are then read [without the source's own proof](crate::Source::unproved), in
    /// one pass: the claim proves them.
    #[must_use]
    pub fn deferred(mut self) -> Self {
        self.is_deferred = true;
        self
    }

    /// Returns the claims of a single file, to add to them.
    pub fn for_file(&mut self) -> FileClaims<'_> {
        FileClaims { claims: self, number: 0, part: None }
    }

    /// Returns the claims of a file of a set, to add to them. `number` is its number, and `part` names it in
    /// errors.
    pub fn for_set_file(&mut self, number: usize, part: Part) -> FileClaims<'_> {
        FileClaims { claims: self, number, part: Some(part) }
    }

    /// Adds the claims of the next member of a container that consists of several. `first_file` is the number of the member's
    /// first file in the whole container, and must be larger than that of every earlier member. `name` names the member in
    /// errors.
    pub fn join(&mut self, first_file: usize, name: &str, mut claims: Self) {
        self.notes.extend(claims.notes.drain(..).map(|note| format!("{name}: {note}")));
        self.has_failed.fetch_or(claims.has_failed.load(Ordering::Acquire), Ordering::AcqRel);
        claims.has_failed = Arc::clone(&self.has_failed);
        self.members.push(Member { first_file, name: name.to_owned(), claims });
    }

    /// Returns the claims of the member with this number, whose files are numbered from 0 there. If the
    /// container has no members, returns all claims.
    #[must_use]
    pub fn member(&self, number: usize) -> &Self {
        self.members.get(number).map_or(self, |member| &member.claims)
    }

    /// Returns the claims that contain a file, and the number of the file among them.
    fn locate_file(&self, file: usize) -> (&Self, usize) {
        let next = self.members.partition_point(|member| member.first_file <= file);
        match next.checked_sub(1).and_then(|number| self.members.get(number)) {
            Some(member) => (&member.claims, file.saturating_sub(member.first_file)),
            None => (self, file),
        }
    }

    fn lanes(&self, file: usize) -> impl Iterator<Item = &dyn AnyLane> {
        let (claims, file) = self.locate_file(file);
        claims.files.get(&file).into_iter().flatten().map(|lane| &**lane)
    }

    /// Returns whether there are no claims.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.members.iter().all(|member| member.claims.is_empty())
    }

    /// Returns notes on what is not checked, and why. The text is meant for the user.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Adds a note on something that is not checked, and why.
    pub fn note(&mut self, text: String) {
        self.notes.push(text);
    }

    /// Hashes bytes that were read from a file, starting at byte `at`. Bytes that were hashed before are skipped.
    pub fn observe(&self, file: usize, at: u64, bytes: &[u8]) {
        self.hash_bytes(file, at, bytes, false);
    }

    /// Hashes bytes that were read because they were [missing](Self::missing). In contrast to
    /// [`observe`](Self::observe), it skips none of them.
    pub(crate) fn observe_all(&self, file: usize, at: u64, bytes: &[u8]) {
        self.hash_bytes(file, at, bytes, true);
    }

    /// Hashes bytes of a file. Returns whether claims cover all of them and this call hashed all of them.
    /// Returns false if some were hashed earlier, from another read of the same range.
    fn hash_bytes(&self, file: usize, at: u64, bytes: &[u8], keep_all: bool) -> bool {
        let (claims, file) = self.locate_file(file);
        let mut taken = Vec::new();
        for lane in claims.files.get(&file).into_iter().flatten() {
            if !lane.hash_bytes(at, bytes, keep_all, &mut taken) {
                claims.has_failed.store(true, Ordering::Release);
            }
        }
        let all = at..at.saturating_add(bytes.len() as u64);
        merged(taken).iter().any(|taken| taken.start <= all.start && taken.end >= all.end)
    }

    /// Returns the error of a claim that has failed so far, so that the caller can stop early.
    #[must_use]
    pub fn failure(&self) -> Option<AnyError> {
        if !self.has_failed.load(Ordering::Acquire) {
            return None;
        }
        let of_member = |Member { name, claims, .. }: &Member| {
            Some(claims.failure()?.in_source(Some(name.as_str().into())))
        };
        let own = self.files.values().flatten().find_map(|lane| lane.failure());
        own.or_else(|| self.members.iter().find_map(of_member))
    }

    /// Returns the ranges of the claims of a file that have failed so far.
    #[must_use]
    pub fn failed(&self, file: usize) -> Vec<Range<u64>> {
        self.lanes(file).flat_map(AnyLane::failed).collect()
    }

    /// Returns the ranges that claims of a file cover and that have not been hashed yet, joined where they
    /// touch.
    #[must_use]
    pub fn unseen(&self, file: usize) -> Vec<Range<u64>> {
        merged(self.lanes(file).flat_map(AnyLane::missing).collect())
    }

    /// Returns whether the bytes are used only after all claims are checked: see
    /// [`deferred`](Self::deferred).
    pub(crate) const fn is_deferred(&self) -> bool {
        self.is_deferred
    }

    /// Returns whether a digest of a file takes bytes only in order.
    pub(crate) fn is_in_order(&self, file: usize) -> bool {
        self.lanes(file).any(AnyLane::is_in_order)
    }

    /// Returns whether a file has already been checked in full, so that none of its bytes must be hashed.
    #[must_use]
    pub fn is_checked(&self, file: usize) -> bool {
        let (claims, file) = self.locate_file(file);
        claims.checked.contains(&file)
    }

    /// Returns whether claims of a file cover every byte of a range.
    #[must_use]
    pub fn covers(&self, file: usize, range: &Range<u64>) -> bool {
        let lanes = self.lanes(file);
        let mut at = range.start;
        for covered in merged(lanes.flat_map(|lane| lane.covered(range)).collect()) {
            if covered.start <= at {
                at = at.max(covered.end);
            }
        }
        at >= range.end
    }

    /// Returns the ranges of the claims of a file that overlap `range`, each with the name of its kind of
    /// digest.
    #[must_use]
    pub fn covering(&self, file: usize, range: &Range<u64>) -> Vec<(Range<u64>, &'static str)> {
        let lanes = self.lanes(file);
        lanes.flat_map(|lane| lane.covered(range).into_iter().map(|covered| (covered, lane.name()))).collect()
    }

    /// Returns the smallest range of a file that contains all bytes that claims cover and that have not been
    /// hashed yet.
    pub(crate) fn hull(&self, file: usize) -> Option<Range<u64>> {
        let missing = || self.lanes(file).flat_map(|lane| lane.missing());
        Some(missing().map(|range| range.start).min()?..missing().map(|range| range.end).max()?)
    }

    /// Reads the missing bytes of the claimed ranges of one file, and checks that all claims hold. This is
    /// the counterpart of [`finish`](Self::finish) for the claims of a single read.
    ///
    /// # Errors
    /// The first claim that does not hold; [`Error::Io`] if bytes cannot be read.
    pub async fn complete<S: Fetch, F>(&self, file: usize, source: &S) -> Result<(), Error<F>>
    where
        F: From<CommonFault> + 'static,
    {
        loop {
            if let Some(failure) = self.failure() {
                return Err(failure.typed());
            }
            let missing = self.missing();
            if missing.is_empty() {
                return Ok(());
            }
            for (_, range) in missing.into_iter().filter(|(number, _)| *number == file) {
                let (at, len) = (range.start, range.end.saturating_sub(range.start));
                let bytes = source.fetch(range).await.map_err(|source| Error::Io { at, len, source })?;
                self.hash_bytes(file, at, &bytes, true);
            }
        }
    }

    /// Returns the ranges that claims cover and that have not been hashed yet, each with the number of its
    /// file, in pieces of at most [`PIECE`].
    pub(crate) fn missing(&self) -> Vec<(usize, Range<u64>)> {
        let mut missing = Vec::new();
        for (&file, lanes) in &self.files {
            for range in merged(lanes.iter().flat_map(|lane| lane.missing()).collect()) {
                let mut at = range.start;
                while at < range.end {
                    let end = range.end.min(at.saturating_add(PIECE));
                    missing.push((file, at..end));
                    at = end;
                }
            }
        }
        for Member { first_file, claims, .. } in &self.members {
            let of_member = claims.missing().into_iter();
            missing.extend(of_member.map(|(file, range)| (first_file.saturating_add(file), range)));
        }
        missing
    }
}

/// The error of [`Claims::finish`].
#[derive(thiserror::Error)]
pub enum ClaimError {
    /// The bytes do not match a digest in the file.
    #[error(transparent)]
    Damaged(AnyError),
    /// The claims could not be checked for another reason.
    #[error(transparent)]
    Other(#[from] AnyError),
}

tensor_core::debug_as_sentence!(ClaimError);

/// Adds the claims of one file.
#[derive(Debug)]
pub struct FileClaims<'a> {
    claims: &'a mut Claims,
    number: usize,
    part: Option<Part>,
}

impl FileClaims<'_> {
    /// Adds claims to check. However many claims cover a byte, it is hashed at most `times` times; returns
    /// the claims that are therefore not checked. `failed` makes the error of a claim that fails from the
    /// claim and the digest found.
    pub fn add<K: DigestKind, W: Copy + Send + Sync + 'static>(
        &mut self,
        mut claims: Vec<Claim<K::Digest, W>>,
        times: usize,
        failed: impl Fn(&Claim<K::Digest, W>, K::Digest) -> AnyError + Clone + Send + Sync + 'static,
    ) -> Vec<Claim<K::Digest, W>> {
        // Sorting allocates memory, and there can be millions of claims.
        if !claims.is_sorted_by_key(|claim| claim.extent) {
            claims.sort_by_key(|claim| claim.extent);
        }
        claims.dedup_by(|a, b| a.extent == b.extent && a.expected == b.expected);
        for _ in 0..times {
            if claims.is_empty() {
                break;
            }
            let mut end = 0;
            let mut rest = Vec::new();
            claims.retain(|claim| {
                let fits = claim.extent.offset() >= end;
                if fits {
                    end = claim.extent.end();
                } else {
                    rest.push(*claim);
                }
                fits
            });
            let lane = std::mem::replace(&mut claims, rest);
            let (failed, part) = (failed.clone(), self.part.clone());
            let failed = move |claim: &_, found| match &part {
                Some(part) => failed(claim, found).in_file(part),
                None => failed(claim, found),
            };
            let lane = Checked::<K, W, _>::new(lane, failed);
            if lane.failure().is_some() {
                self.claims.has_failed.store(true, Ordering::Release);
            }
            self.claims.files.entry(self.number).or_default().push(Box::new(lane));
        }
        claims
    }

    /// Records that the whole file has already been checked, because it was read in full when it was opened.
    pub fn note_checked(&mut self) {
        self.claims.checked.insert(self.number);
    }

    /// Returns whether a claim over `covers` bytes is worth checking if only `read` of them are read anyway:
    /// if that is at least half, or the claim is short. Otherwise adds a note that the claim is not checked;
    /// `what` names it.
    pub fn is_worth(&mut self, what: impl fmt::Display, covers: u64, read: u64) -> bool {
        const SOON: u64 = 64 << 20;
        if covers <= SOON || read >= covers / 2 {
            return true;
        }
        let file = self.part.as_ref().map_or_else(String::new, |part| format!("{part}: "));
        self.claims.notes.push(format!(
            "{file}{what} covers {covers} bytes, but only {read} are read, so it is not checked, and damage would go unnoticed; \
             verify checks it"
        ));
        false
    }
}

/// Returns the same bytes as disjoint ranges in ascending order. Ranges that touch or overlap become one.
#[must_use]
pub fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| range.start < range.end);
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// A source that passes all bytes it reads to [`Claims`].
#[derive(Debug)]
pub struct ObservedSource<'a, S> {
    source: &'a S,
    file: usize,
    claims: &'a Claims,
}

impl<'a, S: Fetch> ObservedSource<'a, S> {
    /// Wraps a source. `file` is the number of the file in a set; 0 for a single file.
    pub const fn new(source: &'a S, file: usize, claims: &'a Claims) -> Self {
        Self { source, file, claims }
    }

    /// Reads bytes without the source's own proof, if a claim proves them instead. Returns whether it did.
    /// Claims hash a byte only once, so a second read of it needs the source's own proof.
    fn read_unproved(&self, offset: u64, out: &mut [u8]) -> io::Result<bool> {
        let range = offset..offset.saturating_add(out.len() as u64);
        if !self.claims.is_deferred || !self.claims.covers(self.file, &range) {
            return Ok(false);
        }
        let Some(source) = self.source.before_proof() else { return Ok(false) };
        source.read_into(offset, out)?;
        Ok(self.claims.hash_bytes(self.file, offset, out, false))
    }
}

/// `memory` stays `None` even if the wrapped source is in memory, so that every read goes through this one.
impl<S: Fetch> Fetch for ObservedSource<'_, S> {
    fn size(&self) -> u64 {
        self.source.size()
    }

    async fn fetch_into(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if !self.read_unproved(offset, out)? {
            self.source.fetch_into(offset, out).await?;
            self.claims.observe(self.file, offset, out);
        }
        Ok(())
    }

    async fn fetch(&self, range: Range<u64>) -> io::Result<Bytes<'_>> {
        let at = range.start;
        let bytes = self.source.fetch(range).await?;
        self.claims.observe(self.file, at, &bytes);
        Ok(bytes)
    }
}
