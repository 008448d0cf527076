//! `modelfmt`, the program: arguments, tables and progress bars over the library of the same name.

mod args;
mod commands;
mod failure;
mod progress;
mod stop;
mod streams;
mod units;
mod walk;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};

fn main() -> ExitCode {
    let Cli { quiet, command } = Cli::parse();
    stop::listen();
    let done = match command {
        Command::Inspect(args) => commands::inspect::run(&args, quiet),
        Command::Show(args) => commands::show::run(&args),
        Command::Verify(args) => commands::verify::run(&args, quiet),
        Command::Convert(args) => commands::convert::run(&args, quiet),
        Command::Extract(args) => commands::extract::run(&args, quiet),
        Command::Diff(args) => commands::diff::run(&args, quiet),
        Command::Completions(args) => commands::completions::run(&args),
        Command::Man(_) => commands::completions::man(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // What went wrong went wrong because of the stop, and whoever asked for it knows.
        Err(failure) => stop::status().unwrap_or_else(|| failure.report()),
    }
}
