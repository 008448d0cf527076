//! An edit of several files that belong together: all of them change, or none.

use std::collections::BTreeSet;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::disk::{Disk, RealDisk};
use super::group::{Group, Member, mark};
use super::journal::{Journal, Record, journal_path};
use super::new_file::{NewFile, Patch};
use super::patch::{Recovered, expect_version, is_changed_by, journal_for, lock, not_begun, patch, read_all};
use super::replace::{replace, write_draft};
use crate::source::{FileSource, FileVersion, folder_of};
use crate::write::{Overwrite, commit_guard, draft_of};

/// This many of the first bytes identify a file that was to replace another.
const HEAD: u64 = 4096;

/// A file of several that change together.
#[derive(Clone, Debug)]
pub struct FileChange {
    /// Its path, relative to the folder of the index.
    pub name: String,
    /// What becomes of it.
    pub new: NewFile,
    /// The version of it that `new` was made for.
    pub before: FileVersion,
}

/// What becomes of a file.
struct Change<'a> {
    /// Its path, relative to the folder of the index.
    name: &'a str,
    new: &'a NewFile,
    before: &'a FileVersion,
    /// The patches that are written, if it is changed in place.
    patches: Option<Vec<Patch<'a>>>,
}

/// Whether a file of a set, by its path relative to the folder of the index, is a link, or in a folder that is one. Such a file is not changed
/// in place together with others: a journal that a stranger has put beside the index would change files anywhere.
#[must_use]
pub fn is_through_link(folder: &Path, name: &str) -> bool {
    let inside = Path::new(name).components().filter(|part| matches!(part, Component::Normal(_))).count();
    folder.join(name).ancestors().take(inside).any(Path::is_symlink)
}

/// Changes several files of a model; `index` is one of its files too, and need not be among those that change. Returns how many bytes were written that the files did not have.
///
/// Each is changed in place, if [every byte keeps its place](NewFile::is_in_place) and no link [leads to it](is_through_link), or by a new file. A journal beside the index,
/// `NAME.modelfmt-undo`, says what becomes of all of them: if the edit is interrupted, [`recover`](super::recover()) completes it. Before that journal
/// is complete no file is changed. An edit that changes only one file is made as by [`patch`] and [`replace`].
///
/// # Errors
/// If a file cannot be read or written, is no longer the version that the change was made for, another process is changing them, or `go_on` says no, which is asked as in [`replace`].
pub fn change(index: &Path, files: &[FileChange], go_on: &dyn Fn(u64) -> bool) -> io::Result<u64> {
    let folder = folder_of(index);
    let mut changes = Vec::new();
    for FileChange { name, new, before } in files {
        let old = FileSource::open(folder.join(name))?;
        let patches = new.patches(&old)?;
        if new.len() != crate::Source::len(&old) || patches.as_ref().is_none_or(|patches| !patches.is_empty())
        {
            // A text that is written anew is never half of one and half of the other, for programs that know of no journal.
            let is_in_place = new.keeps() && !is_through_link(folder, name);
            changes.push(Change { name, new, before, patches: patches.filter(|_| is_in_place) });
        }
    }
    let nbytes = changes.iter().map(|change| match &change.patches {
        Some(patches) => patches.iter().map(|(_, bytes)| bytes.len() as u64).sum(),
        None => change.new.new_nbytes(),
    });
    let nbytes = nbytes.sum();
    match &changes[..] {
        [] => {}
        [Change { name, new, before, patches: Some(_) }] => return patch(&folder.join(name), new, before),
        [Change { name, new, before, patches: None }] => {
            let path = folder.join(name);
            replace(&path, new, before, &path, Overwrite::Replace, go_on)?;
        }
        _ => {
            let _lock = lock(index)?;
            let expect_same = || {
                changes.iter().try_for_each(|change| expect_version(&folder.join(change.name), change.before))
            };
            expect_same()?;
            apply(&RealDisk, index, &changes, go_on, &expect_same)?;
        }
    }
    Ok(nbytes)
}

