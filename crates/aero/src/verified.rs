//! Reading values with the hashes that cover them: a whole tensor by its own, a part of one by the pages that it touches.

use modelfmt_core::{AlignedBuf, Bytes, Extent, Fetch, Part};

use crate::chunks::Chunk;
use crate::contents::read;
use crate::error::{Error, Fault, Hex, Result};
use crate::index::{Index, Place};
use crate::pages::PageHashes;

impl Index {
    /// Bytes of a tensor, which lie `within` its shard, verified.
    pub(crate) async fn read_verified<'s, S: Fetch>(
        &self,
        source: &'s S,
        place: &Place<'_>,
        within: Extent,
    ) -> Result<Bytes<'s>> {
        let tensor = || Part::named("tensor", place.info.name);
        let at = place.chunk.offset.saturating_add(within.offset());
        let hash = place.hash.clone().map_err(|fault| Error::Malformed {
            part: tensor().with_field("hash_b3"),
            at,
            fault,
        })?;
        if let Some(expected) = hash.filter(|_| within == place.within) {
            let bytes = read_shard(source, &place.chunk, within).await?;
            let found = *blake3::hash(&bytes).as_bytes();
            if found == expected {
                return Ok(bytes);
            }
            let fault =
                Fault::Hash { stated: "hash_b3", found: Hex::new(found), expected: Hex::new(expected) };
            return Err(Error::Malformed { part: tensor(), at, fault });
        }
        match self.pages_of(source, place.shard).await? {
            Some(pages) => read_pages(source, &place.chunk, within, &pages).await,
            None => Err(Error::NoHash { name: place.info.name.to_owned() }),
        }
    }
}

/// Bytes of a shard.
pub(crate) async fn read_shard<'s, S: Fetch>(
    source: &'s S,
    shard: &Chunk<'_>,
    within: Extent,
) -> Result<Bytes<'s>> {
    let begin = shard.offset.saturating_add(within.offset());
    read(source, begin..begin.saturating_add(within.len())).await
}

/// Bytes of a shard, with every page that they touch read and hashed.
async fn read_pages<'s, S: Fetch>(
    source: &'s S,
    shard: &Chunk<'_>,
    within: Extent,
    pages: &PageHashes,
) -> Result<Bytes<'s>> {
    let first = within.offset() / pages.page_size();
    let touched =
        if within.is_empty() { first..first } else { first..within.end().div_ceil(pages.page_size()) };
    if let Some(all) = source.memory() {
        for page in touched {
            let extent = pages.extent(page, shard)?;
            check_page(shard, pages, page, range_of(all, shard, extent))?;
        }
        return Ok(Bytes::Borrowed(range_of(all, shard, within)));
    }
    let memory = |source| Error::Io { at: shard.offset, len: within.len(), source };
    let len = usize::try_from(within.len()).map_err(|_| memory(std::io::ErrorKind::OutOfMemory.into()))?;
    let mut out = AlignedBuf::zeroed(len).map_err(memory)?;
    for page in touched {
        let extent = pages.extent(page, shard)?;
        let bytes = read_shard(source, shard, extent).await?;
        check_page(shard, pages, page, &bytes)?;
        copy_overlap(&bytes, extent, &mut out, within);
    }
    Ok(Bytes::Owned(out))
}

fn check_page(shard: &Chunk<'_>, pages: &PageHashes, page: u64, bytes: &[u8]) -> Result<()> {
    let found = *blake3::hash(bytes).as_bytes();
    let expected = pages.digest(page).unwrap_or_default();
    if found == expected {
        return Ok(());
    }
    Err(Error::Malformed {
        part: Part::entry("page", page).with_name(shard.name),
        at: shard.offset.saturating_add(page.saturating_mul(pages.page_size())),
        fault: Fault::Hash { stated: "PHSH chunk", found: Hex::new(found), expected: Hex::new(expected) },
    })
}

/// A range of a shard in a source that is in memory.
fn range_of<'a>(all: &'a [u8], shard: &Chunk<'_>, within: Extent) -> &'a [u8] {
    let start = usize::try_from(shard.offset.saturating_add(within.offset())).unwrap_or(usize::MAX);
    let len = usize::try_from(within.len()).unwrap_or(usize::MAX);
    all.get(start..).and_then(|rest| rest.get(..len)).unwrap_or_default()
}

/// Copies what a page and the wanted bytes share.
fn copy_overlap(page: &[u8], page_at: Extent, out: &mut [u8], wanted: Extent) {
    let (from, to) = (page_at.offset().max(wanted.offset()), page_at.end().min(wanted.end()));
    let slice = |origin: u64| {
        let from = usize::try_from(from.saturating_sub(origin)).ok()?;
        Some(from..usize::try_from(to.saturating_sub(origin)).ok()?)
    };
    let source = slice(page_at.offset()).and_then(|range| page.get(range));
    let target = slice(wanted.offset()).and_then(|range| out.get_mut(range));
    if let Some((source, target)) = source.zip(target)
        && source.len() == target.len()
    {
        target.copy_from_slice(source);
    }
}
