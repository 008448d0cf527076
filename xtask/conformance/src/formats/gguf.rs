//! GGUF: typed metadata, tensor records, values.

use serde_json::{Map, Value, json};
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
    numbers(&mut f);
    texts(&mut f);
    arrays(&mut f);
    keys(&mut f);
    alignments(&mut f);
    types(&mut f);
    shapes(&mut f);
    names(&mut f);
    offsets(&mut f);
    padding(&mut f);
    big_endian(&mut f);
    splits(&mut f);
    cut(&mut f);
    f
}

/// A file of one metadata entry, `k`.
fn with(kind: u32, value: &[u8]) -> Vec<u8> {
    Gguf::new().entry("k", kind, value).padded()
}

fn key(value: Value) -> Reading {
    Reading::empty().metadata(json!({ "k": value }))
}

/// A file of one tensor of 4 bytes, `w`, and what is in it.
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

fn float(number: f64) -> Value {
    match number {
        _ if number.is_nan() => "NaN".into(),
        f64::INFINITY => "Infinity".into(),
        f64::NEG_INFINITY => "-Infinity".into(),
        _ => number.into(),
    }
}

fn numbers(f: &mut Format) {
    macro_rules! integers {
        ($($kind:literal $type:ident),*) => {$(
            for (slug, number) in [("smallest", $type::MIN), ("largest", $type::MAX), ("of-42", 42)] {
                if slug == "smallest" || number != $type::MIN {
                    let name = format!("{}-{slug}", stringify!($type));
                    let rule = concat!("metadata of type ", stringify!($kind), ": ", stringify!($type));
                    f.read(name, "layout", rule, with($kind, &number.to_le_bytes()), key(number.into()));
                }
            }
        )*};
    }
    integers!(0 u8, 1 i8, 2 u16, 3 i16, 4 u32, 5 i32, 10 u64, 11 i64);
    for (slug, number) in [
        ("one-tenth", 0.1),
        ("minus-zero", -0.0),
        ("smallest", f64::from_bits(1)),
        ("infinity", f64::INFINITY),
        ("minus-infinity", f64::NEG_INFINITY),
        ("nan", f64::NAN),
        ("largest", f64::MAX),
    ] {
        f.read(
            format!("f64-{slug}"),
            "layout",
            "metadata of type 12: f64",
            with(12, &number.to_le_bytes()),
            key(float(number)),
        );
        let short = match slug {
            "smallest" => f32::from_bits(1),
            "largest" => f32::MAX,
            _ => number as f32,
        };
        f.read(
            format!("f32-{slug}"),
            "layout",
            "metadata of type 6: f32",
            with(6, &short.to_le_bytes()),
            key(float(short.into())),
        );
    }
    f.read("bool-false", "booleans", "0 is false", with(7, &[0]), key(false.into()));
    f.read("bool-true", "booleans", "1 is true", with(7, &[1]), key(true.into()));
    for byte in [2u8, 128, 255] {
        f.refused(format!("bool-{byte}"), "booleans", "a boolean is 0 or 1", with(7, &[byte]));
    }
    for (kind, name, size) in KINDS {
        let short = with(kind, &vec![0; size - 1]);
        f.refused(
            format!("{name}-cut-short"),
            "layout",
            format!("a value of type {kind} has {size} bytes"),
            short,
        );
    }
    for kind in [13u32, 14, 100, 1 << 16, u32::MAX] {
        let rule = "types of metadata are 0 to 12";
        f.refused(format!("type-of-value-{kind}"), "layout", rule, with(kind, &[0; 16]));
        f.refused(
            format!("type-of-members-{kind}"),
            "layout",
            rule,
            with(9, &[&kind.to_le_bytes()[..], &[0; 8]].concat()),
        );
    }
}

