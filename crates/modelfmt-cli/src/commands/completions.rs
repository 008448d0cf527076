//! `modelfmt completions` and `modelfmt man`

use clap::CommandFactory;

use crate::args::{Cli, Completions};
use crate::failure::Result;

pub(crate) fn run(args: &Completions) -> Result {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "modelfmt", &mut script);
    super::print(|out| Ok(out.write_all(&script)?))
}

pub(crate) fn man() -> Result {
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut page)?;
    super::print(|out| Ok(out.write_all(&page)?))
}
