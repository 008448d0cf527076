//! `modelfmt`, the program; `modelfmt_cli::run` is all of it.

use std::process::ExitCode;

fn main() -> ExitCode {
    modelfmt_cli::run(std::env::args_os())
}
