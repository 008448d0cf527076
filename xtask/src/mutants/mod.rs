//! `cargo xtask mutants`: changes the code in one place at a time, and expects a test to fail each time.
//!
//! [cargo-mutants](https://mutants.rs) does the work, in a copy of the tree that keeps its builds. Mutants
//! that no test notices must be explained in `xtask/mutants/explained.toml`.

mod explained;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use self::explained::{Explained, Mutant};
use crate::run::{self, Result, exec, step};
use crate::workspace;

const VERSION: &str = "^27";
/// Crates that other crates' tests exercise too. Those tests run for the mutants that the crate's own tests
/// miss.
const SEEN_BY: &[(&str, &[&str])] = &[
    ("modelfmt-arrays", &["modelfmt-npy", "modelfmt-pytorch"]),
    ("modelfmt-convert", &["modelfmt"]),
    ("modelfmt-core", &["modelfmt-safetensors", "modelfmt-gguf", "modelfmt-aero", "modelfmt"]),
    ("modelfmt-digest", &["modelfmt-core", "modelfmt-apr2"]),
    ("modelfmt-edit", &["modelfmt"]),
    ("modelfmt-inspect", &["modelfmt"]),
    ("modelfmt-model", &["modelfmt"]),
    ("modelfmt-value", &["modelfmt-core", "modelfmt-safetensors", "modelfmt-aero"]),
    ("modelfmt-write", &["modelfmt-safetensors", "modelfmt-gguf", "modelfmt-aero"]),
    ("tensor-core", &["modelfmt-core", "modelfmt-safetensors", "modelfmt-gguf"]),
];
/// The lists of cargo-mutants whose mutants count as caught.
const CAUGHT: [&str; 3] = ["caught", "previously_caught", "timeout"];

/// Which mutants to try.
#[derive(Default)]
pub(crate) struct Options {
    /// The crates to change. Empty means all published crates.
    pub(crate) crates: Vec<String>,
    /// The percentage of the places to change.
    pub(crate) sample: Option<u32>,
    /// Selects other places for the sample.
    pub(crate) seed: u32,
    /// Only what changed since this commit.
    pub(crate) in_diff: Option<String>,
}

/// Tries the mutants that no earlier run has caught. Fails if one survives without an explanation.
pub(crate) fn run(options: &Options) -> Result {
    let explained = Explained::read()?;
    let scratch = Scratch::new()?;
    let filter = options.filter(&scratch)?;
    let mut rows = Vec::new();
    for package in options.packages()? {
        step(&format!("mutants: {package}"));
        scratch.try_all(&package, &[], &filter)?;
        if let Some((_, others)) = SEEN_BY.iter().find(|(name, _)| *name == package)
            && !scratch.list(&package, "missed")?.is_empty()
        {
            scratch.try_all(&package, others, &filter)?;
        }
        rows.push(scratch.row(
            &package,
            &explained,
            options.sample.is_none() && options.in_diff.is_none(),
        )?);
    }
    step("summary");
    println!(
        "{:<22} {:>7} {:>7} {:>9} {:>9}  unexplained",
        "crate", "mutants", "caught", "unviable", "explained"
    );
    rows.iter().for_each(|row| println!("{}", row.line()));
    match rows.iter().map(|row| row.faults.len()).sum::<usize>() {
        0 => Ok(()),
        faults => Err(format!(
            "{faults} mutants survive without a reason in {}, or have one without surviving",
            explained::FILE
        )
        .into()),
    }
}

impl Options {
    fn packages(&self) -> Result<Vec<String>> {
        let known: Vec<_> = workspace::packages()?
            .into_iter()
            .filter(|package| package.is_published)
            .map(|package| package.name)
            .collect();
        if let Some(unknown) = self.crates.iter().find(|name| !known.contains(name)) {
            return Err(format!("no published crate is named {unknown:?}").into());
        }
        Ok(if self.crates.is_empty() { known } else { self.crates.clone() })
    }

    /// Returns the arguments with which cargo-mutants chooses from all mutants.
    fn filter(&self, scratch: &Scratch) -> Result<Vec<String>> {
        let mut args = Vec::new();
        if let Some(percent) = self.sample {
            // One place of every `shards`, starting at another one for each seed.
            let shards = 100 / percent.clamp(1, 100);
            args.push(format!("--shard={}/{shards}", self.seed % shards));
            args.push("--sharding=round-robin".to_owned());
        }
        if let Some(base) = &self.in_diff {
            let diff = scratch.folder.join("base.diff");
            fs::write(&diff, run::output(workspace::command("git").args(["diff", base, "--", "*.rs"]))?)?;
            args.push(format!("--in-diff={}", diff.display()));
        }
        Ok(args)
    }
}

/// `target/mutants`: cargo-mutants, the tree that it changes, and what it found.
struct Scratch {
    folder: PathBuf,
}

impl Scratch {
    fn new() -> Result<Self> {
        let folder = workspace::target_dir().join("mutants");
        let scratch = Self { folder };
        if !scratch.program().exists() {
            step("mutants: cargo-mutants");
            let mut cargo = workspace::cargo("install");
            exec(
                cargo
                    .args(["--locked", "--root"])
                    .arg(&scratch.folder)
                    .arg(format!("cargo-mutants@{VERSION}")),
            )?;
        }
        scratch.copy_tree()?;
        Ok(scratch)
    }

