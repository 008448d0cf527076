//! Runs the formats' own tools, in Python and in Rust, to compare with.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The variable that names a Python interpreter that can import the oracles.
const VARIABLE: &str = "MODELFMT_ORACLES_PYTHON";

/// Runs a Python script with arguments in the oracles' environment and returns what it prints.
///
/// # Panics
/// If there is no such environment, or if the script fails; the message has what it wrote to standard error.
#[must_use]
pub fn python(script: &str, arguments: &[&str]) -> String {
    run(&mut Command::new(interpreter()), script, arguments)
}

/// Like [`python`], but with the packages of one of the folders that `cargo xtask oracles` makes, such as
/// `magnetron-0.2.2`, before all others.
///
/// # Panics
/// Like [`python`], and if there is no such folder.
#[must_use]
pub fn python_with(folder: &str, script: &str, arguments: &[&str]) -> String {
    let folder = crate::workspace::root().join("target/oracles").join(folder);
    assert!(folder.exists(), "no {}: run `cargo xtask oracles`", folder.display());
    let mut command = Command::new(interpreter());
    command.env("PYTHONPATH", folder);
    run(&mut command, script, arguments)
}

/// Runs a Python script that may `import llama_cpp` (`xtask/oracles/llama_cpp.py`). Returns `None`, after
/// printing that the test has compared nothing, if this machine has no llama.cpp.
///
/// # Panics
/// Like [`python`].
#[must_use]
pub fn llama_cpp(script: &str, arguments: &[&str]) -> Option<String> {
    let interpreter = interpreter();
    let environment = interpreter.ancestors().nth(2).expect("DIR/bin/python");
    if !environment.join("llama-cpp").exists() {
        eprintln!(
            "skipped: there is no llama.cpp for this kind of machine, or `cargo xtask oracles` has not run"
        );
        return None;
    }
    let mut command = Command::new(interpreter);
    command.env("PYTHONPATH", crate::workspace::root().join("xtask/oracles"));
    Some(run(command.arg("-B"), script, arguments))
}

/// Runs a Python script with Debian's interpreter if it has these packages, such as `torch`. Otherwise
/// returns `None`, after printing that the test has compared nothing.
///
/// # Panics
/// If the script fails.
#[must_use]
pub fn debian_python(packages: &str, script: &str, arguments: &[&str]) -> Option<String> {
    let python = || Command::new("/usr/bin/python3");
    let found = python().args(["-c", &format!("import {packages}")]).output();
    if !found.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: Debian's Python has no {packages}");
        return None;
    }
    Some(run(&mut python(), script, arguments))
}

/// Has a tool make small checkpoints and decode them (`xtask/oracles/quantizers.py` describes their form),
/// each in a folder below `folder`, and returns the names of those folders. Returns `None`, after printing
/// that the test has compared nothing, if this machine has no torch.
///
/// # Panics
/// If the tool fails.
#[must_use]
pub fn quantizers(tool: &str, folder: &Path) -> Option<Vec<String>> {
    let root = crate::workspace::root();
    let python = root.join("target/oracles-torch/bin/python");
    if !python.exists() {
        eprintln!("skipped: Debian's Python has no torch, or `cargo xtask oracles` has not run");
        return None;
    }
    let output = Command::new(python)
        .args(["-W", "ignore"])
        .args([root.join("xtask/oracles/quantizers.py").as_path(), Path::new(tool), folder])
        .output();
    let output = output.expect("an interpreter that runs");
    assert!(output.status.success(), "the oracle failed: {}", String::from_utf8_lossy(&output.stderr));
    let cases = String::from_utf8(output.stdout).expect("the oracle prints UTF-8");
    Some(cases.lines().map(str::to_owned).collect())
}

fn run(command: &mut Command, script: &str, arguments: &[&str]) -> String {
    let interpreter = command.get_program().to_owned();
    let output = command
        .env("PYTHONIOENCODING", "utf-8")
        .args(["-c", script])
        .args(arguments)
        .output()
        .unwrap_or_else(|e| panic!("{}: {e}; run `cargo xtask oracles`", interpreter.display()));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the oracle failed: {stderr}");
    String::from_utf8(output.stdout).expect("the oracle prints UTF-8")
}

