//! One pass over every byte of a file: its CRC, its padding and its LZ4 blocks.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;

use modelfmt_core::{
    Bytes, Execution, Fetch, Part,
    author::{Crc, Cursor, SharedScan, with_causes},
};

use super::in_order;
use super::plan::{Piece, Plan};
use super::seal::Seal;
use crate::error::{Error, Fault, Result, SealFault, malformed};
use crate::index::{Generation, Index};
use crate::wire::Footer;

/// The result of reading every byte of a file.
#[derive(Default)]
pub struct Pass {
    pub(crate) crc: Vec<String>,
    pub(crate) lz4: Vec<String>,
    pub(crate) padding: Vec<String>,
    /// The CRC of everything before the footer.
    pub(crate) seen: Crc,
    /// The CRC of the whole file, if all of it could be read.
    pub(crate) whole: Option<Crc>,
    /// The number of LZ4 blocks that were decoded.
    pub(crate) blocks: u64,
    /// The reason why the file could not be read to its end. The ledger of the seal is then incomplete.
    pub fault: Option<String>,
}

/// Reads the file once, on as many threads as `work` allows.
pub(super) async fn run<S: Seal>(
    index: &Index,
    seal: Option<&S>,
    source: &impl Fetch,
    work: &Execution<'_>,
) -> Pass {
    let mut pass = Pass::default();
    let mut plan = Plan::new(index, seal, source).await;
    pass.lz4.append(&mut plan.found);
    let crc_end = seal.map(Seal::crc_end);
    let (mut decoded, mut at_crc_end) = (Vec::new(), 0);
    let take = |piece: Piece<S::Kind>| {
        pass.seen = pass.seen.then(piece.crc);
        if crc_end.is_some_and(|end| pass.seen.len <= end) {
            at_crc_end = pass.seen.value; // a unit ends there
        }
        if let Some(seal) = seal {
            seal.ledger().take(piece.hashed);
        }
        pass.blocks = pass.blocks.saturating_add(piece.blocks);
        pass.lz4.extend(piece.walk);
        decoded.extend(piece.lz4);
        pass.padding.extend(piece.padding);
    };
    let scanned = match source.part_of_job() {
        Some(share) if !plan.groups.is_empty() => in_order::scan(&plan, share, source, work, take).await,
        _ => source.scan(&SharedScan(plan), work, take).await,
    };
    pass.lz4.extend(decoded);
    match scanned {
        Ok(()) => {
            let fault = seal.and_then(|seal| seal.crc_fault(at_crc_end));
            pass.crc.extend(fault.map(|fault| with_causes(&fault)));
            check_crc(index, seal.is_some(), source, &mut pass).await;
        }
        Err(error) => {
            let fault = with_causes(&Error::from(error));
            pass.crc.push(fault.clone());
            pass.fault = Some(fault);
        }
    }
    pass
}

/// Compares the CRC with the one in the footer, which is read again, because the index may be older than the
/// file.
async fn check_crc(index: &Index, is_sealed: bool, source: &impl Fetch, pass: &mut Pass) {
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
            pass.crc.push(with_causes(&match is_sealed {
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
