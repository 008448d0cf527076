//! The conformance suite in `testdata/conformance`. A separate program makes it, and the formats' own readers
//! are run over it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::docs::Part;
use crate::oracles::PYTHON;
use crate::run::{self, Result, exec, step};
use crate::workspace;

const FOLDER: &str = "testdata/conformance";

/// Where the results go.
const TABLE: Part = Part {
    file: "testdata/conformance/README.md",
    begin: "<!-- made by `cargo xtask conformance --readers` -->",
    end: "<!-- end -->",
};

/// A reader, and the part of the suite that it is run over.
struct Reader {
    name: &'static str,
    /// The adapter, a script in `readers`.
    script: &'static str,
    format: &'static str,
    /// A part of the file names that selects the files. Empty for all files.
    only: &'static str,
    /// The environment below `target` whose Python runs it.
    environment: &'static str,
    /// A folder of packages below `target/oracles` that take precedence over the environment's.
    packages: Option<&'static str>,
}

const READERS: &[Reader] = &[
    reader("safetensors", "safetensors_.py", "safetensors", ""),
    reader("gguf-py", "gguf_py.py", "gguf", ""),
    reader("ggml (llama.cpp)", "ggml.py", "gguf", ""),
    Reader { environment: "oracles-torch", ..reader("torch, `weights_only`", "torch_.py", "pytorch", "") },
    reader("magnetron", "magnetron_1.py", "mag", "_v1-"),
    Reader { packages: Some("magnetron-0.2.2"), ..reader("magnetron", "magnetron_3.py", "mag", "_v0.3-") },
    reader("openinfer-oinf", "openinfer_oinf.py", "oinf", ""),
    reader("apr-format", "apr_format.py", "apr", ""),
    reader("ztensor", "ztensor_.py", "safetensors", ""),
    reader("ztensor", "ztensor_.py", "gguf", ""),
    reader("ztensor", "ztensor_.py", "pytorch", ""),
];

const fn reader(
    name: &'static str,
    script: &'static str,
    format: &'static str,
    only: &'static str,
) -> Reader {
    Reader { name, script, format, only, environment: "oracles", packages: None }
}

/// Writes all files of the suite.
pub(crate) fn write() -> Result {
    step("conformance: files that readers must read or refuse");
    exec(workspace::program("conformance").arg("write"))
}

/// Fails unless the committed files are what the code makes.
pub(crate) fn check() -> Result {
    step("suite: the conformance suite");
    exec(workspace::program("conformance").arg("check"))
}

/// Runs every reader, prints where it disagrees with the suite, and writes the table.
pub(crate) fn readers() -> Result {
    step("conformance: the formats' own readers");
    let mut rows = String::from(
        "| reader | files | read of y_ | refused of n_ | i_ read, refused | crashes |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    for reader in READERS {
        rows += &reader.row()?;
    }
    TABLE.write(&rows)
}

impl Reader {
    fn command(&self, program: PathBuf) -> Command {
        let mut command = workspace::command(program);
        if let Some(packages) = self.packages {
            command.env("PYTHONPATH", target(&["oracles", packages]));
        }
        let llama = "llama-cpp/node_modules/@node-llama-cpp/linux-x64/bins/linux-x64";
        command.env("GGML_FOLDER", target(&["oracles", llama]));
        command.env(
            "APR_ORACLE",
            std::env::var_os("MODELFMT_ORACLES_APR")
                .map_or_else(|| target(&["oracles-apr", "debug/apr-oracle"]), PathBuf::from),
        );
        command
    }

    /// Runs the reader over its files, and returns its row of the table.
    fn row(&self) -> Result<String> {
        let Self { name, script, format, only, environment, .. } = self;
        let python = target(&[environment, "bin/python"]);
        let script = format!("{FOLDER}/readers/{script}");
        let version = run::output(self.command(python.clone()).args([&script, "--version"]))?;
        let version = version.trim();
        println!("\n{name} {version}");
        let summary = workspace::target_dir().join("conformance.json");
        if summary.exists() {
            fs::remove_file(&summary)?;
        }
        let mut command = self.command("python3".into());
        command.arg(format!("{FOLDER}/run.py")).args(["--json", "--format", format, "--only", only]);
        command
            .arg("--command")
            .arg(format!("{} {script} {{}}", python.display()))
            .arg("--summary")
            .arg(&summary);
        // The status is ignored: the script fails if the reader disagrees, and that is what we want to know.
        command.status().map_err(|error| format!("cannot run python3: {error}"))?;
        let summary: Value = serde_json::from_slice(&fs::read(summary)?)?;
        let number = |pointer: &str| {
            summary.pointer(&format!("/{format}/{pointer}")).map_or_else(String::new, Value::to_string)
        };
        let files = if only.is_empty() { (*format).to_owned() } else { format!("{format}, `{only}`") };
        Ok(format!(
            "| {name} {version} | {files} | {} of {} | {} of {} | {}, {} | {} |\n",
            number("y/0"),
            number("y/1"),
            number("n/0"),
            number("n/1"),
            number("i_read"),
            number("i_refused"),
            number("crashes"),
        ))
    }
}

/// Returns a path below the target folder that has the oracles: the one that a variable names, or ours.
fn target(parts: &[&str]) -> PathBuf {
    let oracles = std::env::var_os(PYTHON).map(PathBuf::from);
    let beside = oracles.as_deref().and_then(|python| python.ancestors().nth(3)).map(PathBuf::from);
    parts.iter().fold(beside.unwrap_or_else(workspace::target_dir), |path, part| path.join(part))
}
