//! What would go to a registry: each package holds its own page and licences and nothing that only a clone can use, and
//! builds from what it holds and from the other packages.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::run::{self, Result, exec, step};
use crate::same;
use crate::workspace::{self, Package};

/// Where the sources of a package are; the maps of modelfmt-hub are compiled into it.
const SOURCES: [&str; 2] = ["src/", "maps/"];
/// What every package has beside its sources.
const PAGES: [&str; 3] = ["README.md", "LICENSE-MIT", "LICENSE-APACHE"];
/// What cargo adds.
const ADDED: [&str; 4] = ["Cargo.toml", "Cargo.toml.orig", "Cargo.lock", ".cargo_vcs_info.json"];

pub(super) fn check() -> Result {
    step("package: contents, and building from them");
    let published = published()?;
    let mut faults = Vec::new();
    for Package { name, .. } in &published {
        let mut list = workspace::cargo("package");
        let listed = run::output(list.args(["--quiet", "--list", "--allow-dirty", "--package", name]))?;
        faults.extend(contents(name, &listed));
    }
    for fault in &faults {
        println!("{fault}");
    }
    forget(&published)?;
    // Dirty, since this is run before a commit. Debug information is a third of the time. A target is set, so that the packages share
    // what they build.
    let mut cargo = all()?;
    cargo.arg("--allow-dirty").env("CARGO_PROFILE_DEV_DEBUG", "false").env("CARGO_TARGET_DIR", target_dir());
    exec(&mut cargo)?;
    forget(&published)?;
    if faults.is_empty() { Ok(()) } else { Err(format!("{} faults in the packages", faults.len()).into()) }
}

/// The members that go to a registry.
pub(crate) fn published() -> Result<Vec<Package>> {
    Ok(workspace::packages()?.into_iter().filter(|package| package.is_published).collect())
}

/// `cargo package` of all that go to a registry.
pub(crate) fn all() -> Result<Command> {
    let mut cargo = workspace::cargo("package");
    cargo.args(["--quiet", "--workspace"]);
    let ours = workspace::packages()?.into_iter().filter(|package| !package.is_published);
    cargo.args(ours.flat_map(|package| ["--exclude".to_owned(), package.name]));
    Ok(cargo)
}

/// Where the packages are unpacked and built.
fn target_dir() -> PathBuf {
    workspace::target_dir().join("packages")
}

/// Removes what was unpacked and built of our packages when this ran before: cargo takes a version that it has for the same
/// one, and would check the sources of then.
fn forget(packages: &[Package]) -> Result {
    if target_dir().exists() {
        fs::remove_dir_all(target_dir())?;
    }
    let home = same::home().ok_or("no home of cargo")?;
    let Ok(registries) = fs::read_dir(home.join("registry/src")) else { return Ok(()) };
    for registry in registries {
        let registry = registry?;
        // That of packages which are not published has no host before its hash.
        if !registry.file_name().as_encoded_bytes().starts_with(b"-") {
            continue;
        }
        for package in packages {
            let unpacked = registry.path().join(format!("{}-{}", package.name, package.version));
            if unpacked.exists() {
                fs::remove_dir_all(unpacked)?;
            }
        }
    }
    Ok(())
}

/// What is missing in a package, or should not be there.
fn contents(package: &str, listed: &str) -> Vec<String> {
    let has = |file: &str| listed.lines().any(|line| line == file);
    let missing = PAGES.iter().filter(|page| !has(page)).map(|page| format!("{package} has no {page}"));
    let is_source = |line: &str| SOURCES.iter().any(|folder| line.starts_with(folder));
    let known = |line: &str| is_source(line) || PAGES.contains(&line) || ADDED.contains(&line);
    let strange = listed.lines().filter(|line| !known(&line.replace('\\', "/")));
    missing.chain(strange.map(|line| format!("{package} would publish {line}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_or_strange_is_told() {
        let good = "Cargo.toml\nCargo.lock\nLICENSE-APACHE\nLICENSE-MIT\nREADME.md\nsrc/lib.rs\nsrc/a/b.rs\n";
        assert!(contents("mag", good).is_empty());
        let bad = good.replace("README.md", "tests/golden.rs");
        assert_eq!(contents("mag", &bad), ["mag has no README.md", "mag would publish tests/golden.rs"]);
    }
}
