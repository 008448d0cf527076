//! The arguments of `modelfmt unseal`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::convert::ConvertOptionArgs;

/// Write a sealed model in the clear, in any format
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  modelfmt unseal sealed.apr model.apr --identity me.key
  modelfmt unseal sealed.apr model.safetensors --passphrase-file phrase --key publisher.pub

What is written is not encrypted and has no signature.")]
pub(crate) struct Unseal {
    /// The sealed file, or the manifest of a sealed set
    #[arg(value_name = "IN", value_hint = ValueHint::FilePath)]
    pub(crate) input: PathBuf,
    /// The file to write; its ending says the format, as for convert
    #[arg(value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) how: ConvertOptionArgs,
}
