//! The program `modelfmt`, which only calls `modelfmt_cli::run`.

use std::process::ExitCode;

fn main() -> ExitCode {
    modelfmt_cli::run(std::env::args_os())
}
