//! Installs an environment below `target/` with Debian's torch and the published tools that quantize
//! checkpoints, for tests to compare with.
//!
//! `testkit::quantizers` runs `xtask/oracles/quantizers.py` with the interpreter at
//! `target/oracles-torch/bin/python`. The packages have 60 MB, most of it bitsandbytes' libraries for GPUs.
//! Only the modules that decode are imported, for which an old torch and no GPU are enough.

use std::fs;

use crate::run::{Result, exec, step};
use crate::{python, workspace};

/// Packages that the tools import, or that build the tools that come as sources.
const PACKAGES: &[&str] = &[
    "setuptools==80.9.0",
    "wheel==0.45.1",
    "pydantic==2.14.4",
    "loguru==0.7.3",
    "packaging==26.4",
    "safetensors==0.8.0",
    "tqdm==4.70.1",
];

/// The tools, installed without their dependencies: they ask for a torch of several GB, and for much that
/// only models need.
const TOOLS: &[&str] = &[
    "auto-gptq==0.7.1",
    "autoawq==0.2.9",
    "bitsandbytes==0.50.2",
    "compressed-tensors==0.20.0",
    "nvidia-modelopt==0.47.0",
    "transformers==5.24.0",
];

/// The tools that are built from source, without their kernels for GPUs.
const SOURCES: &str = "auto-gptq,autoawq";

/// Installs the tools if there is a torch. Without one, the tests report that they are skipped.
pub(crate) fn install() -> Result {
    let Some(system) = python::system_with_torch() else { return Ok(()) };
    let dir = workspace::root().join("target/oracles-torch");
    let stamp = dir.join("installed.txt");
    let wanted = [PACKAGES, TOOLS].concat().join("\n");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    step("oracles: the tools that quantize checkpoints");
    exec(workspace::command(system).args(["-m", "venv", "--clear", "--system-site-packages"]).arg(&dir))?;
    let pip = |args: &[&str], packages: &[&str]| {
        let mut command = workspace::pip(dir.join("bin/python"), "install");
        exec(command.args(args).args(packages).env("BUILD_CUDA_EXT", "0"))
    };
    pip(&[], PACKAGES)?;
    pip(&["--no-deps", "--no-build-isolation", "--use-pep517", "--no-binary", SOURCES], TOOLS)?;
    Ok(fs::write(stamp, wanted)?)
}
