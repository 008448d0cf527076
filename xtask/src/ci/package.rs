//! Checks what would be published: each package contains its README and licences and nothing that only a
//! clone can use, and builds from its own contents and the other packages.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::run::{self, Result, exec, step};
use crate::workspace::{self, Package};

/// The folders with the sources of a package. modelfmt-hub compiles its `maps/` into the crate.
const SOURCES: [&str; 2] = ["src/", "maps/"];
/// The files that every package has in addition to its sources.
const PAGES: [&str; 3] = ["README.md", "LICENSE-MIT", "LICENSE-APACHE"];
/// The files that cargo adds.
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
    let folder = workspace::target_dir().join("packages");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    // `--allow-dirty`, because this runs before a commit.
    let mut cargo = all()?;
    exec(cargo.args(["--allow-dirty", "--no-verify", "--target-dir"]).arg(&folder))?;
    check_unpacked(&published, &folder)?;
    if faults.is_empty() { Ok(()) } else { Err(format!("{} faults in the packages", faults.len()).into()) }
}

/// Unpacks the packages into a workspace of their own, where they use each other as if they came from the
/// registry, and checks it. Cargo's own verification would rebuild all third-party crates.
fn check_unpacked(packages: &[Package], folder: &Path) -> Result {
    let unpacked = folder.join("unpacked");
    fs::create_dir_all(&unpacked)?;
    let mut manifest =
        String::from("[workspace]\nresolver = \"3\"\nmembers = [\"*\"]\n\n[patch.crates-io]\n");
    for Package { name, version, .. } in packages {
        let package = format!("{name}-{version}");
        let archive = folder.join("package").join(format!("{package}.crate"));
        // `-m` sets the current time. The time in the archive is the same for every content, so cargo would
        // take a changed file for the old one.
        exec(workspace::command("tar").arg("-xzmf").arg(archive).arg("-C").arg(&unpacked))?;
        // Remove the package's lock file: cargo would warn that it ignores that of a member. The lock file of
        // the workspace is copied below.
        let lock = unpacked.join(&package).join("Cargo.lock");
        if lock.exists() {
            fs::remove_file(lock)?;
        }
        manifest += &format!("{name} = {{ path = \"{package}\" }}\n");
    }
    fs::write(unpacked.join("Cargo.toml"), manifest)?;
    fs::copy(workspace::root().join("Cargo.lock"), unpacked.join("Cargo.lock"))?;
    let mut cargo = workspace::cargo("check");
    cargo.args(["--quiet", "--workspace", "--manifest-path"]).arg(unpacked.join("Cargo.toml"));
    exec(cargo.arg("--target-dir").arg(workspace::target_dir()))
}

/// Returns the members that are published to a registry.
pub(crate) fn published() -> Result<Vec<Package>> {
    Ok(workspace::packages()?.into_iter().filter(|package| package.is_published).collect())
}

/// Returns `cargo package` for all members that are published.
pub(crate) fn all() -> Result<Command> {
    let mut cargo = workspace::cargo("package");
    cargo.args(["--quiet", "--workspace"]);
    let ours = workspace::packages()?.into_iter().filter(|package| !package.is_published);
    cargo.args(ours.flat_map(|package| ["--exclude".to_owned(), package.name]));
    Ok(cargo)
}

/// Returns a fault for each file that is missing in a package, or should not be there.
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
