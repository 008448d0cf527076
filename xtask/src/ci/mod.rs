//! `cargo xtask ci`: checks everything that must hold before a commit is pushed.

mod circles;
mod code;
mod deny;
mod dependencies;
mod features;
mod outcomes;
pub(crate) mod package;
mod parsers;
mod promises;
mod siblings;
mod sources;
mod toy;

use std::time::Instant;

use clap::builder::PossibleValuesParser;

use crate::run::{Result, exec, step};
use crate::tally::{Tally, tallied};
use crate::{bench, conformance, docs, fuzz, links, python, site, test, wasm, web, workspace};

/// The name of a step, and the function that runs it.
type Step = (&'static str, fn() -> Result);

const STEPS: &[Step] = &[
    ("sources", sources::check),
    ("circles", circles::check),
    ("links", links::check),
    ("site", site::build),
    ("fmt", fmt),
    ("clippy", clippy),
    ("test", test),
    ("python", || passed(python::checks)),
    ("web", || {
        passed(|tally| {
            web::checks(tally);
            Ok(())
        })
    }),
    ("features", features::check),
    ("outcomes", outcomes::check),
    ("toy", toy::check),
    ("doc", doc),
    ("fixtures", || docs::fixtures("check")),
    ("suite", conformance::check),
    ("docs", docs::check),
    ("wasm", || wasm::run(false)),
    ("bench", || bench::run(&["--quick".into()])),
    ("package", package::check),
    ("deny", deny::check),
    ("dependencies", dependencies::check),
    ("fuzz", fuzz::check),
];

/// Returns the names of the steps, as the values that `--only` accepts.
pub(crate) fn names() -> PossibleValuesParser {
    STEPS.iter().map(|(name, _)| *name).collect::<Vec<_>>().into()
}

/// Runs every step, or only those in `only`, without stopping at a failure. Fails if any step failed.
pub(crate) fn run(no_test: bool, only: &[String]) -> Result {
    let chosen = |name| (only.is_empty() || only.iter().any(|o| o == name)) && !(no_test && name == "test");
    let mut summary = Vec::new();
    let mut failed = Vec::new();
    for (name, check) in STEPS.iter().filter(|(name, _)| chosen(*name)) {
        let begin = Instant::now();
        let done = check();
        let seconds = begin.elapsed().as_secs();
        let verdict = if done.is_ok() { "ok" } else { "FAILED" };
        summary.push(format!("{name:<10} {verdict:<7} {seconds:>5} s"));
        if let Err(error) = done {
            println!("{name} failed: {error}");
            failed.push(*name);
        }
    }
    step("summary");
    println!("{}", summary.join("\n"));
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", ")).into()) }
}

fn fmt() -> Result {
    step("fmt");
    exec(workspace::cargo("fmt").args(["--all", "--check"]))?;
    exec(workspace::cargo("fmt").args(["--manifest-path", test::EXAMPLES, "--all", "--check"]))
}

fn test() -> Result {
    if test::all(&[])? { Ok(()) } else { Err("tests failed".into()) }
}

fn passed(checks: impl FnOnce(&mut Tally) -> Result) -> Result {
    if tallied(checks)? { Ok(()) } else { Err("checks failed".into()) }
}

fn clippy() -> Result {
    step("clippy");
    let everything = ["--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"];
    exec(workspace::cargo("clippy").args(everything))?;
    exec(workspace::lint(test::examples().args(["--all-targets", "--no-run"])))
}

fn doc() -> Result {
    step("doc");
    let everything = ["--no-deps", "--workspace", "--all-features"];
    exec(workspace::cargo("doc").args(everything).env("RUSTDOCFLAGS", "-D warnings"))
}