fn texts(f: &mut Format) {
    let long = "text ".repeat(2000);
    for (slug, text) in [
        ("empty", ""),
        ("ascii", "some text"),
        ("umlaut", "Größe"),
        ("emoji", "🦀"),
        ("nul", "a\0b"),
        ("newline", "a\r\nb"),
        ("long", &long),
    ] {
        f.read(
            format!("text-{slug}"),
            "layout",
            "a text is a length and as many bytes",
            with(8, &string(text)),
            key(text.into()),
        );
    }
    let raw = |bytes: &[u8]| [&(bytes.len() as u64).to_le_bytes()[..], bytes].concat();
    for (slug, bytes) in [
        ("latin-1", &b"caf\xe9"[..]),
        ("overlong", b"\xc0\xaf"),
        ("surrogate", b"\xed\xa0\x80"),
        ("cut-short", b"\xf0\x9f\xa6"),
    ] {
        f.refused(format!("text-utf-8-{slug}"), "text", "texts are UTF-8", with(8, &raw(bytes)));
        f.refused(
            format!("array-of-text-utf-8-{slug}"),
            "text",
            "texts are UTF-8",
            with(9, &array(8, &[raw(bytes)])),
        );
    }
    for (slug, value) in [
        ("longer-than-the-file", [&5u64.to_le_bytes()[..], b"abcd"].concat()),
        ("of-2-to-the-63-bytes", (1u64 << 63).to_le_bytes().to_vec()),
        ("of-2-to-the-64-minus-1-bytes", vec![255; 8]),
    ] {
        f.refused(format!("text-{slug}"), "layout", "the file has all bytes of a text", with(8, &value));
    }
}

fn arrays(f: &mut Format) {
    let rule = "an array is the type of its members, their number, and the members";
    for (kind, name, size) in KINDS {
        let read = |count: usize| -> (Vec<Vec<u8>>, Value) {
            let members = (0..count).map(|n| match name {
                "f32" => (n as f32 / 4.0).to_le_bytes().to_vec(),
                "f64" => (n as f64 / 4.0).to_le_bytes().to_vec(),
                "bool" => vec![(n % 2) as u8],
                _ => (n as u64).to_le_bytes()[..size].to_vec(),
            });
            let values = (0..count).map(|n| match name {
                "f32" | "f64" => (n as f64 / 4.0).into(),
                "bool" => (n % 2 == 1).into(),
                _ => Value::from(n),
            });
            (members.collect(), values.collect())
        };
        for count in [0, 1, 5] {
            let (members, value) = read(count);
            f.read(
                format!("array-of-{count}-{name}"),
                "layout",
                rule,
                with(9, &array(kind, &members)),
                key(value),
            );
        }
        let (members, _) = read(5);
        let mut short = array(kind, &members);
        short.pop();
        f.refused(
            format!("array-of-{name}-cut-short"),
            "layout",
            "the file has all members of an array",
            with(9, &short),
        );
        let far = [&kind.to_le_bytes()[..], &u64::MAX.to_le_bytes()].concat();
        f.refused(
            format!("array-of-2-to-the-64-minus-1-{name}"),
            "layout",
            "the file has all members of an array",
            with(9, &far),
        );
    }
    let texts: Vec<_> = ["a", "", "🦀"].map(string).to_vec();
    f.read("array-of-text", "layout", rule, with(9, &array(8, &texts)), key(json!(["a", "", "🦀"])));
    f.read("array-of-no-text", "layout", rule, with(9, &array(8, &[])), key(json!([])));
    let many: Vec<_> = (0..3000).map(|n| string(&format!("token{n}"))).collect();
    let value: Vec<_> = (0..3000).map(|n| format!("token{n}")).collect();
    f.read("array-of-3000-texts", "layout", rule, with(9, &array(8, &many)), key(json!(value)));
    let nested = array(9, &[array(0, &[vec![1], vec![2]]), array(8, &[string("x")]), array(9, &[])]);
    f.read(
        "array-of-arrays",
        "nesting",
        "arrays of arrays, each with a type of its own",
        with(9, &nested),
        key(json!([[1, 2], ["x"], []])),
    );
    let deep =
        |levels: usize| (0..levels).fold(vec![7], |inner, n| array(if n == 0 { 0 } else { 9 }, &[inner]));
    let value = |levels: usize| (0..levels).fold(json!(7), |inner, _| json!([inner]));
    f.read("array-4-levels-deep", "nesting", "arrays of arrays", with(9, &deep(4)), key(value(4)));
    for levels in [100, 1000, 20_000] {
        let reading = (levels == 100).then(|| key(value(levels)));
        f.either(
            format!("array-{levels}-levels-deep"),
            "nesting",
            "a reader has a limit of nesting, or none",
            with(9, &deep(levels)),
            reading,
        );
    }
    let head = |kind: u32, count: u64| [&kind.to_le_bytes()[..], &count.to_le_bytes()].concat();
    for (slug, value) in [
        ("text-one-more", [head(8, 2), string("")].concat()),
        ("2-to-the-61-texts", head(8, 1 << 61)),
        ("2-to-the-61-arrays", head(9, 1 << 61)),
        ("one-array-more", [head(9, 2), array(0, &[])].concat()),
        ("2-to-the-32-u8", head(0, 1 << 32)),
        ("bytes-that-wrap-to-0", head(10, 1 << 61)),
    ] {
        f.refused(
            format!("array-of-{slug}"),
            "layout",
            "the file has all members of an array",
            with(9, &value),
        );
    }
    f.refused("array-of-bool-3", "booleans", "a boolean is 0 or 1", with(9, &array(7, &[vec![1], vec![3]])));
}

