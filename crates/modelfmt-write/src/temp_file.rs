//! Temporary files. They are always new. If the process is killed, the next writer of the same target removes
//! them.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::identity::InputFiles;
use super::unfinished;
use modelfmt_core::source::folder_of;

const START: &str = ".modelfmt-";
const ENDING: &str = ".partial";
/// The number of hexadecimal digits that distinguish the temporary files of one target.
const RANDOM_LEN: usize = 8;

/// The path of a temporary file. Dropping this removes the file.
#[derive(Debug)]
pub(super) struct TempFile {
    path: PathBuf,
    is_renamed: bool,
}

impl TempFile {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the file another name.
    ///
    /// # Errors
    /// The errors of `rename`; the file is then still a temporary file.
    pub(super) fn rename(&mut self, rename: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
        unfinished::end(&self.path, || rename(&self.path))?;
        self.is_renamed = true;
        Ok(())
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if !self.is_renamed {
            // If this fails, the next writer of the target removes the file.
            let _ = unfinished::end(&self.path, || fs::remove_file(&self.path));
        }
    }
}

/// Keeps the writers of one target apart, by a lock on the first temporary file of each. The lock on the
/// temporary file of a set's index covers all files of the set, so the other files can be closed.
#[derive(Debug)]
pub(super) struct TargetLock {
    /// The common prefix of the names of all temporary files for this target.
    prefix: String,
    /// Held until the last file under this lock is dropped.
    _lock: File,
}

/// The result of locking a file.
enum Lock {
    Held,
    Elsewhere,
    /// The file system has no locks.
    None,
}

impl TargetLock {
    /// Begins the first file for `target`, and removes files that killed writers of the same target have
    /// left.
    ///
    /// # Errors
    /// If the file cannot be created, or another process is writing that target.
    pub(super) fn begin(
        target: &Path,
        is_private: bool,
        inputs: &InputFiles,
    ) -> io::Result<(Arc<Self>, File, TempFile)> {
        const ATTEMPTS: usize = 16;
        let name = target
            .file_name()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path has no file name"))?;
        let folder = folder_of(target);
        let prefix = prefix(name);
        for _ in 0..ATTEMPTS {
            let (file, temp) = create(folder, &prefix, is_private)?;
            let lock = lock(&file)?;
            // Between creating and locking, another writer may have taken the file for a leftover and removed
            // it.
            if matches!(lock, Lock::Elsewhere) || !is_at(&file, temp.path()) {
                continue;
            }
            // The file exists and is locked before others are examined, so that of two writers at least one
            // sees the other.
            if matches!(lock, Lock::Held) {
                clear(folder, &prefix, (&file, temp.path()), inputs)?;
            }
            let target_lock = Self { prefix, _lock: file.try_clone()? };
            return Ok((Arc::new(target_lock), file, temp));
        }
        Err(io::Error::new(io::ErrorKind::ResourceBusy, "another process keeps removing the temporary file"))
    }

    /// Begins another file of the same set.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub(super) fn another(&self, target: &Path, is_private: bool) -> io::Result<(File, TempFile)> {
        create(folder_of(target), &self.prefix, is_private)
    }
}

/// Returns `.modelfmt-`, a hash of the target's name, and `-`. With the name itself, the result could be too
/// long.
fn prefix(name: &OsStr) -> String {
    // FNV-1a is the same in every build, so a newer version removes what an older one has left.
    let step = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = name.as_encoded_bytes().iter().fold(0xcbf2_9ce4_8422_2325, step);
    format!("{START}{hash:016x}-")
}

/// Returns the path of a temporary file next to `target`. `middle` distinguishes it from others of that
/// target. If `middle` is eight hexadecimal digits, the next writer of the target removes the file.
pub(crate) fn temporary_path(target: &Path, middle: &str) -> PathBuf {
    let prefix = prefix(target.file_name().unwrap_or_default());
    folder_of(target).join(format!("{prefix}{middle}{ENDING}"))
}

/// Returns the part of a temporary file's name that distinguishes it from others of `target`; `None` for
/// other files.
pub(crate) fn middle_of<'a>(target: &Path, name: &'a str) -> Option<&'a str> {
    name.strip_prefix(&prefix(target.file_name().unwrap_or_default()))?.strip_suffix(ENDING)
}

