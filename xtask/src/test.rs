//! `cargo xtask test`: the one command that runs all tests.

use crate::run::{Result, exec, step};
use crate::{oracles, python, servers, web, workspace};

/// The workspace of the programs to copy from.
pub(crate) const EXAMPLES: &str = "examples/Cargo.toml";

/// All tests of the workspace, with `args` for `cargo test`; without any also those of the examples, of the Python
/// package and of the page, which know no package of ours by name.
pub(crate) fn all(args: &[String]) -> Result {
    oracles::build()?;
    let interpreter = oracles::install()?;
    let s3 = servers::install()?;
    step("tests of every crate, with documentation tests");
    let mut cargo = workspace::cargo("test");
    cargo.env(oracles::PYTHON, interpreter).env(servers::PYTHON, s3);
    exec(cargo.args(["--workspace", "--all-features"]).args(args))?;
    if args.is_empty() {
        step("examples");
        exec(workspace::cargo("test").args(["--manifest-path", EXAMPLES, "--workspace"]))?;
        python::run(false)?;
        web::run(false, true)?;
    }
    Ok(())
}
