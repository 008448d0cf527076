//! Verifies every model below a folder and prints a line for each, with what is wrong: a step for CI, or for
//! the night after an upload.
//!
//! ```sh
//! cargo run                  # the repository's testdata/mag
//! cargo run -- models/
//! ```
//!
//! Exit status: 0 if all are intact, 1 if one is not, 2 if the folder cannot be read or has no model.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use modelfmt::verify::Status;
use modelfmt::{Execution, VerifyLevel};

const DEFAULT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/mag");

/// A file with such a name is a model, whatever it contains: if its first bytes are damaged, it must not pass
/// as a text.
const ENDINGS: [&str; 8] =
    [".aero", ".aeroset.json", ".mag", ".oinf", ".apr", ".safetensors", ".safetensors.index.json", ".gguf"];

fn main() -> ExitCode {
    let folder = env::args_os().nth(1).map_or_else(|| PathBuf::from(DEFAULT), PathBuf::from);
    let models = match models(&folder) {
        Ok(models) if !models.is_empty() => models,
        Ok(_) => {
            eprintln!("error: {}: no model is in it", folder.display());
            return ExitCode::from(2);
        }
        Err(error) => {
            eprintln!("error: {}: {error}", folder.display());
            return ExitCode::from(2);
        }
    };
    let damaged = models.iter().filter(|path| !is_intact(path, &folder)).count();
    println!("{} models, {damaged} damaged", models.len());
    if damaged == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns the models below a folder, sorted. Links are not followed, so the search ends.
fn models(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else if ENDINGS.iter().any(|ending| name.to_string_lossy().ends_with(ending)) {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Verifies one file and prints the findings.
fn is_intact(path: &Path, folder: &Path) -> bool {
    // Checks every hash and rule. Memory does not depend on the model's size, and even a file that cannot be
    // opened has a report.
    let file = modelfmt::verify(path, VerifyLevel::Full, &Execution::default());
    let made = file.report.checks.iter().filter(|check| check.status != Status::Absent);
    let checks: Vec<&str> = made.map(|check| check.name).collect();
    let verdict = if file.is_ok() { "ok" } else { "DAMAGED" };
    let format = file.format.map_or("unknown", |format| format.name());
    let shown = path.strip_prefix(folder).unwrap_or(path).display();
    println!("{verdict} {shown} ({format}: {})", checks.join(", "));
    for finding in &file.report.errors {
        println!("  {finding}");
    }
    file.is_ok()
}
