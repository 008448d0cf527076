//! Takes the model through GGUF: as it is, in ggml's blocks, and from blocks that gguf-py has made.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{Route, SCALE, differences, lossless, modelfmt, reach, tensors};
use crate::run::{Result, exec, step};
use crate::{oracles, workspace};

/// Routes on which every tensor comes back bit for bit.
const LOSSLESS: &[Route] = &[
    Route { file: "model.gguf", options: &[] },
    Route { file: "aligned.gguf", options: &["--align", "4096"] },
];

/// Types and presets, with the largest error that each may make, relative to the largest magnitude in a
/// block. It consists of a whole step of the codes, because ggml's search for a scale may cut an end off;
/// half a step of the scales and minimums, which have 6 bits (8 in q6_k); and what rounding to f16 adds.
const QUANTIZED: &[(&str, f64)] = &[
    ("q4_k", 2.0 / 15.0 + SIX_BITS + 2.0 * SCALE),
    ("q5_k", 2.0 / 31.0 + SIX_BITS + 2.0 * SCALE),
    ("q6_k", 1.0 / 32.0 + 1.0 / 254.0 + SCALE),
    // Rows of 384 elements get types with blocks of 32.
    ("q4_k_m", 2.0 / 15.0 + SIX_BITS + 2.0 * SCALE),
];

/// The error of scales and minimums with 6 bits. A scale times the largest code reaches twice the largest
/// magnitude, a minimum reaches it once.
const SIX_BITS: f64 = 3.0 / 126.0;

/// The largest code stands for 6, and is used for numbers up to 8.
const MXFP4: f64 = 2.0 / 8.0;

pub(super) fn run(model: &Path, expected: &[Value], out: &Path) -> Result {
    for route in LOSSLESS {
        lossless(model, expected, out, route)?;
    }
    split(model, expected, out)?;
    for &(kind, bound) in QUANTIZED {
        quantized(model, out, kind, bound)?;
    }
    mxfp4(model, out)
}

/// Converts to several files, and reads the whole model by way of one of them.
fn split(model: &Path, expected: &[Value], out: &Path) -> Result {
    step("real-model: a split of GGUF");
    let folder = out.join("split");
    fs::create_dir_all(&folder)?;
    exec(modelfmt("convert").arg(model).arg(folder.join("model.gguf")).args(["--shard-size", "32MiB"]))?;
    let mut files = fs::read_dir(&folder)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    files.sort();
    let [_, .., last] = files.as_slice() else {
        return Err(format!("{} files are no split", files.len()).into());
    };
    exec(modelfmt("verify").arg(last))?;
    if tensors(last)? != expected {
        return Err("a split has other tensors than the model".into());
    }
    Ok(fs::remove_dir_all(folder)?)
}

/// Quantizes the model, and converts it to AERO and back, to the same bytes. Then decodes it, and checks that
/// no weight is off by more than `bound`.
fn quantized(model: &Path, out: &Path, kind: &str, bound: f64) -> Result {
    step(&format!("real-model: {kind} in GGUF"));
    let file = |name: &str| out.join(format!("{kind}.{name}"));
    let (there, aero, again, back) =
        (file("gguf"), file("aero"), file("again.gguf"), file("back.safetensors"));
    exec(modelfmt("convert").arg(model).arg(&there).args(["--quantize", kind]))?;
    exec(modelfmt("verify").arg(&there))?;
    exec(modelfmt("convert").arg(&there).arg(&aero))?;
    exec(modelfmt("convert").arg(&aero).arg(&again))?;
    if fs::read(&there)? != fs::read(&again)? {
        return Err(format!("{kind}: other bytes come back from AERO").into());
    }
    exec(modelfmt("convert").arg(&there).arg(&back).args(["--dequantize", "f32", "--lossy"]))?;
    within(model, &back, kind, bound)?;
    [there, aero, again, back].iter().try_for_each(|path| Ok(fs::remove_file(path)?))
}

/// Decodes blocks of gguf-py, and compares with how gguf-py decodes them. There is no encoder of this type
/// here.
fn mxfp4(model: &Path, out: &Path) -> Result {
    step("real-model: mxfp4 in GGUF, by gguf-py");
    let python = oracles::install()?;
    let (blocks, numbers, back) =
        (out.join("mxfp4.gguf"), out.join("mxfp4.safetensors"), out.join("back.safetensors"));
    let script = workspace::root().join("xtask/oracles/mxfp4_model.py");
    exec(workspace::command(python).arg(script).arg(model).arg(&blocks).arg(&numbers))?;
    exec(modelfmt("verify").arg(&blocks))?;
    exec(modelfmt("convert").arg(&blocks).arg(&back).args(["--dequantize", "f32", "--lossy"]))?;
    exec(modelfmt("diff").arg(&numbers).arg(&back))?;
    within(model, &back, "mxfp4", MXFP4)?;
    [blocks, numbers, back].iter().try_for_each(|path| Ok(fs::remove_file(path)?))
}

/// Checks that no weight of `back` is off by more than `bound` times the largest magnitude in the tensors
/// that differ.
fn within(model: &Path, back: &Path, kind: &str, bound: f64) -> Result {
    let diff: Value = serde_json::from_str(&differences(model, back)?)?;
    let changed = diff.get("changed").and_then(Value::as_array).cloned().unwrap_or_default();
    if changed.is_empty() {
        return Err(format!("{kind}: quantizing changed nothing").into());
    }
    let largest = changed.iter().filter_map(|tensor| tensor.get("max_abs")?.as_f64()).fold(0.0, f64::max);
    let reach = reach(model, &changed)?;
    println!("{kind}: {} tensors, off by up to {largest:.5} where weights reach {reach:.5}", changed.len());
    if largest.is_nan() || largest > reach * bound {
        return Err(format!("{kind}: an error of {largest} is beyond the bound {}", reach * bound).into());
    }
    Ok(())
}
