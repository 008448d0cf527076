//! Writes a journal, in pieces.

use std::borrow::Cow;
use std::io;

use super::super::disk::Disk;
use super::check::Check;
use super::{Head, Journal, Kind, Member, PIECE};

/// The content of the records of a file.
pub(in super::super) struct Content<'a, F> {
    /// The file before the edit, to which the records refer.
    pub(in super::super) old: F,
    /// The new bytes of each record.
    pub(in super::super) after: Vec<Cow<'a, [u8]>>,
}

/// Writes the journal to an empty file.
///
/// # Errors
/// If the journal cannot be written, or a file cannot be read.
pub(in super::super) fn write<'a, D: Disk>(
    disk: &D,
    out: &D::File,
    journal: &Journal,
    content: impl IntoIterator<Item = io::Result<Content<'a, D::File>>>,
) -> io::Result<()> {
    let mut out = Out { disk, out, at: 0, pending: Vec::new(), check: Check::new() };
    out.put(&Head { kind: Kind::Journal, id: journal.id, len: journal.len }.encode())?;
    out.put(&count(journal.members.len())?)?;
    for (member, content) in journal.members.iter().zip(content) {
        out.member(member, &content?)?;
    }
    out.finish()
}

fn count(number: usize) -> io::Result<[u8; 4]> {
    let number = u32::try_from(number).map_err(|_| io::ErrorKind::FileTooLarge)?;
    Ok(number.to_le_bytes())
}

struct Out<'a, D: Disk> {
    disk: &'a D,
    out: &'a D::File,
    at: u64,
    pending: Vec<u8>,
    check: Check,
}

impl<D: Disk> Out<'_, D> {
    fn member(&mut self, member: &Member, content: &Content<'_, D::File>) -> io::Result<()> {
        self.put(&u32::from(member.is_replaced).to_le_bytes())?;
        self.put(&count(member.name.len())?)?;
        self.put(member.name.as_bytes())?;
        self.put(&member.old_len.to_le_bytes())?;
        self.put(&member.new_len.to_le_bytes())?;
        self.put(&count(member.records.len())?)?;
        for (record, after) in member.records.iter().zip(&content.after) {
            for number in [record.at, record.before, record.after] {
                self.put(&number.to_le_bytes())?;
            }
            let (mut at, mut left) = (record.at, record.before);
            while left > 0 {
                let len = left.min(PIECE as u64);
                let mut piece = vec![0; usize::try_from(len).unwrap_or(PIECE)];
                self.disk.read(&content.old, at, &mut piece)?;
                self.put(&piece)?;
                (at, left) = (at.saturating_add(len), left.saturating_sub(len));
            }
            self.put(after)?;
        }
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.check.update(bytes);
        self.pending.extend(bytes);
        if self.pending.len() >= PIECE { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> io::Result<()> {
        self.disk.write(self.out, self.at, &self.pending)?;
        self.at = self.at.saturating_add(self.pending.len() as u64);
        self.pending.clear();
        Ok(())
    }

    fn finish(mut self) -> io::Result<()> {
        let check = std::mem::replace(&mut self.check, Check::new()).finish();
        self.pending.extend(check.to_le_bytes());
        self.write()
    }
}
