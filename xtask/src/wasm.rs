//! Checks that the published libraries compile for `wasm32-unknown-unknown`, with their default features and
//! with none. Then builds and runs `crates/testkit-wasm` under Node, where every golden file has to read the same as natively.
//!
//! rustup provides the target if it can. Otherwise Debian's `rustc-web` builds the standard library from the
//! sources in `rust-web-src`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{self, Result, exec, step};
use crate::workspace::{self, Package};

pub(crate) const TARGET: &str = "wasm32-unknown-unknown";
/// The crate that runs under Node. It opens files from memory and by ranges.
const HARNESS: &str = "testkit-wasm";
const DEBIAN_PACKAGES: &[&str] = &["rustc-web", "cargo-web", "rust-web-src"];
/// Debian's compiler and cargo, and where its packages put the standard library's sources.
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";
const DEBIAN_CARGO: &str = "/usr/bin/cargo";
const DEBIAN_STD: &str = "/usr/lib/rustlib/src/rust/library/std/Cargo.toml";

/// The toolchain that builds for the target.
pub(crate) enum Toolchain {
    /// The toolchain that runs this program.
    Own,
    /// Debian's toolchain, which also builds the standard library, with this linker.
    Debian { linker: PathBuf },
}

pub(crate) fn run(build_std: bool) -> Result {
    let toolchain = Toolchain::find(build_std)?;
    let mut failed = Vec::new();
    for package in workspace::packages()?.iter().filter(|package| is_built(package)) {
        step(&format!("{TARGET}: {}", package.name));
        let with_defaults = exec(&mut toolchain.check(&package.name));
        let without = exec(toolchain.check(&package.name).arg("--no-default-features"));
        failed.extend(with_defaults.and(without).err().map(|error| error.to_string()));
    }
    failed.extend(compare(&toolchain).err().map(|error| error.to_string()));
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ").into()) }
}

/// Reads every golden file, and files of 100 GB, natively and under Node. Fails if anything differs.
fn compare(toolchain: &Toolchain) -> Result {
    step("Node: golden files in memory and by ranges, files of 100 GB");
    exec(toolchain.build(HARNESS).arg("--lib"))?;
    let library = toolchain.target_dir().join(TARGET).join("debug/testkit_wasm.wasm");
    let held = run::output(&mut workspace::program("wasm-expected"))?;
    let expected = workspace::target_dir().join("wasm/expected.json");
    fs::create_dir_all(workspace::target_dir().join("wasm"))?;
    fs::write(&expected, held)?;
    let mut node = workspace::command("node");
    node.arg("xtask/wasm/run.mjs").args([library, expected, workspace::root().join("testdata")]);
    exec(&mut node)
}

/// Libraries that are not built for the target here. A browser has its own ways to a server. The crate that
/// seals files builds only if a program names a source of randomness, as the page does (`cargo xtask web`).
const NOT_BY_THEMSELVES: [&str; 2] = ["modelfmt-remote", "modelfmt-apr2-seal"];

fn is_built(package: &Package) -> bool {
    package.is_library && package.is_published && !NOT_BY_THEMSELVES.contains(&package.name.as_str())
}

impl Toolchain {
    pub(crate) fn find(build_std: bool) -> Result<Self> {
        if !build_std {
            if has_target(TARGET) {
                return Ok(Self::Own);
            }
            println!("no {TARGET} from rustup: Debian's compiler builds the standard library");
        }
        install_debian()?;
        Ok(Self::Debian { linker: linker()? })
    }

    /// Returns `cargo check` of a package for the target.
    fn check(&self, package: &str) -> Command {
        let mut cargo = self.cargo("check");
        cargo.args(["--quiet", "--package", package]);
        cargo
    }

    /// Returns `cargo build` of a package for the target.
    fn build(&self, package: &str) -> Command {
        let mut cargo = self.cargo("build");
        if let Self::Debian { .. } = self {
            // The workspace optimises dependencies, here the standard library too. That is not worth it: what
            // is run takes a moment.
            cargo.args(["--config", "profile.dev.package.\"*\".opt-level=0"]);
        }
        cargo.args(["--package", package]);
        cargo
    }

