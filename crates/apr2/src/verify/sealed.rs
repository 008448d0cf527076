//! Checks of a sealed file: every digest, every page, and every segment that a key opens.

use std::collections::HashMap;
use std::ops::Range;

use modelfmt_core::{
    AlignedBuf, Execution, Fetch,
    author::{Scan, with_causes},
};

use super::about;
use super::pass::groups_of;
use crate::blocks::Compressed;
use crate::error::{Error, Result, SealFault};
use crate::index::Index;
use crate::seal::Section;
use crate::seal::read::{read_table, sealed};
use crate::seal::{Hash, digest_of_nodes, hash_of, hex, page_node, pages_of};
use crate::sealed::plain;

/// Bytes that one thread hashes at once, and that are decrypted at once.
const PIECE: u64 = 1 << 20;

/// What the checks of a sealed file found.
#[derive(Default)]
pub(crate) struct SealFindings {
    pub(crate) digests: Vec<String>,
    pub(crate) encryption: Vec<String>,
}

/// Hashes all tensors, compares them and their pages, and decrypts what can be decrypted.
pub(crate) async fn run(
    index: &Index,
    section: &Section,
    source: &impl Fetch,
    work: &Execution<'_>,
) -> SealFindings {
    let mut found = SealFindings::default();
    digests(index, section, source, work, &mut found.digests).await;
    for position in 0..section.body.extents.len() {
        if section.is_locked() || !section.is_encrypted() {
            break;
        }
        if let Err(error) = decrypts(index, section, source, position, work, &mut found.encryption).await {
            found.encryption.push(with_causes(&error));
        }
    }
    found
}

/// What a signature check can say: a good one was checked when the file was opened.
pub(crate) fn signers(section: &Section) -> String {
    let signed = section.records.iter().map(|record| match record.signed {
        Some(signed) if section.trusted.contains(&signed.key_id) => {
            format!("{} (named)", hex(&signed.key_id))
        }
        Some(signed) => hex(&signed.key_id),
        None => format!("a key of the unknown algorithm {}", record.algorithm),
    });
    let signed: Vec<String> = signed.collect();
    if signed.is_empty() {
        "nobody has signed".to_owned()
    } else {
        format!("signed by {}", signed.join(", "))
    }
}

/// The stored bytes of the tensors, cut into pieces of whole pages.
struct Pieces<'a> {
    section: &'a Section,
    /// The tensors whose bytes are hashed: of those that share them, one.
    tensors: Vec<usize>,
    /// The number of the first piece of each.
    firsts: Vec<u64>,
    count: u64,
}

impl<'a> Pieces<'a> {
    fn new(section: &'a Section) -> Self {
        let mut order: Vec<usize> = (0..section.body.extents.len()).collect();
        order.sort_by_key(|&n| section.extent(n).map(|e| (e.offset, e.size, n)));
        let (mut tensors, mut end) = (Vec::new(), 0);
        for number in order {
            let Some(extent) = section.extent(number).filter(|extent| extent.size > 0) else { continue };
            // One that begins inside another shares its bytes, or is a finding of its own: no byte is hashed twice.
            if extent.offset >= end {
                tensors.push(number);
                end = extent.offset + extent.size; // within the file, as the section has checked
            }
        }
        tensors.sort_unstable();
        let mut pieces = Self { section, firsts: Vec::with_capacity(tensors.len()), tensors, count: 0 };
        for &number in &pieces.tensors {
            pieces.firsts.push(pieces.count);
            let size = section.extent(number).map_or(0, |extent| extent.size);
            pieces.count += size.div_ceil(pieces.step(size));
        }
        pieces
    }

    /// A tensor of one page is hashed at once.
    fn step(&self, size: u64) -> u64 {
        let page = self.section.body.page;
        if size <= page { size.max(1) } else { page.max(PIECE) }
    }

    /// The tensor of a piece, and where the piece begins and ends in what is stored of it.
    fn at(&self, number: u64) -> Option<(usize, Range<u64>)> {
        let nth = self.firsts.partition_point(|&first| first <= number).checked_sub(1)?;
        let (&tensor, &first) = self.tensors.get(nth).zip(self.firsts.get(nth))?;
        let size = self.section.extent(tensor)?.size;
        let begin = (number - first) * self.step(size);
        Some((tensor, begin..size.min(begin + self.step(size))))
    }
}

