//! OINF 1 and 2.

use serde_json::{Map, Value, json};

use super::{Input, Model, Tensor, float, nbytes, part};

/// The numeric types, from number 1 on, with the size of a number in bytes.
const TYPES: [(&str, u64); 12] = [
    ("i8", 1),
    ("i16", 2),
    ("i32", 4),
    ("i64", 8),
    ("u8", 1),
    ("u16", 2),
    ("u32", 4),
    ("u64", 8),
    ("f16", 2),
    ("f32", 4),
    ("f64", 8),
    ("bool", 1),
];

/// Name and number of bits of the types from 16 on.
const LATER: [(&str, u64); 10] = [
    ("bf16", 16),
    ("f8_e5m2", 8),
    ("i4", 4),
    ("i2", 2),
    ("i1", 1),
    ("u4", 4),
    ("u2", 2),
    ("u1", 1),
    ("t2", 2),
    ("t1", 1),
];

pub(super) fn read(file: &[u8]) -> Option<Model> {
    let mut input = Input::new(file, 0);
    if input.bytes(5)? != b"OINF\0" {
        return None;
    }
    let version = input.u32()?;
    if !(1..=2).contains(&version) || input.u32()? != 0 {
        return None;
    }
    let (_sizevars, entries, tensors) = (input.u32()?, input.u32()?, input.u32()?);
    let _reserved = input.u32()?;
    let (_at_sizevars, at_entries, at_tensors) = (input.u64()?, input.u64()?, input.u64()?);
    let metadata: Map<String, Value> =
        Input::new(file, at_entries).list(entries.into(), entry)?.into_iter().collect();
    let tensors = Input::new(file, at_tensors).list(tensors.into(), |input| tensor(input, version))?;
    Some(Model { tensors, metadata: Some(metadata.into()), checksums_hold: true })
}

/// Reads text, and its padding to a multiple of 8 from its start.
fn text(input: &mut Input<'_>) -> Option<String> {
    let len = u64::from(input.u32()?);
    let text = input.text(len)?;
    input.bytes((4 + len).next_multiple_of(8) - 4 - len)?;
    Some(text)
}

fn entry(input: &mut Input<'_>) -> Option<(String, Value)> {
    let key = text(input)?;
    let (kind, _flags, nbytes, offset) = (input.u32()?, input.u32()?, input.u64()?, input.u64()?);
    let payload = part(input.file, offset, nbytes)?;
    Some((key, value(kind, payload)?))
}

fn value(kind: u32, payload: &[u8]) -> Option<Value> {
    let mut input = Input::new(payload, 0);
    Some(match kind {
        13 => {
            let (bits, bytes) = (input.u32()?, input.u32()?);
            let bytes = input.bytes(bytes.into())?;
            let bit = |at: u32| Some(bytes.get(at as usize / 8)? >> (at % 8) & 1 == 1);
            json!({"type": "bitset", "value": (0..bits).map(bit).collect::<Option<Vec<_>>>()?})
        }
        14 => json!({"type": "str", "value": text(&mut input)?}),
        15 => {
            let (element, rank) = (input.u32()?, input.u32()?);
            let shape = input.list(rank.into(), Input::u64)?;
            if let Some(&(name, bits)) = later(element) {
                let count = nbytes(&shape, 1, 1)?;
                let bytes = input.bytes(packed_nbytes(count, bits)?)?;
                let value: Vec<Value> = (0..count).map(|n| small(name, bits, code(bytes, n, bits))).collect();
                return Some(json!({"type": "ndarray", "dtype": name, "shape": shape, "value": value}));
            }
            let (name, size) = *TYPES.get((element as usize).checked_sub(1)?)?;
            let count = nbytes(&shape, 1, size)? / size;
            let value = input.list(count, |input| number(name, input))?;
            json!({"type": "ndarray", "dtype": name, "shape": shape, "value": value})
        }
        kind if later(kind).is_some() => {
            let &(name, bits) = later(kind)?;
            json!({"type": name, "value": small(name, bits, code(payload, 0, bits))})
        }
        kind => {
            let (name, _) = *TYPES.get((kind as usize).checked_sub(1)?)?;
            json!({"type": name, "value": number(name, &mut input)?})
        }
    })
}

