//! The folders and members of the workspace, from `cargo metadata`.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::run::{self, Result};

/// One member of the workspace.
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Its folder.
    pub(crate) dir: PathBuf,
    /// Its features without `default`, sorted.
    pub(crate) features: Vec<String>,
    pub(crate) is_library: bool,
    /// Whether it may be published to a registry. Crates such as testkit and xtask may not.
    pub(crate) is_published: bool,
}

/// Returns the workspace's folder.
pub(crate) fn root() -> PathBuf {
    // `cargo run` sets the variable. A program that is started directly uses the value at build time.
    let xtask = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let xtask = Path::new(&xtask);
    xtask.parent().unwrap_or(xtask).to_path_buf()
}

/// Returns the folder where cargo builds.
pub(crate) fn target_dir() -> PathBuf {
    root().join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// Returns a command that runs in the workspace's folder.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    // Python compiles what `pip` has installed when it is first imported, and must be allowed to keep that.
    command.current_dir(root()).env_remove("PYTHONDONTWRITEBYTECODE");
    command
}

/// Returns `cargo` with a subcommand, in the workspace's folder.
pub(crate) fn cargo(subcommand: &str) -> Command {
    let mut command = command("cargo");
    command.arg(subcommand);
    command
}

/// Makes a build lint the members of its workspace as `cargo clippy -- -D warnings` does. Unlike that, which
/// would check all dependencies anew, it uses those that the tests have built.
pub(crate) fn lint(build: &mut Command) -> &mut Command {
    // The form in which `cargo clippy` passes its arguments to its driver.
    const DENIED: &str = "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__";
    build.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver").env("CLIPPY_ARGS", DENIED)
}

/// Returns Python's `pip` with a subcommand. What it installs is compiled when it is first imported, because
/// most modules never are.
pub(crate) fn pip(python: impl AsRef<OsStr>, subcommand: &str) -> Command {
    let mut pip = command(python);
    pip.args(["-m", "pip", subcommand, "--quiet", "--no-input", "--disable-pip-version-check"]);
    pip.args((subcommand == "install").then_some("--no-compile"));
    pip
}

/// Returns the command that runs a program of the workspace, built with the features of the tests, so that
/// cargo can reuse their build.
pub(crate) fn program(name: &str) -> Command {
    let mut command = cargo("run");
    command.args(["--quiet", "--all-features", "--bin", name, "--"]);
    command
}

/// Returns the members, sorted by name.
pub(crate) fn packages() -> Result<Vec<Package>> {
    let text = run::output(cargo("metadata").args(["--format-version=1", "--no-deps"]))?;
    let metadata: Value = serde_json::from_str(&text)?;
    let mut packages: Vec<_> = list(&metadata, "packages").iter().map(package).collect();
    packages.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(packages)
}

fn package(value: &Value) -> Package {
    let text = |key| value.get(key).and_then(Value::as_str).unwrap_or_default();
    let manifest = Path::new(text("manifest_path"));
    let features = value.get("features").and_then(Value::as_object).into_iter().flatten();
    let mut features: Vec<_> =
        features.map(|(name, _)| name.clone()).filter(|name| name != "default").collect();
    features.sort();
    let targets = list(value, "targets");
    let has =
        |wanted: &str| targets.iter().any(|target| list(target, "kind").iter().any(|kind| kind == wanted));
    Package {
        name: text("name").to_owned(),
        version: text("version").to_owned(),
        dir: manifest.parent().unwrap_or(manifest).to_path_buf(),
        features,
        // A library next to a program is a part of the program.
        is_library: has("lib") && !has("bin"),
        // No list means any registry, an empty list means none.
        is_published: value.get("publish").and_then(Value::as_array).is_none_or(|to| !to.is_empty()),
    }
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the paths of all files below a folder, with `/` as separator. Empty if there is no such folder.
pub(crate) fn files(folder: &Path) -> Result<BTreeSet<String>> {
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

/// Returns the paths of the files that git tracks or would track, each followed by a zero byte.
pub(crate) fn files_of_git() -> Result<String> {
    run::output(command("git").args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]))
}
