//! The arguments of `modelfmt inspect`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use modelfmt::inspect::Sort;

use super::{BesideArgs, OpenArgs};

/// List what is in a file: format, metadata, tensors, totals
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  modelfmt inspect model.safetensors
  modelfmt inspect model.apr --tensors 'encoder.*'
  modelfmt inspect --summary models/*.gguf
  modelfmt inspect model.safetensors --tree
  modelfmt inspect model.gguf --get tokenizer.chat_template
  modelfmt inspect model.mag --json | jq '.tensors[].name'")]
pub(crate) struct Inspect {
    /// Model files, indexes of sets, or folders with one of them
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,
    /// Print one JSON object per file; with several files, one per line
    #[arg(long)]
    pub(crate) json: bool,
    /// Add the BLAKE3 hash of each tensor's values, which reads them all
    #[arg(long)]
    pub(crate) hash: bool,
    /// Only tensors whose names match, such as 'layers.*.weight'; * and ? and [a-z] and {a,b} mean what they do in a shell, but
    /// * also stands for dots and slashes
    #[arg(long, value_name = "GLOB")]
    pub(crate) tensors: Option<String>,
    /// List the tensors in this order instead of the order of the file; size lists the largest first
    #[arg(long, value_enum, value_name = "name|size|dtype", hide_possible_values = true)]
    pub(crate) sort: Option<SortArg>,
    /// Only the N largest tensors, the largest first
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,
    /// Print one value of the metadata in full, and nothing else
    #[arg(long, value_name = "KEY", conflicts_with_all = ["hash", "tensors", "sort", "top", "all", "tree", "summary"])]
    pub(crate) get: Option<String>,
    /// List each tensor, also where layers are equal. --tensors, --sort, --top and --hash do that too
    #[arg(long, conflicts_with_all = ["tree", "summary", "json"])]
    pub(crate) all: bool,
    /// Group the tensors by the parts of their names, with sums
    #[arg(long)]
    pub(crate) tree: bool,
    /// Show a model folder of the hub as this map would make it, names and metadata as GGUF has them; `modelfmt help maps` lists maps
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) map: Option<String>,
    /// Show only format, size, and sums over the tensors
    #[arg(long, conflicts_with = "tree")]
    pub(crate) summary: bool,
    #[command(flatten)]
    pub(crate) beside: BesideArgs,
    #[command(flatten)]
    pub(crate) open: OpenArgs,
}

/// How the text output lists tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    /// Equal layers only once.
    Short,
    Each,
    Tree,
}

impl Inspect {
    /// Returns how the text output lists tensors. Tensors that the user has chosen are listed one by one.
    pub(crate) const fn list(&self) -> List {
        let is_chosen = self.tensors.is_some() || self.sort.is_some() || self.top.is_some();
        match (self.tree, self.all || self.hash || is_chosen) {
            (true, _) => List::Tree,
            (false, true) => List::Each,
            (false, false) => List::Short,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SortArg {
    Name,
    Size,
    Dtype,
}

impl From<SortArg> for Sort {
    fn from(sort: SortArg) -> Self {
        match sort {
            SortArg::Name => Self::Name,
            SortArg::Size => Self::Size,
            SortArg::Dtype => Self::DType,
        }
    }
}
