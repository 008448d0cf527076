//! Converts a hub folder to a GGUF, compared with a flushed copy of it, and with llama.cpp's own quantizer.

use std::path::{Path, PathBuf};
use std::process::Command;

use modelfmt::convert::{ConvertOptions, LoraRule, Overwrite, Quantization, TypeChange, TypeRule};
use modelfmt::prove::ProveOptions;
use modelfmt::{Conversion, Execution, Format, Model, View};
use modelfmt_core::DType;

use crate::convert::{settle, succeed};
use crate::data::{Form, Noise, Tensors, Values};
use crate::memory::peak;
use crate::race::{race, seconds};
use crate::report::{Row, Target, Unit};
use crate::{Bench, Result, ensure, remove, remove_folder};

/// `LLAMA_FTYPE_MOSTLY_Q4_K_M` of llama.h.
const Q4_K_M: &str = "15";

/// Measures every row. The folder to be quantized is a quarter as large.
pub(crate) fn run(bench: &mut Bench) -> Result {
    if bench.wants("hub/f16") {
        let folder = Folder::new(bench, DType::BF16, bench.sizes.convert_mib)?;
        bench.add(to_f16(bench, &folder)?);
    }
    if bench.wants("hub/lora") {
        let folder = Folder::new(bench, DType::BF16, bench.sizes.convert_mib)?;
        bench.add(with_lora(bench, &folder)?);
    }
    if ["hub/q4_k_m", "hub/memory", "prove/q4_k_m"].iter().any(|id| bench.wants(id)) {
        let folder = Folder::new(bench, DType::F16, bench.sizes.convert_mib / 4)?;
        if bench.wants("prove/q4_k_m") {
            bench.add(proved(bench, &folder)?);
        }
        if bench.wants("hub/q4_k_m")
            && let Some(row) = to_q4_k_m(bench, &folder)?
        {
            bench.add(row);
        }
        if bench.wants("hub/memory") {
            let out = bench.file("hub.gguf");
            let peak = peak(bench, "convert", &[&folder.0, &out], &["--quantize", "q4_k_m"])?;
            remove(&out)?;
            bench.add(Row {
                id: "hub/memory".to_owned(),
                work: format!(
                    "memory of `modelfmt convert --quantize q4_k_m` on a hub folder of {} MiB",
                    folder.1
                ),
                case: "GGUF".to_owned(),
                samples: vec![peak / f64::from(1 << 20)],
                unit: Unit::MiB,
                target: Target::AtMost(64.0),
                note: String::new(),
            });
        }
    }
    Ok(())
}

/// A model folder, which is removed at the end, and the size of its tensors in MiB.
struct Folder(PathBuf, u64);

impl Folder {
    /// Writes a folder with a model of the family llama.
    fn new(bench: &Bench, dtype: DType, mib: u64) -> Result<Self> {
        let (tensors, config) = Tensors::llama(dtype, mib << 20);
        let folder = Self(bench.file("hub"), tensors.nbytes() >> 20);
        remove_folder(&folder.0)?;
        std::fs::create_dir(&folder.0)?;
        tensors.to_file(Form::Safetensors, &Noise::new(Values::F16), &folder.weights())?;
        std::fs::write(folder.0.join("config.json"), config)?;
        Ok(folder)
    }

    fn weights(&self) -> PathBuf {
        self.0.join("model.safetensors")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = remove_folder(&self.0); // the folder of all measurements is removed at the end, too
    }
}

/// Converts to a GGUF by paths, as the program does.
fn convert(source: &Path, out: &Path, rule: Option<TypeRule>, threads: usize) -> Result {
    let mut options = ConvertOptions::default();
    options.output.overwrite = Overwrite::Replace;
    options.types.rules.extend(rule);
    let model = Model::open(source)?;
    let conversion = Conversion::new(&model, out).to(Format::Gguf).options(&options);
    conversion.execution(&Execution { threads, progress: None }).write()?;
    Ok(())
}

