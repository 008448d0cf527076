//! Edits of several files that stop between any two operations: all of them are the old ones, or the new ones.

use std::path::Path;

use super::super::recover::set_right;
use super::super::stopping::{State, Stopping, masks};
use super::*;

const INDEX: &str = "folder/m.json";
const FILES: [&str; 4] = ["m.json", "a", "b", "sub/c"];

fn old(number: u8) -> Vec<u8> {
    (0..6000u32).map(|n| u8::try_from(n % 250).unwrap() ^ number).collect()
}

/// What becomes of a file: its head is changed in place, or it moves.
fn new_file(bytes: &[u8], moves: bool) -> NewFile {
    let mut new = NewFile::new();
    new.push(vec![255; if moves { 5003 } else { 5000 }]);
    new.keep(5000..bytes.len() as u64);
    new
}

/// Which of the files change, and which of them move.
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

/// Edits on a disk that stops after `steps` operations; whether it was not stopped.
fn edit(steps: usize, case: Case) -> (Stopping, bool) {
    let disk = Stopping::new(steps, disk());
    let news: Vec<NewFile> =
        (0..).zip(case).map(|(number, moves)| new_file(&old(number), moves == Some(true))).collect();
    let version = FileVersion::of(".").unwrap(); // these files are in memory, and their versions are not looked at
    let changes = FILES.iter().zip(&news).zip(case).filter_map(|((name, new), moves)| {
        let patches = (!moves?).then(|| new.patches(&old(9)).unwrap().unwrap());
        Some(Change { name, new, before: &version, patches })
    });
    let changes: Vec<Change<'_>> = changes.collect();
    let done = apply(&disk, Path::new(INDEX), &changes, &|_| true, &|| Ok(())).is_ok();
    (disk, done)
}

/// The files after all that a next command does.
fn settled(state: State) -> Vec<Vec<u8>> {
    let disk = Stopping::new(usize::MAX, state);
    if disk.open(&journal_path(Path::new(INDEX))).is_ok() {
        set_right(&disk, Path::new(INDEX)).unwrap();
    }
    assert!(disk.open(&journal_path(Path::new(INDEX))).is_err());
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
            let found = settled(disk.killed());
            assert!(found == after(case) || (found == before() && !done), "{case:?} killed after {steps}");
            seen[usize::from(found == before())] += 1;
            for mask in masks() {
                let (disk, _) = edit(steps, case);
                let found = settled(disk.without_power(mask));
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
        for steps in (all.saturating_sub(12)..all).step_by(5) {
            let mut again = 0;
            loop {
                let interrupted = |then: &dyn Fn(Stopping) -> State| {
                    let disk = Stopping::new(again, edit(steps, case).0.killed());
                    let is_there = disk.open(&journal_path(Path::new(INDEX))).is_ok();
                    let whole = !is_there || set_right(&disk, Path::new(INDEX)).is_ok();
                    let found = settled(then(disk));
                    assert!(found == after(case) || found == before(), "{case:?} {steps} {again}");
                    whole
                };
                let whole = interrupted(&Stopping::killed);
                masks().step_by(3).for_each(|mask| _ = interrupted(&|disk| disk.without_power(mask)));
                if whole {
                    break;
                }
                again += 1;
            }
        }
    }
}

/// A file that is being changed in place is marked from before its first byte changes until after the journal is gone.
#[test]
fn a_file_that_is_half_changed_is_marked() {
    for case in CASES {
        let mut steps = 0;
        loop {
            let (disk, done) = edit(steps, case);
            let disk = Stopping::new(usize::MAX, disk.killed());
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
fn real_files_change_together_and_links_stay() {
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
    #[cfg(unix)]
    assert!(std::fs::symlink_metadata(folder.path().join("b")).unwrap().is_symlink());
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

#[test]
fn a_mark_without_a_journal_means_nothing() {
    use super::super::{is_interrupted, recover};
    let folder = tempfile::tempdir().unwrap();
    let (index, file) = (folder.path().join("m.json"), folder.path().join("a"));
    std::fs::write(&index, old(0)).unwrap();
    std::fs::write(&file, old(1)).unwrap();
    std::fs::write(journal_path(&file), mark("a", "m.json")).unwrap();
    assert!(!is_interrupted(&file));
    let record = Record { at: 0, before: old(1)[..9].to_vec(), after: vec![9; 9] };
    let journal = Journal { old_len: 6000, new_len: 6000, records: vec![record] };
    let group = Group { members: vec![Member { name: "a".to_owned(), is_replaced: false, journal }] };
    std::fs::write(journal_path(&index), group.encode().unwrap()).unwrap();
    assert!(is_interrupted(&file) && is_interrupted(&index));
    assert_eq!(recover(&file).unwrap(), Recovered::Completed);
    assert!(!is_interrupted(&file) && std::fs::read(&file).unwrap()[..9] == [9; 9]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    std::fs::write(journal_path(&file), mark("a", "m.json")).unwrap();
    assert_eq!(recover(&file).unwrap(), Recovered::Nothing);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    // Another file now: nothing is written.
    std::fs::write(&file, old(3)).unwrap();
    std::fs::write(journal_path(&index), group.encode().unwrap()).unwrap();
    assert!(recover(&index).unwrap_err().to_string().contains("is not the file"));
    assert_eq!(std::fs::read(&file).unwrap(), old(3));
}

#[cfg(unix)]
#[test]
fn a_journal_changes_nothing_in_place_through_a_link() {
    use super::super::recover;
    use std::os::unix::fs::symlink;
    let outside = tempfile::tempdir().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (victim, index) = (outside.path().join("victim"), folder.path().join("m.json"));
    std::fs::write(&victim, old(1)).unwrap();
    std::fs::write(&index, old(0)).unwrap();
    symlink(&victim, folder.path().join("a")).unwrap();
    symlink(outside.path(), folder.path().join("sub")).unwrap();
    for name in ["a", "sub/victim", "./sub/./victim"] {
        let record = Record { at: 0, before: old(1)[..9].to_vec(), after: vec![9; 9] };
        let journal = Journal { old_len: 6000, new_len: 6000, records: vec![record] };
        let group = Group { members: vec![Member { name: name.to_owned(), is_replaced: false, journal }] };
        std::fs::write(journal_path(&index), group.encode().unwrap()).unwrap();
        assert!(recover(&index).unwrap_err().to_string().contains("is not the file"), "{name}");
        assert_eq!(std::fs::read(&victim).unwrap(), old(1));
        // So an edit does not change such a file in place, when it changes others too.
        let changes = [name, "m.json"].map(|name| FileChange {
            name: name.to_owned(),
            new: new_file(&old(1), false),
            before: FileVersion::of(folder.path().join(name)).unwrap(),
        });
        std::fs::remove_file(journal_path(&index)).unwrap();
        assert_eq!(change(&index, &changes, &|_| true).unwrap(), 5000 + 5000, "{name}");
        assert!(!super::super::is_interrupted(&victim));
        std::fs::write(&victim, old(1)).unwrap();
        std::fs::write(&index, old(0)).unwrap();
    }
    assert!(is_through_link(folder.path(), "a") && !is_through_link(folder.path(), "./m.json"));
}
