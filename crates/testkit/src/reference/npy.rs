//! NumPy's .npy and .npz.

use serde_json::Map;

use super::archive::{Member, members};
use super::{Input, Model, Tensor, nbytes, part};
use crate::patch::crc32;

pub(super) fn read(file: &[u8]) -> Option<Model> {
    let (mut tensors, mut checksums_hold) = (Vec::new(), true);
    if file.starts_with(b"PK") {
        for Member { name, content, is_whole, crc } in members(file, |name| name.ends_with(".npy"))? {
            let Some(array) = name.strip_suffix(".npy") else { continue };
            checksums_hold &= is_whole && crc32(&content) == crc;
            tensors.extend(array_of(array, &content)?);
        }
    } else {
        tensors.push(array_of("array", file)??);
    }
    Some(Model { tensors, metadata: Some(Map::new().into()), checksums_hold })
}

/// Reads an array; the inner `None` means that its elements are not numbers.
fn array_of(name: &str, file: &[u8]) -> Option<Option<Tensor>> {
    let mut input = Input::new(file, 6);
    let major = input.u8()?;
    input.u8()?;
    let len = if major == 1 { u64::from(input.u16()?) } else { u64::from(input.u32()?) };
    let text = String::from_utf8_lossy(input.bytes(len)?).into_owned();
    let value = |key: &str| {
        let at = ["'", "\""].iter().find_map(|quote| text.find(&format!("{quote}{key}{quote}")))?;
        text[at..].split_once(':').map(|(_, rest)| rest.trim_start())
    };
    let descr = value("descr")?.trim_start_matches(['u', 'b']);
    let code = descr.get(1..)?.split(['\'', '"']).next()?;
    let (is_big, kind) = match code.as_bytes().first()? {
        b'>' => (true, &code[1..]),
        b'<' | b'|' | b'=' => (false, &code[1..]),
        _ => (false, code),
    };
    let known = [
        ("b1", "bool", 1, 1),
        ("i1", "i8", 1, 1),
        ("u1", "u8", 1, 1),
        ("i2", "i16", 2, 2),
        ("u2", "u16", 2, 2),
        ("i4", "i32", 4, 4),
        ("u4", "u32", 4, 4),
        ("i8", "i64", 8, 8),
        ("u8", "u64", 8, 8),
        ("f2", "f16", 2, 2),
        ("f4", "f32", 4, 4),
        ("f8", "f64", 8, 8),
        ("c8", "c64", 8, 4),
        ("?", "bool", 1, 1),
        ("b", "i8", 1, 1),
        ("B", "u8", 1, 1),
    ];
    let Some((_, dtype, size, number)) = known.iter().find(|(code, ..)| *code == kind) else {
        return Some(None);
    };
    let is_fortran = value("fortran_order")?.starts_with("True");
    let inner = value("shape")?.strip_prefix('(')?.split(')').next()?;
    let dims =
        inner.split(',').map(|dim| dim.trim().trim_end_matches('L').trim()).filter(|dim| !dim.is_empty());
    let shape: Vec<u64> = dims.map(|dim| dim.parse().ok()).collect::<Option<_>>()?;
    let total = nbytes(&shape, 1, *size)?;
    let named =
        |bytes| Tensor { name: name.to_owned(), dtype: (*dtype).to_owned(), shape: shape.clone(), bytes };
    let Some(values) = part(file, input.at, total) else { return Some(Some(named(None))) };
    let size = usize::try_from(*size).ok()?;
    let mut bytes = Vec::with_capacity(values.len());
    for position in 0..values.len() / size {
        // Convert the index of an element in C order to its index in the file.
        let (mut left, mut from) = (position as u64, position as u64);
        if is_fortran {
            let index = shape.iter().rev().map(|dim| {
                let index = left % dim;
                left /= dim;
                index
            });
            let index: Vec<u64> = index.collect();
            let (mut step, mut at) = (1, 0);
            for (dim, index) in shape.iter().zip(index.iter().rev()) {
                at += index * step;
                step *= dim;
            }
            from = at;
        }
        let from = usize::try_from(from).ok()? * size;
        for chunk in values[from..from + size].chunks(*number) {
            let mut chunk = chunk.to_vec();
            if is_big {
                chunk.reverse();
            }
            bytes.extend(chunk);
        }
    }
    Some(Some(named(Some(bytes))))
}
