//! The arguments of `modelfmt check`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::OpenArgs;

/// Look for bad values: NaN, infinities, and tensors that are all zero, constant or duplicates
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  modelfmt check model.safetensors
  modelfmt check --json a.gguf b.gguf | jq 'select(.ok | not)'

Each file gets a line, followed by the findings about its tensors. `FAILED` means
that a tensor holds NaN or an infinity, or that an index and its files disagree;
the exit status is then 1. All zero, constant and `same as` are not failures.
Hashes and checksums are not checked: `verify` does that.")]
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
