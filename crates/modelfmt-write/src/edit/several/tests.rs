//! Tests of edits of several files that stop between any two operations. All files have their old or all
//! their new content.

use std::path::{Path, PathBuf};

use super::super::conflict::EditConflict;
use super::super::failing_disk::{FailingDisk, State, masks, read_all};
use super::super::interrupting_disk::InterruptingDisk;
use super::super::leftovers::{interrupted_by, is_interrupted};
use super::super::lock::{hold, lock};
use super::super::mark::Mark;
use super::super::names::{Id, JOURNAL_SUFFIX, Temporary, journal_path};
use super::super::recover::{Recovered, clear_leftovers, finish_interrupted, recover};
use super::super::testing::{Forged, forge};
use super::*;
use crate::edit::disk::Disk;

const INDEX: &str = "folder/m.json";
const FILES: [&str; 4] = ["m.json", "a", "b", "sub/c"];

fn old(number: u8) -> Vec<u8> {
    (0..6000u32).map(|n| u8::try_from(n % 250).unwrap() ^ number).collect()
}

/// Returns the new content of a file. Either its head changes in place, or its bytes move.
fn new_file(bytes: &[u8], moves: bool) -> NewFile {
    let mut new = NewFile::new();
    new.push(vec![255; if moves { 5003 } else { 5000 }]);
    new.keep(5000..bytes.len() as u64);
    new
}

/// For each file, whether it changes and whether its bytes move.
type Case = [Option<bool>; 4];

const CASES: [Case; 4] = [
    [Some(false), Some(false), None, Some(false)],
    [Some(true), Some(true), Some(true), None],
    [Some(true), Some(false), Some(true), Some(false)],
    [None, Some(false), Some(true), Some(true)],
];

fn paths() -> impl Iterator<Item = String> {
    FILES.iter().map(|name| format!("folder/{name}"))
}

fn disk() -> State {
    let files: Vec<(String, Vec<u8>)> = paths().zip(0..).map(|(path, number)| (path, old(number))).collect();
    let files: Vec<(&str, &[u8])> = files.iter().map(|(path, bytes)| (&**path, &**bytes)).collect();
    State::of(&files)
}

fn after(case: Case) -> Vec<Vec<u8>> {
    let changed = |(number, moves): (u8, Option<bool>)| match moves {
        Some(moves) => [vec![255; if moves { 5003 } else { 5000 }], old(number)[5000..].to_vec()].concat(),
        None => old(number),
    };
    (0..).zip(case).map(changed).collect()
}

/// Runs an edit on a disk that stops after `steps` operations; returns whether it completed.
fn edit(steps: usize, case: Case) -> (FailingDisk, bool) {
    let disk = FailingDisk::new(steps, disk());
    let done = edit_on(&disk, Path::new(INDEX), case).is_ok() && !disk.has_failed();
    (disk, done)
}

/// Edits the files whose index is at a path.
fn edit_on<D: Disk>(disk: &D, index: &Path, case: Case) -> io::Result<()> {
    let news: Vec<NewFile> =
        (0..).zip(case).map(|(number, moves)| new_file(&old(number), moves == Some(true))).collect();
    let changes = FILES.iter().zip(&news).zip(case).filter_map(|((name, new), moves)| {
        let patches = (!moves?).then(|| new.patches(&old(9)).unwrap().unwrap());
        Some(Change { name: if *name == "m.json" { "" } else { name }, new, patches })
    });
    let changes: Vec<Change<'_>> = changes.collect();
    guarded::apply(disk, index, &changes, &|_| true, &|| Ok(()))
}

/// Returns the files after the next command has recovered them. Checks that nothing else is left but marks
/// without effect, which can remain after a loss of power.
fn after_recovery(state: State) -> Vec<Vec<u8>> {
    let disk = FailingDisk::new(usize::MAX, state);
    finish_interrupted(&disk, Path::new(INDEX)).unwrap();
    clear_leftovers(&disk, Path::new(INDEX));
    let is_mark = |path: &PathBuf| {
        let bytes = read_all(&disk, path).unwrap();
        path.to_str().unwrap().ends_with(JOURNAL_SUFFIX) && Mark::decode(&bytes).is_some()
    };
    let left: Vec<PathBuf> = disk.names().into_iter().filter(|path| !is_mark(path)).collect();
    let mut names: Vec<PathBuf> = paths().map(PathBuf::from).collect();
    names.sort();
    assert_eq!(left, names);
    paths().map(|path| read_all(&disk, Path::new(&path)).unwrap()).collect()
}

