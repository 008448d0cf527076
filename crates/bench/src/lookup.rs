//! Reads one tensor of a large file, starting from the file's path.

use std::hint::black_box;
use std::path::Path;

use modelfmt_core::source::FileSource;
use modelfmt_core::{DType, Source};
use safetensors_oracle::SafeTensors;
use testkit::CountingSource;

use crate::data::{FORMS, Form, Noise, Tensors, Values, matrix, norm};
use crate::map::map;
use crate::race::{race, seconds};
use crate::report::{Row, Target, Unit};
use crate::{Bench, Result, ensure};

/// The number of layers, with two tensors each.
const LAYERS: u64 = 512;
/// The layer that is read; all others are holes of a sparse file.
const LAYER: u64 = 300;

const GROUPS: [&str; 3] = ["lookup", "lookup-bytes", "lookup-large"];

/// Opens files of 1,024 tensors by their path and reads one tensor.
pub(crate) fn run(bench: &mut Bench) -> Result {
    let wanted = |form: &Form| GROUPS.iter().any(|group| bench.wants(&format!("{group}/{}", form.name())));
    let wanted: Vec<Form> = FORMS.into_iter().filter(wanted).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let tensors = Tensors::layers(DType::F32, LAYERS, bench.sizes.lookup_mib << 20);
    let layer = LAYER as usize * 2;
    let noise = Noise::only(Values::F32, [layer, layer + 1]);
    let other = bench.file("lookup.safetensors");
    tensors.to_file(Form::Safetensors, &noise, &other)?;
    for form in wanted {
        let path = bench.file("lookup");
        tensors.to_file(form, &noise, &path)?;
        for (group, name, target) in
            [("lookup", norm(LAYER), Target::AtLeast(10.0)), ("lookup-large", matrix(LAYER), Target::None)]
        {
            if bench.wants(&format!("{group}/{}", form.name())) {
                bench.add(faster(bench, group, form, &path, &other, &name, target)?);
            }
        }
        if bench.wants(&format!("lookup-bytes/{}", form.name())) {
            bench.add(bytes_read(form, &path, &tensors)?);
        }
        crate::remove(&path)?;
    }
    crate::remove(&other)
}

fn faster(
    bench: &Bench,
    group: &str,
    form: Form,
    path: &Path,
    other: &Path,
    name: &str,
    target: Target,
) -> Result<Row> {
    let values = {
        let map = map(other)?;
        SafeTensors::deserialize(&map)?.tensor(name)?.data().to_vec()
    };
    ensure(read(form, FileSource::open(path)?, name)? == values.len(), || format!("{name} is not whole"))?;
    let model = modelfmt::Model::open(path)?;
    ensure(*model.tensor(name)?.bytes() == *values, || format!("{name} is not the same"))?;
    let race = race(
        bench.rounds(31),
        || seconds(|| read(form, FileSource::open(path)?, name)),
        || {
            seconds(|| {
                let map = map(other)?;
                let model = SafeTensors::deserialize(&map)?;
                let data = model.tensor(name)?.data();
                // Mapping reads nothing yet: reading a byte of each page loads them all.
                black_box(data.iter().step_by(4096).fold(0, |sum: u8, byte| sum.wrapping_add(*byte)));
                std::mem::forget(model); // a reader of ours is dropped in the time, which is a few vectors; this would be many
                Ok(map)
            })
        },
    )?;
    let size = (values.len() >> 10).to_string();
    Ok(Row {
        id: format!("{group}/{}", form.name()),
        work: format!(
            "open a file of {} GiB and {} tensors by its path and read one of {size} KiB: faster than `SafeTensors` over a map",
            bench.sizes.lookup_mib as f64 / 1024.0,
            LAYERS * 2,
        ),
        case: form.format().to_owned(),
        samples: race.speedups(),
        unit: Unit::Times,
        target,
        note: race.times(),
    })
}

/// Counts the bytes that are read in addition to the index and the tensor.
fn bytes_read(form: Form, path: &Path, tensors: &Tensors) -> Result<Row> {
    let source = CountingSource::new(FileSource::open(path)?);
    // Everything except values: header, records or chunks, padding.
    let index = source.len() - tensors.nbytes();
    let tensor = read(form, &source, &norm(LAYER))? as u64;
    let beyond = source.nbytes() as f64 - index as f64 - tensor as f64;
    Ok(Row {
        id: format!("lookup-bytes/{}", form.name()),
        work: "bytes that this reads beyond the index and the tensor".to_owned(),
        case: form.format().to_owned(),
        samples: vec![beyond / 1024.0],
        unit: Unit::KiB,
        target: Target::AtMost(64.0),
        note: format!("{} reads, {} bytes; index {index}, tensor {tensor}", source.reads(), source.nbytes()),
    })
}

macro_rules! read {
    ($format:ident, $source:ident, $name:ident) => {{
        let reader = $format::Reader::from_source($source)?;
        let tensor = reader.tensor($name)?;
        black_box(tensor.bytes()).len()
    }};
}

/// Opens a source and reads one tensor. Returns the length of the tensor.
fn read(form: Form, source: impl Source, name: &str) -> Result<usize> {
    Ok(match form {
        Form::Apr => read!(apr, source, name),
        Form::Apr2 | Form::Apr2Lz4 => read!(apr2, source, name),
        Form::Mag => read!(mag, source, name),
        Form::Oinf => read!(oinf, source, name),
        Form::Aero | Form::AeroAll => read!(aero, source, name),
        Form::Safetensors => read!(modelfmt_safetensors, source, name),
    })
}
