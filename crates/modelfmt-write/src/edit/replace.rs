//! Edits that write a new file and replace the old one with it when it is complete.

use std::fs::File;
use std::io;
use std::path::Path;

use super::disk::{Disk, RealDisk};
use super::lock::{expect_version, hold};
use super::new_file::{NewFile, Part};
use crate::{AtomicFile, InputFiles, Output, Overwrite, Sink, commit_guard, replacement_of};
use modelfmt_core::source::FileVersion;

/// Writes `new` to the file `out`, which appears when it is complete. Kept bytes are copied from the file at
/// `path`, by the system if it can. `out` may be `path` itself: its content is then replaced, and its
/// permissions stay.
///
/// `go_on` is called after each piece with its number of bytes (at most a gigabyte). If it returns false, the
/// work stops.
///
/// # Errors
/// If a file cannot be read or written, the old one is no longer the version `before` that `new` was made
/// for, another process is changing one, or `out` exists and may not be replaced.
pub fn replace(
    path: &Path,
    new: &NewFile,
    before: &FileVersion,
    out: &Path,
    overwrite: Overwrite,
    go_on: &dyn Fn(u64) -> bool,
) -> io::Result<()> {
    if InputFiles::new([path]).contains(out) {
        let _lock = hold(path, before)?;
        // A link stays; the file that it leads to is replaced.
        let target = RealDisk.resolve(path)?;
        return in_its_place(&RealDisk, &target, new, go_on, &|| expect_version(path, before));
    }
    let old = File::open(path)?;
    expect_version(path, before)?;
    let file = AtomicFile::create(out, overwrite)?;
    let write = |at: u64, bytes: &[u8]| file.write_at(at, bytes);
    write_parts(new, write, |from, to, len| file.copy_from(&old, from, to, len), go_on)?;
    expect_version(path, before)?;
    file.commit()
}

/// Writes `new` to a file that replaces the one at `path`. If `path` is a link, the link itself is replaced.
pub(super) fn replace_name(
    path: &Path,
    new: &NewFile,
    before: &FileVersion,
    go_on: &dyn Fn(u64) -> bool,
) -> io::Result<()> {
    let _lock = hold(path, before)?;
    in_its_place(&RealDisk, path, new, go_on, &|| expect_version(path, before))
}

/// Writes the new file next to the old one, and renames it to the old name once it is flushed. The copy can
/// take long, so `expect_same` finally checks whether the old file is still the one that was copied.
fn in_its_place<D: Disk>(
    disk: &D,
    path: &Path,
    new: &NewFile,
    go_on: &dyn Fn(u64) -> bool,
    expect_same: &dyn Fn() -> io::Result<()>,
) -> io::Result<()> {
    let draft = replacement_of(path);
    match disk.remove(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {} // another edit has left it
    }
    let renamed = write_draft(disk, path, &draft, new, go_on).and_then(|files| {
        expect_same()?;
        let _kept = commit_guard();
        disk.keep_draft(&draft);
        disk.rename(&draft, path)?;
        Ok(files)
    });
    if renamed.is_err() {
        let _ = disk.remove(&draft); // if this fails, the next writer of the file removes it
    }
    // The new file stays locked until its name is flushed.
    let _files = renamed?;
    disk.flush_folder(path).map_err(|error| {
        io::Error::new(error.kind(), format!("it is replaced, but a loss of power may undo that: {error}"))
    })
}

/// Writes the new content of a file to a new file and flushes it. Returns the old file and the new one.
pub(super) fn write_draft<D: Disk>(
    disk: &D,
    path: &Path,
    draft: &Path,
    new: &NewFile,
    go_on: &dyn Fn(u64) -> bool,
) -> io::Result<(D::File, D::File)> {
    let (old, file) = (disk.open(path)?, disk.create_draft(draft)?);
    let write = |at: u64, bytes: &[u8]| disk.write(&file, at, bytes);
    write_parts(new, write, |from, to, len| disk.copy((&old, from), (&file, to), len), go_on)?;
    disk.keep_permissions(&old, &file);
    disk.flush(&file)?;
    Ok((old, file))
}

/// Writes all parts: new bytes, and bytes copied from the old file.
fn write_parts(
    new: &NewFile,
    mut write: impl FnMut(u64, &[u8]) -> io::Result<()>,
    mut copy: impl FnMut(u64, u64, u64) -> io::Result<()>,
    go_on: &dyn Fn(u64) -> bool,
) -> io::Result<()> {
    for (start, part) in new.parts() {
        match part {
            Part::Bytes(bytes) => {
                write(start, bytes)?;
                proceed(go_on, bytes.len() as u64)?;
            }
            Part::Kept(range) => {
                let (mut from, mut to) = (range.start, start);
                while from < range.end {
                    let len = PIECE.min(range.end - from);
                    copy(from, to, len)?;
                    (from, to) = (from.saturating_add(len), to.saturating_add(len));
                    proceed(go_on, len)?;
                }
            }
        }
    }
    Ok(())
}