fn keys(f: &mut Format) {
    let byte = |key: &str| Gguf::new().entry(key, 0, &[1]).padded();
    for (slug, key) in [("dots", "general.name"), ("digits", "a.0.b1"), ("long", &"k".repeat(300))] {
        let reading = Reading::empty().metadata(json!({ key: 1 }));
        f.read(format!("key-{slug}"), "names-and-keys", "a key is ASCII", byte(key), reading);
    }
    let why = "the document asks for segments in lower_snake_case, and keys in the wild have others";
    let reading = Reading::empty().metadata(json!({"My-Key_1": 1}));
    f.either("key-capitals-and-dashes", "names-and-keys", why, byte("My-Key_1"), Some(reading));
    f.either(
        "key-empty",
        "names-and-keys",
        "the document does not forbid a key without characters",
        byte(""),
        Some(Reading::empty().metadata(json!({"": 1}))),
    );
    for (slug, key) in [("umlaut", "größe"), ("emoji", "🦀")] {
        f.refused(format!("key-{slug}"), "names-and-keys", "a key is ASCII", byte(key));
    }
    f.refused(
        "key-of-65536-bytes",
        "names-and-keys",
        "a key has at most 65,535 bytes",
        byte(&"k".repeat(65_536)),
    );
    let file = byte("key");
    f.refused("key-latin-1", "text", "keys are UTF-8", patched(&file, 32, &[0xe9]));
    for (slug, len) in [
        ("longer-than-the-file", 200u64),
        ("of-2-to-the-63-bytes", 1 << 63),
        ("of-2-to-the-64-minus-1-bytes", u64::MAX),
    ] {
        f.refused(
            format!("key-{slug}"),
            "layout",
            "the file has all bytes of a key",
            patched(&file, 24, &len.to_le_bytes()),
        );
    }
    let twice = "a key may occur once";
    f.refused(
        "key-twice",
        "names-and-keys",
        twice,
        Gguf::new().entry("k", 0, &[1]).entry("k", 0, &[2]).padded(),
    );
    f.refused(
        "key-twice-the-same",
        "names-and-keys",
        twice,
        Gguf::new().entry("k", 0, &[1]).entry("k", 0, &[1]).padded(),
    );
    f.refused(
        "key-twice-two-types",
        "names-and-keys",
        twice,
        Gguf::new().entry("k", 0, &[1]).entry("k", 8, &string("x")).padded(),
    );
    let all: Vec<_> = (0..200).map(|n| format!("key.{n}")).collect();
    let many = all.iter().fold(Gguf::new(), |file, key| file.entry(key, 8, &string(key)));
    let value: Map<_, _> = all.iter().map(|key| (key.clone(), Value::from(key.as_str()))).collect();
    f.read(
        "keys-200",
        "layout",
        "metadata entries, one after the other",
        many.padded(),
        Reading::empty().metadata(value.into()),
    );
}

