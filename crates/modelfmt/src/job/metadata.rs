//! The metadata of a target, as its writer takes it.

use modelfmt_core::value::Object;

use crate::unsupported::Unsupported;

/// Metadata as a target takes it.
#[derive(Debug, Default)]
pub(crate) struct Metadata {
    /// Keys and values: any JSON; for MAG numbers, for safetensors strings, for OINF what its crate reads.
    pub(crate) keys: Object,
    /// OINF: size variables.
    pub(crate) sizevars: Object,
    /// Sharded safetensors: strings of the files that the index does not have.
    pub(crate) files: Object,
    /// AERO: what the source's manifest says beyond what is made again.
    #[cfg_attr(not(feature = "aero"), expect(dead_code, reason = "no other format has a manifest"))]
    pub(crate) manifest: Object,
    /// What the target cannot hold.
    pub(crate) losses: Vec<Unsupported>,
    /// What was chosen for the user.
    pub(crate) notes: Vec<String>,
    /// AERO's manifest has texts for these even if MJSN has something else under such a key.
    #[cfg_attr(not(feature = "aero"), expect(dead_code, reason = "no other format has a manifest"))]
    pub(crate) name: String,
    #[cfg_attr(not(feature = "aero"), expect(dead_code, reason = "no other format has a manifest"))]
    pub(crate) architecture: String,
}
