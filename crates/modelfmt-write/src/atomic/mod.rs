//! Files that appear complete or not at all.

mod flush;

use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::early_flush::EarlyFlush;
use super::identity::InputFiles;
use super::partial::{Claim, Partial};
use super::sink::{NewFiles, Output, Overwrite, Sink};
use flush::Flush;
use modelfmt_core::WriteError;
use modelfmt_core::source::{check_relative, folder_of};

/// Calls `write` on a new file, which appears at `path` when that is done; if it fails, nothing is left behind.
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

/// A file that is written beside its target as `.modelfmt-….partial`, and renamed when it is complete.
///
/// The temporary file is always a new one: no existing file is opened for writing. Dropping the `AtomicFile` removes it. A
/// process that is killed leaves at most that one file, which the next writer of the same target removes; a lock on it keeps two
/// writers of one target apart. With the feature `parallel`, on Unix, what has been written is flushed while more is being
/// written.
///
/// On Unix a file that is replaced keeps its permissions, and its owner and group if the process may set them; until then only
/// the owner can read the new file. Other attributes, such as access control lists, are not kept. If the target is a symbolic
/// link, the link itself is replaced, and the file that it leads to stays as it is.
#[derive(Debug)]
pub struct AtomicFile {
    /// `None` once it is finished.
    file: Option<File>,
    partial: Partial,
    target: PathBuf,
    overwrite: Overwrite,
    inputs: InputFiles,
    /// The metadata of the file that was at the target in the beginning, for its permissions.
    old: Option<Metadata>,
    claim: Arc<Claim>,
    early: EarlyFlush,
    flush: Flush,
}

impl AtomicFile {
    /// Begins a file that will appear at `target`.
    ///
    /// # Errors
    /// If `target` is a folder, device, pipe or socket, exists and may not be replaced, is being written by another process, or its folder
    /// cannot be written to.
    pub fn create(target: impl Into<PathBuf>, overwrite: Overwrite) -> io::Result<Self> {
        Self::create_protecting(target, overwrite, &InputFiles::default())
    }

    /// Checks whether [`create_protecting`](Self::create_protecting) would refuse the target, and creates nothing.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] for a file that may not be replaced; other errors for a folder, a device or a file of the
    /// inputs.
    pub fn check_target(target: &Path, overwrite: Overwrite, inputs: &InputFiles) -> io::Result<()> {
        refuse_existing(target, overwrite, inputs)
    }

    /// Begins a file that will appear at `target`, unless that is one of `inputs` under any name.
    ///
    /// # Errors
    /// If the folder cannot be written, or the file exists and may not be replaced; if `target` is one of `inputs`.
    pub fn create_protecting(
        target: impl Into<PathBuf>,
        overwrite: Overwrite,
        inputs: &InputFiles,
    ) -> io::Result<Self> {
        Self::begin(target.into(), overwrite, inputs, None, Flush::Each)
    }

    /// Begins the first file of a new claim, or another file of `claim`.
    fn begin(
        target: PathBuf,
        overwrite: Overwrite,
        inputs: &InputFiles,
        claim: Option<Arc<Claim>>,
        flush: Flush,
    ) -> io::Result<Self> {
        refuse_existing(&target, overwrite, inputs)?;
        let old = fs::metadata(&target).ok().filter(|_| overwrite == Overwrite::Replace);
        let (claim, file, partial) = match claim {
            Some(claim) => {
                let (file, partial) = claim.another(&target, old.is_some())?;
                (claim, file, partial)
            }
            None => Claim::begin(&target, old.is_some(), inputs)?,
        };
        let (file, early) = (Some(file), EarlyFlush::default());
        Ok(Self { file, partial, target, overwrite, inputs: inputs.clone(), old, claim, early, flush })
    }

    /// Where the file will appear.
    #[must_use]
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Copies `len` bytes of another file, from its byte `from` on, to byte `to` of this one. The system makes the copy; a file
    /// system that can share bytes copies none. Both files' cursors are used, so only one thread may do this at a time.
    ///
    /// # Errors
    /// If they cannot be read or written.
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
        let Self { partial, target, inputs, overwrite, .. } = self;
        let (target, overwrite) = (&**target, *overwrite);
        partial.rename(|partial| match overwrite {
            Overwrite::Replace => {
                refuse_existing(target, overwrite, inputs)?; // it may have appeared meanwhile
                fs::rename(partial, target)
            }
            Overwrite::Refuse => rename_new(partial, target),
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
            let text = "it is a file of the input, which no output replaces; choose another name";
            Err(io::Error::new(io::ErrorKind::InvalidInput, text))
        }
        Ok(_) if overwrite == Overwrite::Refuse => Err(already_exists()),
        Ok(_) => refuse_special(target),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // For example a name that is too long: the temporary file has another name, so the error would come only at the very end.
        Err(error) => Err(error),
    }
}