fn alignments(f: &mut Format) {
    let values = bytes(5);
    let made = |kind: u32, value: &[u8], alignment: usize| {
        let file = Gguf::new().alignment(alignment).entry("general.alignment", kind, value);
        file.tensor("a", 24, &[5], &values).tensor("b", 24, &[3], &values[..3]).padded()
    };
    for alignment in [1u32, 2, 4, 8, 16, 32, 64, 128, 4096] {
        let reading = Reading::empty().tensor("a", "i8", &[5], &values).tensor("b", "i8", &[3], &values[..3]);
        let reading = reading.metadata(json!({"general.alignment": alignment}));
        let (name, file) =
            (format!("alignment-{alignment}"), made(4, &alignment.to_le_bytes(), alignment as usize));
        if alignment < 8 {
            let why = "the document asks for a multiple of 8; ggml takes any power of two";
            f.either(name, "alignment", why, file, Some(reading));
        } else {
            f.read(name, "alignment", "general.alignment is a multiple of 8", file, reading);
        }
    }
    for alignment in [24u32, 40, 96] {
        let why = "the document allows multiples of 8 that are no powers of two, ggml does not";
        f.either(
            format!("alignment-{alignment}"),
            "alignment",
            why,
            made(4, &alignment.to_le_bytes(), alignment as usize),
            None,
        );
    }
    for alignment in [0u32, 3, 5, 12, 31, 33, u32::MAX] {
        let rule = "general.alignment is a multiple of 8";
        f.refused(format!("alignment-{alignment}"), "alignment", rule, made(4, &alignment.to_le_bytes(), 32));
    }
    let number = 32u64.to_le_bytes();
    for (kind, name, size) in KINDS {
        if kind != 4 {
            let value = if name == "bool" { vec![1] } else { number[..size].to_vec() };
            f.refused(
                format!("alignment-of-type-{name}"),
                "alignment",
                "general.alignment is a u32",
                made(kind, &value, 32),
            );
        }
    }
    f.refused(
        "alignment-of-type-text",
        "alignment",
        "general.alignment is a u32",
        made(8, &string("32"), 32),
    );
    f.refused(
        "alignment-of-type-array",
        "alignment",
        "general.alignment is a u32",
        made(9, &array(4, &[vec![32, 0, 0, 0]]), 32),
    );
}

fn types(f: &mut Format) {
    for (number, name, elements, size) in TYPES {
        let section = if name == "q8_1" { "q8_1" } else { "tensor-types" };
        for (slug, dims) in [
            ("row", vec![elements.max(4)]),
            ("rows", vec![2 * elements.max(4), 3]),
            ("no-rows", vec![elements, 0]),
        ] {
            let count: u64 = dims.iter().product();
            let values = bytes((count / elements * size) as usize);
            let shape: Vec<_> = dims.iter().rev().copied().collect();
            let file = Gguf::new().tensor("w", number, &dims, &values).padded();
            let rule = format!("type {number} is {name}: {elements} elements in {size} bytes");
            let reading = Reading::empty().tensor("w", name, &shape, &values);
            if count == 0 {
                f.either(
                    format!("type-{name}-{slug}"),
                    "dimensions",
                    "a dimension of 0; some versions of ggml refuse it",
                    file,
                    Some(reading),
                );
            } else {
                f.read(format!("type-{name}-{slug}"), section, rule, file, reading);
            }
        }
        let short = Gguf::new().tensor("w", number, &[elements], &bytes(size as usize - 1)).build();
        f.refused(format!("type-{name}-cut-short"), "offsets", "the file has all values of a tensor", short);
        if elements > 1 {
            let rule = "a row is a whole number of blocks";
            let record = |dims: &[u64]| Gguf::new().record("w", number, dims, 0).data(&[0; 1024]).padded();
            f.refused(format!("type-{name}-half-a-block"), "rows", rule, record(&[elements / 2]));
            f.refused(format!("type-{name}-two-halves-of-a-block"), "rows", rule, record(&[elements / 2, 2]));
            f.refused(format!("type-{name}-scalar"), "rows", rule, record(&[]));
        }
    }
    for number in [4u32, 5, 31, 32, 33, 36, 37, 38] {
        let file = Gguf::new().record("w", number, &[256], 0).data(&[0; 1024]).padded();
        f.refused(
            format!("type-{number}-removed"),
            "tensor-types",
            format!("type {number} was removed from ggml"),
            file,
        );
    }
    for number in [1000u32, 1 << 16, 1 << 31, u32::MAX] {
        let file = Gguf::new().record("w", number, &[256], 0).data(&[0; 1024]).padded();
        f.refused(format!("type-{number}"), "tensor-types", "types have numbers that ggml gave them", file);
    }
}

