//! Undoes or completes an edit that was interrupted.

use std::io;
use std::path::Path;

use super::disk::{Disk, RealDisk};
use super::guarded::Guarded;
use super::journal::{self, Journal, Member, Read, State};
use super::leftovers::{Leftover, find_leftover, leftover_at};
use super::lock::lock;
use super::names::{
    Temporary, is_in_linked_folder, is_same_path, is_through_link, journal_path, path_of, target_of,
};
use crate::{commit_guard, replacement_of};
use modelfmt_core::source::folder_of;

/// The result of [`recover`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovered {
    /// No edit was interrupted.
    Nothing,
    /// The file is back in its state before the edit.
    Undone,
    /// The edit had not changed anything yet. Its temporary files were removed.
    NotBegun,
    /// An edit of several files was interrupted; all of them now have their new content.
    Completed,
}

/// Undoes an interrupted edit of a file, or completes an interrupted edit of several files, and removes files
/// that other edits have left. Call this before you open a file to change it.
///
/// # Errors
/// If a file or the journal cannot be read or written, another process is changing it, or the file is not the
/// one that the journal describes.
pub fn recover(path: &Path) -> io::Result<Recovered> {
    let disk = &RealDisk;
    let (home, found) = find_leftover(disk, path);
    let home = match found {
        // The leftovers of an edit of several files are next to the link to the index.
        Leftover::Nothing => match [home.clone(), target_of(&home).into_owned()]
            .into_iter()
            .find(|home| has_leftovers(disk, home))
        {
            Some(home) => home,
            None => return Ok(Recovered::Nothing),
        },
        _ => home,
    };
    let lock = match lock(&home) {
        Ok(lock) => lock,
        Err(error) if found == Leftover::Journal => return Err(error),
        Err(error) if found == Leftover::Mark && error.kind() == io::ErrorKind::NotFound => {
            disk.remove(&journal_path(path))?; // its index is gone
            return Ok(Recovered::Nothing);
        }
        // Another edit of the file is running, which is no error.
        Err(_) => return Ok(Recovered::Nothing),
    };
    let recovered = finish_interrupted(disk, &home)?;
    let cleared = if lock.is_held { clear_leftovers(disk, &home) } else { Recovered::Nothing };
    if lock.is_held && found == Leftover::Mark && find_leftover(disk, path).1 == Leftover::Mark {
        disk.remove(&journal_path(path))?;
    }
    Ok(if recovered == Recovered::Nothing { cleared } else { recovered })
}

/// Undoes or completes the edit whose journal is next to a file.
pub(super) fn finish_interrupted<D: Disk>(disk: &D, home: &Path) -> io::Result<Recovered> {
    match leftover_at(disk, home) {
        (_, Leftover::Empty) => {
            let place = journal_path(home);
            disk.remove(&place)?;
            disk.flush_folder(&place)?;
            Ok(Recovered::NotBegun)
        }
        (index, Leftover::Journal) if index == home => undo_or_complete(disk, home),
        _ => Ok(Recovered::Nothing),
    }
}

