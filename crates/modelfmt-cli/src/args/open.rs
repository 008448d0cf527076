//! Options of every command that reads a model.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use modelfmt::Pin;
use modelfmt::keys::PublicKey;

use super::RemoteArgs;
use crate::failure::{Failure, Result};
use crate::keys;

/// How a model is opened, for every command that reads one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub(crate) struct OpenArgs {
    /// The hash that FILE must have: the BLAKE3 of the whole file (b3:HEX), checked with FILE.obao4 if there is one, the BLAKE3 of an AERO's bytes
    /// before its payloads (aero:HEX), or the statement that the signatures of a sealed APR2 sign (seal:HEX). Every byte that is read is checked
    /// against it
    #[arg(long, value_name = "b3:HEX|aero:HEX|seal:HEX", help_heading = "Reading")]
    pub(crate) pin: Option<Pin>,
    /// The part of a PyTorch checkpoint that is the model, such as state_dict; dots go deeper. All else is left out
    #[arg(long, value_name = "NAME", help_heading = "Reading")]
    pub(crate) root: Option<String>,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
    #[command(flatten)]
    pub(crate) signers: SignerArgs,
    #[command(flatten)]
    pub(crate) unlock: UnlockArgs,
    /// Whether keys are allowed for a file that is not encrypted, because another file may need them
    #[arg(skip)]
    pub(crate) allow_unencrypted: bool,
}

impl OpenArgs {
    /// Returns the keys, one of which must have made the signature next to a file. Fails for options that
    /// only sealed files support.
    pub(crate) fn keys_beside(&self) -> Result<Vec<PublicKey>> {
        if self.signers.threshold.is_some() || self.signers.min_revision.is_some() {
            let why = "a signature beside a file is by one key and has no revision; only sealed APR2 files have more";
            return Err(Failure::Input(format!("--threshold, --min-revision: {why}")));
        }
        self.public_keys()
    }

    /// Checks whether one of the keys can make a signature next to a file or in a folder.
    pub(crate) fn has_key_beside(&self) -> Result<bool> {
        Ok(self.public_keys()?.iter().any(|key| key.key_type().is_nist()))
    }

    fn public_keys(&self) -> Result<Vec<PublicKey>> {
        let read = |path| PublicKey::read(path).map_err(|error| keys::failed(&error));
        self.signers.key.iter().map(|path| read(path.as_path())).collect()
    }

    /// Returns the same options for a file whose signature has already been verified.
    pub(crate) fn without_signers(&self) -> Self {
        Self { signers: SignerArgs::default(), ..self.clone() }
    }
}

/// Who must have signed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub(crate) struct SignerArgs {
    /// The public key (PEM) of a signer that you trust; may be repeated. The file is refused unless one of these keys has signed it. An APR2 file
    /// contains its signatures (Ed25519). For other files, the signature is FILE.sig or FOLDER/model.sig (OpenSSF Model Signing, with P-256, P-384 or
    /// P-521), and every file that it covers is hashed first
    #[arg(long, value_name = "KEY.pub", help_heading = "Signatures and keys", value_hint = ValueHint::FilePath)]
    pub(crate) key: Vec<PathBuf>,
    /// How many of the keys must have signed
    #[arg(long, value_name = "N", help_heading = "Signatures and keys", requires = "key",
          value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) threshold: Option<u16>,
    /// Refuse a signed file whose revision is lower
    #[arg(long, value_name = "N", help_heading = "Signatures and keys", requires = "key")]
    pub(crate) min_revision: Option<u64>,
}

/// What opens an encrypted file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub(crate) struct UnlockArgs {
    /// A private key that opens an encrypted file (X25519, PEM); may be repeated, like the next two
    #[arg(long, value_name = "KEY", help_heading = "Signatures and keys", value_hint = ValueHint::FilePath)]
    pub(crate) identity: Vec<PathBuf>,
    /// A file with a passphrase that opens an encrypted file; a newline at its end is ignored; - is standard input
    #[arg(long, value_name = "F", help_heading = "Signatures and keys", value_hint = ValueHint::FilePath)]
    pub(crate) passphrase_file: Vec<PathBuf>,
    /// A file with a key that opens an encrypted file: 32 bytes, or 64 hex digits; - is standard input
    #[arg(long, value_name = "F", help_heading = "Signatures and keys", value_hint = ValueHint::FilePath)]
    pub(crate) key_file: Vec<PathBuf>,
}