/// Returns the path of a file that will replace another soon, or that has just made room for one. If it is left
/// behind, the next writer of that target removes it.
#[must_use]
pub fn replacement_of(target: &Path) -> PathBuf {
    temporary_path(target, &format!("{:0RANDOM_LEN$x}", 0))
}

/// Creates a temporary file at `path`. Only its owner can read it, and its lock shows other writers that it
/// is in use.
pub(crate) fn create_draft(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = unfinished::begin(path, || options.open(path))?;
    let _ = file.try_lock(); // some file systems have no locks
    Ok(file)
}

/// Keeps a temporary file even if a signal ends the program.
pub(crate) fn keep_draft(path: &Path) {
    let _ = unfinished::end(path, || Ok(()));
}

/// Creates a new file. An existing file is never opened for writing.
fn create(folder: &Path, prefix: &str, is_private: bool) -> io::Result<(File, TempFile)> {
    const ATTEMPTS: u32 = 64;
    let random = RandomState::new(); // different keys each time
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    if is_private {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    #[cfg(not(unix))]
    let _ = is_private;
    for attempt in 0..ATTEMPTS {
        let number = random.hash_one(attempt) & 0xffff_ffff;
        let path = folder.join(format!("{prefix}{number:0RANDOM_LEN$x}{ENDING}"));
        match unfinished::begin(&path, || options.open(&path)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            opened => return opened.map(|file| (file, TempFile { path, is_renamed: false })),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "no name is free for a temporary file"))
}

fn lock(file: &File) -> io::Result<Lock> {
    match file.try_lock() {
        Ok(()) => Ok(Lock::Held),
        Err(TryLockError::WouldBlock) => Ok(Lock::Elsewhere),
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(Lock::None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Removes the temporary files of killed writers. A file is removed only if it is certain to be one: a
/// regular file with such a name and the same owner, not locked, and not an input.
fn clear(folder: &Path, prefix: &str, own: (&File, &Path), inputs: &InputFiles) -> io::Result<()> {
    let mut left = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    for entry in entries.flatten().filter(|entry| is_name(&entry.file_name(), prefix)) {
        let path = entry.path();
        if own.1.file_name() == path.file_name() || inputs.contains(&path) || !is_ours(&path, own.0) {
            continue;
        }
        let Ok(file) = OpenOptions::new().write(true).open(&path) else { continue };
        match lock(&file) {
            Ok(Lock::Elsewhere) => {
                let text = format!(
                    "another process is writing it ({} is locked); wait until it is done",
                    path.display()
                );
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, text));
            }
            Ok(Lock::Held) if is_at(&file, &path) => left.push((file, path)),
            _ => {}
        }
    }
    for (_lock, path) in left {
        let _ = fs::remove_file(path); // a file that cannot be removed does no harm
    }
    Ok(())
}

/// Returns whether a path is the temporary file of a killed writer, locked by nobody.
#[must_use]
pub fn is_leftover(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with(START)
        && name.ends_with(ENDING)
        && fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file())
        && File::open(path).is_ok_and(|file| matches!(lock(&file), Ok(Lock::Held)))
}

fn is_name(name: &OsString, prefix: &str) -> bool {
    let random =
        name.to_str().and_then(|name| name.strip_prefix(prefix)).and_then(|rest| rest.strip_suffix(ENDING));
    random.is_some_and(|random| random.len() == RANDOM_LEN && random.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Returns whether a file can be a leftover of a writer of this library. Such a file may also have its
/// target's name, if the writer was killed between setting that name and removing this one.
#[cfg(unix)]
fn is_ours(path: &Path, own: &File) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (fs::symlink_metadata(path), own.metadata()) {
        (Ok(found), Ok(own)) => found.is_file() && found.uid() == own.uid(),
        _ => false,
    }
}

#[cfg(not(unix))]
fn is_ours(path: &Path, _: &File) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file())
}

/// Returns whether the path still leads to an open file.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(a), Ok(b)) => a.dev() == b.dev() && a.ino() == b.ino() && b.is_file(),
        _ => false,
    }
}

#[cfg(not(unix))]
fn is_at(_: &File, path: &Path) -> bool {
    path.is_file() // on these systems an open file cannot be renamed
}
