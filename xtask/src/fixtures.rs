//! The golden files of `testdata/`.
//!
//! `testdata/<format>/` holds what this code makes, byte for byte the same on every machine, and nothing else;
//! `testdata/reference/` what other writers of the formats made, under a list of their hashes. A released
//! fixture never changes: a new case is a new file.
#![allow(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "fixtures are small, and the developer makes them"
)]

mod aero;
mod apr;
mod apr2;
mod gguf;
mod mag;
mod oinf;
mod reference;
mod safetensors;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::run::{Result, step};
use crate::workspace;

/// One golden file.
pub(crate) struct Fixture {
    /// Below the folder of its format, with `/` between the parts.
    pub(crate) path: String,
    pub(crate) bytes: Vec<u8>,
}

/// A format's folder below `testdata/` and what makes the files in it.
type Maker = (&'static str, fn() -> Result<Vec<Fixture>>);

const MAKERS: &[Maker] = &[
    ("aero", aero::fixtures),
    ("apr", apr::fixtures),
    ("apr2", apr2::fixtures),
    ("gguf", gguf::fixtures),
    ("mag", mag::fixtures),
    ("oinf", oinf::fixtures),
    ("safetensors", safetensors::fixtures),
];

/// Writes the files that are missing. One that differs is left alone and an error, unless `replace`.
pub(crate) fn write(replace: bool) -> Result {
    step("fixtures: golden files made from code");
    let mut differing = Vec::new();
    let made = make(MAKERS)?;
    for (path, bytes) in &made {
        let target = testdata().join(path);
        match fs::read(&target) {
            Ok(found) if found == *bytes => continue,
            Ok(_) if !replace => {
                differing.push(path.clone());
                continue;
            }
            _ => {}
        }
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&target, bytes)?;
        println!("wrote testdata/{path} ({} bytes)", bytes.len());
    }
    println!("{} files", made.len());
    if differing.is_empty() {
        return Ok(());
    }
    let list = differing.join(" ");
    Err(format!(
        "these differ, and a released fixture never changes: {list}; `--replace` writes them all the same"
    )
    .into())
}

/// Fails if a file of `testdata/` differs from what the code makes, is missing, or is made by nobody.
pub(crate) fn check() -> Result {
    step("fixtures: what is committed is what the code makes");
    let made = make(MAKERS)?;
    let folders = MAKERS.iter().map(|(folder, _)| *folder);
    let mut faults = compare(&testdata(), folders, &made)?;
    faults.extend(reference::check(&testdata().join("reference"))?);
    if faults.is_empty() {
        println!("{} files made from code are as committed", made.len());
        return Ok(());
    }
    for fault in &faults {
        println!("testdata/{fault}");
    }
    Err(format!("{} golden files are not what they should be", faults.len()).into())
}

fn testdata() -> PathBuf {
    workspace::root().join("testdata")
}

/// Every fixture, by its path below `testdata/`.
fn make(makers: &[Maker]) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut all = BTreeMap::new();
    for (folder, fixtures) in makers {
        for Fixture { path, bytes } in fixtures().map_err(|e| format!("fixtures of {folder}: {e}"))? {
            let path = format!("{folder}/{path}");
            if all.contains_key(&path) {
                return Err(format!("{path} is made twice").into());
            }
            all.insert(path, bytes);
        }
    }
    Ok(all)
}

/// What is wrong below `testdata`, one line a file.
fn compare<'a>(
    testdata: &Path,
    folders: impl Iterator<Item = &'a str>,
    made: &BTreeMap<String, Vec<u8>>,
) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for (path, bytes) in made {
        match fs::read(testdata.join(path)) {
            Ok(found) => faults.extend(difference(&found, bytes).map(|what| format!("{path}: {what}"))),
            Err(error) => faults.push(format!("{path}: {error}")),
        }
    }
    for folder in folders {
        let stray = files(&testdata.join(folder))?.into_iter().map(|path| format!("{folder}/{path}"));
        faults.extend(
            stray.filter(|path| !made.contains_key(path)).map(|path| format!("{path}: no code makes it")),
        );
    }
    Ok(faults)
}

fn difference(found: &[u8], made: &[u8]) -> Option<String> {
    if found == made {
        return None;
    }
    let same = found.iter().zip(made).take_while(|(a, b)| a == b).count();
    Some(format!("differs from byte {same:#x} on ({} bytes, the code makes {})", found.len(), made.len()))
}

/// All files below a folder, `/` between the parts; none if there is no such folder.
fn files(folder: &Path) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let mut pending = vec![(folder.to_path_buf(), String::new())];
    while let Some((dir, prefix)) = pending.pop() {
        if !dir.exists() {
            continue;
        }
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if entry.file_type()?.is_dir() {
                pending.push((entry.path(), format!("{path}/")));
            } else {
                found.insert(path);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
