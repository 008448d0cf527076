//! Metadata: values of each type, keys, and the alignment.

use serde_json::{Map, Value, json};
use testkit::gguf::{Gguf, array, string};
use testkit::patched;

use super::{KINDS, key, with};
use crate::suite::{Format, Reading, bytes};

fn float(number: f64) -> Value {
    match number {
        _ if number.is_nan() => "NaN".into(),
        f64::INFINITY => "Infinity".into(),
        f64::NEG_INFINITY => "-Infinity".into(),
        _ => number.into(),
    }
}

pub(super) fn numbers(f: &mut Format) {
    macro_rules! integers {
        ($($kind:literal $type:ident),*) => {$(
            for (slug, number) in [("smallest", $type::MIN), ("largest", $type::MAX), ("of-42", 42)] {
                if slug == "smallest" || number != $type::MIN {
                    let name = format!("{}-{slug}", stringify!($type));
                    let rule = concat!("metadata of type ", stringify!($kind), ": ", stringify!($type));
                    f.read(name, "layout", rule, with($kind, &number.to_le_bytes()), key(number));
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
            key(float(f64::from(short))),
        );
    }
    f.read("bool-false", "booleans", "0 is false", with(7, &[0]), key(false));
    f.read("bool-true", "booleans", "1 is true", with(7, &[1]), key(true));
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

pub(super) fn texts(f: &mut Format) {
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
            key(text),
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

pub(super) fn arrays(f: &mut Format) {
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

pub(super) fn keys(f: &mut Format) {
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

pub(super) fn alignments(f: &mut Format) {
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
