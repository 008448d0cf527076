//! The metadata of a target, as its writer takes it.

use modelfmt_core::value::Object;

use crate::unsupported::Unsupported;

/// Metadata as a target takes it.
#[derive(Debug, Default)]
pub struct Metadata {
    /// Keys and values: any JSON; for MAG numbers, for safetensors strings, for OINF what its crate reads.
    pub keys: Object,
    /// OINF: size variables.
    pub sizevars: Object,
    /// Sharded safetensors: strings of the files that the index does not have.
    pub files: Object,
    /// AERO: what the source's manifest says beyond what is made again.
    pub manifest: Object,
    /// What the target cannot hold.
    pub losses: Vec<Unsupported>,
    /// What was chosen for the user.
    pub notes: Vec<String>,
    /// The name of the model. AERO's manifest has texts for name and architecture even if MJSN has something else under such a key.
    pub name: String,
    /// The architecture of the model.
    pub architecture: String,
}
