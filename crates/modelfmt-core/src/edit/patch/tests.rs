//! Edits that stop between any two operations, by a kill and by a loss of power.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;

use super::*;

/// A disk in memory that stops after so many operations that change it.
struct Stopping {
    left: Cell<usize>,
    state: RefCell<State>,
}

#[derive(Clone, Default)]
struct State {
    /// The files by the names that programs see.
    names: BTreeMap<PathBuf, Rc<RefCell<Content>>>,
    /// Those that a loss of power leaves.
    lasting: BTreeMap<PathBuf, Rc<RefCell<Content>>>,
}

#[derive(Default)]
struct Content {
    bytes: Vec<u8>,
    lasting: Vec<u8>,
    /// What has been written since it was flushed: what a loss of power may leave, in any selection.
    pending: Vec<Pending>,
}

#[derive(Clone)]
enum Pending {
    Write(u64, Vec<u8>),
    Len(u64),
}

impl Content {
    fn flushed(bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_vec(), lasting: bytes.to_vec(), pending: Vec::new() }
    }
}

fn put(bytes: &mut Vec<u8>, pending: &Pending) {
    match pending {
        Pending::Write(at, new) => {
            let at = usize::try_from(*at).unwrap();
            bytes.resize(bytes.len().max(at + new.len()), 0);
            bytes[at..at + new.len()].copy_from_slice(new);
        }
        Pending::Len(len) => bytes.resize(usize::try_from(*len).unwrap(), 0),
    }
}

impl Stopping {
    fn new(left: usize, state: State) -> Self {
        Self { left: Cell::new(left), state: RefCell::new(state) }
    }

    fn step(&self) -> io::Result<()> {
        let left = self.left.get().checked_sub(1).ok_or_else(|| io::Error::other("stopped"))?;
        self.left.set(left);
        Ok(())
    }

    fn change(&self, file: &Rc<RefCell<Content>>, pending: Pending) -> io::Result<()> {
        self.step()?;
        let mut content = file.borrow_mut();
        put(&mut content.bytes, &pending);
        content.pending.push(pending);
        Ok(())
    }

    /// What is there after a kill: all that was written.
    fn killed(self) -> State {
        self.state.into_inner()
    }

    /// What may be there after a loss of power: of what was not flushed, what the bits of `mask` choose.
    fn without_power(self, mut mask: u32) -> State {
        let state = self.state.into_inner();
        let mut choose = || {
            let is_there = mask & 1 == 1;
            mask = mask.rotate_right(1);
            is_there
        };
        let names = if choose() { state.names } else { state.lasting };
        let mut after = State::default();
        for (path, content) in names {
            let content = content.borrow();
            let mut bytes = content.lasting.clone();
            content.pending.iter().filter(|_| choose()).for_each(|pending| put(&mut bytes, pending));
            after.names.insert(path.clone(), Rc::new(RefCell::new(Content::flushed(&bytes))));
        }
        after.lasting = after.names.clone();
        after
    }
}

impl Disk for Stopping {
    type File = Rc<RefCell<Content>>;

    fn open(&self, path: &Path) -> io::Result<Self::File> {
        self.state.borrow().names.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn create(&self, path: &Path) -> io::Result<Self::File> {
        self.step()?;
        let file = Self::File::default();
        assert!(self.state.borrow_mut().names.insert(path.to_owned(), Rc::clone(&file)).is_none());
        Ok(file)
    }

    fn len(&self, file: &Self::File) -> io::Result<u64> {
        Ok(file.borrow().bytes.len() as u64)
    }

    fn read(&self, file: &Self::File, at: u64, out: &mut [u8]) -> io::Result<()> {
        crate::Source::read_into(&file.borrow().bytes, at, out)
    }

    fn write(&self, file: &Self::File, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.change(file, Pending::Write(at, bytes.to_vec()))
    }

    fn set_len(&self, file: &Self::File, len: u64) -> io::Result<()> {
        self.change(file, Pending::Len(len))
    }

    fn flush(&self, file: &Self::File) -> io::Result<()> {
        self.step()?;
        let mut content = file.borrow_mut();
        content.lasting = content.bytes.clone();
        content.pending.clear();
        Ok(())
    }

    fn flush_folder(&self, _: &Path) -> io::Result<()> {
        self.step()?;
        let mut state = self.state.borrow_mut();
        state.lasting = state.names.clone();
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        self.state.borrow_mut().names.remove(path).map(|_| ()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

const PATH: &str = "folder/m";

fn before() -> Vec<u8> {
    (0..6000u32).map(|n| u8::try_from(n % 251).unwrap()).collect()
}

fn disk_of(bytes: &[u8]) -> State {
    let names = BTreeMap::from([(PathBuf::from(PATH), Rc::new(RefCell::new(Content::flushed(bytes))))]);
    State { lasting: names.clone(), names }
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
        edit(&[(4090, b"two pages")], 6000),
        edit(&[(3, &long)], 6000),
        edit(&[(0, b"head"), (5990, b"tail")], 6000),
        edit(&[(0, b"head"), (5996, b"longer tail")], 6007),
        edit(&[(1, b"x"), (5000, b"shorter")], 5007),
    ]
}

/// Edits on a disk that stops after `steps` operations; whether it was not stopped.
fn edit(steps: usize, (patches, len, _): &Case) -> (Stopping, bool) {
    let disk = Stopping::new(steps, disk_of(&before()));
    let patches: Vec<Patch<'_>> = patches.iter().map(|(at, bytes)| (*at, &bytes[..])).collect();
    let done = apply(&disk, Path::new(PATH), &patches, *len).is_ok();
    (disk, done)
}

/// The file after all that a next command does.
fn settled(state: State) -> Vec<u8> {
    let disk = Stopping::new(usize::MAX, state);
    if disk.open(&journal_path(Path::new(PATH))).is_ok() {
        undo(&disk, Path::new(PATH)).unwrap();
    }
    assert!(disk.open(&journal_path(Path::new(PATH))).is_err());
    let file = disk.open(Path::new(PATH)).unwrap();
    let content = file.borrow();
    content.bytes.clone()
}

fn masks() -> impl Iterator<Item = u32> {
    (0..16).chain([u32::MAX, 0xaaaa_aaaa, 0x5555_5555])
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
    assert!(edit(2, &cases[0]).1 && !edit(2, &cases[1]).1);
    assert!(is_atomic(4095, b"x") && !is_atomic(4095, b"xy") && is_atomic(4096, &[0; 4096]));
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
    assert_eq!(patch(&path, &new).unwrap(), 5000);
    let after = [vec![7; 5000], before()[5000..].to_vec()].concat();
    assert_eq!(std::fs::read(&path).unwrap(), after);
    assert!(!is_interrupted(&path));
    let record = Record { at: 0, before: before()[..5000].to_vec(), after: vec![7; 5000] };
    let journal = Journal { old_len: 6000, new_len: 6000, records: vec![record] };
    std::fs::write(journal_path(&path), journal.encode().unwrap()).unwrap();
    assert!(patch(&path, &new).is_ok(), "nothing to do");
    assert_eq!(recover(&path).unwrap(), Recovered::Undone);
    assert_eq!(std::fs::read(&path).unwrap(), before());
    let _held = lock(&path).unwrap();
    assert_eq!(patch(&path, &new).unwrap_err().kind(), io::ErrorKind::ResourceBusy);
}
