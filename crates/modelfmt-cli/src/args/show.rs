//! The arguments of `modelfmt show`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::OpenArgs;

/// Print values, statistics and histogram of tensors as text
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  modelfmt show model.oinf
  modelfmt show model.safetensors embeddings.LayerNorm.bias
  modelfmt show model.safetensors 'layers.0.*'

`inspect` lists the names of the tensors.")]
pub(crate) struct Show {
    /// A model file, the index of a set, or a folder with one of them
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Tensors by name or pattern, such as 'layers.*.weight'; all of them, with size variables and metadata, if none is named
    #[arg(value_name = "TENSOR|GLOB")]
    pub(crate) tensors: Vec<String>,
    #[command(flatten)]
    pub(crate) open: OpenArgs,
}
