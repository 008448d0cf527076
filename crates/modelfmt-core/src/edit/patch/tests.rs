//! Edits that stop between any two operations, by a kill and by a loss of power.

use super::super::recover::{is_interrupted, recover};
use super::super::stopping::{State, Stopping, masks};
use super::*;
use crate::write::Overwrite;

const PATH: &str = "folder/m";

fn before() -> Vec<u8> {
    (0..6000u32).map(|n| u8::try_from(n % 251).unwrap()).collect()
}

fn disk_of(bytes: &[u8]) -> State {
    State::of(&[(PATH, bytes)])
}

/// Pieces that are new, the length after, and the file after.
type Case = (Vec<(u64, Vec<u8>)>, u64, Vec<u8>);

/// Edits with the pieces that are new and the length after, and what the file has then.
fn edits() -> Vec<Case> {
    let edit = |patches: &[(usize, &[u8])], len: usize| {
        let mut after = before();
        after.resize(len.max(after.len()), 0);
        for (at, bytes) in patches {
            after[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        after.truncate(len);
        (patches.iter().map(|(at, bytes)| (*at as u64, bytes.to_vec())).collect(), len as u64, after)
    };
    let long = vec![7; 5000];
    vec![
        edit(&[(10, b"one page")], 6000),
        edit(&[(10, b"one page"), (4000, b"twice")], 6000),
        edit(&[(4090, b"two pages")], 6000),
        edit(&[(3, &long)], 6000),
        edit(&[(0, b"head"), (5990, b"tail")], 6000),
        edit(&[(0, b"head"), (5996, b"longer tail")], 6007),
        edit(&[(1, b"x"), (5000, b"shorter")], 5007),
        // As sealed files change. Other slots: all from some place on, longer or shorter.
        edit(&[(5300, &long)], 10300),
        edit(&[(5300, b"fewer slots, trailer, footer")], 5328),
        // A first signature: a flag, and a section after the values. Another revision: also a field of the section.
        edit(&[(8, b"flag"), (6000, &long)], 11000),
        edit(
            &[(8, b"flag"), (4500, b"revision"), (5600, b"signatures, trailer, footer, and a longer one")],
            5645,
        ),
    ]
}

/// Edits on a disk that stops after `steps` operations; whether it was not stopped.
fn edit(steps: usize, (patches, len, _): &Case) -> (Stopping, bool) {
    let disk = Stopping::new(steps, disk_of(&before()));
    let patches: Vec<Patch<'_>> = patches.iter().map(|(at, bytes)| (*at, &bytes[..])).collect();
    let file = disk.open(Path::new(PATH)).unwrap();
    let old = Old { disk: &disk, file: &file, len: disk.len(&file).unwrap() };
    let done = apply(&old, Path::new(PATH), &patches, *len).is_ok();
    (disk, done)
}

/// The file after all that a next command does.
fn settled(state: State) -> Vec<u8> {
    let disk = Stopping::new(usize::MAX, state);
    if disk.open(&journal_path(Path::new(PATH))).is_ok() {
        undo(&disk, Path::new(PATH)).unwrap();
    }
    assert!(disk.open(&journal_path(Path::new(PATH))).is_err());
    read_all(&disk, Path::new(PATH)).unwrap()
}

/// What docs/EDIT.md says that an edit costs. Creating, writing, flushing, renaming and removing are operations.
#[test]
fn edits_take_as_few_operations_as_they_say() {
    let operations = |case: &Case| (0..).find(|steps| edit(*steps, case).1).unwrap();
    for (number, case) in edits().iter().enumerate() {
        let (patches, len, _) = case;
        // Within a page: a write and a flush. Else: the journal is created, written, flushed, its name too; each place is written,
        // the file is flushed; the journal is removed, its name too; where the file gets shorter, that is one more.
        let expected = match number {
            0 | 1 => 2,
            _ => 4 + patches.len() + usize::from(*len < before().len() as u64) + 3,
        };
        assert_eq!(operations(case), expected, "{number}");
    }
}

#[test]
fn an_edit_that_stops_anywhere_leaves_the_old_file_or_the_new_one() {
    for case in edits() {
        let mut steps = 0;
        loop {
            let (disk, done) = edit(steps, &case);
            let found = settled(disk.killed());
            assert!(found == case.2 || (found == before() && !done), "killed after {steps}");
            for mask in masks() {
                let (disk, _) = edit(steps, &case);
                let found = settled(disk.without_power(mask));
                assert!(found == case.2 || (found == before() && !done), "no power after {steps}, {mask:x}");
            }
            if done {
                break;
            }
            steps += 1;
        }
        assert!(steps >= 2);
    }
}

#[test]
fn undoing_that_stops_anywhere_is_done_by_the_next_one() {
    for case in edits() {
        for steps in 0..9 {
            let mut again = 0;
            loop {
                let interrupted = |then: &dyn Fn(Stopping) -> State| {
                    let (disk, done) = edit(steps, &case);
                    let disk = Stopping::new(again, disk.killed());
                    let is_there = disk.open(&journal_path(Path::new(PATH))).is_ok();
                    let whole = !is_there || undo(&disk, Path::new(PATH)).is_ok();
                    let found = settled(then(disk));
                    assert!(found == case.2 || (found == before() && !done), "{steps} {again}");
                    whole
                };
                let whole = interrupted(&Stopping::killed);
                masks().for_each(|mask| _ = interrupted(&|disk| disk.without_power(mask)));
                if whole {
                    break;
                }
                again += 1;
            }
        }
    }
}

#[test]
fn one_page_is_written_without_a_journal() {
    let cases = edits();
    assert!(edit(2, &cases[0]).1 && edit(2, &cases[1]).1 && !edit(2, &cases[2]).1);
    assert!(is_atomic(4095..4096) && !is_atomic(4095..4097) && is_atomic(4096..8192));
}

#[test]
fn a_journal_of_another_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m");
    std::fs::write(&path, before()).unwrap();
    let record = Record { at: 0, before: vec![99; 3], after: vec![98; 3] };
    let journal = Journal { old_len: 6000, new_len: 6000, records: vec![record] };
    std::fs::write(journal_path(&path), journal.encode().unwrap()).unwrap();
    assert!(is_interrupted(&path));
    let error = recover(&path).unwrap_err().to_string();
    assert!(error.contains("is not the one") && is_interrupted(&path), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before());
    std::fs::write(journal_path(&path), b"MFMTUNDO").unwrap();
    assert_eq!(recover(&path).unwrap(), Recovered::NotBegun);
    assert_eq!(recover(&path).unwrap(), Recovered::Nothing);
}

#[test]
fn a_real_file_is_patched_and_put_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m");
    std::fs::write(&path, before()).unwrap();
    let mut new = NewFile::new();
    new.push(vec![7; 5000]);
    new.keep(5000..6000);
    let version = || FileVersion::of(&path).unwrap();
    let first = version();
    assert_eq!(patch(&path, &new, &first).unwrap(), 5000);
    let after = [vec![7; 5000], before()[5000..].to_vec()].concat();
    assert_eq!(std::fs::read(&path).unwrap(), after);
    assert!(!is_interrupted(&path));
    let record = Record { at: 0, before: before()[..5000].to_vec(), after: vec![7; 5000] };
    let journal = Journal { old_len: 6000, new_len: 6000, records: vec![record] };
    std::fs::write(journal_path(&path), journal.encode().unwrap()).unwrap();
    assert!(patch(&path, &new, &version()).is_ok(), "nothing to do");
    assert_eq!(recover(&path).unwrap(), Recovered::Undone);
    assert_eq!(std::fs::read(&path).unwrap(), before());
    let _held = lock(&path).unwrap();
    assert_eq!(patch(&path, &new, &version()).unwrap_err().kind(), io::ErrorKind::ResourceBusy);
}

