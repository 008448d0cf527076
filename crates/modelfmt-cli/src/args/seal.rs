//! The arguments of `modelfmt seal`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::convert::{ConvertOptionArgs, for_out};

/// Encrypt a model of any format into an APR2 file that only those can open whom you name
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  modelfmt keygen --type x25519 -o me.key
  modelfmt seal model.safetensors model.apr --to-recipient me.key.pub
  modelfmt seal model.gguf model.apr --passphrase-file phrase --sign release.key
  modelfmt unseal model.apr model.safetensors --identity me.key

A sealed IN is opened with --identity, --old-passphrase-file or --old-key-file.")]
#[command(mut_args(for_out))]
pub(crate) struct Seal {
    /// The model to read, and the APR2 file to write; several models become one
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath, required = true)]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) how: ConvertOptionArgs,
}
