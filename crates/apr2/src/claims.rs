//! The CRC of the footer, which covers every byte before it, as a claim.

use modelfmt_core::claims::{Claim, DigestKind, FileClaims, merged};
use modelfmt_core::{Cursor, Extent, Fetch, Part};

use crate::crc::Crc;
use crate::error::{Error, Fault, Result, malformed};
use crate::index::{Generation, Index};
use crate::wire::Footer;

/// CRC-32 of bytes whose pieces come in any order.
pub(crate) struct Crc32;

impl DigestKind for Crc32 {
    type Digest = u32;
    type Run = Crc;

    fn hash(_: u64, _: u64, bytes: &[u8]) -> Crc {
        Crc::of(bytes)
    }

    fn join(_: u64, first: Crc, second: Crc) -> Crc {
        first.then(second)
    }

    fn finish(_: u64, run: Crc) -> u32 {
        run.value
    }
}

/// The CRC that the footer states. It is read now: the index may be older than the file.
pub(crate) async fn stated(index: &Index, source: &impl Fetch) -> Result<u32> {
    let (at, end) = (index.sections().data.end(), source.size());
    let len = end.saturating_sub(at);
    let footer = source.fetch(at..end).await.map_err(|source| Error::Io { at, len, source })?;
    let mut c = Cursor::new(&footer, at);
    Ok(match index.generation() {
        Generation::Apr2 => Footer::decode(&mut c, end)?.crc32,
        Generation::Apr1 => c.u32("crc32")?,
    })
}

/// Adds the CRC, if enough of what it covers is read with the tensors at these positions.
pub(crate) async fn claims(
    index: &Index,
    source: &impl Fetch,
    positions: &[usize],
    out: &mut FileClaims<'_>,
) -> Result<()> {
    let end = index.sections().data.end();
    let stored = positions.iter().filter_map(|&position| index.tensors.stored(position));
    // What stands before the tensors was read when the file was opened.
    let head = 0..index.sections().data.offset();
    let read = merged(stored.map(|stored| stored.offset..stored.end().min(end)).chain([head]).collect());
    let nbytes = read.iter().map(|range| range.end - range.start).sum();
    if out.is_worth("the CRC of the file", end, nbytes) {
        let whole = Extent::new(0, end, index.file_len())
            .map_err(|fault| malformed(Part::new("footer"), end, fault))?;
        let claim = Claim { extent: whole, expected: stated(index, source).await?, what: () };
        out.add::<Crc32, ()>(vec![claim], 1, |claim: &Claim<u32, ()>, found| {
            let fault = Fault::Crc { found, stated: claim.expected };
            malformed(Part::new("footer").with_field("crc32"), claim.extent.end(), fault).erase()
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn runs_make_the_crc_however_they_are_joined(
            bytes in proptest::collection::vec(any::<u8>(), 0..2000),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..10),
            order in proptest::collection::vec(0usize..100, 1..12),
        ) {
            let total = bytes.len() as u64;
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|c| Crc32::hash(total, c[0] as u64, &bytes[c[0]..c[1]]));
            let mut runs: Vec<Crc> = pieces.collect();
            for pick in order.iter().cycle() {
                if runs.len() < 2 {
                    break;
                }
                let at = pick % (runs.len() - 1);
                let second = runs.remove(at + 1);
                runs[at] = Crc32::join(total, runs[at], second);
            }
            let crc = runs.first().copied().unwrap_or_default();
            prop_assert_eq!(Crc32::finish(total, crc), crc32fast::hash(&bytes));
        }
    }
}
