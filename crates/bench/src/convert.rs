//! Converts a large safetensors file, compared with a flushed copy of it, or with the bare compressor.

use std::hint::black_box;
use std::path::Path;
use std::process::Command;

use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use modelfmt::convert::{Compression, PAGE_SIZE};
use modelfmt::convert::{ConvertOptions, Overwrite};
use modelfmt::{Execution, Format, Model, VerifyLevel};
use modelfmt_core::DType;
use modelfmt_write::Discard;

use crate::data::{Form, Noise, Tensors, Values};
use crate::map::map;
use crate::race::{on_threads, race, seconds};
use crate::report::{Row, Target, Unit};
use crate::{Bench, Result, ensure, remove, threads};

/// The number of values in an LZ4 block of APR2, and that one thread compresses at a time.
const BLOCK: usize = 64 << 10;
const PIECE: usize = 1 << 20;

/// The forms that are compared with a copy, and the target of each.
const COPIES: [(Form, f64); 5] =
    [(Form::Mag, 1.3), (Form::Oinf, 1.3), (Form::Apr2, 1.3), (Form::Aero, 1.4), (Form::AeroAll, 2.0)];

/// The values that are compared with the bare compressor.
const COMPRESSED: [(Values, &str, &str); 2] = [
    (Values::Pruned, "apr2-lz4-pruned", "APR2 LZ4, pruned f16"),
    (Values::F16, "apr2-lz4-f16", "APR2 LZ4, f16 that hardly compresses"),
];

/// Converts to every format.
pub(crate) fn run(bench: &mut Bench) -> Result {
    copies(bench)?;
    for (values, name, title) in COMPRESSED {
        compressed(bench, values, name, title)?;
    }
    Ok(())
}

/// Returns the format of a form, and the options that produce it.
pub(crate) fn options(form: Form) -> (Format, ConvertOptions) {
    let mut options = ConvertOptions::default();
    options.output.overwrite = Overwrite::Replace;
    let format = match form {
        Form::Safetensors => Format::Safetensors,
        Form::Mag => Format::Mag,
        Form::Oinf => Format::Oinf,
        Form::Apr => Format::Apr,
        Form::Apr2 => Format::Apr2,
        Form::Apr2Lz4 => {
            options.apr2.compress = Some(Compression::Lz4);
            Format::Apr2
        }
        Form::Aero => Format::Aero,
        Form::AeroAll => {
            options.aero.tensor_hashes = true;
            options.aero.page_hashes = Some(PAGE_SIZE);
            Format::Aero
        }
    };
    (format, options)
}

fn copies(bench: &mut Bench) -> Result {
    let ids = |form: Form| [format!("convert/{}", form.name()), format!("threads/convert-{}", form.name())];
    let wanted: Vec<_> =
        COPIES.into_iter().filter(|(form, _)| ids(*form).iter().any(|id| bench.wants(id))).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let source = bench.file("source.safetensors");
    let tensors = Tensors::layers(DType::F32, 32, bench.sizes.convert_mib << 20);
    tensors.to_file(Form::Safetensors, &Noise::new(Values::F32), &source)?;
    for (form, target) in wanted {
        let [id, threads_id] = ids(form);
        if bench.wants(&id) {
            bench.add(beside_copy(bench, id, form, &source, target)?);
        }
        // Writers of the other forms hash nothing.
        if matches!(form, Form::Aero | Form::AeroAll) && bench.wants(&threads_id) {
            let case = format!("convert to {}, written nowhere", form.title());
            threads::compare(bench, (threads_id, &case), 1.7, |threads| to_nowhere(form, &source, threads))?;
        }
    }
    remove(&source)
}

pub(crate) fn beside_copy(bench: &Bench, id: String, form: Form, source: &Path, target: f64) -> Result<Row> {
    let threads = bench.sizes.threads;
    let (out, copy) = (bench.file("converted"), bench.file("copied"));
    convert(form, source, &out, threads)?;
    same(source, &out)?;
    let race = race(
        bench.rounds(3),
        || {
            settle(&[&out, &copy])?;
            seconds(|| convert(form, source, &out, threads))
        },
        || {
            settle(&[&out, &copy])?;
            seconds(|| {
                succeed(Command::new("cp").arg("--reflink=never").args([source, &copy]))?;
                succeed(Command::new("sync").arg(&copy))
            })
        },
    )?;
    remove(&out)?;
    remove(&copy)?;
    Ok(Row {
        id,
        work: format!(
            "convert {} MiB of safetensors, flushed: time of `cp --reflink=never` and `sync` of the copy",
            bench.sizes.convert_mib
        ),
        case: form.title().to_owned(),
        samples: race.costs(),
        unit: Unit::Times,
        target: Target::AtMost(target),
        note: race.times(),
    })
}