/// Returns the path of ggml's C reference of its block types, as a shared library.
///
/// # Panics
/// If the library does not exist.
#[must_use]
pub fn ggml_library() -> PathBuf {
    let environment = interpreter().ancestors().nth(2).expect("DIR/bin/python").to_path_buf();
    let path = environment.join("libggml-quants.so");
    assert!(path.exists(), "no {}: run `cargo xtask oracles`", path.display());
    path
}

/// Asks llama.cpp which types it assigns to the tensors of models (`xtask/oracles/llama_types.cpp` describes
/// the form), and returns its answer.
///
/// # Panics
/// If the program does not exist, or if it fails; the message has what it wrote to standard error.
#[must_use]
pub fn llama_types(models: &str) -> String {
    let environment = interpreter().ancestors().nth(2).expect("DIR/bin/python").to_path_buf();
    let program = environment.join("llama-types");
    let mut child = Command::new(&program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{}: {e}; run `cargo xtask oracles`", program.display()));
    let mut input = child.stdin.take().expect("a pipe");
    let models = models.to_owned();
    // The program answers while it still reads. If it ends early, its exit status shows that.
    let asking = std::thread::spawn(move || input.write_all(models.as_bytes()));
    let output = child.wait_with_output().expect("the oracle ends");
    let _ = asking.join();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the oracle failed: {stderr}");
    String::from_utf8(output.stdout).expect("the oracle prints UTF-8")
}

/// Has ggml read a GGUF file as llama.cpp does, and write what it has read to another file.
///
/// # Panics
/// If the program does not exist, or if ggml does not read the file; the message has its output.
pub fn ggml_rewrites(from: &Path, to: &Path) {
    let environment = interpreter().ancestors().nth(2).expect("DIR/bin/python").to_path_buf();
    let program = environment.join("ggml-rewrites");
    let output = Command::new(&program).args([from, to]).output();
    let output = output.unwrap_or_else(|e| panic!("{}: {e}; run `cargo xtask oracles`", program.display()));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn interpreter() -> PathBuf {
    if let Some(path) = std::env::var_os(VARIABLE) {
        return path.into();
    }
    let path = crate::workspace::root().join("target/oracles/bin/python");
    assert!(path.exists(), "no oracles: run `cargo xtask oracles`, or name an interpreter in {VARIABLE}");
    path
}

/// The variable that names the program built from `xtask/oracles/apr`.
const APR_VARIABLE: &str = "MODELFMT_ORACLES_APR";

/// Runs the program that uses aprender's own crate (`xtask/oracles/apr`) and returns what it prints.
///
/// # Panics
/// If the program has not been built, or if it fails; the message has what it wrote to standard error.
#[must_use]
pub fn apr(arguments: &[&str]) -> String {
    built(APR_VARIABLE, "target/oracles-apr/debug/apr-oracle", arguments)
}

/// The variable that names the program built from `xtask/oracles/bao`.
const BAO_VARIABLE: &str = "MODELFMT_ORACLES_BAO";

/// Runs the program that uses the crate bao-tree (`xtask/oracles/bao`) and returns what it prints.
///
/// # Panics
/// Like [`apr`].
#[must_use]
pub fn bao(arguments: &[&str]) -> String {
    built(BAO_VARIABLE, "target/oracles-bao/debug/bao-oracle", arguments)
}

/// Runs a program that the variable names, or else the one that was built at this path.
fn built(variable: &str, path: &str, arguments: &[&str]) -> String {
    let default = || crate::workspace::root().join(path);
    let program = std::env::var_os(variable).map_or_else(default, PathBuf::from);
    let output = Command::new(&program)
        .args(arguments)
        .output()
        .unwrap_or_else(|e| panic!("{}: {e}; run `cargo xtask oracles`", program.display()));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the oracle failed: {stderr}");
    String::from_utf8(output.stdout).expect("the oracle prints UTF-8")
}
