//! Lists what the tests need from the machine, and checks that it is there.

use std::path::{Path, PathBuf};

use crate::run::{self, Result, step};
use crate::{wasm, workspace};

/// The minutes and disk space that a run takes, from a fresh clone on two cores.
const MINUTES: u32 = 20;
const GIB: u64 = 8;

/// A program that is needed.
struct Need {
    name: &'static str,
    what_for: &'static str,
    /// The Debian packages that contain it, or in backticks another command that installs it.
    from: &'static str,
    is_there: fn() -> bool,
}

/// The programs for the tests of the crates.
const CRATES: &[Need] = &[
    Need {
        name: "cc",
        what_for: "zstd, BLAKE3, ggml's C",
        from: "gcc libc6-dev",
        is_there: || says("cc", "--version"),
    },
    Need {
        name: "c++",
        what_for: "llama.cpp's choice of types",
        from: "g++",
        is_there: || says("c++", "--version"),
    },
    Need {
        name: "python3 with venv",
        what_for: "the formats' own tools, a server of S3",
        from: "python3 python3-venv",
        is_there: || run::succeeds(workspace::command("python3").args(["-c", "import ensurepip, venv"])),
    },
    Need {
        name: "node",
        what_for: "a server of Azure, the page",
        from: "nodejs",
        is_there: || says("node", "--version"),
    },
    Need {
        name: "npm",
        what_for: "llama.cpp, a server of Azure, the page",
        from: "npm",
        is_there: || says("npm", "--version"),
    },
    Need { name: "nginx", what_for: "a web server", from: "nginx", is_there: || on_path("nginx") },
    Need {
        name: "openssl",
        what_for: "certificates of test servers",
        from: "openssl",
        is_there: || on_path("openssl"),
    },
];

/// The additional programs for the Python package and the page.
const OTHERS: &[Need] = &[
    Need {
        name: "rustfmt and clippy",
        what_for: "the checks of both",
        from: "`rustup component add rustfmt clippy`",
        is_there: || {
            let is_there = |name| run::succeeds(workspace::cargo(name).arg("--version"));
            is_there("fmt") && is_there("clippy")
        },
    },
    Need {
        name: "Rust for wasm32-unknown-unknown",
        what_for: "the page",
        from: "rustc-web cargo-web rust-web-src",
        is_there: wasm::can_build,
    },
    Need {
        name: "wasm-split",
        what_for: "the page",
        from: "binaryen",
        is_there: || says("wasm-split", "--version"),
    },
    Need { name: "chromium", what_for: "the page", from: "chromium", is_there: || chromium().exists() },
];

/// Prints what is needed, including the Python package and the page if `all`. Fails if anything is missing.
pub(crate) fn check(all: bool) -> Result {
    step("what the tests need");
    let needs = || CRATES.iter().chain(OTHERS.iter().filter(|_| all));
    for Need { name, what_for, .. } in needs() {
        println!("{name}: {what_for}");
    }
    if all {
        println!("{MINUTES} minutes on two cores and {GIB} GiB of disk in a fresh clone, less afterwards");
    }
    println!("crates.io, PyPI and the npm registry, for what is not installed below target/ yet");
    let missing: Vec<_> = needs().filter(|need| !(need.is_there)()).collect();
    let mut faults = Vec::new();
    if !missing.is_empty() {
        faults.push(lacks(&missing));
    }
    if all {
        faults.extend(lacks_room(&workspace::target_dir()));
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("; ").into()) }
}

fn lacks(missing: &[&Need]) -> String {
    let names: Vec<_> = missing.iter().map(|need| need.name).collect();
    let (others, packages): (Vec<_>, Vec<_>) =
        missing.iter().map(|need| need.from).partition(|from| from.starts_with('`'));
    let debian = (!packages.is_empty()).then(|| format!("`apt-get install {}`", packages.join(" ")));
    let installs: Vec<_> = debian.into_iter().chain(others.into_iter().map(str::to_owned)).collect();
    format!("this machine lacks {}: {}", names.join(", "), installs.join(", "))
}

/// Returns a message if the disk has less room than a run still needs.
fn lacks_room(target: &Path) -> Option<String> {
    // The second line of `df -Pk` and the only one of `du -sk` have the numbers, in KiB.
    let number = |command: &str, option: &str, column: usize| -> Option<u64> {
        let folder = target.ancestors().find(|folder| folder.exists())?;
        let text = run::output(workspace::command(command).arg(option).arg(folder)).ok()?;
        text.lines().last()?.split_whitespace().nth(column)?.parse().ok()
    };
    let free = number("df", "-Pk", 3)?;
    let filled = if target.exists() { number("du", "-sk", 0)? } else { 0 };
    room(free, filled)
}

/// Returns the same message, from the KiB that are free and that are filled already.
fn room(free: u64, filled: u64) -> Option<String> {
    let needed = (GIB << 20).saturating_sub(filled);
    (free < needed).then(|| format!("this disk has {} MiB free, and {} are needed", free >> 10, needed >> 10))
}

fn says(program: &str, option: &str) -> bool {
    run::succeeds(workspace::command(program).arg(option))
}

/// Checks whether a program is on the path. Debian installs servers where only root's path leads.
fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    folders.any(|folder| folder.join(program).exists())
}

/// Returns the browser that the tests of the page use.
fn chromium() -> PathBuf {
    std::env::var_os("CHROMIUM").map_or_else(|| "/usr/bin/chromium".into(), PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_what_installs_it() {
        let missing: Vec<_> = CRATES
            .iter()
            .chain(OTHERS)
            .filter(|need| ["nginx", "chromium", "rustfmt and clippy"].contains(&need.name))
            .collect();
        assert_eq!(
            lacks(&missing),
            "this machine lacks nginx, rustfmt and clippy, chromium: `apt-get install nginx chromium`, `rustup component add rustfmt clippy`"
        );
    }

    #[test]
    fn what_is_built_already_needs_no_room() {
        assert_eq!(room(8 << 20, 0), None);
        assert_eq!(room(0, 9 << 20), None);
        assert_eq!(room(3 << 20, 4 << 20).unwrap(), "this disk has 3072 MiB free, and 4096 are needed");
    }

    #[test]
    fn programs_are_found() {
        assert!(on_path("sh") && !on_path("no-such-program-anywhere"));
        assert!(says("cargo", "--version") && !says("no-such-program-anywhere", "--version"));
    }
}
