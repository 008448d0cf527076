//! Quantizing and decoding, on one core, beside copying as many values.

use std::hint::black_box;

use modelfmt_core::DType;
use modelfmt_core::write::TensorData;

use crate::data::{Noise, Values};
use crate::race::{Race, race, seconds};
use crate::report::{Row, Target, Unit};
use crate::{Bench, Result, ensure};

/// The types, and how far a value between −1 and 1 may be off.
const TYPES: [(DType, f32); 2] = [(DType::Q8_0, 0.005), (DType::Q4_0, 0.13)];

/// Both ways for each type.
pub(crate) fn run(bench: &mut Bench) -> Result {
    let ids = |dtype: DType| [format!("quant/encode-{dtype}"), format!("quant/decode-{dtype}")];
    if !TYPES.iter().any(|(dtype, _)| ids(*dtype).iter().any(|id| bench.wants(id))) {
        return Ok(());
    }
    let mut values = vec![0.0; (bench.sizes.quant_mib << 20) / size_of::<f32>()];
    Noise::new(Values::F32).read(0, 0, bytemuck::cast_slice_mut(&mut values))?;
    let mut out = values.clone(); // warm memory
    for (dtype, tolerance) in TYPES {
        let [encode_id, decode_id] = ids(dtype);
        let nbytes = dtype.nbytes(&[values.len() as u64]).ok_or("whole blocks")?;
        let mut blocks = vec![0; nbytes as usize];
        ggml_quant::encode(dtype, &values, &mut blocks)?;
        ggml_quant::decode(dtype, &blocks, &mut out)?;
        let off = values.iter().zip(&out).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        ensure(off > 0.0 && off <= tolerance, || format!("{dtype} is off by {off}"))?;
        if bench.wants(&encode_id) {
            let encode =
                |blocks: &mut Vec<u8>| seconds(|| Ok(ggml_quant::encode(dtype, &values, black_box(blocks))?));
            let race = race(bench.rounds(15), || encode(&mut blocks), || copy(&values, &mut out))?;
            bench.add(Row {
                id: encode_id,
                work: format!("quantize {} MiB of f32 on one core", bench.sizes.quant_mib),
                case: dtype.to_string(),
                samples: race.rates(size_of_val(&values[..])),
                unit: Unit::GBps,
                target: Target::AtLeast(1.0),
                note: times(&race),
            });
        }
        if bench.wants(&decode_id) {
            let mut copied = values.clone();
            let decode =
                |out: &mut Vec<f32>| seconds(|| Ok(ggml_quant::decode(dtype, &blocks, black_box(out))?));
            let race = race(bench.rounds(15), || decode(&mut out), || copy(&values, &mut copied))?;
            bench.add(Row {
                id: decode_id,
                work: format!("decode to {} MiB of f32 on one core: speed of memcpy", bench.sizes.quant_mib),
                case: dtype.to_string(),
                samples: race.speedups(),
                unit: Unit::Times,
                target: Target::AtLeast(0.5),
                note: times(&race),
            });
        }
    }
    Ok(())
}

fn times(race: &Race) -> String {
    race.times().replace("other", "memcpy")
}

/// Copies into memory that is warm.
fn copy(values: &[f32], out: &mut [f32]) -> Result<f64> {
    seconds(|| {
        black_box(&mut *out).copy_from_slice(black_box(values));
        Ok(())
    })
}
