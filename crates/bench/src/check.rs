//! Checks every value for NaN, infinities and constants, compared with reading the same bytes.

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;

use modelfmt::check::check;
use modelfmt::{Execution, Model};
use modelfmt_core::{DType, author::PIECE};

use crate::data::{Form, Noise, Tensors, Values};
use crate::race::{on_threads, race, seconds};
use crate::report::{Row, Target, Unit};
use crate::{Bench, Result, ensure};

const CASES: [(&str, &str, DType, Values); 2] = [
    ("check/f32", "safetensors, f32", DType::F32, Values::F32),
    ("check/f16", "safetensors, f16", DType::F16, Values::F16),
];

/// Checks files by their paths, on as many threads as the bare read uses.
pub(crate) fn run(bench: &mut Bench) -> Result {
    for (id, case, dtype, values) in CASES {
        if bench.wants(id) {
            measure(bench, id, case, (dtype, values))?;
        }
    }
    Ok(())
}

fn measure(bench: &mut Bench, id: &str, case: &str, (dtype, values): (DType, Values)) -> Result {
    let path = bench.file("check");
    let tensors = Tensors::layers(dtype, 16, bench.sizes.verify_mib << 20);
    tensors.to_file(Form::Safetensors, &Noise::new(values), &path)?;
    let threads = bench.sizes.threads;
    let model = Model::open(&path)?;
    let checked = || {
        let report = check(&model, &Execution { threads, progress: None })?;
        ensure(report.is_ok(), || format!("good values are said to be bad: {report:?}"))
    };
    let file = File::open(&path)?;
    let len = file.metadata()?.len();
    let pieces = usize::try_from(len.div_ceil(PIECE))?;
    let race = race(
        bench.rounds(7),
        || seconds(checked),
        || {
            seconds(|| {
                on_threads(
                    threads,
                    pieces,
                    || vec![0; PIECE as usize],
                    |buffer, number| {
                        let at = number as u64 * PIECE;
                        let buffer = &mut buffer[..(len - at).min(PIECE) as usize];
                        assert!(file.read_exact_at(black_box(buffer), at).is_ok(), "a file of ours is read");
                    },
                );
                Ok(())
            })
        },
    )?;
    bench.add(Row {
        id: id.to_owned(),
        work: format!("check every value by path: speed of reading the same bytes on {threads} threads"),
        case: case.to_owned(),
        samples: race.speedups(),
        unit: Unit::Times,
        target: Target::AtLeast(0.85),
        note: race.times(),
    });
    drop((model, file));
    crate::remove(&path)
}
