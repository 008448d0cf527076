//! MAG 1, 0.1.0, 0.2.0 and 0.3.0.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{Input, Model, Tensor, float, members, nbytes, part};
use crate::patch::{crc32, crc32c};

/// Code, name, and size of an element in bytes. i32 has two codes.
const DTYPES: [(u32, &str, u64); 11] = [
    (0, "f32", 4),
    (1, "f16", 2),
    (2, "bool", 1),
    (3, "i32", 4),
    (4, "i8", 1),
    (5, "u16", 2),
    (6, "i16", 2),
    (7, "u32", 4),
    (8, "i32", 4),
    (9, "u64", 8),
    (10, "i64", 8),
];

pub(super) fn read(file: &[u8]) -> Option<Model> {
    let mut input = Input::new(file, 0);
    if input.bytes(4)? != b"MAG!" {
        return None;
    }
    match input.u32()? {
        1 => {}
        version @ (100 | 200) => return snapshot(file, version),
        300 => return manifest(file),
        _ => return None,
    }
    let stored = input.u32()?;
    let (tensors, entries, aux) = (input.u32()?, input.u32()?, input.u32()?);
    if aux != 0 {
        return None;
    }
    let metadata: Map<String, Value> = input.list(entries.into(), entry)?.into_iter().collect();
    let tensors = input.list(tensors.into(), tensor)?;
    let end = usize::try_from(input.at).ok()?;
    let mut records = file[..end].to_vec();
    records[8..12].fill(0);
    // The checksum is as in the document, or as in magnetron.
    let checksums_hold = stored == crc32(&records) || stored == crc32c(&file[12..end]);
    Some(Model { tensors, metadata: Some(metadata.into()), checksums_hold })
}

fn entry(input: &mut Input<'_>) -> Option<(String, Value)> {
    let value = match input.u32()? {
        1 => input.i64()?.into(),
        2 => float(input.f64()?),
        _ => return None,
    };
    let len = input.u32()?;
    Some((input.text(len.into())?, value))
}

fn tensor(input: &mut Input<'_>) -> Option<Tensor> {
    let aux = input.u32()?;
    let &(_, dtype, size) = DTYPES.iter().find(|(code, ..)| *code == aux & 0xff)?;
    let (rank, _numel, offset) = (u64::from(aux >> 8), input.u64()?, input.u64()?);
    let shape = input.list(rank, Input::u64)?;
    let len = input.u32()?;
    let name = input.text(len.into())?;
    let bytes = part(input.file, offset, nbytes(&shape, 1, size)?)?;
    Some(Tensor { name, dtype: dtype.to_owned(), shape, bytes: Some(bytes.to_vec()) })
}

/// Names of the types of versions 0.1 to 0.3 by code, with the size of an element in bytes. Version 0.1 has
/// no f8.
const LATER: [(&str, u64); 13] = [
    ("f32", 4),
    ("f16", 2),
    ("bf16", 2),
    ("f8_e4m3", 1),
    ("bool", 1),
    ("u8", 1),
    ("i8", 1),
    ("u16", 2),
    ("i16", 2),
    ("u32", 4),
    ("i32", 4),
    ("u64", 8),
    ("i64", 8),
];

fn later(name: String, code: u64, shape: Vec<u64>, file: &[u8], offset: u64, swap: bool) -> Option<Tensor> {
    let &(dtype, size) = LATER.get(usize::try_from(code).ok()?)?;
    let mut bytes = part(file, offset, nbytes(&shape, 1, size)?)?.to_vec();
    if swap {
        bytes.chunks_mut(usize::try_from(size).ok()?).for_each(<[u8]>::reverse);
    }
    Some(Tensor { name, dtype: dtype.to_owned(), shape, bytes: Some(bytes) })
}

fn snapshot(file: &[u8], version: u32) -> Option<Model> {
    let mut input = Input::new(file, 16);
    let stored = input.u32()?;
    let (_, _, tensors) = (input.u32()?, input.u32()?, input.u32()?);
    if input.bytes(4)? != b"SRP!" {
        return None;
    }
    let count = u64::from(input.u32()?);
    let offsets = input.list(count + 1, Input::u32)?;
    let names: Vec<String> = offsets
        .windows(2)
        .map(|pair| input.text(u64::from(pair[1].checked_sub(pair[0])?)))
        .collect::<Option<_>>()?;
    if input.bytes(8)? != b"MDT!DSC!" {
        return None;
    }
    let described = input.list(tensors.into(), |input| {
        let (rank, code, _) = (input.u8()?, u64::from(input.u8()?), input.u16()?);
        let (name, _elements, offset) = (input.u32()?, input.u64()?, input.u64()?);
        let shape = input.list(rank.into(), Input::u64)?;
        let code = code + u64::from(version == 100 && code >= 3);
        Some((names.get(name as usize)?.clone(), code, shape, offset))
    })?;
    let end = input.at;
    let checksums_hold = stored == crc32c(part(file, 20, end - 20)?);
    if input.bytes(4)? != b"BUF!" {
        return None;
    }
    let begin = if version == 200 { input.at.next_multiple_of(16) } else { input.at };
    let tensor = |(name, code, shape, offset): (String, u64, Vec<u64>, u64)| {
        later(name, code, shape, file, begin.checked_add(offset)?, false)
    };
    let tensors = described.into_iter().map(tensor).collect::<Option<_>>()?;
    Some(Model { tensors, metadata: Some(Map::new().into()), checksums_hold })
}

fn manifest(file: &[u8]) -> Option<Model> {
    let mut input = Input::new(file, 8);
    let aux = input.u32()?;
    let (offset, len, begin, _) = (input.u64()?, input.u64()?, input.u64()?, input.u64()?);
    let text = as_inspected(std::str::from_utf8(part(file, offset, len)?).ok()?);
    let keys: Vec<(String, Box<RawValue>)> = members(text.as_bytes())?;
    let of_key = |key: &str| keys.iter().find(|(name, _)| name == key).map(|(_, value)| value.get());
    let metadata: Value = serde_json::from_str(of_key("usr_metadata")?).ok()?;
    let tensors = of_key("tensor_map")?;
    let tensor = |(name, entry): (String, Value)| {
        let number = |key: &str| entry.get(key)?.as_u64();
        let shape = entry.get("shape")?.as_array()?.iter().map(Value::as_u64).collect::<Option<_>>()?;
        let at = begin.checked_add(number("offset")?)?;
        later(name, number("dtype_id")?, shape, file, at, aux == 1)
    };
    let tensors = members(tensors.as_bytes())?.into_iter().map(tensor).collect::<Option<_>>()?;
    Some(Model { tensors, metadata: Some(metadata), checksums_hold: true })
}

/// Turns bare words in the text into strings, as `inspect --json` prints them.
fn as_inspected(text: &str) -> String {
    let (mut out, mut in_string, mut escaped) = (String::new(), false, false);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let word = ["NaN", "-Infinity", "Infinity"].into_iter().find(|word| rest.starts_with(word));
        if let (false, Some(word)) = (in_string, word) {
            out.extend(["\"", word, "\""]);
            rest = &rest[word.len()..];
            continue;
        }
        in_string ^= c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    out
}
