//! Computes the places of the tensors in a sealed file.

use apr2::Plan;
use apr2::author::{DATA_ALIGNMENT, HEADER_LEN, Planned};
use modelfmt_core::author::align_up;

use super::{HIDDEN, refused};
use crate::error::{SealFault, WriteError};
use crate::seal::SealOptions;
use crate::seal::write::Cipher;

pub(super) const TOO_LONG: &str = "the sealed index is too long";
const OVER_ONE_KEY: &str = "a tensor has more than 2^44 bytes, the most that is encrypted with one key";
/// The longest sealed index that is written. Including its tags it does not exceed what readers allow.
const MAX_SEALED_INDEX: u64 = (1 << 31) - (1 << 20);

/// The place of a tensor in the file.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// The offset from the start of the file.
    pub(super) offset: u64,
    /// The number of stored bytes.
    pub(super) size: u64,
    /// The number of bytes before encryption, compressed or not.
    pub(super) plain: u64,
    pub(super) compressed: bool,
}

impl Place {
    pub(super) const NOWHERE: Self = Self { offset: 0, size: 0, plain: 0, compressed: false };
}

pub(super) struct Places {
    pub(super) data_offset: u64,
    /// The places of the first tensors, in order.
    pub(super) list: Vec<Place>,
    /// The end of the last tensor.
    pub(super) end: u64,
}

impl Places {
    /// Creates an empty list. Refuses a front that is too long.
    pub(super) fn new(plan: &Plan, options: &SealOptions) -> Result<Self, WriteError> {
        let limit = |what: &str| refused(SealFault::Limit(what.to_owned()));
        let planned = Planned::of(plan);
        let front = planned.metadata.len() as u64 + u64::from(planned.index_len);
        let front = match options.hides_index {
            true if front + 16 >= MAX_SEALED_INDEX => return Err(limit(TOO_LONG)),
            true => HIDDEN.len() as u64 + 8,
            false => front,
        };
        let data_offset = (HEADER_LEN + front).next_multiple_of(DATA_ALIGNMENT);
        u32::try_from(data_offset).map_err(|_| limit("the index takes more than 4 GiB"))?;
        let mut places =
            Self { data_offset, list: Vec::with_capacity(plan.tensors().len()), end: data_offset };
        // Compression never makes a tensor longer, so if all tensors fit without it, they always fit.
        for position in 0..plan.tensors().len() {
            places.add(plan, options, position, None)?;
        }
        places.list.clear();
        places.end = data_offset;
        Ok(places)
    }

    /// Adds the next tensor, which is at `position`. `packed` is its compressed length, if it is compressed.
    pub(super) fn add(
        &mut self,
        plan: &Plan,
        options: &SealOptions,
        position: usize,
        packed: Option<u64>,
    ) -> Result<(), WriteError> {
        let too_long = || refused(SealFault::Limit("the file would be longer than a file can be".to_owned()));
        let plain = packed.unwrap_or_else(|| plan.tensors().info(position).map_or(0, |info| info.nbytes));
        let size = match options.encrypts() {
            true => Cipher::stored_len(plain, options.segment),
            false => Some(plain),
        };
        let offset = align_up(self.end, Planned::of(plan).alignment).ok_or_else(too_long)?;
        let size = size.ok_or_else(|| refused(SealFault::Limit(OVER_ONE_KEY.to_owned())))?;
        let end = offset.checked_add(size).filter(|&end| end < 1 << 62).ok_or_else(too_long)?;
        self.list.push(Place { offset, size, plain, compressed: packed.is_some() });
        if size > 0 {
            self.end = end;
        }
        Ok(())
    }
}