fn to_f16(bench: &Bench, folder: &Folder) -> Result<Row> {
    let (out, copy) = (bench.file("hub.gguf"), bench.file("copied"));
    let threads = bench.sizes.threads;
    let cast = || Some(TypeRule { glob: None, change: TypeChange::Cast(DType::F16) });
    convert(&folder.0, &out, cast(), threads)?;
    let model = Model::open(&out)?;
    let count = model.tensors().filter(|info| info.dtype == DType::F16).count();
    ensure(
        count > 0 && model.tensors().all(|info| info.shape.len() == 1 || info.dtype == DType::F16),
        || "the matrices are not f16".to_owned(),
    )?;
    let source = folder.weights();
    let race = race(
        bench.rounds(3),
        || {
            settle(&[&out, &copy])?;
            seconds(|| convert(&folder.0, &out, cast(), threads))
        },
        || {
            settle(&[&out, &copy])?;
            seconds(|| {
                succeed(Command::new("cp").arg("--reflink=never").args([&source, &copy]))?;
                succeed(Command::new("sync").arg(&copy))
            })
        },
    )?;
    remove(&out)?;
    remove(&copy)?;
    Ok(Row {
        id: "hub/f16".to_owned(),
        work: format!(
            "convert {} MiB of a hub folder in bf16 to f16, flushed: time of `cp --reflink=never` and `sync` of the copy",
            folder.1
        ),
        case: "GGUF".to_owned(),
        samples: race.costs(),
        unit: Unit::Times,
        target: Target::AtMost(1.2),
        note: race.times(),
    })
}

/// Merges an adapter of rank 16 into all matrices of all layers.
fn with_lora(bench: &Bench, folder: &Folder) -> Result<Row> {
    const RANK: u64 = 16;
    let (out, plain) = (bench.file("merged.safetensors"), bench.file("plain.safetensors"));
    let adapter = bench.file("adapter");
    remove_folder(&adapter)?;
    std::fs::create_dir(&adapter)?;
    std::fs::write(
        adapter.join("adapter_config.json"),
        r#"{"peft_type": "LORA", "r": 16, "lora_alpha": 32}"#,
    )?;
    let model = Model::open(&folder.0)?;
    let mut matrices = Vec::new();
    for info in model.tensors().filter(|info| info.name.ends_with("proj.weight")) {
        let &[rows, columns] = info.shape else { continue };
        let module = format!("base_model.model.{}", info.name.trim_end_matches(".weight"));
        for (side, shape) in [("lora_A", [RANK, columns]), ("lora_B", [rows, RANK])] {
            let values: Vec<f32> = (0..shape[0] * shape[1]).map(|n| (n % 251) as f32 / 25_100.0).collect();
            matrices.push((format!("{module}.{side}.weight"), values, shape));
        }
    }
    ensure(!matrices.is_empty(), || "there is nothing to merge into".to_owned())?;
    let views = matrices.iter().map(|(name, values, shape)| Ok((name.as_str(), View::new(values, *shape)?)));
    let views = views.collect::<Result<Vec<_>>>()?;
    modelfmt::save(adapter.join("adapter_model.safetensors"), views, &modelfmt::Object::default())?;
    let execution = Execution { threads: bench.sizes.threads, progress: None };
    let write = |out: &Path, lora: Vec<LoraRule>| -> Result {
        let mut options = ConvertOptions::default();
        options.output.overwrite = Overwrite::Replace;
        options.tensors.lora = lora;
        Conversion::new(&Model::open(&folder.0)?, out).options(&options).execution(&execution).write()?;
        Ok(())
    };
    let merged = || write(&out, vec![LoraRule { path: adapter.clone(), scale: 1.0 }]);
    merged()?;
    let race = race(
        bench.rounds(3),
        || {
            settle(&[&out, &plain])?;
            seconds(merged)
        },
        || {
            settle(&[&out, &plain])?;
            seconds(|| write(&plain, Vec::new()))
        },
    )?;
    remove(&out)?;
    remove(&plain)?;
    remove_folder(&adapter)?;
    Ok(Row {
        id: "hub/lora".to_owned(),
        work: format!(
            "merge an adapter of rank 16 into {} MiB of bf16, flushed: time of the same without it",
            folder.1
        ),
        case: "safetensors".to_owned(),
        samples: race.costs(),
        unit: Unit::Times,
        target: Target::AtMost(1.5),
        note: race.times(),
    })
}

