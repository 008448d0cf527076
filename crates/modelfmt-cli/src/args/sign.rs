//! The arguments of `modelfmt sign`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::UnlockArgs;

/// Sign a file or folder, so that others can verify who vouches for every byte of it
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  modelfmt sign model/ --key release.pem           writes model/model.sig
  modelfmt sign model.gguf --key release.pem       writes model.gguf.sig
  modelfmt sign model.apr --key author.key         signs inside the file
  modelfmt verify model/ --key release.pem.pub

An APR2 file, or the manifest of a set that is sealed, is signed inside, with
Ed25519 keys. It is verified first; no tensor is written again, and signatures of
other keys stay.
Any other signature is an OpenSSF Model Signing bundle, which the Python tool
model_signing verifies too. It covers every file of the folder but those of git
and the signature itself. A set of several files is signed by its folder.")]
pub(crate) struct Sign {
    /// Any file or folder
    #[arg(value_name = "FILE|FOLDER", value_hint = ValueHint::AnyPath)]
    pub(crate) model: PathBuf,
    /// The private key (PEM): `modelfmt keygen`. Of P-256, P-384 or P-521; for APR2 files of Ed25519, and then it may be repeated
    #[arg(long = "key", required = true, value_name = "KEY", value_hint = ValueHint::FilePath)]
    pub(crate) keys: Vec<PathBuf>,
    /// Replace a signature that is there
    #[arg(long)]
    pub(crate) force: bool,
    /// Do not read files again whose size and time of modification are those of the signature that is there, if it was made by the same
    /// key with this option. Whoever can set the time of a file can then have anything signed
    #[arg(long)]
    pub(crate) trust_mtime: bool,
    /// Sign what symbolic links to files lead to
    #[arg(long)]
    pub(crate) allow_symlinks: bool,
    /// Leave out a file or folder, by its path within FOLDER; may be given several times. The signature lists it
    #[arg(long, value_name = "PATH")]
    pub(crate) ignore: Vec<String>,
    /// APR2: the revision, for --min-revision of those who read the file. Only the first signature can choose it
    #[arg(long, value_name = "N")]
    pub(crate) revision: Option<u64>,
    #[command(flatten)]
    pub(crate) unlock: UnlockArgs,
}
