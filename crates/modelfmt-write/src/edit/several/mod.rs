//! Edits of several files that belong together: all of them change, or none.

use std::io;
use std::path::Path;

use super::conflict::conflict;
use super::disk::RealDisk;
use super::guarded::{self, Change, Old};
use super::leftovers::interrupted_by;
use super::lock::{expect_version, lock};
use super::names::{expect_one_name, is_in_linked_folder, is_same_path, is_through_link, path_of};
use super::new_file::NewFile;
use super::patch::{patch, write_page};
use super::recover::clear_leftovers;
use super::replace::replace_name;
use modelfmt_core::source::{FileSource, FileVersion, folder_of};

/// The change of one of several files.
#[derive(Clone, Debug)]
pub struct FileChange {
    /// The path, relative to the folder of the index.
    pub name: String,
    /// The new content.
    pub new: NewFile,
    /// The version of the file that `new` was made for.
    pub before: FileVersion,
}

/// Changes several files of a model. `index` is the path of a file of the model that has the journal next to
/// it; it need not change itself. Returns the number of new bytes that were written.
///
/// A file is changed in place if [every byte keeps its place](NewFile::is_in_place); otherwise a new file
/// replaces it. A [link](is_through_link) is replaced by a file, and the file that it leads to does not
/// change. A journal next to the index, `NAME.modelfmt-undo`, describes the changes of all files. If the edit
/// is interrupted, [`recover`](super::recover()) completes it. No file is changed before the journal is
/// complete. An edit of the index alone works like [`patch`] or [`replace`](super::replace()).
///
/// # Errors
/// If a file cannot be read or written, or is in a folder that is a link, or is to change in place and has
/// other names (hard links); if another process is changing the files; if `go_on`, which is called as in
/// [`replace`](super::replace()), returns false; [`EditConflict`](super::EditConflict) if a file is no longer
/// the version that the change was made for.
pub fn change(index: &Path, files: &[FileChange], go_on: &dyn Fn(u64) -> bool) -> io::Result<u64> {
    let folder = folder_of(index);
    let mut changes = Vec::new();
    for file in files {
        let FileChange { name, new, .. } = file;
        if is_in_linked_folder(folder, name) {
            let text = format!(
                "{name} is in a folder that is a link, and an edit of several files changes nothing outside their folder; name an output"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let old = FileSource::open(folder.join(name))?;
        let patches = new.patches(&old)?;
        if new.len() != modelfmt_core::Source::len(&old)
            || patches.as_ref().is_none_or(|patches| !patches.is_empty())
        {
            // A text file that is rewritten is replaced as a whole. Programs that do not know journals then
            // never see half of each version.
            let is_in_place = new.keeps() && !is_through_link(folder, name);
            let patches = patches.filter(|_| is_in_place);
            let is_index = is_same_path(&folder.join(name), index);
            changes.push((file, Change { name: if is_index { "" } else { name }, new, patches }));
        }
    }
    let nbytes = changes.iter().map(|(_, change)| match &change.patches {
        Some(patches) => patches.iter().map(|(_, bytes)| bytes.len() as u64).sum(),
        None => change.new.new_nbytes(),
    });
    let nbytes = nbytes.sum();
    match &changes[..] {
        [] => {}
        [(file, Change { name: "", new, patches: Some(_) })] => return patch(index, new, &file.before),
        [(file, Change { name: "", new, patches: None })] => replace_name(index, new, &file.before, go_on)?,
        _ => together(index, changes, go_on)?,
    }
    Ok(nbytes)
}

/// Changes several files, or a single file that is not the index.
fn together(
    index: &Path,
    changes: Vec<(&FileChange, Change<'_>)>,
    go_on: &dyn Fn(u64) -> bool,
) -> io::Result<()> {
    let lock = lock(index)?;
    if interrupted_by(index).is_some() {
        return Err(conflict(index));
    }
    if lock.is_held {
        clear_leftovers(&RealDisk, index);
    }
    let folder = folder_of(index);
    let before: Vec<_> = changes.iter().map(|(file, _)| (folder.join(&file.name), &file.before)).collect();
    let expect_same = || {
        let interrupted = before.iter().find(|(path, _)| interrupted_by(path).is_some());
        interrupted.map_or(Ok(()), |(path, _)| Err(conflict(path)))?;
        before.iter().try_for_each(|(path, before)| expect_version(path, before))
    };
    expect_same()?;
    let changes: Vec<Change<'_>> = changes.into_iter().map(|(_, change)| change).collect();
    if let [Change { name, new, patches: Some(patches) }] = &changes[..] {
        let file = super::disk::Disk::open(&RealDisk, &folder.join(name))?;
        let old = Old { disk: &RealDisk, len: file.metadata()?.len(), file: &file };
        if write_page(&old, patches, new.len())? {
            return Ok(());
        }
    }
    for Change { name, .. } in changes.iter().filter(|change| change.patches.is_some()) {
        let path = path_of(index, name);
        expect_one_name(&std::fs::metadata(&path)?)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
    }
    guarded::apply(&RealDisk, index, &changes, go_on, &expect_same)
}

#[cfg(test)]
mod tests;
