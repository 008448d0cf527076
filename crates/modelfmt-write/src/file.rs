//! A file that is open already, to write to.

use std::fs::File;
use std::io;

use super::atomic::write_all_at;
use super::sink::Sink;

/// An open file, such as a temporary one without a name. Its owner decides what becomes of it;
/// [`AtomicFile`](super::AtomicFile) is for files that are to appear under a name.
#[derive(Debug)]
pub struct FileSink(pub File);

impl Sink for FileSink {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        write_all_at(&self.0, offset, bytes)
    }
}
