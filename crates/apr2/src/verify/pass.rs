//! One pass over every byte of a file: its CRC, its padding and its LZ4 blocks.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;

use modelfmt_core::{
    Bytes, Execution, Fetch, Part,
    author::{Crc, Cursor, Dealt, with_causes},
};

#[cfg(feature = "sign")]
use super::digests::Digests;
use super::in_order;
use super::plan::{Piece, Plan, prefix_of};
use crate::error::{Error, Fault, Result, SealFault, malformed};
use crate::index::{Generation, Index};
use crate::wire::Footer;

/// How far before the footer the trailer of a sealed file has its CRC.
const PREFIX_BEFORE_FOOTER: u64 = 8;

/// What reading every byte of a file showed.
#[derive(Default)]
pub(crate) struct Pass {
    pub(crate) crc: Vec<String>,
    pub(crate) lz4: Vec<String>,
    pub(crate) padding: Vec<String>,
    /// The CRC of everything before the footer.
    pub(crate) seen: Crc,
    /// The CRC of everything before the signatures of a sealed file.
    prefix: u32,
    /// The CRC of the whole file, if all of it could be read.
    pub(crate) whole: Option<Crc>,
    /// LZ4 blocks that were decoded.
    pub(crate) blocks: u64,
    /// The digests of the tensors of a sealed file, if the pass has hashed them.
    #[cfg(feature = "sign")]
    pub(super) digests: Option<Digests>,
}

/// Reads the file once, on as many threads as `work` says.
pub(super) async fn run(index: &Index, source: &impl Fetch, work: &Execution<'_>) -> Pass {
    let mut pass = Pass::default();
    let mut plan = Plan::new(index, source).await;
    pass.lz4.append(&mut plan.found);
    let prefix_end = prefix_of(index).map(|(end, _)| end);
    #[cfg(feature = "sign")]
    let (mut digests, hashes_all) = (Digests::default(), plan.pieces.is_some());
    let mut decoded = Vec::new();
    let take = |piece: Piece| {
        pass.seen = pass.seen.then(piece.crc);
        if prefix_end.is_some_and(|end| pass.seen.len <= end) {
            pass.prefix = pass.seen.value; // a unit ends there
        }
        #[cfg(feature = "sign")]
        if let Some(section) = index.seal.as_deref() {
            piece.hashes.into_iter().for_each(|seen| digests.take(section, seen));
        }
        pass.blocks = pass.blocks.saturating_add(piece.blocks);
        pass.lz4.extend(piece.walk);
        decoded.extend(piece.lz4);
        pass.padding.extend(piece.padding);
    };
    let scanned = match source.part_of_job() {
        Some(share) if !plan.groups.is_empty() => in_order::scan(&plan, share, source, work, take).await,
        _ => source.scan(&Dealt(plan), work, take).await,
    };
    pass.lz4.extend(decoded);
    match scanned {
        Ok(()) => {
            #[cfg(feature = "sign")]
            if hashes_all {
                pass.digests = Some(digests);
            }
            check_prefix(index, &mut pass);
            check_crc(index, source, &mut pass).await;
        }
        Err(error) => pass.crc.push(with_causes(&Error::from(error))),
    }
    pass
}

/// Compares with the CRC in the trailer of a sealed file. The CRC in the footer does not tell whether it is right: it covers the
/// trailer as it stands.
fn check_prefix(index: &Index, pass: &mut Pass) {
    let Some((_, stated)) = prefix_of(index).filter(|(_, stated)| *stated != pass.prefix) else { return };
    let part = Part::new("trailer").with_field("prefix_crc32");
    let fault = Fault::Crc { found: pass.prefix, stated };
    let at = index.footer_at().saturating_sub(PREFIX_BEFORE_FOOTER);
    pass.crc.push(with_causes(&malformed(part, at, SealFault::Crc(fault.to_string()))));
}

/// Compares with the CRC in the footer, which is read again: the index may be older than the file.
async fn check_crc(index: &Index, source: &impl Fetch, pass: &mut Pass) {
    let (at, end) = (index.footer_at(), source.size());
    let footer = match read(source, at..end).await {
        Ok(footer) => footer,
        Err(error) => return pass.crc.push(with_causes(&error)),
    };
    let mut c = Cursor::new(&footer, at);
    let stated = match index.generation() {
        Generation::Apr2 => Footer::decode(&mut c, end).map(|footer| footer.crc32),
        Generation::Apr1 => c.u32("crc32").map_err(Error::from),
    };
    pass.whole = Some(pass.seen.then(Crc::of(&footer)));
    match stated {
        Ok(stated) if stated == pass.seen.value => {}
        Ok(stated) => {
            let part = Part::new("footer").with_field("crc32");
            let fault = Fault::Crc { found: pass.seen.value, stated };
            pass.crc.push(with_causes(&match index.is_sealed() {
                true => malformed(part, at, SealFault::Crc(fault.to_string())),
                false => malformed(part, at, fault),
            }));
        }
        Err(error) => pass.crc.push(with_causes(&error)),
    }
}

async fn read<S: Fetch>(source: &S, range: Range<u64>) -> Result<Bytes<'_>> {
    let (at, len) = (range.start, range.end.saturating_sub(range.start));
    source.fetch(range).await.map_err(|source| Error::Io { at, len, source })
}
