//! The real disk, with an interruption between two operations of an edit. Then the edit continues, or is
//! killed.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::disk::{Disk, RealDisk};

/// The disk, with a function that is called before one of the operations that change it.
pub(super) struct InterruptingDisk<'a> {
    left: Cell<usize>,
    then: RefCell<Option<Box<dyn FnOnce() + 'a>>>,
    is_killed: Cell<bool>,
    /// Whether the edit is killed after the call.
    kills: bool,
    reads: Cell<(u64, u64)>,
}

impl<'a> InterruptingDisk<'a> {
    /// Calls `then` after `left` operations; then the edit continues.
    pub(super) fn new(left: usize, then: impl FnOnce() + 'a) -> Self {
        let then: Box<dyn FnOnce() + 'a> = Box::new(then);
        Self {
            left: Cell::new(left),
            then: RefCell::new(Some(then)),
            is_killed: Cell::new(false),
            kills: false,
            reads: Cell::default(),
        }
    }

    /// Kills the edit after `then`.
    pub(super) fn killing(self) -> Self {
        Self { kills: true, ..self }
    }

    /// Returns whether `then` was called.
    pub(super) fn has_interrupted(&self) -> bool {
        self.then.borrow().is_none()
    }

    /// Returns the number of reads, and of bytes read.
    pub(super) fn reads(&self) -> (u64, u64) {
        self.reads.get()
    }

    fn step(&self) -> io::Result<()> {
        match self.left.get().checked_sub(1) {
            Some(left) => self.left.set(left),
            None => {
                if let Some(then) = self.then.take() {
                    then();
                    self.is_killed.set(self.kills);
                }
            }
        }
        if self.is_killed.get() { Err(io::Error::other("killed")) } else { Ok(()) }
    }
}

impl Disk for InterruptingDisk<'_> {
    type File = File;

    fn open(&self, path: &Path) -> io::Result<File> {
        RealDisk.open(path)
    }

    fn peek(&self, path: &Path, len: u64) -> io::Result<Option<Vec<u8>>> {
        RealDisk.peek(path, len)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        RealDisk.list(path)
    }

    fn len(&self, file: &File) -> io::Result<u64> {
        RealDisk.len(file)
    }

    fn read(&self, file: &File, at: u64, out: &mut [u8]) -> io::Result<()> {
        let (reads, nbytes) = self.reads.get();
        self.reads.set((reads + 1, nbytes + out.len() as u64));
        RealDisk.read(file, at, out)
    }

    fn write(&self, file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.step()?;
        RealDisk.write(file, at, bytes)
    }

    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        self.step()?;
        RealDisk.set_len(file, len)
    }

    fn flush(&self, _: &File) -> io::Result<()> {
        self.step()
    }

    fn flush_folder(&self, _: &Path) -> io::Result<()> {
        self.step()
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        RealDisk.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        RealDisk.rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        RealDisk.link(from, to)
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        RealDisk.resolve(path)
    }

    fn create_draft(&self, path: &Path) -> io::Result<File> {
        self.step()?;
        RealDisk.create_draft(path)
    }

    fn keep_draft(&self, path: &Path) {
        RealDisk.keep_draft(path);
    }

    fn lock(&self, file: &File) -> io::Result<()> {
        RealDisk.lock(file)
    }

    fn touch(&self, file: &File) {
        RealDisk.touch(file);
    }

    fn copy(&self, from: (&File, u64), to: (&File, u64), len: u64) -> io::Result<()> {
        self.step()?;
        RealDisk.copy(from, to, len)
    }

    fn keep_permissions(&self, old: &File, new: &File) {
        RealDisk.keep_permissions(old, new);
    }
}