/// Refuses devices, pipes and sockets: a rename would put a file there, which would break `/dev/null` for everybody. A link to
/// one, such as `/dev/stdout`, is refused too; a link to a file is replaced, and the file stays as it is.
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

/// Gives a new file the permissions of the one that it will replace. What the process may not set stays as it is: accessible to
/// the owner alone.
#[cfg(unix)]
pub(crate) fn keep_permissions(file: &File, old: &Metadata) {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
    let Ok(new) = file.metadata() else { return };
    // Set before the permissions: a file whose owner changes loses some of them.
    if new.uid() != old.uid() {
        let _ = fchown(file, Some(old.uid()), None);
    }
    let has_group = new.gid() == old.gid() || fchown(file, None, Some(old.gid())).is_ok();
    let mode = old.mode() & 0o777;
    // Another group must not get what the old group was allowed, beyond what everybody is allowed.
    let mode = if has_group { mode } else { (mode & !0o070) | (mode & ((mode & 0o007) << 3)) };
    let _ = file.set_permissions(fs::Permissions::from_mode(mode));
}

#[cfg(not(unix))]
pub(crate) const fn keep_permissions(_: &File, _: &Metadata) {}

/// Copies `len` bytes from an offset of one file to an offset of another, by the system if it can.
pub(crate) fn copy_range((from, at): (&File, u64), (to, place): (&File, u64), len: u64) -> io::Result<()> {
    use std::io::{Read as _, Seek as _, SeekFrom};
    let (mut from, mut to) = (from, to);
    from.seek(SeekFrom::Start(at))?;
    to.seek(SeekFrom::Start(place))?;
    let copied = io::copy(&mut from.take(len), &mut to)?;
    if copied == len { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Renames without replacing: unlike a rename, a link fails if a file has appeared at the target meanwhile.
fn rename_new(partial: &Path, target: &Path) -> io::Result<()> {
    if link_new(partial, target)? { fs::remove_file(partial) } else { Ok(()) }
}

/// Gives a file another name, which no file may have yet. Returns whether the old name stays too; on file systems without hard
/// links, it does not.
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
            // The permissions may have been changed meanwhile.
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
            return Ok(()); // there was none, and one that has appeared belongs to another process
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
        // Unflushed bytes of a dropped file need not go to the disk; a flush that is running would wait for them.
        if let Some(file) = &self.file {
            let _ = file.set_len(0);
        }
    }
}

/// New files of a folder, for sets; each an [`AtomicFile`].
///
/// While the first of them exists, the others count as files of the same set, and other writers of that set are kept away.
#[derive(Clone, Debug)]
pub struct NewFolder {
    folder: PathBuf,
    overwrite: Overwrite,
    inputs: InputFiles,
    claim: Arc<Mutex<Weak<Claim>>>,
    flush: Flush,
}

impl NewFolder {
    /// Files will be created in `folder`, which must exist.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>, overwrite: Overwrite) -> Self {
        let (folder, inputs, flush) = (folder.into(), InputFiles::default(), Flush::Each);
        Self { folder, overwrite, inputs, claim: Arc::default(), flush }
    }

    /// Protects these files from being replaced, under any name.
    #[must_use]
    pub fn protecting(self, inputs: InputFiles) -> Self {
        Self { inputs, ..self }
    }

    /// For thousands of small files, where flushing each one twice takes most of the time. Where the system can, all files are
    /// flushed together, by [`flush`](Self::flush) and [`flush_names`](Self::flush_names).
    #[must_use]
    pub fn flushed_together(self) -> Self {
        Self { flush: Flush::OF_MANY, ..self }
    }

    /// Flushes the bytes of all files that are finished. Call it before the first of them is committed. Does nothing if each file
    /// is flushed by itself.
    ///
    /// # Errors
    /// If some of the bytes cannot be written.
    pub fn flush(&self) -> io::Result<()> {
        if self.flush == Flush::Together { flush::all(&self.folder) } else { Ok(()) }
    }

    /// Flushes the names of all files that were committed. Does nothing if each name is flushed by itself.
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
        let mut claim = self.claim.lock().unwrap_or_else(PoisonError::into_inner);
        let file = AtomicFile::begin(target, self.overwrite, &self.inputs, claim.upgrade(), self.flush)?;
        *claim = Arc::downgrade(&file.claim);
        Ok(file)
    }
}

#[cfg(test)]
mod tests;
