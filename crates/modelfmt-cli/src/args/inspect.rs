//! The arguments of `modelfmt inspect`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::OpenArgs;

/// List what is in a file: format, metadata, tensors, totals
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  modelfmt inspect model.aero
  modelfmt inspect model.apr --tensors 'encoder.*'
  modelfmt inspect model.mag --json | jq '.tensors[].name'")]
pub(crate) struct Inspect {
    /// A model file, the index of a set, or a folder with one of them
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Add the BLAKE3 hash of each tensor's values, which reads them all
    #[arg(long)]
    pub(crate) hash: bool,
    /// Only tensors whose names match, such as 'layers.*.weight'; * and ? and [a-z] and {a,b} mean what they do in a shell, but
    /// * also stands for dots and slashes
    #[arg(long, value_name = "GLOB")]
    pub(crate) tensors: Option<String>,
    #[command(flatten)]
    pub(crate) open: OpenArgs,
}
