//! Checks of a sealed file: every digest, every page, and every segment that a key decrypts.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use apr2::author::{about, check_blocks};
use modelfmt_core::author::{each_step, with_causes};
use modelfmt_core::{AlignedBuf, Execution, Fetch};

use super::digests::Hashed;
use crate::error::{Error, Result, SealFault};
use crate::index::Index;
use crate::seal::Section;
use crate::seal::read::{read_table, sealed, table_place};
use crate::seal::{hex, pages_of};
use crate::sealed::plain;

/// The number of bytes that are decrypted at once.
const PIECE: u64 = 1 << 20;

/// The findings about a sealed file.
#[derive(Default)]
pub(crate) struct SealFindings {
    pub(crate) digests: Vec<String>,
    pub(crate) encryption: Vec<String>,
}

/// Compares the digests of all tensors and pages, and decrypts everything that a key decrypts. `fault` is the
/// reason if the pass that hashes the tensors was not completed.
pub(super) async fn run(
    index: &Index,
    hashed: &Hashed<'_>,
    source: &impl Fetch,
    work: &Execution<'_>,
    fault: Option<&str>,
) -> SealFindings {
    let (mut found, section) = (SealFindings::default(), hashed.section());
    match fault {
        Some(fault) => found.digests.push(fault.to_owned()),
        None => digests(index, hashed, source, &mut found.digests).await,
    }
    if section.is_locked() || !section.is_encrypted() {
        return found;
    }
    let sizes: Vec<u64> = section.body.extents.iter().map(|extent| extent.size).collect();
    let mut is_stopped = false;
    let one = async |position| {
        let mut found = Vec::new();
        if is_stopped {
            return Err(Error::Cancelled);
        }
        if let Err(error) = decrypts(index, section, source, position, work, &mut found).await {
            found.push(with_causes(&error));
            is_stopped = matches!(error, Error::Cancelled);
        }
        Ok(found)
    };
    let all = each_step(source.part_of_job(), &sizes, one).await;
    found.encryption.extend(all.into_iter().flatten().flatten().flatten());
    found
}

/// Formats the result of the signature check. Trusted signatures were checked when the file was opened.
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

/// Checks the digests of all tensors, and their page tables.
async fn digests(index: &Index, hashed: &Hashed<'_>, source: &impl Fetch, found: &mut Vec<String>) {
    let section = hashed.section();
    for (position, extent) in section.body.extents.iter().enumerate() {
        // A tensor that was not hashed overlaps another one, which is a finding of its own.
        if hashed.digest(position).is_some_and(|digest| digest != extent.digest) {
            found.push(finding(index, section, position, &SealFault::Digest));
        }
        if pages_of(extent.size, section.body.page) > 0
            && let Err(error) = read_table(source, section, position).await
        {
            let (at, len) = table_place(section, extent);
            let error = sealed(Error::Io { at, len, source: error }, position, "");
            found.push(with_causes(&error));
        }
    }
}

/// Formats a finding about a tensor, whose name may be hidden.
fn finding(index: &Index, section: &Section, position: usize, fault: &SealFault) -> String {
    let at = section.data_offset.saturating_add(section.extent(position).map_or(0, |extent| extent.offset));
    about(&index.plain, position, None, at, fault)
}

/// Decrypts a tensor, and decompresses it if it is compressed.
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
    let named = |error| sealed(error, position, name);
    let mut buffer = AlignedBuf::default();
    let mut at = start;
    while at < start.saturating_add(len) {
        let size = (4 * PIECE).min(start.saturating_add(len).saturating_sub(at));
        let failed = |source| named(Error::Io { at, len: size, source });
        let room = usize::try_from(size).unwrap_or(usize::MAX);
        buffer.resize(room).map_err(|_| failed(std::io::ErrorKind::OutOfMemory.into()))?;
        Fetch::fetch_into(&plain, at, &mut buffer).await.map_err(failed)?;
        if work.advance(0).is_break() {
            return Err(Error::Cancelled);
        }
        at = at.saturating_add(size);
    }
    found.extend(check_blocks(&index.plain, position, &plain, work).await.map_err(named)?);
    Ok(())
}
