//! The definition of the command line. Parsing, help, completions and the man page are all generated from it.
//! Each module has the arguments of one command.

mod bom;
mod brief;
mod check;
mod completions;
mod convert;
mod diff;
mod edit;
mod extract;
#[cfg(feature = "remote")]
mod fetch;
mod inspect;
mod keygen;
mod open;
mod outboard;
mod paths;
mod plan;
mod prove;
mod remote;
mod report;
mod rules;
mod seal;
mod sealing;
mod show;
mod sign;
mod signature;
mod unseal;
mod verify;

use clap::{Parser, Subcommand};

pub(crate) use bom::Bom;
pub(crate) use brief::brief;
pub(crate) use check::Check;
pub(crate) use completions::{Completions, Man};
pub(crate) use convert::{Convert, ConvertOptionArgs};
pub(crate) use diff::Diff;
pub(crate) use edit::Edit;
pub(crate) use extract::Extract;
#[cfg(feature = "remote")]
pub(crate) use fetch::Fetch;
pub(crate) use inspect::{Inspect, List};
pub(crate) use keygen::Keygen;
pub(crate) use open::{OpenArgs, SignerArgs, UnlockArgs};
pub(crate) use outboard::Outboard;
pub(crate) use paths::InOut;
pub(crate) use plan::Plan;
pub(crate) use prove::Prove;
pub(crate) use remote::RemoteArgs;
pub(crate) use report::Report;
pub(crate) use rules::RuleArgs;
pub(crate) use seal::Seal;
pub(crate) use sealing::SealingArgs;
pub(crate) use show::Show;
pub(crate) use sign::Sign;
pub(crate) use signature::BesideArgs;
pub(crate) use unseal::Unseal;
pub(crate) use verify::Verify;

use crate::formats;

/// Look at model files, check that they are intact, and convert them to other formats.
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
  modelfmt inspect hf://OWNER/REPO/model.safetensors
  modelfmt verify *.gguf
  modelfmt check checkpoint.pt
  modelfmt convert MODEL_FOLDER model.gguf --quantize q4_k_m
  modelfmt diff base.safetensors finetuned.safetensors --norms
  modelfmt extract model.gguf token_embd.weight -o embed.npy
  modelfmt fetch https://example.org/model.gguf model.gguf
  zstd -dc model.gguf.zst | modelfmt inspect -

The format is detected from the content: {}.
For a model of several files, give its index, the JSON that lists them. A folder works if there is one model in it.
A model may be at a URL: s3:// gs:// az:// http:// https:// hf://OWNER/REPO/FILE. It is read by ranges.
`-` is standard input where a model is read, and standard output where one is written.
`modelfmt help TOPIC` explains pins, keys, urls, types, policy and maps (how a model folder of the hub becomes a GGUF).
`modelfmt COMMAND -h` is short, `modelfmt COMMAND --help` says everything.
Exit status: 0 done; 1 the input is bad, a check failed or the job could not be done; 2 wrong usage.", formats::names(|_| true)))]
pub(crate) struct Cli {
    /// No progress bars, no notes, no line about what was written; warnings and errors are still printed
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// At most N threads; by default one for each core, up to 8
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) threads: Option<u16>,
    /// Read only what this policy allows, a TOML file of rules for paths and URLs; by default the file that MODELFMT_POLICY names, if it is set
    #[arg(long, global = true, value_name = "FILE.toml", value_hint = clap::ValueHint::FilePath)]
    pub(crate) policy: Option<std::path::PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Inspect(Inspect),
    Show(Show),
    Check(Check),
    Verify(Verify),
    Convert(Box<Convert>),
    Extract(Extract),
    Diff(Diff),
    Prove(Box<Prove>),
    Bom(Bom),
    Report(Box<Report>),
    Edit(Edit),
    #[cfg(feature = "remote")]
    Fetch(Fetch),
    Outboard(Outboard),
    Plan(Plan),
    Sign(Sign),
    Seal(Box<Seal>),
    Unseal(Box<Unseal>),
    Keygen(Keygen),
    Completions(Completions),
    Man(Man),
}

impl Command {
    /// Checks whether the command reads models, and so obeys a policy.
    pub(crate) const fn reads_models(&self) -> bool {
        !matches!(self, Self::Keygen(_) | Self::Completions(_) | Self::Man(_))
    }

    /// Checks whether the command prints JSON; then errors are JSON, too.
    pub(crate) const fn prints_json(&self) -> bool {
        match self {
            Self::Inspect(args) => args.json,
            Self::Check(args) => args.json,
            Self::Verify(args) => args.json,
            Self::Diff(args) => args.json,
            Self::Prove(args) => args.json,
            Self::Plan(args) => args.json,
            Self::Convert(args) => args.how.json,
            Self::Seal(args) => args.how.json,
            Self::Unseal(args) => args.how.json,
            Self::Show(args) => args.json,
            #[cfg(feature = "remote")]
            Self::Fetch(args) => args.json,
            Self::Bom(_)
            | Self::Report(_)
            | Self::Extract(_)
            | Self::Edit(_)
            | Self::Outboard(_)
            | Self::Sign(_)
            | Self::Keygen(_)
            | Self::Completions(_)
            | Self::Man(_) => false,
        }
    }
}
