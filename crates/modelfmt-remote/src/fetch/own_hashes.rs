//! Uses the hashes that a file has for its own bytes: of chunks, tensors and pages. They are used to check a
//! complete file, and to find and prove the parts of a damaged copy.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;

use modelfmt::{AsyncModel, Execution, Format, OpenOptions};
use modelfmt_core::claims::{Claims, merged};
use modelfmt_core::source::{FileSource, read_exact_at};
use modelfmt_core::{Bytes, Fetch, FetchFiles, Source as _};
use modelfmt_write::{FileSink, Sink as _};

use super::context::Context;
use super::engine::Engine;
use super::error::{FetchError, Result};
use super::intake::Target;
use super::local::{Local, scan, scan_error};
use super::mirror::{Mirror, Mirrors};
use super::part::missing;
use super::plan::{GAP, Listed, Plan, request_len};
use super::report::{CheckedBy, Fetched};
use super::wanted::Wanted;
use crate::object::Object;

/// The maximum number of times that a file is checked again after a repair. Hashes of a whole and of its
/// parts are repaired from the inside out.
const ROUNDS: usize = 4;

/// The files of a single-file model, in the version that was opened.
struct OneFile<'a>(&'a Object);

/// The same file.
struct Shared<'a>(&'a Object);

impl Fetch for Shared<'_> {
    fn size(&self) -> u64 {
        self.0.size()
    }

    async fn fetch(&self, range: Range<u64>) -> io::Result<Bytes<'_>> {
        self.0.fetch(range).await
    }
}

impl<'a> FetchFiles for OneFile<'a> {
    type File = Shared<'a>;

    async fn fetch_file(&self, path: &str) -> io::Result<Shared<'a>> {
        if path != self.0.location().file_name() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Shared(self.0))
    }
}

/// Checks a complete file by its own hashes. Returns whether it has any, or why it is wrong. A file that is
/// not a model, or that cannot be read here, has none.
pub(super) fn check(cx: &Context<'_>, path: &Path) -> Result<std::result::Result<bool, String>> {
    let claimed = OpenOptions::new().open(path).and_then(|model| {
        let all: Vec<usize> = (0..model.tensor_count()).collect();
        let claims = model.container().claims(&all);
        let failed = |error| modelfmt::Error::File { path: path.to_owned(), error };
        Ok((claims.map_err(failed)?, model))
    });
    let (claims, model) = match claimed {
        Ok((claims, _)) if claims.is_empty() => return Ok(Ok(false)),
        Ok(claimed) => claimed,
        Err(error) => {
            let Some(why) = damage(path, &error) else { return Ok(Ok(false)) };
            return Ok(Err(format!(
                "it is damaged: {why}; another URL may have it whole, and --pin b3:HEX fetches it as it is"
            )));
        }
    };
    let progress = |nbytes| match cx.count_checked(nbytes) {
        true => std::ops::ControlFlow::Continue(()),
        false => std::ops::ControlFlow::Break(()),
    };
    let work = Execution { threads: cx.options.threads, progress: Some(&progress) };
    match claims.finish(model.container(), &work) {
        Ok(_) => Ok(Ok(true)),
        Err(_) if !cx.count_checked(0) => Err(FetchError::Stopped),
        Err(error) => Ok(Err(modelfmt_core::author::with_causes(&error))),
    }
}

/// Returns why a file that should have hashes cannot be read, if the reason is that it is damaged.
fn damage(path: &Path, error: &modelfmt::Error) -> Option<String> {
    match error {
        modelfmt::Error::File { error: cause, .. } if error.is_damage() && may_have_hashes(path) => {
            Some(cause.inner().to_string())
        }
        modelfmt::Error::UnknownFormat { .. } if is_cut_archive(path).unwrap_or_default() => {
            Some("it is a zip archive whose end is missing".to_owned())
        }
        _ => None,
    }
}

/// Checks whether a file begins like an archive of arrays, but has no end. Its format is unknown then,
/// because the directory of an archive is at its end.
fn is_cut_archive(path: &Path) -> io::Result<bool> {
    /// Enough for the name of the first member.
    const FIRST: u64 = 512;
    /// The length of the end record, and of the longest comment in it.
    const END: (usize, u64) = (22, 0xFFFF);
    let source = FileSource::open(path)?;
    let len = source.len();
    let first = source.read(0..len.min(FIRST))?;
    let is_archive = first.starts_with(b"PK\x03\x04")
        && matches!(Format::from_first_bytes(&first, len), Some(Format::Npz | Format::Pytorch));
    let last = source.read(len.saturating_sub(END.0 as u64 + END.1)..len)?;
    Ok(is_archive && !last.windows(END.0).any(|end| end.starts_with(b"PK\x05\x06")))
}

