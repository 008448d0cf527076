//! The control hash (IHSH): BLAKE3 over the header, the TOC and the string table.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::claims::FileClaims;
use modelfmt_core::ledger::{Blake3, Ledger, Spans};
use modelfmt_core::{Execution, Fetch, Part};

use crate::chunks::{Chunk, entry_at};
use crate::error::{Error, Fault, Hex, Result};
use crate::index::Index;
use crate::msgpack::{self, Walker, put_array, put_digest, put_map, put_str, put_uint};
use crate::wire::{FourCC, Header, TocEntry};

/// The content of an IHSH chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ControlHash {
    /// Start and end of each range, in order.
    pub(crate) ranges: Vec<(u64, u64)>,
    pub(crate) digest: [u8; 32],
}

/// The only algorithm that writers of IHSH use.
const ALGO: &str = "blake3-256";

impl ControlHash {
    pub(crate) fn parse(content: &[u8]) -> Result<Self, Fault> {
        let (mut algo, mut ranges, mut digest) = (None, None, None);
        let rest = msgpack::fields(content, |key, walker| {
            Ok(Some(match key {
                b"algo" => algo.replace(walker.str()?).is_some(),
                b"covered_ranges" => ranges.replace(pair_list(walker)?).is_some(),
                b"digest" => digest.replace(walker.bin()?).is_some(),
                _ => return Ok(None),
            }))
        })?;
        // The published writer reserves 256 bytes for the value and fills the unused ones with zeros
        // (docs/formats/aero.md#control-hash).
        if rest.iter().any(|&byte| byte != 0) {
            return Err(msgpack::TRAILING.into());
        }
        let algo = algo.ok_or(Fault::MissingKey("algo"))?;
        if algo != ALGO {
            return Err(Fault::Control(format!("algo is {algo:?}; only {ALGO:?} is known")));
        }
        let digest = digest.ok_or(Fault::MissingKey("digest"))?;
        let digest = digest.try_into().map_err(|_| {
            Fault::Control(format!("digest has {} bytes, and BLAKE3-256 has 32", digest.len()))
        })?;
        Ok(Self { ranges: ranges.ok_or(Fault::MissingKey("covered_ranges"))?, digest })
    }

    /// Returns the number of bytes in the ranges. The ranges must be inside the file, and together they may
    /// not be longer than it: otherwise a small chunk could ask for any amount of hashing.
    pub(crate) fn check_ranges(&self, file_len: u64) -> Result<u64, Fault> {
        let mut total = 0u64;
        for &(start, end) in &self.ranges {
            if start > end || end > file_len {
                let text = format!("covers bytes {start} to {end}, and the file has {file_len}");
                return Err(Fault::Control(text));
            }
            total = total.saturating_add(end.saturating_sub(start));
        }
        if total > file_len {
            return Err(Fault::Control(format!("covers {total} bytes, and the file has {file_len}")));
        }
        Ok(total)
    }

