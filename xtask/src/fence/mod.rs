//! `cargo xtask fence`: compares what the program prints and writes for every golden file with a record.
//!
//! Each case is a file and a few runs of the program with it. `testdata/fence/cases.txt` keeps hashes of the
//! output. They show that a change of the code has no effect, or which cases it affects.

mod cases;
mod changes;
mod commands;
mod damage;
mod record;
mod run;
mod secrets;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use cases::Case;
use record::{Difference, Record};
use run::Runner;
use secrets::Secrets;

use crate::run::{Result, exec, step};
use crate::workspace;

/// Where the record is, below `testdata/`.
const RECORD: &str = "fence/cases.txt";
/// A folder in memory, so that nothing waits for a disk.
const MEMORY: &str = "/dev/shm";
/// How many differing cases are printed in full.
const MAX_PRINTED: usize = 40;

/// The subcommands of `cargo xtask fence`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Task {
    /// Run every case, record the results in testdata/fence, and empty the list of deliberate changes
    Record {
        #[command(flatten)]
        options: Options,
    },
    /// Run every case, and compare the results with the record
    Check {
        #[command(flatten)]
        options: Options,
        /// Run only cases whose names match; * is any text
        #[arg(long, value_name = "PATTERN")]
        only: Option<String>,
        /// Print what the cases of this name or pattern do now; with --base, print what has changed
        #[arg(long, value_name = "CASE")]
        show: Option<String>,
        /// An older build of the program, to show how differing cases have changed
        #[arg(long, value_name = "PROGRAM")]
        base: Option<PathBuf>,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The program to run [default: build it]
    #[arg(long, value_name = "PROGRAM")]
    program: Option<PathBuf>,
    /// The folder to run cases in [default: in memory where the system has /dev/shm, else target/fence]
    #[arg(long, value_name = "FOLDER")]
    scratch: Option<PathBuf>,
}

pub(crate) fn run(task: Task) -> Result {
    match task {
        Task::Record { options } => record(&options),
        Task::Check { options, only, show, base } => match show {
            Some(pattern) => show_cases(&options, &pattern, base.as_deref()),
            None => check(&options, only.as_deref(), base.as_deref()),
        },
    }
}

fn testdata() -> PathBuf {
    workspace::root().join("testdata")
}