fn before() -> Vec<Vec<u8>> {
    (0..4).map(old).collect()
}

#[test]
fn an_edit_that_stops_anywhere_leaves_all_old_files_or_all_new_ones() {
    for case in CASES {
        let (mut steps, mut seen) = (0, [0; 2]);
        loop {
            let (disk, done) = edit(steps, case);
            let found = after_recovery(disk.killed());
            assert!(found == after(case) || (found == before() && !done), "{case:?} killed after {steps}");
            seen[usize::from(found == before())] += 1;
            for mask in masks() {
                let (disk, _) = edit(steps, case);
                let found = after_recovery(disk.without_power(mask));
                let is_known = found == after(case) || (found == before() && !done);
                assert!(is_known, "{case:?}: no power after {steps}, {mask:x}");
            }
            if done {
                break;
            }
            steps += 1;
        }
        assert!(seen[0] > 5 && seen[1] > 5, "{seen:?}");
    }
}

#[test]
fn completing_that_stops_anywhere_is_done_by_the_next_one() {
    for case in CASES {
        let mut steps = 0;
        let all = loop {
            if edit(steps, case).1 {
                break steps;
            }
            steps += 1;
        };
        for steps in (all.saturating_sub(20)..all).step_by(4) {
            let mut again = 0;
            loop {
                let interrupted = |then: &dyn Fn(FailingDisk) -> State| {
                    let disk = FailingDisk::new(again, edit(steps, case).0.killed());
                    let _ = finish_interrupted(&disk, Path::new(INDEX));
                    clear_leftovers(&disk, Path::new(INDEX));
                    let whole = !disk.has_failed();
                    let found = after_recovery(then(disk));
                    assert!(found == after(case) || found == before(), "{case:?} {steps} {again}");
                    whole
                };
                let whole = interrupted(&FailingDisk::killed);
                masks().step_by(3).for_each(|mask| _ = interrupted(&|disk| disk.without_power(mask)));
                if whole {
                    break;
                }
                again += 1;
            }
        }
    }
}

/// Checks that a file that is changed in place has a mark from before its first byte changes until the
/// journal is gone.
#[test]
fn a_file_that_is_half_changed_is_marked() {
    for case in CASES {
        let mut steps = 0;
        loop {
            let (disk, done) = edit(steps, case);
            let disk = FailingDisk::new(usize::MAX, disk.killed());
            for (path, number) in paths().skip(1).zip(1..) {
                let now = read_all(&disk, Path::new(&path)).unwrap();
                let is_half = now != old(number) && now != after(case)[usize::from(number)];
                let is_marked = disk.open(&journal_path(Path::new(&path))).is_ok();
                let has_journal = disk.open(&journal_path(Path::new(INDEX))).is_ok();
                assert!(!is_half || (is_marked && has_journal), "{path} after {steps}");
            }
            if done {
                break;
            }
            steps += 1;
        }
    }
}

#[test]
fn real_files_change_together_and_what_links_lead_to_stays() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    for (name, number) in FILES.iter().zip(0..) {
        std::fs::write(folder.path().join(name), old(number)).unwrap();
    }
    #[cfg(unix)]
    {
        std::fs::rename(folder.path().join("b"), folder.path().join("blob")).unwrap();
        std::os::unix::fs::symlink("blob", folder.path().join("b")).unwrap();
    }
    let index = folder.path().join("m.json");
    let case = [Some(true), Some(false), Some(true), Some(false)];
    let news = FILES.iter().zip(0..).zip(case);
    let news: Vec<FileChange> = news
        .map(|((name, number), moves)| FileChange {
            name: (*name).to_owned(),
            new: new_file(&old(number), moves == Some(true)),
            before: FileVersion::of(folder.path().join(name)).unwrap(),
        })
        .collect();
    assert!(change(&index, &news, &|_| false).is_err());
    let read = || FILES.map(|name| std::fs::read(folder.path().join(name)).unwrap()).to_vec();
    let count = |path: &Path| std::fs::read_dir(path).unwrap().count();
    let left = || (count(folder.path()), count(&folder.path().join("sub")));
    assert!(read() == before() && left() == (if cfg!(unix) { 5 } else { 4 }, 1), "{:?}", left());
    assert_eq!(change(&index, &news, &|_| true).unwrap(), 2 * 5003 + 2 * 5000);
    assert!(change(&index, &news, &|_| true).is_err(), "they are no longer what they were");
    assert!(read() == after(case) && left() == (if cfg!(unix) { 5 } else { 4 }, 1), "{:?}", left());
    // A link is replaced, and the file that it led to does not change.
    #[cfg(unix)]
    {
        assert!(!std::fs::symlink_metadata(folder.path().join("b")).unwrap().is_symlink());
        assert_eq!(std::fs::read(folder.path().join("blob")).unwrap(), old(2));
    }
}

