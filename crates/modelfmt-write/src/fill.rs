//! Writes a range of a file that consists of tensors and padding, in pieces, in one pass over the values.

use std::io;

use super::data::TensorData;
use super::sink::Sink;
use modelfmt_core::BoxError;
use modelfmt_core::Execution;
use modelfmt_core::TensorTable;
use modelfmt_core::WriteError;
use modelfmt_core::author::Extent;
use modelfmt_core::author::PIECE;
use tensor_core::AlignedBuf;

/// A tensor, and the range of the file for its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The number of the tensor, in the order of the descriptions.
    pub tensor: usize,
    /// The range of the file for the values.
    pub extent: Extent,
}

/// A range of a file that holds tensors in ascending order, and padding between them.
#[derive(Clone, Copy, Debug)]
pub struct Region<'a> {
    /// The range of the file.
    pub extent: Extent,
    /// The byte that fills the gaps.
    pub fill: u8,
    /// The tensors, ascending and without overlap, all within `extent`.
    pub segments: &'a [Segment],
}

/// The error of [`Region::write`].
#[derive(thiserror::Error)]
pub enum FillError {
    /// The values of a tensor cannot be read.
    #[error("cannot get the values of tensor {tensor}")]
    Data {
        /// The number of the tensor, in the order of the descriptions.
        tensor: usize,
        /// The cause.
        source: BoxError,
    },
    /// The sink returned an error.
    #[error("cannot write {path}")]
    Write {
        /// The name of the sink.
        path: String,
        /// The cause.
        source: io::Error,
    },
    /// The progress callback asked to stop.
    #[error("stopped on request")]
    Cancelled,
}

tensor_core::debug_as_sentence!(FillError);

impl FillError {
    /// Converts the error to one of a format, with the tensor's name from `table`, which lists the tensors of
    /// the file.
    #[must_use]
    pub fn named<F>(self, table: &TensorTable) -> WriteError<F> {
        match self {
            Self::Data { tensor, source } => {
                let name =
                    table.info(tensor).map_or_else(|| format!("number {tensor}"), |t| t.name.to_owned());
                WriteError::Data { name, source }
            }
            Self::Write { path, source } => WriteError::Write { path, source },
            Self::Cancelled => WriteError::Cancelled,
        }
    }
}

impl Region<'_> {
    /// Reads the values of every tensor once, writes them and the padding between them to `sink`, and passes
    /// the result of `look` for each piece to `take`, in order. Pieces are [`PIECE`] bytes long, except the
    /// last. `look` gets the offset of a piece in the file and its bytes, so checksums need no second pass.
    ///
    /// # Errors
    /// [`FillError`]. The caller must then discard what has been written.
    pub fn write<T: Send>(
        &self,
        data: &dyn TensorData,
        sink: &dyn Sink,
        work: &Execution<'_>,
        look: impl Fn(u64, &[u8]) -> T + Sync,
        mut take: impl FnMut(T) + Send,
    ) -> Result<(), FillError> {
        let count = self.extent.len().div_ceil(PIECE);
        let one = |buffer: &mut AlignedBuf, number: u64| {
            let offset = self.extent.offset() + number * PIECE;
            let len = PIECE.min(self.extent.end() - offset);
            let bytes = self.piece((data, sink), buffer, offset, len)?;
            let seen = look(offset, bytes);
            sink.write_at(offset, bytes).map_err(|source| FillError::Write { path: sink.name(), source })?;
            if work.advance(len).is_break() { Err(FillError::Cancelled) } else { Ok(seen) }
        };
        work.each(count, AlignedBuf::default, one, |seen| {
            take(seen);
            Ok(())
        })
    }

    /// Returns `len` bytes of the file from `offset` on, borrowed if a single tensor in memory has them all.
    fn piece<'b>(
        &self,
        (data, sink): (&'b dyn TensorData, &dyn Sink),
        buffer: &'b mut AlignedBuf,
        offset: u64,
        len: u64,
    ) -> Result<&'b [u8], FillError> {
        let end = offset + len;
        let first = self.segments.partition_point(|segment| segment.extent.end() <= offset);
        let here = self.segments.get(first..).unwrap_or_default();
        if let Some(Segment { tensor, extent }) = here.first()
            && extent.offset() <= offset
            && extent.end() >= end
            && let Some(bytes) = data.borrow(*tensor, offset - extent.offset()..end - extent.offset())
        {
            return Ok(bytes);
        }
        // `len` is at most PIECE.
        let size = usize::try_from(len).unwrap_or(usize::MAX);
        let out_of_memory = |_| {
            let text = format!("there is no memory for a buffer of {size} bytes");
            FillError::Write { path: sink.name(), source: io::Error::new(io::ErrorKind::OutOfMemory, text) }
        };
        buffer.resize(size).map_err(out_of_memory)?;
        let mut rest = buffer.as_mut_slice();
        let mut at = offset;
        for Segment { tensor, extent } in here {
            if extent.offset() >= end {
                break;
            }
            let begin = extent.offset().max(at);
            rest = split(rest, begin - at, |gap| {
                gap.fill(self.fill);
                Ok(())
            })?;
            let stop = extent.end().min(end);
            rest = split(rest, stop - begin, |out| {
                let read = data.read(*tensor, begin - extent.offset(), out);
                read.map_err(|source| FillError::Data { tensor: *tensor, source })
            })?;
            at = stop;
        }
        rest.fill(self.fill);
        Ok(buffer)
    }
}

