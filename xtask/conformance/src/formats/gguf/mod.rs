//! GGUF: typed metadata, tensor records, values.

mod metadata;
mod tensors;

use serde_json::{Value, json};
use testkit::gguf::{Gguf, array, string};
use testkit::patched;

use crate::suite::{Format, Reading, bytes};

/// ggml's number of a type, its name, and how many elements take how many bytes.
const TYPES: [(u32, &str, u64, u64); 35] = [
    (0, "f32", 1, 4),
    (1, "f16", 1, 2),
    (2, "q4_0", 32, 18),
    (3, "q4_1", 32, 20),
    (6, "q5_0", 32, 22),
    (7, "q5_1", 32, 24),
    (8, "q8_0", 32, 34),
    (9, "q8_1", 32, 36),
    (10, "q2_k", 256, 84),
    (11, "q3_k", 256, 110),
    (12, "q4_k", 256, 144),
    (13, "q5_k", 256, 176),
    (14, "q6_k", 256, 210),
    (15, "q8_k", 256, 292),
    (16, "iq2_xxs", 256, 66),
    (17, "iq2_xs", 256, 74),
    (18, "iq3_xxs", 256, 98),
    (19, "iq1_s", 256, 50),
    (20, "iq4_nl", 32, 18),
    (21, "iq3_s", 256, 110),
    (22, "iq2_s", 256, 82),
    (23, "iq4_xs", 256, 136),
    (24, "i8", 1, 1),
    (25, "i16", 1, 2),
    (26, "i32", 1, 4),
    (27, "i64", 1, 8),
    (28, "f64", 1, 8),
    (29, "iq1_m", 256, 56),
    (30, "bf16", 1, 2),
    (34, "tq1_0", 256, 54),
    (35, "tq2_0", 256, 66),
    (39, "mxfp4", 32, 17),
    (40, "nvfp4", 64, 36),
    (41, "q1_0", 128, 18),
    (42, "q2_0", 64, 18),
];

/// The number of each type of metadata, its name and its size.
const KINDS: [(u32, &str, usize); 11] = [
    (0, "u8", 1),
    (1, "i8", 1),
    (2, "u16", 2),
    (3, "i16", 2),
    (4, "u32", 4),
    (5, "i32", 4),
    (6, "f32", 4),
    (7, "bool", 1),
    (10, "u64", 8),
    (11, "i64", 8),
    (12, "f64", 8),
];

pub(crate) fn files() -> Format {
    let mut f = Format::new("gguf", "gguf", "docs/formats/gguf.md");
    headers(&mut f);
    metadata::numbers(&mut f);
    metadata::texts(&mut f);
    metadata::arrays(&mut f);
    metadata::keys(&mut f);
    metadata::alignments(&mut f);
    tensors::types(&mut f);
    tensors::shapes(&mut f);
    tensors::names(&mut f);
    tensors::offsets(&mut f);
    tensors::padding(&mut f);
    tensors::big_endian(&mut f);
    splits(&mut f);
    cut(&mut f);
    f
}

/// Makes a file with one metadata entry, `k`.
fn with(kind: u32, value: &[u8]) -> Vec<u8> {
    Gguf::new().entry("k", kind, value).padded()
}

fn key(value: impl Into<Value>) -> Reading {
    Reading::empty().metadata(json!({ "k": value.into() }))
}

/// Makes a file with one tensor of 4 bytes, `w`, and returns what is in it.
fn one() -> (Gguf, Reading) {
    let values = bytes(4);
    (Gguf::new().tensor("w", 24, &[4], &values), Reading::empty().tensor("w", "i8", &[4], &values))
}

