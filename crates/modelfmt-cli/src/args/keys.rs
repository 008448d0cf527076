//! Options that name keys.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use modelfmt::keys::PublicKey;
use modelfmt::oms::VerifyOptions;

use crate::failure::Result;
use crate::keys;

/// The signers that are trusted.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct KeyArgs {
    /// The public key (PEM) of a signer that is trusted; may be given several times. A signature by none of them does not count. FILE.sig and
    /// FOLDER/model.sig are read (OpenSSF Model Signing; keys of P-256, P-384, P-521), and all files that they cover
    #[arg(long = "key", value_name = "KEY.pub", value_hint = ValueHint::FilePath)]
    pub(crate) keys: Vec<PathBuf>,
    /// Follow symbolic links to files, where the signer did so too
    #[arg(long, requires = "keys")]
    pub(crate) allow_symlinks: bool,
}

impl KeyArgs {
    /// The keys, none if none is named.
    pub(crate) fn read(&self) -> Result<Vec<PublicKey>> {
        self.keys.iter().map(|path| PublicKey::read(path).map_err(|error| keys::failed(&error))).collect()
    }

    pub(crate) fn options(&self) -> VerifyOptions {
        VerifyOptions::new().allow_symlinks(self.allow_symlinks)
    }
}