/// Checks whether a file has a format whose files have hashes of their values.
fn may_have_hashes(path: &Path) -> bool {
    const HAVE: [Format; 5] = [Format::Aero, Format::Apr, Format::Apr2, Format::Npz, Format::Pytorch];
    let format = FileSource::open(path).and_then(|source| Format::detect(&source));
    format.is_ok_and(|format| format.is_some_and(|format| HAVE.contains(&format)))
}

/// Repairs a file by the hashes in it, from the first server that has the file. `None` if the file has no
/// hashes.
pub(super) async fn repair(
    cx: &Context<'_>,
    wanted: &Wanted,
    mirrors: &Mirrors,
    file: &File,
) -> Result<Option<Fetched>> {
    let mut failure = None;
    for (number, mirror) in mirrors.all.iter().enumerate() {
        let Some(model) = open(mirror).await else { continue };
        let repairing = Repairing { cx, wanted, mirrors, number, mirror, model, file };
        match repairing.run().await {
            Err(error @ (FetchError::Remote(_) | FetchError::Wrong { .. })) => {
                if mirrors.all.len() > 1 {
                    cx.note(format!("{error}; another URL is tried"));
                }
                failure.get_or_insert(error);
            }
            done => return done,
        }
    }
    failure.map_or(Ok(None), Err)
}

async fn open(mirror: &Mirror) -> Option<AsyncModel<OneFile<'_>>> {
    let name = mirror.place.file_name();
    AsyncModel::open(OneFile(&mirror.object), &name).await.ok()
}

struct Repairing<'a> {
    cx: &'a Context<'a>,
    wanted: &'a Wanted,
    mirrors: &'a Mirrors,
    number: usize,
    mirror: &'a Mirror,
    model: AsyncModel<OneFile<'a>>,
    file: &'a File,
}

/// The bytes that no hash covers, as the server has them.
struct Uncovered {
    /// The bytes, at their offsets.
    new: File,
    /// The ranges that are beyond the end of the local file.
    lacking: Vec<Range<u64>>,
    /// The ranges in which the local file has different bytes.
    differing: Vec<Range<u64>>,
    /// The number of bytes that were requested.
    asked: u64,
}

impl Uncovered {
    /// Returns the number of bytes that differ.
    fn differ(&self) -> u64 {
        self.differing.iter().map(|range| range.end - range.start).sum()
    }
}

/// The number of bytes of the file that are the same as on the server, and the number that differ. Zeros are
/// not counted, because a fetch by another program may have left them where it had not written yet.
#[derive(Clone, Copy, Debug, Default)]
struct Likeness {
    same: u64,
    other: u64,
}

impl Likeness {
    /// Adds the bytes in `ranges`.
    fn count(&mut self, theirs: &Local<'_>, ours: &Local<'_>, ranges: &[Range<u64>]) -> io::Result<()> {
        for range in ranges {
            let mut at = range.start;
            while at < range.end {
                let end = range.end.min(at.saturating_add(1 << 20));
                let (theirs, ours) = (theirs.read(at..end)?, ours.read(at..end)?);
                let pairs = || theirs.iter().zip(ours.iter()).filter(|(_, ours)| **ours != 0);
                let same = pairs().filter(|(theirs, ours)| theirs == ours).count();
                self.same = self.same.saturating_add(same as u64);
                self.other = self.other.saturating_add((pairs().count() - same) as u64);
                at = end;
            }
        }
        Ok(())
    }

    /// Refuses a file if most of it is something else: the user probably did not mean a damaged copy.
    fn check(self, path: &Path) -> Result<()> {
        if self.other <= self.same {
            return Ok(());
        }
        let why = "most of its bytes differ, so it is not a damaged copy of the file at the URL; --force fetches \
                   that in its place";
        Err(FetchError::refused(path, why))
    }
}