fn shapes(f: &mut Format) {
    for (slug, dims) in [
        ("rank-1", vec![6]),
        ("rank-2", vec![3, 2]),
        ("rank-3", vec![4, 3, 2]),
        ("rank-4", vec![5, 4, 3, 2]),
        ("ones", vec![1, 1, 1, 1]),
    ] {
        let values = bytes(dims.iter().product::<u64>() as usize * 4);
        let shape: Vec<_> = dims.iter().rev().copied().collect();
        let file = Gguf::new().tensor("w", 0, &dims, &values).padded();
        let rule = "the fastest dimension comes first in the file";
        f.read(
            format!("shape-{slug}"),
            "dimensions",
            rule,
            file,
            Reading::empty().tensor("w", "f32", &shape, &values),
        );
    }
    let values = bytes(4);
    let scalar = Gguf::new().tensor("w", 0, &[], &values).padded();
    let why = "a tensor without dimensions: ggml takes it for one element";
    f.either(
        "shape-rank-0",
        "dimensions",
        why,
        scalar,
        Some(Reading::empty().tensor("w", "f32", &[], &values)),
    );
    for rank in [5, 6, 8] {
        let file = Gguf::new().tensor("w", 0, &vec![1; rank], &values).padded();
        f.refused(format!("shape-rank-{rank}"), "dimensions", "a tensor has at most 4 dimensions", file);
    }
    let sound = one().0.padded();
    f.refused(
        "shape-rank-2-to-the-32-minus-1",
        "dimensions",
        "a tensor has at most 4 dimensions",
        patched(&sound, 33, &[255; 4]),
    );
    for (slug, kind, dims) in [
        ("product-of-2-to-the-66", 24, vec![1 << 33, 1 << 33]),
        ("product-that-wraps-to-4", 24, vec![(1 << 62) + 1, 4]),
        ("bytes-that-wrap-to-0", 28, vec![1 << 61]),
        ("dimension-of-2-to-the-63", 24, vec![1 << 63]),
        ("dimension-of-2-to-the-64-minus-1", 24, vec![u64::MAX]),
        ("blocks-that-wrap", 8, vec![1 << 63]),
        ("more-than-the-file", 24, vec![1 << 40]),
    ] {
        let file = Gguf::new().record("w", kind, &dims, 0).data(&[0; 64]).padded();
        f.refused(format!("shape-{slug}"), "offsets", "the file has all values of a tensor", file);
    }
}

