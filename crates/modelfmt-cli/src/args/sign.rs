//! The arguments of `modelfmt sign`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::UnlockArgs;

/// Sign a file or folder, so that others can verify that every byte of it comes from you
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  modelfmt sign model/ --key release.pem           writes model/model.sig
  modelfmt sign model.gguf --key release.pem       writes model.gguf.sig
  modelfmt sign model.apr --key author.key         signs inside the file
  modelfmt verify model/ --key release.pem.pub

An APR2 file, or a sharded APR2 by its manifest, is signed inside, with Ed25519
keys. It is verified first; no tensor is written again, and signatures of other keys
stay.
Any other signature is an OpenSSF Model Signing bundle, which the Python tool
model_signing verifies too. It covers every file of the folder but those of git
and the signature itself. A set of several files is signed by its folder.")]
pub(crate) struct Sign {
    /// Any file or folder
    #[arg(value_name = "FILE|FOLDER", value_hint = ValueHint::AnyPath)]
    pub(crate) model: PathBuf,
    /// The private key (PEM), made by `modelfmt keygen`: P-256, P-384 or P-521; for APR2 files Ed25519, which may be repeated
    #[arg(long = "key", required = true, value_name = "KEY", value_hint = ValueHint::FilePath)]
    pub(crate) keys: Vec<PathBuf>,
    /// Replace an existing signature
    #[arg(long)]
    pub(crate) force: bool,
    /// Do not read files again whose size and modification time are as the existing signature says, if the same key made it with
    /// this option. A signature by the same key is replaced, another only with --force. Use it only if nobody else can write to
    /// the files: setting the time of a changed file hides the change
    #[arg(long)]
    pub(crate) trust_mtime: bool,
    /// Follow symbolic links to files, and sign the files that they lead to
    #[arg(long)]
    pub(crate) allow_symlinks: bool,
    /// Leave out a file or folder, by its path within FOLDER; may be given several times. The signature lists it
    #[arg(long, value_name = "PATH")]
    pub(crate) ignore: Vec<String>,
    /// APR2: the revision, a number; readers can refuse lower ones with --min-revision. Only the first signature can choose it
    #[arg(long, value_name = "N")]
    pub(crate) revision: Option<u64>,
    #[command(flatten)]
    pub(crate) unlock: UnlockArgs,
}
