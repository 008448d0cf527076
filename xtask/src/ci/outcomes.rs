//! Reads the same inputs, sound and damaged, with builds of different features. The outcomes must be equal,
//! values and errors.

use crate::run::{self, Result, step};
use crate::workspace;

const PACKAGE: &str = "testkit-wasm";

pub(super) fn check() -> Result {
    step("outcomes: one thread and many, maps and none");
    let bare = outcomes(&[])?;
    let native = outcomes(&["--features", "native"])?;
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

/// Returns a line for each file, with a checksum of everything that the build reports about it.
fn outcomes(features: &[&str]) -> Result<String> {
    let mut cargo = workspace::cargo("run");
    run::output(cargo.args(["--quiet", "--package", PACKAGE, "--bin", "outcomes"]).args(features))
}
