//! The CRC-32s of an archive's records, as claims.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::sync::Arc;

use modelfmt_arrays::Arrays;
use modelfmt_core::claims::{FileClaims, Wanted};

use crate::error::{Fault, Result};
use crate::index::Index;

/// Adds the CRC of each record that is read, and of the pickle, which describes the tensors in them.
pub(crate) fn claims(index: &Arc<Index>, wanted: &[Wanted], out: &mut FileClaims<'_>) -> Result<()> {
    let pickle = index.pickle();
    Arrays::claims::<Index, Fault>(index, |index| &index.arrays, wanted, pickle, out)
}
