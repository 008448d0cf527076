//! The metadata of a target, in the form that its writer takes.

use modelfmt_core::value::Object;

use modelfmt_rules::wording::unsupported::Unsupported;

/// Metadata in the form of a target.
#[derive(Debug, Default)]
pub struct Metadata {
    /// Keys and values: numbers for MAG, strings for safetensors, the value types of its crate for OINF, any JSON for other
    /// formats.
    pub keys: Object,
    /// The size variables of OINF.
    pub sizevars: Object,
    /// For sharded safetensors, the strings in the files that the index does not have.
    pub files: Object,
    /// For AERO, the members of the source's manifest that are not made anew.
    pub manifest: Object,
    /// Parts that the target cannot hold.
    pub losses: Vec<Unsupported>,
    /// Notes about what was chosen for the user.
    pub notes: Vec<String>,
    /// The name of the model. AERO's manifest has name and architecture as text even if MJSN has another kind of value under such a
    /// key.
    pub name: String,
    /// The architecture of the model.
    pub architecture: String,
}