fn compressed(bench: &mut Bench, values: Values, name: &str, title: &str) -> Result {
    let [id, nowhere, threads_id] =
        [format!("convert/{name}"), format!("convert-nowhere/{name}"), format!("threads/convert-{name}")];
    if ![&id, &nowhere, &threads_id].into_iter().any(|id| bench.wants(id)) {
        return Ok(());
    }
    let form = Form::Apr2Lz4;
    let (source, out) = (bench.file("source.safetensors"), bench.file("converted"));
    let tensors = Tensors::layers(DType::F16, 8, (bench.sizes.convert_mib << 20) / 4);
    tensors.to_file(Form::Safetensors, &Noise::new(values), &source)?;
    let threads = bench.sizes.threads;
    convert(form, &source, &out, threads)?;
    same(&source, &out)?;
    let bytes = map(&source)?;
    for (id, to_disk) in [(id, true), (nowhere, false)] {
        if !bench.wants(&id) {
            continue;
        }
        let race = race(
            bench.rounds(5),
            || {
                settle(&[&out])?;
                seconds(|| {
                    if to_disk {
                        convert(form, &source, &out, threads)
                    } else {
                        to_nowhere(form, &source, threads)
                    }
                })
            },
            || {
                seconds(|| {
                    compress(&bytes, threads);
                    Ok(())
                })
            },
        )?;
        let how = if to_disk { "flushed" } else { "written nowhere" };
        bench.add(Row {
            id,
            work: format!(
                "convert {} MiB of safetensors, {how}: speed of the bare LZ4 compressor on {threads} threads",
                bench.sizes.convert_mib / 4
            ),
            case: title.to_owned(),
            samples: race.speedups(),
            unit: Unit::Times,
            // Values that hardly compress are compressed faster than a disk can write them.
            target: if to_disk && values == Values::F16 { Target::None } else { Target::AtLeast(0.8) },
            note: race.times(),
        });
    }
    if bench.wants(&threads_id) {
        let case = format!("convert to {title}, written nowhere");
        threads::compare(bench, (threads_id, &case), 1.7, |threads| to_nowhere(form, &source, threads))?;
    }
    drop(bytes);
    remove(&out)?;
    remove(&source)
}

/// Converts by paths, as the program does.
fn convert(form: Form, source: &Path, out: &Path, threads: usize) -> Result {
    let (format, options) = options(form);
    let model = Model::open(source)?;
    modelfmt::Conversion::new(&model, out)
        .to(format)
        .options(&options)
        .execution(&Execution { threads, progress: None })
        .write()?;
    Ok(())
}

fn to_nowhere(form: Form, source: &Path, threads: usize) -> Result {
    let (format, options) = options(form);
    let model = Model::open(source)?;
    modelfmt::Conversion::to_format(&model, format)
        .options(&options)
        .execution(&Execution { threads, progress: None })
        .write_to_sink(&Discard::default())?;
    Ok(())
}

/// Checks that the output is valid and has the same content as the source.
pub(crate) fn same(source: &Path, out: &Path) -> Result {
    let (source, out) = (Model::open(source)?, Model::open(out)?);
    let report = out.verify(VerifyLevel::Full);
    ensure(report.is_ok(), || format!("the output does not verify: {report:?}"))?;
    let diff = modelfmt::diff::diff(&source, &out, &Execution::default())?;
    let same = diff.changed.is_empty() && diff.only_in_a.is_empty() && diff.only_in_b.is_empty();
    ensure(same && out.tensor_count() > 0, || "the output is not the source".to_owned())
}

/// Removes outputs and waits until earlier writes have finished. Then touches as much memory as the largest
/// output took: a virtual machine may have returned free memory, and getting it back would take longer than
/// the writing.
pub(crate) fn settle(outputs: &[&Path]) -> Result {
    let lens = outputs.iter().filter_map(|path| std::fs::metadata(path).ok());
    let most = lens.map(|found| found.len()).max().unwrap_or(0);
    outputs.iter().try_for_each(|path| remove(path))?;
    succeed(&mut Command::new("sync"))?;
    drop(black_box(vec![1_u8; usize::try_from(most)?]));
    Ok(())
}

pub(crate) fn succeed(command: &mut Command) -> Result {
    let status = command.status()?;
    ensure(status.success(), || format!("{command:?}: {status}"))
}

/// Runs the bare compressor over the same bytes, block by block.
fn compress(bytes: &[u8], threads: usize) {
    let pieces: Vec<_> = bytes.chunks(PIECE).collect();
    let state = || (vec![0; get_maximum_output_size(BLOCK)], CompressTable::large());
    on_threads(threads, pieces.len(), state, |(out, table), number| {
        for block in pieces[number].chunks(BLOCK) {
            let len = compress_into_with_table(block, out, table);
            assert!(black_box(len).is_ok(), "the output has room for any block");
        }
    });
}
