//! Files that appear complete or not at all.

mod flush;

use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::early_flush::EarlyFlush;
use super::identity::InputFiles;
use super::sink::{NewFiles, Output, Overwrite, Sink};
use super::temp_file::{TargetLock, TempFile};
use flush::Flush;
use modelfmt_core::WriteError;
use modelfmt_core::source::{check_relative, folder_of};

/// Calls `write` with a new file, which appears at `path` when `write` returns. After an error nothing is
/// left behind.
///
/// # Errors
/// The errors of `write`; [`WriteError::Write`] for the errors of [`AtomicFile::create`] and [`Output::commit`].
pub fn write_file<F>(
    path: impl AsRef<Path>,
    overwrite: Overwrite,
    write: impl FnOnce(&AtomicFile) -> Result<(), WriteError<F>>,
) -> Result<(), WriteError<F>> {
    let path = path.as_ref();
    let failed = |source| WriteError::Write { path: path.display().to_string(), source };
    let file = AtomicFile::create(path, overwrite).map_err(failed)?;
    write(&file)?;
    file.commit().map_err(failed)
}

/// A file that is written next to its target as `.modelfmt-….partial`, and renamed when it is complete.
///
/// The temporary file is always new: no existing file is opened for writing. Dropping the `AtomicFile`
/// removes it. A process that is killed leaves at most this one file, and the next writer of the same target
/// removes it. A lock on the file keeps two writers of one target apart. With the feature `parallel`, on
/// Unix, written bytes are flushed while more are being written.
///
/// On Unix a file that is replaced keeps its permissions, and its owner and group if the process may set
/// them; until then only the owner can read the new file. Other attributes, such as access control lists, are
/// not kept. If the target is a symbolic link, the link itself is replaced, and the file that it leads to
/// does not change.
#[derive(Debug)]
pub struct AtomicFile {
    /// `None` once the file is finished.
    file: Option<File>,
    temp: TempFile,
    target: PathBuf,
    overwrite: Overwrite,
    inputs: InputFiles,
    /// The metadata of the file that was at the target initially, for its permissions.
    old: Option<Metadata>,
    target_lock: Arc<TargetLock>,
    early: EarlyFlush,
    flush: Flush,
}

impl AtomicFile {
    /// Begins a file that will appear at `target`.
    ///
    /// # Errors
    /// If `target` is a folder, device, pipe or socket, exists and may not be replaced, or is being written
    /// by another process; if its folder cannot be written to.
    pub fn create(target: impl Into<PathBuf>, overwrite: Overwrite) -> io::Result<Self> {
        Self::create_protecting(target, overwrite, &InputFiles::default())
    }

    /// Checks whether [`create_protecting`](Self::create_protecting) would refuse the target, without
    /// creating anything.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] for a file that may not be replaced; other errors for a folder, a
    /// device or an input file.
    pub fn check_target(target: &Path, overwrite: Overwrite, inputs: &InputFiles) -> io::Result<()> {
        refuse_existing(target, overwrite, inputs)
    }

    /// Begins a file that will appear at `target`. Fails if that is one of `inputs` under any name.
    ///
    /// # Errors
    /// If the folder cannot be written to, the file exists and may not be replaced, or `target` is one of
    /// `inputs`.
    pub fn create_protecting(
        target: impl Into<PathBuf>,
        overwrite: Overwrite,
        inputs: &InputFiles,
    ) -> io::Result<Self> {
        Self::begin(target.into(), overwrite, inputs, None, Flush::Each)
    }

    /// Begins the first file under a new target lock, or another file under `target_lock`.
    fn begin(
        target: PathBuf,
        overwrite: Overwrite,
        inputs: &InputFiles,
        target_lock: Option<Arc<TargetLock>>,
        flush: Flush,
    ) -> io::Result<Self> {
        refuse_existing(&target, overwrite, inputs)?;
        let old = fs::metadata(&target).ok().filter(|_| overwrite == Overwrite::Replace);
        let (target_lock, file, temp) = match target_lock {
            Some(target_lock) => {
                let (file, temp) = target_lock.another(&target, old.is_some())?;
                (target_lock, file, temp)
            }
            None => TargetLock::begin(&target, old.is_some(), inputs)?,
        };
        let (file, early) = (Some(file), EarlyFlush::default());
        Ok(Self { file, temp, target, overwrite, inputs: inputs.clone(), old, target_lock, early, flush })
    }

    /// Returns the path at which the file will appear.
    #[must_use]
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Copies `len` bytes of another file, from its byte `from` on, to byte `to` of this one. The system
    /// makes the copy; file systems that can share bytes do not copy any. This moves the cursors of both
    /// files, so only one thread may do it at a time.
    ///
    /// # Errors
    /// If one of the files cannot be read or written.
    pub fn copy_from(&self, other: &File, from: u64, to: u64, len: u64) -> io::Result<()> {
        let file = self.file()?;
        copy_range((other, from), (file, to), len)?;
        self.early.wrote(file, len);
        Ok(())
    }

