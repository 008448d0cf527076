//! Checks that each library builds without a warning with no feature, with each feature alone, and with all.
//! Features only add code, so every other choice builds too.

use crate::run::{Result, exec, step};
use crate::workspace::{self, Package};

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
    choices.extend(library.features.iter().cloned());
    if library.features.len() > 1 {
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
