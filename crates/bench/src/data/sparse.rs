//! Files whose zeros take no space on the disk.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use modelfmt_write::Sink;

/// A new file. Zeros that are written become a hole.
pub(super) struct SparseFile {
    file: File,
    len: AtomicU64,
}

impl SparseFile {
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        Ok(Self { file: File::create(path)?, len: AtomicU64::new(0) })
    }

    /// Sets the length of the file, which may end with a hole, and waits for the disk.
    pub(super) fn finish(self) -> io::Result<()> {
        self.file.set_len(self.len.into_inner())?;
        self.file.sync_all()
    }
}

impl Sink for SparseFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.len.fetch_max(offset + bytes.len() as u64, Ordering::Relaxed);
        if bytes.iter().all(|&byte| byte == 0) {
            return Ok(());
        }
        self.file.write_all_at(bytes, offset)
    }
}
