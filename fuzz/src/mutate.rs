//! Valid files with some fields changed, and their checksums and hashes corrected, so that mutations get past
//! them.

use arbitrary::{Arbitrary, Result, Unstructured};
use modelfmt_core::{Error, Execution};

use super::drill::Depth;
use super::model::{Constraints, Model};
use super::writers::Write;
use super::{Target, ggufs, readers, roundtrips, writers};

/// Numbers that often cause errors in parsers.
const EDGES: &[u64] = &[
    0,
    1,
    2,
    3,
    7,
    8,
    15,
    16,
    31,
    32,
    63,
    64,
    65,
    127,
    128,
    255,
    256,
    0x7fff,
    0xffff,
    0x10000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 32,
    (1 << 62) - 1,
    1 << 62,
    (1 << 63) - 1,
    1 << 63,
    u64::MAX - 63,
    u64::MAX - 7,
    u64::MAX,
];

/// Changes up to eight fields, ranges or the length of a file.
pub(crate) fn mutate(u: &mut Unstructured<'_>, file: &mut Vec<u8>) -> Result<()> {
    for _ in 0..u.int_in_range(0..=8)? {
        if file.is_empty() {
            break;
        }
        let at = place(u, file.len())?;
        match u.int_in_range(0..=9)? {
            0 => file.truncate(at),
            1 => drop(file.drain(at..file.len().min(at + u.int_in_range(1..=32)?))),
            2 => {
                let end = file.len().min(at + u.int_in_range(1..=64)?);
                let copy = file[at..end].to_vec();
                file.splice(at..at, copy);
            }
            3 => {
                let bytes = u.bytes(u.len().min(8))?.to_vec();
                file.splice(at..at, bytes);
            }
            4 => file[at] = u8::arbitrary(u)?,
            op => {
                let number = match op {
                    5 | 6 => *u.choose(EDGES)?,
                    7 => (file.len() as u64).wrapping_add_signed(u.int_in_range(-64..=64)?),
                    8 => u64::arbitrary(u)?,
                    _ => number_at(file, at).wrapping_add_signed(u.int_in_range(-16..=16)?),
                };
                let width = 1usize << u.int_in_range(0..=3)?;
                let end = file.len().min(at + width);
                let bytes = number.to_le_bytes();
                file[at..end].copy_from_slice(&bytes[..end - at]);
            }
        }
    }
    Ok(())
}

/// Returns a position, mostly near the beginning or the end, where the structure is.
fn place(u: &mut Unstructured<'_>, len: usize) -> Result<usize> {
    let at = match u.int_in_range(0..=7)? {
        0 => u.int_in_range(0..=len - 1)?,
        1 => len.saturating_sub(u.int_in_range(1..=32)?),
        2..=4 => u.int_in_range(0..=255)?,
        _ => u.int_in_range(0..=2047)?,
    };
    Ok(at.min(len - 1))
}

pub(crate) fn number_at(file: &[u8], at: usize) -> u64 {
    let bytes = file.iter().skip(at).take(8);
    bytes.enumerate().fold(0, |number, (i, &byte)| number | u64::from(byte) << (8 * i))
}

fn target(input: (&[u8], Depth), constraints: Constraints, write: Write, fix: fn(&mut [u8]), read: Target) {
    let (bytes, depth) = input;
    let mut u = Unstructured::new(bytes);
    let made: Result<_> = (|| {
        let flags = u8::arbitrary(&mut u)?;
        let model = Model::arbitrary(&mut u, constraints)?;
        let Some(mut file) = write(&model, flags, &Execution::sequential()) else { return Ok(None) };
        mutate(&mut u, &mut file)?;
        Ok(Some(file))
    })();
    if let Ok(Some(mut file)) = made {
        fix(&mut file);
        read(&file, depth);
    }
}

/// Corrects the checksum to the value that the reader computes: only the reader knows where the records of a
/// mutated file end. Version 0.3 has none.
pub(crate) fn fix_mag(file: &mut [u8]) {
    let Err(Error::Malformed { fault, .. }) = mag::Reader::from_source(&*file) else { return };
    let (at, checksum) = match fault {
        mag::Fault::Checksum { crc32, .. } => (8, crc32),
        mag::Fault::Crc32c { computed, .. } => (16, computed),
        _ => return,
    };
    if let Some(field) = file.get_mut(at..at + 4) {
        field.copy_from_slice(&checksum.to_le_bytes());
    }
}

