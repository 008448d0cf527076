//! The records at the end of an archive, which state where its directory is.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::Part;
use modelfmt_core::author::Cursor;

use crate::error::{ArrayFault, Error, Fault, malformed};

const END: &[u8] = b"PK\x05\x06";
const END_LEN: u64 = 22;
const LOCATOR: &[u8] = b"PK\x06\x07";
const LOCATOR_LEN: u64 = 20;
const LONG_END: &[u8] = b"PK\x06\x06";
/// The length of the 64-bit end record's signature and length field, which the length does not include.
const LONG_HEAD: u64 = 12;
/// The length of the 64-bit end record without fields of later versions.
const LONG_LEN: u64 = 56;

/// The maximum length of the records at the end, with a comment of 65,535 bytes.
pub(super) const MAX_LEN: u64 = END_LEN + 0xffff + LOCATOR_LEN + LONG_LEN;

/// The place of the directory.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) at: u64,
    pub(super) len: u64,
    pub(super) count: u64,
}

/// Finds the end record in the last bytes of a file, which begin at byte `base`.
///
/// The last signature in these bytes must belong to the end record, whose comment must end the file. Only
/// then do readers that look for the first signature agree with readers that look for the last one.
pub(super) fn find<F: ArrayFault>(tail: &[u8], base: u64) -> Result<End, Error<F>> {
    let part = || Part::new("end record");
    let end_of_file = base.saturating_add(tail.len() as u64);
    let found = tail.windows(END.len()).rposition(|window| window == END);
    let Some(at) = found else { return Err(malformed(part(), end_of_file, Fault::NoEnd)) };
    let mut c = Cursor::new(tail.get(at..).unwrap_or_default(), base.saturating_add(at as u64));
    let end_at = c.offset();
    c.record("end record", None);
    c.bytes(4, "signature")?;
    let disks = (c.u16("disk")?, c.u16("disk of the directory")?);
    let (here, count) = (c.u16("entries of the disk")?, c.u16("entries")?);
    let (len, offset) = (c.u32("length of the directory")?, c.u32("offset of the directory")?);
    let comment = c.u16("length of the comment")?;
    if usize::from(comment) != c.remaining() {
        return Err(malformed(part(), end_at, Fault::NoEnd));
    }
    let several = || malformed(part(), end_at, Fault::SeveralFiles);
    let is_one = |disk: u16| disk == 0 || disk == u16::MAX;
    if !is_one(disks.0) || !is_one(disks.1) || here != count {
        return Err(several());
    }
    let (mut found, mut begin) = (End { at: offset.into(), len: len.into(), count: count.into() }, end_at);
    if let Some((long_at, long)) = long_end(tail, base, at)? {
        for (short, most, long) in [
            (u64::from(count), u64::from(u16::MAX), long.count),
            (u64::from(len), u64::from(u32::MAX), long.len),
            (u64::from(offset), u64::from(u32::MAX), long.at),
        ] {
            if short != most && short != long {
                return Err(malformed(part(), end_at, Fault::EndsDiffer { short, long }));
            }
        }
        (found, begin) = (long, long_at);
    }
    if found.at.checked_add(found.len) != Some(begin) {
        let end = found.at.saturating_add(found.len);
        return Err(malformed(Part::new("directory"), found.at, Fault::DirectoryEnd { end, found: begin }));
    }
    Ok(found)
}

/// Returns the 64-bit end record and its offset, if its locator is right before the end record, which begins
/// at `end` in the tail.
fn long_end<F: ArrayFault>(tail: &[u8], base: u64, end: usize) -> Result<Option<(u64, End)>, Error<F>> {
    let locator = end.checked_sub(usize::try_from(LOCATOR_LEN).unwrap_or(usize::MAX));
    let Some(locator) = locator.filter(|at| tail.get(*at..).is_some_and(|rest| rest.starts_with(LOCATOR)))
    else {
        return Ok(None);
    };
    let mut c = Cursor::new(tail.get(locator..).unwrap_or_default(), base.saturating_add(locator as u64));
    let locator_at = c.offset();
    c.record("locator of the 64-bit end record", None);
    let part = c.part("offset");
    let lost = || malformed(part.clone(), locator_at, Fault::Locator);
    c.bytes(4, "signature")?;
    let disk = c.u32("disk")?;
    let at = c.u64("offset")?;
    let disks = c.u32("disks")?;
    if disk != 0 || disks > 1 {
        return Err(malformed(c.part("disks"), locator_at, Fault::SeveralFiles));
    }
    let within = at.checked_sub(base).and_then(|within| usize::try_from(within).ok()).ok_or_else(lost)?;
    let record = tail.get(within..locator).ok_or_else(lost)?;
    if !record.starts_with(LONG_END) {
        return Err(lost());
    }
    let mut c = Cursor::new(record, at);
    c.record("64-bit end record", None);
    c.bytes(4, "signature")?;
    let len = c.u64("length")?;
    if len.checked_add(LONG_HEAD) != Some(record.len() as u64) {
        return Err(lost());
    }
    c.bytes(4, "versions")?;
    let disks = (c.u32("disk")?, c.u32("disk of the directory")?);
    let (here, count) = (c.u64("entries of the disk")?, c.u64("entries")?);
    if disks != (0, 0) || here != count {
        return Err(malformed(c.part("disk"), at, Fault::SeveralFiles));
    }
    let (len, offset) = (c.u64("length of the directory")?, c.u64("offset of the directory")?);
    Ok(Some((at, End { at: offset, len, count })))
}
