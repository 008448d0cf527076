//! The form of many files: AEROSET.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod index;
mod map;
mod plan;
mod proved;
mod reader;
mod stated;
mod verify;

pub use index::{SetFile, SetIndex, SetPart};
pub(crate) use plan::DEFAULT_SHARDS_PER_PART;
pub use plan::SetPlan;
pub use proved::{FileProofs, VerifiedFiles, sha256};
pub use reader::{AsyncSetReader, SetReader, SetReaderExt};
