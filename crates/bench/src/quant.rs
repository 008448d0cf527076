//! Quantizes and decodes on one core, compared with copying as many values.

use std::hint::black_box;

use modelfmt::convert::TypeRule;
use modelfmt::{Conversion, Execution, Format, Model};
use modelfmt_core::DType;
use modelfmt_write::{Discard, TensorData};

use crate::data::{Form, Noise, Tensors, Values};
use crate::race::{Race, race, seconds};
use crate::report::{Row, Target, Unit};
use crate::{Bench, Result, ensure, threads};

/// The types that are measured both ways, and the largest error of a value between −1 and 1.
const ENCODED: [(DType, f32); 2] = [(DType::Q8_0, 0.005), (DType::Q4_0, 0.13)];

/// The types whose encoders search for scales, with the function by which llama.cpp quantizes rows. The
/// functions that end in `_ref` are not always as thorough: that of IQ4_NL tries one scale for a block
/// instead of 16.
const SEARCHED: [(DType, &str); 7] = [
    (DType::Q2K, "quantize_q2_K"),
    (DType::Q3K, "quantize_q3_K"),
    (DType::Iq4Nl, "quantize_iq4_nl"),
    (DType::Iq4Xs, "quantize_iq4_xs"),
    (DType::Q4K, "quantize_q4_K"),
    (DType::Q5K, "quantize_q5_K"),
    (DType::Q6K, "quantize_q6_K"),
];

/// The types whose encoders are compared on one and on several threads.
const THREADED: [DType; 4] = [DType::Q2K, DType::Q3K, DType::Iq4Nl, DType::Iq4Xs];

/// Types whose blocks need only arithmetic or a short table, and must be as fast as [`ENCODED`].
const SIMPLE: [DType; 11] = [
    DType::Q4K,
    DType::Q5K,
    DType::Q6K,
    DType::Tq1_0,
    DType::Tq2_0,
    DType::Mxfp4,
    DType::Nvfp4,
    DType::Q1_0,
    DType::Q2_0,
    DType::Iq4Nl,
    DType::Iq4Xs,
];

/// Types whose elements come from tables of up to 16 KiB.
const GRIDS: [DType; 7] =
    [DType::Iq2Xxs, DType::Iq2Xs, DType::Iq2S, DType::Iq3Xxs, DType::Iq3S, DType::Iq1S, DType::Iq1M];

fn encode_id(dtype: DType) -> String {
    format!("quant/encode-{dtype}")
}

fn decode_id(dtype: DType) -> String {
    format!("quant/decode-{dtype}")
}

/// Measures encoding and decoding of each type.
pub(crate) fn run(bench: &mut Bench) -> Result {
    let ways = ENCODED.iter().flat_map(|&(dtype, _)| [encode_id(dtype), decode_id(dtype)]);
    searched(bench)?;
    on_threads(bench)?;
    let decoded = SIMPLE.iter().chain(&GRIDS).map(|&dtype| decode_id(dtype));
    if !ways.chain(decoded).any(|id| bench.wants(&id)) {
        return Ok(());
    }
    let mut values = vec![0.0; (bench.sizes.quant_mib << 20) / size_of::<f32>()];
    Noise::new(Values::F32).read(0, 0, bytemuck::cast_slice_mut(&mut values))?;
    let mut out = values.clone(); // warm memory
    for (dtype, tolerance) in ENCODED {
        let mut blocks = vec![0; nbytes(dtype, &values)?];
        ggml_quant::encode(dtype, &values, &mut blocks)?;
        ggml_quant::decode(dtype, &blocks, &mut out)?;
        let off = values.iter().zip(&out).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        ensure(off > 0.0 && off <= tolerance, || format!("{dtype} is off by {off}"))?;
        if bench.wants(&encode_id(dtype)) {
            let encode =
                |blocks: &mut Vec<u8>| seconds(|| Ok(ggml_quant::encode(dtype, &values, black_box(blocks))?));
            let race = race(bench.rounds(15), || encode(&mut blocks), || copy(&values, &mut out))?;
            bench.add(Row {
                id: encode_id(dtype),
                work: format!("quantize {} MiB of f32 on one core", bench.sizes.quant_mib),
                case: dtype.to_string(),
                samples: race.rates(size_of_val(&values[..])),
                unit: Unit::GBps,
                target: Target::AtLeast(1.0),
                note: times(&race),
            });
        }
        decode(bench, dtype, &blocks, &values, Target::AtLeast(0.5))?;
    }
    let targets = SIMPLE.map(|dtype| (dtype, Target::AtLeast(0.5)));
    for (dtype, target) in targets.into_iter().chain(GRIDS.map(|dtype| (dtype, Target::None))) {
        // Any bytes are valid blocks, and no decoder takes different paths for different bytes.
        let mut blocks = vec![0; nbytes(dtype, &values)?];
        Noise::new(Values::F32).read(0, 0, &mut blocks)?;
        decode(bench, dtype, &blocks, &values, target)?;
    }
    Ok(())
}

