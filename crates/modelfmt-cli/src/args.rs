//! The command line, defined once: parsing, help, completions and the man page all come from here.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use modelfmt::convert::{QuantizeRule, ScaleRule, TypeRule};
use modelfmt::{DType, Format, Pin, Target, VerifyLevel};

use crate::formats;

/// Model files: what is in them, are they intact, turn them into another format.
#[derive(Debug, Parser)]
#[command(
    name = "modelfmt",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    max_term_width = 100
)]
#[command(after_help = format!("Examples:
  modelfmt inspect model.safetensors
  modelfmt verify *.aero
  modelfmt convert model.safetensors model.aero --tensor-hashes
  modelfmt extract model.aero embed.weight -o embed.npy
  zstd -dc model.gguf.zst | modelfmt inspect -

The format is detected from the content: {}.
A model of several files is named by its index, the JSON that lists them; a folder stands for the one model in it.
`-` is standard input where a model is read, and standard output where one is written.
Exit status: 0 done; 1 the input is bad, a check failed or the job could not be done; 2 wrong usage.", formats::names(|_| true)))]
pub(crate) struct Cli {
    /// No progress bars, no notes, no line about what was written; warnings and errors are still printed
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Inspect(Inspect),
    Show(Show),
    Verify(Verify),
    Convert(Box<Convert>),
    Extract(Extract),
    Diff(Diff),
    Outboard(Outboard),
    Plan(Plan),
    Completions(Completions),
    Man(Man),
}

impl Command {
    /// Whether it was asked to print JSON, in which errors are said then too.
    pub(crate) const fn prints_json(&self) -> bool {
        match self {
            Self::Inspect(args) => args.json,
            Self::Verify(args) => args.json,
            Self::Diff(args) => args.json,
            Self::Plan(args) => args.json,
            Self::Show(_)
            | Self::Convert(_)
            | Self::Extract(_)
            | Self::Outboard(_)
            | Self::Completions(_)
            | Self::Man(_) => false,
        }
    }
}

/// What a model must be, for every command that reads one.
#[derive(Debug, Args)]
pub(crate) struct PinArg {
    /// What FILE must be: the BLAKE3 of the whole file (b3:HEX), checked through FILE.obao4 if there is one; or that of an AERO's
    /// bytes before its payloads (aero:HEX). Nothing is read that it does not prove
    #[arg(long, value_name = "b3:HEX|aero:HEX")]
    pub(crate) pin: Option<Pin>,
}

/// List what is in a file: format, metadata, tensors, totals
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  modelfmt inspect model.aero
  modelfmt inspect model.apr --tensors 'encoder.*'
  modelfmt inspect model.mag --json | jq '.tensors[].name'")]
pub(crate) struct Inspect {
    /// A model file, the index of a set, or a folder with one of them
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Add the BLAKE3 hash of each tensor's values, which reads them all
    #[arg(long)]
    pub(crate) hash: bool,
    /// Only tensors whose names match, such as 'layers.*.weight'; * and ? and [a-z] and {a,b} mean what they do in a shell, but
    /// * also stands for dots and slashes
    #[arg(long, value_name = "GLOB")]
    pub(crate) tensors: Option<String>,
    #[command(flatten)]
    pub(crate) pin: PinArg,
}

/// Print values, statistics and histogram of tensors as text
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  modelfmt show model.oinf
  modelfmt show model.safetensors embeddings.LayerNorm.bias
  modelfmt show model.safetensors 'layers.0.*'

`inspect` lists the names of the tensors.")]
pub(crate) struct Show {
    /// A model file, the index of a set, or a folder with one of them
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Tensors by name or pattern, such as 'layers.*.weight'; all of them, with size variables and metadata, if none is named
    #[arg(value_name = "TENSOR|GLOB")]
    pub(crate) tensors: Vec<String>,
    #[command(flatten)]
    pub(crate) pin: PinArg,
}

