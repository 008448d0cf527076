//! Everything a maintainer runs, one subcommand each: `cargo xtask help`.

mod bench;
mod ci;
mod conformance;
mod docs;
mod fence;
mod fuzz;
mod links;
mod miri;
mod mutants;
mod needs;
mod oracles;
mod portable;
mod python;
mod quantizers;
mod real_model;
mod release;
mod run;
mod same;
mod servers;
mod site;
mod tally;
mod test;
mod wasm;
mod web;
mod workspace;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::tally::tallied;

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about)]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// All tests, to the end whatever fails, and their total
    Test {
        /// Only the tests of the crates, with other inputs than in each run, and so many for each test that makes its inputs
        #[arg(long, value_name = "CASES")]
        random: Option<u32>,
        /// Passed on to `cargo test`
        #[arg(last = true)]
        args: Vec<String>,
    },
    /// Everything that must hold before a commit is pushed
    Ci {
        /// Leave out the tests (`cargo xtask test` ran already)
        #[arg(long)]
        no_test: bool,
        /// Only these steps, by their names in the summary
        #[arg(long, value_name = "STEP", value_parser = ci::names())]
        only: Vec<String>,
    },
    /// Write the golden files of testdata/, which are made from code
    Fixtures {
        /// Write nothing; fail if a committed file differs from what the code makes
        #[arg(long)]
        check: bool,
        /// Overwrite files that differ: only for fixtures that no release contains
        #[arg(long, conflicts_with = "check")]
        replace: bool,
    },
    /// Write the conformance suite in testdata/conformance, which is made from code
    Conformance {
        /// Write nothing; fail if a committed file differs from what the code makes
        #[arg(long)]
        check: bool,
        /// Run the formats' own readers over the suite, and put the results into its README
        #[arg(long, conflicts_with = "check")]
        readers: bool,
    },
    /// Compare what the program says and writes, for every golden file and command, with what is recorded in testdata/fence
    Fence {
        #[command(subcommand)]
        task: fence::Task,
    },
    /// Write the parts of documents that are made from code
    Docs {
        /// Write nothing; fail if a document is out of date
        #[arg(long)]
        check: bool,
    },
    /// Build the documents as a web site below target/site, and check its links
    Site,
    /// Install the formats' own Python tools, which tests compare with
    Oracles,
    /// Install the S3 server that tests write to
    Servers,
    /// Build the Python package, and run its tests and checks
    Python {
        /// Build as a release is built, which takes longer
        #[arg(long)]
        release: bool,
    },
    /// Build the libraries for wasm32-unknown-unknown, and compare what they read under Node with what they read natively
    Wasm {
        /// Build the standard library from Debian's packages even where rustup has the target
        #[arg(long)]
        build_std: bool,
    },
    /// Build the page and the npm package below target/web/
    Web {
        /// Then serve the page on this machine
        #[arg(long)]
        serve: bool,
        /// Then run their tests, in Chromium and Node
        #[arg(long)]
        test: bool,
    },
    /// Run the fuzz targets, each for a given time or number of runs
    Fuzz {
        /// Seconds for each target [default: 60]
        #[arg(long)]
        seconds: Option<u64>,
        /// Executions of each target, instead of seconds or until they are over
        #[arg(long)]
        runs: Option<u64>,
        /// Only this one of fuzz/fuzz_targets/
        #[arg(long)]
        target: Option<String>,
        /// Follow comparisons too: finds magic numbers, at half of the speed
        #[arg(long)]
        compares: bool,
        /// Instead: replace fuzz/corpus/ by a small set of inputs with the coverage of all that were found
        #[arg(long, conflicts_with_all = ["seconds", "runs"])]
        minimize: bool,
    },
    /// Change the code in one place after the other, and expect a test to fail; goes on where the last run was stopped
    Mutants {
        /// Only in these crates [default: all that are published]
        #[arg(long, value_name = "CRATE", value_delimiter = ',')]
        crates: Vec<String>,
        /// Only so many per cent of the places
        #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=100))]
        sample: Option<u32>,
        /// Choose other places
        #[arg(long, default_value_t = 0, requires = "sample")]
        seed: u32,
        /// Only what changed since this commit
        #[arg(long, value_name = "COMMIT")]
        in_diff: Option<String>,
    },
    /// Run the tests of what reads and writes files on a big-endian machine and on one of 32 bits, under qemu
    Portable,
    /// Run small tests under Miri, on this machine's kind and on a big-endian one
    Miri {
        /// Only this crate; may be repeated
        #[arg(long = "package", value_name = "NAME")]
        packages: Vec<String>,
    },
    /// Measure speed and memory beside the bare work; --help lists the options, --write puts the tables into the documents, --compare COMMIT measures
    /// that commit too (--runs N times, 5 by default) and fails for rows that became worse
    #[command(disable_help_flag = true)]
    Bench {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS")]
        args: Vec<OsString>,
    },
    /// Say what is done by hand to publish a release; with --dry-run, make one from the last commit, sign it and install everything from it
    Release {
        /// Make, sign and install it; nothing is uploaded
        #[arg(long)]
        dry_run: bool,
        /// Where it is put [default: target/release-folder]
        #[arg(long, value_name = "DIR", requires = "dry_run")]
        out: Option<PathBuf>,
        /// Make it a second time, in another folder (as another user, if root runs this), and compare every byte
        #[arg(long, requires = "dry_run")]
        twice: bool,
        /// Only these parts
        #[arg(long, value_name = "PART")]
        only: Vec<release::Part>,
        /// Build without optimization, to try the command itself
        #[arg(long)]
        quick: bool,
        /// Sign and install what was made before
        #[arg(long, value_name = "DIR", conflicts_with_all = ["dry_run", "make"])]
        from: Option<PathBuf>,
        /// Only make it, of the files as they are here: what --dry-run calls in clones
        #[arg(long, value_name = "DIR", conflicts_with = "dry_run")]
        make: Option<PathBuf>,
    },
    /// Fetch a published model of 90 MB and take it through the program
    RealModel,
}

