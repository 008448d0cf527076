//! The arguments of `modelfmt report`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use modelfmt::Pin;

use super::verify::LevelArg;
use super::{BesideArgs, OpenArgs, RemoteArgs, SignerArgs, UnlockArgs};

/// Write one HTML page about a model, or about two and how they differ, to look at without a network
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  modelfmt report model.gguf -o model.html
  modelfmt report base.safetensors tuned.safetensors -o tuned.html
  modelfmt report model.apr --key author.pub -o model.html     says who has signed
  modelfmt report folder/ -o - > model.html

The page shows what the model is, what `check` and `verify` say, signatures, tensors
with histograms and heat maps, metadata and files; of two models, also what differs.
It has no script and loads nothing. Faults of a model are shown, but the exit status
is still 0. The same files give the same bytes.
Keys that open encrypted files are tried on both files.
With --key, both must be signed.")]
pub(crate) struct Report {
    /// A model file, the index of a set, or a folder with one of them
    #[arg(value_name = "MODEL", value_hint = ValueHint::FilePath)]
    pub(crate) model: PathBuf,
    /// A model to compare with MODEL
    #[arg(value_name = "OTHER", value_hint = ValueHint::FilePath)]
    pub(crate) other: Option<PathBuf>,
    /// The page to write; - is standard output
    #[arg(long, short, value_name = "OUT.html", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    /// How much of the files to verify
    #[arg(long, value_enum, default_value_t = LevelArg::Full)]
    pub(crate) level: LevelArg,
    /// Replace OUT if it exists
    #[arg(long)]
    pub(crate) force: bool,
    /// The hash that MODEL must have; given a second time, the hash that OTHER must have: b3:HEX, the BLAKE3 of the whole file; aero:HEX, the BLAKE3 of
    /// an AERO's bytes before its payloads; seal:HEX, the statement of a sealed APR2
    #[arg(long, value_name = "b3:HEX|aero:HEX|seal:HEX")]
    pub(crate) pin: Vec<Pin>,
    /// The part of a PyTorch checkpoint MODEL that is the model, such as state_dict; given a second time, that of OTHER
    #[arg(long, value_name = "NAME")]
    pub(crate) root: Vec<String>,
    #[command(flatten)]
    pub(crate) beside: BesideArgs,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
    #[command(flatten)]
    pub(crate) signers: SignerArgs,
    #[command(flatten)]
    pub(crate) unlock: UnlockArgs,
}

impl Report {
    /// Returns the options for opening the model with this number, 0 or 1.
    pub(crate) fn open(&self, number: usize) -> OpenArgs {
        OpenArgs {
            pin: self.pin.get(number).copied(),
            root: self.root.get(number).cloned(),
            remote: self.remote,
            signers: self.signers.clone(),
            unlock: self.unlock.clone(),
            allow_unencrypted: self.other.is_some(),
        }
    }
}