/// Returns `None` if llama.cpp is not installed.
fn to_q4_k_m(bench: &Bench, folder: &Folder) -> Result<Option<Row>> {
    let [out, plain, other] = ["hub.gguf", "plain.gguf", "other.gguf"].map(|name| bench.file(name));
    let threads = bench.sizes.threads;
    let preset = "q4_k_m".parse().map_err(|_| "q4_k_m is a preset")?;
    let quantize =
        || Some(TypeRule { glob: None, change: TypeChange::Quantize(Quantization::Preset(preset)) });
    convert(&folder.0, &plain, None, threads)?;
    convert(&folder.0, &out, quantize(), threads)?;
    let theirs = || -> Result<Option<f64>> {
        let (plain, other, threads) = (plain.to_string_lossy(), other.to_string_lossy(), threads.to_string());
        let printed = testkit::llama_cpp(include_str!("hub.py"), &[&plain, &other, Q4_K_M, &threads]);
        Ok(printed.map(|printed| printed.trim().parse()).transpose()?)
    };
    if theirs()?.is_none() {
        return remove(&plain).and_then(|()| remove(&out)).map(|()| None);
    }
    same(&out, &other)?;
    let race = race(
        bench.rounds(3),
        || {
            settle(&[&out, &other])?;
            seconds(|| convert(&folder.0, &out, quantize(), threads))
        },
        || {
            settle(&[&out, &other])?;
            theirs()?.ok_or_else(|| "llama.cpp is gone".into())
        },
    )?;
    [&out, &plain, &other].into_iter().try_for_each(|path| remove(path))?;
    Ok(Some(Row {
        id: "hub/q4_k_m".to_owned(),
        work: format!(
            "convert {} MiB of a hub folder in f16 to q4_k_m, flushed: speed of llama.cpp's quantizer of a GGUF on {threads} threads",
            folder.1
        ),
        case: "GGUF".to_owned(),
        samples: race.speedups(),
        unit: Unit::Times,
        target: Target::AtLeast(2.0),
        note: race.times().replace("other", "llama.cpp"),
    }))
}

/// Proves that a GGUF was made from a folder, compared with making it.
fn proved(bench: &Bench, folder: &Folder) -> Result<Row> {
    let out = bench.file("hub.gguf");
    let threads = bench.sizes.threads;
    let preset = "q4_k_m".parse().map_err(|_| "q4_k_m is a preset")?;
    let quantize =
        || Some(TypeRule { glob: None, change: TypeChange::Quantize(Quantization::Preset(preset)) });
    convert(&folder.0, &out, quantize(), threads)?;
    let execution = Execution { threads, progress: None };
    let prove = || -> Result {
        let (base, derived) = (Model::open(&folder.0)?, Model::open(&out)?);
        let proof = modelfmt::prove::prove(&base, &derived, &ProveOptions::default(), &execution)?;
        ensure(proof.is_ok, || "what was quantized is not proved".to_owned())
    };
    let again = bench.file("again.gguf");
    let race = race(
        bench.rounds(3),
        || {
            settle(&[&again])?;
            seconds(prove)
        },
        || {
            settle(&[&again])?;
            seconds(|| convert(&folder.0, &again, quantize(), threads))
        },
    )?;
    remove(&out)?;
    remove(&again)?;
    Ok(Row {
        id: "prove/q4_k_m".to_owned(),
        work: format!(
            "prove that a GGUF in q4_k_m is made of {} MiB of a hub folder in f16: time of quantizing it, flushed",
            folder.1
        ),
        case: "GGUF".to_owned(),
        samples: race.costs(),
        unit: Unit::Times,
        target: Target::AtMost(1.2),
        note: race.times(),
    })
}

/// Checks that both files have the same tensors.
fn same(ours: &Path, other: &Path) -> Result {
    let (ours, other) = (Model::open(ours)?, Model::open(other)?);
    let diff = modelfmt::diff::diff(&ours, &other, &Execution::default())?;
    let same = diff.changed.is_empty() && diff.only_in_a.is_empty() && diff.only_in_b.is_empty();
    ensure(same && ours.tensor_count() > 0, || {
        format!("llama.cpp quantizes it otherwise: {:?}", diff.changed)
    })
}
