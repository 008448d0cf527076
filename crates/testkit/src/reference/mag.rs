//! MAG 1.

use serde_json::{Map, Value};

use super::{Input, Model, Tensor, float, nbytes, part};
use crate::patch::{crc32, crc32c};

/// Code, name, bytes of an element. i32 has two codes.
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
    if input.bytes(4)? != b"MAG!" || input.u32()? != 1 {
        return None;
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
    // As the document says, or as magnetron does.
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
