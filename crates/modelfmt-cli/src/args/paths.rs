//! The arguments `IN… OUT`: the models to read and the file to write.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueHint, value_parser};

use crate::formats;

/// The models to read, and the file to write. Options may come between them, so they are one clap argument:
/// with two, clap would treat every path after an option as part of the second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InOut {
    /// The models to read, at least one.
    pub(crate) inputs: Vec<PathBuf>,
    pub(crate) output: PathBuf,
}

const ID: &str = "paths";

/// The usage line of the help, because clap would write `<IN> <OUT>...`.
pub(super) const USAGE: &str = "modelfmt convert [OPTIONS] <IN>... <OUT>";

fn argument() -> Arg {
    let bucket = if cfg!(feature = "remote") {
        "; or an object of a bucket: s3://BUCKET/KEY, gs://… or az://…"
    } else {
        ""
    };
    Arg::new(ID)
        .value_names(["IN", "OUT"])
        .required(true)
        .num_args(1..)
        .action(ArgAction::Append)
        .value_parser(value_parser!(PathBuf))
        .value_hint(ValueHint::FilePath)
        .help(format!(
            "IN is the model to read: a file, the index of a set, or a folder with one of them; several are joined into one model, in this order. OUT, \
             the last, is the file to write, or the index of the set to write: {}; standard output with - and --to{bucket}",
            formats::endings(),
        ))
}

impl Args for InOut {
    fn augment_args(command: Command) -> Command {
        command.arg(argument())
    }

    fn augment_args_for_update(command: Command) -> Command {
        command.arg(argument().required(false))
    }
}

impl FromArgMatches for InOut {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut inputs: Vec<PathBuf> = matches.get_many(ID).into_iter().flatten().cloned().collect();
        match inputs.pop() {
            Some(output) if !inputs.is_empty() => Ok(Self { inputs, output }),
            _ => {
                let why = "one path is given; give IN, the model to read, and OUT, the file to write";
                let mut command = Command::new("convert").override_usage(USAGE);
                Err(clap::Error::raw(ErrorKind::MissingRequiredArgument, why).format(&mut command))
            }
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
