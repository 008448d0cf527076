//! Options of signatures beside a file.

use clap::Args;
use modelfmt::oms::VerifyOptions;

/// How a signature beside a file is checked.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct BesideArgs {
    /// For a signature of a folder: follow symbolic links to files; the signer must have done so too
    #[arg(long, help_heading = "Signatures and keys", requires = "key")]
    pub(crate) allow_symlinks: bool,
}

impl BesideArgs {
    pub(crate) fn options(&self) -> VerifyOptions {
        VerifyOptions::new().allow_symlinks(self.allow_symlinks)
    }
}
