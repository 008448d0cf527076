//! The script of the GitHub action, run in its own repository.
#![allow(clippy::unwrap_used, reason = "this is test code")]

use std::fs;
use std::path::Path;

use testkit::testdata;

use crate::common::{Run, command, program, run};

/// Makes a repository with two commits: a model, and the same model with one value changed.
fn repository() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    git(folder.path(), &["init", "--quiet"]);
    fs::copy(testdata("safetensors/shapes.safetensors"), folder.path().join("a model.safetensors")).unwrap();
    fs::write(folder.path().join("notes.txt"), "no model").unwrap();
    commit(folder.path());
    folder
}

fn git(folder: &Path, args: &[&str]) {
    let mut git = command("git");
    git.env("HOME", folder).args(["-c", "user.name=a", "-c", "user.email=a@example.org"]);
    run(git.args(args).current_dir(folder)).ok();
}

fn commit(folder: &Path) {
    git(folder, &["add", "--all"]);
    git(folder, &["commit", "--quiet", "--message", "files"]);
}

/// Runs the script as the action does, and returns its summary too.
fn action(folder: &Path, base: &str) -> (Run, String) {
    let summary = tempfile::NamedTempFile::new().unwrap();
    let script = testdata("../action/check.sh");
    let folders = [Path::new(program()).parent().unwrap().to_owned()].into_iter();
    let path = std::env::var_os("PATH").unwrap();
    let path = std::env::join_paths(folders.chain(std::env::split_paths(&path))).unwrap();
    let mut bash = command("bash");
    bash.arg(script).current_dir(folder).env("PATH", path).env("HOME", folder);
    let done = run(bash.env("MODELFMT_BASE", base).env("GITHUB_STEP_SUMMARY", summary.path()));
    (done, fs::read_to_string(summary.path()).unwrap())
}

#[test]
fn a_good_repository_passes_and_changes_are_shown() {
    let folder = repository();
    let (done, summary) = action(folder.path(), "");
    done.ok();
    assert_eq!(summary, "## Model files\n\nAll is well in 1 model files.\n");
    let model = folder.path().join("a model.safetensors");
    let mut bytes = fs::read(&model).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&model, bytes).unwrap();
    commit(folder.path());
    let (done, summary) = action(folder.path(), "HEAD~1");
    done.ok();
    assert!(summary.contains("What changed in `a model.safetensors`\n\n```text\n"), "{summary}");
    assert!(summary.contains("1 changed") || summary.contains("differ"), "{summary}");
    let (done, summary) = action(folder.path(), "HEAD");
    done.ok();
    assert!(!summary.contains("What changed"), "{summary}");
}

#[test]
fn a_damaged_file_fails_and_its_text_stays_in_the_block() {
    let folder = repository();
    fs::write(folder.path().join("```\n# b.gguf"), "GGUF```\n# no model").unwrap();
    commit(folder.path());
    let (done, summary) = action(folder.path(), "");
    assert_eq!(done.status, 1, "{}", done.stderr);
    assert!(summary.contains("b.gguf` is damaged or breaks a rule of its format**"), "{summary}");
    assert!(summary.ends_with("Something is wrong in 2 model files.\n"), "{summary}");
    // The only heading is the script's own, and the fences come in pairs.
    assert_eq!(summary.lines().filter(|line| line.starts_with('#')).count(), 1, "{summary}");
    assert_eq!(summary.matches("```").count() % 2, 0, "{summary}");
}
