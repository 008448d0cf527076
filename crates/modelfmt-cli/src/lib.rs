//! The program `modelfmt`: arguments, tables and progress bars on top of the library with the same name.
//!
//! It is also a library with one function, so that a package for another language can contain the program.
//! Nothing else is public; the interface is what the program prints.

mod args;
mod chart;
mod commands;
mod detached_signature;
mod failure;
mod flags;
mod formats;
mod json;
mod keys;
mod nearest;
mod policy;
mod progress;
#[cfg(feature = "remote")]
mod remote;
mod secrets;
mod stdio;
mod stop;
mod streams;
mod table;
mod tips;
mod units;
mod urls;
mod walk;
mod width;

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use args::{Cli, Command};
use failure::Failure;

/// Runs the program with these arguments; the first is its name. Returns the exit status. This function
/// handles SIGINT and SIGTERM, so call it only once in a process, and exit with the status afterwards.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    urls::note(&args);
    if let [_, help, subject] = &args[..]
        && help == "help"
        && let Some(printed) = subject.to_str().and_then(commands::topic)
    {
        return match printed {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => failure.report(false),
        };
    }
    // For an option that is allowed anywhere, clap takes the last one, so later arguments could replace a
    // policy.
    let before_files = args.iter().take_while(|arg| *arg != "--");
    if before_files.filter(|arg| is_policy(arg)).count() > 1 {
        let why = "--policy: it is given twice; one policy judges a run".to_owned();
        return Failure::Usage(why).report(false);
    }
    let is_brief = args.iter().take_while(|arg| *arg != "--").any(|arg| arg == "-h");
    let program = if is_brief { args::brief() } else { Cli::command() };
    let parsed = program.try_get_matches_from(args).and_then(|found| Cli::from_arg_matches(&found));
    let Cli { quiet, threads, policy, command } = match parsed {
        Ok(cli) => cli,
        Err(error) => return help(&tips::added(error)),
    };
    stop::listen();
    progress::set_threads(threads);
    let json = command.prints_json();
    if command.reads_models()
        && let Err(failure) = policy::read(policy.as_deref())
    {
        return failure.report(json);
    }
    let done = match command {
        Command::Inspect(args) => commands::inspect::run(&args, quiet),
        Command::Show(args) => commands::show::run(&args),
        Command::Check(args) => commands::check::run(&args, quiet),
        Command::Verify(args) => commands::verify::run(&args, quiet),
        Command::Convert(args) => commands::convert::run(*args, quiet),
        Command::Extract(args) => commands::extract::run(&args, quiet),
        Command::Diff(args) => commands::diff::run(&args, quiet),
        Command::Prove(args) => commands::prove::run(&args, quiet),
        Command::Bom(args) => commands::bom::run(&args, quiet),
        Command::Report(args) => commands::report::run(&args, quiet),
        Command::Edit(args) => commands::edit::run(&args, quiet),
        Command::Plan(args) => commands::plan::run(&args),
        #[cfg(feature = "remote")]
        Command::Fetch(args) => commands::fetch::run(&args, quiet),
        Command::Outboard(args) => commands::outboard::run(&args, quiet),
        Command::Sign(args) => commands::sign::run(&args, quiet),
        Command::Seal(args) => commands::seal::run(*args, quiet),
        Command::Unseal(args) => commands::unseal::run(*args, quiet),
        Command::Keygen(args) => commands::keygen::run(&args, quiet),
        Command::Completions(args) => commands::completions::run(&args),
        Command::Man(args) => commands::completions::man(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // The error only results from the stop that the user requested.
        Err(failure) => match stop::status() {
            Some(status) => {
                stop::print_exit_message();
                status
            }
            None => failure.report(json),
        },
    }
}

fn is_policy(arg: &OsStr) -> bool {
    arg == "--policy" || arg.to_str().is_some_and(|arg| arg.starts_with("--policy="))
}

/// Prints help, the version, or an error about the arguments.
fn help(message: &clap::Error) -> ExitCode {
    let text = message.render().ansi().to_string();
    let text = urls::without_secrets(&text);
    if message.use_stderr() {
        let _ = write!(anstream::stderr(), "{text}"); // there is nowhere left to report
    } else {
        let mut stdout = anstream::stdout();
        if let Err(error) = write!(stdout, "{text}").and_then(|()| stdout.flush()) {
            return Failure::Output(error).report(false);
        }
    }
    ExitCode::from(u8::try_from(message.exit_code()).unwrap_or(2))
}
