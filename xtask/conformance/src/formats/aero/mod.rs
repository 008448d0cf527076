//! AERO: a table of contents, names, and chunks of JSON, MessagePack and weights.

mod rules;

use serde_json::{Value, json};

use crate::suite::{Format, Reading, bytes};

const DTYPES: [(&str, usize); 13] = [
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

/// Where the table of contents and its first entry begin.
const TOC: usize = 96;
const ENTRIES: usize = TOC + 16;

/// A chunk: its type, name and flags, and its content, as stored and before compression.
struct Chunk {
    fourcc: [u8; 4],
    name: &'static str,
    flags: u32,
    stored: Vec<u8>,
    content: Vec<u8>,
}

fn chunk(fourcc: &[u8; 4], name: &'static str, flags: u32, content: &[u8]) -> Chunk {
    let stored = if flags & 1 == 1 { zstd(content) } else { content.to_vec() };
    Chunk { fourcc: *fourcc, name, flags, stored, content: content.to_vec() }
}

/// Makes a zstd frame with one raw block (RFC 8878).
pub(super) fn zstd(content: &[u8]) -> Vec<u8> {
    let len = content.len() as u32;
    let mut out = 0xFD2F_B528_u32.to_le_bytes().to_vec();
    out.push(0b1010_0000); // the content's size in four bytes, a single segment
    out.extend(len.to_le_bytes());
    out.extend(&((len << 3) | 1).to_le_bytes()[..3]);
    out.extend(content);
    out
}

fn file(chunks: &[Chunk]) -> Vec<u8> {
    let names_at = (ENTRIES + 80 * chunks.len()).next_multiple_of(8);
    let mut names = Vec::new();
    let mut places = Vec::new();
    for chunk in chunks {
        places.push(names.len());
        names.extend(chunk.name.as_bytes());
        names.push(0);
    }
    names.resize(names.len().next_multiple_of(8), 0);
    let mut out = b"AERO\0\0\x01\0\x60\0\0\0".to_vec();
    for number in [TOC, 16 + 80 * chunks.len(), names_at, names.len(), 0] {
        out.extend((number as u64).to_le_bytes());
    }
    out.extend(*b"conformance-uuid");
    out.resize(TOC, 0);
    out.extend((chunks.len() as u32).to_le_bytes());
    out.resize(ENTRIES, 0);
    let mut at = (names_at + names.len()).next_multiple_of(16);
    let mut payloads = Vec::new();
    for (chunk, name_at) in chunks.iter().zip(places) {
        at = at.next_multiple_of(if chunk.fourcc == *b"WTSH" { 64 } else { 16 });
        out.extend(chunk.fourcc);
        out.extend(chunk.flags.to_le_bytes());
        for number in [at, chunk.stored.len(), chunk.content.len()] {
            out.extend((number as u64).to_le_bytes());
        }
        out.extend((name_at as u32).to_le_bytes());
        out.extend((chunk.name.len() as u32).to_le_bytes());
        out.extend([0; 8]);
        out.extend(blake3::hash(&chunk.content).as_bytes());
        payloads.push((at, &chunk.stored));
        at += chunk.stored.len();
    }
    out.resize(names_at, 0);
    out.extend(names);
    for (at, stored) in payloads {
        out.resize(at, 0);
        out.extend(stored);
    }
    out
}

/// Encodes a value in MessagePack. An object whose only key is `hex` stands for bytes.
fn pack(value: &Value) -> Vec<u8> {
    let sized = |tag: u8, len: usize| [&[tag][..], &(len as u32).to_be_bytes()].concat();
    match value {
        Value::Null => vec![0xc0],
        Value::Bool(yes) => vec![0xc2 + u8::from(*yes)],
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(n @ 0..=127), _) => vec![n as u8],
            (Some(n), _) => [&[0xcf][..], &n.to_be_bytes()].concat(),
            (_, Some(n)) => [&[0xd3][..], &n.to_be_bytes()].concat(),
            _ => [&[0xcb][..], &number.as_f64().unwrap_or_default().to_be_bytes()].concat(),
        },
        Value::String(text) => [sized(0xdb, text.len()), text.as_bytes().to_vec()].concat(),
        Value::Array(members) => {
            let members: Vec<u8> = members.iter().flat_map(pack).collect();
            [sized(0xdd, value.as_array().map_or(0, Vec::len)), members].concat()
        }
        Value::Object(members) => map(members.iter().map(|(key, value)| (key.as_str(), pack(value)))),
    }
}

fn map<'a>(members: impl ExactSizeIterator<Item = (&'a str, Vec<u8>)>) -> Vec<u8> {
    let mut out = [&[0xdf][..], &(members.len() as u32).to_be_bytes()].concat();
    for (key, value) in members {
        out.extend(pack(&key.into()));
        out.extend(value);
    }
    out
}

fn bin(bytes: &[u8]) -> Vec<u8> {
    [&[0xc6][..], &(bytes.len() as u32).to_be_bytes(), bytes].concat()
}

