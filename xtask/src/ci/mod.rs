//! `cargo xtask ci`: everything that must hold before a commit is pushed.

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

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use clap::builder::PossibleValuesParser;

use crate::run::{Result, exec, step};
use crate::tally::{Tally, tallied};
use crate::{bench, conformance, docs, fuzz, links, python, site, test, wasm, web, workspace};

/// A step's name and what it does.
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
    ("fuzz", fuzz::smoke),
];

/// The names of the steps.
pub(crate) fn names() -> PossibleValuesParser {
    STEPS.iter().map(|(name, _)| *name).collect::<Vec<_>>().into()
}

/// Runs every step, or only those named, also after one has failed, and fails if any did.
pub(crate) fn run(no_test: bool, only: &[String]) -> Result {
    let chosen = |name| (only.is_empty() || only.iter().any(|o| o == name)) && !(no_test && name == "test");
    let mut summary = Vec::new();
    let mut failed = Vec::new();
    let mut beside = if only.is_empty() { Some(Beside::start()?) } else { None };
    for (name, check) in STEPS.iter().filter(|(name, _)| chosen(*name)) {
        let begin = Instant::now();
        let done = match (&mut beside, BESIDE.iter().position(|beside| beside == name)) {
            (Some(beside), Some(0)) => beside.end(),
            (Some(_), Some(_)) => continue,
            _ => check(),
        };
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

/// The steps that go on beside the others if all are run: they build everything anew in folders of their own, and others often leave a core
/// idle. The first is where they are waited for.
const BESIDE: [&str; 2] = ["fuzz", "deny"];

/// These steps, as a process of its own. What it says goes into a file until it is waited for.
struct Beside {
    process: Child,
    said: PathBuf,
}

impl Beside {
    fn start() -> Result<Self> {
        let said = workspace::target_dir().join("ci-beside.log");
        let out = File::create(&said)?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("ci").args(BESIDE.iter().flat_map(|name| ["--only", name]));
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
        Ok(Self { process: command.spawn()?, said })
    }

    /// Waits for it, and prints what it said.
    fn end(&mut self) -> Result {
        let status = self.process.wait()?;
        println!("{}", fs::read_to_string(&self.said)?);
        if status.success() { Ok(()) } else { Err(format!("{}: {status}", BESIDE.join(", ")).into()) }
    }
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
    // Without candle's: checking its 155 crates a second time takes longer than what it could find.
    let examples = ["--workspace", "--exclude", "candle-tensors", "--all-targets", "--", "-D", "warnings"];
    let mut cargo = workspace::cargo("clippy");
    cargo.args(["--manifest-path", test::EXAMPLES]).args(examples);
    exec(cargo.env("CARGO_TARGET_DIR", workspace::target_dir()))
}

fn doc() -> Result {
    step("doc");
    let everything = ["--no-deps", "--workspace", "--all-features"];
    exec(workspace::cargo("doc").args(everything).env("RUSTDOCFLAGS", "-D warnings"))
}
