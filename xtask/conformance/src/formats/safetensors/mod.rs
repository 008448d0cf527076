//! safetensors: a JSON header and the values.

mod json;

use serde_json::{Value, json};

use crate::suite::{Format, Reading, bytes};

/// The format's name of a type, our name, and how many elements take how many bytes.
const DTYPES: [(&str, &str, u64, u64); 22] = [
    ("BOOL", "bool", 1, 1),
    ("U8", "u8", 1, 1),
    ("I8", "i8", 1, 1),
    ("U16", "u16", 1, 2),
    ("I16", "i16", 1, 2),
    ("U32", "u32", 1, 4),
    ("I32", "i32", 1, 4),
    ("U64", "u64", 1, 8),
    ("I64", "i64", 1, 8),
    ("F16", "f16", 1, 2),
    ("BF16", "bf16", 1, 2),
    ("F32", "f32", 1, 4),
    ("F64", "f64", 1, 8),
    ("C64", "c64", 1, 8),
    ("F8_E4M3", "f8_e4m3", 1, 1),
    ("F8_E5M2", "f8_e5m2", 1, 1),
    ("F8_E8M0", "f8_e8m0", 1, 1),
    ("F8_E4M3FNUZ", "f8_e4m3fnuz", 1, 1),
    ("F8_E5M2FNUZ", "f8_e5m2fnuz", 1, 1),
    ("F6_E2M3", "f6_e2m3", 4, 3),
    ("F6_E3M2", "f6_e3m2", 4, 3),
    ("F4", "f4", 2, 1),
];

pub(crate) fn files() -> Format {
    let mut f = Format::new("safetensors", "safetensors", "docs/formats/safetensors.md");
    dtypes(&mut f);
    shapes(&mut f);
    headers(&mut f);
    names(&mut f);
    metadata(&mut f);
    json::values_that_are_wrong(&mut f);
    json::numbers_that_are_wrong(&mut f);
    json::json_that_is_wrong(&mut f);
    coverage(&mut f);
    cut(&mut f);
    f
}

fn raw(header: &[u8], data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header, data].concat()
}

fn file(header: &str, data: &[u8]) -> Vec<u8> {
    raw(header.as_bytes(), data)
}

/// Returns the entry of a tensor. All but the name is given as it stands in the header.
fn entry(name: &str, dtype: &str, shape: &str, offsets: &str) -> String {
    format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}"#)
}

/// Makes a file from entries.
fn of(entries: &[String], data: &[u8]) -> Vec<u8> {
    file(&format!("{{{}}}", entries.join(",")), data)
}

fn one(reading_name: &str, data: &[u8]) -> Reading {
    Reading::empty().tensor(reading_name, "u8", &[data.len() as u64], data)
}

fn dtypes(f: &mut Format) {
    for (name, dtype, elements, size) in DTYPES {
        let slug = name.to_lowercase();
        let nbytes = 8 / elements * size;
        let data = if name == "BOOL" { vec![0, 1, 1, 0, 1, 0, 0, 1] } else { bytes(nbytes as usize) };
        let tensor = of(&[entry("t", name, "[2,4]", &format!("[0,{nbytes}]"))], &data);
        let reading = Reading::empty().tensor("t", dtype, &[2, 4], &data);
        f.read(format!("dtype-{slug}"), "layout", format!("{name} is a dtype"), tensor, reading);
        let empty = of(&[entry("t", name, "[3,0]", "[0,0]")], &[]);
        let reading = Reading::empty().tensor("t", dtype, &[3, 0], &[]);
        f.read(format!("empty-{slug}"), "layout", "a dimension may be 0", empty, reading);
        let scalar = of(&[entry("t", name, "[]", &format!("[0,{size}]"))], &data[..size as usize]);
        if elements == 1 {
            let reading = Reading::empty().tensor("t", dtype, &[], &data[..size as usize]);
            f.read(format!("scalar-{slug}"), "layout", "the shape [] is that of a scalar", scalar, reading);
        } else {
            let rule = format!("one element of {name} is no whole number of bytes");
            f.refused(format!("scalar-{slug}"), "small-floats", rule, scalar);
        }
        for (what, len) in [("short", nbytes - 1), ("long", nbytes + 1)] {
            let data = bytes(len as usize);
            let wrong = of(&[entry("t", name, "[2,4]", &format!("[0,{len}]"))], &data);
            let rule = format!("8 elements of {name} take {nbytes} bytes, and data_offsets span {len}");
            f.refused(format!("{what}-{slug}"), "layout", rule, wrong);
        }
    }
    for wrong in ["u8", "F128", "Q4_0", "float32", "", "F32 ", "C128", "I4", "F8", "f16"] {
        let slug: String = wrong.to_lowercase().replace(' ', "-space");
        let case = if wrong.is_empty() { "nothing" } else { &slug };
        let rule = format!("{wrong:?} is no dtype");
        f.refused(
            format!("dtype-unknown-{case}"),
            "layout",
            rule,
            of(&[entry("t", wrong, "[0]", "[0,0]")], &[]),
        );
    }
}

