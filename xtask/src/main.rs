//! Everything a maintainer runs, one subcommand each. `cargo xtask help` lists them.

mod background;
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
mod reproducible;
mod run;
mod sanitize;
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
    /// Run all tests, without stopping at a failure, and print the total
    Test {
        /// Run only the crates' tests, with CASES new random inputs for each test that generates its inputs
        #[arg(long, value_name = "CASES")]
        random: Option<u32>,
        /// Arguments for `cargo test`
        #[arg(last = true)]
        args: Vec<String>,
    },
    /// Check everything that must hold before a commit is pushed
    Ci {
        /// Skip the tests, because `cargo xtask test` ran already
        #[arg(long)]
        no_test: bool,
        /// Run only this step, named as in the summary; may be repeated
        #[arg(long, value_name = "STEP", value_parser = ci::names())]
        only: Vec<String>,
    },
    /// Generate the golden files of testdata/
    Fixtures {
        /// Write nothing; fail if a committed file differs from what the code makes
        #[arg(long)]
        check: bool,
        /// Overwrite files that differ; only for fixtures that are in no release
        #[arg(long, conflicts_with = "check")]
        replace: bool,
    },
    /// Generate the conformance suite in testdata/conformance
    Conformance {
        /// Write nothing; fail if a committed file differs from what the code makes
        #[arg(long)]
        check: bool,
        /// Run the formats' own readers over the suite, and write the results into its README
        #[arg(long, conflicts_with = "check")]
        readers: bool,
    },
    /// Compare the program's output for every golden file and command with the record in testdata/fence
    Fence {
        #[command(subcommand)]
        task: fence::Task,
    },
    /// Update the parts of documents that are generated from code
    Docs {
        /// Write nothing; fail if a document is out of date
        #[arg(long)]
        check: bool,
    },
    /// Build the documents as a web site in target/site, and check its links
    Site,
    /// Build and install the formats' own tools, which tests compare with
    Oracles,
    /// Install the S3 and Azure servers that tests write to
    Servers,
    /// Install everything that tests need: the oracles, the servers, the Python and npm packages
    Tools,
    /// Build what is tested in addition to the crates: the page, the examples, the Python package
    Builds,
    /// Build the Python package, and run its tests and checks
    Python {
        /// Build with the release profile, which takes longer
        #[arg(long)]
        release: bool,
    },
    /// Check the libraries for wasm32-unknown-unknown, and compare their results under Node with native ones
    Wasm {
        /// Build the standard library from Debian's packages even if rustup has the target
        #[arg(long)]
        build_std: bool,
    },
    /// Build the page and the npm package in target/web/
    Web {
        /// Then serve the page on this machine
        #[arg(long)]
        serve: bool,
        /// Then run the tests of both, in Chromium and Node
        #[arg(long)]
        test: bool,
    },
    /// Run the fuzz targets, each for a given time or number of runs
    Fuzz {
        /// Seconds for each target [default: 60]
        #[arg(long)]
        seconds: Option<u64>,
        /// Executions of each target, instead of or in addition to a limit in seconds
        #[arg(long)]
        runs: Option<u64>,
        /// Run only this target of fuzz/fuzz_targets/
        #[arg(long)]
        target: Option<String>,
        /// Also trace comparisons, which finds magic numbers but halves the speed
        #[arg(long)]
        compares: bool,
        /// Instead of fuzzing, replace fuzz/corpus/ by a small set of inputs with most of the coverage
        #[arg(long, conflicts_with_all = ["seconds", "runs"])]
        minimize: bool,
    },
    /// Change the code in one place at a time, and expect a test to fail; resumes a stopped run
    Mutants {
        /// Change only these crates [default: all published crates]
        #[arg(long, value_name = "CRATE", value_delimiter = ',')]
        crates: Vec<String>,
        /// Try only this percentage of the places
        #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=100))]
        sample: Option<u32>,
        /// Select another sample of places
        #[arg(long, default_value_t = 0, requires = "sample")]
        seed: u32,
        /// Try only what changed since this commit
        #[arg(long, value_name = "COMMIT")]
        in_diff: Option<String>,
    },
    /// Kill the program's commands at any moment, and see that the model is the old one or the new one
    Kills {
        /// Kills of each command
        #[arg(default_value_t = 1500)]
        each: u32,
    },
    /// Run the tests of the readers and writers on a big-endian and on a 32-bit machine, under qemu
    Portable,
    /// Run tests under AddressSanitizer and ThreadSanitizer
    Sanitize {
        /// Only this one
        sanitizer: Option<sanitize::Sanitizer>,
    },
    /// Run small tests under Miri, for this machine's target and for a big-endian one
    Miri {
        /// Test only this crate; may be repeated
        #[arg(long = "package", value_name = "NAME")]
        packages: Vec<String>,
    },
    /// Measure speed and memory (--help), update the documents (--write), find regressions (--compare COMMIT, --runs N)
    #[command(disable_help_flag = true)]
    Bench {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS")]
        args: Vec<OsString>,
    },
    /// Print the manual steps of a release; with --dry-run, make, sign and install one of the last commit
    Release {
        /// Make, sign and install a release; nothing is uploaded
        #[arg(long)]
        dry_run: bool,
        /// Output folder [default: target/release-folder]
        #[arg(long, value_name = "DIR", requires = "dry_run")]
        out: Option<PathBuf>,
        /// Make it again in another folder (as another user, if you are root), and compare every byte
        #[arg(long, requires = "dry_run")]
        twice: bool,
        /// Make only this part; may be repeated
        #[arg(long, value_name = "PART")]
        only: Vec<release::Part>,
        /// Build without optimization, to try the command itself
        #[arg(long)]
        quick: bool,
        /// Sign and install a release that was made before
        #[arg(long, value_name = "DIR", conflicts_with_all = ["dry_run", "make"])]
        from: Option<PathBuf>,
        /// Only make it, from the files of this checkout; --dry-run calls this in its clones
        #[arg(long, value_name = "DIR", conflicts_with = "dry_run")]
        make: Option<PathBuf>,
    },
    /// Download a published model of 90 MB, and take it through every format
    RealModel,
}

fn main() -> ExitCode {
    let done = match Args::parse().task {
        Task::Test { random: Some(cases), args } => return ended(test::random(cases, &args)),
        Task::Test { args, .. } => return ended(test::all(&args)),
        Task::Kills { each } => return ended(test::kills(each)),
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
        Task::Tools => test::tools(),
        Task::Builds => test::builds(),
        Task::Python { release } => {
            return ended(tallied(|tally| {
                python::run(if release { python::Build::Release } else { python::Build::Dev }, tally)?;
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
            fuzz::run(&fuzz::Options { seconds, runs, target, compares, minimize })
        }
        Task::Mutants { crates, sample, seed, in_diff } => {
            mutants::run(&mutants::Options { crates, sample, seed, in_diff })
        }
        Task::Portable => return ended(portable::run()),
        Task::Sanitize { sanitizer } => return ended(sanitize::run(sanitizer)),
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

/// Turns the outcome of a task into an exit status. `Ok(false)` means that tests failed, which their summary
/// has already reported.
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
