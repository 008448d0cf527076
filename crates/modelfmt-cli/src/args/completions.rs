//! The arguments of `modelfmt completions` and `modelfmt man`.

use clap::Args;

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = "Example:
  modelfmt completions bash > ~/.local/share/bash-completion/completions/modelfmt")]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// Print the manual page, or that of one command
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  modelfmt man | man -l -
  modelfmt man convert > ~/.local/share/man/man1/modelfmt-convert.1")]
pub(crate) struct Man {
    /// The command [default: all of them, in one page]
    pub(crate) command: Option<String>,
}
