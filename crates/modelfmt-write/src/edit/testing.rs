//! Forged journals of edits that were never made.

use std::borrow::Cow;
use std::fs::File;
use std::path::Path;

use super::disk::{Disk, RealDisk};
use super::journal::{self, Content, Journal, Member, Record};
use super::names::Id;

/// A file in a forged journal. Each record has an offset, the old bytes and the new bytes.
#[derive(Clone)]
pub(super) struct Forged<'a> {
    pub(super) name: &'a str,
    pub(super) is_replaced: bool,
    pub(super) lens: (u64, u64),
    pub(super) records: Vec<(u64, Vec<u8>, Vec<u8>)>,
}

impl<'a> Forged<'a> {
    /// Describes a file that is changed in place.
    pub(super) fn in_place(name: &'a str, lens: (u64, u64), record: (u64, &[u8], &[u8])) -> Self {
        let (at, before, after) = record;
        Self { name, is_replaced: false, lens, records: vec![(at, before.to_vec(), after.to_vec())] }
    }
}

/// Writes a forged journal to a new file.
pub(super) fn forge(path: &Path, id: Id, files: &[Forged<'_>]) {
    let member = |file: &Forged<'_>| Member {
        name: file.name.to_owned(),
        is_replaced: file.is_replaced,
        old_len: file.lens.0,
        new_len: file.lens.1,
        records: file
            .records
            .iter()
            .map(|(at, before, after)| Record {
                at: *at,
                before: before.len() as u64,
                after: after.len() as u64,
                place: 0,
            })
            .collect(),
    };
    let journal = Journal::new(id, files.iter().map(member).collect()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let contents = files.iter().enumerate().map(|(number, file)| {
        let path = folder.path().join(number.to_string());
        let old = File::options().read(true).write(true).create_new(true).open(path)?;
        for (at, before, _) in &file.records {
            RealDisk.write(&old, *at, before)?;
        }
        Ok(Content { old, after: file.records.iter().map(|(_, _, after)| Cow::Borrowed(&**after)).collect() })
    });
    let out = File::options().read(true).write(true).create_new(true).open(path).unwrap();
    journal::write(&RealDisk, &out, &journal, contents).unwrap();
}