fn headers(f: &mut Format) {
    let (sound, reading) = one();
    f.read("empty", "layout", "a file without metadata and tensors", Gguf::new().padded(), Reading::empty());
    let file = sound.clone().entry("general.architecture", 8, &string("none")).padded();
    let described = reading.clone().metadata(json!({"general.architecture": "none"}));
    f.read("version-3", "layout", "version 3", file, described);
    f.read(
        "version-2",
        "layout",
        "version 2 has the layout of version 3",
        sound.clone().version(2).padded(),
        reading,
    );
    let file = sound.padded();
    for (slug, magic) in [
        ("ggml", b"GGML"),
        ("ggjt", b"GGJT"),
        ("lower-case", b"gguf"),
        ("reversed", b"FUGG"),
        ("zeros", b"\0\0\0\0"),
    ] {
        f.refused(format!("magic-{slug}"), "layout", "a file begins with `GGUF`", patched(&file, 0, magic));
    }
    for version in [0u32, 4, 5, 1 << 16, 0x0004_0000, u32::MAX] {
        let rule = "the version is 2 or 3";
        f.refused(format!("version-{version}"), "layout", rule, patched(&file, 4, &version.to_le_bytes()));
    }
    let v1 = [&b"GGUF\x01\0\0\0"[..], &[0; 8]].concat();
    f.either(
        "version-1",
        "layout",
        "version 1, whose counts have 32 bits, is no longer written",
        v1,
        Some(Reading::empty()),
    );
    for (slug, at, number) in [
        ("tensors-one-more", 8, 2u64),
        ("tensors-2-to-the-32-minus-1", 8, u32::MAX.into()),
        ("tensors-2-to-the-63", 8, 1 << 63),
        ("tensors-2-to-the-64-minus-1", 8, u64::MAX),
        ("entries-one-more", 16, 1),
        ("entries-a-million", 16, 1_000_000),
        ("entries-2-to-the-63", 16, 1 << 63),
        ("entries-2-to-the-64-minus-1", 16, u64::MAX),
    ] {
        let rule = "the file has as many records as its header says";
        f.refused(format!("count-of-{slug}"), "layout", rule, patched(&file, at, &number.to_le_bytes()));
    }
}

fn splits(f: &mut Format) {
    let (sound, _) = one();
    let part = sound.entry("split.no", 2, &[0, 0]).entry("split.count", 2, &[2, 0]).entry(
        "split.tensors.count",
        5,
        &[2, 0, 0, 0],
    );
    f.either(
        "first-file-of-a-split",
        "split-sets",
        "one file of two, which is not the whole model",
        part.padded(),
        None,
    );
}

fn cut(f: &mut Format) {
    let list = array(9, &[array(8, &[string("text")]), array(2, &[vec![1, 0]])]);
    let file = Gguf::new()
        .entry("number", 4, &[7, 0, 0, 0])
        .entry("text", 8, &string("some"))
        .entry("list", 9, &list);
    let sound = file.tensor("a", 0, &[2, 2], &bytes(16)).tensor("b", 24, &[3], &bytes(3));
    let (len, listing) = (sound.build().len(), sound.listing().len());
    let record = listing - 33; // of b: 8 + 1, 4, 8, 4, 8
    let fields = [
        ("the magic", 0),
        ("the version", 4),
        ("the number of tensors", 8),
        ("the number of entries", 16),
        ("the length of the first key", 24),
        ("the first key", 32),
        ("the first type", 38),
        ("the first value", 42),
        ("the second key", 54),
        ("the length of a text", 62),
        ("a text", 70),
        ("the third key", 82),
        ("the type of members", 90),
        ("the number of members", 94),
        ("the type of inner members", 102),
        ("the number of inner members", 106),
        ("the length of a member", 114),
        ("a member", 122),
        ("the last array", 126),
        ("the last member", 138),
        ("the name of the first tensor", 140),
        ("the name of the second tensor", record + 8),
        ("the rank", record + 9),
        ("the dimension", record + 13),
        ("the type of the second tensor", record + 21),
        ("the offset", record + 25),
        ("the padding", listing),
        ("the values of the first tensor", listing.next_multiple_of(32)),
        ("the second value", listing.next_multiple_of(32) + 4),
        ("the values of the second tensor", len - 3),
        ("the last byte", len - 1),
    ];
    f.cut("", "layout", &sound.build(), &fields);
}
