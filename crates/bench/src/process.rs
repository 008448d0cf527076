//! The program as a process: how long it takes to describe a small file, and how large the program is.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use modelfmt_core::DType;

use crate::data::{Form, Noise, Tensors, Values};
use crate::race::{race, seconds};
use crate::report::{Row, Target, Unit};
use crate::{Bench, Result, ensure, remove};

/// The time in seconds that may be added to 1.3 times an empty process.
const ADDED: f64 = 2e-3;

pub(crate) fn run(bench: &mut Bench) -> Result {
    let [inspect, size] = ["process/inspect", "process/size"].map(str::to_owned);
    if bench.wants(&inspect) {
        let path = bench.file("small.safetensors");
        Tensors::layers(DType::F32, 2, 1 << 20).to_file(
            Form::Safetensors,
            &Noise::new(Values::F32),
            &path,
        )?;
        let program = bench.program.clone();
        let ours = || process(program.as_os_str(), &["inspect".as_ref(), path.as_os_str()]);
        let race = race(bench.rounds(50), ours, || process("true".as_ref(), &[]))?;
        let samples = race.each(|ours, other| ours / (1.3 * other + ADDED));
        bench.add(Row {
            id: inspect,
            work: "`modelfmt inspect` of a small file, process and all: time of 1.3 × `true` and 2 ms"
                .to_owned(),
            case: "safetensors".to_owned(),
            samples,
            unit: Unit::Times,
            target: Target::AtMost(1.0),
            note: race.times(),
        });
        remove(&path)?;
    }
    if bench.wants(&size) {
        let nbytes = std::fs::metadata(&bench.program)?.len();
        bench.add(Row {
            id: size,
            work: "size of the program".to_owned(),
            case: "all formats and features".to_owned(),
            samples: vec![nbytes as f64 / f64::from(1 << 20)],
            unit: Unit::MiB,
            target: Target::AtMost(12.0),
            note: String::new(),
        });
    }
    Ok(())
}

fn process(program: &OsStr, args: &[&OsStr]) -> Result<f64> {
    seconds(|| {
        let status = Command::new(program).args(args).stdout(Stdio::null()).status()?;
        ensure(status.success(), || format!("{program:?}: {status}"))
    })
}
