//! Plans requests for the pieces that are missing or wrong.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use blake3_tree::{Differences, Different, GROUP, Page};
use modelfmt_core::Source as _;

use super::context::Context;
use super::error::{FetchError, Result};
use super::local::{Local, Tree};
use super::outboard::Outboard;

/// The maximum gap in bytes between two wrong pieces that are fetched in one request.
pub(super) const GAP: u64 = 64 << 10;

/// A range for one request.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) range: Range<u64>,
    /// The page that checks its groups. Without a page, bytes are taken as they arrive.
    pub(super) page: Option<Arc<Page>>,
    /// The numbers of servers that sent wrong bytes for it.
    pub(super) not: Vec<usize>,
}

/// Returns the length of requests for a file of this size, so that there are enough of them for all
/// connections.
pub(super) fn request_len(cx: &Context<'_>, size: u64) -> u64 {
    let most = (cx.store.piece() as u64).max(GROUP);
    let shares = size / u64::from(cx.store.options().requests_in_flight).max(1);
    let len = shares.max(1 << 20).min(most);
    (len - len % GROUP).max(GROUP)
}

/// Joins ranges, which must be disjoint and ascending, over gaps of up to `gap` bytes.
fn joined(ranges: &[Range<u64>], gap: u64) -> Vec<Range<u64>> {
    let mut wide: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match wide.last_mut() {
            Some(last) if range.start.saturating_sub(last.end) <= gap => last.end = range.end,
            _ => wide.push(range.clone()),
        }
    }
    wide
}

/// Returns the jobs for the ranges of a page, joined over gaps.
fn jobs(ranges: &[Range<u64>], page: &Arc<Page>, len: u64, gap: u64) -> Vec<Job> {
    let mut jobs = Vec::new();
    for range in joined(ranges, gap) {
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min(at.saturating_add(len));
            jobs.push(Job { range: at..end, page: Some(Arc::clone(page)), not: Vec::new() });
            at = end;
        }
    }
    jobs
}

/// The source of jobs.
pub(super) enum Plan<'a> {
    /// A list of ranges.
    Listed(Listed),
    /// A comparison of trees.
    Compared(Box<Compared<'a>>),
}

impl Plan<'_> {
    /// Returns the next jobs; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Job>>> {
        match self {
            Self::Listed(listed) => Ok(listed.next()),
            Self::Compared(compared) => compared.next().await,
        }
    }
}

/// Ranges from which a few jobs are made at a time, because a server may claim any length for a file.
pub(super) struct Listed {
    ranges: VecDeque<Range<u64>>,
    /// The length of a request.
    len: u64,
}

impl Listed {
    /// Takes ranges, which must be disjoint and ascending, for requests of this length.
    pub(super) fn new(ranges: &[Range<u64>], len: u64, gap: u64) -> Self {
        Self { ranges: joined(ranges, gap).into(), len: len.max(1) }
    }

    fn next(&mut self) -> Option<Vec<Job>> {
        const AT_ONCE: usize = 64;
        let mut jobs = Vec::new();
        while jobs.len() < AT_ONCE
            && let Some(range) = self.ranges.front_mut()
        {
            let end = range.end.min(range.start.saturating_add(self.len));
            jobs.push(Job { range: range.start..end, page: None, not: Vec::new() });
            range.start = end;
            if range.is_empty() {
                self.ranges.pop_front();
            }
        }
        (!jobs.is_empty()).then_some(jobs)
    }
}

/// Compares the tree of a local file with the tree that the outboard proves.
pub(super) struct Compared<'a> {
    pub(super) cx: &'a Context<'a>,
    pub(super) differences: Differences,
    /// The tree of the local file, if there is one.
    pub(super) tree: Option<&'a Tree>,
    pub(super) outboard: &'a Outboard,
    /// The path and the file, if a file is repaired. Its wrong groups are counted.
    pub(super) damaged: Option<(&'a Path, &'a File)>,
    pub(super) len: u64,
    pub(super) counts: &'a Counts,
}

