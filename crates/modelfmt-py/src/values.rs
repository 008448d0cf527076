//! Reads values of tensors, or ranges of them, into memory for Python.

use std::sync::Arc;

use modelfmt::modelfmt_core::claims::ClaimError;
use modelfmt::modelfmt_core::load::{self, LoadBuffer, LoadOptions};
use modelfmt::modelfmt_core::plan::Pick;
use modelfmt::modelfmt_core::{AlignedBuf, AnyError};
use modelfmt::{Error, Execution};
use pyo3::exceptions::{PyIndexError, PyMemoryError};
use pyo3::prelude::*;

use crate::errors::raise;
use crate::maps::Maps;
use crate::raw::{self, Block, Memory};
use crate::work::{self, Progress};

/// The number of bytes that are read at once: a multiple of the pieces in which compressed tensors are read.
const PIECE: usize = 4 << 20;
/// Up to this many bytes are read on the calling thread, without a check for Ctrl-C.
const SHORT: u64 = 8 << 20;

/// A model whose values are read.
#[derive(Clone, Copy)]
pub(crate) struct Values<'a> {
    pub(crate) model: &'a Arc<modelfmt::Model>,
    /// Its maps, if it is mapped.
    pub(crate) maps: Option<&'a Maps>,
    /// Whether its values come over a network.
    pub(crate) is_remote: bool,
}

impl Values<'_> {
    /// Reads several ranges of a tensor's values, one after the other.
    pub(crate) fn gathered(
        self,
        py: Python<'_>,
        position: usize,
        nbytes: u64,
        ranges: Vec<(u64, u64)>,
    ) -> PyResult<Memory> {
        let total =
            ranges.iter().try_fold(0u64, |sum, (start, end)| sum.checked_add(end.checked_sub(*start)?));
        let total = total.filter(|_| ranges.iter().all(|(_, end)| *end <= nbytes));
        let total = total.ok_or_else(|| PyIndexError::new_err("a range is outside the tensor"))?;
        let mut buffer = buffer(total)?;
        let gathered = match total <= SHORT && !self.is_remote {
            true => {
                let read = py
                    .detach(|| gather(self.model, position, &ranges, &mut buffer, &Execution::sequential()));
                read.map(|()| buffer)
            }
            false => {
                let model = Arc::clone(self.model);
                work::run(py, Some(1), &Progress::none(), move |work| {
                    gather(&model, position, &ranges, &mut buffer, work).map(|()| buffer)
                })?
            }
        };
        Ok(Memory::new(Block::of_buffer(gathered.map_err(|error| raise(py, &error))?)))
    }

    /// Returns a tensor's values: a part of the map, or new memory into which they are read.
    pub(crate) fn block(self, py: Python<'_>, position: usize, len: u64) -> PyResult<Block> {
        if let Some(block) = self.maps.and_then(|maps| maps.block(self.model, position, len)) {
            return Ok(block);
        }
        if len <= SHORT && !self.is_remote {
            let mut buffer = buffer(len)?;
            let done = py.detach(|| self.model.read_into(position, 0, &mut buffer));
            done.map_err(|error| raise(py, &error))?;
            return Ok(Block::of_buffer(buffer));
        }
        let model = Arc::clone(self.model);
        let loaded = work::run(py, None, &Progress::none(), move |work| {
            let (picks, options) = ([Pick::whole(position)], LoadOptions::new());
            let failed = |error| not_loaded(&model, error);
            let mut buffer = LoadBuffer::zeroed(len)
                .map_err(|source| failed(AnyError::Io { at: 0, len, source }.into()))?;
            load::load_into(model.container(), &picks, &mut [&mut buffer], &options, work).map_err(failed)?;
            Ok(buffer)
        })?;
        Ok(Block::of_loaded(loaded.map_err(|error| raise(py, &error))?))
    }
}

/// Reads ranges of a tensor's values, one after the other.
fn gather(
    model: &modelfmt::Model,
    position: usize,
    ranges: &[(u64, u64)],
    out: &mut [u8],
    work: &Execution<'_>,
) -> Result<(), Error> {
    let mut rest = out;
    for &(start, end) in ranges {
        let len = usize::try_from(end - start).unwrap_or_default();
        let Some((mut piece, after)) = rest.split_at_mut_checked(len) else { break };
        let mut at = start;
        while !piece.is_empty() {
            let (now, later) = piece.split_at_mut(piece.len().min(PIECE));
            model.read_into(position, at, now)?;
            if work.advance(now.len() as u64).is_break() {
                return Err(cancelled(model));
            }
            at += now.len() as u64;
            piece = later;
        }
        rest = after;
    }
    Ok(())
}

/// Returns the error for a failed load: a damaged file, or anything else.
pub(crate) fn not_loaded(model: &modelfmt::Model, error: ClaimError) -> Error {
    let path = model.path().to_owned();
    match error {
        ClaimError::Damaged(error) => Error::Damaged { path, error: Box::new(error) },
        ClaimError::Other(error) => Error::File { path, error },
    }
}

fn cancelled(model: &modelfmt::Model) -> Error {
    Error::File { path: model.path().to_owned(), error: AnyError::Cancelled }
}

fn buffer(nbytes: u64) -> PyResult<AlignedBuf> {
    let none = || PyMemoryError::new_err(format!("cannot allocate {nbytes} bytes"));
    raw::buffer(usize::try_from(nbytes).map_err(|_| none())?).map_err(|_| none())
}
