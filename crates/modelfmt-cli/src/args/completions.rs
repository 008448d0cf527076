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

/// Print the manual page
#[derive(Debug, Args)]
#[command(after_help = "Example:
  modelfmt man | man -l -")]
pub(crate) struct Man {}