/// Prepares the new files, notes all changes in a journal, and makes them. The copies can take long, so `expect_same` asks after them whether
/// the files are still those that were copied.
fn apply<D: Disk>(
    disk: &D,
    index: &Path,
    changes: &[Change<'_>],
    go_on: &dyn Fn(u64) -> bool,
    expect_same: &dyn Fn() -> io::Result<()>,
) -> io::Result<()> {
    let place = journal_path(index);
    let prepared = prepare(disk, index, changes, go_on).and_then(|group| {
        expect_same()?;
        // From here on a signal has to wait, because it removes files that are not complete.
        let kept = commit_guard();
        commit(disk, index, &group).map(|()| (group, kept))
    });
    let (group, _kept) = prepared.inspect_err(|_| {
        // Nothing has been changed. Files that cannot be removed do no harm, or the next edit finds them.
        if disk.open(&place).is_err() || disk.remove(&place).is_ok() {
            let folder = folder_of(index);
            changes.iter().for_each(|change| clear(disk, &folder.join(change.name), index));
        }
    })?;
    carry_out(disk, index, &group)
}

/// Removes what an edit has prepared for a file.
fn clear<D: Disk>(disk: &D, path: &Path, index: &Path) {
    let _ = disk.resolve(path).and_then(|path| disk.remove(&draft_of(&path)));
    if path != index {
        let _ = disk.remove(&journal_path(path));
    }
}

/// Writes the new files, under other names, and the marks beside those that are changed in place.
fn prepare<D: Disk>(
    disk: &D,
    index: &Path,
    changes: &[Change<'_>],
    go_on: &dyn Fn(u64) -> bool,
) -> io::Result<Group> {
    let folder = folder_of(index);
    let mut members = Vec::with_capacity(changes.len());
    for Change { name, new, patches, .. } in changes {
        let path = folder.join(name);
        let journal = match patches {
            Some(patches) => {
                let file = disk.open(&path)?;
                let old_len = disk.len(&file)?;
                journal_for(disk, &file, patches, (old_len, new.len()))?
            }
            None => draft(disk, &path, new, go_on)?,
        };
        members.push(Member { name: (*name).to_owned(), is_replaced: patches.is_none(), journal });
    }
    let own = index.file_name().unwrap_or_default().to_string_lossy();
    for member in members.iter().filter(|member| !member.is_replaced) {
        let path = folder.join(&member.name);
        if path.file_name() == index.file_name() && folder_of(&path) == folder_of(index) {
            continue; // the journal stands there
        }
        let place = journal_path(&path);
        let _ = disk.remove(&place); // one that leads to no journal means nothing
        let file = disk.create(&place)?;
        disk.write(&file, 0, &mark(&member.name, &own))?;
        disk.flush(&file)?;
    }
    // Everything that the journal refers to has to exist before the journal does.
    let group = Group { members };
    flush_folders(disk, &prepared_for(disk, index, &group)?)?;
    Ok(group)
}

/// The files beside which something was prepared.
fn prepared_for<D: Disk>(disk: &D, index: &Path, group: &Group) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for member in &group.members {
        let path = folder_of(index).join(&member.name);
        if member.is_replaced {
            paths.push(disk.resolve(&path)?);
        } else if folder_of(&path) != folder_of(index) {
            paths.push(path); // a mark beside the index gets its name with the journal
        }
    }
    Ok(paths)
}

fn flush_folders<D: Disk>(disk: &D, paths: &[PathBuf]) -> io::Result<()> {
    let folders: BTreeSet<&Path> = paths.iter().map(|path| folder_of(path)).collect();
    folders.iter().try_for_each(|folder| disk.flush_folder(&folder.join("file")))
}

/// Writes the new file for one that is there, beside it.
fn draft<D: Disk>(disk: &D, path: &Path, new: &NewFile, go_on: &dyn Fn(u64) -> bool) -> io::Result<Journal> {
    let (old, file) = write_draft(disk, path, &draft_of(&disk.resolve(path)?), new, go_on)?;
    let (before, after) = (head(disk, &old)?, head(disk, &file)?);
    let records = vec![Record { at: 0, before, after }];
    Ok(Journal { old_len: disk.len(&old)?, new_len: new.len(), records })
}

fn head<D: Disk>(disk: &D, file: &D::File) -> io::Result<Vec<u8>> {
    let len = disk.len(file)?.min(HEAD);
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
    disk.read(file, 0, &mut bytes)?;
    Ok(bytes)
}

/// Writes the journal. When it is there, the edit is as good as done.
fn commit<D: Disk>(disk: &D, index: &Path, group: &Group) -> io::Result<()> {
    let too_long = || io::Error::new(io::ErrorKind::FileTooLarge, "the edit is too large for a journal");
    let (bytes, place) = (group.encode().ok_or_else(too_long)?, journal_path(index));
    let folder = folder_of(index);
    for member in group.members.iter().filter(|member| member.is_replaced) {
        disk.keep_draft(&draft_of(&disk.resolve(&folder.join(&member.name))?));
    }
    let journal = disk.create(&place)?;
    disk.write(&journal, 0, &bytes)?;
    disk.flush(&journal)?;
    disk.flush_folder(&place)
}

/// Makes the changes in the journal that have not been made yet, and removes the journal.
fn carry_out<D: Disk>(disk: &D, index: &Path, group: &Group) -> io::Result<()> {
    let (place, folder) = (journal_path(index), folder_of(index));
    let path = |member: &Member| folder.join(&member.name);
    for member in group.members.iter().filter(|member| !member.is_replaced) {
        let file = disk.open(&path(member))?;
        for Record { at, after, .. } in
            member.journal.records.iter().filter(|record| !record.after.is_empty())
        {
            disk.write(&file, *at, after)?;
        }
        if disk.len(&file)? != member.journal.new_len {
            disk.set_len(&file, member.journal.new_len)?;
        }
        disk.flush(&file)?;
    }
    let replaced = group.members.iter().filter(|member| member.is_replaced);
    let replaced = replaced.map(|member| disk.resolve(&path(member))).collect::<io::Result<Vec<_>>>()?;
    for target in &replaced {
        let draft = draft_of(target);
        if disk.open(&draft).is_ok() {
            disk.rename(&draft, target)?;
        }
    }
    flush_folders(disk, &replaced)?;
    disk.remove(&place)?;
    disk.flush_folder(&place)?;
    // Without the journal they mean nothing.
    for member in group.members.iter().filter(|member| !member.is_replaced) {
        let place = journal_path(&path(member));
        if disk.open(&place).is_ok() {
            disk.remove(&place)?;
        }
    }
    Ok(())
}

/// Completes an edit whose journal is beside the index.
pub(super) fn redo<D: Disk>(disk: &D, index: &Path) -> io::Result<Recovered> {
    let place = journal_path(index);
    let Some(group) = Group::decode(&read_all(disk, &place)?) else {
        return not_begun(disk, index);
    };
    let folder = folder_of(index);
    for member in &group.members {
        if !is_known(disk, folder, member)? {
            let text = format!(
                "{} says how to complete an edit that was interrupted, but {} is not the file that was being edited; if the files \
                 are good as they are, remove the journal",
                place.display(),
                member.name
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
    }
    let _kept = commit_guard();
    // An edit that was ended right after it had written the journal has not made it last.
    disk.flush(&disk.open(&place)?)?;
    disk.flush_folder(&place)?;
    carry_out(disk, index, &group)?;
    Ok(Recovered::Completed)
}

/// Whether a file is as it was before the edit, as it was to be after it, or in between.
fn is_known<D: Disk>(disk: &D, folder: &Path, member: &Member) -> io::Result<bool> {
    let Member { name, is_replaced, journal } = member;
    let path = folder.join(name);
    if *is_replaced {
        let draft = disk.open(&draft_of(&disk.resolve(&path)?));
        let file = draft.or_else(|_| disk.open(&path))?;
        let after = journal.records.first().map(|record| &record.after);
        return Ok(disk.len(&file)? == journal.new_len && Some(&head(disk, &file)?) == after);
    }
    // A folder that is a link leads to what is not of this set either.
    Ok(!is_through_link(folder, name) && is_changed_by(disk, &disk.open(&path)?, journal)?)
}

#[cfg(test)]
mod tests;
