//! Checks what no compiler does: where `unsafe` is allowed, lints that a crate disables or a parser lacks,
//! paths of somebody's machine, files that are too long, format crates that differ from the tables in
//! CONTRIBUTING.md, promises that nothing keeps.

use std::env;
use std::fs;
use std::path::Path;

use super::{code, parsers, promises, siblings};
use crate::run::{Result, step};
use crate::workspace;

/// Code that may use `unsafe`: the crates with aligned buffers and maps, with counting allocators, and the
/// wasm harness; the measurements, which map files that they have made; the memory that the Python package
/// exposes; and the interface to JavaScript.
const UNSAFE_ALLOWED: &[&str] = &[
    "crates/modelfmt-core/",
    "crates/testkit/",
    "crates/testkit-wasm/",
    "crates/bench/src/map.rs",
    "crates/modelfmt-py/src/raw.rs",
    "crates/modelfmt-web/src/exports.rs",
    "crates/modelfmt-web/src/host.rs",
];
/// A source file with more lines has to be split by subject.
const MAX_LINES: usize = 1000;

pub(super) fn check() -> Result {
    step("sources: unsafe, lints, paths, length, the same files in each format's crate, promises");
    let root = workspace::root();
    let listed = workspace::files_of_git()?;
    let machine = machine_paths(&root);
    let mut faults = Vec::new();
    let mut checked = 0;
    for path in listed.split('\0').filter(|path| !path.is_empty()) {
        let Ok(bytes) = fs::read(root.join(path)) else { continue }; // deleted, but still listed
        checked += 1;
        faults.extend(named_paths(path, &bytes, &machine));
        let Ok(text) = str::from_utf8(&bytes) else { continue };
        if path.ends_with(".rs") {
            faults.extend(unsafe_code(path, text));
            faults.extend(parsers::fault(path, text));
            faults.extend(derived_debug(path, text));
        }
        if [".rs", ".py", ".pyi", ".js", ".mjs", ".css"].iter().any(|ending| path.ends_with(ending)) {
            faults.extend(too_long(path, text));
        }
    }
    for package in workspace::packages()? {
        faults.extend(own_lints(&package.name, &fs::read_to_string(package.dir.join("Cargo.toml"))?));
    }
    faults.extend(siblings::faults(&root)?);
    faults.extend(promises::faults(&root)?);
    for fault in &faults {
        println!("{fault}");
    }
    println!("{checked} files, {} faults", faults.len());
    if faults.is_empty() { Ok(()) } else { Err(format!("{} faults in the sources", faults.len()).into()) }
}

/// Returns uses of `unsafe`, and attributes that allow it, outside of `UNSAFE_ALLOWED`.
fn unsafe_code(path: &str, text: &str) -> Vec<String> {
    if UNSAFE_ALLOWED.iter().any(|allowed| path.starts_with(allowed)) {
        return Vec::new();
    }
    let code = code::without_comments(text);
    let mut faults = Vec::new();
    for (number, line) in code.lines().enumerate() {
        let mut words = line.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        if words.clone().any(|word| word == "unsafe") {
            faults.push(format!(
                "{path}:{}: unsafe outside the files and crates that may have it (xtask/src/ci/sources.rs)",
                number + 1
            ));
        }
        let weakens = words.clone().any(|word| ["allow", "expect", "warn"].contains(&word));
        if weakens && words.any(|word| word == "unsafe_code") {
            faults.push(format!("{path}:{}: the lint unsafe_code is switched off", number + 1));
        }
    }
    faults
}

/// Returns public errors of libraries that derive `Debug`. Such an error, returned by `main`, would print as
/// its variant instead of its sentence.
fn derived_debug(path: &str, text: &str) -> Vec<String> {
    const NO_LIBRARIES: [&str; 6] =
        ["bench", "modelfmt-cli", "modelfmt-py", "modelfmt-web", "testkit", "testkit-wasm"];
    let mut parts = path.split('/');
    let is_library = parts.next() == Some("crates")
        && parts.next().is_some_and(|name| !NO_LIBRARIES.contains(&name))
        && parts.next() == Some("src");
    let mut faults = Vec::new();
    let mut derived = None;
    for (number, line) in text.lines().enumerate().filter(|_| is_library) {
        if line.starts_with("#[derive(") {
            let is = line.contains("thiserror::Error") && line.contains("Debug");
            derived = is.then_some(number + 1);
        } else if !line.starts_with("#[") && !line.starts_with(' ') && !line.starts_with(')') {
            let found = derived.take().filter(|_| line.starts_with("pub ") && line.ends_with(['{', ';']));
            faults.extend(found.map(|at| {
                format!("{path}:{at}: a public error derives Debug; use debug_as_sentence! (crates/tensor-core/src/sentence.rs)")
            }));
        }
    }
    faults
}