    /// Returns `cargo build` or `cargo check` for the target.
    pub(crate) fn cargo(&self, subcommand: &str) -> Command {
        let mut cargo = match self {
            Self::Own => workspace::cargo(subcommand),
            Self::Debian { linker } => {
                let mut cargo = workspace::command(DEBIAN_CARGO);
                // These variables, which rustup's cargo has set for us, would lead to rustup's compiler.
                cargo.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
                // `-Zbuild-std` is not stable, so a stable compiler has to be allowed to use it.
                cargo.env("RUSTC_BOOTSTRAP", "1").env("RUSTC", DEBIAN_RUSTC);
                cargo.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker);
                cargo.args([subcommand, "-Zbuild-std=std,panic_abort"]);
                // Two compilers in one folder would undo each other's work.
                cargo.arg("--target-dir").arg(self.target_dir());
                cargo
            }
        };
        cargo.args(["--target", TARGET]);
        cargo
    }

    pub(crate) fn target_dir(&self) -> PathBuf {
        match self {
            Self::Own => workspace::target_dir(),
            Self::Debian { .. } => workspace::target_dir().join("wasm-debian"),
        }
    }
}

/// Checks whether a toolchain builds for the target, or rustup may install one.
pub(crate) fn can_build() -> bool {
    let is_there = |path: &&str| Path::new(path).exists();
    is_installed(TARGET) || has_rustup() || [DEBIAN_RUSTC, DEBIAN_CARGO, DEBIAN_STD].iter().all(is_there)
}

fn has_rustup() -> bool {
    run::succeeds(workspace::command("rustup").arg("--version"))
}

/// Checks whether cargo's compiler has the standard library of a target, and tries to install it with rustup
/// if not.
pub(crate) fn has_target(target: &str) -> bool {
    let add = || exec(workspace::command("rustup").args(["target", "add", target])).is_ok();
    is_installed(target) || (has_rustup() && add() && is_installed(target))
}

fn is_installed(target: &str) -> bool {
    let mut rustc = workspace::command("rustc");
    run::output(rustc.args(["--print=target-libdir", "--target", target]))
        .is_ok_and(|dir| Path::new(dir.trim_end()).is_dir())
}

fn install_debian() -> Result {
    let needed = [DEBIAN_RUSTC, DEBIAN_CARGO, DEBIAN_STD];
    if needed.iter().all(|path| Path::new(path).exists()) {
        return Ok(());
    }
    install(DEBIAN_PACKAGES).map_err(|_| {
        let names = DEBIAN_PACKAGES.join(" ");
        format!("{TARGET} needs `rustup target add {TARGET}` or Debian's packages {names}").into()
    })
}

/// Installs Debian packages. Only root may do that.
pub(crate) fn install(packages: &[&str]) -> Result {
    let is_root = run::output(workspace::command("id").arg("-u")).is_ok_and(|id| id.trim_end() == "0");
    if !is_root {
        return Err("only root installs packages".into());
    }
    exec(workspace::command("apt-get").args(["install", "--yes", "--no-install-recommends"]).args(packages))
}

/// Finds a linker for the target: `rust-lld` of rustup's toolchain, or `wasm-ld` of LLVM's packages.
fn linker() -> Result<PathBuf> {
    let sysroot = run::output(workspace::command("rustc").arg("--print=sysroot"))?;
    let host = run::output(workspace::command("rustc").arg("--print=host-tuple"))?;
    let rust_lld =
        Path::new(sysroot.trim_end()).join("lib/rustlib").join(host.trim_end()).join("bin/rust-lld");
    if rust_lld.exists() {
        return Ok(rust_lld);
    }
    if run::succeeds(workspace::command("wasm-ld").arg("--version")) {
        return Ok("wasm-ld".into());
    }
    Err("no linker for wasm: rustup's toolchain has rust-lld, Debian's package lld has wasm-ld".into())
}
