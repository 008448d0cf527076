//! Reading the values of tensors, given where they lie.

use tensor_core::{Bytes, Extent, Part, Source, TensorInfo, TensorView, Work};

use crate::blocks::{BlockStarts, Compressed};
use crate::error::{Error, Fault, Result, malformed};
use crate::index::{Stored, Tensors};

/// From this size on, reading a compressed tensor uses more than one thread.
const PARALLEL: u64 = 4 << 20;

/// The tensors of a file, and the file.
pub(crate) struct Access<'a, S> {
    pub(crate) tensors: &'a Tensors,
    pub(crate) source: &'a S,
    pub(crate) starts: &'a BlockStarts,
}

impl<'a, S: Source> Access<'a, S> {
    pub(crate) fn position(&self, name: &str) -> Result<usize> {
        self.tensors.find(name).ok_or_else(|| Error::NotFound { name: name.to_owned() })
    }

    /// A tensor with its values; on as many threads as `work` says, or as its size deserves.
    pub(crate) fn tensor(&self, position: usize, work: Option<&Work<'_>>) -> Result<TensorView<'a>> {
        let (info, stored) = self.find(position)?;
        let bytes = if stored.compressed {
            let threads = work.map_or_else(|| default_threads(stored.nbytes), |work| work.threads);
            let work = Work { threads, progress: None };
            Bytes::Owned(compressed(position, info, stored).read(self.source, self.starts, &work)?)
        } else {
            self.raw(stored)?
        };
        TensorView::new(info, bytes).map_err(|_| {
            let fault = tensor_core::Fault::Nbytes { found: stored.len, expected: info.nbytes };
            malformed(Part::named("tensor", info.name), stored.offset, fault)
        })
    }

    /// The values of a raw tensor in memory.
    pub(crate) fn slice(&self, position: usize) -> Result<&'a [u8]> {
        let (info, stored) = self.find(position)?;
        let refuse =
            |why| malformed(Part::named("tensor", info.name), stored.offset, Fault::NotBorrowed(why));
        if stored.compressed {
            return Err(refuse("the tensor is compressed"));
        }
        if self.source.as_slice().is_none() {
            return Err(refuse("the source is not in memory"));
        }
        match self.raw(stored)? {
            Bytes::Borrowed(bytes) => Ok(bytes),
            Bytes::Owned(_) => Err(refuse("the source is not in memory")),
        }
    }

    pub(crate) fn read_into(&self, position: usize, offset: u64, out: &mut [u8]) -> Result<()> {
        let (info, stored) = self.find(position)?;
        let len = out.len() as u64;
        let Ok(part) = Extent::new(offset, len, stored.nbytes) else {
            return Err(Error::OutOfRange { name: info.name.to_owned(), offset, len, nbytes: stored.nbytes });
        };
        if part.is_empty() {
            return Ok(());
        }
        if stored.compressed {
            let work = Work { threads: default_threads(len), progress: None };
            return compressed(position, info, stored).read_into(
                self.source,
                self.starts,
                offset,
                out,
                &work,
            );
        }
        let at = stored.offset + offset; // within the file, as the index has checked
        self.source.read_into(at, out).map_err(|source| Error::Io { at, len, source })
    }

    fn find(&self, position: usize) -> Result<(TensorInfo<'a>, Stored)> {
        let found = self.tensors.info(position).zip(self.tensors.stored(position));
        found.ok_or_else(|| Error::NotFound { name: format!("number {position}") })
    }

    fn raw(&self, stored: Stored) -> Result<Bytes<'a>> {
        if stored.len == 0 {
            return Ok(Bytes::Borrowed(&[])); // it may stand beyond the last byte
        }
        let (at, len) = (stored.offset, stored.len);
        self.source.read(at..stored.end()).map_err(|source| Error::Io { at, len, source })
    }
}

const fn compressed(number: usize, info: TensorInfo<'_>, stored: Stored) -> Compressed<'_> {
    Compressed { number, name: info.name, stored }
}

/// All cores for what is large. Asking how many there are is dear, so it is not done for what is small.
fn default_threads(nbytes: u64) -> usize {
    if nbytes >= PARALLEL { Work::default().threads } else { 1 }
}
