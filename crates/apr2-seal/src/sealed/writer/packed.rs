//! Compresses the values of neighbouring tensors before their first byte is encrypted. A tensor is stored
//! compressed only if that makes it smaller, and no byte may be encrypted twice with the same key.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use apr2::author::{Compressor, Planned};
use apr2::{Compression, Plan};
use modelfmt_core::Execution;
use modelfmt_core::author::PIECE;
use modelfmt_write::TensorData;

use crate::error::WriteError;

/// The most values, in bytes, whose compressed form is in memory at once.
const BATCH: u64 = if cfg!(test) { 2 * PIECE } else { 64 << 20 };

/// A range of one tensor's values.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    pub(super) tensor: usize,
    pub(super) offset: u64,
    pub(super) len: u64,
}

impl Piece {
    pub(super) const fn values(self) -> Range<u64> {
        self.offset..self.offset.saturating_add(self.len)
    }
}

/// All values, cut into pieces.
pub(super) struct Pieces {
    lens: Vec<u64>,
    firsts: Vec<u64>,
    count: u64,
}

impl Pieces {
    pub(super) fn new(plan: &Plan) -> Self {
        let lens = plan.tensors().iter().map(|info| info.nbytes);
        let mut pieces = Self { lens: lens.collect(), firsts: Vec::new(), count: 0 };
        for len in &pieces.lens {
            pieces.firsts.push(pieces.count);
            pieces.count += len.div_ceil(PIECE);
        }
        pieces
    }

    /// Returns the numbers of the pieces of these tensors.
    pub(super) fn of(&self, tensors: &Range<usize>) -> Range<u64> {
        let first = |tensor: usize| self.firsts.get(tensor).copied().unwrap_or(self.count);
        first(tensors.start)..first(tensors.end)
    }

    pub(super) fn at(&self, number: u64) -> Piece {
        // Finds the last of the tensors that begin with this piece. The others are empty.
        let tensor = self.firsts.partition_point(|&first| first <= number).saturating_sub(1);
        let first = self.firsts.get(tensor).copied().unwrap_or(0);
        let offset = (number - first).saturating_mul(PIECE);
        let len = self.lens.get(tensor).copied().unwrap_or(0).saturating_sub(offset).min(PIECE);
        Piece { tensor, offset, len }
    }

    /// Returns all tensors, in groups that are compressed together. A group has several tensors only if all
    /// of them fit into memory.
    pub(super) fn batches(&self, plan: &Plan) -> impl Iterator<Item = Range<usize>> {
        let all = self.lens.len();
        let packs = Planned::of(plan).compression != Compression::None;
        let mut next = 0;
        std::iter::from_fn(move || {
            let start = next;
            let mut nbytes = 0u64;
            while let Some(&len) = self.lens.get(next) {
                nbytes = nbytes.saturating_add(len);
                if packs && next > start && nbytes > BATCH {
                    break;
                }
                next += 1;
            }
            (start < all).then_some(start..next)
        })
    }
}

/// Some neighbouring tensors, compressed.
pub(super) struct Packed {
    first: usize,
    /// The compressed length of each tensor; `None` if it is not smaller.
    lens: Vec<Option<u64>>,
    /// The compressed pieces if they fit into memory, otherwise empty.
    kept: Vec<Mutex<Vec<u8>>>,
}

impl Packed {
    pub(super) fn new(
        plan: &Plan,
        pieces: &Pieces,
        tensors: Range<usize>,
        data: &dyn TensorData,
        work: &Execution<'_>,
    ) -> Result<Self, WriteError> {
        let mut packed = Self { first: tensors.start, lens: vec![None; tensors.len()], kept: Vec::new() };
        match Planned::of(plan).compression {
            Compression::None => {}
            Compression::Lz4 => packed.pack(plan, pieces, &tensors, data, work)?,
        }
        Ok(packed)
    }

    fn pack(
        &mut self,
        plan: &Plan,
        pieces: &Pieces,
        tensors: &Range<usize>,
        data: &dyn TensorData,
        work: &Execution<'_>,
    ) -> Result<(), WriteError> {
        let (numbers, planned) = (pieces.of(tensors), Planned::of(plan));
        let lens = pieces.lens.get(tensors.clone()).unwrap_or_default();
        let keeps = lens.iter().fold(0u64, |sum, &len| sum.saturating_add(len)) <= BATCH;
        let run = |compressor: &mut Compressor, number: u64| {
            let piece = pieces.at(numbers.start + number);
            if planned.keeps_raw(piece.tensor) {
                return Ok((piece, piece.len, Vec::new()));
            }
            let mut bytes = compressor.blocks(plan, data, piece.tensor, piece.values(), Vec::new())?;
            if work.advance(0).is_break() {
                return Err(WriteError::Cancelled);
            }
            let len = bytes.len() as u64;
            if keeps {
                bytes.shrink_to_fit();
            } else {
                bytes = Vec::new();
            }
            Ok((piece, len, bytes))
        };
        let take = |(piece, len, bytes): (Piece, u64, Vec<u8>)| {
            if let Some(sum) = self.lens.get_mut(piece.tensor - self.first) {
                *sum = Some(sum.unwrap_or(0) + len);
            }
            self.kept.push(Mutex::new(bytes));
            Ok(())
        };
        work.each(numbers.end - numbers.start, Compressor::default, run, take)?;
        for (packed, &raw) in self.lens.iter_mut().zip(lens) {
            *packed = packed.filter(|&len| len < raw);
        }
        Ok(())
    }

    /// Returns the compressed length of a tensor, or `None` if it is not compressed.
    pub(super) fn len_of(&self, tensor: usize) -> Option<u64> {
        self.lens.get(tensor.checked_sub(self.first)?).copied().flatten()
    }

    /// Takes a compressed piece out, by its number in this group. Returns `None` if it is not in memory.
    pub(super) fn take(&self, number: u64) -> Option<Vec<u8>> {
        let kept = self.kept.get(usize::try_from(number).ok()?)?;
        let bytes = std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner));
        (!bytes.is_empty()).then_some(bytes)
    }
}
