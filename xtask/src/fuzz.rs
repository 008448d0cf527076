//! `cargo xtask fuzz`: runs every fuzz target in turn, on the stable toolchain.
//!
//! libFuzzer comes with the crate libfuzzer-sys, and its coverage from a pass of LLVM. There is no address
//! sanitizer: it would watch `unsafe` code, which the readers do not have, and needs a nightly toolchain.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::run::{Result, exec, step};
use crate::workspace;

/// The manifest of the targets' workspace.
pub(crate) const MANIFEST: &str = "fuzz/Cargo.toml";
/// The flags that tell libFuzzer which edges the program took.
const COVERAGE: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=3",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Ccodegen-units=1",
];
/// The flag that also tells libFuzzer how near a comparison came. It finds magic numbers, most of which are
/// in our seeds already, and halves the speed.
const COMPARES: &str = "-Cllvm-args=-sanitizer-coverage-trace-compares";

/// The longest input that is tried. Shorter inputs exercise the rules of the formats, and the drill reads all
/// of an input.
const MAX_LEN: u32 = 4 << 10;
/// In MAG 0.3, the values begin after the first 4,096 bytes.
const MAX_LEN_OF_MAG: u32 = 5 << 10;
/// An input that takes longer, or more memory, is a finding.
const TIMEOUT_SECONDS: u32 = 10;
const RSS_LIMIT_MB: u32 = 1024;

/// How many inputs of a target the repository keeps, and the length of the longest. They are chosen for
/// `cargo test`, which replays them, not as a start for fuzzing.
const KEPT_FILES: usize = 16;
const KEPT_LEN: usize = 700;

/// What to fuzz, and for how long.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// Seconds for each target. Without `seconds` and `runs`, each target runs for a minute.
    pub(crate) seconds: Option<u64>,
    pub(crate) runs: Option<u64>,
    pub(crate) target: Option<String>,
    /// Also trace comparisons.
    pub(crate) compares: bool,
    /// Do not fuzz, but replace `fuzz/corpus/TARGET` by a small set of inputs that covers most of the same
    /// code.
    pub(crate) minimize: bool,
}

/// Lints every target. `cargo test` runs what they call with every input that is kept
/// (`crates/modelfmt/tests/it/robustness/corpus.rs`). Fuzzing itself takes a build of its own and more time,
/// so it is a command and a nightly job.
pub(crate) fn check() -> Result {
    step("fuzz: lints");
    let mut cargo = workspace::cargo("clippy");
    cargo.args(["--quiet", "--manifest-path", MANIFEST, "--bins"]);
    exec(cargo.env("CARGO_TARGET_DIR", workspace::target_dir()).args(["--", "-D", "warnings"]))
}

/// Runs the targets in turn, and fails if one of them finds anything.
pub(crate) fn run(options: &Options) -> Result {
    let targets = targets(options.target.as_deref())?;
    let build = Build { triple: host()?, compares: options.compares };
    build.run(options.target.as_deref())?;
    let mut rows = Vec::new();
    for target in &targets {
        let fuzzer = Fuzzer::new(&build, target)?;
        rows.push(if options.minimize { fuzzer.minimize()? } else { fuzzer.fuzz(options)? });
    }
    step("summary");
    println!(
        "{:<22} {:>12} {:>9} {:>8} {:>9}  findings",
        "target", "executions", "per s", "edges", "of those new"
    );
    rows.iter().for_each(|row| println!("{}", row.line()));
    match rows.iter().filter(|row| row.finding.is_some()).count() {
        0 => Ok(()),
        findings => Err(format!("{findings} targets found something").into()),
    }
}

fn folder() -> PathBuf {
    workspace::root().join("fuzz")
}

/// Returns the names of the targets, which are those of their files.
fn targets(only: Option<&str>) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder().join("fuzz_targets"))? {
        let path = entry?.path();
        names.extend(path.file_stem().and_then(OsStr::to_str).map(str::to_owned));
    }
    names.sort();
    if let Some(only) = only {
        names.retain(|name| name == only);
        if names.is_empty() {
            return Err(format!("fuzz/fuzz_targets has no {only}.rs").into());
        }
    }
    Ok(names)
}

