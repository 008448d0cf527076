//! The hashes that cover the values to be read. Each tensor gets the hash that covers the fewest bytes: its
//! own, else those of its pages, else the hash of its shard's chunk.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;
use std::sync::Arc;

use modelfmt_core::claims::{Claim, FileClaims, WantedRange, merged};
use modelfmt_core::ledger::Blake3;
use modelfmt_core::{Fetch, Part, author::Extent};

use crate::chunks::{Chunk, malformed};
use crate::error::{Error, Fault, Hex, Result};
use crate::index::Index;
use crate::pages::PageHashes;

/// How often a byte may be hashed for tensors: once for each of two tensors that share it. If more tensors
/// share it, which happens in no good file, the hash of the shard is checked instead. Otherwise a small file
/// could ask for any amount of hashing.
const MAX_HASHES_PER_BYTE: usize = 2;

/// The approximate size of a claim in memory. If pages are smaller than this and most of a shard is read, the
/// hash of the shard is checked instead, which proves the same.
const MIN_PAGE: u64 = 128;

/// A tensor that will be read.
pub(crate) struct Asked {
    /// The tensor's position in the index that names it.
    pub(crate) position: usize,
    /// The position of its shard's chunk.
    pub(crate) shard: usize,
    /// The range of the file with the tensor's values and the padding after them.
    pub(crate) extent: Extent,
    /// The part of that range that is wanted.
    pub(crate) read: Extent,
    /// The tensor's hash in the file, and the one in the index of a set.
    pub(crate) hashes: [Option<[u8; 32]>; 2],
}

/// What a hash covers.
#[derive(Clone, Copy, Debug)]
enum What {
    Tensor { position: usize, shard: usize },
    Page { shard: usize, page: u64 },
    Shard(usize),
}

impl Asked {
    /// Creates the request for a tensor whose bytes are at `extent`. All of them or a part may be wanted.
    pub(crate) fn new(
        index: &Index,
        wanted: &WantedRange,
        shard: usize,
        extent: Extent,
        hashes: [Option<[u8; 32]>; 2],
    ) -> Result<Self> {
        let position = wanted.position;
        let read = match &wanted.range {
            None => extent,
            Some(range) => {
                extent.part(range.start, range.end.saturating_sub(range.start)).map_err(|fault| {
                    malformed(
                        index.chunk(shard).map_or_else(Part::default, |chunk| chunk.part()),
                        extent.offset(),
                        fault,
                    )
                })?
            }
        };
        Ok(Self { position, shard, extent, read, hashes })
    }

    /// Returns whether page hashes cover the wanted part better than the hash of the whole tensor.
    async fn prefers_page_hashes<S: Fetch>(&self, index: &Index, source: &S) -> Result<bool> {
        Ok(self.read != self.extent && index.pages_of(source, self.shard).await?.is_some())
    }
}

type Stated = Claim<[u8; 32], What>;

/// Adds the hashes that cover these tensors. Their positions belong to the index `names`.
pub(crate) async fn claims<S: Fetch>(
    index: &Arc<Index>,
    source: &S,
    names: &Arc<Index>,
    asked: &[Asked],
    out: &mut FileClaims<'_>,
) -> Result<()> {
    let (here, listed) = (Arc::clone(index), Arc::clone(names));
    let failed = move |claim: &Stated, found| error_of(&here, &listed, claim, found).into();
    let (mut tensors, mut bare) = (Vec::new(), Vec::new());
    for tensor in asked {
        let &Asked { position, shard, extent, read, hashes } = tensor;
        let is_bare = hashes == [None; 2] || tensor.prefers_page_hashes(index, source).await?;
        let name = || Part::named("tensor", names.tensors().info(position).map_or("", |info| info.name));
        if is_bare {
            if !read.is_empty() {
                bare.push((shard, read));
            }
        } else if read == extent
            || out.is_worth(format_args!("the hash of {}", name()), extent.len(), read.len())
        {
            for expected in hashes.into_iter().flatten() {
                tensors.push(Claim { extent, expected, what: What::Tensor { position, shard } });
            }
        }
    }
    for Claim { extent, what, .. } in out.add::<Blake3, What>(tensors, MAX_HASHES_PER_BYTE, failed.clone()) {
        if let What::Tensor { shard, .. } = what {
            bare.push((shard, extent));
        }
    }
    bare.sort_unstable();
    let mut coarse: Vec<Stated> = Vec::new();
    for of_shard in bare.chunk_by(|(a, _), (b, _)| a == b) {
        let Some(&(shard, _)) = of_shard.first() else { continue };
        let read = merged(of_shard.iter().map(|(_, extent)| extent.range()).collect());
        let mut found = of_shard_claims(index, source, shard, &read, out).await?;
        // Most files have a single shard, and the hashes of its pages can take much memory, so they are not copied.
        if coarse.is_empty() {
            coarse = found;
        } else {
            coarse.append(&mut found);
        }
    }
    match out.add::<Blake3, What>(coarse, 1, failed).first() {
        Some(&Claim { extent, what: What::Shard(shard) | What::Page { shard, .. }, .. }) => {
            let part = index.chunk(shard).map_or_else(Part::default, |chunk| chunk.part());
            Err(malformed(part, extent.offset(), Fault::SharedBytes))
        }
        _ => Ok(()),
    }
}