fn entry(name: &str, dtype: u64, shape: &[u64], offset: u64, len: u64) -> Value {
    json!({"name": name, "dtype": dtype, "shape": shape, "shard_id": 0, "data_off": offset, "data_len": len, "flags": 0})
}

fn index(entries: &[Value]) -> Vec<u8> {
    pack(&json!({ "tensors": entries }))
}

/// Makes a file of an index and a shard.
fn with(entries: &[Value], weights: &[u8]) -> Vec<u8> {
    file(&[chunk(b"TIDX", "tensors", 4, &index(entries)), chunk(b"WTSH", "weights.shard0", 2, weights)])
}

fn nothing() -> Value {
    json!({"json": null, "manifest": null})
}

fn reading() -> Reading {
    Reading::empty().metadata(nothing())
}

const META: &str = r#"{"architecture":"none","model_name":"m"}"#;

fn chunks() -> Vec<Chunk> {
    let manifest = json!({"format": {"name": "AERO", "version": [0, 1]}, "model": {"architecture": "none", "name": "m"}});
    vec![
        chunk(b"MJSN", "meta.json", 0, META.as_bytes()),
        chunk(b"MMSG", "manifest", 0, &pack(&manifest)),
        chunk(b"TIDX", "tensors", 4, &index(&[entry("a", 1, &[2, 3], 0, 24), entry("b", 5, &[3], 64, 3)])),
        chunk(b"WTSH", "weights.shard0", 2, &bytes(128)),
    ]
}

fn two() -> Reading {
    let manifest = json!({"format": {"name": "AERO", "version": [0, 1]}, "model": {"architecture": "none", "name": "m"}});
    let weights = bytes(128);
    Reading::empty()
        .tensor("a", "f32", &[2, 3], &weights[..24])
        .tensor("b", "u8", &[3], &weights[64..67])
        .metadata(json!({"json": {"architecture": "none", "model_name": "m"}, "manifest": manifest}))
}

pub(crate) fn files() -> Format {
    let mut f = Format::new("aero", "aero", "docs/formats/aero.md");
    tensors(&mut f);
    sound(&mut f);
    rules::control(&mut f);
    rules::entries(&mut f);
    rules::content(&mut f);
    rules::hashes(&mut f);
    rules::cut(&mut f);
    f
}

fn tensors(f: &mut Format) {
    for (code, (dtype, size)) in DTYPES.iter().enumerate() {
        let values: Vec<u8> = if *dtype == "bool" { vec![1, 0, 0, 1, 1, 0] } else { bytes(6 * size) };
        let made = with(&[entry("t", code as u64, &[2, 3], 0, values.len() as u64)], &values);
        f.read(
            format!("dtype-{dtype}"),
            "tensor-index",
            format!("dtype {code} is {dtype}"),
            made,
            reading().tensor("t", dtype, &[2, 3], &values),
        );
        let short = with(&[entry("t", code as u64, &[2, 3], 0, values.len() as u64 - 1)], &values);
        f.refused(
            format!("dtype-{dtype}-a-byte-short"),
            "length-of-a-tensor",
            "data_len is what dtype and shape imply",
            short,
        );
    }
    for code in [13u64, 14, 255, 0x7fff, 0x8001] {
        f.refused(
            format!("dtype-{code}"),
            "tensor-index",
            "dtypes are 0 to 12 and 0x8000",
            with(&[entry("t", code, &[4], 0, 4)], &bytes(4)),
        );
    }
    for (slug, shape) in
        [("scalar", vec![]), ("rank-8", vec![1; 8]), ("dimension-0", vec![2, 0]), ("rank-1", vec![9])]
    {
        let values = bytes(4 * shape.iter().product::<u64>() as usize);
        let made = with(&[entry("t", 1, &shape, 0, values.len() as u64)], &bytes(64));
        f.read(
            format!("shape-{slug}"),
            "tensor-index",
            "a shape is a list of numbers",
            made,
            reading().tensor("t", "f32", &shape, &values),
        );
    }
    for (slug, name) in [
        ("umlaut", "Größe"),
        ("emoji", "🦀"),
        ("slashes", "a/b\\c"),
        ("nul", "a\0b"),
        ("long", &"n".repeat(2000)),
    ] {
        let made = with(&[entry(name, 5, &[4], 0, 4)], &bytes(4));
        f.read(
            format!("name-{slug}"),
            "tensor-index",
            "a name is any text",
            made,
            reading().tensor(name, "u8", &[4], &bytes(4)),
        );
    }
    let packed = |ggml: u64, shape: &[u64], len: usize| {
        let mut entry = entry("q", 0x8000, shape, 0, len as u64);
        entry["quant_params"] = json!({ "ggml_type": ggml });
        with(&[entry], &bytes(len))
    };
    for (number, dtype, elements, size) in [
        (2, "q4_0", 32, 18),
        (8, "q8_0", 32, 34),
        (12, "q4_k", 256, 144),
        (14, "q6_k", 256, 210),
        (39, "mxfp4", 32, 17),
    ] {
        let shape = [2, elements];
        let made = packed(number, &shape, 2 * size);
        let rule = "a packed tensor with a type of ggml";
        f.read(
            format!("packed-{dtype}"),
            "packed-tensors",
            rule,
            made,
            reading().tensor("q", dtype, &shape, &bytes(2 * size)),
        );
        let rule = "data_len is what blocks and shape imply";
        f.refused(
            format!("packed-{dtype}-a-block-short"),
            "packed-tensors",
            rule,
            packed(number, &shape, size),
        );
        f.refused(
            format!("packed-{dtype}-half-a-block"),
            "packed-tensors",
            rule,
            packed(number, &[elements / 2], size),
        );
    }
    let unknown = with(&[entry("q", 0x8000, &[9], 0, 5)], &bytes(5));
    f.read(
        "packed-without-a-codec",
        "packed-tensors",
        "a packed tensor may be of any kind",
        unknown,
        reading().tensor("q", "packed", &[9], &bytes(5)),
    );
}

