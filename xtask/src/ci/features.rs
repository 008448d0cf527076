//! Checks that each library builds without a warning with no feature, with each feature alone, and with all.
//! Features only add code, so every other choice builds too.

use crate::run::{Result, exec, step};
use crate::workspace::{self, Package};

/// The crates that make up the umbrella crate. Each feature of the umbrella turns on theirs of the same name,
/// and clippy checks every crate of the workspace that it compiles, so these crates are not checked with each
/// feature again.
const INNER: [&str; 6] = [
    "modelfmt-convert",
    "modelfmt-derived",
    "modelfmt-edit",
    "modelfmt-inspect",
    "modelfmt-model",
    "modelfmt-rules",
];

pub(super) fn check() -> Result {
    step("features: none, each alone, all");
    let packages = workspace::packages()?;
    let libraries = packages.iter().filter(|package| package.is_library);
    let failures: Vec<_> = libraries.flat_map(faults).collect();
    if failures.is_empty() { Ok(()) } else { Err(failures.join("; ").into()) }
}

/// Returns the choices of a library's features that do not build.
fn faults(library: &Package) -> Vec<String> {
    let mut choices = vec![String::new()];
    let is_inner = INNER.contains(&library.name.as_str());
    if !is_inner {
        choices.extend(library.features.iter().cloned());
    }
    if is_inner || library.features.len() > 1 {
        choices.push(library.features.join(","));
    }
    choices.retain(|features| {
        // Unlike `cargo check`, clippy can reject warnings of this workspace alone.
        let mut cargo = workspace::cargo("clippy");
        cargo.args(["--quiet", "--package", &library.name, "--no-default-features"]);
        if !features.is_empty() {
            cargo.args(["--features", features]);
        }
        exec(cargo.args(["--", "-D", "warnings"])).is_err()
    });
    choices.into_iter().map(|features| format!("{} with features [{features}]", library.name)).collect()
}
