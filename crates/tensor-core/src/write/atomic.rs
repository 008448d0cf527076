//! Files that appear complete or not at all.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::early::EarlyFlush;
use super::pending;
use super::sink::{NewFiles, Output, Overwrite, Sink};
use crate::error::Error;
use crate::source::check_relative;

/// Writes a file that appears at `path` when `write` is done with it; if that fails, nothing is left behind.
///
/// # Errors
/// Those of `write`; [`Error::Write`] as [`AtomicFile::create`] and [`Output::commit`].
pub fn write_file<F>(
    path: impl AsRef<Path>,
    overwrite: Overwrite,
    write: impl FnOnce(&AtomicFile) -> Result<(), Error<F>>,
) -> Result<(), Error<F>> {
    let path = path.as_ref();
    let failed = |source| Error::Write { path: path.display().to_string(), source };
    let file = AtomicFile::create(path, overwrite).map_err(failed)?;
    write(&file)?;
    file.commit().map_err(failed)
}

/// A file that is written beside its target as `.NAME.partial` and renamed when it is complete.
///
/// Dropping it removes what was written. A process that is killed leaves at most that one file, which the next writer
/// of the same target takes over; a lock on it keeps two writers of one target apart. With the feature `parallel`, on
/// Unix, what has been written is flushed while more is being written.
#[derive(Debug)]
pub struct AtomicFile {
    file: File,
    partial: PathBuf,
    target: PathBuf,
    overwrite: Overwrite,
    committed: bool,
    early: EarlyFlush,
}

impl AtomicFile {
    /// Begins a file that will appear at `target`.
    ///
    /// # Errors
    /// If `target` is a folder, device, pipe or socket, exists and may not be replaced, is being written by somebody else, or its folder
    /// cannot be written to.
    pub fn create(target: impl Into<PathBuf>, overwrite: Overwrite) -> io::Result<Self> {
        let target = target.into();
        refuse_existing(&target, overwrite)?;
        let name = target
            .file_name()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path has no file name"))?;
        let mut partial = std::ffi::OsString::from(".");
        partial.push(name);
        partial.push(".partial");
        let partial = target.with_file_name(partial);
        let file = pending::begin(&partial, || take_over(&partial))?;
        Ok(Self { file, partial, target, overwrite, committed: false, early: EarlyFlush::default() })
    }

    /// Where the file will appear.
    #[must_use]
    pub fn target(&self) -> &Path {
        &self.target
    }

    fn sync(&self) -> io::Result<()> {
        self.early.finish()?;
        self.file.sync_all()
    }

    fn publish(&self) -> io::Result<()> {
        self.sync()?;
        pending::end(&self.partial, || match self.overwrite {
            Overwrite::Replace => {
                refuse_existing(&self.target, self.overwrite)?; // it may have appeared meanwhile
                fs::rename(&self.partial, &self.target)
            }
            Overwrite::Refuse => rename_new(&self.partial, &self.target),
        })?;
        sync_folder(&self.target)
    }
}

/// Opens and locks the partial file, whether it is new or left over from a writer that was killed.
fn take_over(partial: &Path) -> io::Result<File> {
    const ATTEMPTS: usize = 16;
    for _ in 0..ATTEMPTS {
        if fs::symlink_metadata(partial).is_ok_and(|metadata| metadata.is_symlink()) {
            fs::remove_file(partial)?; // no writer of ours makes links, and what it leads to is somebody's
        }
        // Not truncated before the lock is held: another writer may be at work on it.
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(partial)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let text = format!("{} is being written by another process", partial.display());
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, text));
            }
            // File systems without locks: go on without.
            Err(TryLockError::Error(e)) if e.kind() == io::ErrorKind::Unsupported => {}
            Err(TryLockError::Error(e)) => return Err(e),
        }
        // Between open and lock the other writer may have renamed or removed what we hold.
        if !is_same_file(&file, partial) {
            continue;
        }
        // The file has another name, such as its target's if a writer was killed between giving it that and taking this one
        // away: only the name is ours.
        if has_other_names(&file) {
            fs::remove_file(partial)?;
            continue;
        }
        file.set_len(0)?;
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::ResourceBusy, "another process keeps creating the same file"))
}

#[cfg(unix)]
fn is_same_file(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(a), Ok(b)) => a.dev() == b.dev() && a.ino() == b.ino() && b.is_file(),
        _ => false,
    }
}

#[cfg(unix)]
fn has_other_names(file: &File) -> bool {
    use std::os::unix::fs::MetadataExt;
    file.metadata().is_ok_and(|metadata| metadata.nlink() > 1)
}

