//! Converts a large file that has hashes or a checksum of its values, with and without checking them.

use std::path::Path;

use modelfmt::convert::{ConvertOptions, Overwrite};
use modelfmt::{Execution, Format, Model};
use modelfmt_core::DType;
use modelfmt_write::Discard;

use crate::convert::{same, settle};
use crate::data::{Form, Noise, Tensors, Values};
use crate::race::{race, seconds};
use crate::report::{Row, Target, Unit};
use crate::{Bench, Result, remove};

/// Forms with digests of their values, and the values.
const SOURCES: [(Form, Values, DType); 4] = [
    (Form::Aero, Values::F32, DType::F32),
    (Form::AeroAll, Values::F32, DType::F32),
    (Form::Apr2, Values::F32, DType::F32),
    (Form::Apr2Lz4, Values::Pruned, DType::F16),
];

/// Converts to safetensors, whose writer hashes nothing.
pub(crate) fn run(bench: &mut Bench) -> Result {
    for (form, values, dtype) in SOURCES {
        let ids =
            ["convert-checked", "convert-checked-nowhere"].map(|group| format!("{group}/{}", form.name()));
        if !ids.iter().any(|id| bench.wants(id)) {
            continue;
        }
        let (source, out) = (bench.file("source"), bench.file("converted"));
        let mib = if form == Form::Apr2Lz4 { bench.sizes.convert_mib / 4 } else { bench.sizes.convert_mib };
        Tensors::layers(dtype, 32, mib << 20).to_file(form, &Noise::new(values), &source)?;
        let threads = bench.sizes.threads;
        convert(&source, Some(&out), true, threads)?;
        same(&source, &out)?;
        // A disk hides the cost of the check, so the other row shows the processor time.
        for (id, to_disk) in ids.into_iter().zip([true, false]) {
            if !bench.wants(&id) {
                continue;
            }
            let one = |verify| {
                settle(&[&out])?;
                seconds(|| convert(&source, to_disk.then_some(&*out), verify, threads))
            };
            let race = race(bench.rounds(if to_disk { 5 } else { 7 }), || one(true), || one(false))?;
            let how = if to_disk { "flushed" } else { "written nowhere" };
            bench.add(Row {
                id,
                work: format!(
                    "convert {} MiB to safetensors, checked by the file's own digests, {how}: time of the same unchecked",
                    mib
                ),
                case: form.title().to_owned(),
                samples: race.costs(),
                unit: Unit::Times,
                target: if to_disk { Target::AtMost(1.1) } else { Target::None },
                note: race.times(),
            });
        }
        remove(&out)?;
        remove(&source)?;
    }
    Ok(())
}

/// Converts by paths, as the program does; without `out`, into a sink that discards everything.
fn convert(source: &Path, out: Option<&Path>, verify: bool, threads: usize) -> Result {
    let mut options = ConvertOptions::default();
    (options.output.overwrite, options.no_verify, options.metadata.lossy) =
        (Overwrite::Replace, !verify, true);
    let (model, work) = (Model::open(source)?, Execution { threads, progress: None });
    match out {
        Some(out) => modelfmt::Conversion::new(&model, out)
            .to(Format::Safetensors)
            .options(&options)
            .execution(&work)
            .write()?,
        None => modelfmt::Conversion::to_format(&model, Format::Safetensors)
            .options(&options)
            .execution(&work)
            .write_to_sink(&Discard::default())?,
    };
    Ok(())
}