/// Returns the machine's target triple. Passing it to cargo keeps build scripts and macros free of
/// instrumentation.
fn host() -> Result<String> {
    let text = crate::run::output(workspace::command("rustc").arg("-vV"))?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.ok_or("rustc -vV names no host")?.to_owned())
}

/// How the programs are built.
struct Build {
    triple: String,
    compares: bool,
}

impl Build {
    fn run(&self, only: Option<&str>) -> Result {
        step("fuzz: build");
        let mut cargo = workspace::cargo("build");
        cargo.args(["--manifest-path", MANIFEST]).env("CARGO_TARGET_DIR", self.target_dir());
        match only {
            Some(target) => cargo.args(["--bin", target]),
            None => cargo.arg("--bins"),
        };
        let mut flags = COVERAGE.join(" ");
        if self.compares {
            flags = format!("{flags} {COMPARES}");
        }
        exec(cargo.args(["--release", "--target", &self.triple]).env("RUSTFLAGS", flags))
    }

    /// Returns a target folder for builds with these flags only.
    fn target_dir(&self) -> PathBuf {
        found_dir().join(if self.compares { "compares" } else { "edges" })
    }

    fn program(&self, name: &str) -> PathBuf {
        self.target_dir().join(&self.triple).join("release").join(name)
    }
}

fn found_dir() -> PathBuf {
    workspace::target_dir().join("fuzz")
}

struct Fuzzer {
    name: String,
    program: PathBuf,
    compares: bool,
    /// Where new inputs go, below the build folder. They are many, and kept only on request.
    found: PathBuf,
    /// The inputs that the repository keeps.
    kept: PathBuf,
    artifacts: PathBuf,
}

impl Fuzzer {
    fn new(build: &Build, name: &str) -> Result<Self> {
        let fuzzer = Self {
            name: name.to_owned(),
            program: build.program(name),
            compares: build.compares,
            found: found_dir().join("corpus").join(name),
            kept: folder().join("corpus").join(name),
            artifacts: folder().join("artifacts").join(name),
        };
        for dir in [&fuzzer.found, &fuzzer.kept, &fuzzer.artifacts] {
            fs::create_dir_all(dir)?;
        }
        Ok(fuzzer)
    }

    /// Returns a command for the program, with the limits of all runs.
    fn command(&self) -> Command {
        let mut command = workspace::command(&self.program);
        let max_len = if self.name == "mag_parse" { MAX_LEN_OF_MAG } else { MAX_LEN };
        command
            .arg(format!("-max_len={max_len}"))
            .arg(format!("-timeout={TIMEOUT_SECONDS}"))
            .arg(format!("-rss_limit_mb={RSS_LIMIT_MB}"))
            .arg(format!("-artifact_prefix={}/", self.artifacts.display()));
        command
    }

    fn fuzz(&self, options: &Options) -> Result<Row> {
        step(&format!("fuzz: {}", self.name));
        let mut command = self.command();
        match (options.seconds, options.runs) {
            (None, None) => drop(command.arg("-max_total_time=60")),
            (seconds, runs) => {
                command.args(seconds.map(|seconds| format!("-max_total_time={seconds}")));
                command.args(runs.map(|runs| format!("-runs={runs}")));
            }
        }
        command.arg("-print_final_stats=1").arg(format!("-use_value_profile={}", u8::from(self.compares)));
        command.arg(&self.found).arg(&self.kept);
        let takes_files = self.name.ends_with("_parse") || self.name == "convert_any";
        if takes_files {
            command.arg(workspace::root().join("testdata"));
        }
        let (log, succeeded) = self.log(&mut command)?;
        let mut row = Row::parse(&self.name, &log);
        if !succeeded || row.executions == 0 {
            row.finding.get_or_insert_with(|| "it did not run to its end".to_owned());
        }
        println!("{}", row.line());
        Ok(row)
    }

