//! An edit that a journal protects: of one file in place, or of several files that belong together.
//!
//! The names of the files that an edit creates contain the edit's number, and its marks contain it too. The
//! journal comes first: it is written under a temporary name and [renamed](Disk::link) when it is complete.
//! Then come the new files that will replace others. An edit therefore removes only its own files. The
//! leftovers of a killed edit are found through its journal, which exists before the other files and is
//! removed after them.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use super::conflict::or_conflict;
use super::disk::Disk;
use super::journal::{self, Content, HEAD_LEN, Head, Journal, Member, Record, State};
use super::leftovers::make_room;
use super::mark::{Mark, unmark};
use super::names::{Id, Temporary, is_in_linked_folder, journal_path, path_of};
use super::new_file::{NewFile, Patch, Preview};
use super::replace::write_draft;
use crate::{CommitGuard, commit_guard};
use modelfmt_core::Source;
use modelfmt_core::source::folder_of;

/// The number of first bytes that identify a file that is replaced, and the new file that replaces it.
const HEAD: u64 = 4096;

/// The change of one file.
pub(super) struct Change<'a> {
    /// The path, relative to the folder of the journal; empty for the file next to the journal.
    pub(super) name: &'a str,
    pub(super) new: &'a NewFile,
    /// The patches to write, if the file is changed in place.
    pub(super) patches: Option<Vec<Patch<'a>>>,
}

/// A file before its change. It is opened, and its length queried, only once: compared with writing one page
/// and flushing it, every system call counts.
pub(super) struct Old<'a, D: Disk> {
    pub(super) disk: &'a D,
    pub(super) file: &'a D::File,
    pub(super) len: u64,
}

impl<D: Disk> Source for Old<'_, D> {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.disk.read(self.file, offset, out)
    }
}