impl Scan for Pieces<'_> {
    type Seen = (usize, Vec<Hash>);
    type Scratch = ();

    fn count(&self) -> u64 {
        self.count
    }

    fn piece(&self, number: u64) -> Range<u64> {
        let Some((tensor, range)) = self.at(number) else { return 0..0 };
        let start = self.section.data_offset + self.section.extent(tensor).map_or(0, |extent| extent.offset);
        start + range.start..start + range.end
    }

    fn look(&self, number: u64, bytes: &[u8], (): &mut ()) -> Self::Seen {
        let Some((tensor, range)) = self.at(number) else { return (usize::MAX, Vec::new()) };
        let page = self.section.body.page;
        let size = self.section.extent(tensor).map_or(0, |extent| extent.size);
        if size <= page {
            return (tensor, vec![hash_of(bytes)]);
        }
        let len = usize::try_from(page).unwrap_or(usize::MAX).max(1);
        let nodes = (range.start / page..).zip(bytes.chunks(len)).map(|(n, bytes)| page_node(page, n, bytes));
        (tensor, nodes.collect())
    }
}

async fn digests(
    index: &Index,
    section: &Section,
    source: &impl Fetch,
    work: &Execution<'_>,
    found: &mut Vec<String>,
) {
    let pieces = Pieces::new(section);
    let mut nodes: HashMap<usize, Vec<Hash>> = HashMap::new();
    let mut digests: HashMap<(u64, u64), Option<Hash>> = HashMap::new();
    // The other passes count these bytes.
    let ask = |_| work.advance(0);
    let quiet = Execution { progress: Some(&ask), ..*work };
    let take = |(tensor, more): (usize, Vec<Hash>)| {
        let Some(extent) = section.extent(tensor) else { return };
        let all = nodes.entry(tensor).or_default();
        all.extend(more);
        let expected = pages_of(extent.size, section.body.page).max(1);
        if all.len() as u64 == expected {
            let digest = if expected == 1 { all.first().copied() } else { digest_of_nodes(all) };
            digests.insert((extent.offset, extent.size), digest);
            nodes.remove(&tensor);
        }
    };
    if let Err(error) = source.scan(&pieces, &quiet, take).await {
        return found.push(with_causes(&Error::from(error)));
    }
    let empty = Some(hash_of(&[]));
    for (position, extent) in section.body.extents.iter().enumerate() {
        let digest = if extent.size == 0 { Some(&empty) } else { digests.get(&(extent.offset, extent.size)) };
        // What was not hashed overlaps another, which is a finding of its own.
        if digest.is_some_and(|digest| *digest != Some(extent.digest)) {
            found.push(tell(index, section, position, &SealFault::Digest));
        }
        if pages_of(extent.size, section.body.page) > 0
            && let Err(error) = read_table(source, section, position).await
        {
            let at = section.trailer.pages_at();
            let error = sealed(Error::Io { at, len: 0, source: error }, position, "");
            found.push(with_causes(&error));
        }
    }
}

/// A finding about a tensor, which may have no name that anybody can read.
fn tell(index: &Index, section: &Section, position: usize, fault: &SealFault) -> String {
    let at = section.data_offset + section.extent(position).map_or(0, |extent| extent.offset);
    about(index, position, None, at, fault)
}

/// Decrypts a tensor, and decodes it where it was compressed.
async fn decrypts(
    index: &Index,
    section: &Section,
    source: &impl Fetch,
    position: usize,
    work: &Execution<'_>,
    found: &mut Vec<String>,
) -> Result<()> {
    let plain = plain(index, section, source, position)?;
    let (start, len) = plain.place();
    let name = index.tensors().info(position).map_or("", |info| info.name);
    let told = |error| sealed(error, position, name);
    let mut buffer = AlignedBuf::default();
    let mut at = start;
    while at < start + len {
        let size = (4 * PIECE).min(start + len - at);
        let failed = |source| told(Error::Io { at, len: size, source });
        let room = usize::try_from(size).unwrap_or(usize::MAX);
        buffer.resize(room).map_err(|_| failed(std::io::ErrorKind::OutOfMemory.into()))?;
        Fetch::fetch_into(&plain, at, &mut buffer).await.map_err(failed)?;
        if work.advance(0).is_break() {
            return Err(Error::Cancelled);
        }
        at += size;
    }
    let stored = index.tensors.plain(position).filter(|stored| stored.compressed);
    let Some(stored) = stored else { return Ok(()) };
    let tensor = Compressed { number: position, name, stored };
    let mut scratch = Vec::new();
    for group in groups_of(&tensor, &plain).await.map_err(told)? {
        let (at, len) = (group.range.start, group.range.end - group.range.start);
        let bytes = plain.fetch(group.range.clone()).await;
        let bytes = bytes.map_err(|source| told(Error::Io { at, len, source }))?;
        let faults = tensor.check(&bytes, (group.first, group.count), at, &mut scratch, |_| {});
        found.extend(faults.iter().map(|error| with_causes(error)));
        if work.advance(0).is_break() {
            return Err(Error::Cancelled);
        }
    }
    Ok(())
}