#[test]
fn files_that_change_while_others_are_copied_stay_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name| folder.path().join(name);
    for (name, number) in [("a", 0), ("b", 1)] {
        std::fs::write(path(name), old(number)).unwrap();
    }
    let change_of = |(name, number)| FileChange {
        name: String::from(name),
        new: new_file(&old(number), true),
        before: FileVersion::of(path(name)).unwrap(),
    };
    let changes = [("a", 0), ("b", 1)].map(change_of);
    let meanwhile = |_| std::fs::write(path("a"), old(7)).is_ok();
    let error = change(&path("a"), &changes, &meanwhile).unwrap_err();
    assert!(error.to_string().contains("has been changed"), "{error}");
    assert_eq!(std::fs::read(path("a")).unwrap(), old(7));
    assert_eq!(std::fs::read(path("b")).unwrap(), old(1));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left behind");
}

/// Returns the forged change of a file whose first bytes change.
fn head_of(name: &str, number: u8) -> Forged<'_> {
    Forged::in_place(name, (6000, 6000), (0, &old(number)[..9], &[9; 9]))
}

#[test]
fn a_mark_without_its_journal_means_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (index, file) = (folder.path().join("m.json"), folder.path().join("a"));
    std::fs::write(&index, old(0)).unwrap();
    std::fs::write(&file, old(1)).unwrap();
    let count = || std::fs::read_dir(folder.path()).unwrap().count();
    let mark = |id| Mark::new(id, "a", &index).unwrap().put(&RealDisk, &file).unwrap();
    let id = Id([7; 16]);
    mark(id);
    assert!(!is_interrupted(&file));
    forge(&journal_path(&index), Id([8; 16]), &[head_of("a", 1)]);
    assert!(!is_interrupted(&file) && is_interrupted(&index), "it is the mark of another edit");
    std::fs::remove_file(journal_path(&index)).unwrap();
    forge(&journal_path(&index), id, &[head_of("a", 1)]);
    assert_eq!(interrupted_by(&file), Some(journal_path(&index)));
    assert!(is_interrupted(&index));
    assert_eq!(recover(&file).unwrap(), Recovered::Completed);
    assert!(!is_interrupted(&file) && std::fs::read(&file).unwrap()[..9] == [9; 9]);
    assert_eq!(count(), 2);
    mark(id);
    let held = lock(&index).unwrap();
    assert_eq!((recover(&file).unwrap(), count()), (Recovered::Nothing, 3), "its edit is running");
    drop(held);
    assert_eq!((recover(&file).unwrap(), count()), (Recovered::Nothing, 2));
    // A mark that is in the way of another edit is removed.
    mark(id);
    std::fs::write(&file, old(1)).unwrap();
    let changes = ["a", "m.json"].map(|name| FileChange {
        name: name.to_owned(),
        new: new_file(&old(u8::from(name == "a")), false),
        before: FileVersion::of(folder.path().join(name)).unwrap(),
    });
    assert_eq!(change(&index, &changes, &|_| true).unwrap(), 5000 + 5000);
    assert_eq!(count(), 2);
    // The file is a different one now, so nothing is written.
    std::fs::write(&file, old(3)).unwrap();
    forge(&journal_path(&index), id, &[head_of("a", 1)]);
    assert!(recover(&index).unwrap_err().to_string().contains("is not the file"));
    assert_eq!(std::fs::read(&file).unwrap(), old(3));
}

