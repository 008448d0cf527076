//! Installs the formats' own Python tools in an environment below `target/`, for tests to compare with.
//!
//! Tests find the interpreter in the variable [`PYTHON`] or at `target/oracles/bin/python` below the workspace.

use std::fs;
use std::path::{Path, PathBuf};

use crate::run::{self, Result, exec, step};
use crate::{quantizers, workspace};

/// The variable that names the interpreter which can import the oracles.
pub(crate) const PYTHON: &str = "MODELFMT_ORACLES_PYTHON";

/// Packages that are installed with their dependencies.
const PACKAGES: &[&str] = &[
    "magnetron==0.1.2",
    "openinfer-oinf==0.1.1",
    "safetensors==0.8.0",
    "ml_dtypes==0.6.0",
    "numpy>=2,<3",
    "PyYAML>=6,<7", // the only dependency of `gguf.quants` besides numpy
];

/// Packages that are installed without their dependencies: gguf and tokenizers ask for HTTP clients and
/// progress bars, which nothing here uses.
const PACKAGES_ALONE: &[&str] =
    &["gguf==0.19.0", "tokenizers==0.23.3", "sentencepiece==0.2.3", "ztensor==2.1.2"];

/// llama.cpp built for CPUs, from npm. The builds for GPUs are optional dependencies, which are left out.
const LLAMA_CPP: &str = "@node-llama-cpp/linux-x64";
const LLAMA_CPP_VERSION: &str = "3.22.1";
const LLAMA_CPP_INTEGRITY: &str =
    "sha512-5uCCDNqWCNfaAm8aR/Uzxbo4HBpKgNF91kCHPepKhgMgV2OAmatoefbOlMihsqCiH2Od35E/eUHQCFbfRBJuOg==";

/// The folder of llama.cpp in the environment, where `xtask/oracles/llama_cpp.py` and `testkit::llama_cpp`
/// look for it.
const LLAMA_CPP_FOLDER: &str = "llama-cpp";

/// Our own sources that are built into the oracles.
const OWN: &[&str] = &[include_str!("../oracles/ggml_missing.c"), include_str!("../oracles/llama_types.cpp")];

/// The package that contains ggml's sources. Only the sources are used; the package is not installed.
const GGML: &str = "llama-cpp-python==0.3.36 \
    --hash=sha256:832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e";

/// The flags of a release build of ggml (without assertions), but without fused operations, which not every
/// processor has.
const CC_FLAGS: &[&str] = &["-O2", "-ffp-contract=off", "-DNDEBUG", "-w", "-fPIC", "-shared"];

const C_FLAGS: &[&str] = &["-D_GNU_SOURCE", "-O1", "-w", "-ffunction-sections", "-fdata-sections"];

