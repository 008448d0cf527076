//! Compares docs/DEPENDENCIES.md with what cargo resolves: each dependency has a reason, and no library needs
//! more crates than the document says. Also compares the lock files with the manifests.

use std::collections::BTreeSet;
use std::fs;

use crate::run::{self, Result, step};
use crate::{fuzz, python, test, web, workspace};

const DOCUMENT: &str = "docs/DEPENDENCIES.md";
/// The section whose table says how many crates each library may need.
const COUNTS: &str = "## How many";
/// The target to count for, fixed so that the count is the same on every machine.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The manifest of each workspace. Each workspace has its own lock file, which builds without `--locked`
/// change silently.
const WORKSPACES: [&str; 5] = ["Cargo.toml", test::EXAMPLES, fuzz::MANIFEST, python::MANIFEST, web::MANIFEST];

pub(super) fn check() -> Result {
    step("dependencies: locks, reasons and numbers");
    locks()?;
    let document = fs::read_to_string(workspace::root().join(DOCUMENT))?;
    let manifest = fs::read_to_string(workspace::root().join("Cargo.toml"))?;
    let mut faults = without_reason(&manifest, &document);
    let counts = counts(&document);
    for package in workspace::packages()?.iter().filter(|package| package.is_library && package.is_published)
    {
        let needed = crates(&package.name)?;
        match counts.iter().find(|(name, _)| *name == package.name) {
            Some(&(_, most)) if needed.len() <= most => {
                println!("{:<24} {:>3} of {most}", package.name, needed.len());
            }
            Some((_, most)) => {
                faults.push(format!(
                    "{} needs {} crates, not {most}: {needed:?}",
                    package.name,
                    needed.len()
                ));
            }
            None => faults.push(format!("{DOCUMENT} does not say how many crates {} needs", package.name)),
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("; ").into()) }
}

/// Checks that each `Cargo.lock` matches its manifests.
fn locks() -> Result {
    for manifest in WORKSPACES {
        let update = ["--quiet", "--workspace", "--locked", "--manifest-path", manifest];
        run::exec(workspace::cargo("update").args(update))?;
    }
    Ok(())
}

/// Returns a fault for each third-party dependency of the workspace that has no complete row in the document.
fn without_reason(manifest: &str, document: &str) -> Vec<String> {
    let section = manifest.split("\n[").find_map(|section| section.strip_prefix("workspace.dependencies]"));
    let entries = section.unwrap_or_default().lines().filter_map(|line| line.split_once(" = "));
    let others = entries.filter(|(_, value)| !value.contains("path = \"crates/"));
    let is_explained = |name: &str, value: &str| {
        // `name = { package = "real-name" }` may be listed under either name.
        let package = value.split_once("package = \"").and_then(|(_, rest)| rest.split_once('"'));
        [Some(name), package.map(|(package, _)| package)].into_iter().flatten().any(|name| {
            rows(document).any(|cells| {
                cells.first().is_some_and(|cell| cell.starts_with(&format!("`{name}`")))
                    && cells.len() == 4
                    && cells.iter().all(|cell| !cell.is_empty())
            })
        })
    };
    others
        .filter(|(name, value)| !name.starts_with('#') && !is_explained(name, value))
        .map(|(name, _)| format!("{DOCUMENT} has no complete line for {name}"))
        .collect()
}

/// Returns the cells of every table row.
fn rows(document: &str) -> impl Iterator<Item = Vec<&str>> {
    let rows = document.lines().filter_map(|line| line.strip_prefix('|')?.trim_end().strip_suffix('|'));
    rows.map(|row| row.split('|').map(str::trim).collect())
}

/// Reads the table of crate counts: ``| `crate` | 12 | …``.
fn counts(document: &str) -> Vec<(&str, usize)> {
    let section = document.split_once(COUNTS).map_or("", |(_, rest)| rest);
    let section = section.split("\n## ").next().unwrap_or_default();
    rows(section).filter_map(|cells| count(&cells)).collect()
}

fn count<'a>(cells: &[&'a str]) -> Option<(&'a str, usize)> {
    let (name, most) = (*cells.first()?, *cells.get(1)?);
    Some((name.strip_prefix('`')?.strip_suffix('`')?, most.parse().ok()?))
}

/// Returns the third-party crates that a library with its default features builds, including those that only
/// run during the build.
fn crates(package: &str) -> Result<BTreeSet<String>> {
    let mut tree = workspace::cargo("tree");
    tree.args(["--quiet", "--package", package, "--target", TARGET]);
    let text = run::output(tree.args(["--edges", "normal,build", "--prefix", "none"]))?;
    Ok(text.lines().filter(|line| !is_ours(line)).filter_map(name_and_version).collect())
}

/// Checks whether a line of `cargo tree` is one of our crates, which are shown with their folder:
/// `name v1.0.0 (/path)`.
fn is_ours(line: &str) -> bool {
    let rest = line.split_once(" (").map_or("", |(_, rest)| rest);
    !rest.is_empty() && !rest.starts_with("proc-macro)") && !rest.starts_with("*)")
}

fn name_and_version(line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    Some(format!("{} {}", words.next()?, words.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_is_read() {
        let document = "| crate | used by | why | to drop it |\n| `a` | x | y | z |\n| `b` (as `c`) | x | y | |\n\
                        ## How many\n\n| library | crates |\n| --- | --- |\n| `mine` | 12 | more |\n\n## After\n| `no` | 1 |\n";
        assert_eq!(counts(document), [("mine", 12)]);
        let manifest = "[workspace]\n[workspace.dependencies]\nown = { path = \"crates/own\" }\n# Text = no\na = \"1\"\n\
                        c = { version = \"1\", package = \"b\" }\nd = \"2\"\n\n[other]\ne = \"1\"\n";
        let faults = without_reason(manifest, document);
        assert_eq!(faults.len(), 2, "b has no way to drop it, d no line: {faults:?}");
    }

    #[test]
    fn ours_are_not_counted() {
        assert!(is_ours("mag v0.1.0 (/somewhere/mag)") && is_ours("mag v0.1.0 (/somewhere/mag) (*)"));
        assert!(!is_ours("libc v0.2.1") && !is_ours("syn v2.0.0 (*)") && !is_ours("x v1.0.0 (proc-macro)"));
        assert_eq!(name_and_version("syn v2.0.0 (*)").as_deref(), Some("syn v2.0.0"));
    }
}
