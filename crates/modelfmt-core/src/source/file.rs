//! Files on disk, read by position.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[cfg(all(feature = "direct", target_os = "linux"))]
use super::direct;
use super::pool::{FileVersion, Pool, Pooled};
use super::{FileId, Files, Source, check_relative, checked_len, folder_of};
#[cfg(all(feature = "direct", target_os = "linux"))]
use tensor_core::AlignedBuf;

/// A file that is read by position: the safe default. If the file shrinks later, reads return an error and
/// never cause a signal.
#[derive(Debug)]
pub struct FileSource {
    file: Handle,
    len: u64,
    id: Option<FileId>,
}

#[derive(Debug)]
enum Handle {
    Open {
        file: File,
        path: Option<PathBuf>,
        version: FileVersion,
    },
    /// One of many files. It is closed while others are read, and opened again.
    Pooled(Pooled),
}

impl FileSource {
    /// Opens a regular file.
    ///
    /// # Errors
    /// If it cannot be opened, or is a folder, pipe or device.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        // A pipe would block in open(2), so check first; the check after opening is the one that counts.
        let path = path.as_ref();
        require_file(&std::fs::metadata(path)?)?;
        Self::named(File::open(path)?, Some(path.to_owned()))
    }

    /// Wraps an open regular file.
    ///
    /// # Errors
    /// If its length is unknown, or it is a folder, pipe or device.
    pub fn new(file: File) -> io::Result<Self> {
        Self::named(file, None)
    }

    fn named(file: File, path: Option<PathBuf>) -> io::Result<Self> {
        let metadata = file.metadata()?;
        require_file(&metadata)?;
        let (len, id, version) =
            (metadata.len(), FileId::from_metadata(&metadata), FileVersion::from_metadata(&metadata));
        Ok(Self { len, id, file: Handle::Open { file, path, version } })
    }

    /// Opens a file like [`open`](Self::open), and keeps it in a pool.
    fn pooled(path: PathBuf, pool: &Arc<Pool>) -> io::Result<Self> {
        require_file(&std::fs::metadata(&path)?)?;
        let file = File::open(&path)?;
        let metadata = file.metadata()?;
        require_file(&metadata)?;
        let pooled = Pooled::new(pool, path, file, &metadata);
        Ok(Self { len: metadata.len(), id: FileId::from_metadata(&metadata), file: Handle::Pooled(pooled) })
    }
}

impl FileSource {
    /// Returns the version of the file when it was opened.
    #[must_use]
    pub const fn version(&self) -> &FileVersion {
        match &self.file {
            Handle::Open { version, .. } => version,
            Handle::Pooled(pooled) => pooled.version(),
        }
    }

    /// Calls `act` with the open file.
    fn with<T>(&self, act: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
        match &self.file {
            Handle::Open { file, .. } => act(file),
            Handle::Pooled(pooled) => pooled.with(act),
        }
    }
}

fn require_file(metadata: &std::fs::Metadata) -> io::Result<()> {
    if metadata.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder"));
    }
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    Ok(())
}

impl Source for FileSource {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(out.len() as u64).ok_or(io::ErrorKind::UnexpectedEof)?;
        checked_len(&(offset..end), self.len)?;
        self.with(|file| read_exact_at(file, offset, out))
    }

    /// Compares the file's current modification time and length with those at opening.
    fn is_unchanged(&self) -> bool {
        match &self.file {
            Handle::Open { file, version, .. } => {
                file.metadata().is_ok_and(|metadata| FileVersion::from_metadata(&metadata) == *version)
            }
            Handle::Pooled(pooled) => pooled.is_unchanged(),
        }
    }

    #[cfg(all(feature = "direct", target_os = "linux"))]
    fn is_cold(&self) -> bool {
        self.with(|file| Ok(direct::is_cold(file, self.len))).unwrap_or(false)
    }

    #[cfg(all(feature = "direct", target_os = "linux"))]
    fn read_uncached(&self, offset: u64, out: &mut [u8], scratch: &mut AlignedBuf) -> io::Result<()> {
        let end = offset.checked_add(out.len() as u64).ok_or(io::ErrorKind::UnexpectedEof)?;
        checked_len(&(offset..end), self.len)?;
        self.with(|file| direct::read_exact_at(file, offset, out, scratch))
    }

    #[cfg(all(feature = "direct", target_os = "linux"))]
    fn drop_cached(&self) {
        let _ = self.with(|file| {
            direct::drop_cached(file);
            Ok(())
        });
    }

    fn id(&self) -> Option<FileId> {
        self.id
    }

    fn shared(&self) -> Option<&(dyn Source + Sync)> {
        Some(self)
    }

    fn is_near(&self) -> bool {
        true
    }

    /// Returns the path with which the file was opened.
    fn name(&self) -> Option<Cow<'_, str>> {
        match &self.file {
            Handle::Open { path, .. } => path.as_ref().map(|path| path.to_string_lossy()),
            Handle::Pooled(pooled) => Some(pooled.path().to_string_lossy()),
        }
    }
}

/// Fills `out` with the bytes of a file from `offset` on. The file's cursor does not matter.
///
/// # Errors
/// If the file ends too early, or cannot be read.
#[cfg(unix)]
pub fn read_exact_at(file: &File, offset: u64, out: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, out, offset)
}

/// Fills `out` with the bytes of a file from `offset` on, and moves its cursor.
///
/// # Errors
/// If the file ends too early, or cannot be read.
#[cfg(windows)]
pub fn read_exact_at(file: &File, mut offset: u64, mut out: &mut [u8]) -> io::Result<()> {
    while !out.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, out, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                out = out.get_mut(n..).unwrap_or_default();
                offset += n as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// The files of a folder, for sets of files. At most 16 of them stay open, however many are in use. The
/// others are opened again when they are read; if such a file has changed, that is an error.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
    pool: Arc<Pool>,
}

impl Folder {
    /// Creates the value for the folder at `path`. Nothing is opened yet.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), pool: Arc::default() }
    }

    #[cfg(test)]
    pub(super) const fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Creates the value for the folder that contains `file`.
    #[must_use]
    pub fn containing(file: &Path) -> Self {
        Self::new(folder_of(file))
    }

    /// Returns the path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Files for Folder {
    type Source = FileSource;

    fn open(&self, path: &str) -> io::Result<FileSource> {
        check_relative(path).map_err(|fault| io::Error::new(io::ErrorKind::InvalidInput, fault))?;
        FileSource::pooled(self.path.join(path), &self.pool)
    }
}
