//! Writes tensors in LZ4 blocks, or raw if the blocks would not be smaller.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use modelfmt_core::{
    AlignedBuf, Execution,
    author::{Crc, Extent, PIECE, align_up},
};
use modelfmt_write::{Region, Segment, Sink, TensorData};

use crate::blocks::{BLOCK, BLOCK_HEADER};
use crate::error::{WriteError, unfit};
use crate::layout::Plan;
use crate::written::{Place, Written, put};

#[allow(clippy::cast_possible_truncation, reason = "64 KiB")]
const BLOCK_LEN: usize = BLOCK as usize;
#[allow(clippy::cast_possible_truncation, reason = "4 bytes")]
const HEADER_LEN: usize = BLOCK_HEADER as usize;
// Values are compressed piece by piece, so a piece must consist of whole blocks. Larger pieces would not stay
// in a core's cache.
const _: () = assert!(PIECE.is_multiple_of(BLOCK));

/// Writes the data section. Several threads compress blocks, which are written in order, so the bytes do not
/// depend on the number of threads.
pub(crate) fn write(
    plan: &Plan,
    data: &dyn TensorData,
    sink: &dyn Sink,
    work: &Execution<'_>,
) -> Result<Written, WriteError> {
    let pieces = Pieces::new(plan);
    let (stored, spare) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let mut writer = Writer {
        plan,
        data,
        sink,
        work,
        at: u64::from(plan.data_offset),
        crc: Crc::default(),
        places: Vec::with_capacity(plan.table.len()),
        current: None,
    };
    let run = |compressor: &mut Compressor, number: u64| {
        let piece = pieces.piece(number);
        // Raw tensors count as progress when they are written.
        if piece.how == How::Raw {
            return Ok(Done::nothing(piece));
        }
        // Skips the rest of a tensor that will be stored raw. It counts as progress like the pieces before
        // it.
        let done = if stored.load(Ordering::Relaxed) > piece.tensor {
            Done::nothing(piece)
        } else {
            let bytes = spare.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
            compressor.compress(plan, data, piece, bytes)?
        };
        if work.advance(piece.len).is_break() { Err(WriteError::Cancelled) } else { Ok(done) }
    };
    work.each(pieces.count(), Compressor::default, run, |done: Done| {
        writer.take(done.piece, &done)?;
        stored.store(writer.places.len(), Ordering::Relaxed);
        if done.bytes.capacity() > 0 {
            spare.lock().unwrap_or_else(PoisonError::into_inner).push(done.bytes);
        }
        Ok(())
    })?;
    Ok(Written { crc: writer.crc, places: Some(writer.places) })
}

/// The values of all tensors, cut into pieces.
struct Pieces<'a> {
    plan: &'a Plan,
    /// The number of each tensor's first piece, followed by the number of all pieces.
    firsts: Vec<u64>,
}

impl<'a> Pieces<'a> {
    fn new(plan: &'a Plan) -> Self {
        let mut firsts = Vec::with_capacity(plan.table.len() + 1);
        let mut next = 0u64;
        for (tensor, info) in plan.table.iter().enumerate() {
            firsts.push(next);
            let is_raw = plan.keep_raw.contains(&tensor);
            next += if is_raw { 1 } else { info.nbytes.div_ceil(PIECE).max(1) };
        }
        firsts.push(next);
        Self { plan, firsts }
    }

    fn count(&self) -> u64 {
        self.firsts.last().copied().unwrap_or(0)
    }

    fn piece(&self, number: u64) -> Piece {
        let tensor = self.firsts.partition_point(|&first| first <= number).saturating_sub(1);
        let nbytes = self.plan.table.info(tensor).map_or(0, |info| info.nbytes);
        if nbytes == 0 || self.plan.keep_raw.contains(&tensor) {
            return Piece { tensor, offset: 0, len: nbytes, how: How::Raw };
        }
        let first = self.firsts.get(tensor).copied().unwrap_or(0);
        let offset = (number - first) * PIECE;
        Piece { tensor, offset, len: PIECE.min(nbytes - offset), how: How::Compressed }
    }
}

/// Some values of one tensor: whole blocks, except for the last piece of a tensor.
#[derive(Clone, Copy)]
struct Piece {
    tensor: usize,
    offset: u64,
    len: u64,
    /// How to store the piece.
    how: How,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Compressed,
    /// Raw, without trying compression. The piece is the whole tensor.
    Raw,
}