#[test]
fn a_file_that_was_replaced_meanwhile_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("m"), folder.path().join("other"));
    std::fs::write(&path, before()).unwrap();
    let version = FileVersion::of(&path).unwrap();
    let (mut new, replace) = (NewFile::new(), Overwrite::Replace);
    new.push(*b"new");
    new.keep(3..6000);
    // Another program puts a file there that has the same length.
    std::fs::write(&other, vec![1; 6000]).unwrap();
    std::fs::rename(&other, &path).unwrap();
    let error = patch(&path, &new, &version).unwrap_err();
    assert!(error.to_string().contains("has been changed since"), "{error}");
    assert!(super::super::replace(&path, &new, &version, &path, replace, &|_| true).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), vec![1; 6000]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// A change of the first 5,000 bytes that was interrupted after the first of them.
fn interrupted() -> (Journal, Vec<u8>) {
    let record = Record { at: 0, before: before()[..5000].to_vec(), after: vec![7; 5000] };
    (
        Journal { old_len: 6000, new_len: 6000, records: vec![record] },
        [vec![7; 9], before()[9..].to_vec()].concat(),
    )
}

#[test]
fn a_journal_never_cuts_off_what_it_cannot_restore() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m");
    let (journal, half) = interrupted();
    // Somebody has put a longer file there, which begins in the same way.
    let longer = [&half[..], b"more"].concat();
    std::fs::write(&path, &longer).unwrap();
    std::fs::write(journal_path(&path), journal.encode().unwrap()).unwrap();
    assert!(recover(&path).unwrap_err().to_string().contains("is not the one"));
    assert_eq!(std::fs::read(&path).unwrap(), longer);
    // The journal of a stranger: nothing of what it would cut off is in it.
    for (old_len, new_len) in [(0, 0), (0, 6004), (6000, 6004), (6004, 9000)] {
        let journal = Journal { old_len, new_len, records: Vec::new() };
        std::fs::write(journal_path(&path), journal.encode().unwrap()).unwrap();
        let _ = recover(&path);
        assert_eq!(std::fs::read(&path).unwrap(), longer, "{old_len} {new_len}");
    }
}

#[cfg(unix)]
#[test]
fn the_journal_of_an_edit_through_a_link_is_beside_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let (path, link) = (folder.path().join("m"), folder.path().join("link"));
    std::os::unix::fs::symlink("m", &link).unwrap();
    let (journal, half) = interrupted();
    std::fs::write(&path, before()).unwrap();
    // While the edit runs, the journal is where everybody looks for it who opens the file.
    std::fs::create_dir(journal_path(&path)).unwrap();
    let mut new = NewFile::new();
    new.push(vec![7; 5000]);
    new.keep(5000..6000);
    assert!(patch(&link, &new, &FileVersion::of(&link).unwrap()).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), before());
    std::fs::remove_dir(journal_path(&path)).unwrap();
    std::fs::write(&path, &half).unwrap();
    std::fs::write(journal_path(&path), journal.encode().unwrap()).unwrap();
    assert!(is_interrupted(&link) && is_interrupted(&path));
    assert_eq!(recover(&link).unwrap(), Recovered::Undone);
    assert_eq!(std::fs::read(&path).unwrap(), before());
    // One beside the link says nothing about a file that may be anywhere.
    std::fs::write(&path, &half).unwrap();
    std::fs::write(journal_path(&link), journal.encode().unwrap()).unwrap();
    assert_eq!(recover(&link).unwrap(), Recovered::NotBegun);
    assert_eq!(std::fs::read(&path).unwrap(), half);
    assert!(!is_interrupted(&link));
}