/// Returns the hashes of the pages that hold these ranges of a shard, or the hash of the whole shard if it
/// has no page hashes.
async fn of_shard_claims<S: Fetch>(
    index: &Index,
    source: &S,
    shard: usize,
    read: &[Range<u64>],
    out: &mut FileClaims<'_>,
) -> Result<Vec<Stated>> {
    let Some(chunk) = index.chunk(shard) else { return Ok(Vec::new()) };
    let nbytes = read.iter().map(|range| range.end.saturating_sub(range.start)).sum();
    let whole = || -> Result<Stated> {
        let extent = in_file(index, &chunk, 0, chunk.length)?;
        Ok(Claim { extent, expected: chunk.blake3, what: What::Shard(shard) })
    };
    let Some(pages) = index.pages_of(source, shard).await? else {
        let is_worth = out.is_worth(format_args!("the hash of {}", chunk.part()), chunk.length, nbytes);
        return if is_worth { Ok(vec![whole()?]) } else { Ok(Vec::new()) };
    };
    let is_hashed = chunk.blake3 != [0; 32];
    if is_hashed && pages.page_size() < MIN_PAGE && nbytes >= chunk.length / 2 {
        return Ok(vec![whole()?]);
    }
    let touched = touched(&pages, chunk.offset, read);
    let mut found = Vec::with_capacity(touched.len());
    for (page, nbytes) in touched {
        let within = pages.extent(page, &chunk)?;
        let what = format_args!("the hash of page {page} of {}", chunk.part());
        if let Some(expected) = pages.digest(page)
            && out.is_worth(what, within.len(), nbytes)
        {
            let extent = in_file(index, &chunk, within.offset(), within.len())?;
            found.push(Claim { extent, expected, what: What::Page { shard, page } });
        }
    }
    Ok(found)
}

/// Returns the pages that hold bytes of these ascending ranges, and the number of wanted bytes in each. There
/// are at most as many as there are digests.
fn touched(pages: &PageHashes, shard_at: u64, read: &[Range<u64>]) -> Vec<(u64, u64)> {
    let size = pages.page_size();
    let mut touched: Vec<(u64, u64)> = Vec::new();
    for range in read {
        let range = range.start.saturating_sub(shard_at)..range.end.saturating_sub(shard_at);
        for page in range.start.checked_div(size).unwrap_or_default()..range.end.div_ceil(size) {
            let begin = page.saturating_mul(size);
            let nbytes = range.end.min(begin.saturating_add(size)).saturating_sub(range.start.max(begin));
            match touched.last_mut() {
                Some((last, sum)) if *last == page => *sum = (*sum).saturating_add(nbytes),
                _ => touched.push((page, nbytes)),
            }
        }
    }
    touched
}

/// Converts a range of a shard to a range of the file.
fn in_file(index: &Index, chunk: &Chunk<'_>, offset: u64, len: u64) -> Result<Extent> {
    let extent = Extent::new(chunk.offset.saturating_add(offset), len, index.file_len());
    extent.map_err(|fault| chunk.malformed(fault))
}

/// Returns the error for bytes that do not match their hash.
fn error_of(index: &Index, names: &Index, claim: &Stated, found: [u8; 32]) -> Error {
    let shard_name = |shard| index.chunk(shard).map_or("", |chunk| chunk.name);
    let (part, stated) = match claim.what {
        What::Tensor { position, .. } => {
            (Part::named("tensor", names.tensors().info(position).map_or("", |info| info.name)), "hash_b3")
        }
        What::Page { shard, page } => (Part::entry("page", page).with_name(shard_name(shard)), "PHSH chunk"),
        What::Shard(shard) => (index.chunk(shard).map_or_else(Part::default, |chunk| chunk.part()), "TOC"),
    };
    let fault = Fault::Hash { stated, found: Hex::new(found), expected: Hex::new(claim.expected) };
    malformed(part, claim.extent.offset(), fault)
}

/// Returns the request for a tensor, with its hash in the file itself.
pub(crate) fn asked(index: &Index, wanted: &WantedRange) -> Result<Asked> {
    let place = index.place(wanted.position)?;
    let at = place.offset();
    let hash = place.hash.map_err(|fault| {
        malformed(Part::named("tensor", place.info.name).with_field("hash_b3"), at, fault)
    })?;
    let extent = in_file(index, &place.chunk, place.stored.offset(), place.stored.len())?;
    Asked::new(index, wanted, place.shard, extent, [hash, None])
}

/// Adds the hashes that cover these tensors of a single file.
pub(crate) async fn of_tensors<S: Fetch>(
    index: &Arc<Index>,
    source: &S,
    wanted: &[WantedRange],
    out: &mut FileClaims<'_>,
) -> Result<()> {
    let asked: Vec<Asked> = wanted.iter().map(|wanted| asked(index, wanted)).collect::<Result<_>>()?;
    claims(index, source, index, &asked, out).await
}
