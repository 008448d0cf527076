//! AERO 0.1.

use std::io::Read;

use serde_json::{Value, json};

use super::gguf::ggml_type;
use super::msgpack::{self, hex};
use super::{Input, Model, Tensor, nbytes, part};

/// The types by their numbers, with the size of an element in bytes.
const DTYPES: [(&str, u64); 13] = [
    ("f16", 2),
    ("f32", 4),
    ("bf16", 2),
    ("f64", 8),
    ("i8", 1),
    ("u8", 1),
    ("i16", 2),
    ("u16", 2),
    ("i32", 4),
    ("u32", 4),
    ("i64", 8),
    ("u64", 8),
    ("bool", 1),
];

struct Chunk {
    fourcc: [u8; 4],
    name: String,
    /// The decompressed content; `None` if it cannot be decompressed.
    content: Option<Vec<u8>>,
    hash: [u8; 32],
}

pub(super) fn read(file: &[u8]) -> Option<Model> {
    let mut input = Input::new(file, 0);
    if input.bytes(4)? != b"AERO" || (input.u16()?, input.u16()?, input.u32()?) != (0, 1, 96) {
        return None;
    }
    let (toc_at, _toc_len, names_at, names_len) = (input.u64()?, input.u64()?, input.u64()?, input.u64()?);
    let names = part(file, names_at, names_len)?;
    let mut toc = Input::new(file, toc_at);
    let count = toc.u32()?;
    toc.bytes(12)?;
    let chunks = toc.list(count.into(), |toc| chunk(toc, names))?;

    // Metadata are read only if their hash matches.
    let content = |fourcc| {
        let chunk = find(&chunks, fourcc, |_| true)?;
        Some(chunk.content.as_deref().filter(|_| hash_holds(chunk) == Some(true)))
    };
    let json = content(b"MJSN").map(|text| serde_json::from_slice(text?).ok());
    let manifest = content(b"MMSG").map(|map| whole(map?));
    let index = match content(b"TIDX") {
        Some(map) => whole(map?)?.get("tensors")?.as_array()?.clone(),
        None => Vec::new(),
    };
    let (stated, manifest_said) =
        (json.as_ref().and_then(Option::as_ref), manifest.as_ref().and_then(Option::as_ref));
    let read = |entry: &Value| tensor(entry, stated, manifest_said, &chunks);
    let tensors: Vec<(Tensor, bool)> = index.iter().map(read).collect::<Option<_>>()?;
    let checksums_hold = tensors.iter().all(|(_, holds)| *holds)
        && chunks.iter().all(|chunk| hash_holds(chunk) == Some(true))
        && chunks.iter().filter(|c| c.fourcc == *b"PHSH").all(|c| pages_hold(c, &chunks) == Some(true))
        && content(b"IHSH").is_none_or(|map| control_holds(file, map, toc_at, count) == Some(true));
    let metadata = match (json, manifest) {
        (Some(None), _) | (_, Some(None)) => None, // there, and does not decode
        (json, manifest) => Some(json!({"json": json as Option<Option<Value>>, "manifest": manifest})),
    };
    let tensors = tensors.into_iter().map(|(tensor, _)| tensor).collect();
    Some(Model { tensors, metadata, checksums_hold })
}

/// Returns the first chunk of a type whose name satisfies `named`.
fn find<'a>(chunks: &'a [Chunk], fourcc: &[u8; 4], named: impl Fn(&str) -> bool) -> Option<&'a Chunk> {
    chunks.iter().find(|chunk| chunk.fourcc == *fourcc && named(&chunk.name))
}

fn chunk(toc: &mut Input<'_>, names: &[u8]) -> Option<Chunk> {
    let fourcc = toc.bytes(4)?.try_into().ok()?;
    let (flags, offset, len, ulen) = (toc.u32()?, toc.u64()?, toc.u64()?, toc.u64()?);
    let (name_at, name_len, _reserved) = (toc.u32()?, toc.u32()?, toc.u64()?);
    let name = Input::new(names, name_at.into()).text(name_len.into())?;
    let hash = toc.bytes(32)?.try_into().ok()?;
    let stored = part(toc.file, offset, len)?;
    let content = if flags & 1 == 1 { decompressed(stored, ulen) } else { Some(stored.to_vec()) };
    Some(Chunk { fourcc, name, content: content.filter(|content| content.len() as u64 == ulen), hash })
}

fn decompressed(stored: &[u8], ulen: u64) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let decoder = ruzstd::decoding::StreamingDecoder::new(stored).ok()?;
    decoder.take(ulen.checked_add(1)?).read_to_end(&mut out).ok()?;
    Some(out)
}

fn hash_holds(chunk: &Chunk) -> Option<bool> {
    let is_recorded = chunk.fourcc == *b"WTSH" || chunk.hash != [0; 32];
    Some(!is_recorded || *blake3::hash(chunk.content.as_ref()?).as_bytes() == chunk.hash)
}