    /// Replaces the kept inputs by a few short ones that cover most of what all found inputs cover.
    fn minimize(&self) -> Result<Row> {
        step(&format!("minimize: {}", self.name));
        let merged = self.found.with_extension("merged");
        if merged.exists() {
            fs::remove_dir_all(&merged)?;
        }
        fs::create_dir_all(&merged)?;
        let mut command = self.command();
        let (log, _) =
            self.log(command.arg("-set_cover_merge=1").arg(&merged).arg(&self.kept).arg(&self.found))?;
        let mut inputs = Vec::new();
        for entry in fs::read_dir(&merged)? {
            let entry = entry?;
            inputs.push((entry.file_name(), fs::read(entry.path())?));
        }
        inputs.sort();
        inputs.retain(|(_, bytes)| bytes.len() <= KEPT_LEN);
        inputs.truncate(KEPT_FILES);
        fs::remove_dir_all(&self.kept)?;
        fs::create_dir_all(&self.kept)?;
        for (name, bytes) in inputs {
            fs::write(self.kept.join(name), bytes)?;
        }
        Ok(Row::parse(&self.name, &log))
    }

    /// Runs the program. Returns its log, which is also saved next to its inputs, and whether it succeeded.
    fn log(&self, command: &mut Command) -> Result<(String, bool)> {
        let output = command.stdin(Stdio::null()).output()?;
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        fs::write(self.found.with_extension("log"), &log)?;
        if !output.status.success() {
            println!("{log}");
        }
        Ok((log, output.status.success()))
    }
}

/// The result of a target.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    target: String,
    executions: u64,
    per_second: u64,
    /// Edges covered by the inputs at the start, and at the end.
    edges: (u64, u64),
    /// Where the input that failed is kept.
    finding: Option<String>,
}

impl Row {
    /// Reads libFuzzer's log: `#12 INITED cov: 345 …`, `stat::number_of_executed_units: 12`.
    fn parse(target: &str, log: &str) -> Self {
        let stat = |name: &str| {
            let line = log.lines().find_map(|line| line.strip_prefix("stat::")?.strip_prefix(name));
            line.and_then(|rest| rest.trim_start_matches(':').trim().parse().ok()).unwrap_or(0)
        };
        let edges = |line: &str| line.split_once("cov: ")?.1.split_whitespace().next()?.parse().ok();
        let first = log.lines().filter(|line| line.contains("INITED")).find_map(edges);
        let last = log.lines().rev().find_map(edges);
        let finding =
            log.lines().find_map(|line| line.split_once("Test unit written to ")).map(|(_, path)| path);
        Self {
            target: target.to_owned(),
            executions: stat("number_of_executed_units"),
            per_second: stat("average_exec_per_sec"),
            edges: (first.unwrap_or(0), last.unwrap_or(0)),
            finding: finding.map(str::to_owned),
        }
    }

    fn line(&self) -> String {
        let Self { target, executions, per_second, edges: (before, after), finding } = self;
        let found = finding.as_ref().map_or("none", |path| Path::new(path).to_str().unwrap_or("one"));
        let new = after.saturating_sub(*before);
        format!("{target:<22} {executions:>12} {per_second:>9} {after:>8} {new:>9}  {found}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_read() {
        let log = "#5\tINITED cov: 100 ft: 101 corp: 3/9b\n#9\tNEW    cov: 120 ft: 130\n\
                   #20\tDONE   cov: 123 ft: 140\nstat::number_of_executed_units: 20\nstat::average_exec_per_sec:     7\n";
        let row = Row::parse("t", log);
        let expected =
            Row { target: "t".to_owned(), executions: 20, per_second: 7, edges: (100, 123), finding: None };
        assert_eq!(row, expected);
        let crash = "artifact_prefix='a/'; Test unit written to a/crash-1\n";
        assert_eq!(Row::parse("t", crash).finding.as_deref(), Some("a/crash-1"));
    }
}
