//! Writing outboards.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use blake3_tree::{Branch, Builder, Shape};

use crate::execution::{Execution, PIECE};
use crate::fetch::ScanError;
use crate::source::Source;
use crate::write::Sink;

/// Why an outboard is not written.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum OutboardError {
    /// The file could not be read, or the progress callback stops the work.
    #[error(transparent)]
    Read(#[from] ScanError),
    /// The outboard could not be written.
    #[error("the outboard cannot be written: {0}")]
    Write(#[source] io::Error),
}

tensor_core::debug_as_sentence!(OutboardError);

/// Writes the outboard of a file in one pass over it, on as many threads as `work` says, and returns its BLAKE3. The outboard of a file of at most 16
/// KiB is empty.
///
/// ```
/// use modelfmt_core::Execution;
/// use modelfmt_core::proof::write_outboard;
/// use modelfmt_core::write::MemoryFile;
///
/// let (file, outboard) = (vec![7; 1_000_000], MemoryFile::new());
/// let hash = write_outboard(&file, &outboard, &Execution::default())?;
/// assert_eq!((hash, outboard.into_bytes()), blake3_tree::outboard(&file));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the file cannot be read or the outboard not written; if the progress callback stops the work.
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
            return Ok(None); // the error is on its way
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
        // A scan gives all pieces in order.
        (None, None) => Err(OutboardError::Write(io::ErrorKind::UnexpectedEof.into())),
    }
}
