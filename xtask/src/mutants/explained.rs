//! The mutants that no test can or need notice, each with its reason.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::run::Result;
use crate::workspace;

pub(super) const FILE: &str = "xtask/mutants/explained.toml";

/// A file and the change in it, without the line number, which depends on the lines above.
pub(super) type Key = (String, String);

/// A mutant, from a line of cargo-mutants.
#[derive(Debug, PartialEq)]
pub(super) struct Mutant {
    file: String,
    change: String,
}

impl Mutant {
    /// Reads `FILE:LINE:COLUMN: CHANGE`.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let mut parts = line.splitn(4, ':');
        let (file, _line, _column) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Self { file: file.to_owned(), change: parts.next()?.trim().to_owned() })
    }

    pub(super) fn key(&self) -> Key {
        (self.file.clone(), self.change.clone())
    }
}

/// The reasons, one for each mutant with the same key.
pub(super) struct Explained(BTreeMap<Key, Vec<String>>);

impl Explained {
    pub(super) fn read() -> Result<Self> {
        Self::parse(&fs::read_to_string(workspace::root().join(FILE))?)
    }

    /// Parses a table for each file: the change, and why no test notices it. Several mutants with the same
    /// change have a list of reasons.
    fn parse(text: &str) -> Result<Self> {
        let mut all = BTreeMap::new();
        for (file, changes) in text.parse::<toml::Table>()? {
            for (change, why) in changes.as_table().ok_or("a file has a table")? {
                let reasons = match why {
                    toml::Value::String(one) => vec![one.clone()],
                    toml::Value::Array(several) => {
                        several.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect()
                    }
                    _ => Vec::new(),
                };
                all.insert((file.clone(), change.clone()), reasons);
            }
        }
        Ok(Self(all))
    }

    /// Returns a fault for each survivor without a reason and, if a crate was tried in full, for each of its
    /// reasons without a survivor.
    pub(super) fn compare(
        &self,
        survivors: &BTreeMap<Key, usize>,
        tried_in_full: Option<&Path>,
    ) -> Vec<String> {
        let mut faults = Vec::new();
        for (key, &count) in survivors {
            for _ in self.0.get(key).map_or(0, Vec::len)..count {
                faults.push(format!("{}: {}", key.0, key.1));
            }
        }
        for (key, reasons) in &self.0 {
            let stale = tried_in_full.is_some_and(|folder| super::is_below(&key.0, folder))
                && survivors.get(key).is_none_or(|&count| count < reasons.len());
            if stale {
                faults.push(format!("{}: {} is explained and caught", key.0, key.1));
            }
        }
        faults
    }

    /// Returns what is wrong with the file itself.
    #[cfg(test)]
    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for ((file, change), reasons) in &self.0 {
            if reasons.is_empty() || reasons.iter().any(|reason| reason.trim().is_empty()) {
                faults.push(format!("{file}: {change}: no reason"));
            }
            let text = fs::read_to_string(workspace::root().join(file)).unwrap_or_default();
            let function = function(change);
            if !text.contains(&format!("fn {function}(")) && !text.contains(&format!("fn {function}<")) {
                faults.push(format!("{file}: no function {function:?} for {change:?}"));
            }
        }
        faults
    }
}

/// Returns the name of the changed function, from `replace + with - in Index::parse` or
/// `replace Index::parse -> usize with 0`.
#[cfg(test)]
fn function(change: &str) -> &str {
    let whole = match change.rsplit_once(" in ") {
        Some((_, whole)) => whole,
        None => {
            let rest = change.strip_prefix("replace ").unwrap_or(change);
            rest.split(" -> ").next().unwrap_or(rest).split(" with ").next().unwrap_or(rest)
        }
    };
    whole.rsplit("::").next().unwrap_or(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_explanation_names_a_function_that_exists_and_says_why() {
        assert_eq!(Explained::read().unwrap().faults(), [""; 0]);
    }

    #[test]
    fn an_explanation_without_a_reason_or_a_function_is_a_fault() {
        let text = "['xtask/src/run.rs']\n'replace + with - in nothing' = 'why'\n'replace quote -> String with x' = ''";
        let faults = Explained::parse(text).unwrap().faults();
        assert_eq!(faults.len(), 2);
        assert!(faults[0].contains("\"nothing\"") && faults[1].contains("no reason"), "{faults:?}");
    }

    #[test]
    fn mutants_are_known_by_file_and_change() {
        let mutant = Mutant::parse("a/b.rs:12:30: replace || with && in <impl Display for A>::fmt").unwrap();
        assert_eq!(mutant.key().0, "a/b.rs");
        assert_eq!(function(&mutant.change), "fmt");
        assert_eq!(function("replace A::get -> Option<u64> with None"), "get");
        assert_eq!(function("replace wipe with ()"), "wipe");
        assert_eq!(Mutant::parse("nothing"), None);
    }

    #[test]
    fn each_survivor_needs_a_reason_of_its_own_and_each_reason_a_survivor() {
        let explained = Explained::parse("['c/a.rs']\n'replace x' = ['one', 'two']").unwrap();
        let survivors = |count| BTreeMap::from([(("c/a.rs".to_owned(), "replace x".to_owned()), count)]);
        let count =
            |survivors, folder: Option<&str>| explained.compare(&survivors, folder.map(Path::new)).len();
        assert_eq!(count(survivors(2), Some("c")), 0);
        assert_eq!(count(survivors(3), Some("c")), 1, "one has no reason");
        assert_eq!(count(survivors(1), Some("c")), 1, "a test notices one by now");
        assert_eq!(count(survivors(1), None), 0, "a sample may leave it out");
        assert_eq!(count(BTreeMap::new(), Some("d")), 0, "the reasons of another crate");
    }
}
