//! The arguments of `modelfmt keygen`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use modelfmt::keys::KeyType;

/// Make a key, and print the id of its public half
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  modelfmt keygen --type p256 -o release.pem
  modelfmt sign model/ --key release.pem
  modelfmt verify model/ --key release.pem.pub

KEY is the private key, which only you can read (PEM, PKCS#8, mode 0600). Keep it
secret. KEY.pub is the public key, for everybody who verifies.
p256, p384 and p521 sign any file or folder (OpenSSF Model Signing). ed25519 is
for signatures inside APR2 files, and x25519 for people who open sealed ones.")]
pub(crate) struct Keygen {
    /// ed25519, x25519, p256, p384 or p521
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) key_type: KeyType,
    /// Where to write the private key. Neither KEY nor KEY.pub may exist
    #[arg(long, short, value_name = "KEY", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
}
