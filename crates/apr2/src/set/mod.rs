//! Sharded models: a manifest, and shards that are APR2 files themselves (APR2 2.0, "Sharding").

mod index;
mod plan;
mod reader;
pub(crate) mod verify;

pub use index::{SetIndex, Shard};
pub use plan::manifest;
pub use plan::{SetPlan, shard_crc};
pub use reader::{AsyncSetReader, SetReader};
