//! The arguments of `modelfmt check`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::OpenArgs;

/// Look for bad values and for what could run code: NaN, outliers, templates, pickles
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  modelfmt check model.safetensors
  modelfmt check -r downloads/
  modelfmt check --json a.gguf b.gguf | jq 'select(.ok | not)'

Each file gets a line, followed by what was found. `FAILED` means that a tensor
holds NaN or an infinity, that an index and its files disagree, or that a chat
template or a pickle could run code; the exit status is then 1. Other findings are
not failures: outliers (at least 32,768 times as large as half of the tensor's
values), tensors that are all zero, constant or equal, and invisible characters.
Hashes and checksums are not checked: `verify` does that. Vocabularies and other
long lists of text are not searched; the output says so.")]
pub(crate) struct Check {
    /// Model files, indexes of sets, or folders with one of them
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,
    /// Check every model below each folder, and every pickle. Hidden files are skipped; files that an index names are checked with that index
    #[arg(long, short)]
    pub(crate) recursive: bool,
    /// Print one JSON object per file, one per line
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) open: OpenArgs,
}