fn shapes(f: &mut Format) {
    for (slug, shape) in [
        ("ones", vec![1, 1, 1, 1]),
        ("rank-16", [&[1; 15][..], &[2]].concat()),
        ("rank-64", vec![1; 64]),
        ("zero-first", vec![0, 7]),
        ("zero-between", vec![3, 0, 2]),
        ("zero-times-2-to-the-32", vec![0, 1 << 32]),
        ("vector", vec![17]),
        ("matrix", vec![5, 3]),
    ] {
        let data = bytes(shape.iter().product::<u64>() as usize);
        let offsets = format!("[0,{}]", data.len());
        let made = of(&[entry("t", "U8", &Value::from(shape.clone()).to_string(), &offsets)], &data);
        let rule = "a shape is a list of numbers from 0 on, of any length";
        f.read(
            format!("shape-{slug}"),
            "layout",
            rule,
            made,
            Reading::empty().tensor("t", "u8", &shape, &data),
        );
    }
}

fn headers(f: &mut Format) {
    let t = entry("t", "U8", "[4]", "[0,4]");
    let data = bytes(4);
    f.read("no-tensors", "layout", "a header without tensors", file("{}", &[]), Reading::empty());
    for spaces in [1, 2, 7, 8, 100, 4096] {
        let header = format!("{{{t}}}{}", " ".repeat(spaces));
        f.read(
            format!("spaces-{spaces}"),
            "layout",
            "spaces may follow the header",
            file(&header, &data),
            one("t", &data),
        );
    }
    f.read(
        "spaces-after-nothing",
        "layout",
        "spaces may follow the header",
        file("{}      ", &[]),
        Reading::empty(),
    );
    let spread =
        "{ \"t\" :\n\t{ \"dtype\" : \"U8\" , \"shape\" : [ 4 ] ,\r\n \"data_offsets\" : [ 0 , 4 ] } }";
    f.read(
        "white-space-inside",
        "layout",
        "JSON allows white space between its parts",
        file(spread, &data),
        one("t", &data),
    );
    let other = r#"{"t":{"data_offsets":[0,4],"shape":[4],"dtype":"U8"}}"#;
    f.read(
        "fields-in-another-order",
        "layout",
        "an object of JSON has no order",
        file(other, &data),
        one("t", &data),
    );
    let escaped = r#"{"t":{"\u0064type":"\u00558","sh\u0061pe":[4],"data_offsets":[0,4]}}"#;
    f.read(
        "escapes-in-keys",
        "layout",
        "JSON may escape any character",
        file(escaped, &data),
        one("t", &data),
    );
    for (slug, space) in [("newline", "\n"), ("tab", "\t"), ("return", "\r")] {
        let why = "the document allows spaces behind the header, JSON any white space";
        f.either(
            format!("header-ends-in-{slug}"),
            "layout",
            why,
            file(&format!("{{{t}}}{space}"), &data),
            Some(one("t", &data)),
        );
    }
    for (slug, lead) in [("space", " "), ("newline", "\n"), ("tab", "\t")] {
        let rule = "the header must begin with `{`";
        f.refused(
            format!("header-begins-with-{slug}"),
            "layout",
            rule,
            file(&format!("{lead}{{{t}}}"), &data),
        );
    }
    let unknown = r#"{"t":{"dtype":"U8","shape":[4],"data_offsets":[0,4],"more":{"x":[1,null]}}}"#;
    f.either(
        "unknown-field",
        "unknown-fields",
        "nothing says what other fields mean",
        file(unknown, &data),
        Some(one("t", &data)),
    );
    for (slug, bytes) in [
        ("no-bytes", vec![]),
        ("length-0", raw(b"", &[])),
        ("length-beyond-the-file", [&3u64.to_le_bytes()[..], b"{}"].concat()),
        ("length-of-the-whole-file", [&10u64.to_le_bytes()[..], b"{}"].concat()),
        ("length-2-to-the-63", [&(1u64 << 63).to_le_bytes()[..], b"{}"].concat()),
        ("length-that-wraps", [&(u64::MAX - 7).to_le_bytes()[..], b"{}"].concat()),
        ("length-2-to-the-64-minus-1", [&[255; 8][..], b"{}"].concat()),
        ("length-big-endian", [&2u64.to_be_bytes()[..], b"{}"].concat()),
        ("length-too-short", [&1u64.to_le_bytes()[..], b"{}"].concat()),
    ] {
        let rule = "eight bytes say how long the header is, little-endian, and the file has it";
        f.refused(format!("header-{slug}"), "layout", rule, bytes);
    }
}