/// Only the functions that the program calls are linked, a small part of llama.cpp.
const CXX_FLAGS: &[&str] =
    &["-std=c++17", "-O1", "-w", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"];

/// Later generations of magnetron. Each reads and writes only its own files. Each is installed in a folder of
/// its own, which a test puts first on Python's path.
const GENERATIONS: &[&str] = &["magnetron==0.1.6", "magnetron==0.1.9", "magnetron==0.2.2"];

/// The tool for OpenSSF Model Signing, also in a folder of its own. It imports pyopenssl, which none of its
/// dependencies installs. The other two are its dependencies, in versions that the reader of sealed files
/// works with.
pub(crate) const SIGNING: &[&str] =
    &["model-signing==1.1.1", "pyopenssl==26.4.0", "cryptography==50.0.2", "blake3==1.0.11"];

/// The packages that read bills of materials, installed with their dependencies in a folder of their own.
pub(crate) const BILLS: &[&str] =
    &["cyclonedx-python-lib[json-validation]==11.12.0", "spdx-python-model==0.0.6"];

/// The name of the folder of `BILLS`.
const BILLS_FOLDER: &str = "bills-of-materials";

/// A program that fails unless every oracle loads. The ones that may not are magnetron's part in C and
/// openinfer-oinf's modules (whose names differ from the package's).
const PROBE: &str = "
import dataclass_to_oinf, gguf.quants, magnetron, ml_dtypes, numpy, safetensors, sentencepiece, tokenizers, verify_oinf
assert magnetron.Tensor.ones(2, 3).sum().item() == 6
";

/// Builds the oracles in Rust, each in a workspace of its own, where tests expect them.
pub(crate) fn build() -> Result {
    step("oracles: aprender's own crate, bao-tree");
    for name in ["apr", "bao"] {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = workspace::command(cargo);
        command.args(["build", "--quiet", "--locked", "--manifest-path"]);
        command.arg(format!("xtask/oracles/{name}/Cargo.toml"));
        exec(command.arg("--target-dir").arg(format!("target/oracles-{name}")))?;
    }
    Ok(())
}

pub(crate) fn run() -> Result {
    build()?;
    println!("{}", install()?.display());
    quantizers::install()
}

/// Installs what is missing, and returns the interpreter. Does nothing if all of it is installed.
pub(crate) fn install() -> Result<PathBuf> {
    let dir = workspace::root().join("target/oracles");
    let python = dir.join("bin/python");
    let stamp = dir.join("installed.txt");
    let wanted =
        [PACKAGES, PACKAGES_ALONE, GENERATIONS, SIGNING, BILLS, &[GGML], CC_FLAGS, C_FLAGS, CXX_FLAGS, OWN];
    let wanted = [&wanted[..], &[&[LLAMA_CPP, LLAMA_CPP_VERSION]]].concat().concat().join("\n");
    let files =
        || [LIBRARY, REWRITES, CHOICE].into_iter().chain(runs_llama_cpp().then_some(LLAMA_CPP_FOLDER));
    let is_there = || loads(&python) && files().all(|file| dir.join(file).exists());
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) && is_there() {
        return Ok(python);
    }

    step("oracles: the formats' own Python tools");
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    let in_venv = run::succeeds(workspace::command("python3").args(["-c", "import ensurepip, venv"]));
    if in_venv {
        exec(workspace::command("python3").args(["-m", "venv"]).arg(&dir))?;
    } else {
        println!("python3 has no venv: installing beside it");
        wrapper(&python)?;
    }
    let target = (!in_venv).then_some(dir.as_path());
    pip(&python, target, &[], PACKAGES)?;
    pip(&python, target, &["--no-deps"], PACKAGES_ALONE)?;
    for package in GENERATIONS {
        pip(&python, Some(&dir.join(package.replace("==", "-"))), &["--no-deps"], &[package])?;
    }
    pip(&python, Some(&dir.join("model-signing-1.1.1")), &[], SIGNING)?;
    pip(&python, Some(&dir.join(BILLS_FOLDER)), &[], BILLS)?;
    if !loads(&python) {
        return Err(format!("the oracles do not load: {} -c {PROBE:?}", python.display()).into());
    }
    ggml(&python, &dir)?;
    if runs_llama_cpp() {
        llama_cpp(&dir.join(LLAMA_CPP_FOLDER))?;
    }
    fs::write(stamp, wanted)?;
    Ok(python)
}

/// ggml's reference implementation of its block types, as a library that Python loads.
const LIBRARY: &str = "libggml-quants.so";

/// llama.cpp's choice of types for presets, as a program.
const CHOICE: &str = "llama-types";

/// ggml's own reader and writer of GGUF, as a program.
const REWRITES: &str = "ggml-rewrites";

