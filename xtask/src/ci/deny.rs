//! Checks licences, duplicates, sources and advisories of the dependencies, by deny.toml.

use crate::run::{self, Result, exec, step};
use crate::{python, workspace};

const CONFIG: &str = "deny.toml";
const VERSION: &str = "0.20.2";

pub(super) fn check() -> Result {
    step("deny: licences, duplicates, sources");
    if !run::succeeds(workspace::cargo("deny").arg("--version")) {
        // It runs only for a moment, so optimization is not worth it.
        let mut install = workspace::cargo("install");
        install.args(["--locked", "--debug", "--version", VERSION, "cargo-deny"]);
        exec(install.env("CARGO_PROFILE_DEV_DEBUG", "0"))?;
    }
    exec(workspace::cargo("deny").args(["check", "licenses", "bans", "sources"]))?;
    // The Python package is a workspace of its own, and its dependencies go into the wheel.
    let package = ["--manifest-path", python::MANIFEST, "--config", CONFIG];
    exec(workspace::cargo("deny").args(package).args(["check", "licenses", "bans", "sources"]))?;
    if exec(workspace::cargo("deny").args(["fetch", "db"])).is_err() {
        println!("the advisory database cannot be had here: advisories are not checked");
        return Ok(());
    }
    exec(workspace::cargo("deny").args(["check", "--disable-fetch", "advisories"]))
}
