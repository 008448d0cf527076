//! `cargo xtask miri`: tests under Miri, which finds what `unsafe` code must not do, on this machine's kind and on a big-endian one.
//!
//! It runs a thousand times slower, so what is run is small: the unit tests of the crates below, and the golden files of the formats.

use std::process::Command;

use crate::run::{self, Result, exec, step};
use crate::tally::{Runner, Tally, tallied};
use crate::workspace;

const TOOLCHAIN: &str = "+nightly";
/// Nothing for this machine.
const TARGETS: [Option<&str>; 2] = [None, Some("s390x-unknown-linux-gnu")];

/// Crates, and what of them is run.
struct Tests {
    package: &'static str,
    features: &'static [&'static str],
    /// Arguments of `cargo test`, and after `--` of the tests.
    args: &'static [&'static str],
}

/// Unit tests.
const LIB: &[&str] = &["--lib"];
/// Those that read and write golden files.
const GOLDEN: &[&str] = &["--test", "it", "--", "golden"];

const ALL: &[Tests] = &[
    Tests { package: "tensor-core", features: &[], args: LIB },
    Tests { package: "blake3-tree", features: &[], args: LIB },
    Tests { package: "modelfmt-value", features: &[], args: LIB },
    Tests { package: "modelfmt-core", features: &["mmap", "parallel"], args: LIB },
    Tests { package: "modelfmt-safetensors", features: &[], args: LIB },
    Tests { package: "modelfmt-safetensors", features: &[], args: GOLDEN },
    Tests { package: "modelfmt-gguf", features: &[], args: GOLDEN },
    Tests { package: "mag", features: &[], args: GOLDEN },
    Tests { package: "oinf", features: &[], args: GOLDEN },
    Tests { package: "apr", features: &[], args: GOLDEN },
    Tests { package: "apr2", features: &[], args: GOLDEN },
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
        if !self.features.is_empty() {
            cargo.args(["--features", &self.features.join(",")]);
        }
        cargo.args(target.iter().flat_map(|target| ["--target", target]));
        tally.run(Runner::Cargo, environment(cargo.args(self.args)));
    }
}

/// Golden files are on the disk, and few inputs are made where many are too slow.
fn environment(cargo: &mut Command) -> &mut Command {
    // What cargo started us with would lead to another toolchain.
    cargo.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").env_remove("RUSTC");
    cargo.env("MIRIFLAGS", "-Zmiri-disable-isolation").env("PROPTEST_CASES", "2");
    cargo.env("CARGO_TARGET_DIR", workspace::target_dir().join("miri"))
}