impl Repairing<'_> {
    async fn claims(&self) -> Option<Claims> {
        self.model.claims().await.ok().filter(|claims| !claims.is_empty())
    }

    async fn run(&self) -> Result<Option<Fetched>> {
        let Self { cx, wanted, mirror, file, .. } = *self;
        let (path, size) = (&wanted.target, mirror.size());
        let local = || FetchError::local(path);
        let Some(claims) = self.claims().await else { return Ok(None) };
        let all: Vec<_> = claims.covering(0, &(0..size)).into_iter().map(|(range, _)| range).collect();
        let covered = merged(all.clone());
        let real = file.metadata().map_err(local())?.len();
        cx.add_to_total(size);
        let first = self.wrong(&claims, &covered, size)?;
        if all.len() > 1 && all.iter().all(|range| range.is_empty() || first.contains(range)) {
            let why = "none of its bytes are right, so it is not a damaged copy of the file at the URL; --force fetches \
                       that in its place";
            return Err(FetchError::refused(path, why));
        }
        let uncovered = self.uncovered(&covered, size).await?;
        let is_other = !first.is_empty() || real != size;
        if is_other && uncovered.differ() > 0 && self.is_whole()? {
            let why = "it matches its own hashes, but it is not the file at the URL: it is another version, or one that \
                       was changed here; --force fetches that in its place";
            return Err(FetchError::refused(path, why));
        }
        let mut like = Likeness { other: real.saturating_sub(size), ..Likeness::default() };
        let wrong = inmost(&first);
        like.same = total(&covered, real).saturating_sub(total(&wrong, real));
        let (theirs, ours) =
            (Local::new(&uncovered.new, size).map_err(local())?, Local::new(file, size).map_err(local())?);
        like.count(&theirs, &ours, &missing(&covered, size)).map_err(local())?;
        let of_hashes = self.by_hashes(wrong, &covered, size, like).await?;
        file.set_len(size).map_err(local())?;
        if real > size {
            cx.note(format!(
                "{}: {} behind the end of the file at the URL were cut off",
                path.display(),
                bytes(real - size)
            ));
        }
        let replaced = self.write_uncovered(&uncovered)?;
        file.sync_all().map_err(local())?;
        let asked = of_hashes.saturating_add(uncovered.asked);
        cx.count_written(size.saturating_sub(asked))?;
        cx.count_safe(asked);
        let bad = inmost(&first).iter().filter(|range| range.start < real).count() as u64;
        let sources = self.mirrors.reports();
        Ok(Some(Fetched {
            kept: size.saturating_sub(asked),
            fetched: sources.iter().map(|source| source.bytes).sum(),
            bad: bad + u64::from(replaced && uncovered.differ() > 0),
            sources,
            checked_by: Some(CheckedBy::Own),
            ..wanted.report(size)
        }))
    }

    /// Replaces the ranges that hashes prove to be wrong, until all hashes hold. Returns the number of bytes
    /// that arrived.
    async fn by_hashes(
        &self,
        mut wrong: Vec<Range<u64>>,
        covered: &[Range<u64>],
        size: u64,
        like: Likeness,
    ) -> Result<u64> {
        let (mut asked, mut like) = (0_u64, Some(like));
        for _ in 1..ROUNDS {
            if wrong.is_empty() {
                return Ok(asked);
            }
            asked = asked.saturating_add(self.replace(&wrong, size, like.take()).await?);
            let Some(claims) = self.claims().await else { return Ok(asked) };
            wrong = inmost(&self.wrong(&claims, covered, size)?);
        }
        if wrong.is_empty() {
            return Ok(asked);
        }
        let why = "its own hashes contradict each other, or the file is wrong there too";
        Err(FetchError::Wrong { url: self.mirror.name.clone().into(), why: why.into() })
    }

    /// Checks whether the present file has hashes and all of them hold.
    fn is_whole(&self) -> Result<bool> {
        Ok(matches!(check(self.cx, &self.wanted.target)?, Ok(true)))
    }

    /// Fetches the bytes that no hash covers, and compares them with the file.
    async fn uncovered(&self, covered: &[Range<u64>], size: u64) -> Result<Uncovered> {
        let local = || FetchError::local(&self.wanted.target);
        let ranges = missing(covered, size);
        let new = self.fetch_to_temporary(&ranges, size).await?;
        let real = self.file.metadata().map_err(local())?.len();
        let (theirs, ours) =
            (Local::new(&new, size).map_err(local())?, Local::new(self.file, size).map_err(local())?);
        let (mut lacking, mut differing) = (Vec::new(), Vec::new());
        for range in &ranges {
            let (here, end) = (range.start..range.end.min(real), range.start.max(real)..range.end);
            differences(&theirs, &ours, &here, &mut differing).map_err(local())?;
            if !end.is_empty() {
                lacking.push(end);
            }
        }
        let asked = ranges.iter().map(|range| range.end - range.start).sum();
        Ok(Uncovered { new, lacking, differing, asked })
    }

    /// Writes the bytes that no hash covers and that the file lacks. Bytes that differ are replaced only if
    /// the file is not whole with them; in both cases the user gets a note. Returns whether they were
    /// replaced.
    fn write_uncovered(&self, uncovered: &Uncovered) -> Result<bool> {
        let path = &self.wanted.target;
        let put = |ranges: &[Range<u64>]| {
            let mut ranges = ranges.iter();
            ranges
                .try_for_each(|range| copy(&uncovered.new, self.file, range))
                .map_err(FetchError::local(path))
        };
        put(&uncovered.lacking)?;
        let Some(first) = uncovered.differing.first() else { return Ok(true) };
        let differ = format!(
            "{}: {} that no hash covers differed from the file at the URL, the first at byte {}",
            path.display(),
            bytes(uncovered.differ()),
            first.start
        );
        if self.is_whole()? {
            self.cx.note(format!(
                "{differ}; nothing proves them wrong, so they stay; --force fetches the file anew"
            ));
            return Ok(false);
        }
        put(&uncovered.differing)?;
        self.cx.note(format!("{differ}; the file was broken with them, so they were replaced"));
        Ok(true)
    }

    /// Returns the ranges of the claims that do not hold for the file.
    fn wrong(&self, claims: &Claims, covered: &[Range<u64>], size: u64) -> Result<Vec<Range<u64>>> {
        let path = &self.wanted.target;
        let source = Local::new(self.file, size).map_err(FetchError::local(path))?;
        for range in covered {
            let look = |at: u64, bytes: &[u8]| claims.observe(0, at, bytes);
            scan(self.cx, &source, range.clone(), look, |()| ()).map_err(|error| scan_error(path, error))?;
        }
        // A claim may require its bytes in order, or need some of them later.
        for _ in 0..64 {
            let unseen = claims.unseen(0);
            if unseen.is_empty() {
                break;
            }
            self.observe(claims, &source, &unseen)?;
        }
        Ok(claims.failed(0))
    }

    /// Passes ranges of a file to claims, in order.
    fn observe(&self, claims: &Claims, source: &Local<'_>, ranges: &[Range<u64>]) -> Result<()> {
        let mut buffer = vec![0; 1 << 20];
        for range in ranges {
            let mut at = range.start;
            while at < range.end {
                let len = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(buffer.len());
                let bytes = buffer.get_mut(..len).unwrap_or_default();
                source.read_into(at, bytes).map_err(FetchError::local(&self.wanted.target))?;
                claims.observe(0, at, bytes);
                at += len as u64;
            }
        }
        Ok(())
    }

    /// Fetches ranges to a temporary file, and writes those whose claims hold. Returns the number of bytes
    /// that arrived. Before the first write, `like` has the counts for the rest of the file, which show
    /// whether the file is a damaged copy.
    async fn replace(&self, ranges: &[Range<u64>], size: u64, like: Option<Likeness>) -> Result<u64> {
        let path = &self.wanted.target;
        let local = || FetchError::local(path);
        let new = self.fetch_to_temporary(ranges, size).await?;
        let Some(claims) = self.claims().await else { return Ok(0) };
        let source = Local::new(&new, size).map_err(local())?;
        if let Some(mut like) = like {
            let ours = Local::new(self.file, size).map_err(local())?;
            like.count(&source, &ours, ranges).map_err(local())?;
            like.check(path)?;
        }
        self.observe(&claims, &source, ranges)?;
        let failed = claims.failed(0);
        let (good, wrong): (Vec<_>, Vec<_>) =
            ranges.iter().cloned().partition(|range| !has_within(&failed, range));
        for range in &good {
            copy(&new, self.file, range).map_err(local())?;
        }
        if let Some(first) = wrong.first() {
            self.mirror.refused.set(self.mirror.refused.get().saturating_add(wrong.len() as u64));
            let why = format!(
                "{} of the damaged parts do not match the file's own hashes at this URL either, the first at byte {}",
                wrong.len(),
                first.start
            );
            return Err(FetchError::Wrong { url: self.mirror.name.clone().into(), why: why.into() });
        }
        Ok(ranges.iter().map(|range| range.end - range.start).sum())
    }

    /// Fetches ranges into a temporary file, at the same offsets.
    async fn fetch_to_temporary(&self, ranges: &[Range<u64>], size: u64) -> Result<File> {
        let Self { cx, wanted, .. } = *self;
        let path = &wanted.target;
        let folder = modelfmt_core::source::folder_of(path);
        let new = tempfile::tempfile_in(folder).map_err(FetchError::local(path))?;
        let target = Target::temporary(cx, path, &new)?;
        let engine = Engine::new(cx, &self.mirrors.all, vec![self.number], &target, size);
        let listed = Listed::new(ranges, request_len(cx, size), GAP);
        let lost = engine.run(Plan::Listed(listed)).await?;
        match lost.error {
            Some(error) => Err(error.into()),
            None => Ok(new),
        }
    }
}