fn undo_or_complete<D: Disk>(disk: &D, home: &Path) -> io::Result<Recovered> {
    let place = journal_path(home);
    let file = disk.open(&place)?;
    let read = journal::read(disk, &file, |journal| expect_known(disk, home, journal, None))?;
    let Read::Journal(journal) = read else {
        let text = format!(
            "{} is not the whole journal of an edit, so nobody knows what was changed; verify the file, and if it is good, \
             remove the journal",
            place.display()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    };
    expect_known(disk, home, &journal, Some(&file))?;
    let is_undone = journal.is_undone();
    let edit = Guarded { disk, home, journal };
    let _kept = commit_guard();
    // An edit that was killed right after it wrote the journal may not have flushed it.
    disk.flush(&file)?;
    disk.flush_folder(&place)?;
    edit.make_in_place(&file, if is_undone { State::Before } else { State::After })?;
    let _held = edit.rename_drafts(None)?;
    edit.finish()?;
    Ok(if is_undone { Recovered::Undone } else { Recovered::Completed })
}

/// Checks that the files are those that a journal describes. Without the journal's file, only their lengths
/// are checked.
fn expect_known<D: Disk>(disk: &D, home: &Path, journal: &Journal, file: Option<&D::File>) -> io::Result<()> {
    for member in &journal.members {
        if !is_known(disk, home, journal, (member, file))? {
            let (place, name) = (journal_path(home), path_of(home, &member.name));
            let text = format!(
                "{} says how to undo or complete an edit that was interrupted, but {} is not the file that was being edited; if \
                 the file is good as it is, remove the journal",
                place.display(),
                name.display()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
    }
    Ok(())
}

/// Returns whether a file is in its state before the edit, after it, or in between. If it is to be replaced,
/// also whether the new file is the right one. Links are not followed.
fn is_known<D: Disk>(
    disk: &D,
    home: &Path,
    journal: &Journal,
    (member, file): (&Member, Option<&D::File>),
) -> io::Result<bool> {
    let (folder, path) = (folder_of(home), path_of(home, &member.name));
    if !member.is_replaced {
        let is_link =
            if member.name.is_empty() { home.is_symlink() } else { is_through_link(folder, &member.name) };
        if is_link {
            return Ok(false);
        }
        let found = disk.open(&path)?;
        return match file {
            Some(file) => journal::is_between(disk, file, (member, &found)),
            None => Ok(member.can_have(disk.len(&found)?)),
        };
    }
    if is_in_linked_folder(folder, &member.name) {
        return Ok(false);
    }
    let is_in = |path: &Path, state: State| {
        let found = disk.open(path)?;
        match file {
            Some(file) => journal::is_made(disk, file, (member, &found), state),
            None => Ok(disk.len(&found)? == member.len(state)),
        }
    };
    let (draft, is_there) = (journal.id.path(&path, Temporary::Draft), disk.peek(&path, 0)?.is_some());
    if disk.peek(&draft, 0)?.is_none() {
        return Ok(is_there && is_in(&path, State::After)?);
    }
    // Another program may have put a file of its own there, which must not be lost. Where there is no file, or
    // only a link, none can be lost.
    let is_old = !is_there || is_in(&path, State::Before)? || is_in(&path, State::After)?;
    Ok(is_old && is_in(&draft, State::After)?)
}

/// Returns whether edits of a file have left files that have no effect.
fn has_leftovers<D: Disk>(disk: &D, home: &Path) -> bool {
    let replacement = replacement_of(home);
    let names = disk.list(home).unwrap_or_default();
    names.iter().any(|name| {
        Temporary::journal_of(home, name).is_some()
            || replacement.file_name().is_some_and(|own| own == &**name)
    })
}

/// Removes files without effect that interrupted edits of a file have left, because the edits had not begun
/// or were done. The file must be locked, and its journal must have been undone or completed.
pub(super) fn clear_leftovers<D: Disk>(disk: &D, home: &Path) -> Recovered {
    let mut cleared = Recovered::Nothing;
    for name in disk.list(home).unwrap_or_default() {
        let Some(what) = Temporary::journal_of(home, &name) else { continue };
        let path = folder_of(home).join(name);
        let Ok(Some(_)) = disk.peek(&path, 0) else { continue };
        let Ok(file) = disk.open(&path) else { continue };
        if let Ok(Read::Journal(journal)) = journal::read(disk, &file, |_| Ok(()))
            && is_same_path(&path, &journal.id.path(home, what))
        {
            Guarded { disk, home, journal }.clear_last();
        }
        if disk.remove(&path).is_ok() {
            cleared =
                if what == Temporary::FinishedJournal { Recovered::Completed } else { Recovered::NotBegun };
        }
    }
    let replacement = replacement_of(home);
    if let Ok(Some(_)) = disk.peek(&replacement, 0)
        && let Ok(file) = disk.open(&replacement)
        && disk.lock(&file).is_ok()
    {
        let _ = disk.remove(&replacement);
    }
    cleared
}