/// Compares encoders with those of ggml, compiled as in a release but with the vectors of this processor.
fn searched(bench: &mut Bench) -> Result {
    if !SEARCHED.iter().any(|&(dtype, _)| bench.wants(&encode_id(dtype))) {
        return Ok(());
    }
    let mut values = vec![0.0_f32; (bench.sizes.quant_mib << 20) / size_of::<f32>() / 8];
    Noise::new(Values::F32).read(0, 0, bytemuck::cast_slice_mut(&mut values))?;
    let file = bench.file("values.f32");
    std::fs::write(&file, bytemuck::cast_slice(&values))?;
    let library = testkit::ggml_library();
    let (library, path) = (library.to_string_lossy(), file.to_string_lossy());
    for (dtype, function) in SEARCHED {
        if !bench.wants(&encode_id(dtype)) {
            continue;
        }
        let mut blocks = vec![0; nbytes(dtype, &values)?];
        let ours = || seconds(|| Ok(ggml_quant::encode(dtype, &values, black_box(&mut blocks))?));
        let theirs = || {
            let printed = testkit::python(include_str!("quant.py"), &[&library, function, &path]);
            Ok(printed.trim().parse()?)
        };
        let race = race(bench.rounds(9), ours, theirs)?;
        bench.add(Row {
            id: encode_id(dtype),
            work: format!("quantize {} MiB of f32 on one core: speed of ggml's C", bench.sizes.quant_mib / 8),
            case: dtype.to_string(),
            samples: race.speedups(),
            unit: Unit::Times,
            target: Target::AtLeast(1.0),
            note: race.times().replace("other", "ggml"),
        });
    }
    crate::remove(&file)
}

/// Measures a conversion to blocks, discarded, on one and on several threads.
fn on_threads(bench: &mut Bench) -> Result {
    let id = |dtype: DType| format!("threads/quantize-{dtype}");
    if !THREADED.iter().any(|&dtype| bench.wants(&id(dtype))) {
        return Ok(());
    }
    let path = bench.file("quantized.safetensors");
    let (tensors, _) = Tensors::llama(DType::F16, (bench.sizes.quant_mib << 20) as u64);
    tensors.to_file(Form::Safetensors, &Noise::new(Values::F16), &path)?;
    for dtype in THREADED {
        if !bench.wants(&id(dtype)) {
            continue;
        }
        let work = |threads| {
            let model = Model::open(&path)?;
            let conversion = Conversion::to_format(&model, Format::Aero).rule(TypeRule::quantize(dtype));
            conversion.execution(&Execution { threads, progress: None }).write_to_sink(&Discard::default())?;
            Ok(())
        };
        threads::compare(
            bench,
            (id(dtype), &format!("quantize f16 to {dtype}, written nowhere")),
            1.8,
            work,
        )?;
    }
    crate::remove(&path)
}

fn nbytes(dtype: DType, values: &[f32]) -> Result<usize> {
    Ok(dtype.nbytes(&[values.len() as u64]).ok_or("whole blocks")? as usize)
}

/// Decodes blocks of as many elements as there are values, compared with a copy of the values.
fn decode(bench: &mut Bench, dtype: DType, blocks: &[u8], values: &[f32], target: Target) -> Result {
    if !bench.wants(&decode_id(dtype)) {
        return Ok(());
    }
    let (mut out, mut copied) = (values.to_vec(), values.to_vec());
    let ours = |out: &mut Vec<f32>| seconds(|| Ok(ggml_quant::decode(dtype, blocks, black_box(out))?));
    let race = race(bench.rounds(15), || ours(&mut out), || copy(values, &mut copied))?;
    bench.add(Row {
        id: decode_id(dtype),
        work: format!("decode to {} MiB of f32 on one core: speed of memcpy", bench.sizes.quant_mib),
        case: dtype.to_string(),
        samples: race.speedups(),
        unit: Unit::Times,
        target,
        note: times(&race),
    });
    Ok(())
}

fn times(race: &Race) -> String {
    race.times().replace("other", "memcpy")
}

/// Copies into warm memory.
fn copy(values: &[f32], out: &mut [f32]) -> Result<f64> {
    seconds(|| {
        black_box(&mut *out).copy_from_slice(black_box(values));
        Ok(())
    })
}
