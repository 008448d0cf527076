//! APR2 (draft 2.0), and APR1.

use serde_json::Value;

use super::{Input, Model, Tensor, nbytes, part};
use crate::patch::crc32;

/// The format's number, the name, and how many elements take how many bytes.
const DTYPES: [(u8, &str, u64, u64); 13] = [
    (0, "f32", 1, 4),
    (1, "f16", 1, 2),
    (2, "bf16", 1, 2),
    (3, "i8", 1, 1),
    (4, "i16", 1, 2),
    (5, "i32", 1, 4),
    (6, "i64", 1, 8),
    (7, "u8", 1, 1),
    (16, "q8_0", 32, 34),
    (17, "q4_0", 32, 18),
    (18, "q4_1", 32, 20),
    (19, "q5_0", 32, 22),
    (20, "q5_1", 32, 24),
];

/// The most bytes to which a block of LZ4 expands.
const BLOCK: u64 = 65_536;

pub(super) fn read(file: &[u8]) -> Option<Model> {
    match file.get(..4)? {
        b"APR2" => read_apr2(file),
        b"APR1" => read_apr1(file),
        _ => None,
    }
}

fn read_apr2(file: &[u8]) -> Option<Model> {
    let mut input = Input::new(file, 4);
    let (major, _minor, _flags) = (input.u16()?, input.u16()?, input.u32()?);
    let (metadata_at, metadata_len) = (input.u32()?, input.u32()?);
    let (index_at, index_len, data_at) = (input.u32()?, input.u32()?, input.u32()?);
    if major != 2 {
        return None;
    }
    let metadata = part(file, metadata_at.into(), metadata_len.into())?;
    let footer = (file.len() as u64).checked_sub(16)?;
    let data = part(file, data_at.into(), footer.checked_sub(data_at.into())?)?;
    let mut index = Input::new(part(file, index_at.into(), index_len.into())?, 0);
    let (count, _reserved) = (index.u32()?, index.u32()?);
    let tensors = index.list(count.into(), |index| tensor(index, data))?;
    let stored = Input::new(file, footer).u32()?;
    let checksums_hold = stored == crc32(part(file, 0, footer)?);
    Some(Model { tensors, metadata: serde_json::from_slice(metadata).ok(), checksums_hold })
}

fn tensor(index: &mut Input<'_>, data: &[u8]) -> Option<Tensor> {
    let len = index.u16()?;
    let (name, code, rank) = (index.text(len.into())?, index.u8()?, index.u8()?);
    let shape = index.list(rank.into(), Input::u64)?;
    let (offset, size, raw_size, _flags) = (index.u64()?, index.u64()?, index.u64()?, index.u32()?);
    let &(_, dtype, elements, bytes) = DTYPES.iter().find(|(c, ..)| *c == code)?;
    let nbytes = nbytes(&shape, elements, bytes)?;
    let bytes = match (size, raw_size) {
        (0, 0) => Some(Vec::new()), // may stand behind the last byte
        (size, 0) if size == nbytes => Some(part(data, offset, size)?.to_vec()),
        (size, raw) if raw == nbytes => decompressed(part(data, offset, size)?, raw),
        _ => return None,
    };
    Some(Tensor { name, dtype: dtype.to_owned(), shape, bytes })
}

/// Decompresses blocks, each after its length. All but the last expand to [`BLOCK`] bytes.
fn decompressed(stored: &[u8], nbytes: u64) -> Option<Vec<u8>> {
    let (mut input, mut out) = (Input::new(stored, 0), Vec::new());
    while (out.len() as u64) < nbytes {
        let len = input.u32()?;
        let expected = BLOCK.min(nbytes - out.len() as u64);
        let block = lz4_flex::block::decompress(input.bytes(len.into())?, usize::try_from(expected).ok()?);
        out.extend(block.ok().filter(|block| block.len() as u64 == expected)?);
    }
    (input.at == stored.len() as u64).then_some(out)
}

fn read_apr1(file: &[u8]) -> Option<Model> {
    let mut input = Input::new(file, 4);
    let len = input.u32()?;
    let metadata = serde_json::from_slice(input.bytes(len.into())?).ok();
    let (_count, len) = (input.u32()?, input.u32()?);
    let index: Vec<Value> = serde_json::from_slice(input.bytes(len.into())?).ok()?;
    let end = (file.len() as u64).checked_sub(4)?;
    let data = part(file, input.at, end.checked_sub(input.at)?)?;
    let tensors = index.iter().map(|entry| apr1_tensor(entry, data)).collect::<Option<_>>()?;
    let checksums_hold = Input::new(file, end).u32()? == crc32(part(file, 0, end)?);
    Some(Model { tensors, metadata, checksums_hold })
}

fn apr1_tensor(entry: &Value, data: &[u8]) -> Option<Tensor> {
    let text = |key| entry.get(key)?.as_str();
    let dtype = text("dtype")?.to_lowercase();
    let &(_, _, elements, bytes) = DTYPES.iter().find(|(_, name, ..)| *name == dtype)?;
    let shape = entry.get("shape")?.as_array()?.iter().map(Value::as_u64).collect::<Option<Vec<_>>>()?;
    let (offset, size) = (entry.get("offset")?.as_u64()?, entry.get("size")?.as_u64()?);
    if size != nbytes(&shape, elements, bytes)? {
        return None;
    }
    let bytes = if size == 0 { Vec::new() } else { part(data, offset, size)?.to_vec() };
    Some(Tensor { name: text("name")?.to_owned(), dtype, shape, bytes: Some(bytes) })
}