/// Corrects the CRC of the header, and the last four bytes if they are a footer.
pub(crate) fn fix_apr(file: &mut [u8]) {
    if let Some((before, rest)) = file.split_at_mut_checked(40)
        && let Some((field, reserved)) = rest.split_at_mut_checked(4)
        && let Some(reserved) = reserved.get(..20)
    {
        field.copy_from_slice(&crc32fast::hash(&[before, reserved].concat()).to_le_bytes());
    }
    let Some(footer) = file.len().checked_sub(4) else { return };
    let crc = crc32fast::hash(&file[..footer]);
    file[footer..].copy_from_slice(&crc.to_le_bytes());
}

#[allow(clippy::ptr_arg, reason = "other formats have fixes that change the length")]
pub(crate) fn fix_apr2(file: &mut [u8]) {
    let Some(footer) = file.len().checked_sub(16) else { return };
    let (len, crc) = (file.len() as u64, crc32fast::hash(&file[..footer]));
    file[footer..footer + 4].copy_from_slice(&crc.to_le_bytes());
    file[footer + 4..footer + 8].copy_from_slice(b"2RPA");
    file[footer + 8..].copy_from_slice(&len.to_le_bytes());
}

/// Corrects the hash of each plain chunk (AERO 0.1, "TOC Entry"), and that of AIP-0001 if there is such a
/// chunk.
#[allow(clippy::ptr_arg, reason = "other formats have fixes that change the length")]
pub(crate) fn fix_aero(file: &mut [u8]) {
    const ENTRY: usize = 80;
    let Ok(toc) = usize::try_from(number_at(file, 12)) else { return };
    let count = number_at(file, toc) as u32 as usize;
    let entries: Vec<usize> = (0..count.min(64))
        .filter_map(|i| toc.checked_add(16 + i * ENTRY))
        .filter(|at| at + ENTRY <= file.len())
        .collect();
    for &entry in &entries {
        rehash(file, entry);
    }
    let ihsh = entries.iter().find(|&&entry| file[entry..].starts_with(b"IHSH"));
    let Some((&entry, payload)) = ihsh.and_then(|entry| Some((entry, payload(file, *entry)?))) else {
        return;
    };
    let strings_end = number_at(file, 28).saturating_add(number_at(file, 36));
    let end = usize::try_from(strings_end.saturating_add(15) & !15).unwrap_or(usize::MAX);
    let Some(covered) = file.get(..end) else { return };
    let mut covered = covered.to_vec();
    for &entry in &entries {
        covered.iter_mut().skip(entry + 48).take(32).for_each(|byte| *byte = 0);
    }
    if let Some(digest) = payload.end.checked_sub(32).filter(|&at| at >= payload.start) {
        file[digest..payload.end].copy_from_slice(blake3::hash(&covered).as_bytes());
        rehash(file, entry);
    }
}

fn payload(file: &[u8], entry: usize) -> Option<std::ops::Range<usize>> {
    let offset = usize::try_from(number_at(file, entry + 8)).ok()?;
    let end = offset.checked_add(usize::try_from(number_at(file, entry + 16)).ok()?)?;
    (offset <= end && end <= file.len()).then_some(offset..end)
}

fn rehash(file: &mut [u8], entry: usize) {
    let compressed = file[entry + 4] & 1 == 1;
    if let Some(payload) = payload(file, entry).filter(|_| !compressed) {
        let hash = blake3::hash(&file[payload]);
        file[entry + 48..entry + 80].copy_from_slice(hash.as_bytes());
    }
}

pub fn mag(bytes: &[u8], depth: Depth) {
    let constraints = roundtrips::mag_constraints(roundtrips::flags(bytes));
    target((bytes, depth), constraints, writers::mag_any, fix_mag, readers::mag);
}

pub fn oinf(bytes: &[u8], depth: Depth) {
    let constraints = roundtrips::oinf_constraints(roundtrips::flags(bytes));
    target((bytes, depth), constraints, writers::oinf_any, |_| (), readers::oinf);
}

pub fn safetensors(bytes: &[u8], depth: Depth) {
    target((bytes, depth), roundtrips::SAFETENSORS, writers::safetensors, |_| (), readers::safetensors);
}

pub fn apr(bytes: &[u8], depth: Depth) {
    target((bytes, depth), roundtrips::APR, writers::apr, fix_apr, readers::apr);
}

pub fn apr2(bytes: &[u8], depth: Depth) {
    target((bytes, depth), roundtrips::APR2, writers::apr2, fix_apr2, readers::apr2);
}

pub fn aero(bytes: &[u8], depth: Depth) {
    target((bytes, depth), roundtrips::AERO, writers::aero, fix_aero, readers::aero);
}

/// Bit 6 of the flags chooses our writer or a file made by hand.
pub fn gguf(bytes: &[u8], depth: Depth) {
    let write = if roundtrips::flags(bytes) & 0x40 == 0 { ggufs::by_hand } else { ggufs::write };
    target((bytes, depth), roundtrips::GGUF, write, |_| (), readers::gguf);
}
