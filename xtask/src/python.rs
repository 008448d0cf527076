//! `cargo xtask python`: builds the Python package and runs its tests and checks, in environments below
//! `target/python/`.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::docs::Part;
use crate::run::{self, Result, exec, step};
use crate::tally::{Runner, Tally};
use crate::{servers, workspace};

/// The manifest of the package's workspace.
pub(crate) const MANIFEST: &str = "crates/modelfmt-py/Cargo.toml";
/// The folder of the package.
pub(crate) const PACKAGE: &str = "crates/modelfmt-py";

/// Packages that the tests and checks need.
const PACKAGES: &[&str] = &[
    "maturin>=1.9.4,<2",
    "pytest>=8,<10",
    "hypothesis>=6,<7",
    "numpy>=2,<3",
    "ml_dtypes==0.6.0",
    "safetensors==0.8.0",
    "mypy>=1.18,<3",
    "openinfer-oinf==0.1.1",
    "ztensor==2.1.2",
    "auditwheel>=6,<7",
    "distributed==2026.8.0",
    "fsspec>=2025,<2027",
    "pandas>=2,<4",
];

/// Packages that are installed without their dependencies: gguf asks for an HTTP client and a progress bar,
/// which nothing here uses.
const PACKAGES_ALONE: &[&str] = &["gguf==0.19.0"];

/// From the npm registry, because PyPI's package of pyright downloads it from there, too.
const PYRIGHT: &str = "pyright@1.1.414";

/// The package with safetensors' own tests, which only its source distribution has.
const SAFETENSORS: &str = "safetensors==0.8.0";

/// Where the table of [`bench()`] goes.
const TABLE: Part = Part {
    file: "docs/PERFORMANCE.md",
    begin: "<!-- made by `cargo xtask bench --python --write` -->",
    end: "<!-- end -->",
};
const TABLE_HEAD: &str = "| work | beside | ours | theirs | ours is better by | goal | reached |\n| --- | --- | --- | --- | --- | --- | --- |\n";

/// Debian's own interpreter, for its package python3-torch. PyPI's torch has several GB.
const SYSTEM_PYTHON: &str = "/usr/bin/python3";
const TORCH_PACKAGES: &[&str] = &["pytest>=8,<10", "safetensors==0.8.0"];

/// How the package is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Build {
    /// For users: as fast as it gets.
    Release,
    /// For tests: quickly.
    Dev,
    /// As [`Dev`](Self::Dev), and a warning of clippy about the package's own crate is an error.
    Linted,
}

/// Builds the package, installs it with pip, and runs its tests.
pub(crate) fn run(how: Build, tally: &mut Tally) -> Result {
    let (python, servers) = (install()?, servers::install()?);
    let wheel = build(&python, how)?;
    reinstall(&python, &wheel)?;
    step("python: tests");
    tally.run(Runner::Pytest, pytest(&python, &servers).arg("tests"));
    torch(&wheel, &servers, tally)
}

/// Runs what is not a test of the package: Rust's and Python's own checks, and the measurements with
/// `--quick`, to see that they work.
pub(crate) fn checks(tally: &mut Tally) -> Result {
    let python = install()?;
    let wheel = build(&python, Build::Linted)?;
    if cfg!(target_os = "linux") {
        promise(&python, &wheel)?;
    }
    reinstall(&python, &wheel)?;
    check(&python, tally);
    step("python: the measurements work");
    tally.check(measure(&python).arg("--quick"));
    if let Some(python) = with_torch(&wheel)? {
        tally.check(measure(&python).args(["--torch", "--quick"]));
    }
    Ok(())
}

/// Measures a release build in comparison with other packages. With `--write` among `args`, writes the table
/// into the documents.
pub(crate) fn bench(args: &[OsString]) -> Result {
    let writes = args.iter().any(|arg| arg == "--write");
    let args: Vec<_> = args.iter().filter(|arg| *arg != "--write").collect();
    if let Some(arg) = args.first().filter(|_| writes) {
        return Err(format!("--write is for all of it, without {}", arg.display()).into());
    }
    let python = install()?;
    let wheel = build(&python, Build::Release)?;
    reinstall(&python, &wheel)?;
    step("python: measurements");
    let part = dir().join("bench.md");
    let mut table = TABLE_HEAD.to_owned();
    exec(measure(&python).args(&args).arg("--table").arg(&part))?;
    table.push_str(&fs::read_to_string(&part)?);
    if let Some(torch) = with_torch(&wheel)? {
        exec(measure(&torch).args(&args).arg("--torch").arg("--table").arg(&part))?;
        table.push_str(&fs::read_to_string(&part)?);
    }
    if writes { TABLE.write(&table) } else { Ok(()) }
}

fn measure(python: &Path) -> std::process::Command {
    let mut command = in_package(python);
    command.arg("bench/bench.py");
    command
}

fn dir() -> PathBuf {
    workspace::root().join("target/python")
}

/// Returns a command that runs in the folder of the package.
fn in_package(program: &Path) -> std::process::Command {
    let mut command = workspace::command(program);
    command.current_dir(workspace::root().join(PACKAGE));
    command
}

/// Returns a pytest command. `servers` is the interpreter that has the S3 server.
pub(crate) fn pytest(python: &Path, servers: &Path) -> std::process::Command {
    let mut command = in_package(python);
    command.args(["-m", "pytest"]).env("MODELFMT_SAFETENSORS_TESTS", dir().join("safetensors"));
    command.env(servers::PYTHON, servers);
    command
}

