//! Decodes quantized checkpoints, compared with a bare copy of the output.

use std::path::{Path, PathBuf};
use std::process::Command;

use modelfmt::convert::{ConvertOptions, Overwrite, TypeRule};
use modelfmt::{Conversion, Execution, Model, Object, View};
use modelfmt_core::DType;

use crate::convert::{settle, succeed};
use crate::race::{race, seconds};
use crate::report::{Row, Target, Unit};
use crate::{Bench, Result, ensure, remove, remove_folder};

/// The number of rows and of columns of every weight, which is 8 MiB in f16.
const SIDE: u64 = 2048;

/// A tensor of a weight: the end of its name, its type, its shape and its bytes.
type Part = (&'static str, DType, [u64; 2], Vec<u8>);

pub(crate) fn run(bench: &mut Bench) -> Result {
    if bench.wants("dequantize/gptq") {
        let config = r#"{"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": true}"#;
        let row = decoded(bench, "gptq", "GPTQ (4 bits, groups of 128, act-order)", &gptq(), config)?;
        bench.add(row);
    }
    if bench.wants("dequantize/nvfp4") {
        let row = decoded(bench, "nvfp4", "NVFP4", &nvfp4(), r#"{"quant_method": "modelopt"}"#)?;
        bench.add(row);
    }
    Ok(())
}

fn decoded(bench: &Bench, id: &str, what: &str, parts: &[Part], config: &str) -> Result<Row> {
    let count = (bench.sizes.convert_mib / 8).max(1);
    let folder = folder(bench, count, parts, config)?;
    let [out, kept, copy] =
        ["decoded", "kept", "copied"].map(|name| bench.file(&format!("{name}.safetensors")));
    let threads = bench.sizes.threads;
    convert(&folder, &kept, threads)?;
    let model = Model::open(&kept)?;
    let is_decoded = model.tensors().all(|info| info.dtype == DType::F16 && *info.shape == [SIDE, SIDE]);
    ensure(is_decoded && model.tensor_count() as u64 == count, || "not all weights are decoded".to_owned())?;
    drop(model);
    let race = race(
        bench.rounds(3),
        || {
            settle(&[&out, &copy])?;
            seconds(|| convert(&folder, &out, threads))
        },
        || {
            settle(&[&out, &copy])?;
            seconds(|| {
                succeed(Command::new("cp").arg("--reflink=never").args([&kept, &copy]))?;
                succeed(Command::new("sync").arg(&copy))
            })
        },
    )?;
    [&out, &kept, &copy].into_iter().try_for_each(|path| remove(path))?;
    remove_folder(&folder)?;
    Ok(Row {
        id: format!("dequantize/{id}"),
        work: format!(
            "decode {what} to {} MiB of f16, flushed: time of `cp --reflink=never` and `sync` of what is written",
            count * 8
        ),
        case: "safetensors".to_owned(),
        samples: race.costs(),
        unit: Unit::Times,
        target: Target::None,
        note: race.times(),
    })
}

/// Writes a folder with `count` equal weights.
fn folder(bench: &Bench, count: u64, parts: &[Part], config: &str) -> Result<PathBuf> {
    let folder = bench.file("quantized");
    remove_folder(&folder)?;
    std::fs::create_dir(&folder)?;
    let mut views = Vec::new();
    for number in 0..count {
        for (end, dtype, shape, bytes) in parts {
            // A length of 0 means that there is no such dimension.
            let shape: Vec<u64> = shape.iter().copied().filter(|length| *length > 0).collect();
            views.push((format!("layers.{number}.w.{end}"), View::from_bytes(*dtype, &bytes[..], shape)?));
        }
    }
    modelfmt::save(folder.join("model.safetensors"), views, &Object::default())?;
    std::fs::write(folder.join("config.json"), format!(r#"{{"quantization_config": {config}}}"#))?;
    Ok(folder)
}

/// Converts by paths, as the program does.
fn convert(source: &Path, out: &Path, threads: usize) -> Result {
    let mut options = ConvertOptions::default();
    options.output.overwrite = Overwrite::Replace;
    options.types.rules.push(TypeRule::dequantize(DType::F16));
    let model = Model::open(source)?;
    let execution = Execution { threads, progress: None };
    Conversion::new(&model, out).options(&options).execution(&execution).write()?;
    Ok(())
}

fn gptq() -> Vec<Part> {
    let groups = SIDE / 128;
    let index = (0..SIDE).flat_map(|column| ((column * 5 % groups) as u32).to_le_bytes()).collect();
    vec![
        ("qweight", DType::I32, [SIDE / 8, SIDE], noise(SIDE * SIDE / 2)),
        ("qzeros", DType::I32, [groups, SIDE / 8], noise(groups * SIDE / 2)),
        ("scales", DType::F16, [groups, SIDE], halves(groups * SIDE)),
        ("g_idx", DType::I32, [SIDE, 0], index),
    ]
}

fn nvfp4() -> Vec<Part> {
    // Scales from 1 to 30.
    let scales = noise(SIDE * SIDE / 16).iter().map(|byte| 0x38 + byte % 40).collect();
    vec![
        ("weight", DType::U8, [SIDE, SIDE / 2], noise(SIDE * SIDE / 2)),
        ("weight_scale", DType::F8E4M3, [SIDE, SIDE / 16], scales),
        ("weight_scale_2", DType::F32, [0, 0], 0.002_f32.to_le_bytes().to_vec()),
    ]
}

fn noise(count: u64) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..count).map(next).collect()
}

/// Returns f16 values from 2⁻⁷ to 2⁻⁵.
fn halves(count: u64) -> Vec<u8> {
    noise(count * 2).chunks_exact(2).flat_map(|pair| [pair[0], 0x20 | pair[1] & 7]).collect()
}