fn ggml(python: &Path, dir: &Path) -> Result {
    let sources = dir.join("ggml");
    fs::create_dir_all(&sources)?;
    let wanted = sources.join("package.txt");
    fs::write(&wanted, GGML)?;
    let mut download = workspace::pip(python, "download");
    download.args(["--no-deps", "--no-binary", "llama-cpp-python"]);
    exec(download.arg("--dest").arg(&sources).arg("--requirement").arg(&wanted))?;
    let unpack = workspace::root().join("xtask/oracles/unpack_ggml.py");
    exec(workspace::command(python).arg(unpack).arg(&sources))?;
    let src = sources.join("src");
    let mut cc = workspace::command("cc");
    cc.args(CC_FLAGS).arg("-I").arg(sources.join("include")).arg("-I").arg(&src);
    cc.arg("-o").arg(dir.join(LIBRARY)).arg(src.join("ggml-quants.c"));
    exec(cc.arg(workspace::root().join("xtask/oracles/ggml_missing.c")).arg("-lm"))?;
    rewrites(&sources, &dir.join(REWRITES))?;

    let llama = sources.join("llama");
    let mut cxx = workspace::command("c++");
    cxx.args(CXX_FLAGS).arg("-I").arg(llama.join("src")).arg("-I").arg(llama.join("include"));
    cxx.arg("-I").arg(sources.join("include")).arg("-o").arg(dir.join(CHOICE));
    cxx.arg(workspace::root().join("xtask/oracles/llama_types.cpp"));
    exec(cxx.arg(llama.join("src/llama-arch.cpp")).arg(llama.join("src/llama-hparams.cpp")))
}

fn rewrites(sources: &Path, program: &Path) -> Result {
    let src = sources.join("src");
    // ggml's build generates this header, with the version that the library reports.
    fs::write(src.join("ggml-version.h"), "#define GGML_VERSION \"\"\n#define GGML_COMMIT \"\"\n")?;
    let mut objects = Vec::new();
    for file in ["ggml.c", "ggml-quants.c"] {
        let object = sources.join(file).with_extension("o");
        let mut cc = workspace::command("cc");
        cc.args(C_FLAGS).arg("-I").arg(sources.join("include")).arg("-I").arg(&src);
        exec(cc.arg("-c").arg("-o").arg(&object).arg(src.join(file)))?;
        objects.push(object);
    }
    let mut cxx = workspace::command("c++");
    cxx.args(CXX_FLAGS).arg("-I").arg(sources.join("include")).arg("-I").arg(&src).arg("-o").arg(program);
    cxx.arg(workspace::root().join("xtask/oracles/ggml_rewrites.cpp"));
    cxx.arg(src.join("gguf.cpp")).arg(src.join("ggml-threading.cpp"));
    exec(cxx.args(objects).args(["-lm", "-lpthread"]))
}

/// Checks whether this machine is of the only kind that the package of llama.cpp supports. Elsewhere its
/// tests report that they are skipped.
fn runs_llama_cpp() -> bool {
    cfg!(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))
}

/// Installs llama.cpp's libraries with npm, which checks the hash of the package.
fn llama_cpp(dir: &Path) -> Result {
    fs::create_dir_all(dir)?;
    let wanted = format!(r#""dependencies": {{"{LLAMA_CPP}": "{LLAMA_CPP_VERSION}"}}"#);
    fs::write(dir.join("package.json"), format!("{{{wanted}}}"))?;
    let package = format!(
        r#""node_modules/{LLAMA_CPP}": {{"version": "{LLAMA_CPP_VERSION}", "integrity": "{LLAMA_CPP_INTEGRITY}"}}"#
    );
    let lock = format!(r#"{{"lockfileVersion": 3, "packages": {{"": {{{wanted}}}, {package}}}}}"#);
    fs::write(dir.join("package-lock.json"), lock)?;
    let mut npm = workspace::command("npm");
    npm.args([
        "ci",
        "--omit=optional",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        "--silent",
        "--prefix",
    ]);
    exec(npm.arg(dir))
}

fn loads(python: &Path) -> bool {
    python.exists() && run::succeeds(workspace::command(python).args(["-c", PROBE]))
}

fn pip(python: &Path, target: Option<&Path>, options: &[&str], packages: &[&str]) -> Result {
    let mut command = workspace::pip(python, "install");
    if let Some(target) = target {
        command.arg("--target").arg(target);
    }
    exec(command.args(options).args(packages))
}

/// Writes a `bin/python` that finds what pip put into the folder above it, for systems without venv.
fn wrapper(python: &Path) -> Result {
    let text = "#!/bin/sh\nPYTHONPATH=\"$(dirname \"$0\")/..\" exec python3 \"$@\"\n";
    if let Some(bin) = python.parent() {
        fs::create_dir_all(bin)?;
    }
    fs::write(python, text)?;
    exec(workspace::command("chmod").arg("+x").arg(python))
}
