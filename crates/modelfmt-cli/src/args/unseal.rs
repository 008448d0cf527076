//! The arguments of `modelfmt unseal`.

use std::path::PathBuf;

use clap::{Arg, Args, ValueHint};

use super::convert::ConvertOptionArgs;

/// Decrypt a sealed model, and write it in any format
#[derive(Debug, Args)]
#[command(mut_args(without_sealing))]
#[command(after_help = "Examples:
  modelfmt unseal sealed.apr model.apr --identity me.key
  modelfmt unseal sealed.apr model.safetensors --passphrase-file phrase --key publisher.pub

What is written is not encrypted and has no signature.")]
pub(crate) struct Unseal {
    /// The sealed file, or the manifest of a sealed set
    #[arg(value_name = "IN", value_hint = ValueHint::FilePath)]
    pub(crate) input: PathBuf,
    /// The file to write; its extension chooses the format, as for convert
    #[arg(value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) how: ConvertOptionArgs,
}

/// Hides the options that choose who can open OUT.
fn without_sealing(arg: Arg) -> Arg {
    const SEALING: [&str; 5] =
        ["to_recipient", "key_id", "hide_index", "old_passphrase_file", "old_key_file"];
    if SEALING.contains(&arg.get_id().as_str()) { arg.hide(true) } else { arg }
}
