//! The terminal sessions in README.md and in the pages of docs/ match what the program really prints.
//!
//! A block marked `console` has commands (`$ …`) and their output. They run one after the other in a folder
//! with those files of [`files`] that the document's commands name. `s3://models` is a bucket with the same
//! files, served by a local nginx. `MODELFMT_UPDATE=1 cargo test -p modelfmt-cli --test it tour` records the
//! sessions again.

#![allow(clippy::unwrap_used, reason = "this is test code")]

mod files;

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{command, program};
use testkit::servers::Nginx;

/// Returns the output of a command, errors included, in the order of a terminal.
fn run(line: &str, folder: &Path, bucket: Option<&Nginx>) -> String {
    let programs = Path::new(program()).parent().unwrap().to_owned();
    let path = std::env::join_paths(
        std::iter::once(programs).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let mut shell = command("sh");
    shell.args(["-c", &format!("{{ {line}\n}} 2>&1")]).env("PATH", path.unwrap()).current_dir(folder);
    if let Some(bucket) = bucket {
        shell.env("AWS_ENDPOINT_URL", bucket.endpoint()).env("AWS_SKIP_SIGNATURE", "true");
        shell.env("XDG_CACHE_HOME", folder.join(".cache")); // not the cache of the user who runs the tests
    }
    let output = shell.output().unwrap();
    steady(&String::from_utf8(output.stdout).unwrap())
}

/// The beginnings of lines that contain a duration.
const TIMED: [&str; 5] = ["wrote ", "edited ", "signed ", "rekeyed ", "fetched "];

/// Replaces times that change from run to run.
fn steady(printed: &str) -> String {
    let timed = |line: &str| {
        let (before, after) = line.rsplit_once(" in ")?;
        let (_, rest) = after.split_once(" s").filter(|(time, _)| time.parse::<f64>().is_ok())?;
        Some(format!("{before} in 0.01 s{rest}"))
    };
    let line = |line: &str| {
        let is_timed = TIMED.iter().any(|word| line.starts_with(word));
        timed(line).filter(|_| is_timed).unwrap_or_else(|| line.to_owned()) + "\n"
    };
    printed.lines().map(line).collect()
}

/// Returns the commands of a document.
fn commands(document: &str) -> String {
    document.lines().filter(|line| line.starts_with("$ ")).collect::<Vec<_>>().join("\n")
}

/// Returns the document with the current output of every command.
fn recorded(document: &str, bucket: Option<&Nginx>) -> String {
    let folder = tempfile::tempdir().unwrap();
    files::write(folder.path(), &commands(document));
    let (mut text, mut in_session, mut skipping) = (String::new(), false, false);
    for line in document.lines() {
        if in_session && line == "```" {
            (in_session, skipping) = (false, false);
        }
        if let Some(command) = line.strip_prefix("$ ").filter(|_| in_session) {
            text.push_str(&format!("{line}\n{}", run(command, folder.path(), bucket)));
            skipping = true;
        } else if !skipping {
            text.push_str(&format!("{line}\n"));
        }
        in_session |= line == "```console";
    }
    text
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn check(name: &str) {
    let path = root().join(name);
    let document = fs::read_to_string(&path).unwrap();
    let used = commands(&document);
    let (served, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bucket = used.contains("s3://").then(|| {
        files::write(&served.path().join("models"), &used);
        Nginx::start(served.path(), work.path())
    });
    if bucket.is_some() && !cfg!(feature = "remote") {
        return;
    }
    let recorded = recorded(&document, bucket.as_ref());
    if std::env::var_os("MODELFMT_UPDATE").is_some() {
        fs::write(&path, recorded).unwrap();
        return;
    }
    for (number, (was, is)) in document.lines().zip(recorded.lines()).enumerate() {
        assert_eq!(
            was,
            is,
            "{name}, line {}; see the head of this test for how to record it again",
            number + 1
        );
    }
    assert_eq!(document.lines().count(), recorded.lines().count(), "{name}");
}

#[test]
fn the_readme_is_true() {
    check("README.md");
}

#[test]
fn the_tour_is_true() {
    check("docs/TOUR.md");
}

#[test]
fn the_page_about_edits_is_true() {
    check("docs/EDIT.md");
}

#[test]
fn the_page_about_trust_is_true() {
    check("docs/TRUST.md");
}

#[test]
fn the_page_about_json_is_true() {
    check("docs/JSON.md");
}

#[test]
fn the_cookbook_is_true() {
    check("docs/COOKBOOK.md");
}

#[test]
fn the_pages_for_jobs_are_true() {
    let pages = fs::read_dir(root().join("docs/howto")).unwrap();
    let mut names: Vec<_> = pages.map(|page| page.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert!(names.len() >= 10, "{names:?}");
    for name in names {
        check(&format!("docs/howto/{name}"));
    }
}
