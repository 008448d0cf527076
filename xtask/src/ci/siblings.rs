//! Compares the tables in CONTRIBUTING.md that list the files of each format crate with the folders.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::run::Result;

const PAGE: &str = "CONTRIBUTING.md";
/// The beginning of each table's header row.
const SHARED: &str = "| file | what it is |";
const OWN: &str = "| crate | its own files |";

/// The files of each crate, as CONTRIBUTING.md lists them.
type Listed = BTreeMap<String, BTreeSet<String>>;

/// Returns the differences between the tables and the folders, in both directions.
pub(super) fn faults(root: &Path) -> Result<Vec<String>> {
    let listed = listed(&fs::read_to_string(root.join(PAGE))?)?;
    let mut faults = Vec::new();
    for (name, listed) in &listed {
        faults.extend(differences(name, listed, &modules(&root.join("crates").join(name).join("src"))?));
    }
    Ok(faults)
}

/// Returns the files and folders of a crate's `src`, without `.rs`.
fn modules(src: &Path) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(src)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        found.insert(name.trim_end_matches(".rs").to_owned());
    }
    Ok(found)
}

fn differences(name: &str, listed: &BTreeSet<String>, found: &BTreeSet<String>) -> Vec<String> {
    let missing = listed.difference(found).map(|file| format!("{PAGE}: crates/{name}/src has no `{file}`"));
    let unlisted =
        found.difference(listed).map(|file| format!("{PAGE}: `{file}` of crates/{name}/src is in no table"));
    missing.chain(unlisted).collect()
}

/// Reads both tables.
fn listed(page: &str) -> Result<Listed> {
    let mut listed = Listed::new();
    let mut shared = rows(page, SHARED);
    let crates = shared.next().ok_or_else(|| format!("{PAGE}: no table begins with \"{SHARED}\""))?;
    for row in shared {
        let [file, _, cells @ ..] = &*row else { continue };
        for (name, _) in crates.iter().skip(2).zip(cells).filter(|(_, cell)| cell.starts_with('✓')) {
            listed.entry((*name).to_owned()).or_default().extend(quoted(file));
        }
    }
    let mut own = rows(page, OWN);
    own.next().ok_or_else(|| format!("{PAGE}: no table begins with \"{OWN}\""))?;
    for row in own {
        let [name, files, ..] = &*row else { continue };
        let of_crate = listed.get_mut(*name).ok_or_else(|| format!("{PAGE}: no column for {name}"))?;
        of_crate.extend(quoted(files));
    }
    Ok(listed)
}

/// Returns the rows of the table whose header row begins with `head`, including that row, each split into its
/// cells.
fn rows<'a>(page: &'a str, head: &str) -> impl Iterator<Item = Vec<&'a str>> {
    let table = page.lines().skip_while(move |line| !line.starts_with(head));
    let table = table.take_while(|line| line.starts_with('|')).filter(|line| !line.starts_with("| ---"));
    table.map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
}

/// Returns the file names between backticks, without `.rs` or a final slash.
fn quoted(cell: &str) -> impl Iterator<Item = String> {
    let names = cell.split('`').skip(1).step_by(2);
    names.map(|name| name.trim_end_matches(".rs").trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
| file | what it is | mag | apr |
| --- | --- | --- | --- |
| `lib.rs` | the front page | ✓ | ✓ |
| `set/` | many files | none | ✓ |

| crate | its own files | what they are |
| --- | --- | --- |
| mag | `v1` `version` | its versions |
";

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().copied().map(str::to_owned).collect()
    }

    #[test]
    fn both_tables_count() {
        let listed = listed(PAGE).unwrap();
        assert_eq!(listed["mag"], set(&["lib", "v1", "version"]));
        assert_eq!(listed["apr"], set(&["lib", "set"]));
        assert!(super::listed("# Contributing").is_err());
        assert!(super::listed(&PAGE.replace("| mag | `v1`", "| ogg | `v1`")).is_err());
    }

    #[test]
    fn a_file_too_many_and_a_file_too_few_are_found() {
        let found = differences("mag", &set(&["lib", "v1"]), &set(&["lib", "v2"]));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("no `v1`") && found[1].contains("`v2`"), "{found:?}");
        assert!(differences("mag", &set(&["lib"]), &set(&["lib"])).is_empty());
    }

    #[test]
    fn the_page_is_true() {
        assert_eq!(faults(&crate::workspace::root()).unwrap(), Vec::<String>::new());
    }
}
