//! Sharded models whose shards are sealed, and signed as one.

mod hidden;
mod index;
mod plan;
mod reader;
mod seal;
mod sign;
mod verify;

pub use index::SetIndex;
pub use reader::{AsyncSetReader, SetReader};
