//! Reads the same inputs, sound and damaged, with builds of different features. The outcomes must be equal,
//! values and errors.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::run::{self, Result, exec, step};
use crate::workspace;

const PACKAGE: &str = "testkit-wasm";
const PROGRAM: &str = "outcomes";

pub(super) fn check() -> Result {
    step("outcomes: one thread and many, maps and none");
    let [bare, native] = [build("bare", &[])?, build("native", &["--features", "native"])?];
    // The build without features reads on one thread.
    let (bare, native) = both(&bare, &native)?;
    let (bare, native): (Vec<_>, Vec<_>) = (bare.lines().collect(), native.lines().collect());
    let differing: Vec<_> = bare.iter().zip(&native).filter(|(bare, native)| bare != native).collect();
    for (bare, native) in &differing {
        println!("without features: {bare}\nwith features:    {native}");
    }
    println!("{} files, each with damaged copies", bare.len());
    match differing.len() {
        0 if bare.len() == native.len() && bare.len() > 100 => Ok(()),
        0 => Err(format!("{} files without features, {} with them", bare.len(), native.len()).into()),
        files => Err(format!("{files} files are read differently").into()),
    }
}

/// Builds the program with features, and returns a copy of it.
fn build(name: &str, features: &[&str]) -> Result<PathBuf> {
    let mut cargo = workspace::cargo("build");
    exec(cargo.args(["--quiet", "--package", PACKAGE, "--bin", PROGRAM]).args(features))?;
    let target = workspace::target_dir();
    fs::create_dir_all(target.join(PROGRAM))?;
    let copy = target.join(PROGRAM).join(name);
    fs::copy(target.join("debug").join(PROGRAM), &copy)?;
    Ok(copy)
}

/// Runs two programs at the same time. Each prints a line for each file, with a checksum of everything that it
/// reports about it.
fn both(first: &Path, second: &Path) -> Result<(String, String)> {
    let started = workspace::command(first).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let second = run::output(&mut workspace::command(second));
    let first = started.wait_with_output()?;
    if !first.status.success() {
        return Err(format!("outcomes: {}", first.status).into());
    }
    Ok((String::from_utf8(first.stdout)?, second?))
}