#[cfg(not(unix))]
const fn has_other_names(_: &File) -> bool {
    false // the standard library does not count them there
}

#[cfg(not(unix))]
fn is_same_file(_: &File, path: &Path) -> bool {
    path.is_file() // an open file cannot be renamed away there
}

fn refuse_existing(target: &Path, overwrite: Overwrite) -> io::Result<()> {
    match fs::symlink_metadata(target) {
        Ok(metadata) if metadata.is_dir() => {
            Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder"))
        }
        Ok(_) if overwrite == Overwrite::Refuse => Err(already_exists()),
        Ok(_) => refuse_special(target),
        Err(_) => Ok(()),
    }
}

/// A rename would put a file where a device, pipe or socket was: for everybody who uses `/dev/null`. A link to one, such
/// as `/dev/stdout`, is refused too; a link to a file is replaced and what it leads to left alone.
fn refuse_special(target: &Path) -> io::Result<()> {
    match fs::metadata(target) {
        Ok(metadata) if !metadata.is_file() => {
            let text = "it exists and is not a regular file, so it is not replaced";
            Err(io::Error::new(io::ErrorKind::InvalidInput, text))
        }
        _ => Ok(()),
    }
}

fn already_exists() -> io::Error {
    io::Error::new(io::ErrorKind::AlreadyExists, "it exists already")
}

/// Renames without replacing: a link fails where a file has appeared meanwhile, a rename would not.
fn rename_new(partial: &Path, target: &Path) -> io::Result<()> {
    match fs::hard_link(partial, target) {
        Ok(()) => fs::remove_file(partial),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Err(already_exists()),
        Err(_) => {
            // File systems without hard links.
            refuse_existing(target, Overwrite::Refuse)?;
            fs::rename(partial, target)
        }
    }
}

#[cfg(unix)]
fn sync_folder(target: &Path) -> io::Result<()> {
    let folder = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    // The rename is done; file systems that cannot flush a folder say so, and nothing is wrong with the file.
    File::open(folder).and_then(|f| f.sync_all()).or(Ok(()))
}

#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
pub(super) fn write_all_at(file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

#[cfg(windows)]
pub(super) fn write_all_at(file: &File, mut offset: u64, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let n = std::os::windows::fs::FileExt::seek_write(file, bytes, offset)?;
        if n == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = bytes.get(n..).unwrap_or_default();
        offset += n as u64;
    }
    Ok(())
}

impl Sink for AtomicFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        write_all_at(&self.file, offset, bytes)?;
        self.early.wrote(&self.file, bytes.len() as u64);
        Ok(())
    }

    fn name(&self) -> String {
        self.target.display().to_string()
    }
}

impl Output for AtomicFile {
    fn read_back(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        crate::source::read_exact_at(&self.file, offset, out)
    }

    fn flush(&self) -> io::Result<()> {
        self.sync()
    }

    fn remove_old(&self) -> io::Result<()> {
        if self.overwrite == Overwrite::Refuse {
            return Ok(()); // there was none, and one that has appeared is somebody's
        }
        refuse_existing(&self.target, self.overwrite)?;
        match fs::remove_file(&self.target) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => sync_folder(&self.target),
        }
    }

    fn commit(mut self) -> io::Result<()> {
        self.publish()?;
        self.committed = true;
        Ok(())
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if !self.committed {
            // Nothing to be done if it fails: the next writer of this target takes the file over.
            let _ = pending::end(&self.partial, || fs::remove_file(&self.partial));
        }
    }
}

/// New files of a folder, for sets; each an [`AtomicFile`].
#[derive(Clone, Debug)]
pub struct NewFolder {
    folder: PathBuf,
    overwrite: Overwrite,
}

impl NewFolder {
    /// Files will be created in `folder`, which must exist.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>, overwrite: Overwrite) -> Self {
        Self { folder: folder.into(), overwrite }
    }
}

impl NewFiles for NewFolder {
    type Output = AtomicFile;
    fn create(&self, path: &str) -> io::Result<AtomicFile> {
        check_relative(path).map_err(|fault| io::Error::new(io::ErrorKind::InvalidInput, fault))?;
        AtomicFile::create(self.folder.join(path), self.overwrite)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_appears_when_committed_and_not_before() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("m.mag");
        let file = AtomicFile::create(&target, Overwrite::Refuse).unwrap();
        file.write_at(2, b"cd").unwrap();
        file.write_at(0, b"ab").unwrap();
        let mut back = [0; 3];
        file.read_back(1, &mut back).unwrap();
        assert_eq!(&back, b"bcd");
        assert_eq!(names(folder.path()), [".m.mag.partial"]);
        file.commit().unwrap();
        assert_eq!(
            (names(folder.path()), fs::read(&target).unwrap()),
            (vec!["m.mag".to_owned()], b"abcd".to_vec())
        );
    }

