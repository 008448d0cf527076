//! A disk that stops between any two operations, because of a kill or a loss of power.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::disk::Disk;

/// A disk in memory that fails after a number of operations that change it.
pub(super) struct FailingDisk {
    left: Cell<usize>,
    /// Whether the disk has failed.
    has_failed: Cell<bool>,
    /// Whether only one operation fails, after which the disk works again.
    fails_once: bool,
    state: RefCell<State>,
}

#[derive(Clone, Default)]
pub(super) struct State {
    /// The files by the names that programs see.
    names: BTreeMap<PathBuf, Rc<RefCell<Content>>>,
    /// The names that survive a loss of power.
    lasting: BTreeMap<PathBuf, Rc<RefCell<Content>>>,
    /// The changes of names since their folder was flushed: a loss of power may keep any selection of them.
    pending: Vec<Names>,
}

/// Names that are set, and names that are removed.
type Names = Vec<(PathBuf, Option<Rc<RefCell<Content>>>)>;

/// Sets and removes names.
fn name(names: &mut BTreeMap<PathBuf, Rc<RefCell<Content>>>, changes: &Names) {
    for (path, content) in changes {
        match content {
            Some(content) => names.insert(path.clone(), Rc::clone(content)),
            None => names.remove(path),
        };
    }
}

impl State {
    /// Creates a disk with these files.
    pub(super) fn of(files: &[(&str, &[u8])]) -> Self {
        let file = |bytes: &[u8]| Rc::new(RefCell::new(Content::flushed(bytes)));
        let names: BTreeMap<_, _> =
            files.iter().map(|(path, bytes)| (PathBuf::from(path), file(bytes))).collect();
        Self { lasting: names.clone(), names, pending: Vec::new() }
    }

    fn rename(&mut self, changes: Names) {
        name(&mut self.names, &changes);
        self.pending.push(changes);
    }
}

#[derive(Default)]
pub(super) struct Content {
    bytes: Vec<u8>,
    lasting: Vec<u8>,
    /// The writes since the last flush: a loss of power may keep any selection of them.
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

impl FailingDisk {
    pub(super) fn new(left: usize, state: State) -> Self {
        let (left, has_failed) = (Cell::new(left), Cell::new(false));
        Self { left, has_failed, fails_once: false, state: RefCell::new(state) }
    }

    /// Creates a disk on which one operation fails, after `left` others.
    pub(super) fn failing_once(left: usize, state: State) -> Self {
        Self { fails_once: true, ..Self::new(left, state) }
    }

    fn step(&self) -> io::Result<()> {
        if self.fails_once && self.has_failed.get() {
            return Ok(());
        }
        let Some(left) = self.left.get().checked_sub(1) else {
            self.has_failed.set(true);
            return Err(io::Error::other("stopped"));
        };
        self.left.set(left);
        Ok(())
    }

    /// Returns whether the disk has failed, which kills the program that uses it.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.get()
    }

    /// Returns the names of all files.
    pub(super) fn names(&self) -> Vec<PathBuf> {
        self.state.borrow().names.keys().cloned().collect()
    }

    fn change(&self, file: &Rc<RefCell<Content>>, pending: Pending) -> io::Result<()> {
        self.step()?;
        let mut content = file.borrow_mut();
        put(&mut content.bytes, &pending);
        content.pending.push(pending);
        Ok(())
    }

    /// Returns the state after a kill: everything that was written.
    pub(super) fn killed(self) -> State {
        self.state.into_inner()
    }

    /// Returns a possible state after a loss of power: the bits of `mask` select the unflushed changes that
    /// stay.
    pub(super) fn without_power(self, mut mask: u32) -> State {
        let state = self.state.into_inner();
        let mut choose = || {
            let is_there = mask & 1 == 1;
            mask = mask.rotate_right(1);
            is_there
        };
        let mut names = state.lasting;
        state.pending.iter().filter(|_| choose()).for_each(|changes| name(&mut names, changes));
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

impl Disk for FailingDisk {
    type File = Rc<RefCell<Content>>;

    fn open(&self, path: &Path) -> io::Result<Self::File> {
        self.state.borrow().names.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn peek(&self, path: &Path, len: u64) -> io::Result<Option<Vec<u8>>> {
        let Ok(file) = self.open(path) else { return Ok(None) };
        let bytes = &file.borrow().bytes;
        Ok(Some(bytes[..bytes.len().min(usize::try_from(len).unwrap())].to_vec()))
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let names = self.names().into_iter().filter(|name| name.parent() == path.parent());
        Ok(names.map(|name| name.file_name().unwrap().to_str().unwrap().to_owned()).collect())
    }

    fn len(&self, file: &Self::File) -> io::Result<u64> {
        Ok(file.borrow().bytes.len() as u64)
    }

    fn read(&self, file: &Self::File, at: u64, out: &mut [u8]) -> io::Result<()> {
        modelfmt_core::Source::read_into(&file.borrow().bytes, at, out)
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

    fn flush_folder(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        let mut state = self.state.borrow_mut();
        let State { lasting, pending, .. } = &mut *state;
        let (now, later): (Vec<_>, Vec<_>) = std::mem::take(pending)
            .into_iter()
            .partition(|changes| changes.iter().any(|(changed, _)| changed.parent() == path.parent()));
        now.iter().for_each(|changes| name(lasting, changes));
        *pending = later;
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let _ = self.open(path)?;
        self.step()?;
        self.state.borrow_mut().rename(vec![(path.to_owned(), None)]);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let file = self.open(from)?;
        self.step()?;
        self.state.borrow_mut().rename(vec![(from.to_owned(), None), (to.to_owned(), Some(file))]);
        Ok(())
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let file = self.open(from)?;
        if self.open(to).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.step()?;
        self.state.borrow_mut().rename(vec![(to.to_owned(), Some(file))]);
        Ok(())
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        self.open(path).map(|_| path.to_owned())
    }

    fn create_draft(&self, path: &Path) -> io::Result<Self::File> {
        self.step()?;
        let file = Self::File::default();
        assert!(!self.state.borrow().names.contains_key(path));
        self.state.borrow_mut().rename(vec![(path.to_owned(), Some(Rc::clone(&file)))]);
        Ok(file)
    }

    fn keep_draft(&self, _: &Path) {}

    fn lock(&self, _: &Self::File) -> io::Result<()> {
        Ok(())
    }

    fn touch(&self, _: &Self::File) {}

    fn copy(
        &self,
        (from, at): (&Self::File, u64),
        (to, place): (&Self::File, u64),
        len: u64,
    ) -> io::Result<()> {
        let mut bytes = vec![0; usize::try_from(len).unwrap()];
        self.read(from, at, &mut bytes)?;
        self.write(to, place, &bytes)
    }

    fn keep_permissions(&self, _: &Self::File, _: &Self::File) {}
}

/// Reads all bytes of a file.
pub(super) fn read_all<D: Disk>(disk: &D, path: &Path) -> io::Result<Vec<u8>> {
    let file = disk.open(path)?;
    let mut bytes = vec![0; usize::try_from(disk.len(&file)?).unwrap()];
    disk.read(&file, 0, &mut bytes)?;
    Ok(bytes)
}

/// Returns selections of the unflushed changes that a loss of power keeps.
pub(super) fn masks() -> impl Iterator<Item = u32> {
    (0..16).chain([u32::MAX, 0xaaaa_aaaa, 0x5555_5555])
}
