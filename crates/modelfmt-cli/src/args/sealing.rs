//! Options of the commands that write sealed APR2 files.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// Who can open what is written, and who signs it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub(crate) struct SealingArgs {
    /// The public key (X25519, PEM) of somebody who can open OUT; may be repeated, like --passphrase-file and
    /// --key-file
    #[arg(long, value_name = "KEY.pub", help_heading = "Sealing", value_hint = ValueHint::FilePath)]
    pub(crate) to_recipient: Vec<PathBuf>,
    /// The id that OUT shows for the key of --key-file, such as its name in a key service; once for each --key-file
    #[arg(long, value_name = "ID", help_heading = "Sealing")]
    pub(crate) key_id: Vec<String>,
    /// Encrypt names, shapes and metadata too. The number of tensors and their sizes stay visible
    #[arg(long, help_heading = "Sealing")]
    pub(crate) hide_index: bool,
    /// A private key that signs OUT (Ed25519, PEM); may be repeated
    #[arg(long, value_name = "KEY", help_heading = "Sealing", value_hint = ValueHint::FilePath)]
    pub(crate) sign: Vec<PathBuf>,
    /// The revision of OUT, a number; readers can refuse lower ones with --min-revision
    #[arg(long, value_name = "N", help_heading = "Sealing")]
    pub(crate) revision: Option<u64>,
    /// A file with a passphrase that opens IN, if --passphrase-file is for OUT
    #[arg(long, value_name = "F", help_heading = "Sealing", value_hint = ValueHint::FilePath)]
    pub(crate) old_passphrase_file: Vec<PathBuf>,
    /// A file with a key that opens IN, if --key-file is for OUT
    #[arg(long, value_name = "F", help_heading = "Sealing", value_hint = ValueHint::FilePath)]
    pub(crate) old_key_file: Vec<PathBuf>,
}
