//! The arguments of `modelfmt plan`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::OpenArgs;

/// List the ranges of a file that have to be read for some tensors, as requests. No values are read
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  modelfmt plan model.safetensors
  modelfmt plan model.safetensors 'layers.0.*' head.weight
  modelfmt plan model.safetensors.index.json 'embed.*' --json | jq '.ranges[]'

The ranges hold the values; bytes that are read to open or verify the file are not
listed. Gaps of up to 64 KiB between tensors are read too, to save requests, and
count as overhead. A request has at most 8 MiB. For a URL these limits are 1 MiB
and 16 MiB.")]
pub(crate) struct Plan {
    /// A model file, the index of a set, or a folder with one of them
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Tensors by name or pattern, such as 'layers.*.weight'; all of them, if none is named
    #[arg(value_name = "GLOB")]
    pub(crate) tensors: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) open: OpenArgs,
}
