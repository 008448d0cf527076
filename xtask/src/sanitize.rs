//! `cargo xtask sanitize`: runs tests under AddressSanitizer, which finds wrong use of memory, and under
//! ThreadSanitizer, which finds races.
//!
//! The sanitizers come with rustc. They see Rust code, ours and that of all dependencies, but not C code.
//! ThreadSanitizer needs a standard library that is built for it; rustup provides its sources.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum;

use crate::run::{Result, exec, output, step};
use crate::tally::{Runner, Tally, tallied};
use crate::{python, servers, workspace};

/// The crates whose tests are run: the reader with its threads and its memory maps, and the reader of
/// buckets, in which several requests are under way at once.
const CRATES: [&str; 2] = ["modelfmt-core", "modelfmt-remote"];

/// The reports of ThreadSanitizer that do not count, each with its reason.
const SUPPRESSED: &str = "xtask/sanitize/thread.txt";

/// Tests that measure memory, which the sanitizer holds longer to notice late uses.
const MEMORY: [&str; 2] = [
    "tests/test_robust.py::test_nothing_leaks",
    "tests/test_writing.py::test_of_an_iterator_two_tensors_are_held_at_most",
];

/// A test that counts requests that are under way at once. They are fewer if the program is ten times slower.
const HURRIED: &str = "ahead::threads_that_share_a_pass_fetch_nothing_twice";

/// A sanitizer of rustc.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sanitizer {
    /// Wrong use of memory, in the crates and in the Python package
    Address,
    /// Races, in the crates
    Thread,
}

/// Runs the tests under both sanitizers, or under one, without stopping at a failure, and prints the total.
pub(crate) fn run(only: Option<Sanitizer>) -> Result<bool> {
    let target = output(workspace::command("rustc").arg("--print=host-tuple"))?.trim().to_owned();
    let servers = servers::install()?;
    tallied(|tally| {
        for &sanitizer in Sanitizer::value_variants() {
            if only.is_none_or(|only| only == sanitizer) {
                let done = Build { sanitizer, target: &target, servers: &servers }.test(tally);
                tally.done(done);
            }
        }
        Ok(())
    })
}

/// What is built with one sanitizer.
struct Build<'a> {
    sanitizer: Sanitizer,
    target: &'a str,
    /// The interpreter that has the S3 server.
    servers: &'a Path,
}

impl Build<'_> {
    fn test(&self, tally: &mut Tally) -> Result {
        step(&format!("sanitize: {}, the crates", self.name()));
        if self.sanitizer == Sanitizer::Thread {
            exec(workspace::command("rustup").args(["component", "add", "rust-src"]))?;
        }
        let mut cargo = workspace::cargo("test");
        cargo.args(["--all-features", "--no-fail-fast", "--tests", "--target", self.target]);
        cargo.args(CRATES.iter().flat_map(|name| ["--package", name]));
        if self.sanitizer == Sanitizer::Thread {
            cargo.args(["-Zbuild-std", "--", "--skip", HURRIED]);
        }
        tally.run(Runner::Cargo, self.environment(&mut cargo));
        if self.sanitizer == Sanitizer::Address { self.python(tally) } else { Ok(()) }
    }

    const fn name(&self) -> &'static str {
        match self.sanitizer {
            Sanitizer::Address => "address",
            Sanitizer::Thread => "thread",
        }
    }

    fn folder(&self) -> PathBuf {
        workspace::target_dir().join("sanitize").join(self.name())
    }

    fn environment<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        let flags = format!("CARGO_TARGET_{}_RUSTFLAGS", self.target.replace('-', "_").to_uppercase());
        command.env(flags, format!("-Zsanitizer={}", self.name())).env("CARGO_TARGET_DIR", self.folder());
        // The flag is unstable, and the build has to be of the compiler that everything else is built with.
        command.env("RUSTC_BOOTSTRAP", "1").env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only");
        command.env("TSAN_OPTIONS", format!("suppressions={}", workspace::root().join(SUPPRESSED).display()));
        command.env(servers::PYTHON, self.servers)
    }

    /// Runs the tests of the Python package.
    fn python(&self, tally: &mut Tally) -> Result {
        step("sanitize: address, the Python package");
        let python = python::install()?;
        let (wheels, site) = (self.folder().join("wheels"), self.folder().join("site"));
        for folder in [&wheels, &site] {
            if folder.exists() {
                fs::remove_dir_all(folder)?;
            }
        }
        let mut maturin = workspace::command(&python);
        maturin.args(["-m", "maturin", "build", "--quiet", "--locked", "--profile", "dev"]);
        maturin.args(["--manifest-path", python::MANIFEST, "--target", self.target, "--out"]).arg(&wheels);
        exec(self.environment(&mut maturin))?;
        let wheel = workspace::files(&wheels)?.pop_first().ok_or("there is no wheel")?;
        let mut install = workspace::pip(&python, "install");
        exec(install.arg("--no-deps").arg("--target").arg(&site).arg(wheels.join(wheel)))?;
        let mut pytest = python::pytest(&python, self.servers);
        pytest.arg("tests").env("PYTHONPATH", &site).env("LD_PRELOAD", self.runtime()?);
        pytest.args(MEMORY.iter().flat_map(|test| ["--deselect", test]));
        // Python keeps memory until it ends, and its own objects are no leaks.
        tally.run(Runner::Pytest, pytest.env("ASAN_OPTIONS", "detect_leaks=0"));
        Ok(())
    }

    /// Returns the sanitizer as a library. The Python interpreter has to load it before the package, which
    /// calls it.
    fn runtime(&self) -> Result<PathBuf> {
        let libraries = output(workspace::command("rustc").arg("--print=target-libdir"))?;
        let libraries = Path::new(libraries.trim());
        let is_runtime = |name: &String| name.ends_with("_rt.asan.a");
        let archive = workspace::files(libraries)?.into_iter().find(is_runtime);
        let archive = archive.ok_or("this rustc has no AddressSanitizer")?;
        let copy = self.folder().join("asan.a");
        fs::copy(libraries.join(archive), &copy)?;
        // Starts the sanitizer before a program does anything. Only a program can have this part.
        exec(workspace::command("ar").arg("d").arg(&copy).arg("asan_preinit.cpp.o"))?;
        let runtime = self.folder().join("runtime.so");
        let mut cc = workspace::command("cc");
        cc.args(["-shared", "-o"]).arg(&runtime).arg("-Wl,--whole-archive").arg(copy);
        exec(cc.args(["-Wl,--no-whole-archive", "-lstdc++", "-lpthread", "-ldl", "-lm", "-lrt"]))?;
        Ok(runtime)
    }
}
