//! A bill of materials (CycloneDX 1.6): the crates in a program, what each of them needs, their licences, and
//! their hashes from the lock file.
//!
//! It is made with `cargo tree`, which knows the features that are built. The bills of cargo-cyclonedx and
//! maturin contain folders of the machine, so they differ between machines.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::run::{Result, output};
use crate::workspace;

/// Name and version.
type Id = (String, String);

/// A crate of the program.
#[derive(Debug, Default, PartialEq, Eq)]
struct Crate {
    licence: String,
    needs: BTreeSet<Id>,
}

/// Writes the bill for a package of the workspace with this manifest.
pub(super) fn write(manifest: &Path, package: &str, to: &Path) -> Result {
    let target = output(workspace::command("rustc").arg("--print=host-tuple"))?;
    let mut tree = workspace::cargo("tree");
    tree.args(["--quiet", "--locked", "--package", package, "--target", target.trim(), "--manifest-path"]);
    tree.arg(manifest).args(["--edges", "normal,no-proc-macro", "--prefix", "depth", "--format", " {p}|{l}"]);
    let (root, crates) = read(&output(&mut tree)?).ok_or("cargo tree says something else than it did")?;
    let hashes = hashes(&fs::read_to_string(manifest.with_file_name("Cargo.lock"))?);
    let text = serde_json::to_string_pretty(&bill(&root, &crates, &hashes))?;
    Ok(fs::write(to, text + "\n")?)
}

/// Parses a tree. Returns its first crate, and all of its crates.
fn read(tree: &str) -> Option<(Id, BTreeMap<Id, Crate>)> {
    let mut crates = BTreeMap::<Id, Crate>::new();
    let mut above = Vec::<Id>::new();
    for line in tree.lines() {
        let (depth, rest) = line.split_once(' ')?;
        let (name, licence) = rest.split_once('|')?;
        let mut words = name.split_whitespace();
        let id = (words.next()?.to_owned(), words.next()?.strip_prefix('v')?.to_owned());
        let depth: usize = depth.parse().ok()?;
        above.truncate(depth);
        if let Some(parent) = above.last() {
            crates.get_mut(parent)?.needs.insert(id.clone());
        }
        // `(*)` marks a crate whose needs were listed before. A slash between licences is an old form of OR.
        let licence = licence.trim_end_matches(" (*)").replace('/', " OR ");
        crates.entry(id.clone()).or_default().licence = licence;
        above.push(id);
    }
    Some((above.into_iter().next()?, crates))
}

/// Returns the SHA-256 of each package from a registry in a lock file.
fn hashes(lock: &str) -> BTreeMap<Id, String> {
    let entry = |text: &str| {
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \""))?;
            Some(line.trim_end_matches('"').to_owned())
        };
        Some(((field("name")?, field("version")?), field("checksum")?))
    };
    lock.split("[[package]]").filter_map(entry).collect()
}

fn bill(root: &Id, crates: &BTreeMap<Id, Crate>, hashes: &BTreeMap<Id, String>) -> Value {
    let purl = |(name, version): &Id| format!("pkg:cargo/{name}@{version}");
    let component = |id: &Id, kind: &str| {
        let licence = crates.get(id).map(|known| &known.licence).filter(|licence| !licence.is_empty());
        let licences: Vec<_> = licence.iter().map(|licence| json!({"expression": licence})).collect();
        let hashes: Vec<_> =
            hashes.get(id).iter().map(|hash| json!({"alg": "SHA-256", "content": hash})).collect();
        let (name, version) = id;
        let reference = purl(id);
        json!({"type": kind, "bom-ref": reference, "name": name, "version": version, "purl": reference,
            "licenses": licences, "hashes": hashes})
    };
    let others = crates.keys().filter(|id| *id != root);
    let needs = |(id, known): (&Id, &Crate)| json!({"ref": purl(id), "dependsOn": known.needs.iter().map(purl).collect::<Vec<_>>()});
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": component(root, "application")},
        "components": others.map(|id| component(id, "library")).collect::<Vec<_>>(),
        "dependencies": crates.iter().map(needs).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_and_a_lock_are_a_bill() {
        let tree = "0 a v1.0.0 (/somewhere)|MIT\n1 b v2.0.0|MIT/Apache-2.0\n2 c v3.0.0|\n1 c v3.0.0|\n1 b v2.0.0|MIT/Apache-2.0 (*)\n";
        let (root, crates) = read(tree).unwrap();
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n\n[[package]]\nname = \"b\"\nversion = \"2.0.0\"\nchecksum = \"12ab\"\n";
        let bill = bill(&root, &crates, &hashes(lock));
        assert_eq!(bill["metadata"]["component"]["purl"], "pkg:cargo/a@1.0.0");
        assert_eq!(bill["metadata"]["component"]["hashes"], json!([]));
        let names: Vec<_> = bill["components"].as_array().unwrap().iter().map(|part| &part["name"]).collect();
        assert_eq!(names, ["b", "c"]);
        assert_eq!(bill["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(bill["components"][0]["hashes"][0]["content"], "12ab");
        assert_eq!(bill["components"][1]["licenses"], json!([]));
        let needs = ["pkg:cargo/b@2.0.0", "pkg:cargo/c@3.0.0"];
        assert_eq!(bill["dependencies"][0], json!({"ref": "pkg:cargo/a@1.0.0", "dependsOn": needs}));
        assert_eq!(bill["dependencies"][1]["dependsOn"], json!(["pkg:cargo/c@3.0.0"]));
        assert!(!bill.to_string().contains("somewhere"));
    }

    #[test]
    fn what_is_no_tree_is_no_bill() {
        assert_eq!(read("a v1.0.0"), None);
        assert_eq!(read("1 b v2.0.0|MIT").map(|(root, _)| root.0).as_deref(), Some("b"));
        assert_eq!(read(""), None);
    }
}
