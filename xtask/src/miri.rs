//! `cargo xtask miri`: tests under Miri, which finds what `unsafe` code must not do, on this machine's kind and on a big-endian one.
//!
//! It runs a thousand times slower, so what is run is small: unit tests of the crates below. Miri also changes what a machine may choose, such as
//! the last bits of `powi` and the payload of a NaN that is converted, so what depends on it is found.

use std::process::Command;

use crate::run::{self, Result, exec, step};
use crate::tally::{Runner, Tally, tallied};
use crate::workspace;

const TOOLCHAIN: &str = "+nightly";
/// Nothing for this machine.
const TARGETS: [Option<&str>; 2] = [None, Some("s390x-unknown-linux-gnu")];

/// A crate, and its unit tests that are left out, because they would take minutes and more.
struct Tests {
    package: &'static str,
    skip: &'static [&'static str],
}

/// The readers' golden files are not among them: one alone takes more than three minutes. `cargo xtask portable` has them.
const ALL: &[Tests] = &[
    Tests { package: "tensor-core", skip: &[] },
    Tests { package: "modelfmt-value", skip: &["names::", "object::tests::sorting_goes_by_bytes"] },
];

/// All of it, to the end whatever fails, and the total.
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

/// Golden files are on the disk, and few inputs are made where many are too slow.
fn environment(cargo: &mut Command) -> &mut Command {
    // What cargo started us with would lead to another toolchain.
    cargo.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").env_remove("RUSTC");
    cargo.env("MIRIFLAGS", "-Zmiri-disable-isolation").env("PROPTEST_CASES", "2");
    cargo.env("CARGO_TARGET_DIR", workspace::target_dir().join("miri"))
}
