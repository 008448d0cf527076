//! `cargo xtask test`: the one command that runs all tests.

use crate::run::{Result, step};
use crate::tally::{Runner, Tally};
use crate::{needs, oracles, python, quantizers, servers, web, workspace};

/// The workspace of the programs to copy from.
pub(crate) const EXAMPLES: &str = "examples/Cargo.toml";

/// The variables of the crate that makes inputs for tests: where it begins, and how many it makes for each test.
const SEED: &str = "PROPTEST_RNG_SEED";
const CASES: &str = "PROPTEST_CASES";

/// All tests of the workspace, with `args` for `cargo test`; without any also those of the examples, of the Python
/// package and of the page, which know no package of ours by name. It goes on whatever fails, and ends with the total.
pub(crate) fn all(args: &[String]) -> Result<bool> {
    needs::check(args.is_empty())?;
    let mut tally = Tally::default();
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

/// The tests of the crates, where inputs are made with `cases` of them for each test, and others in each run.
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
    // Beside `--workspace`, cargo takes no notice of `--package`.
    let names_crates = args.iter().any(|arg| arg.starts_with("-p") || arg.starts_with("--package"));
    cargo.args((!names_crates).then_some("--workspace"));
    tally.run(Runner::Cargo, cargo.args(["--all-features", "--no-fail-fast"]).args(args));
}
