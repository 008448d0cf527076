//! Tests of edits that stop between any two operations, by a kill or by a loss of power.

use super::super::conflict::EditConflict;
use super::super::failing_disk::{FailingDisk, State, masks, read_all};
use super::super::leftovers::is_interrupted;
use super::super::lock::lock;
use super::super::names::{Id, Temporary, journal_path};
use super::super::recover::{Recovered, clear_leftovers, finish_interrupted, recover};
use super::super::testing::{Forged, forge};
use super::*;
use crate::Overwrite;

const PATH: &str = "folder/m";

fn before() -> Vec<u8> {
    (0..6000u32).map(|n| u8::try_from(n % 251).unwrap()).collect()
}

fn disk_of(bytes: &[u8]) -> State {
    State::of(&[(PATH, bytes)])
}

/// The new pieces, the new length, and the new content.
type Case = (Vec<(u64, Vec<u8>)>, u64, Vec<u8>);

/// Returns edits to test.
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
        // Changes as in sealed files. Different slots change everything from some offset on, longer or
        // shorter.
        edit(&[(5300, &long)], 10300),
        edit(&[(5300, b"fewer slots, trailer, footer")], 5328),
        // A first signature changes a flag and adds a section after the values. Another revision also changes
        // a field of it.
        edit(&[(8, b"flag"), (6000, &long)], 11000),
        edit(
            &[(8, b"flag"), (4500, b"revision"), (5600, b"signatures, trailer, footer, and a longer one")],
            5645,
        ),
    ]
}

/// Runs an edit on a disk that stops after `steps` operations; returns whether it completed.
fn edit(steps: usize, case: &Case) -> (FailingDisk, bool) {
    let (disk, done) = edit_on(FailingDisk::new(steps, disk_of(&before())), case);
    let done = done && !disk.has_failed();
    (disk, done)
}

fn edit_on(disk: FailingDisk, (patches, len, _): &Case) -> (FailingDisk, bool) {
    let borrowed: Vec<Patch<'_>> = patches.iter().map(|(at, bytes)| (*at, &bytes[..])).collect();
    let mut new = NewFile::new();
    new.push(vec![0; usize::try_from(*len).unwrap()]); // only its length counts
    let file = disk.open(Path::new(PATH)).unwrap();
    let old = Old { disk: &disk, file: &file, len: disk.len(&file).unwrap() };
    let done = apply(&old, Path::new(PATH), &new, borrowed, true).is_ok();
    assert!(done || disk.has_failed());
    (disk, done)
}

/// Returns the file after the next command has recovered it. Checks that nothing else is left.
fn after_recovery(state: State) -> Vec<u8> {
    let disk = FailingDisk::new(usize::MAX, state);
    finish_interrupted(&disk, Path::new(PATH)).unwrap();
    clear_leftovers(&disk, Path::new(PATH));
    assert_eq!(disk.names(), [Path::new(PATH)]);
    read_all(&disk, Path::new(PATH)).unwrap()
}

/// Checks the cost of an edit in operations, as stated in docs/EDIT.md. Creating, writing, flushing, renaming
/// and removing are operations.
#[test]
fn edits_take_as_few_operations_as_they_say() {
    let operations = |case: &Case| (0..).find(|steps| edit(*steps, case).1).unwrap();
    for (number, case) in edits().iter().enumerate() {
        let (patches, len, _) = case;
        // Within a page: a write and a flush. Otherwise the journal is created, written, flushed and linked to its name, the
        // folder is flushed, and the old name is removed; each patch is written, and the file is flushed; the journal is removed,
        // and its folder is flushed. A file that gets shorter takes one more.
        let expected = match number {
            0 | 1 => 2,
            _ => 6 + patches.len() + usize::from(*len < before().len() as u64) + 3,
        };
        assert_eq!(operations(case), expected, "{number}");
    }
}

/// Checks that a journal that exists is complete: readers never see a part of one, after a kill or a loss of
/// power.
#[test]
fn a_journal_appears_whole() {
    let is_whole = |state: State| {
        let disk = FailingDisk::new(usize::MAX, state);
        let bytes = read_all(&disk, &journal_path(Path::new(PATH)));
        bytes
            .is_ok()
            .then(|| assert_eq!(finish_interrupted(&disk, Path::new(PATH)).unwrap(), Recovered::Undone))
            .is_some()
    };
    for case in edits() {
        let steps = (0..).take_while(|steps| !edit(*steps, &case).1).count();
        let seen = (0..steps).filter(|steps| {
            masks().for_each(|mask| _ = is_whole(edit(*steps, &case).0.without_power(mask)));
            is_whole(edit(*steps, &case).0.killed())
        });
        assert_eq!(seen.count() > 3, steps > 2);
    }
}

