//! The arguments of `modelfmt diff`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use modelfmt::Pin;

use super::RemoteArgs;

/// Compare two models: same tensors, same bytes, same metadata? Exits with 1 if they differ
#[derive(Debug, Args)]
#[command(after_help = "Example:
  modelfmt diff before.safetensors after.aero

The formats may differ. A line begins with `-` for what only A has, with `+` for
what only B has, with `~` for what differs, with `>` for a tensor whose name is new.")]
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
    /// What A must be, and given again, what B must be: b3:HEX, the BLAKE3 of the whole file; aero:HEX, that of an AERO's bytes
    /// before its payloads
    #[arg(long, value_name = "b3:HEX|aero:HEX")]
    pub(crate) pin: Vec<Pin>,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}
