//! Opens models with very many tensors, and measures the memory of their indexes.

use std::ffi::OsStr;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;

use modelfmt_core::Container;
use safetensors_oracle::SafeTensors;

use crate::data::{FORMS, Form, Noise, Tensors, Values};
use crate::plot::{Axis, Curve, Plot};
use crate::race::{Race, race, seconds};
use crate::report::{Row, Target, Unit};
use crate::{Bench, Result, ensure};

/// A number of tensors, with its targets.
struct Scale {
    group: &'static str,
    tensors: usize,
    rounds: usize,
    target: f64,
    /// The target for indexes that have a name for each field.
    text_target: f64,
}

/// Opens models from memory: the index with its checks, the name table, and one lookup by name.
pub(crate) fn run(bench: &mut Bench) -> Result {
    let sizes = &bench.sizes;
    let few =
        Scale { group: "open", tensors: sizes.open_tensors, rounds: 15, target: 12.0, text_target: 8.0 };
    let many =
        Scale { group: "open-many", tensors: sizes.many_tensors, rounds: 5, target: 8.0, text_target: 8.0 };
    for scale in [few, many] {
        let wanted: Vec<Form> = FORMS
            .into_iter()
            .chain([Form::Safetensors])
            .filter(|form| bench.wants(&format!("{}/{}", scale.group, form.name())))
            .collect();
        if wanted.is_empty() {
            continue;
        }
        let tensors = Tensors::many(scale.tensors);
        let noise = Noise::new(Values::F32);
        let other = tensors.to_memory(Form::Safetensors, &noise)?;
        for form in wanted {
            let ours = tensors.to_memory(form, &noise)?;
            bench.add(row(bench, &scale, form, &ours, &other, &tensors)?);
        }
    }
    curves(bench)?;
    growth(bench)?;
    heap(bench)
}

/// Measures how much longer each tensor takes if there are ten times as many.
fn growth(bench: &mut Bench) -> Result {
    for form in [Form::Mag, Form::Apr2, Form::Safetensors] {
        let id = format!("growth/{}", form.name());
        if !bench.wants(&id) {
            continue;
        }
        let noise = Noise::new(Values::F32);
        // Readers of safetensors accept headers of 100 MB, which is little more than a million tensors.
        let share = if form == Form::Safetensors { 10 } else { 1 };
        let many = Tensors::many(bench.sizes.many_tensors / share);
        let most = Tensors::many(many.len() * 10);
        let (fewer, more) = (many.to_memory(form, &noise)?, most.to_memory(form, &noise)?);
        let name = most.name(many.len() / 2);
        let race = race(
            bench.rounds(5),
            || seconds(|| open(form, &more, name)),
            || seconds(|| open(form, &fewer, name)),
        )?;
        bench.add(Row {
            id,
            work: format!(
                "open and index {} tensors in memory: time for each, of that with {}",
                crate::grouped(most.len()),
                crate::grouped(many.len())
            ),
            case: form.format().to_owned(),
            samples: race.each(|most, many| most / many / 10.0),
            unit: Unit::Times,
            target: Target::AtMost(1.3),
            note: race.times(),
        });
    }
    Ok(())
}

/// Measures opening for few to many tensors, for the plot; safetensors with both readers.
fn curves(bench: &mut Bench) -> Result {
    if !bench.wants("curve") {
        return Ok(());
    }
    let most = bench.sizes.many_tensors;
    let counts: Vec<usize> =
        [1000, 100, 10, 1].map(|share| most / share).into_iter().filter(|&n| n > 0).collect();
    let mut other_curve = Curve { name: "safetensors crate", points: Vec::new() };
    for (form, name) in
        [(Form::Safetensors, "safetensors, ours"), (Form::Aero, "AERO, ours"), (Form::Apr2, "APR2, ours")]
    {
        let mut curve = Curve { name, points: Vec::new() };
        for &count in &counts {
            let (tensors, noise) = (Tensors::many(count), Noise::new(Values::F32));
            let (ours, other) =
                (tensors.to_memory(form, &noise)?, tensors.to_memory(Form::Safetensors, &noise)?);
            same_tensors(&*open(form, &ours, tensors.name(0))?, &SafeTensors::deserialize(&other)?)?;
            let race = beside(bench.rounds(7), form, &ours, &other, tensors.name(count / 2))?;
            // Uses the fastest rounds: the plot shows times, and other work on the machine can only make
            // these longer.
            let [our_time, other_time] = race.spreads();
            curve.points.push((count as f64, our_time.min));
            if form == Form::Safetensors {
                other_curve.points.push((count as f64, other_time.min));
            }
            bench.add(Row {
                id: format!("curve/{}-{count}", form.name()),
                work: "the plot: open in memory and one by name: faster than `SafeTensors::deserialize`"
                    .to_owned(),
                case: format!("{}, {} tensors", form.format(), crate::grouped(count)),
                samples: race.speedups(),
                unit: Unit::Times,
                target: Target::None,
                note: race.times(),
            });
        }
        bench.curves.push(curve);
    }
    bench.curves.insert(0, other_curve);
    Ok(())
}