/// Checks that a package inherits exactly the workspace's lints.
fn own_lints(package: &str, manifest: &str) -> Option<String> {
    let section = manifest.split("\n[").find_map(|section| section.strip_prefix("lints]"));
    let inherits = section.is_some_and(|lines| lines.trim() == "workspace = true");
    (!inherits || manifest.contains("\n[lints."))
        .then(|| format!("{package}: [lints] is not `workspace = true` alone"))
}

/// Returns the folders of this machine, which no file of the project may name.
fn machine_paths(root: &Path) -> Vec<String> {
    let mut paths: Vec<String> = ["HOME", "CARGO_HOME", "RUSTUP_HOME", "CARGO_TARGET_DIR", "TMPDIR"]
        .iter()
        .filter_map(|name| env::var(name).ok())
        .filter(|path| path.starts_with('/'))
        .collect();
    paths.extend([Some(root), root.parent()].into_iter().flatten().map(|path| path.display().to_string()));
    for path in &mut paths {
        *path = format!("{}/", path.trim_end_matches('/'));
    }
    paths.retain(|path| path != "/" && path != "/tmp/");
    paths.sort();
    paths.dedup();
    paths
}

/// Returns the lines that contain one of `paths` as a path of its own, not as the end of a longer one.
fn named_paths(file: &str, bytes: &[u8], paths: &[String]) -> Vec<String> {
    let part_of_path = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./}>".contains(&byte);
    let names = |line: &[u8], path: &str| {
        let starts = line.windows(path.len()).enumerate().filter(|(_, window)| *window == path.as_bytes());
        let mut before = starts.map(|(at, _)| at.checked_sub(1).and_then(|at| line.get(at)));
        before.any(|byte| !byte.is_some_and(|byte| part_of_path(*byte)))
    };
    let mut faults = Vec::new();
    for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        if let Some(path) = paths.iter().find(|path| names(line, path)) {
            faults.push(format!("{file}:{}: names {path} of this machine", number + 1));
        }
    }
    faults
}

/// Returns a fault if a source file is too long.
fn too_long(path: &str, text: &str) -> Option<String> {
    let lines = text.lines().count();
    (lines > MAX_LINES)
        .then(|| format!("{path}: has {lines} lines; split it by subject, {MAX_LINES} are the most"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_error_says_its_sentence() {
        let of = |derive: &str, item: &str| {
            let text = format!("#[derive({derive})]\n#[error(\n    \"long\"\n)]\n{item} {{\n}}\n");
            ["mag", "modelfmt-cli"]
                .map(|name| derived_debug(&format!("crates/{name}/src/error.rs"), &text).len())
        };
        assert_eq!(of("Clone, Debug, thiserror::Error", "pub enum Error<F>"), [1, 0]);
        assert_eq!(of("Debug, thiserror::Error", "pub(crate) enum Error"), [0, 0]);
        assert_eq!(of("Clone, thiserror::Error", "pub struct Error"), [0, 0]);
        assert_eq!(of("Clone, Debug", "pub struct Index"), [0, 0]);
    }

    #[test]
    fn unsafe_is_found_in_code_only() {
        let source = "// unsafe\nfn f() { let s = \"unsafe\"; unsafe { g(s) } }\n";
        assert_eq!(unsafe_code("crates/mag/src/a.rs", source).len(), 1);
        assert!(unsafe_code("crates/mag/src/a.rs", source)[0].starts_with("crates/mag/src/a.rs:2: "));
        assert!(unsafe_code("crates/modelfmt-core/src/map.rs", source).is_empty());
        assert!(unsafe_code("crates/mag/src/a.rs", "let unsafely = 1; /* unsafe */").is_empty());
    }

    #[test]
    fn switching_the_lint_off_is_found() {
        let count = |source| unsafe_code("crates/mag/src/lib.rs", source).len();
        assert_eq!(count("#![allow(unsafe_code)]"), 1);
        assert_eq!(count("#[expect(unsafe_code, reason = \"fast\")]"), 1);
        assert_eq!(count("#![forbid(unsafe_code)]"), 0);
    }

    #[test]
    fn lints_come_from_the_workspace() {
        assert_eq!(own_lints("a", "[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n"), None);
        assert!(own_lints("a", "[package]\nname = \"a\"\n").is_some());
        assert!(own_lints("a", "[package]\n\n[lints.rust]\nunsafe_code = \"allow\"\n").is_some());
    }

    #[test]
    fn long_files_are_found() {
        assert_eq!(too_long("a.rs", &"\n".repeat(MAX_LINES)), None);
        assert!(too_long("a.rs", &"\n".repeat(MAX_LINES + 1)).is_some());
    }

    #[test]
    fn paths_of_the_machine_are_found() {
        let paths = ["/home/me/".to_owned()];
        let count = |text: &str| named_paths("f", text.as_bytes(), &paths).len();
        assert_eq!(count("a\nopen(\"/home/me/x\")\n"), 1);
        assert_eq!(count("/home/me/"), 1);
        assert_eq!(count("srv/home/me/x /home/men/x"), 0);
    }
}
