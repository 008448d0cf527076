//! Page hashes of a shard (PHSH, AIP-0002).
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::author::Extent;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::chunks::Chunk;
use crate::error::{Fault, Result};
use crate::msgpack::{self, Walker, put_array, put_digest, put_map, put_str, put_uint};

/// The default page size.
pub const DEFAULT_PAGE_SIZE: u64 = 4 << 20;

/// The page hashes of a shard, checked to fit it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageHashes {
    page_size: u64,
    digests: Vec<[u8; 32]>,
}

impl PageHashes {
    /// Returns the name of the chunk with the page hashes of a shard.
    pub(crate) fn chunk_name(shard_name: &str) -> String {
        format!("{shard_name}.phsh")
    }

    /// Returns the length of a page in bytes. The last page may be shorter.
    #[must_use]
    pub const fn page_size(&self) -> u64 {
        self.page_size
    }

    /// Returns the BLAKE3-256 of each page, in order.
    #[must_use]
    pub fn digests(&self) -> &[[u8; 32]] {
        &self.digests
    }

    /// Returns the BLAKE3-256 of the page with this number.
    #[must_use]
    pub fn digest(&self, page: u64) -> Option<[u8; 32]> {
        self.digests.get(usize::try_from(page).ok()?).copied()
    }

    /// Returns the range of a page in the file. The number of pages fits the shard, so every page that a
    /// tensor touches exists.
    pub(crate) fn extent(&self, page: u64, shard: &Chunk<'_>) -> Result<Extent> {
        let start = page.saturating_mul(self.page_size);
        let end = start.saturating_add(self.page_size).min(shard.length);
        Extent::new(start, end.saturating_sub(start), shard.length).map_err(|fault| shard.malformed(fault))
    }

    /// Checks that the page hashes in `payload` fit the shard that it names, and that `chunk_name` is the
    /// right name for that shard (docs/formats/aero.md#page-hashes).
    pub(crate) fn new(payload: Payload<'_>, chunk_name: &str, shard: &Chunk<'_>) -> Result<Self, Fault> {
        let Payload { shard_name, page_size, digests } = payload;
        if shard_name != shard.name || chunk_name != Self::chunk_name(shard_name) {
            return Err(Fault::Pages(format!(
                "shard_name is {shard_name:?}, which is not what the chunk is named for"
            )));
        }
        let pages = shard.ulen.div_ceil(page_size);
        if digests.len() as u64 != pages {
            let found = digests.len();
            return Err(Fault::Pages(format!("there are {found} digests, but the shard has {pages} pages")));
        }
        Ok(Self { page_size, digests })
    }

    /// Returns the length in bytes of a payload for `pages` pages.
    pub(crate) fn encoded_len(shard_name: &str, page_size: u64, pages: u64) -> u64 {
        let mut head = Vec::new();
        put_payload_head(&mut head, shard_name, page_size, u32::try_from(pages).unwrap_or(u32::MAX));
        pages.saturating_mul(34).saturating_add(head.len() as u64)
    }

    /// Encodes a payload (AIP-0002, "Payload").
    pub(crate) fn encode(shard_name: &str, page_size: u64, digests: &[[u8; 32]]) -> Vec<u8> {
        let mut out = Vec::new();
        put_payload_head(&mut out, shard_name, page_size, u32::try_from(digests.len()).unwrap_or(u32::MAX));
        digests.iter().for_each(|digest| put_digest(&mut out, digest));
        out
    }
}

fn put_payload_head(out: &mut Vec<u8>, shard_name: &str, page_size: u64, pages: u32) {
    put_map(out, 3);
    put_str(out, "shard_name");
    put_str(out, shard_name);
    put_str(out, "page_size");
    put_uint(out, page_size);
    put_str(out, "digests");
    put_array(out, pages);
}

/// A cache of page hashes, by the position of the shard's chunk. Checked reads need the same ones repeatedly.
#[derive(Debug, Default)]
pub(crate) struct PageCache(Mutex<BTreeMap<usize, Arc<PageHashes>>>);

impl Clone for PageCache {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PageCache {
    pub(crate) fn get(&self, shard: usize) -> Option<Arc<PageHashes>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&shard).cloned()
    }

    pub(crate) fn put(&self, shard: usize, hashes: &Arc<PageHashes>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(shard, Arc::clone(hashes));
    }
}

/// A decoded PHSH payload.
pub(crate) struct Payload<'a> {
    pub(crate) shard_name: &'a str,
    pub(crate) page_size: u64,
    digests: Vec<[u8; 32]>,
}

impl<'a> Payload<'a> {
    pub(crate) fn parse(content: &'a [u8]) -> Result<Self, Fault> {
        let (mut shard_name, mut page_size, mut digests) = (None, None, None);
        let rest = msgpack::fields(content, |key, walker| {
            Ok(Some(match key {
                b"shard_name" => shard_name.replace(walker.str()?).is_some(),
                b"page_size" => page_size.replace(walker.uint()?).is_some(),
                b"digests" => digests.replace(list(walker)?).is_some(),
                _ => return Ok(None),
            }))
        })?;
        if !rest.is_empty() {
            return Err(msgpack::TRAILING.into());
        }
        let page_size = page_size.ok_or(Fault::MissingKey("page_size"))?;
        if page_size == 0 {
            return Err(Fault::Pages("page_size is 0".to_owned()));
        }
        Ok(Self {
            shard_name: shard_name.ok_or(Fault::MissingKey("shard_name"))?,
            page_size,
            digests: digests.ok_or(Fault::MissingKey("digests"))?,
        })
    }
}

fn list(walker: &mut Walker<'_>) -> Result<Vec<[u8; 32]>, Fault> {
    let count = walker.array()? as usize;
    // Each digest takes 34 bytes, so a claimed count allocates no more than the bytes allow.
    let mut digests = Vec::with_capacity(count.min(walker.remaining() / 34));
    for number in 0..count {
        let digest = walker.bin()?;
        let digest = digest.try_into().map_err(|_| {
            Fault::Pages(format!("digest {number} has {} bytes, and BLAKE3-256 has 32", digest.len()))
        })?;
        digests.push(digest);
    }
    Ok(digests)
}

#[cfg(test)]
mod tests {
    use super::*;
    use modelfmt_core::value::Object;

    #[test]
    fn payloads_read_back_and_are_what_another_encoder_writes() {
        let digests = [[1; 32], [2; 32]];
        let bytes = PageHashes::encode("weights.shard0", 4096, &digests);
        assert_eq!(bytes.len() as u64, PageHashes::encoded_len("weights.shard0", 4096, 2));
        let payload = Payload::parse(&bytes).unwrap();
        assert_eq!(
            (payload.shard_name, payload.page_size, &payload.digests[..]),
            ("weights.shard0", 4096, &digests[..])
        );
        let tree = match msgpack::decode(&bytes, 127, 100).unwrap() {
            modelfmt_core::value::Value::Object(object) => object,
            _ => Object::new(),
        };
        assert_eq!(msgpack::encode(&tree).unwrap(), bytes);
    }

    #[test]
    fn hostile_payloads_are_refused() {
        let good = PageHashes::encode("w", 1, &[[0; 32]]);
        for len in 0..good.len() {
            assert!(Payload::parse(&good[..len]).is_err());
        }
        let zero = PageHashes::encode("w", 0, &[]);
        assert!(matches!(Payload::parse(&zero), Err(Fault::Pages(_))));
        let mut claims = Vec::new();
        put_payload_head(&mut claims, "w", 1, u32::MAX);
        assert!(Payload::parse(&claims).is_err());
    }
}
