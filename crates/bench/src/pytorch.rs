//! Opens checkpoints of PyTorch, compared with `torch.load`, and converts them, compared with a copy.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use modelfmt::Model;
use testkit::{TorchTensor, ZipMember, torch_pickle, torch_zip};

use crate::convert::beside_copy;
use crate::data::Form;
use crate::memory::peak;
use crate::race::{race, seconds};
use crate::report::{Row, Target, Unit};
use crate::{Bench, Result, ensure, remove};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/load_checkpoint.py");

pub(crate) fn run(bench: &mut Bench) -> Result {
    open(bench)?;
    convert(bench)
}

/// Writes a checkpoint with `count` tensors of f32, each in a storage of `len` bytes.
fn checkpoint(path: &Path, count: usize, len: usize) -> Result {
    let tensors: Vec<TorchTensor> = (0..count)
        .map(|number| {
            let name = format!("model.layers.{number}.weight");
            TorchTensor::f32(&name, &number.to_string(), &[len as u64 / 4])
        })
        .collect();
    let mut zip = torch_zip(&torch_pickle(&tensors), &[]);
    let mut state = 1_u32;
    for number in 0..count {
        let mut content = Vec::with_capacity(len);
        while content.len() < len {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            content.extend((state >> 9 | 0x3f80_0000).to_le_bytes());
        }
        let (len, crc) = (content.len() as u64, crc32fast::hash(&content));
        let member = ZipMember::stored(&format!("archive/data/{number}"), &[]);
        zip.members
            .push(ZipMember { stored: content, len: [len; 2], crc: [crc; 2], ..member }.described_behind());
    }
    std::fs::write(path, zip.build())?;
    std::fs::File::open(path)?.sync_all()?;
    Ok(())
}

fn open(bench: &mut Bench) -> Result {
    if !bench.wants("pytorch/open") {
        return Ok(());
    }
    let Some(python) = python() else {
        eprintln!("no Python that has torch: see crates/bench/load_checkpoint.py");
        return Ok(());
    };
    let path = bench.file("many.bin");
    let count = bench.sizes.open_tensors;
    checkpoint(&path, count, 64)?;
    ensure(Model::open(&path)?.tensor_count() == count, || "not all tensors are found".to_owned())?;
    let race = race(
        bench.rounds(7),
        || {
            seconds(|| {
                let model = Model::open(&path)?;
                black_box(model.tensor("model.layers.7.weight")?.bytes().len());
                Ok(model)
            })
        },
        || {
            let output = Command::new(&python).arg(SCRIPT).arg(&path).stderr(Stdio::inherit()).output()?;
            let text = String::from_utf8_lossy(&output.stdout);
            Ok(text.trim().parse().map_err(|_| format!("{SCRIPT} prints {text:?}"))?)
        },
    )?;
    bench.add(Row {
        id: "pytorch/open".to_owned(),
        work: format!(
            "open a checkpoint of {} tensors of 64 bytes by its path and read one: faster than `torch.load`",
            crate::grouped(count)
        ),
        case: "PyTorch, archive".to_owned(),
        samples: race.speedups(),
        unit: Unit::Times,
        target: Target::AtLeast(20.0),
        note: race.times(),
    });
    remove(&path)
}

fn convert(bench: &mut Bench) -> Result {
    if !["pytorch/convert", "pytorch/memory"].iter().any(|id| bench.wants(id)) {
        return Ok(());
    }
    let path = bench.file("source.bin");
    let tensors = 32;
    checkpoint(&path, tensors, (bench.sizes.convert_mib << 20) as usize / tensors)?;
    let mib = bench.sizes.convert_mib;
    if bench.wants("pytorch/convert") {
        let id = "pytorch/convert".to_owned();
        let row = beside_copy(bench, id, Form::Safetensors, &path, 1.1)?;
        let work = format!(
            "convert {mib} MiB of a checkpoint to safetensors, its CRC-32s checked, flushed: time of `cp --reflink=never` and `sync` of the copy"
        );
        bench.add(Row { work, case: "PyTorch, archive".to_owned(), ..row });
    }
    if bench.wants("pytorch/memory") {
        let out = bench.file("out.safetensors");
        let peak = peak(bench, "convert", &[&path, &out], &[])?;
        bench.add(Row {
            id: "pytorch/memory".to_owned(),
            work: format!("memory of `modelfmt convert` on {mib} MiB of a checkpoint"),
            case: "PyTorch, archive".to_owned(),
            samples: vec![peak / f64::from(1 << 20)],
            unit: Unit::MiB,
            target: Target::AtMost(32.0),
            note: String::new(),
        });
        remove(&out)?;
    }
    remove(&path)
}

/// Returns a Python with torch: the one that a variable names, or the system's.
fn python() -> Option<PathBuf> {
    let named = std::env::var_os("MODELFMT_BENCH_PYTHON").map(PathBuf::from);
    let mut all = named.into_iter().chain([PathBuf::from("/usr/bin/python3")]);
    all.find(|python| {
        let has = Command::new(python).arg(SCRIPT).stderr(Stdio::null()).status();
        has.is_ok_and(|status| status.success())
    })
}
