//! Tensors over the same bytes (tied weights): their values are read only once.
//!
//! A small file can list many tensors over the same bytes, or over bytes that overlap in part. Tensors over
//! the same bytes are legal, but reading each by itself could take far more work than the size of the file.
//! Partial overlap is damage. Reading such tensors is refused beyond [`MAX_TIMES`] the size of the file.

use std::collections::HashMap;

use modelfmt_core::{AnyError, DType, Encoding};

use crate::error::Result;
use crate::model::Model;

/// The maximum number of bytes that may be read from a file, or written because of ties, as a multiple of its
/// size.
pub const MAX_TIMES: u64 = 16;

/// The location and type of values. Tensors with equal extents have the same values.
#[derive(PartialEq, Eq, Hash)]
struct Extent {
    /// The number of the file in a set.
    file: Option<usize>,
    offset: u64,
    stored_nbytes: u64,
    nbytes: u64,
    dtype: DType,
}

/// Tensors of a model, grouped by the bytes that they are over.
pub struct Ties {
    /// The first tensor of each group, by its position in the model.
    pub firsts: Vec<usize>,
    /// The length in bytes of each group in the file.
    stored: Vec<u64>,
    /// The group of each given tensor, in the given order.
    pub groups: Vec<usize>,
    /// For each file of a set, the end of the last of these tensors in it.
    ends: Vec<u64>,
}

impl Ties {
    /// Groups the tensors at these positions. Each tensor without data is a group of its own.
    ///
    /// # Errors
    /// If a file of a set is missing or broken.
    pub fn of(model: &Model, positions: impl IntoIterator<Item = usize>) -> Result<Self> {
        let (mut files, mut known) = (HashMap::<String, usize>::new(), HashMap::<Extent, usize>::new());
        let mut ties = Self { firsts: Vec::new(), stored: Vec::new(), groups: Vec::new(), ends: Vec::new() };
        for position in positions {
            let location = model.location(position)?;
            let next = ties.firsts.len();
            let info = model.container().info(position);
            // Decoded tensors over the same bytes can have different values.
            let is_made = matches!(location.encoding, Encoding::Deflate | Encoding::Strided);
            let group = match (location.offset, info.filter(|info| info.has_data && !is_made)) {
                (Some(offset), Some(info)) => {
                    let number = files.len();
                    let file = location.file.map(|file| *files.entry(file).or_insert(number));
                    if let Some(file) = file {
                        ties.ends.resize(files.len(), 0);
                        let end = offset.saturating_add(location.stored_nbytes);
                        ties.ends.get_mut(file).into_iter().for_each(|last| *last = end.max(*last));
                    }
                    let (nbytes, dtype) = (info.nbytes, info.dtype);
                    let stored_nbytes = location.stored_nbytes;
                    *known.entry(Extent { file, offset, stored_nbytes, nbytes, dtype }).or_insert(next)
                }
                _ => next,
            };
            if group == next {
                ties.firsts.push(position);
                ties.stored.push(location.stored_nbytes);
            }
            ties.groups.push(group);
        }
        Ok(ties)
    }

    /// Returns the number of tensors that share the bytes of an earlier one.
    pub fn tied(&self) -> usize {
        self.groups.len() - self.firsts.len()
    }

    /// Returns the number of tensors in each group.
    pub fn sizes(&self) -> Vec<usize> {
        let mut sizes = vec![0; self.firsts.len()];
        for &group in &self.groups {
            sizes.get_mut(group).into_iter().for_each(|size| *size += 1);
        }
        sizes
    }

    /// Returns the length in bytes of a group in the file.
    pub fn stored(&self, group: usize) -> u64 {
        self.stored.get(group).copied().unwrap_or(0)
    }

    /// Returns the size of the model in bytes, but not more than the end of its last tensors: the index of a
    /// set can state any size for its files.
    pub fn size(&self, model: &Model) -> u64 {
        let size = model.container().file_size();
        match &*self.ends {
            [] => size,
            ends => size.min(ends.iter().copied().fold(0, u64::saturating_add)),
        }
    }

    /// Fails if groups overlap so often that reading each once would take a multiple of the size of the file.
    ///
    /// # Errors
    /// [`AnyError::Limit`] if so.
    pub fn check_reading(&self, model: &Model) -> Result<()> {
        check_reading(self.stored.iter().copied(), self.size(model), model)
    }
}

/// Fails if the reads are more than [`MAX_TIMES`] the size.
pub fn check_reading(read: impl Iterator<Item = u64>, size: u64, model: &Model) -> Result<()> {
    let (found, max) = (read.fold(0, u64::saturating_add), size.saturating_mul(MAX_TIMES));
    if found <= max {
        return Ok(());
    }
    let what = "the number of bytes to read, of tensors that lie over each other (`verify` says which),";
    Err(model.failed(AnyError::Limit { what, found, max }))
}
