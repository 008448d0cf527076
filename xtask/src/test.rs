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

/// The variable of the tests that kill the program.
const KILLS: &str = "MODELFMT_KILLS";

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
    // The tests of the crates often leave a core idle: build for the others in the meantime.
    let mut builds = args.is_empty().then(|| Background::start(&["builds"])).transpose()?;
    crates(args, &[], &mut tally);
    if let Some(builds) = &mut builds {
        tally.done(builds.end());
        step("examples");
        tally.run(Runner::Cargo, examples().arg("--no-fail-fast"));
        let done = python::run(python::Build::Dev, &mut tally);
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

/// Builds what is tested after the crates: the page, the examples and the Python package. The page comes
/// first: it has a target folder of its own, so no other cargo waits for it.
pub(crate) fn builds() -> Result {
    let page = web::build().map(drop);
    let examples = exec(examples().arg("--no-run"));
    page.and(examples).and(python::build(&python::install()?, python::Build::Dev).map(drop))
}

/// Returns `cargo test` of the examples.
pub(crate) fn examples() -> std::process::Command {
    let mut cargo = workspace::cargo("test");
    cargo.args(["--manifest-path", EXAMPLES, "--workspace"]);
    cargo.env("CARGO_TARGET_DIR", workspace::target_dir());
    cargo
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

/// Runs the tests that kill the program, with so many kills of each of their commands.
pub(crate) fn kills(each: u32) -> Result<bool> {
    let mut tally = Tally::default();
    let mut cargo = workspace::cargo("test");
    cargo.args(EVERY_CRATE).args(["--test", "it", "kills::", "--", "--nocapture"]);
    cargo.env(KILLS, each.to_string());
    tally.run(Runner::Cargo, &mut cargo);
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