/// A folder that is removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn new(options: &Options) -> Result<Self> {
        let folder = options.scratch.clone().or_else(|| Path::new(MEMORY).is_dir().then(|| MEMORY.into()));
        let folder = folder.unwrap_or_else(|| workspace::target_dir().join("fence"));
        let folder = folder.join(format!("modelfmt-fence-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        Ok(Self(folder.canonicalize()?))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn runner(options: &Options, scratch: &Scratch) -> Result<Runner> {
    let program = match &options.program {
        Some(program) => program.clone(),
        None => {
            exec(workspace::cargo("build").args(["--package", "modelfmt-cli"]))?;
            workspace::target_dir().join("debug").join(format!("modelfmt{}", std::env::consts::EXE_SUFFIX))
        }
    };
    with_program(&program, scratch)
}

fn with_program(program: &Path, scratch: &Scratch) -> Result<Runner> {
    let program = program.canonicalize().map_err(|error| format!("{}: {error}", program.display()))?;
    let secrets = Secrets::read(&testdata())?;
    Ok(Runner { program, testdata: testdata(), scratch: scratch.0.clone(), secrets })
}

/// Runs the cases, and returns what they did, by name.
fn measure(runner: &Runner, cases: &[Case]) -> Result<Record> {
    let begin = Instant::now();
    let fingerprints = runner.all(cases, record::fingerprint)?;
    println!("{} cases in {:.0} s", cases.len(), begin.elapsed().as_secs_f64());
    Ok(cases.iter().map(|case| case.name.clone()).zip(fingerprints).collect())
}

fn recorded() -> Result<Record> {
    let text = fs::read_to_string(testdata().join(RECORD))
        .map_err(|error| format!("testdata/{RECORD}: {error}; cargo xtask fence record writes it"))?;
    record::parse(&text).map_err(|error| format!("testdata/{RECORD}: {error}").into())
}

fn record(options: &Options) -> Result {
    step("fence: record what every case does");
    let scratch = Scratch::new(options)?;
    let found = measure(&runner(options, &scratch)?, &cases::all(&testdata())?)?;
    if let Ok(before) = recorded() {
        println!("{} lines differ from the last record", record::differences(&before, &found).len());
    }
    let path = testdata().join(RECORD);
    fs::create_dir_all(path.parent().unwrap_or(&path))?;
    let text = record::print(&found);
    fs::write(&path, &text)?;
    fs::write(testdata().join(changes::FILE), changes::HEAD)?;
    println!("wrote testdata/{RECORD}: {} lines, {} bytes", found.len(), text.len());
    Ok(())
}

fn check(options: &Options, only: Option<&str>, base: Option<&Path>) -> Result {
    step("fence: compare what every case does with what is recorded");
    let chosen = |name: &str| only.is_none_or(|only| changes::fits(only, name));
    let mut recorded = recorded()?;
    recorded.retain(|name, _| chosen(name));
    let mut cases = cases::all(&testdata())?;
    cases.retain(|case| chosen(&case.name));
    let scratch = Scratch::new(options)?;
    let runner = runner(options, &scratch)?;
    let differences = record::differences(&recorded, &measure(&runner, &cases)?);
    let changes = changes::parse(&fs::read_to_string(testdata().join(changes::FILE)).unwrap_or_default())?;
    let mut faults = 0;
    for change in &changes {
        let count = differences.iter().filter(|difference| change.fits(&difference.name)).count();
        println!("deliberate, {count} cases of `{}`: {}", change.pattern, change.reason);
        if count == 0 && only.is_none() {
            println!(
                "`{}` fits no differing case; take it out of testdata/{}",
                change.pattern,
                changes::FILE
            );
            faults += 1;
        }
    }
    let is_accepted = |difference: &&Difference| changes.iter().any(|change| change.fits(&difference.name));
    let (accepted, rest): (Vec<_>, Vec<_>) = differences.iter().partition(is_accepted);
    for difference in rest.iter().take(MAX_PRINTED) {
        println!("\n{}\n    {}", difference.name, difference.what);
        let Some(case) = cases.iter().find(|case| case.name == difference.name) else { continue };
        println!("{}", by_hand(case, &runner)?);
        if let Some(base) = base {
            show(case, &runner, Some(&with_program(base, &scratch)?))?;
        }
    }
    for difference in rest.iter().skip(MAX_PRINTED) {
        println!("{}: {}", difference.name, difference.what);
    }
    faults += rest.len();
    println!(
        "\n{} cases, {} differ: {} deliberate, {} not",
        cases.len(),
        differences.len(),
        accepted.len(),
        rest.len()
    );
    if faults == 0 {
        return Ok(());
    }
    println!("cargo xtask fence check --show 'CASE' [--base PROGRAM] shows what a case says and writes");
    Err(format!("the fence has {faults} faults").into())
}

/// Returns the shell commands that run a case by hand.
fn by_hand(case: &Case, runner: &Runner) -> Result<String> {
    let mut lines = vec!["cd $(mktemp -d)".to_owned()];
    for (number, input) in case.files.iter().enumerate() {
        let folder =
            input.path.rsplit_once('/').map(|(folder, _)| format!("mkdir -p {folder}; ")).unwrap_or_default();
        lines.push(match runner.secrets.get(&input.origin) {
            Some(secret) => {
                format!(
                    "{folder}printf %b '{}' > {}",
                    String::from_utf8_lossy(secret).replace('\n', "\\n"),
                    input.path
                )
            }
            None => {
                format!("{folder}cp '{}' '{}'", runner.testdata.join(&input.origin).display(), input.path)
            }
        });
        if let Some(damage) = case.damage.filter(|_| number == 0) {
            lines.push(damage.shell(&input.path, &fs::read(runner.testdata.join(&input.origin))?));
        }
    }
    for step in &case.steps {
        let mut command = Command::new(&runner.program);
        command.args(&step.args).env("COLUMNS", "100");
        let stdin = step.stdin.as_ref().map(|file| format!(" < {file}")).unwrap_or_default();
        lines.push(crate::run::show(&command) + &stdin);
    }
    Ok(lines.iter().map(|line| format!("    $ {line}")).collect::<Vec<_>>().join("\n"))
}

fn show_cases(options: &Options, pattern: &str, base: Option<&Path>) -> Result {
    let mut cases = cases::all(&testdata())?;
    // A name may have a * in it.
    let is_name = cases.iter().any(|case| case.name == pattern);
    cases.retain(|case| if is_name { case.name == pattern } else { changes::fits(pattern, &case.name) });
    if cases.is_empty() {
        return Err(format!("no case has the name {pattern:?}; testdata/{RECORD} lists them").into());
    }
    let scratch = Scratch::new(options)?;
    let runner = runner(options, &scratch)?;
    let base = base.map(|base| with_program(base, &scratch)).transpose()?;
    for case in &cases {
        println!("\n{}\n{}", case.name, by_hand(case, &runner)?);
        show(case, &runner, base.as_ref())?;
    }
    Ok(())
}

/// Prints what a case does or, with `base`, how that differs from what it did with the older program. Leaves
/// the files below `target/fence/`.
fn show(case: &Case, runner: &Runner, base: Option<&Runner>) -> Result {
    let shown = workspace::target_dir().join("fence/show");
    let folder = |name: &str| -> Result<PathBuf> {
        let folder = shown.join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        Ok(folder)
    };
    let (old, new) = (folder("old")?, folder("new")?);
    let write = |runner: &Runner, folder: &Path| -> Result {
        let wrote = runner.all(std::slice::from_ref(case), |_, outcome| {
            run::write(outcome, folder).map_err(|error| error.to_string())
        })?;
        Ok(wrote.into_iter().collect::<std::result::Result<(), _>>()?)
    };
    write(runner, &new)?;
    let Some(base) = base else {
        for number in 1..=case.steps.len() {
            println!("run {number}: {}", fs::read_to_string(new.join(format!("run-{number}")))?);
        }
        println!("files that it wrote: {}", new.join("files").display());
        return Ok(());
    };
    write(base, &old)?;
    // The status is ignored: it says whether there are differences.
    Command::new("diff").args(["-r", "-u", "-N", "old", "new"]).current_dir(&shown).status()?;
    println!("both are in {}", shown.display());
    Ok(())
}