#[test]
fn an_edit_that_stops_anywhere_leaves_the_old_file_or_the_new_one() {
    for case in edits() {
        let mut steps = 0;
        loop {
            let (disk, done) = edit(steps, &case);
            let found = after_recovery(disk.killed());
            assert!(found == case.2 || (found == before() && !done), "killed after {steps}");
            for mask in masks() {
                let (disk, _) = edit(steps, &case);
                let found = after_recovery(disk.without_power(mask));
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
        for steps in 0..11 {
            let mut again = 0;
            loop {
                let interrupted = |then: &dyn Fn(FailingDisk) -> State| {
                    let (disk, done) = edit(steps, &case);
                    let disk = FailingDisk::new(again, disk.killed());
                    let _ = finish_interrupted(&disk, Path::new(PATH));
                    clear_leftovers(&disk, Path::new(PATH));
                    let whole = !disk.has_failed();
                    let found = after_recovery(then(disk));
                    assert!(found == case.2 || (found == before() && !done), "{steps} {again}");
                    whole
                };
                let whole = interrupted(&FailingDisk::killed);
                masks().for_each(|mask| _ = interrupted(&|disk| disk.without_power(mask)));
                if whole {
                    break;
                }
                again += 1;
            }
        }
    }
}

/// Simulates a full disk.
#[test]
fn an_edit_that_fails_anywhere_leaves_the_old_file_and_nothing_else() {
    // Edits that take one write of a page have no journal.
    for case in edits().into_iter().skip(2) {
        let mut fails = 0;
        loop {
            let (disk, done) = edit_on(FailingDisk::failing_once(fails, disk_of(&before())), &case);
            let found = read_all(&disk, Path::new(PATH)).unwrap();
            if done {
                assert!(found == case.2);
                if disk.has_failed() {
                    fails += 1;
                    continue; // the journal is gone, so a failure does no harm
                }
                break;
            }
            let has_journal = disk.names().contains(&journal_path(Path::new(PATH)));
            // If the journal cannot be removed, the error describes how to continue.
            assert!(
                has_journal || (found == before() && disk.names().len() == 1),
                "{fails}: {:?}",
                disk.names()
            );
            let found = after_recovery(disk.killed());
            assert!(found == before(), "{fails}");
            fails += 1;
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
    let file = Forged::in_place("", (6000, 6000), (0, &[99; 3], &[98; 3]));
    forge(&journal_path(&path), Id([7; 16]), &[file]);
    assert!(is_interrupted(&path));
    let error = recover(&path).unwrap_err().to_string();
    assert!(error.contains("is not the file") && is_interrupted(&path), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before());
    // A broken journal does not show which file it describes, and an empty one describes no file.
    std::fs::write(journal_path(&path), b"MFMTEDIT").unwrap();
    let error = recover(&path).unwrap_err().to_string();
    assert!(error.contains("is not the whole journal") && is_interrupted(&path), "{error}");
    std::fs::write(journal_path(&path), b"").unwrap();
    assert!(!is_interrupted(&path));
    assert_eq!(recover(&path).unwrap(), Recovered::NotBegun);
    assert_eq!(recover(&path).unwrap(), Recovered::Nothing);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
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
    assert_ne!(version(), first);
    let after = [vec![7; 5000], before()[5000..].to_vec()].concat();
    assert_eq!(std::fs::read(&path).unwrap(), after);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let (file, half) = interrupted();
    std::fs::write(&path, half).unwrap();
    forge(&journal_path(&path), Id([7; 16]), &[file]);
    assert!(EditConflict::of(&patch(&path, &new, &version()).unwrap_err()).is_some());
    assert_eq!(recover(&path).unwrap(), Recovered::Undone);
    assert_eq!(std::fs::read(&path).unwrap(), before());
    let _held = lock(&path).unwrap();
    assert_eq!(patch(&path, &new, &version()).unwrap_err().kind(), io::ErrorKind::ResourceBusy);
}

/// Tests two edits within one tick of the system's clock.
#[test]
fn every_edit_makes_another_version() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m");
    std::fs::write(&path, before()).unwrap();
    for byte in 1..50 {
        let mut new = NewFile::new();
        new.push([byte]);
        new.keep(1..6000);
        let first = FileVersion::of(&path).unwrap();
        patch(&path, &new, &first).unwrap();
        let mut other = NewFile::new();
        other.push([byte, byte]);
        other.keep(2..6000);
        assert!(EditConflict::of(&patch(&path, &other, &first).unwrap_err()).is_some());
    }
}

/// Tests the files that remain when an edit was killed before it changed anything.
#[test]
fn what_an_edit_has_prepared_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m");
    std::fs::write(&path, before()).unwrap();
    let (file, _) = interrupted();
    for (what, recovered) in
        [(Temporary::PendingJournal, Recovered::NotBegun), (Temporary::FinishedJournal, Recovered::Completed)]
    {
        forge(&Id([7; 16]).path(&path, what), Id([7; 16]), std::slice::from_ref(&file));
        assert!(!is_interrupted(&path));
        let held = lock(&path).unwrap();
        assert_eq!(recover(&path).unwrap(), Recovered::Nothing, "its edit is running");
        drop(held);
        assert_eq!(recover(&path).unwrap(), recovered);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
    // These are a half-written journal, and the journal of another file.
    std::fs::write(Id([7; 16]).path(&path, Temporary::PendingJournal), b"MFMT").unwrap();
    let other = Id([7; 16]).path(&folder.path().join("other"), Temporary::PendingJournal);
    std::fs::write(&other, b"MFMT").unwrap();
    assert_eq!(recover(&path).unwrap(), Recovered::NotBegun);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
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
    // Another program puts a file of the same length there.
    std::fs::write(&other, vec![1; 6000]).unwrap();
    std::fs::rename(&other, &path).unwrap();
    let error = patch(&path, &new, &version).unwrap_err();
    assert!(error.to_string().contains("has been changed since"), "{error}");
    assert!(super::super::replace(&path, &new, &version, &path, replace, &|_| true).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), vec![1; 6000]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// Returns a change of the first 5,000 bytes that was interrupted after the first few.
fn interrupted() -> (Forged<'static>, Vec<u8>) {
    let file = Forged::in_place("", (6000, 6000), (0, &before()[..5000], &[7; 5000]));
    (file, [vec![7; 9], before()[9..].to_vec()].concat())
}

#[test]
fn a_journal_never_cuts_off_what_it_cannot_restore() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m");
    let (file, half) = interrupted();
    // Somebody has put a longer file there, which begins with the same bytes.
    let longer = [&half[..], b"more"].concat();
    std::fs::write(&path, &longer).unwrap();
    forge(&journal_path(&path), Id([7; 16]), &[file]);
    assert!(recover(&path).unwrap_err().to_string().contains("is not the file"));
    assert_eq!(std::fs::read(&path).unwrap(), longer);
    // A forged journal, which lacks the bytes that it would cut off.
    for lens in [(0, 0), (0, 6004), (6000, 6004), (6004, 9000)] {
        std::fs::remove_file(journal_path(&path)).unwrap();
        for records in [vec![], vec![(0, longer[..lens.0.min(9)].to_vec(), vec![7; lens.0.min(9)])]] {
            let lens = (lens.0 as u64, lens.1 as u64);
            let _ = std::fs::remove_file(journal_path(&path));
            let file = Forged { name: "", is_replaced: false, lens, records };
            forge(&journal_path(&path), Id([7; 16]), &[file]);
            let _ = recover(&path);
            assert_eq!(std::fs::read(&path).unwrap(), longer, "{lens:?}");
        }
    }
}

#[cfg(unix)]
#[test]
fn the_journal_of_an_edit_through_a_link_is_beside_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let (path, link) = (folder.path().join("m"), folder.path().join("link"));
    std::os::unix::fs::symlink("m", &link).unwrap();
    let (file, half) = interrupted();
    std::fs::write(&path, before()).unwrap();
    // While the edit runs, the journal is next to the real file, where every reader looks for it.
    std::fs::create_dir(journal_path(&path)).unwrap();
    let mut new = NewFile::new();
    new.push(vec![7; 5000]);
    new.keep(5000..6000);
    assert!(patch(&link, &new, &FileVersion::of(&link).unwrap()).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), before());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
    std::fs::remove_dir(journal_path(&path)).unwrap();
    std::fs::write(&path, &half).unwrap();
    forge(&journal_path(&path), Id([7; 16]), std::slice::from_ref(&file));
    assert!(is_interrupted(&link) && is_interrupted(&path));
    assert_eq!(recover(&link).unwrap(), Recovered::Undone);
    assert_eq!(std::fs::read(&path).unwrap(), before());
    // A journal next to the link has no power over the file, which may be anywhere.
    std::fs::write(&path, &half).unwrap();
    forge(&journal_path(&link), Id([7; 16]), &[file]);
    assert!(recover(&link).unwrap_err().to_string().contains("is not the file"));
    assert_eq!(std::fs::read(&path).unwrap(), half);
}

#[cfg(unix)]
#[test]
fn a_file_with_other_names_is_changed_in_place_only_without_a_journal() {
    let folder = tempfile::tempdir().unwrap();
    let [path, other] = ["m", "other"].map(|name| folder.path().join(name));
    std::fs::write(&path, before()).unwrap();
    std::fs::hard_link(&path, &other).unwrap();
    let new = |len: usize| {
        let mut new = NewFile::new();
        new.push(vec![255; len]);
        new.keep(len as u64..6000);
        new
    };
    let version = FileVersion::of(&path).unwrap();
    for failed in [patch(&path, &new(5000), &version).map(drop), check_patch(&path, &new(5000))] {
        let error = failed.unwrap_err();
        assert!(error.kind() == io::ErrorKind::InvalidInput && error.to_string().contains("hard links"));
        assert_eq!(std::fs::read(&other).unwrap(), before());
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    check_patch(&path, &new(4096)).unwrap();
    patch(&path, &new(4096), &version).unwrap();
    assert_eq!(std::fs::read(&other).unwrap()[..4096], [255; 4096]);
    std::fs::remove_file(&other).unwrap();
    patch(&path, &new(5000), &FileVersion::of(&path).unwrap()).unwrap();
}