/// Returns the ranges that contain no other range.
fn inmost(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = ranges.to_vec();
    // If ranges have the same start, the longest comes first, so that a range is followed by the ranges
    // within it.
    ranges.sort_unstable_by_key(|range| (range.start, std::cmp::Reverse(range.end)));
    ranges.dedup();
    let mut inmost: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        while inmost.last().is_some_and(|last| range.start >= last.start && range.end <= last.end) {
            inmost.pop();
        }
        inmost.push(range);
    }
    merged_apart(inmost)
}

/// Merges ranges that overlap. Ranges that only touch stay separate, because each is checked by itself.
fn merged_apart(ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let mut apart: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match apart.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => apart.push(range),
        }
    }
    apart
}

/// Checks whether one of `ranges` is within `outer`, which may be several of them, merged.
fn has_within(ranges: &[Range<u64>], outer: &Range<u64>) -> bool {
    ranges.iter().any(|range| range.start >= outer.start && range.end <= outer.end)
}

/// Adds the ranges within `range` in which two files differ. Ranges that are close together are merged.
fn differences(
    one: &Local<'_>,
    other: &Local<'_>,
    range: &Range<u64>,
    found: &mut Vec<Range<u64>>,
) -> io::Result<()> {
    const MAX: usize = 1 << 16;
    let mut at = range.start;
    while at < range.end {
        let end = range.end.min(at.saturating_add(1 << 20));
        let (theirs, ours) = (one.read(at..end)?, other.read(at..end)?);
        for (place, _) in (at..end).zip(theirs.iter().zip(ours.iter())).filter(|(_, (a, b))| a != b) {
            let is_full = found.len() >= MAX;
            match found.last_mut() {
                Some(last) if last.end == place || (is_full && last.start >= range.start) => {
                    last.end = place + 1;
                }
                _ => found.push(place..place + 1),
            }
        }
        at = end;
    }
    Ok(())
}

