//! Reads the values of tensors, raw or from LZ4 blocks.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;

use modelfmt_core::{Bytes, Execution, Fetch, TensorInfo, author::Extent};

use crate::blocks::Compressed;
use crate::error::{Error, Result};
use crate::index::Tensors;
use crate::stored::Stored;

/// From this many bytes on, reading a compressed tensor uses more than one thread.
const PARALLEL: u64 = 4 << 20;

impl Tensors {
    /// Reads the values of a tensor. Decompression uses as many threads as `work` allows, or by default as
    /// many as the tensor's size is worth.
    pub(crate) async fn read<'s>(
        &self,
        source: &'s impl Fetch,
        position: usize,
        work: Option<&Execution<'_>>,
    ) -> Result<Bytes<'s>> {
        let (info, stored) = self.placed(position)?;
        if stored.compressed {
            let threads = work.map_or_else(|| default_threads(stored.nbytes), |work| work.threads);
            let work = Execution { threads, progress: None };
            return Ok(Bytes::Owned(
                compressed(position, info, stored).read(source, &self.starts, &work).await?,
            ));
        }
        if stored.len == 0 {
            return Ok(Bytes::Borrowed(&[])); // it may stand beyond the last byte
        }
        let (at, len) = (stored.offset, stored.len);
        source.fetch(at..stored.end()).await.map_err(|source| Error::Io { at, len, source })
    }

    /// Fills `out` with the values of a tensor, from byte `offset` on.
    pub(crate) async fn read_into(
        &self,
        source: &impl Fetch,
        position: usize,
        offset: u64,
        out: &mut [u8],
    ) -> Result<()> {
        let (info, stored) = self.placed(position)?;
        let len = out.len() as u64;
        let part =
            Extent::new(offset, len, stored.nbytes).map_err(|_| Error::out_of_range(&info, offset, len))?;
        if part.is_empty() {
            return Ok(());
        }
        if stored.compressed {
            let work = Execution { threads: default_threads(len), progress: None };
            return compressed(position, info, stored)
                .read_into(source, &self.starts, offset, out, &work)
                .await;
        }
        let at = stored.offset.saturating_add(offset); // within the file, as the index has checked
        source.fetch_into(at, out).await.map_err(|source| Error::Io { at, len, source })
    }

    /// Returns the range of the file that holds a range of a tensor's values.
    pub(crate) async fn stored_range(
        &self,
        source: &impl Fetch,
        position: usize,
        values: Range<u64>,
    ) -> Result<Range<u64>> {
        let (info, stored) = self.placed(position)?;
        let len = values.end.checked_sub(values.start).unwrap_or(u64::MAX);
        let part = Extent::new(values.start, len, stored.nbytes);
        let part = part.map_err(|_| Error::out_of_range(&info, values.start, len))?;
        if stored.compressed {
            return compressed(position, info, stored).blocks_of(source, &self.starts, part.range()).await;
        }
        let at = stored.offset.saturating_add(part.offset()); // within the file, as the index has checked
        Ok(at..at.saturating_add(part.len()))
    }

    fn placed(&self, position: usize) -> Result<(TensorInfo<'_>, Stored)> {
        let found = self.table().info(position).zip(self.plain(position));
        found.ok_or_else(|| Error::no_such_position(position))
    }
}

const fn compressed(number: usize, info: TensorInfo<'_>, stored: Stored) -> Compressed<'_> {
    Compressed { number, name: info.name, stored }
}

/// Returns the number of threads for this many bytes: all cores, or one for small tensors, because
/// determining the number of cores takes long.
fn default_threads(nbytes: u64) -> usize {
    if nbytes >= PARALLEL { Execution::default().threads } else { 1 }
}
