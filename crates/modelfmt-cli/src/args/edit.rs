//! The arguments of `modelfmt edit`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use modelfmt::convert::RenameRule;

/// Change the metadata and the tensor names of a file, without touching the values
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  modelfmt edit model.gguf --set general.name='My model' --unset general.url
  modelfmt edit model.safetensors --metadata keys.json --rename 'model.*=*'
  modelfmt edit model.gguf --set tokenizer.chat_template=\"$(cat template.jinja)\"
  modelfmt edit model.aero --set license=MIT -o licensed.aero
  modelfmt edit signed.apr --set license=MIT --sign author.key
  modelfmt edit model.gguf

The file is changed in place if the values can stay where they are. Otherwise the
system copies the values into a new file, which then replaces the old one.
An interrupted edit leaves the old file, the new one, or the journal
FILE.modelfmt-undo. The next edit restores the old file from the journal; without
options it does nothing else.")]
pub(crate) struct Edit {
    /// The file
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Set a metadata key: JSON if V parses as JSON, else a string; always text in safetensors, which holds nothing else. May be repeated
    #[arg(long, value_name = "K=V", value_parser = pair)]
    pub(crate) set: Vec<(String, String)>,
    /// Remove a metadata key, or those that match a pattern; may be repeated
    #[arg(long, value_name = "K|GLOB")]
    pub(crate) unset: Vec<String>,
    /// A JSON object whose top-level keys replace those of the metadata; --set takes precedence
    #[arg(long, value_name = "FILE.json", value_hint = ValueHint::FilePath)]
    pub(crate) metadata: Option<PathBuf>,
    /// Give tensors another name; a * in OLD stands for any text, and the * in NEW for the same. May be repeated, and the last
    /// match wins
    #[arg(long, value_name = "OLD=NEW")]
    pub(crate) rename: Vec<RenameRule>,
    /// Remove tensors whose names match; then the whole file is written again. May be repeated
    #[arg(long, value_name = "GLOB")]
    pub(crate) drop: Vec<String>,
    /// A private key that signs the changed file: inside an APR2 file (Ed25519; may be repeated), otherwise in FILE.sig (P-256,
    /// P-384 or P-521). The file is verified first, also by a FILE.sig of this key. Without --sign, signatures inside are removed,
    /// because they do not cover the change
    #[arg(long, value_name = "KEY", value_hint = ValueHint::FilePath)]
    pub(crate) sign: Vec<PathBuf>,
    /// APR2: the revision that --sign vouches for; without it, it stays as it is
    #[arg(long, value_name = "N", requires = "sign")]
    pub(crate) revision: Option<u64>,
    /// Write the changed file to OUT, and leave FILE as it is
    #[arg(long, short, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Replace OUT if it exists
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
    /// Say what would be done, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Parses `K=V`, where K ends at the first `=`.
fn pair(text: &str) -> Result<(String, String), &'static str> {
    let (key, value) = text.split_once('=').ok_or("give K=V, a key and its value")?;
    Ok((key.to_owned(), value.to_owned()))
}
