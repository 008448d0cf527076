//! The arguments of `modelfmt seal`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::convert::{ConvertOptionArgs, for_out};

/// Encrypt a model of any format into an APR2 file that only the people you choose can open
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  modelfmt keygen --type x25519 -o me.key
  modelfmt seal model.safetensors model.apr --to-recipient me.key.pub
  modelfmt seal model.gguf model.apr --passphrase-file phrase --sign release.key
  modelfmt unseal model.apr model.safetensors --identity me.key
  modelfmt seal model.apr --rekey --identity me.key --to-recipient other.key.pub

A sealed IN is opened with --identity, --old-passphrase-file or --old-key-file.
--rekey writes no tensor again. People who could open the file before can still open
copies of it, and the file too if they kept its key: to shut somebody out, seal the
model into a new file.")]
#[command(mut_args(for_out))]
pub(crate) struct Seal {
    /// The model to read, and the APR2 file to write; several models become one. With --rekey, only the sealed file
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath, required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Change who can open a sealed file, in place: only the people whom this command names. Its signatures stay valid
    #[arg(long, help_heading = "Sealing")]
    pub(crate) rekey: bool,
    #[command(flatten)]
    pub(crate) how: ConvertOptionArgs,
}
