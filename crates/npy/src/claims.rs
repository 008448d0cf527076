//! The CRC-32s of an archive's members, as claims for checked reads.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::sync::Arc;

use modelfmt_arrays::Arrays;
use modelfmt_core::claims::{FileClaims, WantedRange};

use crate::error::{Fault, Result};
use crate::index::Index;

pub(crate) fn claims(index: &Arc<Index>, wanted: &[WantedRange], out: &mut FileClaims<'_>) -> Result<()> {
    Arrays::claims::<Index, Fault>(index, |index| &index.arrays, wanted, [], out)
}