/// Installs what is missing, and returns the interpreter.
pub(crate) fn install() -> Result<PathBuf> {
    let (venv, stamp) = (dir().join("venv"), dir().join("installed.txt"));
    let python = venv.join("bin/python");
    let wanted = [PACKAGES, PACKAGES_ALONE, &[PYRIGHT, SAFETENSORS]].concat().join("\n");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) && python.exists() {
        return Ok(python);
    }
    step("python: environment");
    fs::create_dir_all(dir())?;
    exec(workspace::command("python3").args(["-m", "venv", "--clear"]).arg(&venv))?;
    exec(workspace::pip(&python, "install").args(PACKAGES))?;
    exec(workspace::pip(&python, "install").arg("--no-deps").args(PACKAGES_ALONE))?;
    exec(
        workspace::command("npm")
            .args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"])
            .arg(dir())
            .arg(PYRIGHT),
    )?;
    let sources = dir().join("safetensors");
    fs::create_dir_all(&sources)?;
    let mut download = workspace::pip(&python, "download");
    download.args(["--no-deps", "--no-binary", "safetensors", "--dest"]).arg(sources);
    exec(download.arg(SAFETENSORS))?;
    fs::write(stamp, wanted)?;
    Ok(python)
}

/// Builds the wheel.
pub(crate) fn build(python: &Path, how: Build) -> Result<PathBuf> {
    step("python: wheel");
    let wheels = dir().join("wheels");
    if wheels.exists() {
        fs::remove_dir_all(&wheels)?;
    }
    let mut maturin = workspace::command(python);
    maturin.args(["-m", "maturin", "build", "--quiet", "--locked", "--manifest-path", MANIFEST]);
    maturin.args(["--profile", if how == Build::Release { "release" } else { "dev" }]);
    if how == Build::Linted {
        workspace::lint(&mut maturin);
    }
    exec(maturin.arg("--out").arg(&wheels).env("CARGO_TARGET_DIR", workspace::target_dir()))?;
    let entries = fs::read_dir(&wheels)?.collect::<std::io::Result<Vec<_>>>()?;
    let mut built = entries.into_iter().map(|entry| entry.path());
    let wheel = built.find(|path| path.extension().is_some_and(|ending| ending == "whl"));
    let wheel = wheel.ok_or("there is no wheel")?;
    println!("{}", wheel.file_name().unwrap_or_default().display());
    Ok(wheel)
}

/// Returns the systems that a wheel is for, from its name. On Linux, this names the oldest C library.
fn platform(wheel: &Path) -> Option<&str> {
    wheel.file_stem()?.to_str()?.rsplit('-').next()
}

/// Checks that the symbols that the library of a wheel needs match what the wheel's name promises.
fn promise(python: &Path, wheel: &Path) -> Result {
    step("python: what the wheel's name promises");
    let name = platform(wheel).ok_or("the wheel has no name")?;
    let audited = run::output(in_package(python).args(["-m", "auditwheel", "show"]).arg(wheel))?;
    match audited.contains(&format!("\"{name}\"")) {
        true => Ok(()),
        false => Err(format!("the wheel is named {name}, and auditwheel says:\n{audited}").into()),
    }
}

fn reinstall(python: &Path, wheel: &Path) -> Result {
    exec(workspace::pip(python, "install").args(["--force-reinstall", "--no-deps"]).arg(wheel))
}

/// Runs the tests with torch, if it is installed.
fn torch(wheel: &Path, servers: &Path, tally: &mut Tally) -> Result {
    step("python: tests with torch");
    let Some(python) = with_torch(wheel)? else { return Ok(()) };
    let mut pytest = pytest(&python, servers);
    tally.run(
        Runner::Pytest,
        pytest.args([
            "tests/test_torch.py",
            "tests/test_torch_modules.py",
            "tests/test_compat.py",
            "tests/test_checkpoints.py",
        ]),
    );
    Ok(())
}

/// Returns the interpreter that has torch, if it is installed. On Debian: `apt-get install python3-torch`.
pub(crate) fn system_with_torch() -> Option<&'static Path> {
    let system = Path::new(SYSTEM_PYTHON);
    if run::succeeds(workspace::command(system).args(["-c", "import torch, venv, ensurepip"])) {
        return Some(system);
    }
    println!(
        "there is no torch for {SYSTEM_PYTHON}: what needs it is left out (apt-get install python3-torch python3-venv)"
    );
    None
}

/// Returns an interpreter that has torch and the package, if torch is installed.
fn with_torch(wheel: &Path) -> Result<Option<PathBuf>> {
    let Some(system) = system_with_torch() else { return Ok(None) };
    let venv = dir().join("torch");
    let python = venv.join("bin/python");
    if !run::succeeds(workspace::command(&python).args(["-c", "import pytest, safetensors"])) {
        exec(
            workspace::command(system).args(["-m", "venv", "--clear", "--system-site-packages"]).arg(&venv),
        )?;
        exec(workspace::pip(&python, "install").args(TORCH_PACKAGES))?;
    }
    reinstall(&python, wheel)?;
    Ok(Some(python))
}

fn check(python: &Path, tally: &mut Tally) {
    step("python: checks");
    tally.check(workspace::cargo("fmt").args(["--manifest-path", MANIFEST, "--all", "--check"]));
    tally.check(in_package(python).args(["-m", "mypy", "-p", "modelfmt"]));
    // The whole package, without a list of accepted errors.
    let stubtest = ["-m", "mypy.stubtest", "modelfmt", "--mypy-config-file", "pyproject.toml"];
    tally.check(in_package(python).args(stubtest));
    tally.check(in_package(&dir().join("node_modules/.bin/pyright")).arg("--pythonpath").arg(python));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wheel_says_its_platform() {
        let wheel = Path::new("dist/modelfmt-0.1.0-cp311-abi3-manylinux_2_34_x86_64.whl");
        assert_eq!(platform(wheel), Some("manylinux_2_34_x86_64"));
        assert_eq!(platform(Path::new("/")), None);
    }
}
