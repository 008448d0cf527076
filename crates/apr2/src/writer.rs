//! Streams a `Plan` into a sink.

use modelfmt_core::{
    Execution,
    author::{Crc, Extent},
};
use modelfmt_write::{Region, Segment, Sink, TensorData};

use crate::error::WriteError;
use crate::layout::{Compression, Plan};
use crate::wire::{Entry, FOOTER_LEN, Footer, Header, TENSOR_COMPRESSED};
use crate::written::{Place, Written, put};

/// The metadata begins right after the header.
const METADATA_OFFSET: u32 = 32;
/// The index is written in pieces of about this size.
const INDEX_PIECE: usize = 1 << 20;

impl Plan {
    /// Writes the file. Values are pulled from `data` in order and in pieces. `data` numbers the tensors in
    /// the order of their descriptions. The bytes do not depend on the number of threads that `work` allows.
    ///
    /// # Errors
    /// [`WriteError::Data`](crate::WriteError::Data) if values cannot be read, [`WriteError::Write`](crate::WriteError::Write)
    /// if the sink refuses bytes, [`WriteError::Cancelled`](crate::WriteError::Cancelled) if the progress callback stops the
    /// work. The owner of the sink must then discard what has been written.
    pub fn write(
        &self,
        data: &dyn TensorData,
        sink: &dyn Sink,
        work: &Execution<'_>,
    ) -> Result<(), WriteError> {
        self.write_whole(data, sink, work).map(|_| ())
    }

    /// Writes the file and returns its CRC.
    pub(crate) fn write_whole(
        &self,
        data: &dyn TensorData,
        sink: &dyn Sink,
        work: &Execution<'_>,
    ) -> Result<Crc, WriteError> {
        let written = match self.options.compression {
            Compression::None => self.write_raw(data, sink, work)?,
            #[cfg(feature = "lz4")]
            Compression::Lz4 => crate::compress::write(self, data, sink, work)?,
            #[cfg(not(feature = "lz4"))]
            Compression::Lz4 => {
                return Err(crate::error::unfit(
                    modelfmt_core::Part::new("file"),
                    crate::error::Fault::NoLz4,
                ));
            }
        };
        let head = self.write_head(&written, sink)?;
        let before = head.then(written.crc);
        let footer = Footer { crc32: before.value, file_size: before.len + FOOTER_LEN }.encode();
        put(sink, before.len, &footer)?;
        Ok(before.then(Crc::of(&footer)))
    }

    fn write_raw(
        &self,
        data: &dyn TensorData,
        sink: &dyn Sink,
        work: &Execution<'_>,
    ) -> Result<Written, WriteError> {
        let segment = |(tensor, nbytes)| {
            let offset = self.table.offset(tensor).unwrap_or(0); // every tensor has one
            Ok(Segment { tensor, extent: Extent::new(offset, nbytes, self.data_end)? })
        };
        let full =
            self.table.iter().map(|tensor| tensor.nbytes).enumerate().filter(|&(_, nbytes)| nbytes > 0);
        let segments = full.map(segment).collect::<Result<Vec<_>, modelfmt_core::CommonFault>>();
        let start = u64::from(self.data_offset);
        let all = Extent::new(start, self.data_end - start, self.data_end);
        let (segments, extent) = match (segments, all) {
            (Ok(segments), Ok(extent)) => (segments, extent),
            // The plan has laid out the sections, so these extents are valid.
            (Err(fault), _) | (_, Err(fault)) => {
                return Err(crate::error::unfit(modelfmt_core::Part::new("tensors"), fault));
            }
        };
        let region = Region { extent, fill: 0, segments: &segments };
        let mut crc = Crc::default();
        let written = region.write(data, sink, work, |_, bytes| Crc::of(bytes), |next| crc = crc.then(next));
        written.map_err(|error| error.named(&self.table))?;
        Ok(Written { crc, places: None })
    }

    /// Writes everything before the data section, which is now known, and returns its CRC.
    fn write_head(&self, written: &Written, sink: &dyn Sink) -> Result<Crc, WriteError> {
        let compressed = written.places.iter().flatten().any(|place| place.compressed);
        let metadata_size = u32::try_from(self.metadata.len()).unwrap_or(u32::MAX); // checked by the plan
        let header = Header {
            version_major: 2,
            version_minor: 0,
            flags: self.flags(compressed),
            metadata_offset: METADATA_OFFSET,
            metadata_size,
            index_offset: METADATA_OFFSET + metadata_size,
            index_size: self.index_len,
            data_offset: self.data_offset,
        };
        let mut out = Pieces { sink, at: 0, bytes: Vec::new(), crc: Crc::default() };
        out.bytes.extend(header.encode());
        out.bytes.extend(&self.metadata);
        let count = u32::try_from(self.table.len()).unwrap_or(u32::MAX); // the table holds no more
        out.bytes.extend(count.to_le_bytes());
        out.bytes.extend(0u32.to_le_bytes());
        let data = u64::from(self.data_offset);
        for (position, info) in self.table.iter().enumerate() {
            let place = self.place(written, position, info.nbytes);
            let entry = Entry {
                name: info.name,
                dtype: info.dtype,
                dims: info.shape,
                offset: place.offset - data,
                size: place.size,
                raw_size: if place.compressed { info.nbytes } else { 0 },
                flags: if place.compressed { TENSOR_COMPRESSED } else { 0 },
            };
            entry.encode(&mut out.bytes);
            out.flush_if(INDEX_PIECE)?;
        }
        let gap = data.saturating_sub(out.at + out.bytes.len() as u64);
        out.bytes.extend(std::iter::repeat_n(0, usize::try_from(gap).unwrap_or(0))); // fewer than 64
        out.flush_if(0)?;
        Ok(out.crc)
    }

    fn place(&self, written: &Written, position: usize, nbytes: u64) -> Place {
        let planned = || Place {
            offset: self.table.offset(position).unwrap_or(0), // every tensor has one
            size: nbytes,
            compressed: false,
        };
        written.places.as_ref().and_then(|places| places.get(position).copied()).unwrap_or_else(planned)
    }
}

/// Writes bytes to a sink in order, in pieces.
struct Pieces<'a> {
    sink: &'a dyn Sink,
    at: u64,
    bytes: Vec<u8>,
    crc: Crc,
}

impl Pieces<'_> {
    fn flush_if(&mut self, at_least: usize) -> Result<(), WriteError> {
        if self.bytes.len() >= at_least {
            put(self.sink, self.at, &self.bytes)?;
            self.crc = self.crc.then(Crc::of(&self.bytes));
            self.at += self.bytes.len() as u64;
            self.bytes.clear();
        }
        Ok(())
    }
}