/// A piece that has been compressed.
struct Done {
    piece: Piece,
    /// The first `len` bytes are the blocks of the piece. The rest is left over from an earlier use of the
    /// buffer.
    bytes: Vec<u8>,
    len: usize,
    crc: Crc,
}

impl Done {
    /// Returns the result for a piece that is not compressed.
    fn nothing(piece: Piece) -> Self {
        Self { piece, bytes: Vec::new(), len: 0, crc: Crc::default() }
    }
}

struct Writer<'a> {
    plan: &'a Plan,
    data: &'a dyn TensorData,
    sink: &'a dyn Sink,
    work: &'a Execution<'a>,
    /// The offset of the next byte to write.
    at: u64,
    /// The CRC of everything before `at`.
    crc: Crc,
    /// The places of the tensors that have been written.
    places: Vec<Place>,
    current: Option<Current>,
}

/// The tensor that is being written.
#[derive(Clone, Copy)]
struct Current {
    start: u64,
    /// The CRC of everything before the tensor.
    before: Crc,
    /// The length of its blocks so far.
    len: u64,
    /// The number of values at the start of the tensor whose blocks have not been written, because they are
    /// not smaller than the values. The tensor will probably be stored raw.
    held_back: u64,
}

impl Writer<'_> {
    /// Writes a piece, unless its tensor is already stored raw.
    fn take(&mut self, piece: Piece, done: &Done) -> Result<(), WriteError> {
        if self.places.len() > piece.tensor {
            return Ok(()); // stored raw already
        }
        let nbytes = self.plan.table.info(piece.tensor).map_or(0, |info| info.nbytes);
        if self.current.is_none() {
            self.align()?;
            self.current = Some(Current { start: self.at, before: self.crc, len: 0, held_back: 0 });
        }
        let Some(current) = &mut self.current else { return Ok(()) };
        let end = piece.offset + piece.len;
        current.len += done.len as u64;
        // A tensor whose compressed form is not smaller is stored raw.
        if piece.how == How::Raw || current.len >= nbytes {
            let Current { start, before, .. } = *current;
            return self.store_raw(piece.tensor, start, before, nbytes);
        }
        // Writes nothing until compression pays off, so that a tensor that never gets smaller is written only
        // once.
        if current.len >= end && current.held_back == piece.offset {
            current.held_back = end;
            return Ok(());
        }
        if current.held_back > 0 {
            let held_back = std::mem::take(&mut current.held_back);
            self.catch_up(piece.tensor, held_back)?;
        }
        self.put(done)?;
        if end == nbytes
            && let Some(current) = self.current.take()
        {
            let size = self.at - current.start;
            self.places.push(Place { offset: current.start, size, compressed: true });
        }
        Ok(())
    }

    /// Compresses and writes the values that were held back, because the tensor gets smaller after all.
    fn catch_up(&mut self, tensor: usize, held_back: u64) -> Result<(), WriteError> {
        let mut compressor = Compressor::default();
        let mut bytes = Vec::new();
        let mut offset = 0;
        while offset < held_back {
            let len = PIECE.min(held_back - offset);
            let piece = Piece { tensor, offset, len, how: How::Compressed };
            offset += len;
            let done = compressor.compress(self.plan, self.data, piece, bytes)?;
            self.put(&done)?;
            bytes = done.bytes;
            // Progress has already counted these bytes.
            if self.work.advance(0).is_break() {
                return Err(WriteError::Cancelled);
            }
        }
        Ok(())
    }

    fn put(&mut self, done: &Done) -> Result<(), WriteError> {
        let blocks = done.bytes.get(..done.len).unwrap_or_default();
        put(self.sink, self.at, blocks)?;
        self.crc = self.crc.then(done.crc);
        self.at += blocks.len() as u64;
        Ok(())
    }

    /// Writes a tensor's values raw. They overwrite all blocks of the tensor that have been written, because
    /// these are never longer.
    fn store_raw(&mut self, tensor: usize, start: u64, before: Crc, nbytes: u64) -> Result<(), WriteError> {
        let end = start.saturating_add(nbytes);
        let extent = Extent::new(start, nbytes, end)
            .map_err(|fault| unfit(modelfmt_core::Part::new("tensor"), fault))?;
        let segment = Segment { tensor, extent };
        let region = Region { extent, fill: 0, segments: std::slice::from_ref(&segment) };
        // The pieces counted as progress when they were compressed, unless compression was not tried.
        let tried = !self.plan.keep_raw.contains(&tensor);
        let only_ask = |_| self.work.advance(0);
        let work =
            Execution { progress: if tried { Some(&only_ask) } else { self.work.progress }, ..*self.work };
        let mut crc = before;
        let join = |next| crc = crc.then(next);
        let written = region.write(self.data, self.sink, &work, |_, bytes| Crc::of(bytes), join);
        written.map_err(|error| error.named(&self.plan.table))?;
        self.crc = crc;
        self.at = end;
        self.places.push(Place { offset: start, size: nbytes, compressed: false });
        self.current = None;
        Ok(())
    }

    /// Pads with zeros up to the start of the next tensor.
    fn align(&mut self) -> Result<(), WriteError> {
        let to = align_up(self.at, self.plan.options.alignment.bytes()).unwrap_or(self.at);
        let zeros = [0; 64];
        let gap = zeros.get(..usize::try_from(to - self.at).unwrap_or(0)).unwrap_or_default();
        if !gap.is_empty() {
            put(self.sink, self.at, gap)?;
            self.crc = self.crc.then(Crc::of(gap));
            self.at = to;
        }
        Ok(())
    }
}

