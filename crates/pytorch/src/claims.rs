//! The CRC-32s of an archive's records, as claims for checked reads.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::sync::Arc;

use modelfmt_arrays::Arrays;
use modelfmt_core::claims::{FileClaims, WantedRange};

use crate::error::{Fault, Result};
use crate::index::Index;

/// Adds the CRC of each record that is read, and of the pickle, which describes the tensors in these records.
pub(crate) fn claims(index: &Arc<Index>, wanted: &[WantedRange], out: &mut FileClaims<'_>) -> Result<()> {
    let pickle = index.pickle();
    Arrays::claims::<Index, Fault>(index, |index| &index.arrays, wanted, pickle, out)
}
