//! Reproducible builds: the same bytes in every folder and for every user.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::Result;
use crate::workspace;

/// Adds compiler flags to a build, and flags that keep paths of this machine out of the result.
pub(crate) fn build<'a>(cargo: &'a mut Command, flags: &[&str]) -> &'a mut Command {
    let mut flags: Vec<_> = flags.iter().map(|flag| (*flag).to_owned()).collect();
    // The last prefix that matches a path counts.
    for (from, to) in [(home(), "/cargo"), (Some(workspace::root()), "/modelfmt")] {
        flags.extend(from.map(|from| format!("--remap-path-prefix={}={to}", from.display())));
    }
    cargo.env_remove("RUSTFLAGS").env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"))
}

/// Returns cargo's own folder, with the sources of third-party crates.
fn home() -> Option<PathBuf> {
    let named = std::env::var_os("CARGO_HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    named.or_else(|| Some(std::env::home_dir()?.join(".cargo")))
}

/// Copies a file with its time, so that cargo does not take the copy for a change.
fn copy(from: &Path, to: &Path) -> Result {
    fs::copy(from, to)?;
    let time = fs::metadata(from)?.modified()?;
    Ok(fs::File::options().write(true).open(to)?.set_modified(time)?)
}

/// Copies a workspace that uses crates of the project into a folder, with a link to the project below it. If
/// a crate is not below its workspace, cargo hashes the whole path, and the hash goes into every name that
/// the compiler makes.
pub(crate) fn stage(workspace: &Path, files: &[&str], stage: &Path) -> Result {
    const PROJECT: &str = "modelfmt";
    if stage.exists() {
        fs::remove_dir_all(stage)?;
    }
    fs::create_dir_all(stage)?;
    let manifest = fs::read_to_string(workspace.join("Cargo.toml"))?;
    let manifest = manifest.replace("path = \"../", &format!("path = \"{PROJECT}/crates/"));
    let manifest =
        manifest.replacen("[workspace]\n", &format!("[workspace]\nexclude = [\"{PROJECT}\"]\n"), 1);
    fs::write(stage.join("Cargo.toml"), manifest)?;
    for name in files {
        let from = workspace.join(name);
        if from.is_file() {
            copy(&from, &stage.join(name))?;
            continue;
        }
        for file in workspace::files(&from)? {
            let to = stage.join(name).join(&file);
            fs::create_dir_all(to.parent().unwrap_or(stage))?;
            copy(&from.join(&file), &to)?;
        }
    }
    link(&workspace::root(), &stage.join(PROJECT))
}

#[cfg(unix)]
fn link(folder: &Path, at: &Path) -> Result {
    Ok(std::os::unix::fs::symlink(folder, at)?)
}

#[cfg(windows)]
fn link(folder: &Path, at: &Path) -> Result {
    Ok(std::os::windows::fs::symlink_dir(folder, at)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_this_machine_are_renamed() {
        let mut cargo = Command::new("cargo");
        build(&mut cargo, &["-C", "opt-level=1"]);
        let (_, flags) = cargo.get_envs().find(|(key, _)| *key == "CARGO_ENCODED_RUSTFLAGS").unwrap();
        let flags = flags.unwrap().to_str().unwrap();
        let root = workspace::root();
        assert!(flags.starts_with("-C\x1fopt-level=1\x1f--remap-path-prefix="), "{flags}");
        assert!(flags.ends_with(&format!("--remap-path-prefix={}=/modelfmt", root.display())), "{flags}");
    }

    #[test]
    fn a_staged_workspace_has_the_project_below_it() {
        let [from, to] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        fs::create_dir(from.path().join("src")).unwrap();
        fs::write(from.path().join("src/lib.rs"), "").unwrap();
        fs::write(from.path().join("Cargo.toml"), "[workspace]\n[dependencies]\na = { path = \"../a\" }\n")
            .unwrap();
        fs::write(from.path().join("other"), "").unwrap();
        stage(from.path(), &["src"], to.path()).unwrap();
        let manifest = fs::read_to_string(to.path().join("Cargo.toml")).unwrap();
        assert_eq!(
            manifest,
            "[workspace]\nexclude = [\"modelfmt\"]\n[dependencies]\na = { path = \"modelfmt/crates/a\" }\n"
        );
        assert!(to.path().join("src/lib.rs").exists() && to.path().join("modelfmt/Cargo.toml").exists());
        assert!(!to.path().join("other").exists());
        let time = |folder: &Path| fs::metadata(folder.join("src/lib.rs")).unwrap().modified().unwrap();
        assert_eq!(time(to.path()), time(from.path()));
    }
}
