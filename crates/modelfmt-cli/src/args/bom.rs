//! The arguments of `modelfmt bom`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use modelfmt::bom::Spec;

use super::{BesideArgs, OpenArgs};

/// Write a bill of materials: name, licence, base models, parameters and the hashes of all files, as CycloneDX or SPDX
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  modelfmt bom model.gguf -o model.cdx.json
  modelfmt bom folder/ --spec spdx -o model.spdx.json
  modelfmt bom model.safetensors --tensors | jq '.components[0].licenses'
  modelfmt bom model.apr --key author.pub -o model.cdx.json     names the signer, too

Name, version, licence and base models are those that the metadata states; what is
not known is left out. The same files give the same bytes: CycloneDX gets no time, and
SPDX the one of SOURCE_DATE_EPOCH, or 1970-01-01T00:00:00Z.")]
pub(crate) struct Bom {
    /// Model files, indexes of sets, or folders with one of them
    #[arg(required = true, value_name = "MODEL", value_hint = ValueHint::FilePath)]
    pub(crate) models: Vec<PathBuf>,
    /// The file to write; standard output if there is none, or with -
    #[arg(long, short, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// The specification: CycloneDX 1.6, or SPDX 3.0.1 with its AI profile
    #[arg(long, value_name = "cyclonedx|spdx", default_value = Spec::default().name(), hide_default_value = true)]
    pub(crate) spec: Spec,
    /// Also list each tensor with the BLAKE3 hash of its values
    #[arg(long, alias = "tensor-hashes")]
    pub(crate) tensors: bool,
    /// Replace OUT if it exists
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) beside: BesideArgs,
    #[command(flatten)]
    pub(crate) open: OpenArgs,
}