fn sound(f: &mut Format) {
    f.read("all-chunks", "layout", "metadata, a manifest, an index and weights", file(&chunks()), two());
    f.read("empty", "a-file-without-tensors", "a file without chunks", file(&[]), reading());
    let zstd = |only: &[usize]| {
        let mut all = chunks();
        for &n in only {
            all[n] = chunk(&all[n].fourcc, all[n].name, all[n].flags | 1, &all[n].content);
        }
        file(&all)
    };
    for (slug, only) in
        [("json", &[0][..]), ("manifest", &[1]), ("index", &[2]), ("all-metadata", &[0, 1, 2])]
    {
        f.read(
            format!("zstd-{slug}"),
            "zstandard",
            "chunks of metadata may be compressed",
            zstd(only),
            two(),
        );
    }
    f.refused("zstd-weights", "zstandard", "weights are never compressed", zstd(&[3]));
    for (slug, extra, section) in [
        ("unknown-chunk", chunk(b"NOTE", "x", 0, b"hello"), "unknown-things"),
        ("unknown-flags", chunk(b"NOTE", "x", 0x8000_0008, b"hello"), "unknown-things"),
        ("second-json", chunk(b"MJSN", "other.json", 0, b"{}"), "chunks"),
        ("chunk-without-bytes", chunk(b"NOTE", "x", 0, b""), "unknown-things"),
        ("chunk-without-a-name", chunk(b"NOTE", "", 0, b"x"), "names-of-chunks"),
        ("chunk-of-utf-8", chunk(b"NOTE", "größe", 0, b"x"), "names-of-chunks"),
    ] {
        let mut all = chunks();
        all.push(extra);
        f.read(slug, section, "chunks that a reader does not know are skipped", file(&all), two());
    }
    let mut known = entry("t", 5, &[4], 0, 4);
    known["more"] = json!({"x": [1, null, true, -5, 0.5, "text"]});
    f.read(
        "unknown-key-of-a-tensor",
        "unknown-things",
        "keys that a reader does not know are skipped",
        with(&[known], &bytes(4)),
        reading().tensor("t", "u8", &[4], &bytes(4)),
    );
    let mut flags = entry("t", 5, &[4], 0, 4);
    flags["flags"] = json!(u64::MAX);
    f.read(
        "flags-of-a-tensor",
        "unknown-things",
        "any flags of a tensor are read",
        with(&[flags], &bytes(4)),
        reading().tensor("t", "u8", &[4], &bytes(4)),
    );
    let mut second = entry("b", 5, &[4], 0, 4);
    second["shard_id"] = json!(1);
    let shards = file(&[
        chunk(b"TIDX", "tensors", 4, &index(&[entry("a", 5, &[4], 0, 4), second])),
        chunk(b"WTSH", "weights.shard0", 2, &bytes(4)),
        chunk(b"WTSH", "weights.shard1", 2, &bytes(9)[5..]),
    ]);
    let of_two = reading().tensor("a", "u8", &[4], &bytes(4)).tensor("b", "u8", &[4], &bytes(9)[5..]);
    f.read("two-shards", "chunks", "a tensor is in the shard of its number", shards, of_two);
    let odd = with(&[entry("a", 5, &[1], 0, 1), entry("b", 1, &[1], 1, 4)], &bytes(5));
    let of_odd = reading().tensor("a", "u8", &[1], &bytes(5)[..1]).tensor("b", "f32", &[1], &bytes(5)[1..]);
    f.read("tensor-at-an-odd-byte", "alignment", "a tensor may begin at any byte of its shard", odd, of_odd);
    let tied = with(&[entry("a", 5, &[4], 0, 4), entry("b", 5, &[4], 0, 4)], &bytes(4));
    let of_tied = reading().tensor("a", "u8", &[4], &bytes(4)).tensor("b", "u8", &[4], &bytes(4));
    f.read("tied-tensors", "tied-tensors", "two tensors may have the same bytes", tied, of_tied);
    let partly = with(&[entry("a", 5, &[4], 0, 4), entry("b", 5, &[4], 2, 4)], &bytes(8));
    f.refused(
        "tensors-that-overlap",
        "tied-tensors",
        "two tensors do not share a part of their bytes",
        partly,
    );
}
