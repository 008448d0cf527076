//! Generates the golden files and the table of formats. `cargo xtask fixtures` and
//! `cargo xtask docs` run it. It is a separate program because it needs every format, and xtask itself should
//! build quickly.

mod fixtures;
mod table;

use std::error::Error;
use std::process::ExitCode;

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let done = match std::env::args().nth(1).as_deref() {
        Some("write") => fixtures::write(false),
        Some("replace") => fixtures::write(true),
        Some("check") => fixtures::check(),
        Some("table") => {
            print!("{}", table::table());
            Ok(())
        }
        _ => Err("generate write|replace|check|table".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
