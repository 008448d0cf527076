//! `cargo xtask miri`: runs tests under Miri, which finds undefined behaviour in `unsafe` code, for this
//! machine's target and for a big-endian one.
//!
//! Miri is a thousand times slower, so only small tests are run: unit tests of the crates below. Miri also
//! varies what machines may choose, such as the last bits of `powi` and the payload of a converted NaN, and
//! so finds code that depends on it.

use std::process::Command;

use crate::run::{self, Result, exec, step};
use crate::tally::{Runner, Tally, tallied};
use crate::workspace;

const TOOLCHAIN: &str = "+nightly";
/// `None` is this machine's target.
const TARGETS: [Option<&str>; 2] = [None, Some("s390x-unknown-linux-gnu")];

/// A crate, and the unit tests to skip because they would take minutes or more.
struct Tests {
    package: &'static str,
    skip: &'static [&'static str],
}

/// The tests of golden files are not included: one alone takes more than three minutes.
/// `cargo xtask portable` runs them.
const ALL: &[Tests] = &[
    Tests { package: "tensor-core", skip: &[] },
    Tests { package: "modelfmt-value", skip: &["names::", "object::tests::sorting_goes_by_bytes"] },
];

/// Runs the tests of all crates, or of those in `only`, without stopping at a failure, and prints the total.
pub(crate) fn run(only: &[String]) -> Result<bool> {
    install()?;
    tallied(|tally| {
        for target in TARGETS {
            step(&format!("miri: {}", target.unwrap_or("this machine")));
            let chosen = |tests: &&Tests| only.is_empty() || only.iter().any(|name| name == tests.package);
            ALL.iter().filter(chosen).for_each(|tests| tests.run(target, tally));
        }
        Ok(())
    })
}

fn install() -> Result {
    if run::succeeds(workspace::command("cargo").args([TOOLCHAIN, "miri", "--version"])) {
        return Ok(());
    }
    step("miri: its toolchain");
    let mut rustup = workspace::command("rustup");
    exec(rustup.args(["toolchain", "install", "nightly", "--component", "miri,rust-src"]))
}

impl Tests {
    fn run(&self, target: Option<&str>, tally: &mut Tally) {
        let mut cargo = workspace::command("cargo");
        cargo.args([TOOLCHAIN, "miri", "test", "--package", self.package]);
        cargo.args(target.iter().flat_map(|target| ["--target", target]));
        cargo.args(["--lib", "--"]).args(self.skip.iter().flat_map(|name| ["--skip", name]));
        tally.run(Runner::Cargo, environment(&mut cargo));
    }
}

/// Lets tests read golden files from the disk, and generate only few inputs, because many are too slow.
fn environment(cargo: &mut Command) -> &mut Command {
    // These variables, which cargo has set for us, would lead to another toolchain.
    cargo.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").env_remove("RUSTC");
    cargo.env("MIRIFLAGS", "-Zmiri-disable-isolation").env("PROPTEST_CASES", "2");
    cargo.env("CARGO_TARGET_DIR", workspace::target_dir().join("miri"))
}
