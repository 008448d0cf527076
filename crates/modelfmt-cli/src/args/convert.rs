//! The arguments of `modelfmt convert`.

use std::path::PathBuf;

use clap::{Arg, Args, ValueHint};
use modelfmt::convert::{RenameRule, ScaleRule};
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
        "The format to write, if OUT's extension does not say it: {}; mag@0.3 for magnetron 0.2, oinf@2 for OINF 2",
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

/// Options that `seal` and `unseal` take too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub(crate) struct ConvertOptionArgs {
    /// Replace OUT if it exists
    #[arg(long)]
    pub(crate) force: bool,
    /// Say what would be written, and what would be lost; write nothing. Values are read, checked and converted, so the
    /// exit status is the same as for a real run
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print one JSON object that says what was written; progress goes to standard error as JSON, a line each half second
    #[arg(long)]
    pub(crate) json: bool,
    /// Do not check the values against the file's hashes and checksums; also opens a MAG file whose checksum is wrong
    #[arg(long)]
    pub(crate) no_verify: bool,

    /// Change types that the target lacks to larger ones that hold every value
    #[arg(long, help_heading = "Values")]
    pub(crate) widen: bool,
    #[command(flatten)]
    pub(crate) rules: RuleArgs,
    /// For --dequantize: the tensor that holds the scales of a weight, if its name does not say so; a * in both names stands for
    /// the same text
    #[arg(long, value_name = "WEIGHT=SCALE", help_heading = "Values")]
    pub(crate) scale: Vec<ScaleRule>,
    /// Only tensors whose names match, such as 'layers.*'; may be repeated
    #[arg(long, value_name = "GLOB", help_heading = "Values")]
    pub(crate) include: Vec<String>,
    /// Leave out tensors whose names match; may be repeated
    #[arg(long, value_name = "GLOB", help_heading = "Values")]
    pub(crate) exclude: Vec<String>,
    /// Give tensors another name: a * in OLD stands for any text, and the * at the same place in NEW for the same text; may be repeated,
    /// and the last match wins. All other options use the names in IN
    #[arg(long, value_name = "OLD=NEW", help_heading = "Values")]
    pub(crate) rename: Vec<RenameRule>,
    /// Write each tensor that shares its bytes with another separately, however large that makes OUT
    #[arg(long, help_heading = "Values")]
    pub(crate) allow_ties: bool,
    /// AERO: tensors with equal values share their bytes; values that may be equal are read once more to find them
    #[arg(long, help_heading = "Values")]
    pub(crate) dedupe: bool,
    /// OINF 1: write bf16, f8_e5m2 and packed integers too, which its document lacks and the published package reads
    #[arg(long, help_heading = "Values")]
    pub(crate) allow_extended_types: bool,

    /// Drop metadata that the target cannot hold, listing each
    #[arg(long, help_heading = "Metadata")]
    pub(crate) lossy: bool,
    /// Turn metadata that the target can hold only as text into JSON text (safetensors; in GGUF null, objects and mixed lists)
    #[arg(long, help_heading = "Metadata")]
    pub(crate) stringify: bool,
    /// A JSON object whose top-level keys replace those of the target's metadata
    #[arg(long, value_name = "FILE.json", help_heading = "Metadata", value_hint = ValueHint::FilePath)]
    pub(crate) metadata: Option<PathBuf>,
    /// The model's name, for AERO and APR2
    #[arg(long, value_name = "NAME", help_heading = "Metadata")]
    pub(crate) model_name: Option<String>,
    /// The architecture, for AERO and APR2
    #[arg(long, value_name = "NAME", help_heading = "Metadata")]
    pub(crate) architecture: Option<String>,
    /// The model type, for APR2
    #[arg(long, value_name = "NAME", help_heading = "Metadata")]
    pub(crate) model_type: Option<String>,
    /// OINF: add a size variable
    #[arg(long, value_name = "NAME=N", help_heading = "Metadata")]
    pub(crate) sizevar: Vec<String>,
    /// OINF: add a tensor without data, such as y:i16[4,4]
    #[arg(long, value_name = "NAME:DTYPE[DIMS]", help_heading = "Metadata")]
    pub(crate) declare: Vec<String>,

    /// The largest size of a weight shard (AERO) or of a file (AEROSET, APR2, safetensors, GGUF; the last three become sets), such as 2GiB or 500MB
    #[arg(long, value_name = "SIZE", help_heading = "Layout", value_parser = crate::units::parse_size)]
    pub(crate) shard_size: Option<u64>,
    /// Leave this much room in the header, so that later edits can be made in place; not for OINF
    #[arg(long, value_name = "SIZE", help_heading = "Layout", value_parser = crate::units::parse_size)]
    pub(crate) reserve: Option<u64>,
    /// AERO: add the hash of header, table of contents and names (IHSH)
    #[arg(long, help_heading = "Layout")]
    pub(crate) control_hash: bool,
    /// AERO: add the hash of every page of the weights (PHSH); pages of 4MiB unless you give a size
    #[arg(long, value_name = "SIZE", help_heading = "Layout", num_args = 0..=1, require_equals = true,
          default_missing_value = "4MiB", value_parser = crate::units::parse_size)]
    pub(crate) page_hashes: Option<u64>,
    /// AERO: add the hash of every tensor (`hash_b3`)
    #[arg(long, help_heading = "Layout")]
    pub(crate) tensor_hashes: bool,
    /// AERO: the file's identity, 32 hex digits; random if it is not given
    #[arg(long, value_name = "HEX", help_heading = "Layout")]
    pub(crate) uuid: Option<String>,
    /// AERO: do not compress metadata
    #[arg(long, help_heading = "Layout")]
    pub(crate) no_zstd: bool,
    /// APR2: whether tensors are compressed in LZ4 blocks; by default as in the source if that is APR2, else not
    #[arg(long, value_name = "lz4|none", help_heading = "Layout", value_parser = ["lz4", "none"])]
    pub(crate) compress: Option<String>,
    /// Alignment of tensors in bytes. APR2: 32 or 64; GGUF: a power of two. By default that of a source in the same format,
    /// else 64 and 32
    #[arg(long, value_name = "N", help_heading = "Layout")]
    pub(crate) align: Option<u32>,
    /// MAG: kind of checksum; by default that of a source that is MAG 1 too, else crc32. crc32c is what magnetron writes
    #[arg(long, value_name = "crc32|crc32c", help_heading = "Layout", value_parser = ["crc32", "crc32c"])]
    pub(crate) checksum: Option<String>,
    /// Also write OUT.obao4, which lets any range of OUT be verified against its BLAKE3; for a set, one for each file
    #[arg(long, help_heading = "Layout")]
    pub(crate) outboard: bool,
    #[command(flatten)]
    pub(crate) sealing: SealingArgs,
    #[command(flatten)]
    pub(crate) open: OpenArgs,
}

impl ConvertOptionArgs {
    /// Has the options open IN that do where something is sealed, in place of those that are for OUT.
    pub(crate) fn open_in(&mut self) {
        self.open.unlock.passphrase_file = std::mem::take(&mut self.sealing.old_passphrase_file);
        self.open.unlock.key_file = std::mem::take(&mut self.sealing.old_key_file);
    }
}

/// The help of options that open IN, unless they are for OUT.
fn for_out_if_sealed(arg: Arg) -> Arg {
    if arg.get_id() != "passphrase_file" && arg.get_id() != "key_file" {
        return arg;
    }
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    arg.help(format!("{help}. With --seal, one that will open OUT"))
}

/// The help of options that are for OUT.
pub(super) fn for_out(arg: Arg) -> Arg {
    let what = match arg.get_id().as_str() {
        "passphrase_file" => "passphrase",
        "key_file" => "key, 32 bytes or 64 hex digits,",
        _ => return arg,
    };
    arg.help(format!("A file with a {what} that will open OUT; - is standard input"))
}