    /// Checks that the ranges cover each of these regions completely. Otherwise a digest that leaves out the
    /// header, the TOC or the names would pass as a check of them (docs/formats/aero.md#control-hash).
    pub(crate) fn check_regions(
        &self,
        regions: impl IntoIterator<Item = (&'static str, u64, u64)>,
    ) -> Result<(), Fault> {
        let mut ranges = self.ranges.clone();
        ranges.sort_unstable();
        for (what, start, end) in regions {
            let mut reach = start;
            for &(from, to) in &ranges {
                if from <= reach {
                    reach = reach.max(to);
                }
            }
            if reach < end {
                return Err(Fault::Control(format!("does not cover the {what}, bytes {start} to {end}")));
            }
        }
        Ok(())
    }

    pub(crate) fn encode(payloads_start: u64, digest: &[u8; 32]) -> Vec<u8> {
        let mut out = Vec::new();
        put_map(&mut out, 3);
        put_str(&mut out, "algo");
        put_str(&mut out, ALGO);
        put_str(&mut out, "covered_ranges");
        put_array(&mut out, 1);
        put_array(&mut out, 2);
        put_uint(&mut out, 0);
        put_uint(&mut out, payloads_start);
        put_str(&mut out, "digest");
        put_digest(&mut out, digest);
        out
    }
}

fn pair_list(walker: &mut Walker<'_>) -> Result<Vec<(u64, u64)>, Fault> {
    let count = walker.array()?;
    let mut ranges = Vec::new();
    for _ in 0..count {
        if walker.array()? != 2 {
            return Err(Fault::Control("a range is a list of two numbers".to_owned()));
        }
        ranges.push((walker.uint()?, walker.uint()?));
    }
    Ok(ranges)
}

/// Returns the regions of the header, the TOC and the string table.
pub(crate) fn regions(index: &Index) -> [(&'static str, u64, u64); 3] {
    let header = &index.header;
    let toc = (header.toc_offset, header.toc_offset.saturating_add(header.toc_length));
    let strings = (header.strings_offset, header.strings_offset.saturating_add(header.strings_length));
    [("header", 0, Header::LEN), ("TOC", toc.0, toc.1), ("string table", strings.0, strings.1)]
}

/// Returns the content of the IHSH chunk at a position, and how many bytes it covers.
pub(crate) async fn stated(
    index: &Index,
    source: &impl Fetch,
    position: usize,
    chunk: &Chunk<'_>,
) -> Result<(ControlHash, u64)> {
    let content = index.content(source, position).await?;
    let checked = ControlHash::parse(&content).and_then(|stated| {
        let covered = stated.check_ranges(index.file_len())?;
        stated.check_regions(regions(index))?;
        Ok((stated, covered))
    });
    checked.map_err(|fault| chunk.malformed(fault))
}

/// Returns how many bytes may still be covered after these. All control hashes together may cover as many
/// bytes as the file has; otherwise many small chunks could ask for any amount of hashing.
pub(crate) fn within(left: u64, covered: u64) -> Result<u64, Fault> {
    left.checked_sub(covered).ok_or_else(|| {
        Fault::Control(format!(
            "covers {covered} bytes, and with the control hashes before it more than the file has; it is not checked"
        ))
    })
}

/// Checks the bytes against a control hash.
pub(crate) async fn check(
    index: &Index,
    source: &impl Fetch,
    stated: &ControlHash,
    work: &Execution<'_>,
) -> Result<()> {
    let (toc, entries) = (index.header.toc_offset, index.chunks().len());
    let found = digest(source, toc, entries, &stated.ranges, work).await?;
    if found == stated.digest {
        return Ok(());
    }
    let fault =
        Fault::Hash { stated: "IHSH chunk", found: Hex::new(found), expected: Hex::new(stated.digest) };
    Err(Error::Malformed { part: Part::new("header, TOC and names"), at: 0, fault })
}

/// Checks every control hash of a file whose values will be copied. After the copy, nothing else can show
/// damage in the header, the TOC or the names.
pub(crate) async fn check_all(index: &Index, source: &impl Fetch, out: &mut FileClaims<'_>) -> Result<()> {
    let mut left = index.file_len();
    for (position, chunk) in index.chunks().enumerate().filter(|(_, chunk)| chunk.fourcc == FourCC::IHSH) {
        let (stated, covered) = stated(index, source, position, &chunk).await?;
        left = within(left, covered).map_err(|fault| chunk.malformed(fault))?;
        if out.is_worth("the control hash", covered, 0) {
            check(index, source, &stated, &Execution::sequential()).await?;
        }
    }
    Ok(())
}

/// Computes BLAKE3 over ranges of a file, with the hash of every TOC entry taken as zero.
pub(crate) async fn digest(
    source: &impl Fetch,
    toc: u64,
    entries: usize,
    ranges: &[(u64, u64)],
    work: &Execution<'_>,
) -> Result<[u8; 32]> {
    const STEP: u64 = 1 << 20;
    let covered =
        ranges.iter().fold(0_u64, |sum, (start, end)| sum.saturating_add(end.saturating_sub(*start)));
    let (ledger, mut place) = (Ledger::<Blake3, 1>::new([Spans::Whole(covered)]), 0_u64);
    for &(start, end) in ranges {
        let mut at = start;
        while at < end {
            let len = STEP.min(end.saturating_sub(at));
            let io = |source| Error::Io { at, len, source };
            let bytes = source.fetch(at..at.saturating_add(len)).await;
            let mut bytes = bytes.and_then(modelfmt_core::Bytes::into_owned).map_err(io)?;
            zero_hashes(&mut bytes, at, toc, entries);
            ledger.observe(place, &bytes);
            place = place.saturating_add(len);
            at = at.saturating_add(len);
            // The bytes are counted as progress when the chunks are hashed.
            if work.advance(0).is_break() {
                return Err(Error::Cancelled);
            }
        }
    }
    let [found] = ledger.finish();
    Ok(found.first().copied().unwrap_or_default())
}

/// Zeroes the hashes of TOC entries within `bytes`, which begin at byte `at` of the file.
pub(crate) fn zero_hashes(bytes: &mut [u8], at: u64, toc: u64, entries: usize) {
    let first = at.saturating_sub(entry_at(toc, 0)) / TocEntry::LEN;
    let end = at.saturating_add(bytes.len() as u64);
    for entry in usize::try_from(first).unwrap_or(usize::MAX)..entries {
        let (from, to) =
            (entry_at(toc, entry).saturating_add(TocEntry::HASH_AT), entry_at(toc, entry.saturating_add(1)));
        if from >= end {
            break;
        }
        let from = usize::try_from(from.saturating_sub(at)).unwrap_or(usize::MAX);
        let to = usize::try_from(to.saturating_sub(at)).unwrap_or(usize::MAX).min(bytes.len());
        if let Some(hash) = bytes.get_mut(from..to) {
            hash.fill(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_read_back() {
        let bytes = ControlHash::encode(512, &[3; 32]);
        assert_eq!(ControlHash::parse(&bytes), Ok(ControlHash { ranges: vec![(0, 512)], digest: [3; 32] }));
        for len in 0..bytes.len() {
            assert!(ControlHash::parse(&bytes[..len]).is_err());
        }
    }

    #[test]
    fn hashes_are_zeroed_wherever_the_bytes_begin() {
        let (toc, entries) = (96, 5);
        let all = vec![1u8; 96 + 16 + 80 * 5 + 50];
        let mut expected = all.clone();
        for entry in 0..entries {
            expected[96 + 16 + 80 * entry + 48..][..32].fill(0);
        }
        for cut in 0..all.len() {
            let (mut front, mut back) = (all[..cut].to_vec(), all[cut..].to_vec());
            zero_hashes(&mut front, 0, toc, entries);
            zero_hashes(&mut back, cut as u64, toc, entries);
            front.extend(back);
            assert_eq!(front, expected, "{cut}");
        }
    }

    #[test]
    fn ranges_must_cover_the_regions() {
        let covers = |ranges: &[(u64, u64)]| {
            let regions = [("header", 0, 96), ("TOC", 96, 200), ("string table", 300, 300)];
            ControlHash { ranges: ranges.to_vec(), digest: [0; 32] }.check_regions(regions).is_ok()
        };
        for good in [&[(0, 200)][..], &[(0, 500)], &[(96, 200), (0, 96)], &[(50, 200), (0, 60)]] {
            assert!(covers(good), "{good:?}");
        }
        for bad in [&[][..], &[(0, 4)], &[(0, 96)], &[(1, 200)], &[(0, 96), (97, 200)], &[(0, 199)]] {
            assert!(!covers(bad), "{bad:?}");
        }
    }

    #[test]
    fn ranges_must_lie_in_the_file() {
        let of = |ranges: &[(u64, u64)]| {
            ControlHash { ranges: ranges.to_vec(), digest: [0; 32] }.check_ranges(100)
        };
        assert_eq!((of(&[(0, 100)]), of(&[]), of(&[(5, 7), (0, 3)])), (Ok(100), Ok(0), Ok(5)));
        for bad in [&[(0, 101)][..], &[(5, 4)], &[(u64::MAX, u64::MAX)], &[(0, 100), (0, 1)]] {
            assert!(of(bad).is_err());
        }
    }
}
