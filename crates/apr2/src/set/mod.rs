//! The sharded form: a manifest, and shards that are APR2 files themselves (APR2 2.0, "Sharding").

#[cfg(feature = "sign")]
mod hidden;
mod index;
mod plan;
mod reader;
#[cfg(feature = "sign")]
mod seal;
#[cfg(feature = "encrypt")]
mod sign;
mod verify;

pub use index::{SetIndex, Shard};
pub use plan::{SetPlan, shard_crc};
pub use reader::{AsyncSetReader, SetReader};
