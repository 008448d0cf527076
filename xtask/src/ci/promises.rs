//! Checks the table in SECURITY.md that lists what keeps each promise: no promise is missing, and every
//! command and test exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use clap::Parser;

use crate::run::Result;

const FILE: &str = "SECURITY.md";
const PROMISES: &str = "## What is promised";
const TABLE: &str = "## What keeps each promise";

pub(super) fn faults(root: &Path) -> Result<Vec<String>> {
    Ok(faults_of(&fs::read_to_string(root.join(FILE))?, root))
}

fn faults_of(text: &str, root: &Path) -> Vec<String> {
    let mut faults = Vec::new();
    let mut missing = promises(text);
    for line in section(text, TABLE).filter(|line| line.starts_with("| ") && !line.starts_with("| ---")) {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        let (promise, proofs) = (cells.next().unwrap_or_default(), cells.next().unwrap_or_default());
        if promise == "promise" {
            continue;
        }
        if !missing.remove(promise) {
            faults.push(format!("{FILE}: {promise:?} is promised nowhere, or has two rows"));
        }
        let proofs: Vec<_> = proofs.split('`').skip(1).step_by(2).collect();
        if proofs.is_empty() {
            faults.push(format!("{FILE}: nothing keeps {promise:?}"));
        }
        faults.extend(proofs.iter().filter(|proof| !exists(proof, root)).map(|proof| {
            format!("{FILE}: `{proof}`, which keeps {promise:?}, is no command of ours and no test")
        }));
    }
    faults.extend(missing.iter().map(|promise| format!("{FILE}: no row of the table is for {promise:?}")));
    faults
}

/// Returns the promises: list items that begin in bold, and third-level headings.
fn promises(text: &str) -> BTreeSet<&str> {
    let bold = section(text, PROMISES)
        .filter_map(|line| line.strip_prefix("- **")?.split("**").next())
        .map(|promise| promise.trim_end_matches(['.', ',']));
    bold.chain(text.lines().filter_map(|line| line.strip_prefix("### "))).collect()
}

/// Returns the lines below a heading, up to the next second-level heading.
fn section<'a>(text: &'a str, heading: &str) -> impl Iterator<Item = &'a str> {
    text.lines().skip_while(move |line| *line != heading).skip(1).take_while(|line| !line.starts_with("## "))
}

/// Checks whether `proof` is a command that `cargo xtask` takes, or a file of tests, optionally with the name
/// of one test (`FILE::TEST`).
fn exists(proof: &str, root: &Path) -> bool {
    if let Some(words) = proof.strip_prefix("cargo xtask ") {
        return crate::Args::try_parse_from(std::iter::once("xtask").chain(words.split(' '))).is_ok();
    }
    let (file, test) = proof.split_once("::").unwrap_or((proof, ""));
    fs::read_to_string(root.join(file)).is_ok_and(|text| {
        text.contains("#[test]") && (test.is_empty() || text.contains(&format!("fn {test}()")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &str) -> String {
        format!(
            "{PROMISES}\n\n- **Memory safety.** None.\n\n### What a pin proves\n\n{TABLE}\n\n| promise | test |\n| --- | --- |\n{rows}"
        )
    }

    #[test]
    fn every_promise_has_a_row_whose_commands_and_tests_exist() {
        let root = crate::workspace::root();
        let good = "| Memory safety | `cargo xtask ci --only sources` |\n\
            | What a pin proves | `xtask/src/ci/promises.rs::every_promise_has_a_row_whose_commands_and_tests_exist` |\n";
        assert_eq!(faults_of(&table(good), &root), [""; 0]);
        for (row, fault) in [
            ("| Memory safety | `cargo xtask ci --only no-such-step` |", "is no command of ours"),
            ("| Memory safety | `no/such/file.rs` |", "is no command of ours"),
            ("| Memory safety | `xtask/src/ci/promises.rs::no_such_test` |", "is no command of ours"),
            ("| Memory safety | we hope |", "nothing keeps"),
            ("| Speed | `cargo xtask bench` |", "is promised nowhere"),
            ("", "no row of the table is for \"Memory safety\""),
        ] {
            let rest = good.lines().nth(1).unwrap_or_default();
            let faults = faults_of(&table(&format!("{row}\n{rest}")), &root);
            assert!(faults.iter().any(|f| f.contains(fault)), "{row}: {faults:?}");
        }
    }
}