/// Checks that files in an attacker's folder change nothing outside it.
#[cfg(unix)]
#[test]
fn a_journal_changes_nothing_through_a_link() {
    use std::os::unix::fs::symlink;
    let outside = tempfile::tempdir().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (victim, index) = (outside.path().join("victim"), folder.path().join("m.json"));
    std::fs::write(&victim, old(1)).unwrap();
    std::fs::write(&index, old(0)).unwrap();
    symlink(&victim, folder.path().join("a")).unwrap();
    symlink(outside.path(), folder.path().join("sub")).unwrap();
    let id = Id([7; 16]);
    for name in ["a", "sub/victim", "./sub/./victim"] {
        let path = folder.path().join(name);
        // This holds even if there is a file with the right name outside.
        let draft = id.path(&victim, Temporary::Draft);
        std::fs::write(&draft, old(2)).unwrap();
        let replaced = Forged {
            name,
            is_replaced: true,
            lens: (6000, 6000),
            records: vec![(0, Vec::new(), old(2)[..4096].to_vec())],
        };
        for file in [head_of(name, 1), replaced.clone()] {
            forge(&journal_path(&index), id, &[file]);
            assert!(recover(&index).unwrap_err().to_string().contains("is not the file"), "{name}");
            assert_eq!(std::fs::read(&victim).unwrap(), old(1));
            std::fs::remove_file(journal_path(&index)).unwrap();
        }
        // The leftover of an edit that had not begun.
        forge(&id.path(&index, Temporary::PendingJournal), id, &[replaced]);
        recover(&index).unwrap();
        assert!(draft.exists());
        std::fs::remove_file(draft).unwrap();
        // An edit does not follow such a link either.
        let changes = [name, "m.json"].map(|name| FileChange {
            name: name.to_owned(),
            new: new_file(&old(1), false),
            before: FileVersion::of(folder.path().join(name)).unwrap(),
        });
        let changed = change(&index, &changes, &|_| true);
        if name == "a" {
            assert_eq!(changed.unwrap(), 5000 + 5000);
            assert!(!path.is_symlink());
        } else {
            assert!(changed.unwrap_err().to_string().contains("a folder that is a link"));
        }
        assert_eq!(std::fs::read(&victim).unwrap(), old(1));
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
        std::fs::write(&index, old(0)).unwrap();
    }
    symlink(&victim, folder.path().join("b")).unwrap();
    assert!(is_through_link(folder.path(), "b") && !is_through_link(folder.path(), "./m.json"));
}

/// The leftovers of a killed edit are removed by the next command that looks at its index.
#[test]
fn an_edit_that_was_killed_leaves_nothing_that_stays() {
    for case in CASES {
        for steps in 0.. {
            let folder = real_folder();
            let index = folder.path().join("m.json");
            let disk = InterruptingDisk::new(steps, || ()).killing();
            let _ = edit_on(&disk, &index, case);
            let is_over = !disk.has_interrupted();
            // Each file alone has its old or its new content, or a mark that shows it is being changed.
            for (name, number) in FILES.iter().zip(0..) {
                let path = folder.path().join(name);
                let now = std::fs::read(&path).unwrap();
                let is_whole = now == old(number) || now == after(case)[usize::from(number)];
                assert!(is_whole || is_interrupted(&path), "{case:?} {steps} {name}");
            }
            recover(&index).unwrap();
            assert!(all(folder.path()) == before() || all(folder.path()) == after(case));
            assert_eq!(count(folder.path()), 5, "{case:?} {steps}: {:?}", names(folder.path()));
            if is_over {
                break;
            }
        }
    }
}

/// Creates a folder with the files.
fn real_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    for (name, number) in FILES.iter().zip(0..) {
        std::fs::write(folder.path().join(name), old(number)).unwrap();
    }
    folder
}

fn all(folder: &Path) -> Vec<Vec<u8>> {
    FILES.map(|name| std::fs::read(folder.join(name)).unwrap()).to_vec()
}

fn names(folder: &Path) -> Vec<PathBuf> {
    let names = |folder: &Path| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    names(folder).chain(names(&folder.join("sub"))).collect()
}

/// Returns the number of files in the folder.
fn count(folder: &Path) -> usize {
    names(folder).len()
}

/// Makes the second of two edits: each file that it can change gets one more byte at its end.
fn second(index: &Path) -> io::Result<u64> {
    recover(index)?;
    let folder = folder_of(index);
    let changes = FILES.map(|name| {
        let len = std::fs::metadata(folder.join(name)).unwrap().len();
        let mut new = NewFile::new();
        if name == "m.json" {
            new.push(*b"!"); // the bytes move, so the index is replaced
        }
        new.keep(0..len);
        new.push(*b"!");
        FileChange { name: name.to_owned(), new, before: FileVersion::of(folder.join(name)).unwrap() }
    });
    change(index, &changes, &|_| true)
}