fn names(f: &mut Format) {
    let values = bytes(4);
    let named = |name: &str| {
        (
            Gguf::new().tensor(name, 24, &[4], &values).padded(),
            Reading::empty().tensor(name, "i8", &[4], &values),
        )
    };
    let long = "n".repeat(63);
    for (slug, name) in [
        ("usual", "blk.0.attn_q.weight"),
        ("slashes", "a/b\\c"),
        ("umlaut", "Größe"),
        ("emoji", "🦀"),
        ("of-63-bytes", &long),
    ] {
        let (file, reading) = named(name);
        f.read(
            format!("name-{slug}"),
            "names-and-keys",
            "a name is any text of less than 64 bytes",
            file,
            reading,
        );
    }
    let (file, reading) = named("");
    f.either(
        "name-empty",
        "names-and-keys",
        "the document does not forbid a name without characters",
        file,
        Some(reading),
    );
    let (file, _) = named(&"n".repeat(64));
    f.either("name-of-64-bytes", "names-and-keys", "the document allows 64 bytes, ggml 63", file, None);
    for len in [65, 200] {
        f.refused(
            format!("name-of-{len}-bytes"),
            "names-and-keys",
            "a name has at most 64 bytes",
            named(&"n".repeat(len)).0,
        );
    }
    let sound = named("name").0;
    f.refused("name-latin-1", "text", "names are UTF-8", patched(&sound, 32, &[0xe9]));
    f.refused("name-cut-utf-8", "text", "names are UTF-8", patched(&sound, 35, &[0xc3]));
    for (slug, len) in [
        ("longer-than-the-file", 200u64),
        ("of-2-to-the-63-bytes", 1 << 63),
        ("of-2-to-the-64-minus-1-bytes", u64::MAX),
    ] {
        f.refused(
            format!("name-{slug}"),
            "layout",
            "the file has all bytes of a name",
            patched(&sound, 24, &len.to_le_bytes()),
        );
    }
    let twice = Gguf::new().tensor("w", 24, &[4], &values).tensor("w", 24, &[4], &values);
    f.refused("name-twice", "names-and-keys", "a name may occur once", twice.padded());
    let apart = Gguf::new().tensor("w", 24, &[4], &values).tensor("v", 24, &[1], &values[..1]).tensor(
        "w",
        0,
        &[1],
        &values,
    );
    f.refused("name-twice-apart", "names-and-keys", "a name may occur once", apart.padded());
    let many = (0..150u64).fold((Gguf::new(), Reading::empty()), |(file, reading), n| {
        let (name, values) = (format!("t{n}"), bytes(n as usize % 40 + 1));
        (
            file.tensor(&name, 24, &[values.len() as u64], &values),
            reading.tensor(&name, "i8", &[values.len() as u64], &values),
        )
    });
    f.read("tensors-150", "layout", "tensor records, one after the other", many.0.padded(), many.1);
}

fn offsets(f: &mut Format) {
    let data = bytes(128);
    let a = |file: Gguf| file.record("a", 24, &[32], 0);
    let aligned = "an offset is a multiple of the alignment";
    for offset in [1u64, 4, 8, 16, 31, 33] {
        let file = Gguf::new().record("w", 24, &[4], offset).data(&data).padded();
        f.refused(format!("offset-{offset}"), "offsets", aligned, file);
    }
    let inside = "the file has all values of a tensor";
    for (slug, count, offset) in [
        ("at-the-end", 1, 128u64),
        ("over-the-end", 100, 64),
        ("beyond-the-end", 1, 1 << 20),
        ("2-to-the-63", 1, 1 << 63),
        ("near-2-to-the-64", 32, u64::MAX - 31),
        ("that-wraps-into-the-header", 32, u64::MAX - 95),
    ] {
        let file = Gguf::new().record("w", 24, &[count], offset).data(&data).padded();
        f.refused(format!("offset-{slug}"), "offsets", inside, file);
    }
    f.refused("no-data-but-padding", "offsets", inside, {
        let mut file = Gguf::new().record("w", 24, &[1], 0).padded();
        file.resize(file.len().next_multiple_of(32), 0);
        file
    });
    let order = "the document asks for aligned offsets only; ggml for tensors one after the other, in the order of their records";
    let reading = |b: usize| {
        Reading::empty().tensor("a", "i8", &[32], &data[..32]).tensor("b", "i8", &[32], &data[b..b + 32])
    };
    f.either(
        "offset-with-a-gap",
        "offsets",
        order,
        a(Gguf::new()).record("b", 24, &[32], 64).data(&data[..96]).padded(),
        Some(reading(64)),
    );
    f.either(
        "offset-shared",
        "offsets",
        order,
        a(Gguf::new()).record("b", 24, &[32], 0).data(&data[..32]).padded(),
        Some(reading(0)),
    );
    let reading =
        Reading::empty().tensor("b", "i8", &[32], &data[32..64]).tensor("a", "i8", &[32], &data[..32]);
    f.either(
        "offset-in-another-order",
        "offsets",
        order,
        a(Gguf::new().record("b", 24, &[32], 32)).data(&data[..64]).padded(),
        Some(reading),
    );
    f.either(
        "offset-with-an-overlap",
        "offsets",
        order,
        Gguf::new().record("a", 24, &[64], 0).record("b", 24, &[64], 32).data(&data[..96]).padded(),
        None,
    );
}