/// Draws the plot of the README.
pub(crate) fn plot(curves: &[Curve]) -> String {
    let title = "time to open a file in memory and find one tensor, over the number of tensors";
    Plot { title, x: Axis::Tensors, y: Axis::Seconds, curves }.svg()
}

/// Times opening a file and finding a tensor with our reader, and the same with the crate safetensors.
fn beside(rounds: usize, form: Form, ours: &[u8], other: &[u8], name: &str) -> Result<Race> {
    race(
        rounds,
        || seconds(|| open(form, ours, name)),
        || {
            seconds(|| {
                let model = SafeTensors::deserialize(other)?;
                black_box(model.tensor(name)?.data().len());
                Ok(model)
            })
        },
    )
}

fn row(
    bench: &Bench,
    scale: &Scale,
    form: Form,
    ours: &[u8],
    other: &[u8],
    tensors: &Tensors,
) -> Result<Row> {
    same_tensors(&*open(form, ours, tensors.name(0))?, &SafeTensors::deserialize(other)?)?;
    let name = tensors.name(tensors.len() / 2);
    let race = beside(bench.rounds(scale.rounds), form, ours, other, name)?;
    let has_names = matches!(form, Form::Aero | Form::Safetensors);
    let target = if has_names { scale.text_target } else { scale.target };
    Ok(Row {
        id: format!("{}/{}", scale.group, form.name()),
        work: format!(
            "open and index {} tensors in memory, one by name: faster than `SafeTensors::deserialize`",
            crate::grouped(scale.tensors)
        ),
        case: if form == Form::Aero { "AERO, TIDX plain" } else { form.format() }.to_owned(),
        samples: race.speedups(),
        unit: Unit::Times,
        target: Target::AtLeast(target),
        note: race.times(),
    })
}

macro_rules! reader {
    ($format:ident, $bytes:ident, $name:ident) => {{
        let reader = $format::Reader::from_source($bytes)?;
        black_box(reader.tensor($name)?.bytes().len());
        Box::new(reader)
    }};
}

/// Opens a file in memory and finds one tensor.
fn open<'a>(form: Form, bytes: &'a [u8], name: &str) -> Result<Box<dyn Container + 'a>> {
    Ok(match form {
        Form::Apr => reader!(apr, bytes, name),
        Form::Apr2 | Form::Apr2Lz4 => reader!(apr2, bytes, name),
        Form::Mag => reader!(mag, bytes, name),
        Form::Oinf => reader!(oinf, bytes, name),
        Form::Aero | Form::AeroAll => reader!(aero, bytes, name),
        Form::Safetensors => reader!(modelfmt_safetensors, bytes, name),
    })
}

/// Checks that both found the same tensors with the same values.
fn same_tensors(ours: &dyn Container, other: &SafeTensors<'_>) -> Result {
    ensure(ours.tensor_count() == other.len(), || {
        format!("we found {} tensors, safetensors {}", ours.tensor_count(), other.len())
    })?;
    for (name, view) in other.iter() {
        let Some((position, info)) = ours.find(name).and_then(|at| Some((at, ours.info(at)?))) else {
            return Err(format!("we did not find {name}").into());
        };
        let shape = info.shape.iter().map(|&dim| dim as usize).eq(view.shape().iter().copied());
        let same = info.name == name && shape && *ours.read(position)? == *view.data();
        ensure(same, || format!("{name} is not the same"))?;
    }
    Ok(())
}

/// Measures the heap of an index.
fn heap(bench: &mut Bench) -> Result {
    let path = bench.file("heap");
    for form in FORMS {
        let id = format!("heap/{}", form.name());
        if !bench.wants(&id) {
            continue;
        }
        let tensors = Tensors::many(bench.sizes.many_tensors);
        std::fs::write(&path, tensors.to_memory(form, &Noise::new(Values::F32))?)?;
        let [held, peak] = measured(&bench.heap, &["open".as_ref(), form.name().as_ref(), path.as_os_str()])?;
        let mib = |nbytes: f64| nbytes / f64::from(1 << 20);
        // The target is for a million tensors; for fewer it is proportionally smaller.
        let share = tensors.len() as f64 / 1e6;
        bench.add(Row {
            id,
            work: format!(
                "heap that the index of {} tensors holds, with names of 20 bytes and rank 2",
                crate::grouped(tensors.len())
            ),
            case: form.format().to_owned(),
            samples: vec![mib(held)],
            unit: Unit::MiB,
            target: Target::AtMost(if form == Form::Aero { 270.0 } else { 100.0 } * share),
            note: format!("{:.1} MiB at most while it opens", mib(peak)),
        });
    }
    crate::remove(&path)
}

/// Returns the numbers that the program for measuring memory prints.
pub(crate) fn measured<const N: usize>(program: &Path, args: &[&OsStr]) -> Result<[f64; N]> {
    let output = Command::new(program).args(args).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let numbers = numbers.try_into();
    numbers.map_err(|_| format!("{args:?}: {text}{}", String::from_utf8_lossy(&output.stderr)).into())
}
