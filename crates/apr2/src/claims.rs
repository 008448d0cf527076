//! The CRC of the footer, which covers every byte before it, as a claim for checked reads.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;

use modelfmt_core::claims::{Claim, FileClaims, WantedRange, merged};
use modelfmt_core::{
    Fetch, Part,
    author::{Crc32, Cursor, Extent},
};

use crate::error::{Error, Fault, Result, malformed};
use crate::index::{Generation, Index};
use crate::wire::Footer;

/// Reads the CRC that the footer states. It comes from the source, because the index may be older than the
/// file.
pub(crate) async fn stated(index: &Index, source: &impl Fetch) -> Result<u32> {
    let (at, end) = (index.footer_at(), source.size());
    let len = end.saturating_sub(at);
    let footer = source.fetch(at..end).await.map_err(|source| Error::Io { at, len, source })?;
    let mut c = Cursor::new(&footer, at);
    Ok(match index.generation() {
        Generation::Apr2 => Footer::decode(&mut c, end)?.crc32,
        Generation::Apr1 => c.u32("crc32")?,
    })
}

/// Adds the CRC of the file if reading these tensors reads enough of the bytes that it covers.
///
/// # Errors
/// If the footer cannot be read or is not a footer.
pub async fn claims(
    index: &Index,
    source: &impl Fetch,
    wanted: &[WantedRange],
    out: &mut FileClaims<'_>,
) -> Result<()> {
    let end = index.footer_at();
    let read = wanted.iter().filter_map(|wanted| read(index, wanted));
    // The bytes before the tensors were read when the file was opened.
    let head = 0..index.sections().data.offset();
    let read = merged(read.map(|read| read.start.min(end)..read.end.min(end)).chain([head]).collect());
    let nbytes = read.iter().map(|range| range.end.saturating_sub(range.start)).sum();
    if out.is_worth("the CRC of the file", end, nbytes) {
        let whole = Extent::new(0, end, index.file_len())
            .map_err(|fault| malformed(Part::new("footer"), end, fault))?;
        let claim = Claim { extent: whole, expected: stated(index, source).await?, what: () };
        out.add::<Crc32, ()>(vec![claim], 1, |claim: &Claim<u32, ()>, found| {
            let fault = Fault::Crc { found, stated: claim.expected };
            malformed(Part::new("footer").with_field("crc32"), claim.extent.end(), fault).into()
        });
    }
    Ok(())
}

/// Returns the bytes to read for a tensor. For a compressed tensor these are all its bytes, because the
/// length of a part is not known yet.
fn read(index: &Index, wanted: &WantedRange) -> Option<Range<u64>> {
    let stored = index.tensors.stored(wanted.position)?;
    let whole = stored.offset..stored.end();
    Some(match &wanted.range {
        Some(range) if !stored.compressed => {
            let at = |within: u64| stored.offset.saturating_add(within).min(whole.end);
            at(range.start)..at(range.end)
        }
        _ => whole,
    })
}
