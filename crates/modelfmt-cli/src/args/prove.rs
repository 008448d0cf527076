//! The arguments of `modelfmt prove`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use modelfmt::convert::LoraRule;

use super::{RemoteArgs, SignerArgs, UnlockArgs};

/// Prove that DERIVED is made of BASE and of nothing else: derive it again and compare every byte. Exits with 1 if it is not
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  modelfmt prove base.safetensors small.gguf
  modelfmt prove folder/ model-q4_k_m.gguf --json
  modelfmt prove base.gguf model.gguf --allow-added 'general.*' --allow-changed general.name
  modelfmt prove base.gguf model.gguf --sign release.pem      writes model.gguf.derivation.json
  modelfmt verify model.gguf --derivation model.gguf.derivation.json --key release.pem.pub

A tensor whose name is in BASE, or comes from BASE by the map of its family, is derived
from that tensor. A tensor with another name is looked up by its digest among all that
BASE gives. A line begins with `=` for exact, `~` for differs, `+` for what BASE does not
have, and `-` for what DERIVED does not have. Exact tensors are one line for each kind
of derivation.")]
pub(crate) struct Prove {
    /// The model that DERIVED should be made of, or a folder of the hub
    #[arg(value_name = "BASE", value_hint = ValueHint::AnyPath)]
    pub(crate) base: PathBuf,
    /// The model to prove
    #[arg(value_name = "DERIVED", value_hint = ValueHint::AnyPath)]
    pub(crate) derived: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Everything of BASE must be in DERIVED; otherwise a part of it is enough
    #[arg(long)]
    pub(crate) complete: bool,
    /// Accept metadata keys and tensors that BASE does not have; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub(crate) allow_added: Vec<String>,
    /// Accept metadata keys with another value than in BASE; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub(crate) allow_changed: Vec<String>,
    /// The map from the names of BASE to those of DERIVED, as in convert: a family, a file, or none
    #[arg(long, value_name = "NAME|FILE|none")]
    pub(crate) map: Option<String>,
    /// The name of the pre-tokenizer, as in convert
    #[arg(long, value_name = "NAME")]
    pub(crate) pre: Option<String>,
    /// An adapter (LoRA) that is merged into BASE first, as in convert; may be repeated
    #[arg(long, value_name = "ADAPTER[=SCALE]")]
    pub(crate) lora: Vec<LoraRule>,
    /// The importance matrix by which DERIVED was quantized, as in convert
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) imatrix: Option<PathBuf>,
    /// If the proof holds, sign it with this key (P-256, P-384 or P-521, PEM): DERIVED.derivation.json is an in-toto statement of the files of both,
    /// and of the steps
    #[arg(long, value_name = "KEY", help_heading = "Signatures and keys", value_hint = ValueHint::FilePath)]
    pub(crate) sign: Option<PathBuf>,
    /// Replace an existing statement
    #[arg(long, requires = "sign")]
    pub(crate) force: bool,
    /// Compare the proof with this statement. --key then names its signer, not that of the models
    #[arg(long, value_name = "FILE", help_heading = "Signatures and keys", conflicts_with = "sign", value_hint = ValueHint::FilePath)]
    pub(crate) against: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
    #[command(flatten)]
    pub(crate) signers: SignerArgs,
    #[command(flatten)]
    pub(crate) unlock: UnlockArgs,
}
