//! Checks that each library builds without a warning with no feature, with each feature alone, and with all.
//! Features only add code, so every other choice builds too. A feature that the library's own code does not
//! name is left out: it only adds to dependencies, and is checked with them.

use std::fs;

use crate::run::{Result, exec, step};
use crate::workspace::{self, Package};

pub(super) fn check() -> Result {
    step("features: none, each alone, all");
    let packages = workspace::packages()?;
    let mut failures = Vec::new();
    for library in packages.iter().filter(|package| package.is_library) {
        failures.extend(faults(library)?);
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("; ").into()) }
}

/// Returns the choices of a library's features that do not build.
fn faults(library: &Package) -> Result<Vec<String>> {
    let code = code(library)?;
    let mut choices = vec![String::new()];
    choices.extend(library.features.iter().filter(|feature| names(&code, feature)).cloned());
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
    let failed = |features| format!("{} with features [{features}]", library.name);
    Ok(choices.into_iter().map(failed).collect())
}

/// Returns the text of a library's own code.
fn code(library: &Package) -> Result<String> {
    let src = library.dir.join("src");
    let mut code = String::new();
    for path in workspace::files(&src)?.iter().filter(|path| path.ends_with(".rs")) {
        code.push_str(&fs::read_to_string(src.join(path))?);
    }
    Ok(code)
}

/// Checks whether code depends on a feature.
fn names(code: &str, feature: &str) -> bool {
    code.contains(&format!("feature = \"{feature}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_is_named_by_code_that_depends_on_it() {
        let code = "#[cfg(all(unix, feature = \"mmap\"))]\nfn map() {}\n// feature mmap2\n";
        assert!(names(code, "mmap"));
        assert!(!names(code, "map") && !names(code, "mmap2"));
    }
}
