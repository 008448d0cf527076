//! `cargo xtask test`: the one command that runs all tests.

use crate::background::Background;
use crate::run::{Result, exec, step};
use crate::tally::{Runner, Tally};
use crate::{needs, oracles, python, quantizers, servers, web, workspace};

/// The manifest of the workspace of examples.
pub(crate) const EXAMPLES: &str = "examples/Cargo.toml";

/// The variables of proptest: the seed, and the number of inputs for each test.
const SEED: &str = "PROPTEST_RNG_SEED";
const CASES: &str = "PROPTEST_CASES";

/// The arguments of `cargo test` for the tests of every crate.
const EVERY_CRATE: [&str; 2] = ["--workspace", "--all-features"];

/// Runs all tests of the workspace, with `args` for `cargo test`. Without `args`, also runs those of the
/// examples, of the Python package and of the page, to which arguments such as `--package` do not apply. Does
/// not stop at a failure, and ends with the total.
pub(crate) fn all(args: &[String]) -> Result<bool> {
    needs::check(args.is_empty())?;
    let mut tally = Tally::default();
    if args.is_empty() {
        // Fetch tools while the tests compile.
        let mut tools = Background::start(&["tools"])?;
        step("compiling the tests of every crate");
        let built = exec(workspace::cargo("test").args(EVERY_CRATE).arg("--no-run"));
        tally.done(tools.end().and(built));
    }
    crates(args, &[], &mut tally);
    if args.is_empty() {
        step("examples");
        let mut examples = workspace::cargo("test");
        examples.args(["--manifest-path", EXAMPLES, "--workspace", "--no-fail-fast"]);
        tally.run(Runner::Cargo, examples.env("CARGO_TARGET_DIR", workspace::target_dir()));
        let done = python::run(false, &mut tally);
        tally.done(done);
        let done = web::run(false, Some(&mut tally));
        tally.done(done);
    }
    Ok(tally.end())
}

/// Installs what all tests need. What is already installed stays.
pub(crate) fn tools() -> Result {
    oracles::run()?;
    servers::run()?;
    python::install()?;
    web::tests_folder().map(drop)
}

/// Runs the tests of the crates, with `cases` inputs for each test that generates its inputs, and with other
/// inputs in each run.
pub(crate) fn random(cases: u32, args: &[String]) -> Result<bool> {
    needs::check(false)?;
    let seed = std::time::UNIX_EPOCH.elapsed()?.subsec_nanos();
    let variables = [(SEED, seed.to_string()), (CASES, cases.to_string())];
    let mut tally = Tally::default();
    crates(args, &variables, &mut tally);
    println!("\nonce more the same: {SEED}={seed} {CASES}={cases} cargo test --workspace --all-features");
    Ok(tally.end())
}

fn crates(args: &[String], variables: &[(&str, String)], tally: &mut Tally) {
    tally.done(oracles::build());
    let mut cargo = workspace::cargo("test");
    // Without the tools, the tests that need them say so.
    if let Some(interpreter) = tally.done(oracles::install()) {
        cargo.env(oracles::PYTHON, interpreter);
    }
    tally.done(quantizers::install());
    if let Some(s3) = tally.done(servers::install()) {
        cargo.env(servers::PYTHON, s3);
    }
    step("tests of every crate, with documentation tests");
    cargo.envs(variables.iter().map(|(name, value)| (name, value)));
    // With `--workspace`, cargo ignores `--package`.
    let names_crates = args.iter().any(|arg| arg.starts_with("-p") || arg.starts_with("--package"));
    let [every, features] = EVERY_CRATE;
    cargo.args((!names_crates).then_some(every));
    tally.run(Runner::Cargo, cargo.args([features, "--no-fail-fast"]).args(args));
}