/// Parses one MessagePack value with nothing after it.
fn whole(content: &[u8]) -> Option<Value> {
    msgpack::value(content).filter(|(_, rest)| rest.is_empty()).map(|(value, _)| value)
}

/// Returns the tensor, and whether it has the hash that its entry states.
fn tensor(
    entry: &Value,
    json: Option<&Value>,
    manifest: Option<&Value>,
    chunks: &[Chunk],
) -> Option<(Tensor, bool)> {
    let is_gguf = json.is_some_and(|json| json.get("source_format") == Some(&"gguf".into()));
    let number = |key| entry.get(key).and_then(Value::as_u64);
    let name = entry.get("name")?.as_str()?.to_owned();
    let mut shape = entry.get("shape")?.as_array()?.iter().map(Value::as_u64).collect::<Option<Vec<_>>>()?;
    if is_gguf {
        shape.reverse();
    }
    let (dtype, len) = (number("dtype")?, number("data_len")?);
    let (dtype, expected) = if dtype == 0x8000 {
        match ggml(entry, json.filter(|_| is_gguf), manifest) {
            Some((name, elements, bytes)) => (name, nbytes(&shape, elements, bytes)?),
            None => ("packed", len),
        }
    } else {
        let (name, size) = *DTYPES.get(usize::try_from(dtype).ok()?)?;
        (name, nbytes(&shape, 1, size)?)
    };
    let shard = format!("weights.shard{}", number("shard_id")?);
    let shard = find(chunks, b"WTSH", |name| name == shard).and_then(|shard| shard.content.as_ref());
    let offset = number("data_off")?;
    let is_last = shard.is_some_and(|shard| offset.checked_add(len) == Some(shard.len() as u64));
    let is_padding = is_gguf && len > expected && (len - expected < 32 || is_last);
    if len != expected && !is_padding {
        return None;
    }
    let stored = shard.and_then(|shard| part(shard, offset, len));
    let stated = entry.get("hash_b3").and_then(Value::as_str);
    let holds = stated.is_none_or(|hash| stored.is_some_and(|b| *hash == *blake3::hash(b).to_hex()));
    let bytes = stored.and_then(|stored| part(stored, 0, expected)).map(<[u8]>::to_vec);
    Some((Tensor { name, dtype: dtype.to_owned(), shape, bytes }, holds))
}

/// Returns ggml's type of a packed tensor: from its parameters, or without these from a descriptor in MJSN or
/// the manifest.
fn ggml(entry: &Value, json: Option<&Value>, manifest: Option<&Value>) -> Option<(&'static str, u64, u64)> {
    if let Some(params) = entry.get("quant_params") {
        return ggml_type(params.get("ggml_type")?.as_u64()?);
    }
    let id = entry.get("quant_id")?.as_u64()?;
    if let Some(descriptors) = json.and_then(|json| json.get("quant_descriptors")?.as_array()) {
        let described = descriptors.iter().find(|descriptor| descriptor.get("id") == Some(&id.into()))?;
        return ggml_type(described.get("params")?.get("ggml_type")?.as_u64()?);
    }
    let descriptors = manifest?.get("quant_descriptors")?.as_array()?;
    let described = descriptors.iter().find(|descriptor| descriptor.get("quant_id") == Some(&id.into()))?;
    ggml_type(described.get("ggml_type")?.as_u64()?)
}

/// Checks whether the digest is that of header, TOC and names, with the hashes in the TOC set to zero.
fn control_holds(file: &[u8], payload: Option<&[u8]>, toc_at: u64, count: u32) -> Option<bool> {
    let stated = msgpack::value(payload?)?.0;
    let mut blank = file.to_vec();
    for entry in 0..u64::from(count) {
        let end = usize::try_from(toc_at + 16 + 80 * (entry + 1)).ok()?;
        blank.get_mut(end - 32..end)?.fill(0);
    }
    let mut hasher = blake3::Hasher::new();
    for range in stated.get("covered_ranges")?.as_array()? {
        let (begin, end) = (range.get(0)?.as_u64()?, range.get(1)?.as_u64()?);
        hasher.update(part(&blank, begin, end.checked_sub(begin)?)?);
    }
    Some(stated.get("digest")?.as_str()? == hasher.finalize().to_hex().as_str())
}

/// Checks whether the pages of a shard have the digests that the file states.
fn pages_hold(chunk: &Chunk, chunks: &[Chunk]) -> Option<bool> {
    let stated = whole(chunk.content.as_ref()?)?;
    let shard = stated.get("shard_name")?.as_str()?;
    let shard = find(chunks, b"WTSH", |name| name == shard)?.content.as_ref()?;
    let size = usize::try_from(stated.get("page_size")?.as_u64()?).ok().filter(|size| *size > 0)?;
    let found = shard.chunks(size).map(|page| Value::from(hex(blake3::hash(page).as_bytes())));
    Some(stated.get("digests")?.as_array()?.iter().cloned().eq(found))
}
