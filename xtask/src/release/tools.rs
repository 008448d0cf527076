//! Third-party tools that make a release, in fixed versions because their output is compared byte for byte.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::run::{Result, exec, step};
use crate::{oracles, workspace};

/// The variable that names the folder of the tools, for builds in other clones.
pub(super) const FOLDER: &str = "MODELFMT_RELEASE_TOOLS";

const MATURIN: &str = "maturin==1.16.0";

pub(super) fn dir() -> PathBuf {
    let default = || workspace::root().join("target/release-tools");
    std::env::var_os(FOLDER).map_or_else(default, PathBuf::from)
}

/// Installs what is missing.
pub(super) fn install() -> Result {
    let stamp = dir().join("installed.txt");
    let wanted = [&[MATURIN], oracles::SIGNING, oracles::BILLS].concat().join("\n");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    step("release: its tools");
    super::renew(&dir())?;
    let pip = |folder: PathBuf, packages: &[&str]| {
        exec(workspace::pip("python3", "install").arg("--target").arg(folder).args(packages))
    };
    pip(dir().join("maturin"), &[MATURIN])?;
    pip(dir().join("model-signing"), oracles::SIGNING)?;
    pip(dir().join("bills"), oracles::BILLS)?;
    Ok(fs::write(stamp, wanted)?)
}

pub(super) fn maturin(subcommand: &str) -> Command {
    let mut command = workspace::command(dir().join("maturin/bin/maturin"));
    command.arg(subcommand);
    command
}