/// Buffers that a thread reuses from piece to piece.
pub struct Compressor {
    values: AlignedBuf,
    /// Always the large table. The small one finds different matches, and the output must not depend on a
    /// thread's table.
    table: CompressTable,
}

impl Default for Compressor {
    fn default() -> Self {
        Self { values: AlignedBuf::default(), table: CompressTable::large() }
    }
}

impl Compressor {
    /// Compresses some values of a tensor and returns the blocks, which replace the content of `bytes`. The
    /// values are compressed independently, so they must be whole blocks or reach the end of their tensor.
    ///
    /// # Errors
    /// If the values cannot be read.
    pub fn blocks(
        &mut self,
        plan: &Plan,
        data: &dyn TensorData,
        tensor: usize,
        values: Range<u64>,
        bytes: Vec<u8>,
    ) -> Result<Vec<u8>, WriteError> {
        let len = values.end.saturating_sub(values.start);
        let piece = Piece { tensor, offset: values.start, len, how: How::Compressed };
        let Done { mut bytes, len, .. } = self.compress(plan, data, piece, bytes)?;
        bytes.truncate(len);
        Ok(bytes)
    }

    /// Compresses a piece into `bytes`.
    fn compress(
        &mut self,
        plan: &Plan,
        data: &dyn TensorData,
        piece: Piece,
        mut bytes: Vec<u8>,
    ) -> Result<Done, WriteError> {
        let values = match data.borrow(piece.tensor, piece.offset..piece.offset + piece.len) {
            Some(values) => values,
            None => read(&mut self.values, plan, data, piece)?,
        };
        let mut len = 0;
        for block in values.chunks(BLOCK_LEN) {
            // Reserve the length field and the longest possible block.
            let end = len + HEADER_LEN + get_maximum_output_size(block.len());
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            let room = bytes.get_mut(len..end).and_then(<[u8]>::split_first_chunk_mut);
            let Some((header, room)) = room else { break }; // it has just been made
            let stored = compress_into_with_table(block, room, &mut self.table)
                .map_err(|error| failed(plan, piece, error.into()))?;
            *header = u32::try_from(stored).unwrap_or(u32::MAX).to_le_bytes();
            len += HEADER_LEN + stored;
        }
        let crc = Crc::of(bytes.get(..len).unwrap_or_default());
        Ok(Done { piece, bytes, len, crc })
    }
}

fn read<'b>(
    buffer: &'b mut AlignedBuf,
    plan: &Plan,
    data: &dyn TensorData,
    piece: Piece,
) -> Result<&'b [u8], WriteError> {
    let len = usize::try_from(piece.len).unwrap_or(usize::MAX); // at most a piece
    buffer
        .resize(len)
        .map_err(|_| failed(plan, piece, io::Error::from(io::ErrorKind::OutOfMemory).into()))?;
    data.read(piece.tensor, piece.offset, buffer).map_err(|source| failed(plan, piece, source))?;
    Ok(buffer)
}

fn failed(plan: &Plan, piece: Piece, source: modelfmt_write::BoxError) -> WriteError {
    let name = plan.table.info(piece.tensor).map_or_else(String::new, |info| info.name.to_owned());
    WriteError::Data { name, source }
}