    #[test]
    fn a_file_that_is_dropped_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = AtomicFile::create(folder.path().join("m"), Overwrite::Refuse).unwrap();
        file.write_at(0, b"ab").unwrap();
        drop(file);
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn existing_files_are_replaced_only_when_allowed() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("m");
        let late = AtomicFile::create(&target, Overwrite::Refuse).unwrap();
        fs::write(&target, "old").unwrap();
        assert_eq!(late.commit().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        let refused = AtomicFile::create(&target, Overwrite::Refuse).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        let file = AtomicFile::create(&target, Overwrite::Replace).unwrap();
        file.write_at(0, b"new").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"old");
        file.commit().unwrap();
        assert_eq!(
            (names(folder.path()), fs::read(&target).unwrap()),
            (vec!["m".to_owned()], b"new".to_vec())
        );
    }

    #[test]
    fn two_writers_of_one_target_keep_apart_and_leftovers_are_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("m");
        fs::write(folder.path().join(".m.partial"), "left over by a writer that was killed").unwrap();
        let first = AtomicFile::create(&target, Overwrite::Replace).unwrap();
        let second = AtomicFile::create(&target, Overwrite::Replace).unwrap_err();
        assert_eq!(second.kind(), io::ErrorKind::ResourceBusy);
        first.write_at(0, b"x").unwrap();
        first.commit().unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"x");
        assert_eq!(names(folder.path()), ["m"]);
    }

    #[test]
    fn folders_and_missing_folders_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refused = AtomicFile::create(folder.path(), Overwrite::Replace).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::IsADirectory);
        let missing = AtomicFile::create(folder.path().join("no/m"), Overwrite::Replace).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        let folder = NewFolder::new(folder.path(), Overwrite::Refuse);
        assert!(folder.create("../x").is_err());
    }

    #[cfg(unix)]
    #[test]
    fn what_is_not_a_file_is_never_replaced() {
        use std::os::unix::fs::{FileTypeExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (socket, link) = (folder.path().join("socket"), folder.path().join("link"));
        let late = AtomicFile::create(&socket, Overwrite::Replace).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        symlink(&socket, &link).unwrap();
        for target in [&socket, &link] {
            let refused = AtomicFile::create(target, Overwrite::Replace).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput, "{}", target.display());
        }
        assert_eq!(late.commit().unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert!(fs::symlink_metadata(&socket).unwrap().file_type().is_socket());
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(names(folder.path()), ["link", "socket"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_to_a_file_is_replaced_and_the_file_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let new = AtomicFile::create(&link, Overwrite::Replace).unwrap();
        new.write_at(0, b"new").unwrap();
        new.commit().unwrap();
        assert_eq!((fs::read(&file).unwrap(), fs::read(&link).unwrap()), (b"old".to_vec(), b"new".to_vec()));
    }

    #[cfg(unix)]
    #[test]
    fn a_partial_file_that_is_a_link_leads_to_no_other_file() {
        let folder = tempfile::tempdir().unwrap();
        let (target, partial) = (folder.path().join("m"), folder.path().join(".m.partial"));
        let (file, missing) = (folder.path().join("file"), folder.path().join("missing"));
        fs::write(&file, "old").unwrap();
        let link: [fn(&Path, &Path); 3] = [
            |file, partial| fs::hard_link(file, partial).unwrap(),
            |file, partial| std::os::unix::fs::symlink(file, partial).unwrap(),
            |file, partial| std::os::unix::fs::symlink(file.with_file_name("missing"), partial).unwrap(),
        ];
        for link in link {
            link(&file, &partial);
            let new = AtomicFile::create(&target, Overwrite::Replace).unwrap();
            new.write_at(0, b"new").unwrap();
            assert_eq!(fs::read(&file).unwrap(), b"old");
            new.commit().unwrap();
            assert_eq!(
                (fs::read(&target).unwrap(), fs::read(&file).unwrap()),
                (b"new".to_vec(), b"old".to_vec())
            );
            assert!(!missing.exists() && !partial.exists());
        }
        assert!(fs::symlink_metadata(&target).unwrap().is_file());
    }
}