/// Applies the changes. The file at `home` must be locked and must not have a journal. Copying can take long,
/// so `expect_same` then checks whether the files are still the same.
pub(super) fn apply<D: Disk>(
    disk: &D,
    home: &Path,
    changes: &[Change<'_>],
    go_on: &dyn Fn(u64) -> bool,
    expect_same: &dyn Fn() -> io::Result<()>,
) -> io::Result<()> {
    let edit = Guarded { disk, home, journal: plan(disk, home, changes)? };
    let prepared = edit.prepare(changes, go_on, expect_same).inspect_err(|_| edit.abandon())?;
    if let Err(error) = edit.make_in_place(&prepared.journal, State::After) {
        return Err(edit.give_up(&prepared.journal, error));
    }
    let _held = edit.rename_drafts(prepared.held).map_err(|error| edit.is_left(&error))?;
    edit.finish().map_err(|error| edit.is_left(&error))
}

/// Creates the journal of the changes.
fn plan<D: Disk>(disk: &D, home: &Path, changes: &[Change<'_>]) -> io::Result<Journal> {
    let mut members = Vec::with_capacity(changes.len());
    for Change { name, new, patches } in changes {
        let file = disk.open(&path_of(home, name))?;
        let (old_len, new_len) = (disk.len(&file)?, new.len());
        let record = |at: u64, before: u64, after: u64| Record { at, before, after, place: 0 };
        let mut records = Vec::new();
        match patches {
            Some(patches) => {
                for (at, bytes) in patches {
                    let after = bytes.len();
                    records.push(record(*at, old_len.saturating_sub(*at).min(after), after));
                }
                if new_len < old_len {
                    records.push(record(new_len, old_len - new_len, 0));
                }
            }
            None if new_len == 0 && old_len == 0 => {}
            None => records.push(record(0, old_len.min(HEAD), new_len.min(HEAD))),
        }
        let is_replaced = patches.is_none();
        members.push(Member { name: (*name).to_owned(), is_replaced, old_len, new_len, records });
    }
    let too_long = || io::Error::new(io::ErrorKind::FileTooLarge, "the edit is too large for a journal");
    Journal::new(Id::random(), members).ok_or_else(too_long)
}

/// An edit, and the file next to its journal.
pub(super) struct Guarded<'a, D: Disk> {
    pub(super) disk: &'a D,
    pub(super) home: &'a Path,
    pub(super) journal: Journal,
}

/// The state of an edit that has prepared everything and changed nothing yet.
struct Prepared<F> {
    /// The journal.
    journal: F,
    /// The new file for `home`, if that file is replaced; it is locked.
    held: Option<F>,
    /// Delays signals, because their handler removes incomplete files.
    _kept: CommitGuard,
}

impl<D: Disk> Guarded<'_, D> {
    fn path(&self, member: &Member) -> PathBuf {
        path_of(self.home, &member.name)
    }

    /// Returns the path of the new file that will replace a file.
    pub(super) fn draft(&self, member: &Member) -> PathBuf {
        self.journal.id.path(&self.path(member), Temporary::Draft)
    }

    fn pending_journal(&self) -> PathBuf {
        self.journal.id.path(self.home, Temporary::PendingJournal)
    }

    fn replaced(&self) -> impl Iterator<Item = &Member> {
        self.journal.members.iter().filter(|member| member.is_replaced)
    }

    fn in_place(&self) -> impl Iterator<Item = &Member> {
        self.journal.members.iter().filter(|member| !member.is_replaced)
    }

    /// Returns the files that get a mark: all that change in place, except the one at `home`, which is next
    /// to the journal.
    fn marked(&self) -> impl Iterator<Item = &Member> {
        self.in_place().filter(|member| !member.name.is_empty())
    }

    /// Writes the journal, the new files and the marks, and then gives the journal its name. From then on the
    /// edit will be completed or undone.
    fn prepare(
        &self,
        changes: &[Change<'_>],
        go_on: &dyn Fn(u64) -> bool,
        expect_same: &dyn Fn() -> io::Result<()>,
    ) -> io::Result<Prepared<D::File>> {
        let Self { disk, home, .. } = *self;
        let (pending, place) = (self.pending_journal(), journal_path(home));
        make_room(disk, home, home)?;
        let journal = disk.create_draft(&pending)?;
        self.write_journal(&journal, changes)?;
        disk.flush(&journal)?;
        if !self.journal.is_undone() {
            disk.flush_folder(&pending)?; // the files that follow are found through it
        }
        let mut held = None;
        let new = self.journal.members.iter().zip(changes).filter(|(member, _)| member.is_replaced);
        for (member, change) in new {
            let (_, file) = write_draft(disk, &self.path(member), &self.draft(member), change.new, go_on)?;
            if member.name.is_empty() {
                held = Some(file); // a program that opens the path after the rename finds it locked
            }
        }
        expect_same()?;
        let kept = commit_guard();
        for member in self.marked() {
            let path = self.path(member);
            make_room(disk, &path, home)?;
            Mark::new(self.journal.id, &member.name, home)?.put(disk, &path)?;
        }
        // Everything that the journal refers to must exist before the journal appears.
        let marked = self.marked().filter(|member| folder_of(&self.path(member)) != folder_of(home));
        flush_folders(disk, self.replaced().chain(marked).map(|member| self.path(member)))?;
        self.replaced()
            .map(|member| self.draft(member))
            .chain([pending.clone()])
            .for_each(|path| disk.keep_draft(&path));
        disk.link(&pending, &place).map_err(|error| or_conflict(error, home))?;
        disk.flush_folder(&place)?;
        let _ = disk.remove(&pending);
        Ok(Prepared { journal, held, _kept: kept })
    }

    fn write_journal(&self, out: &D::File, changes: &[Change<'_>]) -> io::Result<()> {
        let disk = self.disk;
        // One after another: a set may have more files than a process may have open.
        let contents = changes.iter().map(|change| {
            let old = disk.open(&path_of(self.home, change.name))?;
            let mut after: Vec<Cow<'_, [u8]>> = match &change.patches {
                Some(patches) => patches.iter().map(|(_, bytes)| Cow::Borrowed(*bytes)).collect(),
                None => {
                    let old = Old { disk, len: disk.len(&old)?, file: &old };
                    let preview = Preview::new(change.new.clone(), old);
                    vec![Cow::Owned(preview.read(0..change.new.len().min(HEAD))?.to_vec())]
                }
            };
            after.push(Cow::Borrowed(&[])); // for the bytes that are cut off
            Ok(Content { old, after })
        });
        journal::write(disk, out, &self.journal, contents)
    }

    /// Brings the files that change in place into their state before or after the edit.
    pub(super) fn make_in_place(&self, journal: &D::File, state: State) -> io::Result<()> {
        self.in_place().try_for_each(|member| {
            let file = self.disk.open(&self.path(member))?;
            journal::make(self.disk, journal, (member, &file), state)
        })
    }

    /// Moves the new files into place, unless this has been done. Returns the locked file that is now at
    /// `home`, if it was replaced.
    pub(super) fn rename_drafts(&self, held: Option<D::File>) -> io::Result<Option<D::File>> {
        let (disk, mut held) = (self.disk, held);
        for member in self.replaced() {
            let (draft, path) = (self.draft(member), self.path(member));
            if disk.peek(&draft, 0)?.is_none() {
                continue;
            }
            if member.name.is_empty() && held.is_none() {
                let file = disk.open(&draft)?;
                disk.lock(&file)?;
                held = Some(file);
            }
            disk.rename(&draft, &path)?;
        }
        flush_folders(disk, self.replaced().map(|member| self.path(member)))?;
        Ok(held)
    }

    /// Returns whether the journal at `home` belongs to this edit.
    fn is_own(&self) -> io::Result<bool> {
        let head = self.disk.peek(&journal_path(self.home), HEAD_LEN as u64)?;
        Ok(head.and_then(|head| Head::decode(&head)).is_some_and(|head| head.id == self.journal.id))
    }

    /// Removes the journal, and then everything else. Once the journal is removed, the edit is done, even if
    /// the rest fails.
    pub(super) fn finish(&self) -> io::Result<()> {
        let (disk, place) = (self.disk, journal_path(self.home));
        if !self.is_own()? {
            return Ok(());
        }
        let mut finished = None;
        if self.marked().next().is_some() {
            let path = self.journal.id.path(self.home, Temporary::FinishedJournal);
            disk.rename(&place, &path)?;
            finished = Some(path);
        } else {
            disk.remove(&place)?;
        }
        let _ = disk.flush_folder(&place);
        self.clear();
        if let Some(finished) = finished {
            let _ = disk.remove(&finished);
        }
        Ok(())
    }

    /// Undoes an edit that failed before any file was replaced, and returns its error.
    fn give_up(&self, journal: &D::File, error: io::Error) -> io::Error {
        match self.make_in_place(journal, State::Before) {
            Ok(()) => {
                self.abandon();
                error
            }
            Err(_) => self.is_left(&error),
        }
    }

    /// Returns the error for an edit that is half done.
    fn is_left(&self, error: &io::Error) -> io::Error {
        let place = journal_path(self.home);
        let text = format!(
            "{error}; the journal {} can undo or complete the edit, which the next edit does first",
            place.display()
        );
        io::Error::new(error.kind(), text)
    }

    /// Removes the files of an edit that has changed nothing.
    fn abandon(&self) {
        match self.is_own() {
            Ok(true) if self.disk.remove(&journal_path(self.home)).is_err() => return,
            Ok(true) => _ = self.disk.flush_folder(self.home),
            Ok(false) => {}
            Err(_) => return,
        }
        self.clear_last();
        let _ = self.disk.remove(&self.pending_journal());
    }

    /// Calls [`clear`](Self::clear) and flushes, because the journal, which leads to these files, is removed
    /// next.
    pub(super) fn clear_last(&self) {
        self.clear();
        let _ = flush_folders(self.disk, self.journal.members.iter().map(|member| self.path(member)));
    }

    /// Removes the files of an edit whose journal is not in effect. If a file cannot be removed, it does no
    /// harm, or the next edit finds it.
    fn clear(&self) {
        let folder = folder_of(self.home);
        let inside = |member: &&Member| !is_in_linked_folder(folder, &member.name);
        for member in self.replaced().filter(inside) {
            let _ = self.disk.remove(&self.draft(member));
        }
        for member in self.marked().filter(inside) {
            unmark(self.disk, &self.path(member), self.journal.id);
        }
    }
}

fn flush_folders<D: Disk>(disk: &D, paths: impl Iterator<Item = PathBuf>) -> io::Result<()> {
    let folders: BTreeSet<PathBuf> = paths.map(|path| folder_of(&path).to_owned()).collect();
    folders.iter().try_for_each(|folder| disk.flush_folder(&folder.join("file")))
}
