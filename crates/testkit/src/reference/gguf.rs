//! GGUF 2 and 3, in both byte orders.

use serde_json::{Map, Value};

use super::{Input, Model, Tensor, float, nbytes, part};

/// ggml's number of a type, its name, and how many elements take how many bytes.
const TYPES: [(u32, &str, u64, u64); 35] = [
    (0, "f32", 1, 4),
    (1, "f16", 1, 2),
    (2, "q4_0", 32, 18),
    (3, "q4_1", 32, 20),
    (6, "q5_0", 32, 22),
    (7, "q5_1", 32, 24),
    (8, "q8_0", 32, 34),
    (9, "q8_1", 32, 36),
    (10, "q2_k", 256, 84),
    (11, "q3_k", 256, 110),
    (12, "q4_k", 256, 144),
    (13, "q5_k", 256, 176),
    (14, "q6_k", 256, 210),
    (15, "q8_k", 256, 292),
    (16, "iq2_xxs", 256, 66),
    (17, "iq2_xs", 256, 74),
    (18, "iq3_xxs", 256, 98),
    (19, "iq1_s", 256, 50),
    (20, "iq4_nl", 32, 18),
    (21, "iq3_s", 256, 110),
    (22, "iq2_s", 256, 82),
    (23, "iq4_xs", 256, 136),
    (24, "i8", 1, 1),
    (25, "i16", 1, 2),
    (26, "i32", 1, 4),
    (27, "i64", 1, 8),
    (28, "f64", 1, 8),
    (29, "iq1_m", 256, 56),
    (30, "bf16", 1, 2),
    (34, "tq1_0", 256, 54),
    (35, "tq2_0", 256, 66),
    (39, "mxfp4", 32, 17),
    (40, "nvfp4", 64, 36),
    (41, "q1_0", 128, 18),
    (42, "q2_0", 64, 18),
];

/// Returns the name of the type with this number in ggml, and how many elements take how many bytes.
pub(super) fn ggml_type(number: u64) -> Option<(&'static str, u64, u64)> {
    let found = TYPES.iter().find(|(n, ..)| u64::from(*n) == number);
    found.map(|&(_, name, elements, bytes)| (name, elements, bytes))
}

pub(super) fn read(file: &[u8]) -> Option<Model> {
    let mut input = Input::new(file, 0);
    if input.bytes(4)? != b"GGUF" {
        return None;
    }
    match input.u32()?.to_le_bytes() {
        [2 | 3, 0, 0, 0] => {}
        [0, 0, 0, 2 | 3] => input.is_big_endian = true,
        _ => return None,
    }
    let (tensors, entries) = (input.u64()?, input.u64()?);
    let metadata: Map<String, Value> = input.list(entries, entry)?.into_iter().collect();
    let tensors = input.list(tensors, record)?;
    let is_big_endian = input.is_big_endian;
    let alignment = metadata.get("general.alignment").map_or(Some(32), Value::as_u64)?;
    let data = input.at.div_ceil(alignment) * alignment;
    let tensor = |Record { name, kind, shape, offset }: Record| {
        let (dtype, elements, bytes) = ggml_type(kind.into())?;
        let mut values = part(file, data.checked_add(offset)?, nbytes(&shape, elements, bytes)?)?.to_vec();
        if is_big_endian {
            if elements > 1 {
                return None; // no tool says how blocks would be turned around
            }
            values.chunks_mut(usize::try_from(bytes).ok()?).for_each(<[u8]>::reverse);
        }
        Some(Tensor { name, dtype: dtype.to_owned(), shape, bytes: Some(values) })
    };
    let tensors = tensors.into_iter().map(tensor).collect::<Option<_>>()?;
    Some(Model { tensors, metadata: Some(metadata.into()), checksums_hold: true })
}

fn text(input: &mut Input<'_>) -> Option<String> {
    let len = input.u64()?;
    input.text(len)
}

fn entry(input: &mut Input<'_>) -> Option<(String, Value)> {
    let (key, kind) = (text(input)?, input.u32()?);
    Some((key, value(kind, input)?))
}

fn value(kind: u32, input: &mut Input<'_>) -> Option<Value> {
    Some(match kind {
        0 => input.u8()?.into(),
        1 => input.i8()?.into(),
        2 => input.u16()?.into(),
        3 => input.i16()?.into(),
        4 => input.u32()?.into(),
        5 => input.i32()?.into(),
        6 => float(input.f32()?.into()),
        7 => (input.u8()? != 0).into(),
        8 => {
            let len = input.u64()?;
            String::from_utf8_lossy(input.bytes(len)?).into_owned().into() // only names have to be UTF-8
        }
        9 => {
            let (kind, len) = (input.u32()?, input.u64()?);
            input.list(len, |input| value(kind, input))?.into()
        }
        10 => input.u64()?.into(),
        11 => input.i64()?.into(),
        12 => float(input.f64()?),
        _ => return None,
    })
}

struct Record {
    name: String,
    kind: u32,
    shape: Vec<u64>,
    offset: u64,
}

fn record(input: &mut Input<'_>) -> Option<Record> {
    let (name, rank) = (text(input)?, input.u32()?);
    let mut shape = input.list(rank.into(), Input::u64)?;
    shape.reverse(); // the fastest dimension stands first in the file
    Some(Record { name, kind: input.u32()?, shape, offset: input.u64()? })
}