/// Returns the files after the second edit.
fn after_second(files: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let changed = |(number, bytes): (usize, Vec<u8>)| {
        let head: &[u8] = if number == 0 { b"!" } else { b"" };
        [head, &bytes, b"!"].concat()
    };
    files.into_iter().enumerate().map(changed).collect()
}

/// Two processes edit one set. The first is stopped after each of its operations, the second edits, and the
/// first continues or is killed. The result must always be that of one of the edits, or of both, one after
/// the other.
#[test]
fn of_two_edits_each_is_made_whole_or_not_at_all() {
    for case in CASES {
        for kills in [false, true] {
            let mut done = [0; 2];
            for steps in 0.. {
                let folder = real_folder();
                let index = folder.path().join("m.json");
                let version = FileVersion::of(&index).unwrap();
                let other = std::cell::Cell::new(None);
                let disk = InterruptingDisk::new(steps, || other.set(Some(second(&index).is_ok())));
                let disk = if kills { disk.killing() } else { disk };
                let lock = hold(&index, &version).unwrap();
                let first = edit_on(&disk, &index, case).is_ok();
                drop(lock);
                // A third process finds the leftovers of the first.
                recover(&index).unwrap();
                let found = all(folder.path());
                let (both, alone) = (after_second(after(case)), after_second(before()));
                let second = other.get();
                let expected: &[Vec<Vec<u8>>] = match (first, second) {
                    (true, Some(true)) => &[both],
                    (true, _) => &[after(case)],
                    (false, Some(true)) => &[alone, both],
                    (false, _) => &[before(), after(case)],
                };
                assert!(expected.contains(&found), "{case:?} {steps} {kills}: {first} {second:?}");
                assert_eq!(count(folder.path()), 5, "{steps}: {:?}", names(folder.path()));
                done[usize::from(second == Some(true))] += 1;
                if second.is_none() {
                    break;
                }
            }
            assert!(done[0] > 10, "{done:?}");
        }
    }
}

/// The first of two edits is stopped after each of its operations. The second is killed after each of its
/// own, if it gets a lock. Then the first continues. It must not remove anything that the second has left.
#[test]
fn an_edit_takes_nothing_from_another_that_is_killed_meanwhile() {
    for case in CASES {
        for steps in 0.. {
            let mut is_over = true;
            for again in 0.. {
                let folder = real_folder();
                let index = folder.path().join("m.json");
                let second = std::cell::Cell::new(None);
                let disk = InterruptingDisk::new(steps, || second.set(Some(second_killed(&index, again))));
                let first = hold(&index, &FileVersion::of(&index).unwrap()).unwrap();
                let _ = edit_on(&disk, &index, case);
                drop(first);
                recover(&index).unwrap();
                let found = all(folder.path());
                let expected = [before(), after(case), after_second(before()), after_second(after(case))];
                assert!(expected.contains(&found), "{case:?} {steps} {again}");
                assert_eq!(count(folder.path()), 5, "{steps} {again}: {:?}", names(folder.path()));
                is_over &= second.get().is_none();
                if second.get() != Some(true) {
                    break;
                }
            }
            if is_over {
                break;
            }
        }
    }
}

/// Runs the second edit and kills it after `steps` operations; returns whether it was killed.
fn second_killed(index: &Path, steps: usize) -> bool {
    let disk = InterruptingDisk::new(steps, || ()).killing();
    if recover(index).is_err() {
        return false;
    }
    let Ok(_lock) = lock(index) else { return false };
    let news = FILES.map(|name| {
        let path = folder_of(index).join(name);
        let (old, mut new) = (FileSource::open(path).unwrap(), NewFile::new());
        if name == "m.json" {
            new.push(*b"!");
        }
        new.keep(0..modelfmt_core::Source::len(&old));
        new.push(*b"!");
        (name, old, new)
    });
    let changes = news.iter().map(|(name, old, new)| Change {
        name: if *name == "m.json" { "" } else { name },
        new,
        patches: new.patches(old).unwrap(),
    });
    let _ = guarded::apply(&disk, index, &changes.collect::<Vec<_>>(), &|_| true, &|| Ok(()));
    disk.has_interrupted()
}

