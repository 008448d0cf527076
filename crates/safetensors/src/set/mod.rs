//! Sharded models: a JSON index, and the files that it names.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod index;
mod plan;
mod reader;
mod verify;

pub use index::SetIndex;
pub use plan::SetPlan;
pub use reader::{AsyncSetReader, SetReader};
