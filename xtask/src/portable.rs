//! `cargo xtask portable`: runs the tests of the readers and writers on a big-endian and on a 32-bit machine.
//!
//! The tests read golden files, and write those of our own writers again, byte for byte. rustup provides the
//! standard libraries of the targets; Debian provides the C compilers and the emulator qemu.

use std::path::Path;
use std::process::Command;

use crate::run::{self, Result, step};
use crate::tally::{Runner, Tally, tallied};
use crate::{wasm, workspace};

/// A kind of machine, and Debian's names for it.
struct Machine {
    target: &'static str,
    what: &'static str,
    /// The prefix of its C compiler, and the folder of its libraries below `/usr`.
    gnu: &'static str,
    emulator: &'static str,
    packages: &'static [&'static str],
}

const MACHINES: [Machine; 2] = [
    Machine {
        target: "s390x-unknown-linux-gnu",
        what: "big-endian",
        gnu: "s390x-linux-gnu",
        emulator: "qemu-s390x",
        packages: &["gcc-s390x-linux-gnu", "libc6-dev-s390x-cross", "qemu-user"],
    },
    Machine {
        target: "i686-unknown-linux-gnu",
        what: "32 bits",
        gnu: "i686-linux-gnu",
        emulator: "qemu-i386",
        packages: &["gcc-i686-linux-gnu", "libc6-dev-i386-cross", "qemu-user"],
    },
];

/// The crates that calculate with bytes of files.
const CRATES: &[&str] = &[
    "tensor-core",
    "blake3-tree",
    "modelfmt-value",
    "modelfmt-digest",
    "modelfmt-core",
    "modelfmt-write",
    "modelfmt-arrays",
    "modelfmt-safetensors",
    "modelfmt-gguf",
    "modelfmt-npy",
    "modelfmt-pytorch",
    "modelfmt-mag",
    "modelfmt-oinf",
    "modelfmt-apr",
    "modelfmt-apr2",
    "modelfmt-aero",
];

/// Runs the tests of all crates on every machine, without stopping at a failure, and prints the total.
pub(crate) fn run() -> Result<bool> {
    tallied(|tally| {
        for machine in &MACHINES {
            let done = machine.test(tally);
            tally.done(done);
        }
        Ok(())
    })
}

impl Machine {
    fn test(&self, tally: &mut Tally) -> Result {
        let Self { target, what, .. } = self;
        step(&format!("{target}: {what}"));
        if !wasm::has_target(target) {
            return Err(format!("no standard library: rustup target add {target}").into());
        }
        if !self.has_tools() {
            wasm::install(self.packages).map_err(|e| format!("{}: {e}", self.packages.join(" ")))?;
        }
        tally.run(Runner::Cargo, &mut self.cargo_test());
        Ok(())
    }

    fn compiler(&self) -> String {
        format!("{}-gcc", self.gnu)
    }

    fn has_tools(&self) -> bool {
        let runs = |tool: &&str| run::succeeds(workspace::command(tool).arg("--version"));
        [self.compiler().as_str(), self.emulator].iter().all(runs)
            && Path::new("/usr").join(self.gnu).join("include").is_dir()
    }

    fn cargo_test(&self) -> Command {
        let mut cargo = workspace::cargo("test");
        cargo.args(["--target", self.target, "--all-features", "--no-fail-fast", "--tests"]);
        cargo.args(CRATES.iter().flat_map(|name| ["--package", name]));
        let under = self.target.replace('-', "_");
        let upper = under.to_uppercase();
        cargo.env(format!("CC_{under}"), self.compiler());
        cargo.env(format!("CARGO_TARGET_{upper}_LINKER"), self.compiler());
        let runner = format!("{} -L /usr/{}", self.emulator, self.gnu);
        cargo.env(format!("CARGO_TARGET_{upper}_RUNNER"), runner);
        cargo
    }
}
