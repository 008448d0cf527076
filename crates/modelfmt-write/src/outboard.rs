//! Writes outboards.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use blake3_tree::{Branch, Builder, Shape};

use crate::Sink;
use modelfmt_core::Execution;
use modelfmt_core::Source;
use modelfmt_core::author::PIECE;
use modelfmt_core::author::ScanError;

/// The error for an outboard that was not written.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum OutboardError {
    /// The file cannot be read, or the progress callback stopped the work.
    #[error(transparent)]
    Read(#[from] ScanError),
    /// The outboard cannot be written.
    #[error("the outboard cannot be written: {0}")]
    Write(#[source] io::Error),
}

tensor_core::debug_as_sentence!(OutboardError);

/// Writes the outboard of a file in one pass over the file, and returns the file's BLAKE3 hash. `work` sets
/// the number of threads. The outboard of a file of at most 16 KiB is empty.
///
/// ```
/// use modelfmt_core::Execution;
/// use modelfmt_write::write_outboard;
/// use modelfmt_write::MemoryFile;
///
/// let (file, outboard) = (vec![7; 1_000_000], MemoryFile::new());
/// let hash = write_outboard(&file, &outboard, &Execution::default())?;
/// assert_eq!((hash, outboard.into_bytes()), blake3_tree::outboard(&file));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the file cannot be read or the outboard cannot be written; if the progress callback stops the work.
pub fn write_outboard(
    source: &dyn Source,
    sink: &dyn Sink,
    work: &Execution<'_>,
) -> Result<[u8; 32], OutboardError> {
    let shape = Shape::new(source.len());
    let mut builder = Builder::new(shape);
    let has_failed = AtomicBool::new(false);
    let look = |at: u64, bytes: &[u8]| {
        if has_failed.load(Ordering::Relaxed) {
            return Ok(None); // the error will be returned
        }
        let branch = Branch::new(shape, at, bytes);
        let written = branch.iter().try_for_each(|branch| sink.write_at(branch.offset(), branch.parents()));
        written.inspect_err(|_| has_failed.store(true, Ordering::Relaxed))?;
        Ok(branch)
    };
    let mut failure = None;
    let take = |looked: io::Result<Option<Branch>>| {
        let above = looked.and_then(|branch| {
            let parents = branch.iter().flat_map(|branch| builder.push(branch));
            for (at, parent) in parents {
                sink.write_at(at, &parent)?;
            }
            Ok(())
        });
        if let Err(error) = above {
            has_failed.store(true, Ordering::Relaxed);
            failure.get_or_insert(error);
        }
    };
    work.scan(source, 0..source.len(), PIECE, look, take)?;
    match (failure, builder.finish()) {
        (Some(error), _) => Err(OutboardError::Write(error)),
        (None, Some(hash)) => Ok(hash),
        // Unreachable: a scan returns all pieces in order.
        (None, None) => Err(OutboardError::Write(io::ErrorKind::UnexpectedEof.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryFile;

    const LENGTHS: [usize; 6] = [0, 1, 16 << 10, (16 << 10) + 1, 300_000, 1_500_000];

    fn bytes(len: usize) -> Vec<u8> {
        (0..len as u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
    }

    #[test]
    fn an_outboard_is_written_by_any_number_of_threads() {
        for len in LENGTHS {
            let file = bytes(len);
            for threads in [1, 3] {
                let sink = MemoryFile::new();
                let work = Execution { threads, progress: None };
                let hash = write_outboard(&file, &sink, &work).unwrap();
                assert_eq!((hash, sink.into_bytes()), blake3_tree::outboard(&file), "{len}");
            }
        }
    }

    #[test]
    fn an_outboard_that_cannot_be_written_or_is_stopped() {
        struct Full;
        impl Sink for Full {
            fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
                Err(io::ErrorKind::StorageFull.into())
            }
        }
        let file = bytes(1_500_000);
        let error = write_outboard(&file, &Full, &Execution::default()).unwrap_err();
        assert!(matches!(error, OutboardError::Write(error) if error.kind() == io::ErrorKind::StorageFull));
        let stop = |_| std::ops::ControlFlow::Break(());
        let work = Execution { threads: 2, progress: Some(&stop) };
        let error = write_outboard(&file, &MemoryFile::new(), &work).unwrap_err();
        assert!(matches!(error, OutboardError::Read(_)));
    }
}
