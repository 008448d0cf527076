//! Version 1: metadata records, tensor records, values.

use serde_json::{Value, json};
use testkit::{crc32, crc32c, patched};

use super::values;
use crate::suite::{Format, Reading, bytes};

/// Code, name, bytes of an element.
const DTYPES: [(u8, &str, usize); 11] = [
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

/// Offsets in [`sound`].
const ENTRY_N: usize = 24;
const ENTRY_M: usize = 41;
const TENSOR_A: usize = 58;
const TENSOR_B: usize = 99;
const RECORDS_END: usize = 132;

struct Record {
    key: Vec<u8>,
    dtype: u8,
    dims: Vec<u64>,
    values: Vec<u8>,
}

fn record(key: &str, dtype: u8, dims: &[u64], values: &[u8]) -> Record {
    Record { key: key.as_bytes().to_vec(), dtype, dims: dims.to_vec(), values: values.to_vec() }
}

/// Makes a file, and returns where its records end.
fn file(entries: &[(u8, [u8; 8], &[u8])], tensors: &[Record]) -> (Vec<u8>, usize) {
    let mut out = b"MAG!\x01\0\0\0\0\0\0\0".to_vec();
    out.extend((tensors.len() as u32).to_le_bytes());
    out.extend((entries.len() as u32).to_le_bytes());
    out.extend([0; 4]);
    for (kind, payload, key) in entries {
        out.extend([*kind, 0, 0, 0]);
        out.extend(payload);
        out.extend((key.len() as u32).to_le_bytes());
        out.extend(*key);
    }
    let records: usize = tensors.iter().map(|tensor| 24 + 8 * tensor.dims.len() + tensor.key.len()).sum();
    let end = out.len() + records;
    let mut at = end.next_multiple_of(64);
    let mut data = Vec::new();
    for tensor in tensors {
        out.extend([tensor.dtype, tensor.dims.len() as u8, 0, 0]);
        out.extend(tensor.dims.iter().fold(1u64, |n, dim| n.wrapping_mul(*dim)).to_le_bytes());
        out.extend((at as u64).to_le_bytes());
        tensor.dims.iter().for_each(|dim| out.extend(dim.to_le_bytes()));
        out.extend((tensor.key.len() as u32).to_le_bytes());
        out.extend(&tensor.key);
        data.push((at, &tensor.values));
        at = (at + tensor.values.len()).next_multiple_of(64);
    }
    for (at, values) in data {
        out.resize(out.len().max(at), 0xff);
        out.extend(values);
    }
    (signed(out, end, false), end)
}

/// Sets the checksum of the records: CRC-32, or magnetron's CRC-32C. The specification can be read either
/// way.
fn signed(mut file: Vec<u8>, end: usize, is_magnetrons: bool) -> Vec<u8> {
    file[8..12].fill(0);
    let checksum = if is_magnetrons { crc32c(&file[12..end]) } else { crc32(&file[..end]) };
    file[8..12].copy_from_slice(&checksum.to_le_bytes());
    file
}

fn tensors(records: &[Record]) -> (Vec<u8>, Reading) {
    let reading = records.iter().fold(Reading::empty(), |reading, tensor| {
        let dtype = DTYPES.iter().find(|(code, ..)| *code == tensor.dtype).map_or("", |(_, name, _)| name);
        reading.tensor(&String::from_utf8_lossy(&tensor.key), dtype, &tensor.dims, &tensor.values)
    });
    (file(&[], records).0, reading)
}

/// Makes a file with two entries and two tensors: f32 `[2, 3]` and i16 `[4]`.
fn sound() -> (Vec<u8>, Reading) {
    let (a, b) = (record("a", 0, &[2, 3], &bytes(24)), record("b", 6, &[4], &bytes(8)));
    let entries = [(1, 7i64.to_le_bytes(), &b"n"[..]), (2, 0.5f64.to_le_bytes(), b"m")];
    let reading = Reading::empty().tensor("a", "f32", &[2, 3], &a.values).tensor("b", "i16", &[4], &b.values);
    (file(&entries, &[a, b]).0, reading.metadata(json!({"n": 7, "m": 0.5})))
}

pub(super) fn add(f: &mut Format) {
    let (file, reading) = sound();
    f.read("v1-crc32", "checksum", "the CRC-32 of header and records", file.clone(), reading.clone());
    let magnetrons = signed(file.clone(), RECORDS_END, true);
    f.read(
        "v1-crc32c",
        "checksum",
        "the CRC-32C of the records, as magnetron writes it",
        magnetrons,
        reading.clone(),
    );
    for (code, dtype, size) in DTYPES {
        let values = values(dtype, 6 * size);
        let (file, reading) = tensors(&[record("t", code, &[2, 3], &values)]);
        let rule = format!("code {code} is {dtype}");
        if code < 4 {
            f.read(format!("v1-dtype-{code}-{dtype}"), "dtype-codes", rule, file, reading);
        } else {
            f.either(
                format!("v1-dtype-{code}-{dtype}"),
                "dtype-codes",
                "sources that were never released had this code",
                file,
                Some(reading),
            );
        }
    }
    shapes(f);
    entries(f);
    rules(f);
    checksums(f);
    places(f, &file, &reading);
    cut(f, &file);
}

fn shapes(f: &mut Format) {
    for (slug, dims) in [
        ("rank-1", vec![5]),
        ("rank-16", vec![1; 16]),
        ("rank-255", vec![1; 255]),
        ("dimension-0", vec![3, 0]),
        ("dimension-0-times-2-to-the-32", vec![0, 1 << 32]),
    ] {
        let values = bytes(4 * dims.iter().product::<u64>() as usize);
        let (file, reading) = tensors(&[record("t", 0, &dims, &values)]);
        f.read(
            format!("v1-shape-{slug}"),
            "ranks",
            "ranks are 1 to 255, and a dimension may be 0",
            file,
            reading,
        );
    }
    f.read("v1-empty", "version-1", "a file without records", file(&[], &[]).0, Reading::empty());
    let long = "k".repeat(65_535);
    for (slug, key) in [
        ("umlaut", "Größe"),
        ("emoji", "🦀"),
        ("nul", "a\0b"),
        ("slashes", "a/b\\c"),
        ("space", " "),
        ("of-65535-bytes", &long),
    ] {
        let (file, reading) = tensors(&[record(key, 0, &[1], &bytes(4))]);
        f.read(format!("v1-key-{slug}"), "keys", "a key has 1 to 65,535 bytes of UTF-8", file, reading);
    }
    let many: Vec<_> =
        (0..100).map(|n| record(&format!("t{n}"), 3, &[n % 4], &bytes(4 * (n as usize % 4)))).collect();
    let (file, reading) = tensors(&many);
    f.read("v1-hundred-tensors", "version-1", "tensor records, one after the other", file, reading);
}

fn entries(f: &mut Format) {
    let one = |kind: u8, payload: [u8; 8]| file(&[(kind, payload, b"k")], &[]).0;
    for (slug, number) in [("zero", 0), ("minus-1", -1), ("smallest", i64::MIN), ("largest", i64::MAX)] {
        let reading = Reading::empty().metadata(json!({ "k": number }));
        f.read(
            format!("v1-i64-{slug}"),
            "version-1",
            "metadata of type 1: i64",
            one(1, number.to_le_bytes()),
            reading,
        );
    }
    for (slug, number, value) in [
        ("one-tenth", 0.1, json!(0.1)),
        ("minus-zero", -0.0, json!(-0.0)),
        ("infinity", f64::INFINITY, Value::from("Infinity")),
        ("nan", f64::NAN, "NaN".into()),
        ("smallest", f64::from_bits(1), json!(f64::from_bits(1))),
    ] {
        let reading = Reading::empty().metadata(json!({ "k": value }));
        f.read(
            format!("v1-f64-{slug}"),
            "version-1",
            "metadata of type 2: f64",
            one(2, number.to_le_bytes()),
            reading,
        );
    }
    let shared = file(&[(1, [0; 8], b"t")], &[record("t", 3, &[1], &bytes(4))]).0;
    let reading = Reading::empty().tensor("t", "i32", &[1], &bytes(4)).metadata(json!({"t": 0}));
    f.read("v1-key-shared", "keys", "a tensor and a metadata entry may share a key", shared, reading);
}

fn rules(f: &mut Format) {
    let (sound, _) = sound();
    let u32s = |n: u32| n.to_le_bytes().to_vec();
    let u64s = |n: u64| n.to_le_bytes().to_vec();
    let rows: Vec<(&str, &'static str, &str, usize, Vec<u8>)> = vec![
        ("magic", "version-1", "a file begins with `MAG!`", 0, b"MAG?".to_vec()),
        ("magic-lower-case", "version-1", "a file begins with `MAG!`", 0, b"mag!".to_vec()),
        ("version-0", "version-1", "the version is 1, 100, 200 or 300", 4, u32s(0)),
        ("version-2", "version-1", "the version is 1, 100, 200 or 300", 4, u32s(2)),
        ("version-256", "version-1", "the version is 1, 100, 200 or 300", 4, u32s(256)),
        ("aux-1", "reserved-fields", "the aux of the header is zero", 20, u32s(1)),
        ("aux-high-bit", "reserved-fields", "the aux of the header is zero", 20, u32s(1 << 31)),
        ("metadata-type-0", "reserved-fields", "types of metadata are 1 and 2", ENTRY_N, vec![0]),
        ("metadata-type-3", "reserved-fields", "types of metadata are 1 and 2", ENTRY_N, vec![3]),
        ("metadata-type-255", "reserved-fields", "types of metadata are 1 and 2", ENTRY_M, vec![255]),
        ("metadata-aux-byte-1", "reserved-fields", "unused bytes of aux are zero", ENTRY_N + 1, vec![1]),
        ("metadata-aux-byte-2", "reserved-fields", "unused bytes of aux are zero", ENTRY_N + 2, vec![1]),
        ("metadata-aux-byte-3", "reserved-fields", "unused bytes of aux are zero", ENTRY_N + 3, vec![128]),
        ("metadata-key-empty", "keys", "a key has 1 to 65,535 bytes", ENTRY_N + 12, u32s(0)),
        ("metadata-key-of-65536-bytes", "keys", "a key has 1 to 65,535 bytes", ENTRY_N + 12, u32s(65_536)),
        ("metadata-key-of-4-gib", "keys", "a key has 1 to 65,535 bytes", ENTRY_N + 12, u32s(u32::MAX)),
        ("metadata-key-latin-1", "keys", "a key is UTF-8", ENTRY_N + 16, vec![0xe9]),
        ("metadata-key-twice", "keys", "a key occurs once", ENTRY_M + 16, b"n".to_vec()),
        ("dtype-11", "dtype-codes", "codes of types are 0 to 10", TENSOR_A, vec![11]),
        ("dtype-255", "dtype-codes", "codes of types are 0 to 10", TENSOR_A, vec![255]),
        ("rank-0", "ranks", "ranks are 1 to 255", TENSOR_A + 1, vec![0]),
        ("tensor-aux-byte-2", "reserved-fields", "unused bytes of aux are zero", TENSOR_A + 2, vec![1]),
        ("tensor-aux-byte-3", "reserved-fields", "unused bytes of aux are zero", TENSOR_A + 3, vec![1]),
        ("numel-5", "numbers-of-elements", "numel is the product of the dimensions", TENSOR_A + 4, u64s(5)),
        ("numel-7", "numbers-of-elements", "numel is the product of the dimensions", TENSOR_A + 4, u64s(7)),
        ("numel-0", "numbers-of-elements", "numel is the product of the dimensions", TENSOR_A + 4, u64s(0)),
        (
            "numel-2-to-the-64-minus-1",
            "numbers-of-elements",
            "numel is the product of the dimensions",
            TENSOR_A + 4,
            u64s(u64::MAX),
        ),
        (
            "dimension-5",
            "numbers-of-elements",
            "numel is the product of the dimensions",
            TENSOR_B + 20,
            u64s(5),
        ),
        (
            "dimension-2-to-the-63",
            "numbers-of-elements",
            "a dimension is below 2^63",
            TENSOR_A + 20,
            u64s(1 << 63),
        ),
        (
            "dimension-2-to-the-64-minus-1",
            "numbers-of-elements",
            "a dimension is below 2^63",
            TENSOR_A + 28,
            u64s(u64::MAX),
        ),
        (
            "product-beyond-2-to-the-63",
            "numbers-of-elements",
            "the number of elements is below 2^63",
            TENSOR_A + 20,
            u64s(1 << 62),
        ),
        (
            "offset-behind-the-file",
            "offsets",
            "the file has all values of a tensor",
            TENSOR_A + 12,
            u64s(320),
        ),
        ("end-behind-the-file", "offsets", "the file has all values of a tensor", TENSOR_A + 12, u64s(256)),
        (
            "offset-2-to-the-63",
            "offsets",
            "the file has all values of a tensor",
            TENSOR_A + 12,
            u64s(1 << 63),
        ),
        (
            "offset-that-wraps",
            "offsets",
            "the file has all values of a tensor",
            TENSOR_A + 12,
            u64s(u64::MAX - 63),
        ),
        ("offset-not-aligned", "offsets", "an offset is a multiple of 64", TENSOR_A + 12, u64s(193)),
        ("offset-at-8", "offsets", "an offset is a multiple of 64", TENSOR_B + 12, u64s(200)),
        (
            "values-over-the-records",
            "offsets",
            "values do not lie over the records",
            TENSOR_A + 12,
            u64s(128),
        ),
        ("values-over-the-header", "offsets", "values do not lie over the records", TENSOR_A + 12, u64s(0)),
        ("tensor-key-empty", "keys", "a key has 1 to 65,535 bytes", TENSOR_A + 36, u32s(0)),
        ("tensor-key-of-65536-bytes", "keys", "a key has 1 to 65,535 bytes", TENSOR_A + 36, u32s(65_536)),
        (
            "tensor-key-longer-than-the-file",
            "keys",
            "the file has all bytes of a key",
            TENSOR_B + 28,
            u32s(60_000),
        ),
        ("tensor-key-latin-1", "keys", "a key is UTF-8", TENSOR_B + 32, vec![0xff]),
        ("tensor-key-twice", "keys", "a key occurs once", TENSOR_B + 32, b"a".to_vec()),
        ("tensors-one-more", "version-1", "the file has as many records as its header says", 12, u32s(3)),
        (
            "tensors-2-to-the-32-minus-1",
            "version-1",
            "the file has as many records as its header says",
            12,
            u32s(u32::MAX),
        ),
        ("entries-one-more", "version-1", "the file has as many records as its header says", 16, u32s(3)),
        (
            "entries-2-to-the-32-minus-1",
            "version-1",
            "the file has as many records as its header says",
            16,
            u32s(u32::MAX),
        ),
    ];
    for (slug, section, rule, at, bytes) in rows {
        let file = signed(patched(&sound, at, &bytes), RECORDS_END, false);
        f.refused(format!("v1-{slug}"), section, rule, file);
    }
    let overlap = file(&[], &[record("a", 4, &[128], &bytes(128)), record("b", 4, &[64], &bytes(64))]);
    let over = signed(patched(&overlap.0, 24 + 33 + 12, &192u64.to_le_bytes()), overlap.1, false);
    f.refused("v1-overlap", "offsets", "two tensors do not share a part of their bytes", over);
    let (two, end) = file(&[], &[record("a", 4, &[4], &bytes(4)), record("b", 4, &[4], &bytes(4))]);
    let tied = signed(patched(&two, 24 + 33 + 12, &two[36..44]), end, false);
    let reading = Reading::empty().tensor("a", "i8", &[4], &bytes(4)).tensor("b", "i8", &[4], &bytes(4));
    f.either(
        "v1-tied",
        "offsets",
        "the document does not say whether two tensors may have the same bytes",
        tied,
        Some(reading),
    );
}

fn checksums(f: &mut Format) {
    let (sound, _) = sound();
    let rule = "the checksum is the CRC-32 of header and records";
    for (slug, at) in
        [("checksum", 8), ("entry", ENTRY_N + 4), ("shape", TENSOR_A + 27), ("key", TENSOR_B + 32)]
    {
        let bytes = [sound[at] ^ 1];
        f.refused(format!("v1-damaged-{slug}"), "checksum", rule, patched(&sound, at, &bytes));
    }
    f.refused("v1-checksum-of-zero", "checksum", rule, patched(&sound, 8, &[0; 4]));
    let whole = crc32(&patched(&sound, 8, &[0; 4]));
    f.refused("v1-checksum-of-the-whole-file", "checksum", rule, patched(&sound, 8, &whole.to_le_bytes()));
    let mut swapped = signed(sound, RECORDS_END, false);
    swapped[8..12].reverse();
    f.refused("v1-checksum-big-endian", "checksum", rule, swapped);
}

fn places(f: &mut Format, sound: &[u8], reading: &Reading) {
    let why =
        "the document does not say what padding is; magnetron writes 0xff, and more bytes than it needs";
    let behind = [sound, &[0; 100]].concat();
    f.read(
        "v1-bytes-behind",
        "padding-in-version-1",
        "bytes may follow the last tensor",
        behind,
        reading.clone(),
    );
    let zeros = patched(sound, RECORDS_END, &[0; 60]);
    f.read("v1-padding-of-zeros", "padding-in-version-1", "padding is any byte", zeros, reading.clone());
    let noise = patched(sound, RECORDS_END, &bytes(60));
    f.either("v1-padding-of-noise", "padding-in-version-1", why, noise, Some(reading.clone()));
}

fn cut(f: &mut Format, sound: &[u8]) {
    let fields = [
        ("the magic", 0),
        ("the version", 4),
        ("the checksum", 8),
        ("the number of tensors", 12),
        ("the number of entries", 16),
        ("the aux", 20),
        ("the first entry", ENTRY_N),
        ("the payload", ENTRY_N + 4),
        ("the length of the key", ENTRY_N + 12),
        ("the key", ENTRY_N + 16),
        ("the second entry", ENTRY_M),
        ("the first tensor", TENSOR_A),
        ("the numel", TENSOR_A + 4),
        ("the offset", TENSOR_A + 12),
        ("the shape", TENSOR_A + 20),
        ("the key of the tensor", TENSOR_A + 40),
        ("the second tensor", TENSOR_B),
        ("the padding", RECORDS_END),
        ("the values", 192),
        ("the values of the second tensor", 256),
        ("the last byte", sound.len() - 1),
    ];
    f.cut("v1-", "version-1", sound, &fields);
}