/// Counts of what the comparison has found.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// The number of bytes that are requested.
    pub(super) asked: Cell<u64>,
    /// The number of groups that exist and are wrong.
    pub(super) bad: Cell<u64>,
}

impl Compared<'_> {
    async fn next(&mut self) -> Result<Option<Vec<Job>>> {
        let Some(found) = differing(self.cx, &mut self.differences, self.tree, self.outboard).await? else {
            return Ok(None);
        };
        if let Some((path, file)) = self.damaged {
            let bad = present(file, &found.ranges).map_err(FetchError::local(path))?;
            self.counts.bad.set(self.counts.bad.get().saturating_add(bad));
        }
        // For an unfinished file, bytes that have arrived are not fetched again.
        let gap = if self.damaged.is_some() { GAP } else { 0 };
        let jobs = jobs(&found.ranges, &found.page, self.len, gap);
        let asked = jobs.iter().map(|job| job.range.end - job.range.start).sum::<u64>();
        self.counts.asked.set(self.counts.asked.get().saturating_add(asked));
        Ok(Some(jobs))
    }
}

/// Returns the differing groups of the next part.
async fn differing(
    cx: &Context<'_>,
    differences: &mut Differences,
    tree: Option<&Tree>,
    outboard: &Outboard,
) -> Result<Option<Different>> {
    while let Some(need) = differences.need() {
        let theirs = outboard.read(cx, &need).await?;
        let ours = tree.map(|tree| tree.parents(&need)).transpose();
        let ours = ours.map_err(FetchError::local(Path::new("a temporary file")))?;
        match differences.feed(&theirs, ours.as_deref()) {
            Ok(None) => {}
            Ok(found) => return Ok(found),
            Err(mismatch) => outboard.refuse(cx, mismatch).await?,
        }
    }
    Ok(None)
}

/// Checks whether any part of a file is correct.
pub(super) async fn has_right(
    cx: &Context<'_>,
    mut differences: Differences,
    tree: &Tree,
    outboard: &Outboard,
    size: u64,
) -> Result<bool> {
    let mut at = 0;
    while let Some(found) = differing(cx, &mut differences, Some(tree), outboard).await? {
        for range in found.ranges {
            if range.start != at {
                return Ok(true);
            }
            at = range.end;
        }
    }
    Ok(at != size)
}

/// Returns how many groups in these ranges exist at all: they are neither beyond the end of the file nor
/// holes.
fn present(file: &File, ranges: &[Range<u64>]) -> std::io::Result<u64> {
    let real = file.metadata()?.len();
    let source = Local::new(file, real)?;
    let mut group = vec![0; usize::try_from(GROUP).unwrap_or(0)];
    let mut present = 0;
    for range in ranges {
        let mut at = range.start;
        while at < range.end.min(real) {
            let end = range.end.min(real).min(at.saturating_add(GROUP));
            let bytes = group.get_mut(..usize::try_from(end - at).unwrap_or(0)).unwrap_or_default();
            source.read_into(at, bytes)?;
            present += u64::from(bytes.iter().any(|byte| *byte != 0));
            at = end;
        }
    }
    Ok(present)
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "lists of ranges are compared")]
mod tests {
    use super::*;

    #[test]
    fn pieces_that_are_near_are_one_request() {
        let listed = |ranges: &[Range<u64>], len, gap| {
            let mut listed = Listed::new(ranges, len, gap);
            std::iter::from_fn(|| listed.next()).flatten().map(|job| job.range).collect::<Vec<_>>()
        };
        let far = 10 * GAP;
        assert_eq!(listed(&[0..10, 20..30, far..far + 5], 1 << 20, GAP), [0..30, far..far + 5]);
        assert_eq!(listed(&[0..10, 20..30], 1 << 20, 0), [0..10, 20..30]);
        assert_eq!(listed(&[0..25], 10, GAP), [0..10, 10..20, 20..25]);
        assert!(listed(&[], 10, GAP).is_empty());
        // For ranges of any length, a few jobs are made at a time.
        let mut endless = Listed::new(&[0..u64::MAX], 1, GAP);
        assert_eq!(endless.next().map(|jobs| jobs.len()), Some(64));
    }
}
