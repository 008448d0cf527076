//! `cargo xtask release`: makes everything that a release consists of in one folder, signs it, and tries it
//! by installing it from there. Nothing is ever uploaded.

mod archives;
mod bill;
mod install;
mod make;
mod signed;
mod sums;
mod tools;
mod twice;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum;

use crate::run::{self, Result, exec, step};
use crate::workspace;

/// The parts of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// The packages for crates.io
    Crates,
    /// The program, as an archive and as a package for Debian
    Program,
    /// The wheel and the source package for PyPI
    Python,
    /// The page, and the package for npm
    Web,
}

pub(crate) struct Options {
    pub(crate) out: Option<PathBuf>,
    pub(crate) twice: bool,
    pub(crate) only: Vec<Part>,
    pub(crate) quick: bool,
}

/// The steps to do by hand: only a person publishes.
const BY_HAND: &str = "\
This publishes nothing. After `cargo xtask release --dry-run --twice`, in the folder that it has made:

  modelfmt sign . --key KEY.pem --force    with your key, in place of the rehearsal's
  twine upload python/*                    PyPI
  npm publish npm/modelfmt-*.tgz           npm
  cargo publish --workspace                crates.io, from a clone: in the order of the dependencies
  git tag -s vVERSION                      and everything in the folder goes to the page of the tag";

pub(crate) fn by_hand() {
    println!("{BY_HAND}");
}

/// Makes the release of the last commit in a clone, as anybody can, then signs and installs it.
pub(crate) fn rehearse(options: &Options) -> Result {
    let work = workspace::root().join("target/rehearsal");
    let out = match &options.out {
        Some(out) if out.exists() && fs::read_dir(out)?.next().is_some() => {
            return Err(format!("{}: is not empty", out.display()).into());
        }
        Some(out) => std::path::absolute(out)?,
        None => renewed(workspace::root().join("target/release-folder"))?,
    };
    tools::install()?;
    let changes = run::output(workspace::command("git").args(["status", "--porcelain"]))?;
    if !changes.is_empty() {
        println!("the last commit is made, without what you changed since:\n{changes}");
    }
    step("release: made in a clone");
    let clone = work.join("first/modelfmt");
    let commit = last_commit()?;
    clone_to(&clone, &commit)?;
    exec(&mut making(std::env::current_exe()?, &clone, &out, options))?;
    if options.twice {
        twice::compare(&out, &work, &commit, options)?;
    }
    attempt(&out, options.only.clone())
}

/// Signs the release in a folder, and installs it.
pub(crate) fn attempt(out: &Path, only: Vec<Part>) -> Result {
    let parts = Parts(only);
    let out = &std::path::absolute(out)?;
    tools::install()?;
    if parts.has(Part::Program) {
        signed::run(out, &workspace::root().join("target/rehearsal"))?;
    }
    // Outside of this workspace, because cargo would find it.
    let clean = tempfile::Builder::new().prefix("modelfmt-").tempdir()?;
    install::all(out, clean.path(), &parts)?;
    println!("\nthe release is in {}", out.display());
    Ok(())
}

/// The parts that were asked for. Empty means all.
#[derive(Clone, Debug)]
struct Parts(Vec<Part>);

impl Parts {
    fn has(&self, part: Part) -> bool {
        self.0.is_empty() || self.0.contains(&part)
    }
}

pub(crate) fn make(out: &Path, only: Vec<Part>, quick: bool) -> Result {
    make::run(&std::path::absolute(out)?, &Parts(only), quick)
}

/// Returns a command that makes the release in a clone: this program, which finds its workspace by the
/// variable that `cargo run` sets.
fn making(program: impl AsRef<OsStr>, clone: &Path, out: &Path, options: &Options) -> Command {
    let mut make = Command::new(program);
    make.args(["release", "--make"]).arg(out).current_dir(clone);
    for part in options.only.iter().filter_map(Part::to_possible_value) {
        make.args(["--only", part.get_name()]);
    }
    if options.quick {
        make.arg("--quick");
    }
    make.env("CARGO_MANIFEST_DIR", clone.join("xtask")).env_remove("CARGO_TARGET_DIR").env_remove("CARGO");
    make.env(tools::FOLDER, tools::dir());
    make
}

fn last_commit() -> Result<String> {
    Ok(run::output(workspace::command("git").args(["rev-parse", "HEAD"]))?.trim().to_owned())
}

/// Clones a commit into a folder. An existing clone is updated, and keeps what was built in it. The caller
/// looks the commit up once, since there may be new commits while the first clone is built.
fn clone_to(folder: &Path, commit: &str) -> Result {
    if !folder.join(".git").exists() {
        let mut clone = workspace::command("git");
        clone.args(["clone", "--quiet", "--no-checkout", "--no-hardlinks"]).arg(workspace::root());
        exec(clone.arg(folder))?;
    }
    let git = || {
        let mut git = workspace::command("git");
        git.current_dir(folder);
        git
    };
    exec(git().args(["fetch", "--quiet"]).arg(workspace::root()).arg(commit))?;
    exec(git().args(["checkout", "--quiet", "--detach", "--force", commit]))
}

/// Makes an empty folder, and returns its path.
fn renewed(folder: PathBuf) -> Result<PathBuf> {
    renew(&folder)?;
    Ok(folder)
}

fn renew(folder: &Path) -> Result {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    Ok(fs::create_dir_all(folder)?)
}
