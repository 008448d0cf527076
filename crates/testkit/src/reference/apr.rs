//! APR as aprender writes it.

use std::io::Read;

use super::{Input, Model, Tensor, nbytes, part};
use crate::patch::crc32;

/// The format's number, the name, and how many elements take how many bytes.
const DTYPES: [(u8, &str, u64, u64); 15] = [
    (0, "f32", 1, 4),
    (1, "f16", 1, 2),
    (2, "bf16", 1, 2),
    (3, "f64", 1, 8),
    (4, "i32", 1, 4),
    (5, "i64", 1, 8),
    (6, "i8", 1, 1),
    (7, "u8", 1, 1),
    (8, "apr_q4", 32, 18),
    (9, "apr_q8", 1, 1),
    (12, "q4_k", 256, 144),
    (14, "q6_k", 256, 210),
    (30, "bf16", 1, 2),
    (128, "apr_q4", 32, 18),
    (129, "apr_q8", 1, 1),
];

pub(super) fn read(file: &[u8]) -> Option<Model> {
    if let Some(model) = read_plain(file) {
        return Some(model);
    }
    let (header, content) = file.split_at_checked(64)?;
    let expanded = if header.get(6)? & 1 != 0 {
        lz4_flex::block::decompress_size_prepended(content).ok()?
    } else if header.get(6)? & 2 != 0 {
        let (mut rest, mut out) = (content, Vec::new());
        while !rest.is_empty() {
            let mut decoder = ruzstd::decoding::StreamingDecoder::new(&mut rest).ok()?;
            decoder.read_to_end(&mut out).ok()?;
        }
        out
    } else {
        return None;
    };
    read_plain(&[header, &expanded].concat())
}

fn read_plain(file: &[u8]) -> Option<Model> {
    let mut input = Input::new(file, 0);
    let magic = input.bytes(4)?;
    let (major, _minor, _flags, count) = (input.u8()?, input.u8()?, input.u16()?, input.u32()?);
    let (metadata_at, metadata_len) = (input.u64()?, input.u32()?);
    let (index_at, data_at, header_crc) = (input.u64()?, input.u64()?, input.u32()?);
    if (magic != b"APR\0" && magic != b"APR2") || major != 2 || metadata_at != 64 {
        return None;
    }
    let metadata = serde_json::from_slice(part(file, metadata_at, metadata_len.into())?).ok()?;
    let mut index = Input::new(part(file, 0, data_at)?, index_at);
    let found = index.list(count.into(), |index| tensor(index, file, data_at))?;
    let end = found.iter().map(|(_, end)| *end).max().unwrap_or(data_at).max(data_at);
    let header = [part(file, 0, 40)?, part(file, 44, 20)?].concat();
    // If more than four bytes follow, they are not a footer.
    let has_footer = file.len() as u64 == end + 4;
    let footer_holds = !has_footer || Input::new(file, end).u32()? == crc32(part(file, 0, end)?);
    let checksums_hold = header_crc == crc32(&header) && footer_holds;
    let tensors = found.into_iter().map(|(tensor, _)| tensor).collect();
    Some(Model { tensors, metadata: Some(metadata), checksums_hold })
}

/// Returns a tensor, and the position at which its padding ends.
fn tensor(index: &mut Input<'_>, file: &[u8], data_at: u64) -> Option<(Tensor, u64)> {
    let len = index.u16()?;
    let (name, code, rank) = (index.text(len.into())?, index.u8()?, index.u8()?);
    let shape = index.list(rank.into(), Input::u64)?;
    let (offset, size) = (index.u64()?, index.u64()?);
    let &(_, dtype, elements, bytes) = DTYPES.iter().find(|(c, ..)| *c == code)?;
    let count = nbytes(&shape, 1, 1)?;
    let expected = match (dtype, shape.as_slice()) {
        ("q4_k", &[rows, columns]) => rows.checked_mul(columns.div_ceil(elements))?.checked_mul(bytes)?,
        ("apr_q4", _) => count.div_ceil(elements).checked_mul(bytes)?,
        ("apr_q8", _) if count > 0 => count.checked_add(4)?,
        _ => nbytes(&shape, elements, bytes)?,
    };
    let at = data_at.checked_add(offset)?;
    if size != expected {
        return None;
    }
    let bytes = Some(part(file, at, size)?.to_vec());
    Some((Tensor { name, dtype: dtype.to_owned(), shape, bytes }, at.checked_add(size.next_multiple_of(64))?))
}
