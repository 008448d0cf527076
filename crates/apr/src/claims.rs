//! The CRC of the footer, which covers every byte before it, as a claim for checked reads.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::claims::{Claim, FileClaims, WantedRange, merged};
use modelfmt_core::{
    Fetch, Part,
    author::{Crc, Crc32, Cursor, Extent},
};

use crate::error::{Error, Fault, Result, malformed};
use crate::index::Index;

/// Reads the CRC that the footer states. It comes from the source, because the index may be older than the
/// file.
pub(crate) async fn stated(footer: Extent, source: &impl Fetch) -> Result<u32> {
    let (at, len) = (footer.offset(), footer.len());
    let bytes = source.fetch(footer.range()).await.map_err(|source| Error::Io { at, len, source })?;
    Ok(Cursor::new(&bytes, at).u32("crc32")?)
}

/// Returns the error for a CRC that does not match the bytes before `footer`.
pub(crate) fn differs(footer: Extent, found: u32, stated: u32) -> Error {
    let part = Part::new("footer").with_field("crc32");
    malformed(part, footer.offset(), Fault::Crc { found, stated })
}

/// Checks the decompressed content of a compressed file against the CRC in its footer, if it has one.
pub(crate) fn check_image(index: &Index) -> Result<Option<Crc>> {
    let (Some(image), Some(footer)) = (&index.image, index.sections().footer) else { return Ok(None) };
    let footer_at = usize::try_from(footer.offset()).unwrap_or(usize::MAX);
    let (before, bytes) = image.bytes().split_at_checked(footer_at).unwrap_or_default();
    let (found, stated) = (Crc::of(before), Cursor::new(bytes, footer.offset()).u32("crc32")?);
    if found.value == stated { Ok(Some(found)) } else { Err(differs(footer, found.value, stated)) }
}

/// Adds the CRC of the file if reading these tensors reads enough of the bytes that it covers.
pub(crate) async fn claims(
    index: &Index,
    source: &impl Fetch,
    wanted: &[WantedRange],
    out: &mut FileClaims<'_>,
) -> Result<()> {
    if index.image.is_some() {
        // The decompressed content is in memory, so its CRC is checked now.
        if check_image(index)?.is_some() {
            out.note_checked();
        }
        return Ok(());
    }
    let Some(footer) = index.sections().footer else { return Ok(()) };
    let end = footer.offset();
    let range = |wanted: &WantedRange| index.tensors().extent(wanted.position, index.file_len());
    // The bytes before the tensors were read when the file was opened.
    let head = 0..index.sections().data.offset();
    let read = merged(wanted.iter().filter_map(range).map(Extent::range).chain([head]).collect());
    let nbytes = read.iter().map(|range| range.end.saturating_sub(range.start)).sum();
    if out.is_worth("the CRC of the file", end, nbytes) {
        let whole = Extent::new(0, end, index.file_len())
            .map_err(|fault| malformed(Part::new("footer"), end, fault))?;
        let claim = Claim { extent: whole, expected: stated(footer, source).await?, what: () };
        out.add::<Crc32, ()>(vec![claim], 1, move |claim: &Claim<u32, ()>, found| {
            differs(footer, found, claim.expected).into()
        });
    }
    Ok(())
}