fn names(f: &mut Format) {
    let data = bytes(4);
    let long = "n".repeat(5000);
    for (slug, json, name) in [
        ("empty", "", ""),
        ("dots", "model.layers.0.weight", "model.layers.0.weight"),
        ("slashes", "a/b\\\\c", "a/b\\c"),
        ("umlaut", "Größe", "Größe"),
        ("chinese", "权重", "权重"),
        ("emoji", "🦀", "🦀"),
        ("surrogate-pair", "\\ud83e\\udd80", "🦀"),
        ("escape", "\\u0061", "a"),
        ("quotes", "\\\"q\\\"", "\"q\""),
        ("control-characters", "\\n\\t\\u0000\\u001f", "\n\t\0\u{1f}"),
        ("space", " ", " "),
        ("like-metadata", "__metadata__ ", "__metadata__ "),
        ("metadata-in-capitals", "__METADATA__", "__METADATA__"),
        ("long", &long, &long),
        ("combining", "e\u{301}", "e\u{301}"),
    ] {
        let made = of(&[entry(json, "U8", "[4]", "[0,4]")], &data);
        f.read(format!("name-{slug}"), "layout", "a name is any string of JSON", made, one(name, &data));
    }
    let pair = of(&[entry("é", "U8", "[2]", "[0,2]"), entry("e\u{301}", "U8", "[2]", "[2,4]")], &data);
    let reading =
        Reading::empty().tensor("é", "u8", &[2], &data[..2]).tensor("e\u{301}", "u8", &[2], &data[2..]);
    f.read("names-that-look-the-same", "layout", "names are compared character by character", pair, reading);
    let rule = "a name may occur once";
    let same =
        |a: &str, b: &str| of(&[entry(a, "U8", "[2]", "[0,2]"), entry(b, "U8", "[2]", "[2,4]")], &data);
    f.refused("name-twice", "duplicates", rule, same("a", "a"));
    f.refused("name-twice-with-escapes", "duplicates", rule, same("a", "\\u0061"));
    let tied = of(&[entry("a", "U8", "[4]", "[0,4]"), entry("a", "U8", "[4]", "[0,4]")], &data);
    f.refused("name-twice-same-values", "duplicates", rule, tied);
    for key in ["dtype", "shape", "data_offsets"] {
        let again = match key {
            "dtype" => r#""dtype":"U8""#,
            "shape" => r#""shape":[4]"#,
            _ => r#""data_offsets":[0,4]"#,
        };
        let header = format!(r#"{{"t":{{"dtype":"U8","shape":[4],"data_offsets":[0,4],{again}}}}}"#);
        let slug = key.replace('_', "-");
        f.refused(
            format!("{slug}-twice"),
            "duplicates",
            "a field of a tensor may occur once",
            file(&header, &data),
        );
        let mut without = vec![r#""dtype":"U8""#, r#""shape":[4]"#, r#""data_offsets":[0,4]"#];
        without.retain(|field| !field.contains(key));
        let header = format!(r#"{{"t":{{{}}}}}"#, without.join(","));
        f.refused(
            format!("{slug}-missing"),
            "layout",
            "a tensor has dtype, shape and data_offsets",
            file(&header, &data),
        );
    }
}

fn metadata(f: &mut Format) {
    let with = |metadata: &str| file(&format!(r#"{{"__metadata__":{metadata}}}"#), &[]);
    for (slug, text) in [
        ("empty", "{}".to_owned()),
        ("one", r#"{"format":"pt"}"#.to_owned()),
        ("empty-key-and-value", r#"{"":""}"#.to_owned()),
        ("unicode", r#"{"schön":"🦀"}"#.to_owned()),
        ("escapes", r#"{"a\n":"\u00e9\"\\\/\b\f\n\r\t"}"#.to_owned()),
        ("json-in-text", r#"{"config":"{\"a\": [1, 2]}"}"#.to_owned()),
        ("long", format!(r#"{{"text":"{}"}}"#, "x".repeat(10_000))),
    ] {
        let value: Value = serde_json::from_str(&text).expect("JSON");
        let rule = "the metadata map texts to texts";
        f.read(format!("metadata-{slug}"), "layout", rule, with(&text), Reading::empty().metadata(value));
    }
    let many: Value = (0..200)
        .map(|n| (format!("k{n:03}"), Value::from(n.to_string())))
        .collect::<serde_json::Map<_, _>>()
        .into();
    f.read(
        "metadata-many",
        "layout",
        "the metadata map texts to texts",
        with(&many.to_string()),
        Reading::empty().metadata(many),
    );
    let data = bytes(4);
    let (t, key) = (entry("t", "U8", "[4]", "[0,4]"), r#""__metadata__":{"k":"v"}"#.to_owned());
    let reading = one("t", &data).metadata(json!({"k": "v"}));
    f.read(
        "metadata-before-a-tensor",
        "layout",
        "metadata may stand anywhere in the header",
        of(&[key.clone(), t.clone()], &data),
        reading.clone(),
    );
    f.read(
        "metadata-after-a-tensor",
        "layout",
        "metadata may stand anywhere in the header",
        of(&[t.clone(), key], &data),
        reading,
    );
    let why = "the document knows metadata that are a map; the reference takes null for none";
    f.either("metadata-null", "null-metadata", why, with("null"), Some(Reading::empty()));
    for (slug, wrong) in [
        ("number", "1"),
        ("text", r#""x""#),
        ("list", "[]"),
        ("true", "true"),
        ("list-of-pairs", r#"[["a","b"]]"#),
    ] {
        f.refused(format!("metadata-is-a-{slug}"), "layout", "the metadata are an object", with(wrong));
    }
    for (slug, wrong) in [
        ("number", "1"),
        ("float", "1.5"),
        ("null", "null"),
        ("true", "true"),
        ("list", "[]"),
        ("object", "{}"),
        ("list-of-texts", r#"["a"]"#),
    ] {
        let made = with(&format!(r#"{{"k":{wrong}}}"#));
        f.refused(format!("metadata-value-{slug}"), "layout", "a value of the metadata is text", made);
    }
    for (slug, made) in [
        ("key-twice", with(r#"{"k":"1","k":"2"}"#)),
        ("key-twice-with-escapes", with(r#"{"k":"1","\u006b":"2"}"#)),
        ("twice", file(r#"{"__metadata__":{},"__metadata__":{}}"#, &[])),
        ("twice-and-null", file(r#"{"__metadata__":null,"__metadata__":{}}"#, &[])),
    ] {
        f.refused(format!("metadata-{slug}"), "duplicates", "a key may occur once", made);
    }
    let like = of(&[entry("__metadata__", "U8", "[4]", "[0,4]")], &data);
    f.refused("metadata-that-look-like-a-tensor", "layout", "a value of the metadata is text", like);
}

/// Adds files about which bytes belong to which tensor.
fn coverage(f: &mut Format) {
    let d = bytes(12);
    let u8s = |name: &str, begin: u64, end: u64| {
        entry(name, "U8", &format!("[{}]", end - begin), &format!("[{begin},{end}]"))
    };
    let a = Reading::empty().tensor("a", "u8", &[4], &d[..4]);
    let ordered = of(&[u8s("a", 0, 4), u8s("b", 4, 12)], &d);
    f.read(
        "two-tensors",
        "coverage",
        "tensors cover the data, each byte once",
        ordered,
        a.clone().tensor("b", "u8", &[8], &d[4..]),
    );
    let reversed = of(&[u8s("b", 4, 12), u8s("a", 0, 4)], &d);
    let reading = Reading::empty().tensor("b", "u8", &[8], &d[4..]).tensor("a", "u8", &[4], &d[..4]);
    f.read(
        "values-in-another-order",
        "order",
        "values may be in another order than the header",
        reversed,
        reading,
    );
    let odd = of(&[u8s("a", 0, 1), entry("b", "F32", "[2]", "[1,9]")], &d[..9]);
    let reading = Reading::empty().tensor("a", "u8", &[1], &d[..1]).tensor("b", "f32", &[2], &d[1..9]);
    f.read("values-at-an-odd-byte", "alignment", "the format aligns nothing", odd, reading);
    let empties = of(
        &[
            entry("e", "F32", "[0]", "[0,0]"),
            u8s("a", 0, 4),
            entry("g", "F32", "[0]", "[4,4]"),
            u8s("b", 4, 12),
            entry("h", "F32", "[0]", "[12,12]"),
        ],
        &d,
    );
    let reading = Reading::empty()
        .tensor("e", "f32", &[0], &[])
        .tensor("a", "u8", &[4], &d[..4])
        .tensor("g", "f32", &[0], &[])
        .tensor("b", "u8", &[8], &d[4..])
        .tensor("h", "f32", &[0], &[]);
    f.read(
        "empty-tensors-between",
        "coverage",
        "a tensor without bytes lies between others",
        empties,
        reading,
    );
    let many: Vec<_> = (0..100u64).map(|n| u8s(&format!("t{n:03}"), n, n + 1)).collect();
    let data = bytes(100);
    let reading =
        (0..100usize).fold(Reading::empty(), |r, n| r.tensor(&format!("t{n:03}"), "u8", &[1], &data[n..=n]));
    f.read(
        "hundred-tensors",
        "coverage",
        "tensors cover the data, each byte once",
        of(&many, &data),
        reading,
    );
    let cover = "tensors cover all bytes after the header, each once";
    for (slug, entries, len) in [
        ("hole-at-the-start", vec![u8s("a", 1, 4)], 4),
        ("hole-between", vec![u8s("a", 0, 4), u8s("b", 5, 12)], 12),
        ("hole-between-in-another-order", vec![u8s("b", 5, 12), u8s("a", 0, 4)], 12),
        ("overlap", vec![u8s("a", 0, 4), u8s("b", 3, 12)], 12),
        ("overlap-by-all-but-one", vec![u8s("a", 0, 11), u8s("b", 1, 12)], 12),
        ("tied", vec![u8s("a", 0, 4), u8s("b", 0, 4)], 4),
        ("inside-another", vec![u8s("a", 0, 12), u8s("b", 4, 8)], 12),
        ("empty-inside-another", vec![u8s("a", 0, 12), entry("e", "U8", "[0]", "[4,4]")], 12),
        ("empty-behind-the-data", vec![u8s("a", 0, 12), entry("e", "U8", "[0]", "[13,13]")], 12),
        ("byte-behind", vec![u8s("a", 0, 11)], 12),
        ("data-without-tensors", vec![], 12),
        ("beyond-the-file", vec![u8s("a", 0, 13)], 12),
        ("wholly-beyond-the-file", vec![u8s("a", 0, 12), u8s("b", 12, 16)], 12),
    ] {
        f.refused(format!("coverage-{slug}"), "coverage", cover, of(&entries, &d[..len]));
    }
    let ordered = "data_offsets are a begin and an end that does not lie before it";
    for (slug, shape, offsets) in [
        ("reversed", "[4]", "[4,0]"),
        ("one", "[4]", "[4]"),
        ("three", "[4]", "[0,4,4]"),
        ("none", "[0]", "[]"),
        ("near-2-to-the-64", "[1]", "[18446744073709551614,18446744073709551615]"),
        ("wrapping", "[4]", "[18446744073709551615,3]"),
    ] {
        f.refused(
            format!("offsets-{slug}"),
            "layout",
            ordered,
            of(&[entry("a", "U8", shape, offsets)], &d[..4]),
        );
    }
}

fn cut(f: &mut Format) {
    let sound =
        of(&["\"__metadata__\":{\"k\":\"v\"}".to_owned(), entry("t", "F32", "[2]", "[0,8]")], &bytes(8));
    let at = |text: &str| {
        sound.windows(text.len()).position(|window| window == text.as_bytes()).expect("a part of it")
    };
    let fields = [
        ("the length", 2),
        ("the last byte of the length", 7),
        ("the header", 8),
        ("the metadata", at("\"__m")),
        ("a key", at("\"k\"")),
        ("the name", at("\"t\"")),
        ("the dtype", at("\"F32")),
        ("the shape", at("[2]")),
        ("the offsets", at("[0,8]")),
        ("the last brace", sound.len() - 9),
        ("the values", sound.len() - 8),
        ("the second value", sound.len() - 4),
        ("the last byte", sound.len() - 1),
    ];
    f.cut("", "layout", &sound, &fields);
}