/// Returns the number of bytes before `end` that are in these ranges, which must not overlap.
fn total(ranges: &[Range<u64>], end: u64) -> u64 {
    ranges.iter().map(|range| range.end.min(end).saturating_sub(range.start)).sum()
}

/// Formats a number of bytes in words.
fn bytes(number: u64) -> String {
    if number == 1 { "1 byte".to_owned() } else { format!("{number} bytes") }
}

fn copy(from: &File, to: &File, range: &Range<u64>) -> io::Result<()> {
    let sink = FileSink(to.try_clone()?);
    let mut buffer = vec![0; 1 << 20];
    let mut at = range.start;
    while at < range.end {
        let len = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(buffer.len());
        let bytes = buffer.get_mut(..len).unwrap_or_default();
        read_exact_at(from, at, bytes)?;
        sink.write_at(at, bytes)?;
        at += len as u64;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "lists of ranges are compared")]
mod tests {
    use super::*;

    #[test]
    fn parts_are_repaired_before_the_whole() {
        assert_eq!(inmost(&[0..100, 10..20, 30..40, 200..300]), [10..20, 30..40, 200..300]);
        assert_eq!(inmost(&[0..100, 0..10, 10..20]), [0..10, 10..20]);
        assert_eq!(inmost(&[0..10, 5..20]), [0..20]);
        assert!(inmost(&[]).is_empty());
    }

    #[test]
    fn what_was_merged_is_wrong_if_any_of_it_is() {
        let merged = inmost(&[0..20, 10..30]);
        assert_eq!(merged, [0..30]);
        for failed in [0..20, 10..30, 0..30] {
            assert!(has_within(&[failed], &merged[0]));
        }
        // The hash of more than was fetched says nothing about it.
        assert!(!has_within(&[0..31, 30..40], &merged[0]));
    }
}
