//! An edit by a new file, which replaces the old one when it is complete.

use std::fs::File;
use std::io;
use std::path::Path;

use super::new_file::{NewFile, Part};
use super::patch::{expect_version, lock};
use crate::source::FileVersion;
use crate::write::{AtomicFile, InputFiles, Output, Overwrite, Sink};

/// Writes `new` into the file `out`, which appears when it is complete. Bytes that are kept are copied from the file at `path`, by the system if it
/// can. `out` may be `path` itself, which then becomes the new file and keeps its permissions.
///
/// `go_on` is called after each piece, with its number of bytes (at most a gigabyte), and stops the work by returning false.
///
/// # Errors
/// If a file cannot be read or written, the old one is no longer the version `before` that `new` was made for, another process is changing
/// one, or `out` exists and may not be replaced.
pub fn replace(
    path: &Path,
    new: &NewFile,
    before: &FileVersion,
    out: &Path,
    overwrite: Overwrite,
    go_on: &dyn Fn(u64) -> bool,
) -> io::Result<()> {
    let is_same = InputFiles::new([path]).contains(out);
    let old = if is_same { lock(path)? } else { File::open(path)? };
    expect_version(path, before)?;
    // A link itself is not replaced, but the file that it leads to.
    let resolved = if is_same { std::fs::canonicalize(path)? } else { out.to_owned() };
    let overwrite = if is_same { Overwrite::Replace } else { overwrite };
    let file = AtomicFile::create(resolved, overwrite)?;
    for (start, part) in new.parts() {
        match part {
            Part::Bytes(bytes) => {
                file.write_at(start, bytes)?;
                proceed(go_on, bytes.len() as u64)?;
            }
            Part::Kept(range) => {
                let (mut from, mut to) = (range.start, start);
                while from < range.end {
                    let len = PIECE.min(range.end - from);
                    file.copy_from(&old, from, to, len)?;
                    (from, to) = (from.saturating_add(len), to.saturating_add(len));
                    proceed(go_on, len)?;
                }
            }
        }
    }
    file.commit()
}

/// How often progress is reported, and the callback asked whether to go on.
pub(super) const PIECE: u64 = 64 << 20;

pub(super) fn proceed(go_on: &dyn Fn(u64) -> bool, nbytes: u64) -> io::Result<()> {
    if go_on(nbytes) { Ok(()) } else { Err(io::ErrorKind::Interrupted.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(path: &Path) -> FileVersion {
        FileVersion::of(path).unwrap()
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
