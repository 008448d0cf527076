//! AEROSET, the form with several files.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod index;
mod map;
mod matching;
mod plan;
mod proved;
mod reader;
mod verify;

pub use index::{SetFile, SetIndex, SetPart};
pub use plan::SetPlan;
pub use proved::{FileProofs, VerifiedFiles, sha256};
pub use reader::{AsyncSetReader, SetReader, SetReaderExt};