/// The number of bytes that are copied between two progress reports. The callback can stop the work at each.
const PIECE: u64 = 64 << 20;

fn proceed(go_on: &dyn Fn(u64) -> bool, nbytes: u64) -> io::Result<()> {
    if go_on(nbytes) { Ok(()) } else { Err(io::ErrorKind::Interrupted.into()) }
}

#[cfg(test)]
mod tests {
    use super::super::failing_disk::read_all;
    use super::super::failing_disk::{FailingDisk, State, masks};
    use super::*;

    const PATH: &str = "folder/m";
    const OLD: &[u8] = b"head, values";
    const NEW: &[u8] = b"longer head, values";

    fn version(path: &Path) -> FileVersion {
        FileVersion::of(path).unwrap()
    }

    fn longer_head() -> NewFile {
        let mut new = NewFile::new();
        new.push(*b"longer head");
        new.keep(4..12);
        new
    }

    /// Makes a replacement on a disk that stops after `steps` operations; returns whether it completed.
    fn stopped(steps: usize, state: State) -> (FailingDisk, bool) {
        let disk = FailingDisk::new(steps, state);
        let is_done = in_its_place(&disk, Path::new(PATH), &longer_head(), &|_| true, &|| Ok(())).is_ok();
        (disk, is_done)
    }

    #[test]
    fn a_replacement_that_stops_anywhere_leaves_the_old_file_or_the_new_one() {
        let old = || State::of(&[(PATH, OLD)]);
        let mut steps = 0;
        loop {
            let is_done = stopped(steps, old()).1;
            let killed = |disk: FailingDisk| disk.killed();
            let ends = masks().map(|mask| {
                Box::new(move |disk: FailingDisk| disk.without_power(mask)) as Box<dyn Fn(_) -> _>
            });
            for end in ends.chain([Box::new(killed) as Box<dyn Fn(_) -> _>]) {
                let disk = FailingDisk::new(usize::MAX, end(stopped(steps, old()).0));
                let found = read_all(&disk, Path::new(PATH)).unwrap();
                assert!(found == NEW || (found == OLD && !is_done), "after {steps}: {found:?}");
                // A leftover does not get in the way of the next replacement.
                let (again, is_whole) = stopped(usize::MAX, end(stopped(steps, old()).0));
                let found = read_all(&again, Path::new(PATH));
                assert!(
                    is_whole && found.is_ok_and(|found| found.starts_with(b"longer head")),
                    "after {steps}"
                );
                assert!(again.open(&replacement_of(Path::new(PATH))).is_err(), "after {steps}");
            }
            if is_done {
                break;
            }
            steps += 1;
        }
        // The file is created, two parts are written, it is flushed and renamed, and its name is flushed.
        assert_eq!(steps, 6);
    }

    #[test]
    fn a_file_is_replaced_and_keeps_its_permissions() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m");
        std::fs::write(&path, b"head, values").unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        }
        let mut new = NewFile::new();
        new.push(*b"longer head");
        new.keep(4..12);
        let other = folder.path().join("other");
        replace(&path, &new, &version(&path), &other, Overwrite::Refuse, &|_| true).unwrap();
        assert_eq!(std::fs::read(&other).unwrap(), b"longer head, values");
        assert!(replace(&path, &new, &version(&path), &other, Overwrite::Refuse, &|_| true).is_err());
        assert!(replace(&path, &new, &version(&path), &path, Overwrite::Refuse, &|_| false).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"head, values");
        replace(&path, &new, &version(&path), &path, Overwrite::Refuse, &|_| true).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"longer head, values");
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_file_that_changes_while_it_is_copied_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("m"), folder.path().join("other"));
        for out in [&path, &other] {
            std::fs::write(&path, OLD).unwrap();
            let before = version(&path);
            let meanwhile = |_| std::fs::write(&path, b"of somebody else").is_ok();
            let error =
                replace(&path, &longer_head(), &before, out, Overwrite::Refuse, &meanwhile).unwrap_err();
            assert!(error.to_string().contains("has been changed"), "{error}");
            assert_eq!(std::fs::read(&path).unwrap(), b"of somebody else");
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
        }
    }

    #[cfg(unix)]
    #[test]
    fn what_a_link_leads_to_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("m"), folder.path().join("link"));
        std::fs::write(&path, b"ab").unwrap();
        std::os::unix::fs::symlink("m", &link).unwrap();
        let mut new = NewFile::new();
        new.push(*b"x");
        new.keep(0..2);
        replace(&link, &new, &version(&link), &link, Overwrite::Refuse, &|_| true).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"xab");
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    }
}
