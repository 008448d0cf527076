//! Split models: files `NAME-00001-of-00003.gguf` and so on, each of which is a complete GGUF file. Any of
//! them opens the model.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod index;
mod name;
mod plan;
mod reader;
mod verify;

pub use index::SetIndex;
pub use name::{SplitName, later_files};
pub use plan::SetPlan;
pub use reader::{AsyncSetReader, SetReader};
