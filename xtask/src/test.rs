//! `cargo xtask test`: the one command that runs all tests.

use crate::run::{Result, exec, step};
use crate::{oracles, workspace};

pub(crate) fn all(args: &[String]) -> Result {
    let python = oracles::install()?;
    step("tests of every crate, with documentation tests");
    let mut cargo = workspace::cargo("test");
    exec(cargo.args(["--workspace", "--all-features"]).args(args).env(oracles::PYTHON, python))
}
