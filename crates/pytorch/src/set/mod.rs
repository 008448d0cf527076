//! Sharded models: a JSON index (`pytorch_model.bin.index.json`), and the checkpoints that it names.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod index;
mod reader;
mod verify;

pub use index::SetIndex;
pub use reader::{AsyncSetReader, SetReader};
