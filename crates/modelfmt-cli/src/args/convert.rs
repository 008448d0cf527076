//! The arguments of `modelfmt convert`.

use std::num::NonZero;
use std::path::PathBuf;

use clap::{Arg, Args, ValueHint};
use modelfmt::convert::{LoraRule, OPTIONS, RenameRule, ScaleRule};
use modelfmt::{Format, Target};

use super::{InOut, OpenArgs, RuleArgs, SealingArgs};
use crate::formats;

/// Convert a model to another format, losing nothing silently
#[derive(Debug, Args)]
#[command(mut_args(for_out_if_sealed))]
#[command(override_usage = super::paths::USAGE)]
#[command(after_help = "Examples:
  modelfmt convert model.safetensors model.aero --tensor-hashes --control-hash
  modelfmt convert model.safetensors model.apr --compress lz4 --metadata config.json
  modelfmt convert model.safetensors model.apr --quantize q8_0
  modelfmt convert model.safetensors model.aero --quantize q4_k_m
  modelfmt convert model.gguf model.aero
  modelfmt convert model.gguf folder/ --to hf
  modelfmt convert model.safetensors model.gguf --quantize q4_k_m --metadata keys.json
  modelfmt convert big.safetensors big.aeroset.json --shard-size 2GiB
  modelfmt convert base.safetensors adapter.safetensors both.safetensors
  modelfmt convert folder/ one.safetensors --include 'encoder.*' --rename 'encoder.*=*'
  modelfmt convert model.safetensors model.gguf --stringify --dry-run
  modelfmt convert model.safetensors sealed.apr --seal --to-recipient key.pub --sign my.key
  modelfmt convert model.safetensors s3://bucket/model.aero
  modelfmt convert -r models/ converted/ --to aero")]
pub(crate) struct Convert {
    #[command(flatten)]
    pub(crate) paths: InOut,
    #[arg(long, value_name = "FORMAT[@VERSION]", help = format!(
        "The format to write, if OUT's extension does not say it: {}; mag@0.3 for magnetron 0.2, oinf@2 for OINF 2; hf for a folder of the hub, from GGUF or another such folder: safetensors, config.json and the files of the tokenizer",
        formats::names(Format::is_writable)
    ))]
    pub(crate) to: Option<Target>,
    /// IN and OUT are folders: every model below IN, each named after its own file, with the extension for --to. A hidden
    /// list in OUT says what is done: a model is skipped if its files, its outputs and the options have not changed. --force converts all
    #[arg(long, short)]
    pub(crate) recursive: bool,
    /// Encrypt OUT, an APR2 file, so that only the keys and passphrases given under Sealing open it. --passphrase-file and --key-file are then for OUT,
    /// and --old-passphrase-file and --old-key-file for IN
    #[arg(long, help_heading = "Sealing")]
    pub(crate) seal: bool,
    #[command(flatten)]
    pub(crate) how: ConvertOptionArgs,
}

/// Options that `seal` and `unseal` take too. Their help comes from the library's table of options.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(mut_args(with_help))]
pub(crate) struct ConvertOptionArgs {
    #[arg(long)]
    pub(crate) force: bool,
    /// Say what would be written, and what would be lost; write nothing. Values are read, checked and converted, so the
    /// exit status is the same as for a real run
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print one JSON object that says what was written; progress goes to standard error as JSON, a line each half second
    #[arg(long)]
    pub(crate) json: bool,
    #[arg(long)]
    pub(crate) no_verify: bool,

    #[arg(long, help_heading = "Values")]
    pub(crate) widen: bool,
    #[command(flatten)]
    pub(crate) rules: RuleArgs,
    #[arg(long, value_name = "FILE", help_heading = "Values", value_hint = ValueHint::FilePath)]
    pub(crate) imatrix: Option<PathBuf>,
    #[arg(long, value_name = "WEIGHT=SCALE", help_heading = "Values")]
    pub(crate) scale: Vec<ScaleRule>,
    #[arg(long, value_name = "GLOB", help_heading = "Values")]
    pub(crate) include: Vec<String>,
    #[arg(long, value_name = "GLOB", help_heading = "Values")]
    pub(crate) exclude: Vec<String>,
    #[arg(long, value_name = "OLD=NEW", help_heading = "Values")]
    pub(crate) rename: Vec<RenameRule>,
    #[arg(long, help_heading = "Values")]
    pub(crate) allow_ties: bool,
    #[arg(long, value_name = "NAME|FILE|none", help_heading = "Values")]
    pub(crate) map: Option<String>,
    #[arg(long, value_name = "ADAPTER[=SCALE]", help_heading = "Values", value_hint = ValueHint::AnyPath)]
    pub(crate) lora: Vec<LoraRule>,
    #[arg(long, value_name = "FOLDER", help_heading = "Values", value_hint = ValueHint::DirPath)]
    pub(crate) base: Option<PathBuf>,
    #[arg(long, help_heading = "Values")]
    pub(crate) dedupe: bool,
    #[arg(long, help_heading = "Values")]
    pub(crate) allow_extended_types: bool,