    fn file(&self) -> io::Result<&File> {
        self.file.as_ref().ok_or_else(|| io::Error::other("the file is finished already"))
    }

    fn publish(&mut self) -> io::Result<()> {
        let Self { temp, target, inputs, overwrite, .. } = self;
        let (target, overwrite) = (&**target, *overwrite);
        temp.rename(|temp_path| match overwrite {
            Overwrite::Replace => {
                refuse_existing(target, overwrite, inputs)?; // it may have appeared since
                fs::rename(temp_path, target)
            }
            Overwrite::Refuse => rename_new(temp_path, target),
        })?;
        match self.flush {
            Flush::Each => flush::names(folder_of(&self.target)),
            Flush::Together => Ok(()),
        }
    }
}

fn refuse_existing(target: &Path, overwrite: Overwrite, inputs: &InputFiles) -> io::Result<()> {
    match fs::symlink_metadata(target) {
        Ok(metadata) if metadata.is_dir() => {
            Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder"))
        }
        Ok(_) if inputs.contains(target) => {
            let text = "it is a file of the input, which must not be overwritten; choose another name";
            Err(io::Error::new(io::ErrorKind::InvalidInput, text))
        }
        Ok(_) => match refuse_special(target) {
            Ok(()) if overwrite == Overwrite::Refuse => Err(already_exists()),
            checked => checked,
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // For example a name that is too long. The temporary file has another name, so the error would come
        // only at the end.
        Err(error) => Err(error),
    }
}

/// Refuses devices, pipes and sockets: a rename would replace them with a file, which would break `/dev/null`
/// for every program. A link to one, such as `/dev/stdout`, is refused too, also while it leads to a file. Any
/// other link to a file is replaced, and the file does not change.
fn refuse_special(target: &Path) -> io::Result<()> {
    let text = match fs::metadata(target) {
        Ok(metadata) if !metadata.is_file() => "it exists and is not a regular file, so it is not replaced",
        Ok(_) if leads_to_descriptor(target) => {
            "it leads to an open file of a process, so it is not replaced; name a file"
        }
        _ => return Ok(()),
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

/// Checks whether a path is a link of the system to a descriptor, such as `/dev/stdout` or `/proc/self/fd/1`,
/// or leads to one.
fn leads_to_descriptor(path: &Path) -> bool {
    // As many as Linux follows.
    const MAX_LINKS: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(next) = fs::read_link(&path) else { return false };
        let folder = folder_of(&path).to_owned();
        let is_of_system = |folder: PathBuf| folder.starts_with("/proc") || folder == Path::new("/dev");
        if fs::canonicalize(&folder).is_ok_and(is_of_system) {
            return true;
        }
        path = folder.join(next);
    }
    false
}

fn already_exists() -> io::Error {
    io::Error::new(io::ErrorKind::AlreadyExists, "it exists already")
}

/// Gives a new file the permissions of the one that it will replace. If the process may not set them, only
/// the owner can access the file.
#[cfg(unix)]
pub(crate) fn keep_permissions(file: &File, old: &Metadata) {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
    let Ok(new) = file.metadata() else { return };
    // Set before the permissions: changing the owner of a file removes some of them.
    if new.uid() != old.uid() {
        let _ = fchown(file, Some(old.uid()), None);
    }
    let has_group = new.gid() == old.gid() || fchown(file, None, Some(old.gid())).is_ok();
    let mode = old.mode() & 0o777;
    // Another group gets no more than everybody has, because the permissions were for the old group.
    let mode = if has_group { mode } else { (mode & !0o070) | (mode & ((mode & 0o007) << 3)) };
    let _ = file.set_permissions(fs::Permissions::from_mode(mode));
}

#[cfg(not(unix))]
pub(crate) const fn keep_permissions(_: &File, _: &Metadata) {}

/// Copies `len` bytes from an offset of one file to an offset of another; the system makes the copy if it
/// can.
pub(crate) fn copy_range((from, at): (&File, u64), (to, place): (&File, u64), len: u64) -> io::Result<()> {
    use std::io::{Read as _, Seek as _, SeekFrom};
    let (mut from, mut to) = (from, to);
    from.seek(SeekFrom::Start(at))?;
    to.seek(SeekFrom::Start(place))?;
    let copied = io::copy(&mut from.take(len), &mut to)?;
    if copied == len { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Renames without replacing: a hard link fails if a file has appeared at the target, unlike a rename.
fn rename_new(temp_path: &Path, target: &Path) -> io::Result<()> {
    if link_new(temp_path, target)? { fs::remove_file(temp_path) } else { Ok(()) }
}

/// Gives a file another name, at which no file may exist. Returns whether the old name still exists; on file
/// systems without hard links, it does not.
pub(crate) fn link_new(file: &Path, target: &Path) -> io::Result<bool> {
    match fs::hard_link(file, target) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Err(already_exists()),
        Err(_) => {
            refuse_existing(target, Overwrite::Refuse, &InputFiles::default())?;
            fs::rename(file, target).map(|()| false)
        }
    }
}

#[cfg(unix)]
pub(crate) fn write_all_at(file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

#[cfg(windows)]
pub(crate) fn write_all_at(file: &File, mut offset: u64, mut bytes: &[u8]) -> io::Result<()> {
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
        let file = self.file()?;
        write_all_at(file, offset, bytes)?;
        self.early.wrote(file, bytes.len() as u64);
        Ok(())
    }

    fn name(&self) -> String {
        self.target.display().to_string()
    }
}

impl Output for AtomicFile {
    fn read_back(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        modelfmt_core::source::read_exact_at(self.file()?, offset, out)
    }

    fn finish(&mut self) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        self.early.finish()?;
        if let Some(old) = &self.old {
            // The permissions may have been changed since.
            keep_permissions(file, fs::metadata(&self.target).as_ref().unwrap_or(old));
        }
        if self.flush == Flush::Each {
            flush::bytes(file)?;
        }
        self.file = None;
        Ok(())
    }

    fn remove_old(&self) -> io::Result<()> {
        if self.overwrite == Overwrite::Refuse {
            return Ok(()); // there was none; a file that has appeared since belongs to another process
        }
        refuse_existing(&self.target, self.overwrite, &self.inputs)?;
        match fs::remove_file(&self.target) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => flush::names(folder_of(&self.target)),
        }
    }

    fn commit(mut self) -> io::Result<()> {
        self.finish()?;
        self.publish()
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        // Unflushed bytes of a dropped file need not reach the disk; a running flush would wait for them.
        if let Some(file) = &self.file {
            let _ = file.set_len(0);
        }
    }
}

/// Creates the new files of a set in a folder. Each is an [`AtomicFile`].
///
/// While the first file exists, the others count as files of the same set, and other writers of that set are
/// kept away.
#[derive(Clone, Debug)]
pub struct NewFolder {
    folder: PathBuf,
    overwrite: Overwrite,
    inputs: InputFiles,
    target_lock: Arc<Mutex<Weak<TargetLock>>>,
    flush: Flush,
}

impl NewFolder {
    /// Creates files in `folder`, which must exist.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>, overwrite: Overwrite) -> Self {
        let (folder, inputs, flush) = (folder.into(), InputFiles::default(), Flush::Each);
        Self { folder, overwrite, inputs, target_lock: Arc::default(), flush }
    }

    /// Protects these input files from being replaced, under any name.
    #[must_use]
    pub fn protecting(self, inputs: InputFiles) -> Self {
        Self { inputs, ..self }
    }

    /// Flushes all files together, by [`flush`](Self::flush) and [`flush_names`](Self::flush_names), if the
    /// system can. For thousands of small files, flushing each one twice would take most of the time.
    #[must_use]
    pub fn flushed_together(self) -> Self {
        Self { flush: Flush::OF_MANY, ..self }
    }

    /// Flushes the bytes of all files that are finished. Call this before the first of them is committed.
    /// Does nothing if each file is flushed by itself.
    ///
    /// # Errors
    /// If some of the bytes cannot be written.
    pub fn flush(&self) -> io::Result<()> {
        if self.flush == Flush::Together { flush::all(&self.folder) } else { Ok(()) }
    }

    /// Flushes the names of all committed files. Does nothing if each name is flushed by itself.
    ///
    /// # Errors
    /// If the system cannot flush the folder.
    pub fn flush_names(&self) -> io::Result<()> {
        if self.flush == Flush::Together { flush::names(&self.folder) } else { Ok(()) }
    }

    fn target(&self, path: &str) -> io::Result<PathBuf> {
        check_relative(path).map_err(|fault| io::Error::new(io::ErrorKind::InvalidInput, fault))?;
        Ok(self.folder.join(path))
    }
}

impl NewFiles for NewFolder {
    type Output = AtomicFile;

    fn check(&self, path: &str) -> io::Result<()> {
        refuse_existing(&self.target(path)?, self.overwrite, &self.inputs)
    }

    fn create(&self, path: &str) -> io::Result<AtomicFile> {
        let target = self.target(path)?;
        let mut target_lock = self.target_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let file =
            AtomicFile::begin(target, self.overwrite, &self.inputs, target_lock.upgrade(), self.flush)?;
        *target_lock = Arc::downgrade(&file.target_lock);
        Ok(file)
    }
}

#[cfg(test)]
mod tests;
