//! The arguments of `modelfmt check`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::OpenArgs;

/// Look for values that are wrong: NaN, infinities, tensors all zero, constant, or twice there
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  modelfmt check model.safetensors
  modelfmt check --json a.gguf b.gguf | jq 'select(.ok | not)'

Each file has a line, and what was found of its tensors follows. `FAILED` means
that a tensor holds NaN or an infinity, or that an index and its files disagree;
the exit status is then 1. All zero, constant and `same as` are no failures.
Hashes and checksums are not looked at: `verify` does that.")]
pub(crate) struct Check {
    /// Model files, indexes of sets, or folders with one of them
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,
    /// Print one JSON object per file, one per line
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) open: OpenArgs,
}
