//! How the program ends when something went wrong.

use std::error::Error;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use modelfmt::Printable;

use crate::flags::Flags;

/// Why a command did not do its job.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A check failed, or two models differ; what there is to say has been printed.
    Checked,
    /// Wrong usage that only the command's own rules show.
    Usage(String),
    /// A file that an option names is bad.
    Input(String),
    /// The job could not be done.
    Job(modelfmt::Error),
    /// Standard output takes no more.
    Output(io::Error),
}

pub(crate) type Result<T = ()> = std::result::Result<T, Failure>;

impl From<modelfmt::Error> for Failure {
    fn from(error: modelfmt::Error) -> Self {
        match error {
            modelfmt::Error::Output { source } => Self::Output(source),
            error if error.is_usage() => Self::Usage(error.in_words(&Flags)),
            error => Self::Job(error),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl Failure {
    /// Prints the error, and says with which status to exit.
    pub(crate) fn report(self) -> ExitCode {
        match self {
            Self::Checked => ExitCode::from(1),
            // Whoever reads has enough, as with `| head`: that is no error.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            Self::Output(error) => {
                say(format_args!("error: cannot write to standard output: {error}"));
                ExitCode::from(1)
            }
            Self::Usage(text) => {
                say(format_args!("error: {}\n\nFor more information, try '--help'.", Printable(&text)));
                ExitCode::from(2)
            }
            Self::Input(text) => {
                say(format_args!("error: {}", Printable(&text)));
                ExitCode::from(1)
            }
            Self::Job(error) => {
                print(&error);
                ExitCode::from(1)
            }
        }
    }
}

/// Whether whoever reads standard output has had enough.
pub(crate) fn is_reader_gone(printed: &Result) -> bool {
    matches!(printed, Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe)
}

/// Prints a line to standard error. If that takes no more, there is nobody to tell: the work and its exit status are what
/// they are.
pub(crate) fn say(line: impl std::fmt::Display) {
    let _ = writeln!(anstream::stderr(), "{line}");
}

/// `error: …` in one line, and a line for each cause that it does not say itself. Paths and names can hold anything, line
/// ends included.
fn print(error: &modelfmt::Error) {
    let mut said = match error {
        modelfmt::Error::Write { path, .. } if is_without_folder(path) => {
            let why = format!("{}: cannot be written: its folder does not exist", path.display());
            say(format_args!("error: {}", Printable(&why)));
            return; // the cause says "no such file", which it was not to be
        }
        other => other.in_words(&Flags),
    };
    say(format_args!("error: {}", Printable(&said)));
    if let modelfmt::Error::Unsupported { unsupported, .. } = error
        && unsupported.len() > 1
    {
        let groups = modelfmt::convert::Unsupported::grouped(unsupported);
        groups
            .iter()
            .for_each(|group| say(format_args!("caused by: {}", Printable(&group.in_words(&Flags)))));
    }
    let mut cause = error.source();
    while let Some(inner) = cause {
        let text = inner.to_string();
        if !said.contains(&text) {
            say(format_args!("caused by: {}", Printable(&text)));
            said.push_str(&text);
        }
        cause = inner.source();
    }
}

fn is_without_folder(path: &Path) -> bool {
    path.parent().is_some_and(|folder| !folder.as_os_str().is_empty() && !folder.exists())
}
