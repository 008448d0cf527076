//! NumPy's .npy and .npz.

use serde_json::Map;

use super::{Input, Model, Tensor, nbytes, part};
use crate::patch::crc32;

pub(super) fn read(file: &[u8]) -> Option<Model> {
    let (mut tensors, mut checksums_hold) = (Vec::new(), true);
    if file.starts_with(b"PK") {
        for Member { name, content, is_whole, crc } in members(file)? {
            let Some(array) = name.strip_suffix(".npy") else { continue };
            checksums_hold &= is_whole && crc32(&content) == crc;
            tensors.extend(array_of(array, &content)?);
        }
    } else {
        tensors.push(array_of("array", file)??);
    }
    Some(Model { tensors, metadata: Some(Map::new().into()), checksums_hold })
}

struct Member {
    name: String,
    /// As far as it decompresses.
    content: Vec<u8>,
    is_whole: bool,
    crc: u32,
}

/// The members in the order of the directory.
fn members(file: &[u8]) -> Option<Vec<Member>> {
    let end = file.windows(4).rposition(|window| window == b"PK\x05\x06")?;
    let mut input = Input::new(file, end as u64 + 10);
    let (mut count, _, mut at) = (u64::from(input.u16()?), input.u32()?, u64::from(input.u32()?));
    if let Some(locator) = end.checked_sub(20).filter(|&at| file[at..].starts_with(b"PK\x06\x07")) {
        let record = Input::new(file, locator as u64 + 8).u64()?;
        let mut input = Input::new(file, record + 32);
        (count, _, at) = (input.u64()?, input.u64()?, input.u64()?);
    }
    let mut input = Input::new(file, at);
    input.list(count, |input| {
        input.bytes(10)?;
        let method = input.u16()?;
        input.bytes(4)?;
        let crc = input.u32()?;
        let (stored, len) = (input.u32()?, input.u32()?);
        let (name_len, extra_len, comment_len) = (input.u16()?, input.u16()?, input.u16()?);
        input.bytes(8)?;
        let header = input.u32()?;
        let name = input.text(name_len.into())?;
        let mut extra = Input::new(input.bytes(extra_len.into())?, 0);
        input.bytes(comment_len.into())?;
        let mut long = Input::new(&[], 0);
        while let (Some(id), Some(len)) = (extra.u16(), extra.u16()) {
            let field = extra.bytes(len.into())?;
            if id == 1 {
                long = Input::new(field, 0);
            }
        }
        let mut wide = |short: u32| if short == u32::MAX { long.u64() } else { Some(short.into()) };
        let (len, stored, header) = (wide(len)?, wide(stored)?, wide(header)?);
        if !name.ends_with(".npy") {
            return Some(Member { name, content: Vec::new(), is_whole: true, crc });
        }
        let mut lens = Input::new(file, header + 26);
        let before = 30 + u64::from(lens.u16()?) + u64::from(lens.u16()?);
        let bytes = part(file, header + before, stored)?;
        let (content, decodes) = match method {
            0 => (bytes.to_vec(), true),
            _ => inflated(bytes),
        };
        let is_whole = decodes && content.len() as u64 == len;
        Some(Member { name, content, is_whole, crc })
    })
}

/// What a deflate stream makes, as far as it decodes, and whether it ends. A window is taken, as readers of streams do: with one, a reference before the first
/// byte is no error.
fn inflated(stream: &[u8]) -> (Vec<u8>, bool) {
    use miniz_oxide::inflate::stream::{InflateState, inflate};
    use miniz_oxide::{DataFormat, MZFlush, MZStatus};
    let mut state = InflateState::new_boxed(DataFormat::Raw);
    let (mut rest, mut out, mut buffer) = (stream, Vec::new(), vec![0; 1 << 10]);
    loop {
        let result = inflate(&mut state, rest, &mut buffer, MZFlush::None);
        out.extend(&buffer[..result.bytes_written]);
        rest = &rest[result.bytes_consumed..];
        match result.status {
            Ok(MZStatus::StreamEnd) => return (out, true),
            Ok(_) if result.bytes_written + result.bytes_consumed > 0 => {}
            _ => return (out, false),
        }
    }
}

/// An array; none if its type is no number.
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
        // The place of an element in C order, as a place in the file.
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