    fn program(&self) -> PathBuf {
        self.folder.join("bin/cargo-mutants")
    }

    fn tree(&self) -> PathBuf {
        self.folder.join("tree")
    }

    /// Copies only files that differ, because cargo rebuilds what is newer.
    fn copy_tree(&self) -> Result {
        let mut git = workspace::command("git");
        let listed = run::output(git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]))?;
        for name in listed.split_terminator('\0') {
            let (from, to) = (workspace::root().join(name), self.tree().join(name));
            if !from.is_file() || fs::read(&from).ok() == fs::read(&to).ok() {
                continue;
            }
            fs::create_dir_all(to.parent().unwrap_or(&to))?;
            fs::copy(&from, &to)?;
        }
        Ok(())
    }

    fn results(&self, package: &str) -> PathBuf {
        self.folder.join("out").join(package)
    }

    /// Tries the mutants of a crate that were not caught so far, with its own tests or with those of the
    /// crates in `tests_of`.
    fn try_all(&self, package: &str, tests_of: &[&str], filter: &[String]) -> Result {
        let output = self.results(package);
        fs::create_dir_all(&output)?;
        let mut command = Command::new(self.program());
        command.args(["mutants", "--in-place", "--iterate", "--all-features", "--package", package]);
        command.arg("--dir").arg(self.tree()).arg("--output").arg(output).args(filter);
        // On a busy machine, slow tests must not be taken for endless ones.
        command.args(["--minimum-test-timeout", "60", "--timeout-multiplier", "6", "--no-times"]);
        command.args(tests_of.iter().map(|name| format!("--test-package={name}")));
        command.args(["--", "--tests"]);
        // Only the changed crate is rebuilt, and nobody debugs it.
        command.env("CARGO_INCREMENTAL", "1").env("CARGO_PROFILE_DEV_DEBUG", "0");
        command.env("CARGO_TARGET_DIR", self.tree().join("target"));
        println!("$ {}", run::show(&command));
        match command.stdin(Stdio::null()).status()?.code() {
            // 2 and 3: some mutants survived, or timed out.
            Some(0 | 2 | 3) => {}
            _ => return Err(format!("cargo-mutants could not test {package}").into()),
        }
        // The next run lists mutants that did not build as caught before.
        let mut unviable = lines(&self.unviable(package))?;
        unviable.extend(self.list(package, "unviable")?);
        Ok(fs::write(self.unviable(package), unviable.into_iter().collect::<Vec<_>>().join("\n"))?)
    }

    /// Returns the file that lists the mutants that did not build in any run.
    fn unviable(&self, package: &str) -> PathBuf {
        self.results(package).join("unviable.txt")
    }

    /// Reads one of the lists of the last run.
    fn list(&self, package: &str, name: &str) -> Result<BTreeSet<String>> {
        lines(&self.results(package).join("mutants.out").join(name).with_extension("txt"))
    }

    fn row(&self, package: &str, explained: &Explained, in_full: bool) -> Result<Row> {
        let missed = self.list(package, "missed")?;
        let mut survivors = BTreeMap::new();
        let keys = missed.iter().filter_map(|line| Mutant::parse(line)).map(|mutant| mutant.key());
        keys.for_each(|key| *survivors.entry(key).or_insert(0) += 1);
        let crate_folder = self.folder_of(package)?;
        let faults = explained.compare(&survivors, in_full.then_some(crate_folder.as_path()));
        let unviable = lines(&self.unviable(package))?;
        let mut caught = BTreeSet::new();
        for name in CAUGHT {
            caught.extend(self.list(package, name)?);
        }
        Ok(Row {
            package: package.to_owned(),
            caught: caught.difference(&unviable).count(),
            unviable: unviable.len(),
            missed: missed.len(),
            faults,
        })
    }

    fn folder_of(&self, name: &str) -> Result<PathBuf> {
        let packages = workspace::packages()?;
        let found = packages.iter().find(|package| package.name == name).ok_or("no such crate")?;
        Ok(found.dir.strip_prefix(workspace::root())?.to_path_buf())
    }
}

/// The results of the mutants of a crate.
struct Row {
    package: String,
    caught: usize,
    unviable: usize,
    missed: usize,
    faults: Vec<String>,
}

impl Row {
    fn line(&self) -> String {
        let Self { package, caught, unviable, missed, faults } = self;
        let all = caught + unviable + missed;
        let explained = missed.saturating_sub(faults.len());
        let mut line =
            format!("{package:<22} {all:>7} {caught:>7} {unviable:>9} {explained:>9}  {}", faults.len());
        for fault in faults {
            line += "\n    ";
            line += fault;
        }
        line
    }
}

/// Reads the lines of a file. Empty if the file does not exist.
fn lines(path: &Path) -> Result<BTreeSet<String>> {
    let text = if path.exists() { fs::read_to_string(path)? } else { String::new() };
    Ok(text.lines().map(str::to_owned).collect())
}

/// Checks whether a file of the list belongs to the crate in this folder.
fn is_below(file: &str, folder: &Path) -> bool {
    Path::new(file).starts_with(folder)
}