/// Lets `f` fill the first `len` bytes and returns the rest.
fn split(
    rest: &mut [u8],
    len: u64,
    f: impl FnOnce(&mut [u8]) -> Result<(), FillError>,
) -> Result<&mut [u8], FillError> {
    let len = usize::try_from(len).unwrap_or(usize::MAX).min(rest.len());
    let (head, tail) = rest.split_at_mut(len);
    if !head.is_empty() {
        f(head)?;
    }
    Ok(tail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryFile;

    fn segment(tensor: usize, offset: u64, len: u64) -> Segment {
        Segment { tensor, extent: Extent::new(offset, len, u64::MAX).unwrap() }
    }

    #[test]
    fn tensors_and_padding_are_written_once_and_seen_in_order() {
        let large: Vec<u8> = (0..=250).cycle().take(9 << 20).collect();
        let values: [&[u8]; 3] = [&[1; 5], &large, &[2; 3]];
        let end = 64 + 64 + (9 << 20) + 7 + 3;
        let segments = [segment(0, 70, 5), segment(1, 128, 9 << 20), segment(2, end - 3, 3)];
        let region =
            Region { extent: Extent::new(64, end - 64, end).unwrap(), fill: 0xff, segments: &segments };
        for threads in [1, 2] {
            let file = MemoryFile::new();
            let work = Execution { threads, progress: None };
            let mut seen = Vec::new();
            region.write(&values, &file, &work, |at, bytes| (at, bytes.to_vec()), |p| seen.push(p)).unwrap();
            let bytes = file.into_bytes();
            assert_eq!(bytes.len() as u64, end);
            assert_eq!(
                (&bytes[64..70], &bytes[70..75], &bytes[75..128]),
                (&[0xff; 6][..], &[1; 5][..], &[0xff; 53][..])
            );
            assert!(bytes[128..].starts_with(&large));
            assert_eq!(bytes[128 + large.len()..], [255, 255, 255, 255, 255, 255, 255, 2, 2, 2]);
            assert!(seen.windows(2).all(|w| w[0].0 + w[0].1.len() as u64 == w[1].0));
            assert_eq!(seen.into_iter().flat_map(|(_, b)| b).collect::<Vec<_>>(), bytes[64..]);
        }
    }

    #[test]
    fn values_that_are_too_short_are_an_error_that_names_the_tensor() {
        let segments = [segment(0, 0, 8)];
        let region = Region { extent: Extent::new(0, 8, 8).unwrap(), fill: 0, segments: &segments };
        let values: [&[u8]; 1] = [&[1; 5]];
        let error =
            region.write(&values, &MemoryFile::new(), &Execution::sequential(), |_, _| (), drop).unwrap_err();
        assert!(matches!(error, FillError::Data { tensor: 0, .. }), "{error:?}");
    }
}
