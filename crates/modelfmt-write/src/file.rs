//! A sink over a file that is already open.

use std::fs::File;
use std::io;

use super::atomic::write_all_at;
use super::sink::Sink;

/// A sink for an open file, such as a temporary one without a name. The caller decides what happens to the
/// file. For files that appear under a name, use [`AtomicFile`](super::AtomicFile).
#[derive(Debug)]
pub struct FileSink(pub File);

impl Sink for FileSink {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        write_all_at(&self.0, offset, bytes)
    }
}
