//! Makes `testdata/conformance`, for `cargo xtask conformance`: for each format, small files that its readers
//! must read, and files that break one rule each. The same code makes the same bytes everywhere.
#![allow(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::expect_used,
    reason = "the files are small, and the developer makes them"
)]

mod formats;
mod suite;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use suite::Format;

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

/// The maximum size of all files together.
const MOST_BYTES: usize = 8 << 20;

fn main() -> ExitCode {
    let done = match std::env::args().nth(1).as_deref() {
        Some("write") => write(),
        Some("check") => check(),
        _ => Err("conformance write|check".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn folder() -> PathBuf {
    root().join("testdata/conformance")
}

/// Makes every file. Returns them by path in the folder.
fn made(formats: &[Format]) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    let mut faults = Vec::new();
    for format in formats {
        faults.extend(format.faults());
        faults.extend(sections(format)?);
        for case in &format.cases {
            files.insert(format!("{}/{}", format.name, case.file), case.bytes.clone());
        }
        files.insert(format!("{}/manifest.json", format.name), format.manifest().into_bytes());
    }
    let nbytes: usize = files.values().map(Vec::len).sum();
    if nbytes > MOST_BYTES {
        faults.push(format!("{nbytes} bytes in all, more than {MOST_BYTES}"));
    }
    if faults.is_empty() { Ok(files) } else { Err(faults.join("\n").into()) }
}

/// Returns a fault for each section that the format's page does not have.
fn sections(format: &Format) -> Result<Vec<String>> {
    let page = fs::read_to_string(root().join(format.page))?;
    let headings: BTreeSet<String> = page.lines().filter(|line| line.starts_with('#')).map(anchor).collect();
    let missing = format.cases.iter().filter(|case| !headings.contains(case.section));
    Ok(missing
        .map(|case| format!("{}: {} has no heading #{}", case.file, format.page, case.section))
        .collect())
}

/// Returns the anchor of a heading.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn write() -> Result {
    let formats = formats::all();
    let files = made(&formats)?;
    for format in &formats {
        let folder = folder().join(format.name);
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        println!("{:<12} {:>5} files", format.name, format.cases.len());
    }
    for (path, bytes) in &files {
        fs::write(folder().join(path), bytes)?;
    }
    let nbytes: usize = files.values().map(Vec::len).sum();
    println!("{} files and {} manifests, {nbytes} bytes", files.len() - formats.len(), formats.len());
    Ok(())
}

/// Fails unless the folders hold what the code makes, and nothing else.
fn check() -> Result {
    let formats = formats::all();
    let files = made(&formats)?;
    let mut faults = Vec::new();
    for (path, bytes) in &files {
        if fs::read(folder().join(path)).ok().as_ref() != Some(bytes) {
            faults.push(format!("testdata/conformance/{path} is missing, or is not what the code makes"));
        }
    }
    for format in &formats {
        for entry in fs::read_dir(folder().join(format.name))? {
            let path = format!("{}/{}", format.name, entry?.file_name().to_string_lossy());
            if !files.contains_key(&path) {
                faults.push(format!("testdata/conformance/{path}: no code makes it"));
            }
        }
    }
    if faults.is_empty() {
        println!("{} files are as committed", files.len());
        return Ok(());
    }
    Err(format!("{}\nrun cargo xtask conformance", faults.join("\n")).into())
}
