//! Writes a [`Model`] as GGUF: with our writer, and by hand what that cannot write.

use modelfmt_core::Execution;
use modelfmt_core::value::Value;
use modelfmt_gguf::{ArrayBuf, MetaValue, Metadata, Plan, ValueType, WriteOptions};

use super::model::Model;
use super::writers::written;

/// Returns the options that bits 0 and 1 of `flags` choose: the alignment.
pub(crate) fn options(flags: u8) -> WriteOptions {
    match flags & 3 {
        0 => WriteOptions::new(),
        1 => WriteOptions::new().alignment(1),
        2 => WriteOptions::new().alignment(8),
        _ => WriteOptions::new().alignment(256),
    }
}

/// Writes with our writer.
pub(crate) fn write(model: &Model, flags: u8, work: &Execution<'_>) -> Option<Vec<u8>> {
    let plan = Plan::new(model.specs.iter().cloned(), &metadata(model), &options(flags));
    let (plan, bytes) = written(plan, |plan, file| plan.write(&model.values, file, work))?;
    assert_eq!(bytes.len() as u64, plan.file_len());
    Some(bytes)
}

/// Returns the model's metadata in values of every type.
pub(crate) fn metadata(model: &Model) -> Metadata {
    let mut metadata = Metadata::new();
    for (key, value) in model.metadata.iter() {
        with(value, &mut |value| metadata.push(key, value).expect("keys of an object are unique"));
    }
    metadata
}

/// Calls `take` with the GGUF value that represents `value`.
fn with(value: &Value, take: &mut dyn FnMut(MetaValue<'_>)) {
    match value {
        Value::Null => take(MetaValue::U16(7)),
        Value::Bool(b) => take(MetaValue::Bool(*b)),
        Value::Int(n) => {
            let n = n.as_i64().unwrap_or(-1);
            take(match n.rem_euclid(8) {
                0 => MetaValue::I64(n),
                1 => MetaValue::U64(n as u64),
                2 => MetaValue::I32(n as i32),
                3 => MetaValue::U32(n as u32),
                4 => MetaValue::I16(n as i16),
                5 => MetaValue::U16(n as u16),
                6 => MetaValue::I8(n as i8),
                _ => MetaValue::U8(n as u8),
            });
        }
        Value::Float(x) if x.abs() < 1e6 => take(MetaValue::F32(*x as f32)),
        Value::Float(x) => take(MetaValue::F64(*x)),
        Value::String(text) => take(MetaValue::String(text)),
        Value::Bytes(_) => take(MetaValue::Bool(true)),
        Value::Array(list) => {
            let mut array = None;
            for member in list.iter() {
                with(&member, &mut |member| {
                    let array = array.get_or_insert_with(|| ArrayBuf::new(member.value_type()));
                    let _ = array.push(member); // one of another type than the first has no place
                });
            }
            take(array.unwrap_or_else(|| ArrayBuf::new(ValueType::U32)).as_value());
        }
        Value::Object(object) => {
            let mut array = ArrayBuf::new(ValueType::String);
            for key in object.keys() {
                array.push(MetaValue::String(key)).expect("text among text");
            }
            take(array.as_value());
        }
    }
}

/// Writes by hand: versions 2 and 3 (bit 0 of `flags`), big-endian (bit 7), and metadata of every type.
pub(crate) fn by_hand(model: &Model, flags: u8, _: &Execution<'_>) -> Option<Vec<u8>> {
    let mut out = Bytes { bytes: b"GGUF".to_vec(), is_big_endian: flags & 0x80 != 0 };
    out.put(&(if flags & 1 == 0 { 3u32 } else { 2 }).to_le_bytes());
    out.put(&(model.specs.len() as u64).to_le_bytes());
    out.put(&(model.metadata.len() as u64).to_le_bytes());
    for (number, key) in model.metadata.keys().enumerate() {
        out.text(key);
        let kind = (usize::from(flags >> 1 & 0x3f) + number) as u32 % 13;
        out.put(&kind.to_le_bytes());
        match kind {
            0 | 1 | 7 => out.put(&[1]),
            2 | 3 => out.put(&1u16.to_le_bytes()),
            4..=6 => out.put(&1u32.to_le_bytes()),
            8 => out.text(key),
            9 => {
                // An array of arrays, one of numbers and one of text.
                for (kind, count) in [(9u32, 2u64), (4, 1)] {
                    out.put(&kind.to_le_bytes());
                    out.put(&count.to_le_bytes());
                }
                out.put(&5u32.to_le_bytes());
                out.put(&8u32.to_le_bytes());
                out.put(&1u64.to_le_bytes());
                out.text(key);
            }
            _ => out.put(&1u64.to_le_bytes()),
        }
    }
    let mut offset = 0u64;
    for (spec, values) in model.specs.iter().zip(&model.values) {
        out.text(&spec.name);
        out.put(&(spec.shape.len() as u32).to_le_bytes());
        spec.shape.iter().rev().for_each(|dim| out.put(&dim.to_le_bytes()));
        out.put(&spec.dtype.ggml_type()?.to_le_bytes());
        out.put(&offset.to_le_bytes());
        offset += (values.len() as u64).next_multiple_of(32);
    }
    let mut out = out.bytes;
    for values in &model.values {
        out.resize(out.len().next_multiple_of(32), 0);
        out.extend(values);
    }
    Some(out)
}

struct Bytes {
    bytes: Vec<u8>,
    is_big_endian: bool,
}

impl Bytes {
    /// Writes a number that is given in little-endian bytes.
    fn put(&mut self, number: &[u8]) {
        if self.is_big_endian {
            self.bytes.extend(number.iter().rev());
        } else {
            self.bytes.extend(number);
        }
    }

    fn text(&mut self, text: &str) {
        self.put(&(text.len() as u64).to_le_bytes());
        self.bytes.extend(text.as_bytes());
    }
}
