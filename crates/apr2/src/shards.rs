//! Models of several files: a manifest, and shards that are APR2 files themselves (APR2 2.0, "Sharding").
//!
//! A [`SetPlan`] writes them, a [`SetReader`] reads them; its shards are opened when one of their tensors is asked for.
//!
//! ```
//! use apr2::write::MemoryFolder;
//! use apr2::{DType, Metadata, SetPlan, SetReader, TensorSpec, Execution, WriteOptions};
//!
//! let metadata = Metadata::new("whisper", Default::default());
//! let specs = ["a", "b"].map(|name| TensorSpec::new(name, DType::U8, vec![1000]));
//! let plan = SetPlan::new("model.apr", specs, &metadata, &WriteOptions::new().shard_size(1500))?;
//! let folder = MemoryFolder::default(); // or `plan.write_folder("models/", …)`
//! plan.write(&[[1u8; 1000], [2; 1000]], &folder, &Execution::default())?;
//!
//! let model = SetReader::from_files(folder.files(), "model.apr")?; // or `SetReader::open("models/model.apr")`
//! assert_eq!(model.index().shard(1).unwrap().file, "model-00002-of-00002.apr");
//! assert_eq!(model.tensor("b")?.bytes(), [2; 1000]); // opens the second shard only
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The manifest's `crc32` is that of a whole shard, and a shard ends in its own CRC: such a number depends on the shard's
//! length alone. It finds damage, as the shard's own does, and not that one intact shard stands in the place of another of the
//! same length; that is found by the tensors that it has.

mod manifest;
mod plan;
mod reader;
mod verify;

pub use manifest::{Manifest, Shard};
pub use plan::SetPlan;
pub use reader::{AsyncSetReader, SetReader};