    #[arg(long, help_heading = "Metadata")]
    pub(crate) lossy: bool,
    #[arg(long, help_heading = "Metadata")]
    pub(crate) stringify: bool,
    #[arg(long, value_name = "FILE.json", help_heading = "Metadata", value_hint = ValueHint::FilePath)]
    pub(crate) metadata: Option<PathBuf>,
    #[arg(long, value_name = "NAME", help_heading = "Metadata")]
    pub(crate) pre: Option<String>,
    #[arg(long, value_name = "NAME", help_heading = "Metadata")]
    pub(crate) model_name: Option<String>,
    #[arg(long, value_name = "NAME", help_heading = "Metadata")]
    pub(crate) architecture: Option<String>,
    #[arg(long, value_name = "NAME", help_heading = "Metadata")]
    pub(crate) model_type: Option<String>,
    #[arg(long, value_name = "NAME=N", help_heading = "Metadata")]
    pub(crate) sizevar: Vec<String>,
    #[arg(long, value_name = "NAME:DTYPE[DIMS]", help_heading = "Metadata")]
    pub(crate) declare: Vec<String>,

    #[arg(long, value_name = "SIZE", help_heading = "Layout", value_parser = crate::units::parse_size)]
    pub(crate) shard_size: Option<u64>,
    #[arg(long, value_name = "N", help_heading = "Layout", conflicts_with = "shard_size",
          value_parser = crate::units::parse_count)]
    pub(crate) shards: Option<NonZero<u32>>,
    #[arg(long, value_name = "SIZE", help_heading = "Layout", value_parser = crate::units::parse_size)]
    pub(crate) reserve: Option<u64>,
    #[arg(long, help_heading = "Layout")]
    pub(crate) control_hash: bool,
    #[arg(long, value_name = "SIZE", help_heading = "Layout", num_args = 0..=1, require_equals = true,
          default_missing_value = "4MiB", value_parser = crate::units::parse_size)]
    pub(crate) page_hashes: Option<u64>,
    #[arg(long, help_heading = "Layout")]
    pub(crate) tensor_hashes: bool,
    #[arg(long, value_name = "HEX", help_heading = "Layout")]
    pub(crate) uuid: Option<String>,
    #[arg(long, help_heading = "Layout")]
    pub(crate) no_zstd: bool,
    #[arg(long, value_name = "lz4|none", help_heading = "Layout", value_parser = ["lz4", "none"])]
    pub(crate) compress: Option<String>,
    #[arg(long, value_name = "N", help_heading = "Layout")]
    pub(crate) align: Option<u32>,
    #[arg(long, value_name = "crc32|crc32c", help_heading = "Layout", value_parser = ["crc32", "crc32c"])]
    pub(crate) checksum: Option<String>,
    #[arg(long, help_heading = "Layout")]
    pub(crate) outboard: bool,
    #[command(flatten)]
    pub(crate) sealing: SealingArgs,
    #[command(flatten)]
    pub(crate) open: OpenArgs,
}

impl ConvertOptionArgs {
    /// Uses the keys of --old-passphrase-file and --old-key-file to open IN, instead of those that are for
    /// OUT.
    pub(crate) fn open_in(&mut self) {
        self.open.unlock.passphrase_file = std::mem::take(&mut self.sealing.old_passphrase_file);
        self.open.unlock.key_file = std::mem::take(&mut self.sealing.old_key_file);
    }
}

/// Adds the help of an option from the table to its argument.
fn with_help(arg: Arg) -> Arg {
    let is_this = |flag: &str| flag.strip_prefix("--").is_some_and(|flag| arg.get_long() == Some(flag));
    match OPTIONS.iter().find(|option| is_this(option.flag)) {
        Some(option) => arg.help(option.help),
        None => arg,
    }
}

/// Changes the help of the options that open IN, unless they are for OUT.
fn for_out_if_sealed(arg: Arg) -> Arg {
    if arg.get_id() != "passphrase_file" && arg.get_id() != "key_file" {
        return arg;
    }
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    arg.help(format!("{help}. With --seal, one that will open OUT"))
}

/// Changes the help of the options that are for OUT.
pub(super) fn for_out(arg: Arg) -> Arg {
    let what = match arg.get_id().as_str() {
        "passphrase_file" => "passphrase",
        "key_file" => "key, 32 bytes or 64 hex digits,",
        _ => return arg,
    };
    arg.help(format!("A file with a {what} that will open OUT; - is standard input"))
}