fn main() -> ExitCode {
    let done = match Args::parse().task {
        Task::Test { random: Some(cases), args } => return ended(test::random(cases, &args)),
        Task::Test { args, .. } => return ended(test::all(&args)),
        Task::Ci { no_test, only } => ci::run(no_test, &only),
        Task::Fixtures { check: true, .. } => docs::fixtures("check"),
        Task::Fixtures { replace, .. } => docs::fixtures(if replace { "replace" } else { "write" }),
        Task::Conformance { check: true, .. } => conformance::check(),
        Task::Conformance { readers: true, .. } => conformance::readers(),
        Task::Conformance { .. } => conformance::write(),
        Task::Fence { task } => fence::run(task),
        Task::Docs { check: true } => docs::check(),
        Task::Docs { .. } => docs::write(),
        Task::Site => site::build(),
        Task::Oracles => oracles::run(),
        Task::Servers => servers::run(),
        Task::Python { release } => {
            return ended(tallied(|tally| {
                python::run(release, tally)?;
                python::checks(tally)
            }));
        }
        Task::Wasm { build_std } => wasm::run(build_std),
        Task::Web { serve, test: true } => {
            return ended(tallied(|tally| {
                web::checks(tally);
                web::run(serve, Some(tally))
            }));
        }
        Task::Web { serve, .. } => web::run(serve, None),
        Task::Fuzz { seconds, runs, target, compares, minimize } => {
            fuzz::run(&fuzz::Options { seconds, runs, target, compares, minimize, quick: false })
        }
        Task::Mutants { crates, sample, seed, in_diff } => {
            mutants::run(&mutants::Options { crates, sample, seed, in_diff })
        }
        Task::Portable => return ended(portable::run()),
        Task::Miri { packages } => return ended(miri::run(&packages)),
        Task::Bench { args } => bench::run(&args),
        Task::Release { make: Some(out), only, quick, .. } => release::make(&out, only, quick),
        Task::Release { from: Some(from), only, .. } => release::attempt(&from, only),
        Task::Release { dry_run: true, out, twice, only, quick, .. } => {
            release::rehearse(&release::Options { out, twice, only, quick })
        }
        Task::Release { .. } => {
            release::by_hand();
            Ok(())
        }
        Task::RealModel => real_model::run(),
    };
    ended(done.map(|()| true))
}

/// The exit status of a task; of tests that failed, their own last line says so.
fn ended(passed: run::Result<bool>) -> ExitCode {
    match passed {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
