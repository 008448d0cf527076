//! Tests what a journal contains, and what is refused.

use std::path::Path;

use super::super::disk::{Disk, RealDisk};
use super::super::failing_disk::{FailingDisk, State as Files};
use super::super::interrupting_disk::InterruptingDisk;
use super::*;

const FILES: [(&str, &[u8]); 2] = [("m", b"abcdefghid"), ("a", b"0123")];

fn record(at: u64, before: u64, after: u64) -> Record {
    Record { at, before, after, place: 0 }
}

fn member(name: &str, is_replaced: bool, lens: (u64, u64), records: &[Record]) -> Member {
    let (old_len, new_len) = lens;
    Member { name: name.to_owned(), is_replaced, old_len, new_len, records: records.to_vec() }
}

fn journal() -> Journal {
    let members = vec![
        member("", false, (10, 13), &[record(0, 3, 3), record(9, 1, 4)]),
        member("sub/a", true, (4, 9), &[record(0, 0, 2)]),
    ];
    Journal::new(Id([7; 16]), members).unwrap()
}

/// Encodes a journal.
fn encoded(journal: &Journal) -> Vec<u8> {
    let disk = FailingDisk::new(usize::MAX, Files::of(&FILES));
    let out = disk.create_draft(Path::new("j")).unwrap();
    let after: [Vec<Vec<u8>>; 2] = [vec![b"xyz".to_vec(), b"efgh".to_vec()], vec![b"45".to_vec()]];
    let contents = FILES.iter().zip(&after).map(|((name, _), after)| {
        let old = disk.open(Path::new(name))?;
        Ok(Content { old, after: after.iter().map(|bytes| bytes.into()).collect() })
    });
    write(&disk, &out, journal, contents).unwrap();
    super::super::failing_disk::read_all(&disk, Path::new("j")).unwrap()
}

fn decoded(bytes: &[u8]) -> Option<Journal> {
    let disk = FailingDisk::new(usize::MAX, Files::of(&[("j", bytes)]));
    let file = disk.open(Path::new("j")).unwrap();
    match read(&disk, &file, |_| Ok(())).unwrap() {
        Read::Journal(journal) => Some(journal),
        Read::Broken => None,
    }
}

#[test]
fn a_journal_reads_back_whole_or_not_at_all() {
    let bytes = encoded(&journal());
    assert_eq!(decoded(&bytes), Some(journal()));
    for len in 0..bytes.len() {
        assert_eq!(decoded(&bytes[..len]), None);
        let mut changed = bytes.clone();
        changed[len] ^= 1;
        assert_eq!(decoded(&changed), None, "{len}");
        let mut zeros = bytes.clone();
        zeros[len..].fill(0);
        assert!(zeros == bytes || decoded(&zeros).is_none());
    }
    assert_eq!(decoded(&[bytes, vec![0]].concat()), None);
}

#[test]
fn a_journal_has_bytes_of_before_and_after() {
    let bytes = encoded(&journal());
    let record = journal().members[0].records[1];
    let of = |state| {
        let (at, len) = record.bytes(state);
        &bytes[usize::try_from(at).unwrap()..][..usize::try_from(len).unwrap()]
    };
    assert_eq!((of(State::Before), of(State::After)), (&b"d"[..], &b"efgh"[..]));
}

#[test]
fn records_lie_in_the_file_and_ascend() {
    let possible = |lens, records: &[Record]| member("", false, lens, records).is_possible();
    assert!(possible((10, 13), &[record(0, 3, 3), record(9, 1, 4)]));
    assert!(possible((10, 4), &[record(0, 3, 3), record(4, 6, 0)]));
    for (lens, records) in [
        ((10, 10), vec![record(u64::MAX, 1, 1)]),
        ((10, 10), vec![record(10, 1, 1)]),
        ((10, 10), vec![record(9, 1, 2)]),
        ((10, 10), vec![record(3, 1, 1), record(0, 1, 1)]),
        ((10, 10), vec![record(0, 2, 2), record(1, 1, 1)]),
        ((10, 10), vec![record(3, 0, 0)]),
        ((10, 10), vec![record(0, u64::MAX, 1)]),
        // All bytes that are cut off or added are covered.
        ((10, 13), vec![record(0, 3, 3)]),
        ((10, 13), vec![record(11, 0, 2)]),
        ((10, 4), vec![record(5, 5, 0)]),
        ((0, 1 << 40), vec![]),
    ] {
        assert!(!possible(lens, &records), "{lens:?} {records:?}");
    }
    for name in ["../part", "/part", "a//b", "C:\\part"] {
        let outside = Journal::new(
            Id([7; 16]),
            vec![
                member(name, false, (10, 10), &[record(0, 3, 3), record(9, 1, 1)]),
                member("a", true, (4, 9), &[record(0, 0, 2)]),
            ],
        );
        assert_eq!(decoded(&encoded(&outside.unwrap())), None, "{name}");
    }
}

/// Creates a sparse file as long as the longest journal. It takes no space on the disk.
#[cfg(unix)]
#[test]
fn a_huge_file_is_no_journal_and_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("j");
    let file = std::fs::File::create_new(&path).unwrap();
    file.set_len(MAX_LEN).unwrap();
    let read_of = |bytes: &[u8]| {
        let file = RealDisk.open(&path).unwrap();
        RealDisk.write(&file, 0, bytes).unwrap();
        let disk = InterruptingDisk::new(usize::MAX, || ());
        assert_eq!(read(&disk, &file, |_| panic!("it is about nothing")).unwrap(), Read::Broken);
        disk.reads()
    };
    assert_eq!(read_of(&[]), (1, HEAD_LEN as u64));
    let head = |len| Head { kind: Kind::Journal, id: Id([7; 16]), len }.encode();
    assert_eq!(read_of(&head(100)), (1, HEAD_LEN as u64));
    // The length is right, but the first file has no change.
    let files = [head(MAX_LEN), u32::MAX.to_le_bytes().to_vec()].concat();
    assert!(read_of(&files).0 < 10);
    // The first record is empty.
    let records = [files, vec![0; MEMBER_LEN - 4], u32::MAX.to_le_bytes().to_vec()].concat();
    assert!(read_of(&records).0 < 10);
    let records = [&records[..records.len() - 4], &1u32.to_le_bytes()].concat();
    assert!(read_of(&records).0 < 10);
    file.set_len(MAX_LEN + 1).unwrap();
    assert_eq!(read_of(&head(MAX_LEN + 1)), (1, HEAD_LEN as u64));
}
