//! The arguments of `modelfmt show`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use modelfmt::modelfmt_core::plan::Slice;

use super::OpenArgs;

/// Print values, statistics and histogram of tensors as text
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  modelfmt show model.oinf
  modelfmt show model.safetensors embeddings.LayerNorm.bias
  modelfmt show model.safetensors 'layers.0.*' --stats
  modelfmt show model.safetensors embeddings.weight --slice 0:4,:8

`inspect` lists the names of the tensors.")]
pub(crate) struct Show {
    /// A model file, the index of a set, or a folder with one of them
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Tensors by name or pattern, such as 'layers.*.weight'; all of them, with size variables and metadata, if none is named
    #[arg(value_name = "TENSOR|GLOB")]
    pub(crate) tensors: Vec<String>,
    /// Show only a part of each tensor, with indices as in Python: 0:4,:8. The statistics are for this part, and nothing else
    /// is read
    #[arg(long, value_name = "SLICE", allow_hyphen_values = true)]
    pub(crate) slice: Option<Slice>,
    /// Only statistics, without values and histograms
    #[arg(long)]
    pub(crate) stats: bool,
    /// Draw histograms with bars, and as one line with --stats. On a terminal this is the default, except for OINF, whose document
    /// defines its text
    #[arg(long, conflicts_with = "json")]
    pub(crate) bars: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) open: OpenArgs,
}
