//! Compares the files that were signed with the files that exist.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use crate::error::Fault;
use crate::hash::{Hashed, Job};
use crate::names::covers;
use crate::signed::Pages;
use crate::statement::{Resource, Statement};
use crate::walk::Found;

/// A signed file: a digest of the whole file, or one for each range.
#[derive(Debug, Default)]
pub(crate) struct SignedFile<'a> {
    /// The digest of the whole file, if it was hashed whole.
    whole: Option<&'a [u8]>,
    /// The digests of ranges, by the offset of each range.
    ranges: BTreeMap<u64, (u64, &'a [u8])>,
}

/// The files of a statement by their names.
pub(crate) type SignedFiles<'a> = BTreeMap<&'a str, SignedFile<'a>>;

/// Returns the files that a statement lists. Ranges must cover each file without gaps.
pub(crate) fn signed(statement: &Statement) -> Result<SignedFiles<'_>, Fault> {
    let mut files = SignedFiles::new();
    for resource in &statement.resources {
        let Some(shard_size) = statement.shard_size else {
            files.entry(&resource.name).or_default().whole = Some(&resource.digest);
            continue;
        };
        let bad = || Fault::Shards(resource.name.clone());
        let (name, range) = range_of(&resource.name).ok_or_else(bad)?;
        let is_range = range.start < range.end && range.start % shard_size == 0;
        if !is_range
            || range.end - range.start > shard_size
            || crate::names::fault(name).is_some() && name != "."
        {
            return Err(bad());
        }
        let ranges = &mut files.entry(name).or_default().ranges;
        if ranges.insert(range.start, (range.end, &resource.digest)).is_some() {
            return Err(bad());
        }
    }
    for (name, file) in &files {
        let mut end = 0;
        for (&start, &(next, _)) in &file.ranges {
            if start != end {
                return Err(Fault::Shards((*name).to_owned()));
            }
            end = next;
        }
    }
    Ok(files)
}

/// Splits `path:start:end`. The path may contain colons itself.
fn range_of(name: &str) -> Option<(&str, Range<u64>)> {
    let (rest, end) = name.rsplit_once(':')?;
    let (path, start) = rest.rsplit_once(':')?;
    Some((path, start.parse().ok()?..end.parse().ok()?))
}

/// The files to hash, and the differences that show without hashing.
#[derive(Debug, Default)]
pub(crate) struct Comparison<'a> {
    pub(crate) jobs: Vec<Job<'a>>,
    /// The expected digest of each job.
    pub(crate) expected: Vec<&'a [u8]>,
    pub(crate) missing: Vec<String>,
    pub(crate) extra: Vec<String>,
    /// Empty files that a statement with ranges says nothing about.
    pub(crate) empty: Vec<String>,
    /// Files whose length differs from the signed one.
    pub(crate) changed: Vec<String>,
}

/// Compares files by name. Both lists are sorted.
pub(crate) fn compare<'a>(signed: &SignedFiles<'a>, found: &'a [Found], in_ranges: bool) -> Comparison<'a> {
    let mut out = Comparison::default();
    let (mut signed, mut found) = (signed.iter().peekable(), found.iter().peekable());
    loop {
        let order = match (signed.peek(), found.peek()) {
            (None, None) => return out,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((name, _)), Some(file)) => (**name).cmp(&file.name),
        };
        match order {
            Ordering::Less => out.missing.extend(signed.next().map(|(name, _)| (*name).to_owned())),
            Ordering::Greater => {
                // An empty file has no ranges, so the statement does not show whether it existed when the
                // others were signed.
                let is_unknown = |file: &&Found| in_ranges && file.stamp.len == 0;
                let list = if found.peek().is_some_and(is_unknown) { &mut out.empty } else { &mut out.extra };
                list.extend(found.next().map(|file| file.name.clone()));
            }
            Ordering::Equal => {
                if let (Some((_, signed)), Some(file)) = (signed.next(), found.next()) {
                    out.file(signed, file);
                }
            }
        }
    }
}

impl<'a> Comparison<'a> {
    fn file(&mut self, signed: &SignedFile<'a>, file: &'a Found) {
        if let Some(digest) = signed.whole {
            self.jobs.push(Job { file, range: None });
            self.expected.push(digest);
            return;
        }
        let len = signed.ranges.last_key_value().map_or(0, |(_, (end, _))| *end);
        if len != file.stamp.len {
            self.changed.push(file.name.clone());
            return;
        }
        for (&start, &(end, digest)) in &signed.ranges {
            self.jobs.push(Job { file, range: Some(start..end) });
            self.expected.push(digest);
        }
    }

    /// Returns the page digests that were recorded for each file.
    pub(crate) fn pages(&self, hashed: Vec<Hashed>) -> Pages {
        let mut pages = Pages::new();
        for (job, hashed) in self.jobs.iter().zip(hashed) {
            let at = job.range.as_ref().map_or(0, |range| range.start);
            let page = hashed.page.map(|page| (at, page));
            pages.entry(job.file.name.clone()).or_default().extend(page);
        }
        pages
    }

    /// Adds the files whose digests are not the expected ones to `changed`.
    pub(crate) fn take(&mut self, hashed: &[Hashed]) {
        let pairs = self.jobs.iter().zip(&self.expected).zip(hashed);
        let differing = pairs.filter(|((_, expected), hashed)| **expected != hashed.digest.as_slice());
        let names: Vec<_> = differing.map(|((job, _), _)| job.file.name.clone()).collect();
        self.changed.extend(names);
        self.changed.sort_unstable();
        self.changed.dedup();
    }
}

/// Returns git's files, except those that the statement lists.
pub(crate) fn unlisted_defaults(resources: &[Resource]) -> impl Iterator<Item = String> {
    let listed: HashSet<&str> = crate::names::DEFAULT_IGNORED
        .into_iter()
        .filter(|path| resources.iter().any(|resource| covers(path, &resource.name)))
        .collect();
    crate::names::DEFAULT_IGNORED.into_iter().filter(move |path| !listed.contains(path)).map(str::to_owned)
}