/// Returns the type with a number from 16 on.
fn later(kind: u32) -> Option<&'static (&'static str, u64)> {
    LATER.get((kind as usize).checked_sub(16)?)
}

/// Returns the number of bytes that elements of some bits take. The number of bits may not fit 64 bits.
fn packed_nbytes(count: u64, bits: u64) -> Option<u64> {
    u64::try_from((u128::from(count) * u128::from(bits)).div_ceil(8)).ok()
}

/// Returns the bits of an element, read bit by bit.
fn code(bytes: &[u8], number: u64, bits: u64) -> u32 {
    let bit = |at: u64| u32::from(bytes[usize::try_from(at / 8).expect("an index")] >> (at % 8) & 1);
    (0..bits).fold(0, |code, n| code | bit(number * bits + n) << n)
}

/// Returns the number for which a code stands.
fn small(name: &str, bits: u64, code: u32) -> Value {
    let signed = i64::from(code) - if code >> (bits - 1) == 1 { 1 << bits } else { 0 };
    match name {
        "bf16" => float(f32::from_bits(code << 16).into()),
        // The code is the upper half of a binary16.
        "f8_e5m2" => float(half(u16::try_from(code << 8).expect("16 bits"))),
        "t1" => (2 * i64::from(code) - 1).into(),
        _ if name.starts_with('u') => code.into(),
        _ => signed.into(),
    }
}

fn number(name: &str, input: &mut Input<'_>) -> Option<Value> {
    Some(match name {
        "i8" => input.i8()?.into(),
        "i16" => input.i16()?.into(),
        "i32" => input.i32()?.into(),
        "i64" => input.i64()?.into(),
        "u8" => input.u8()?.into(),
        "u16" => input.u16()?.into(),
        "u32" => input.u32()?.into(),
        "u64" => input.u64()?.into(),
        "f16" => float(half(input.u16()?)),
        "f32" => float(input.f32()?.into()),
        "f64" => float(input.f64()?),
        _ => (input.u8()? != 0).into(),
    })
}

/// Returns the number for which an IEEE 754 binary16 stands.
fn half(bits: u16) -> f64 {
    let (exponent, mantissa) = (i32::from(bits >> 10 & 31), f64::from(bits & 0x3ff));
    let size = match exponent {
        0 => mantissa * 2f64.powi(-24),
        31 if mantissa == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (mantissa + 1024.0) * 2f64.powi(exponent - 25),
    };
    if bits >> 15 == 1 { -size } else { size }
}

fn tensor(input: &mut Input<'_>, version: u32) -> Option<Tensor> {
    let name = text(input)?;
    let (dtype, rank, flags) = (input.u32()?, input.u32()?, input.u32()?);
    let shape = input.list(rank.into(), Input::u64)?;
    let (dtype, implied) = match dtype.checked_sub(16) {
        Some(later) => {
            let &(dtype, bits) = LATER.get(later as usize)?;
            (dtype, packed_nbytes(nbytes(&shape, 1, 1)?, bits)?)
        }
        None => {
            let &(dtype, size) = TYPES.get((dtype as usize).checked_sub(1)?)?;
            (dtype, nbytes(&shape, 1, size)?)
        }
    };
    let (stored, offset) = (input.u64()?, input.u64()?);
    if version == 2 {
        let (quant_nbytes, quant_offset) = (input.u64()?, input.u64()?);
        if flags & 2 != 0 {
            part(input.file, quant_offset, quant_nbytes)?;
        }
    }
    let bytes = match flags & if version == 2 { !2 } else { !0 } {
        0 => None,
        1 if stored == implied => Some(part(input.file, offset, stored)?.to_vec()),
        _ => return None,
    };
    Some(Tensor { name, dtype: dtype.to_owned(), shape, bytes })
}