/// The first of two edits is killed after each of its operations, and the second after each of its own.
#[test]
fn an_edit_after_a_killed_one_can_be_killed_too() {
    let case = CASES[2];
    for steps in 0.. {
        let mut is_over = true;
        for again in (0..).step_by(3) {
            let folder = real_folder();
            let index = folder.path().join("m.json");
            let disk = InterruptingDisk::new(steps, || ()).killing();
            let _ = edit_on(&disk, &index, case);
            is_over = !disk.has_interrupted();
            let disk = InterruptingDisk::new(again, || ()).killing();
            let _ = finish_interrupted(&disk, &index);
            clear_leftovers(&disk, &index);
            let is_whole = !disk.has_interrupted();
            let _ = second(&index);
            let found = all(folder.path());
            let expected = [after_second(before()), after_second(after(case))];
            assert!(expected.contains(&found), "{steps} {again}");
            assert_eq!(count(folder.path()), 5, "{steps}: {:?}", names(folder.path()));
            if is_whole {
                break;
            }
        }
        if is_over {
            break;
        }
    }
}

/// If you hold a lock on a file, no other edit changes the file at its path.
#[test]
fn a_lock_is_on_what_is_at_the_path() {
    let folder = real_folder();
    let (index, version) =
        (folder.path().join("m.json"), FileVersion::of(folder.path().join("m.json")).unwrap());
    let changes = ["m.json", "a"].map(|name| FileChange {
        name: name.to_owned(),
        new: new_file(&all(folder.path())[usize::from(name == "a")], true),
        before: FileVersion::of(folder.path().join(name)).unwrap(),
    });
    change(&index, &changes, &|_| true).unwrap();
    assert!(EditConflict::of(&hold(&index, &version).unwrap_err()).is_some());
    let held = lock(&index).unwrap();
    let error = change(&index, &changes, &|_| true).unwrap_err();
    assert!(error.to_string().contains("another process"), "{error}");
    drop(held);
    assert!(EditConflict::of(&change(&index, &changes, &|_| true).unwrap_err()).is_some());
}

/// A file that somebody has put in the place of one that is to be replaced stays, and so do all others.
#[test]
fn a_file_that_was_replaced_meanwhile_is_not_overwritten() {
    let case = CASES[1];
    let mut seen = [0; 2];
    for steps in 0.. {
        let folder = real_folder();
        let index = folder.path().join("m.json");
        let disk = InterruptingDisk::new(steps, || ()).killing();
        let _ = edit_on(&disk, &index, case);
        let is_over = !disk.has_interrupted();
        let numbers: Vec<u8> =
            (0..3).filter(|number| all(folder.path())[usize::from(*number)] == old(*number)).collect();
        let path = |number: u8| folder.path().join(FILES[usize::from(number)]);
        if journal_path(&index).exists() && !numbers.is_empty() {
            for theirs in [old(9), b"of somebody else".to_vec()] {
                numbers.iter().for_each(|number| std::fs::write(path(*number), &theirs).unwrap());
                let (before, is_all) = (all(folder.path()), numbers.len() == 3);
                let error = recover(&index).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{steps}: {error}");
                assert_eq!(all(folder.path()), before, "{steps}");
                seen[usize::from(is_all)] += 1;
            }
            // A file that is gone cannot be lost.
            numbers.iter().for_each(|number| std::fs::write(path(*number), old(*number)).unwrap());
            std::fs::remove_file(path(numbers[numbers.len() - 1])).unwrap();
            assert_eq!(recover(&index).unwrap(), Recovered::Completed);
            assert_eq!(all(folder.path()), after(case), "{steps}");
        }
        if is_over {
            break;
        }
    }
    assert!(seen[0] > 1 && seen[1] > 1, "{seen:?}");
}

#[cfg(unix)]
#[test]
fn a_file_with_other_names_is_not_changed_in_place_with_others() {
    let folder = real_folder();
    let index = folder.path().join("m.json");
    std::fs::hard_link(folder.path().join("a"), folder.path().join("sub/other")).unwrap();
    let changes = |moves: bool| {
        ["m.json", "a"].map(|name| FileChange {
            name: name.to_owned(),
            new: new_file(&old(u8::from(name == "a")), moves),
            before: FileVersion::of(folder.path().join(name)).unwrap(),
        })
    };
    let error = change(&index, &changes(false), &|_| true).unwrap_err();
    assert!(
        error.kind() == io::ErrorKind::InvalidInput && error.to_string().contains("a: it has other names")
    );
    assert!(all(folder.path()) == before() && count(folder.path()) == 6);
    // A new file has one name.
    change(&index, &changes(true), &|_| true).unwrap();
    assert_eq!(std::fs::read(folder.path().join("sub/other")).unwrap(), old(1));
}
