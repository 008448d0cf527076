//! The arguments of `modelfmt verify`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use modelfmt::VerifyLevel;

use super::{BesideArgs, OpenArgs};

/// Check files: structure, checksums, hashes, and every rule of their formats
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  modelfmt verify model.aero
  modelfmt verify --level header models/*
  modelfmt verify --json model.apr part.apr
  modelfmt verify -r models/
  modelfmt verify -r models/ --resume verified.jsonl
  modelfmt verify --pin b3:5f2e… model.gguf
  modelfmt verify --key publisher.pub model/

Each file gets a line with the checks that its format has at this level. A `!`
marks failed checks, and every finding follows.
Only AERO, APR2 and APR have hashes or checksums of the values. MAG 1 has a
checksum of its metadata and of the names, types and shapes; OINF, safetensors
and GGUF have none. If a format has no checksum of the values, `ok` means that
the file is well-formed, not that no value has changed. To find changed values,
use `diff` with a good copy, `--pin` with a hash from elsewhere, or `--key` with
the signer's key. Without a pin or a key, a file is only checked against itself.
With `--key`, FOLDER is verified by its model.sig, whatever is in it, and FILE by
FILE.sig and by the checks of its format.")]
pub(crate) struct Verify {
    /// Model files, indexes of sets, or folders with one of them
    #[arg(required = true, value_name = "FILE|FOLDER", value_hint = ValueHint::AnyPath)]
    pub(crate) files: Vec<PathBuf>,
    /// Verify every model below each folder. Hidden files and files that are not models are skipped; files that an index names
    /// are verified with that index
    #[arg(long, short)]
    pub(crate) recursive: bool,
    /// With -r: keep a list of the models that were ok in this file. The next run skips a model of the list if its files still have the same size and
    /// modification time
    #[arg(long, value_name = "LIST", requires = "recursive", value_hint = ValueHint::FilePath)]
    pub(crate) resume: Option<PathBuf>,
    /// How much to check
    #[arg(long, value_enum, default_value_t = LevelArg::Full)]
    pub(crate) level: LevelArg,
    /// Print one JSON object per file, one per line
    #[arg(long)]
    pub(crate) json: bool,
    /// Check this statement of `prove --sign` about FILE: its signature, by --key, and the digests of every file
    #[arg(long, value_name = "STATEMENT", help_heading = "Signatures and keys", requires = "key", conflicts_with = "recursive", value_hint = ValueHint::FilePath)]
    pub(crate) derivation: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) beside: BesideArgs,
    #[command(flatten)]
    pub(crate) open: OpenArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LevelArg {
    /// Structure only: the index is read, nothing is hashed
    Header,
    /// Also every checksum that covers structure and metadata
    Control,
    /// Every byte that any checksum, hash or rule covers
    Full,
}

impl From<LevelArg> for VerifyLevel {
    fn from(level: LevelArg) -> Self {
        match level {
            LevelArg::Header => Self::Header,
            LevelArg::Control => Self::Control,
            LevelArg::Full => Self::Full,
        }
    }
}
