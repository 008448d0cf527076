//! Installs two servers below `target/`, which tests write to: one for S3, in a Python environment, and one
//! for Azure, from npm.
//!
//! Tests find the interpreter in the variable [`PYTHON`] or at `target/servers/bin/python` below the
//! workspace, and the npm packages in `target/servers-azure`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::run::{self, Result, exec, step};
use crate::workspace;

/// The variable that names the interpreter which can import moto.
pub(crate) const PYTHON: &str = "MODELFMT_SERVERS_PYTHON";

const PACKAGES: &[&str] = &["moto[server]==5.2.5"];

/// The server for Azure. Its packages run no scripts when they are installed.
const AZURITE: &str = "azurite@3.35.0";

pub(crate) fn run() -> Result {
    println!("{}", install()?.display());
    Ok(())
}

/// Installs what is missing and returns the interpreter. Does nothing when all of it is there.
pub(crate) fn install() -> Result<PathBuf> {
    install_azurite()?;
    let dir = workspace::root().join("target/servers");
    let (python, stamp) = (dir.join("bin/python"), dir.join("installed.txt"));
    let wanted = PACKAGES.join("\n");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) && loads(&python) {
        return Ok(python);
    }
    step("servers: an S3 server for tests");
    exec(workspace::command("python3").args(["-m", "venv", "--clear"]).arg(&dir))?;
    exec(workspace::pip(&python, "install").args(PACKAGES))?;
    fs::write(stamp, wanted)?;
    Ok(python)
}

fn install_azurite() -> Result<()> {
    let dir = workspace::root().join("target/servers-azure");
    let stamp = dir.join("installed.txt");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == AZURITE) {
        return Ok(());
    }
    step("servers: a server of Azure for tests");
    fs::create_dir_all(&dir)?;
    // Without a file here, npm would look for one in the folders above.
    fs::write(dir.join("package.json"), "{}")?;
    let mut npm = workspace::command("npm");
    npm.args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--silent", "--prefix"]).arg(&dir);
    exec(npm.arg(AZURITE))?;
    fs::write(stamp, AZURITE)?;
    Ok(())
}

fn loads(python: &Path) -> bool {
    python.exists() && run::succeeds(workspace::command(python).args(["-c", "import moto.server"]))
}