fn padding(f: &mut Format) {
    let (sound, reading) = one();
    let file = sound.padded();
    let listing = sound.listing().len();
    let missing = "writers pad the last tensor too, and the document speaks of the space between tensors";
    f.either(
        "padding-missing-behind-the-last-tensor",
        "padding",
        missing,
        sound.build(),
        Some(reading.clone()),
    );
    let mut empty = Gguf::new().build();
    empty.resize(32, 0);
    f.read(
        "padding-without-tensors",
        "padding",
        "records are padded to the alignment",
        empty,
        Reading::empty(),
    );
    let why = "the document says that padding should be 0";
    f.either(
        "padding-not-zero-before-the-values",
        "padding",
        why,
        patched(&file, listing, &[1]),
        Some(reading.clone()),
    );
    let two = Gguf::new().tensor("a", 24, &[4], &bytes(4)).tensor("b", 24, &[4], &bytes(4));
    let at = two.build().len() - 8;
    let reading_of_two =
        Reading::empty().tensor("a", "i8", &[4], &bytes(4)).tensor("b", "i8", &[4], &bytes(4));
    f.read(
        "padding-between-tensors",
        "padding",
        "values are padded to the alignment",
        two.padded(),
        reading_of_two.clone(),
    );
    f.either(
        "padding-not-zero-between-tensors",
        "padding",
        why,
        patched(&two.padded(), at, &[1]),
        Some(reading_of_two),
    );
    let mut behind = file;
    behind.resize(behind.len().next_multiple_of(32) + 64, 7);
    f.either(
        "bytes-behind",
        "padding",
        "the document does not say whether bytes may follow the last tensor",
        behind,
        Some(reading),
    );
}

/// Text as a big-endian file has it.
fn big(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_be_bytes(), text.as_bytes()].concat()
}

fn big_endian(f: &mut Format) {
    let why = "version 3 allows big-endian files, and a reader need not support them";
    let head = |version: u32, tensors: u64, entries: u64| {
        [&b"GGUF"[..], &version.to_be_bytes(), &tensors.to_be_bytes(), &entries.to_be_bytes()].concat()
    };
    let mut file = head(3, 0, 4);
    for (key, kind, value) in [
        ("u16", 2u32, 0x0102u16.to_be_bytes().to_vec()),
        ("f64", 12, 0.1f64.to_be_bytes().to_vec()),
        ("text", 8, big("some")),
        (
            "list",
            9,
            [&4u32.to_be_bytes()[..], &2u64.to_be_bytes(), &1u32.to_be_bytes(), &2u32.to_be_bytes()].concat(),
        ),
    ] {
        file.extend([big(key), kind.to_be_bytes().to_vec(), value].concat());
    }
    let metadata = json!({"u16": 0x0102, "f64": 0.1, "text": "some", "list": [1, 2]});
    f.either("big-endian-metadata", "byte-order", why, file, Some(Reading::empty().metadata(metadata)));
    for (number, name, elements, size) in TYPES {
        let mut file =
            [head(3, 1, 0), big("w"), 1u32.to_be_bytes().to_vec(), elements.max(4).to_be_bytes().to_vec()]
                .concat();
        file.extend([&number.to_be_bytes()[..], &0u64.to_be_bytes()].concat());
        file.resize(file.len().next_multiple_of(32), 0);
        let values = bytes(if elements == 1 { 4 * size as usize } else { size as usize });
        file.extend(&values);
        if elements == 1 {
            let mut little = values.clone();
            little.chunks_mut(size as usize).for_each(<[u8]>::reverse);
            f.either(
                format!("big-endian-{name}"),
                "byte-order",
                why,
                file,
                Some(Reading::empty().tensor("w", name, &[4], &little)),
            );
        } else {
            f.either(
                format!("big-endian-{name}"),
                "byte-order",
                "nothing says which bytes of a block are swapped",
                file,
                None,
            );
        }
    }
    for version in [1, 4] {
        f.refused(
            format!("big-endian-version-{version}"),
            "layout",
            "the version is 2 or 3",
            head(version, 0, 0),
        );
    }
    let mixed = patched(&one().0.padded(), 4, &3u32.to_be_bytes());
    f.refused("big-endian-version-alone", "byte-order", "all numbers of a file have one byte order", mixed);
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