/// Check files: structure, checksums, hashes, and every rule of their formats
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  modelfmt verify model.aero
  modelfmt verify --level header models/*
  modelfmt verify --json model.apr part.apr
  modelfmt verify -r models/
  modelfmt verify --pin b3:5f2e… model.gguf

Each file has a line with the checks that its format has at this level; a `!`
marks those that failed, and every finding follows.
Only AERO, APR2 and APR have hashes or checksums of the values. MAG 1 has a
checksum of its metadata and of the names, types and shapes; OINF, safetensors
and GGUF have none. Without one of the values, `ok` means that the file is
well-formed, not that no value has changed: compare it with a good copy by
`diff`, or say by `--pin` what the file must be. Without a pin all checks are
those of the file against itself.")]
pub(crate) struct Verify {
    /// Model files, indexes of sets, or folders with one of them
    #[arg(required = true, value_name = "FILE|FOLDER", value_hint = ValueHint::AnyPath)]
    pub(crate) files: Vec<PathBuf>,
    /// Every model below each folder. Hidden files and files that are not models are skipped; files that an index names
    /// are verified with that index
    #[arg(long, short)]
    pub(crate) recursive: bool,
    /// How much to check
    #[arg(long, value_enum, default_value_t = LevelArg::Full)]
    pub(crate) level: LevelArg,
    /// Print one JSON object per file, one per line
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) pin: PinArg,
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

/// Turn a model into another format, losing nothing silently
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  modelfmt convert model.safetensors model.aero --tensor-hashes --control-hash
  modelfmt convert model.safetensors model.apr --compress lz4 --metadata config.json
  modelfmt convert model.safetensors model.apr --quantize q8_0
  modelfmt convert model.safetensors model.aero --quantize q4_k_m
  modelfmt convert model.gguf model.aero
  modelfmt convert model.safetensors model.gguf --quantize q4_k_m --metadata keys.json
  modelfmt convert big.safetensors big.aeroset.json --shard-size 2GiB")]
pub(crate) struct Convert {
    /// The model to read: a file, the index of a set, or a folder with one of them
    #[arg(value_name = "IN", value_hint = ValueHint::FilePath)]
    pub(crate) input: PathBuf,
    #[arg(value_name = "OUT", value_hint = ValueHint::FilePath, help = format!(
        "The file to write, or the index of the set to write: {}; standard output with - and --to",
        formats::endings()
    ))]
    pub(crate) output: PathBuf,
    #[arg(long, value_name = "FORMAT[@VERSION]", help = format!(
        "The format to write, if OUT's ending does not say it: {}; mag@0.3 for magnetron 0.2, oinf@2 for OINF 2",
        formats::names(Format::is_writable)
    ))]
    pub(crate) to: Option<Target>,
    /// Replace OUT if it exists
    #[arg(long)]
    pub(crate) force: bool,
    /// Take values as they are, without checking the hashes and checksums of their own file;
    /// also opens a MAG file whose checksum is wrong
    #[arg(long)]
    pub(crate) no_verify: bool,

    /// Change types that the target lacks to larger ones that hold every value
    #[arg(long, help_heading = "Values")]
    pub(crate) widen: bool,
    /// Change floats to this type, or all tensors whose names match GLOB; values are rounded if necessary. May
    /// be repeated, and the last match wins, as for the next two. DTYPE has its usual names: f16, fp16, float16, half
    #[arg(long, value_name = "[GLOB=]DTYPE", help_heading = "Values")]
    pub(crate) cast: Vec<TypeRule>,
    /// Decode block-quantized tensors to f32, f16 or bf16, multiply weights of 8 bits and fewer by the scales beside them, and
    /// apply the scales and zero points of OINF 2
    #[arg(long, value_name = "[GLOB=]f32|f16|bf16", help_heading = "Values")]
    pub(crate) dequantize: Vec<TypeRule>,
    /// For --dequantize: the tensor that holds the scales of a weight, if its name does not say so; a * in both names stands for
    /// the same text
    #[arg(long, value_name = "WEIGHT=SCALE", help_heading = "Values")]
    pub(crate) scale: Vec<ScaleRule>,
    /// Quantize float tensors of rank 2 and more whose rows are whole blocks: of 32 for q8_0, q4_0, q4_1, q5_0 and q5_1, of 256
    /// for q4_k, q5_k and q6_k; the others stay as they are. Or give each tensor the type that llama.cpp gives it: q4_k_m,
    /// q4_k_s, q5_k_m, q5_k_s, and with mostly_ before the name of a type, such as mostly_q8_0
    #[arg(long, value_name = "[GLOB=]TYPE|PRESET", help_heading = "Values")]
    pub(crate) quantize: Vec<QuantizeRule>,
    /// Only tensors whose names match, such as 'layers.*'; may be repeated
    #[arg(long, value_name = "GLOB", help_heading = "Values")]
    pub(crate) include: Vec<String>,
    /// Leave out tensors whose names match; may be repeated
    #[arg(long, value_name = "GLOB", help_heading = "Values")]
    pub(crate) exclude: Vec<String>,
    /// Write each tensor that shares its bytes with another by itself, however large that makes OUT
    #[arg(long, help_heading = "Values")]
    pub(crate) allow_ties: bool,
    /// OINF 1: write bf16, f8_e5m2 and packed integers too, which its document lacks and the published package reads
    #[arg(long, help_heading = "Values")]
    pub(crate) allow_extended_types: bool,

    /// Drop metadata that the target cannot hold, listing each
    #[arg(long, help_heading = "Metadata")]
    pub(crate) lossy: bool,
    /// Make JSON text of metadata that the target holds only as text (safetensors; in GGUF null, objects and mixed lists)
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

    /// Cap of a weight shard (AERO) or of a part (AEROSET, APR2, safetensors, GGUF; the last three become sets by it), such as
    /// 2GiB or 500MB
    #[arg(long, value_name = "SIZE", help_heading = "Layout", value_parser = crate::units::parse_size)]
    pub(crate) shard_size: Option<u64>,
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
    /// APR2: compress tensors in LZ4 blocks; not done by default
    #[arg(long, value_name = "lz4|none", help_heading = "Layout", value_parser = ["lz4", "none"])]
    pub(crate) compress: Option<String>,
    /// Alignment of tensors in bytes. APR2: 32 or 64, by default 64; GGUF: a power of two, by default the source's or 32
    #[arg(long, value_name = "N", help_heading = "Layout")]
    pub(crate) align: Option<u32>,
    /// MAG: kind of checksum, crc32 by default; crc32c is what magnetron writes
    #[arg(long, value_name = "crc32|crc32c", help_heading = "Layout", value_parser = ["crc32", "crc32c"])]
    pub(crate) checksum: Option<String>,
    /// Also write OUT.obao4, with which any range of OUT can be verified against its BLAKE3; of a set, one for each file
    #[arg(long, help_heading = "Layout")]
    pub(crate) outboard: bool,
    #[command(flatten)]
    pub(crate) pin: PinArg,
}

/// Write one tensor to a .npy file, or its bytes to a .bin file
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  modelfmt extract model.aero embed.weight -o embed.npy
  modelfmt extract model.safetensors embed.weight -o embed.npy --cast f32
  modelfmt extract model.gguf blk.0.attn_q.weight -o q.npy --dequantize f32
  modelfmt extract model.aero embed.weight -o - | sha256sum")]
pub(crate) struct Extract {
    /// A model file, the index of a set, or a folder with one of them
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// The tensor's name
    pub(crate) tensor: String,
    /// The file to write: .npy or .bin; the bytes go to standard output with -
    #[arg(long, short, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    /// Change the values to this type, such as f32 for bf16, which numpy lacks; rounds where it must
    #[arg(long, value_name = "DTYPE")]
    pub(crate) cast: Option<DType>,
    /// Decode quantized blocks to f32, f16 or bf16, or apply the scales that a weight has beside it
    #[arg(long, value_name = "f32|f16|bf16")]
    pub(crate) dequantize: Option<DType>,
    /// For --dequantize: the tensor with the scales of the weight, where its name does not tell
    #[arg(long, value_name = "WEIGHT=SCALE")]
    pub(crate) scale: Vec<ScaleRule>,
    /// Replace OUT if it exists
    #[arg(long)]
    pub(crate) force: bool,
    /// Take values as they are, without checking the hashes and checksums of their own file;
    /// also opens a MAG file whose checksum is wrong
    #[arg(long)]
    pub(crate) no_verify: bool,
    #[command(flatten)]
    pub(crate) pin: PinArg,
}

/// Compare two models: same tensors, same bytes, same metadata? Exits with 1 if they differ
#[derive(Debug, Args)]
#[command(after_help = "Example:
  modelfmt diff before.safetensors after.aero

The formats may differ. A line begins with `-` for what only A has, with `+` for
what only B has, with `~` for what differs, with `>` for a tensor whose name is new.")]
pub(crate) struct Diff {
    /// The first model
    #[arg(value_name = "A", value_hint = ValueHint::FilePath)]
    pub(crate) a: PathBuf,
    /// The second model
    #[arg(value_name = "B", value_hint = ValueHint::FilePath)]
    pub(crate) b: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// What A must be, and given again, what B must be: b3:HEX, the BLAKE3 of the whole file; aero:HEX, that of an AERO's bytes
    /// before its payloads
    #[arg(long, value_name = "b3:HEX|aero:HEX")]
    pub(crate) pin: Vec<Pin>,
}

/// Write the outboard of a file, with which any range of it can be verified, and print its BLAKE3
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  modelfmt outboard model.gguf
  modelfmt show model.gguf output.weight --pin b3:$(b3sum --no-names model.gguf)

The outboard is FILE.obao4, 0.39 % of the size of FILE; empty for a file of at
most 16 KiB. FILE can be any file, and is not changed. The outboard need not be
trusted, the hash must be: keep it where nobody can change it with the file.")]
pub(crate) struct Outboard {
    /// The file
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Replace FILE.obao4 if it exists
    #[arg(long)]
    pub(crate) force: bool,
}

/// List the ranges of a file that reading tensors takes: near ones are one request, long ones several. No values are read
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  modelfmt plan model.safetensors
  modelfmt plan model.aero 'layers.0.*' head.weight
  modelfmt plan model.safetensors.index.json 'embed.*' --json | jq '.ranges[]'

The ranges hold the values; what is read to open the file and to verify it is not
among them. Gaps of up to 64 KiB between tensors are read over, and count as overhead.")]
pub(crate) struct Plan {
    /// A model file, the index of a set, or a folder with one of them
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Tensors by name or pattern, such as 'layers.*.weight'; all of them, if none is named
    #[arg(value_name = "GLOB")]
    pub(crate) tensors: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) pin: PinArg,
}

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = "Example:
  modelfmt completions bash > ~/.local/share/bash-completion/completions/modelfmt")]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// Print the manual page
#[derive(Debug, Args)]
#[command(after_help = "Example:
  modelfmt man | man -l -")]
pub(crate) struct Man {}
