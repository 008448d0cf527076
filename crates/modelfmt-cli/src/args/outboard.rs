//! The arguments of `modelfmt outboard`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// Write the outboard of a file, which lets any range of it be verified, and print the file's BLAKE3
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  modelfmt outboard model.gguf
  modelfmt show model.gguf output.weight --pin b3:$(b3sum --no-names model.gguf)

The outboard is FILE.obao4, 0.39 % of the size of FILE; empty for a file of at
most 16 KiB. FILE can be any file, and is not changed. You need not trust the
outboard, only the hash: keep the hash where nobody can change it together with FILE.")]
pub(crate) struct Outboard {
    /// The file
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Replace FILE.obao4 if it exists
    #[arg(long)]
    pub(crate) force: bool,
}
