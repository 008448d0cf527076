//! The arguments of `modelfmt diff`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use modelfmt::Pin;

use super::{RemoteArgs, SignerArgs, UnlockArgs};

/// Compare two models: same tensors, same bytes, same metadata? Exits with 1 if they differ
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  modelfmt diff before.safetensors after.aero
  modelfmt diff base.safetensors tuned.safetensors --norms
  modelfmt diff model-f16.gguf model-q4_k_m.gguf --norms --ignore-dtype
  modelfmt diff base/ tuned/ --tolerance 0.01

The formats may differ. Of two folders, config.json and the files of the
tokenizer are compared too. Each tensor that differs has a line:
  -  only A has it
  +  only B has it
  ~  it differs
  >  it is renamed
Keys that open encrypted files are tried on both files.
With --key, both must be signed.")]
pub(crate) struct Diff {
    /// The first model
    #[arg(value_name = "A", value_hint = ValueHint::FilePath)]
    pub(crate) a: PathBuf,
    /// The second model
    #[arg(value_name = "B", value_hint = ValueHint::FilePath)]
    pub(crate) b: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Also show how much each changed tensor differs overall: rmse, cosine, and rel_norm, the norm of the difference relative to the norm of A. The
    /// tensors that changed most come first
    #[arg(long)]
    pub(crate) norms: bool,
    /// Values whose absolute difference is no more than this count as the same
    #[arg(long, value_name = "X", value_parser = tolerance)]
    pub(crate) tolerance: Option<f64>,
    /// Do not compare metadata
    #[arg(long)]
    pub(crate) ignore_metadata: bool,
    /// Compare values across types: another type, or another sign of a zero, does not count as a difference
    #[arg(long)]
    pub(crate) ignore_dtype: bool,
    /// The hash that A must have; given a second time, the hash that B must have: b3:HEX, the BLAKE3 of the whole file; aero:HEX, the BLAKE3 of an
    /// AERO's bytes before its payloads; seal:HEX, the statement of a sealed APR2
    #[arg(long, value_name = "b3:HEX|aero:HEX|seal:HEX")]
    pub(crate) pin: Vec<Pin>,
    /// The part of a PyTorch checkpoint A that is the model, such as state_dict; given a second time, that of B
    #[arg(long, value_name = "NAME")]
    pub(crate) root: Vec<String>,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
    #[command(flatten)]
    pub(crate) signers: SignerArgs,
    #[command(flatten)]
    pub(crate) unlock: UnlockArgs,
}

fn tolerance(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if number >= 0.0 => Ok(number),
        _ => Err("a tolerance is a number from 0 on, such as 1e-3".to_owned()),
    }
}
