//! Models of several files: AEROSET.
//!
//! An index in JSON names the parts, each an AERO file with shards of its own, and one AERO file, `STEM.index.aero`, which lists
//! the tensors of all. A [`SetPlan`] writes them, a [`SetReader`] reads them; a part is opened when one of its tensors is asked for.
//!
//! ```
//! use aero::{DType, SetPlan, SetReader, TensorSpec, Execution, WriteOptions};
//! use modelfmt_core::value::Object;
//! use modelfmt_core::write::MemoryFolder;
//!
//! let metadata = Object::from_iter([("model_name", "tiny"), ("architecture", "demo")]);
//! let specs = ["a", "b"].map(|name| TensorSpec::new(name, DType::U8, vec![1000]));
//! let options = WriteOptions::new().part_size(1500);
//! # let options = options.uuid([7; 16]).zstd(None);
//! let plan = SetPlan::new("model.aeroset.json", specs, &metadata, &options)?;
//! let folder = MemoryFolder::default(); // or plan.write_folder("models/", …)
//! plan.write(&[[1u8; 1000], [2; 1000]], &folder, &Execution::default())?;
//!
//! let model = SetReader::from_files(folder.files(), "model.aeroset.json")?; // or SetReader::open("models/")
//! assert_eq!(model.index().parts()[1].file.path, "model.part-001.aero");
//! assert_eq!(model.tensor("b")?.bytes(), [2; 1000]); // opens the second part only
//! # assert!(model.verify(aero::VerifyLevel::Full).is_ok());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod index;
mod map;
mod plan;
mod reader;
mod stated;
mod verify;

pub use index::{SetFile, SetIndex, SetPart};
pub(crate) use plan::DEFAULT_SHARDS_PER_PART;
pub use plan::SetPlan;
pub use reader::{AsyncSetReader, SetReader};
