//! Version 0.3: a manifest in JSON, values at multiples of 4,096.

use serde_json::{Value, json};
use testkit::patched;

use super::{LATER, values};
use crate::suite::{Format, Reading, bytes};

const SECTION: &str = "version-03";
const FRONT: &str = r#""manifest_ver":1,"timestamp":"1970-01-01T00:00:00+00:00","magnetron_ver":"0.2.2","snapshot_ver":"0.3.0""#;
const A: &str = r#""a":{"shape":[2,3],"dtype":"float32","dtype_id":0,"offset":0,"nbytes":24}"#;
const B: &str = r#""b":{"shape":[4],"dtype":"int16","dtype_id":8,"offset":4096,"nbytes":8}"#;

/// magnetron's names of the types.
const NAMES: [&str; 13] = [
    "float32",
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "boolean",
    "uint8",
    "int8",
    "uint16",
    "int16",
    "uint32",
    "int32",
    "uint64",
    "int64",
];

fn text(metadata: &str, tensors: &[&str]) -> String {
    format!(r#"{{{FRONT},"usr_metadata":{metadata},"tensor_map":{{{}}}}}"#, tensors.join(","))
}

fn file(manifest: &[u8], aux: u32, values: &[u8]) -> Vec<u8> {
    let begin = (44 + manifest.len()).next_multiple_of(4096);
    let mut out = b"MAG!".to_vec();
    out.extend(300u32.to_le_bytes());
    out.extend(aux.to_le_bytes());
    for number in [44, manifest.len(), begin, values.len()] {
        out.extend((number as u64).to_le_bytes());
    }
    out.extend(manifest);
    out.resize(begin, 0);
    out.extend(values);
    out
}

/// The values of two tensors.
fn data() -> Vec<u8> {
    let mut data = bytes(24);
    data.resize(4096, 0);
    data.extend(bytes(8));
    data
}

fn two() -> Vec<u8> {
    file(text("{}", &[A, B]).as_bytes(), 0, &data())
}

fn reading() -> Reading {
    Reading::empty().tensor("a", "f32", &[2, 3], &bytes(24)).tensor("b", "i16", &[4], &bytes(8))
}

pub(super) fn add(f: &mut Format) {
    sound(f);
    header(f);
    manifests(f);
    places(f);
    cut(f);
}

fn sound(f: &mut Format) {
    f.read("v0.3-two-tensors", SECTION, "a manifest, values at multiples of 4,096", two(), reading());
    for (code, (dtype, size)) in LATER.iter().enumerate() {
        let entry = |nbytes: usize| {
            format!(
                r#""t":{{"shape":[2,3],"dtype":"{}","dtype_id":{code},"offset":0,"nbytes":{nbytes}}}"#,
                NAMES[code]
            )
        };
        let values = values(dtype, 6 * size);
        let reading = |values: &[u8]| Reading::empty().tensor("t", dtype, &[2, 3], values);
        let manifest = text("{}", &[&entry(values.len())]);
        let rule = format!("dtype_id {code} is {}", NAMES[code]);
        f.read(
            format!("v0.3-dtype-{dtype}"),
            SECTION,
            rule,
            file(manifest.as_bytes(), 0, &values),
            reading(&values),
        );
        if *size > 1 {
            let mut swapped = values.clone();
            swapped.chunks_mut(*size).for_each(<[u8]>::reverse);
            let rule = "bit 0 of aux says that values are big-endian";
            let big = file(manifest.as_bytes(), 1, &values);
            f.read(format!("v0.3-big-endian-{dtype}"), "big-endian-values", rule, big, reading(&swapped));
        }
    }
    for (slug, metadata, value) in [
        ("nested", r#"{"a":[1,{"b":null}],"c":"ü"}"#, json!({"a": [1, {"b": null}], "c": "ü"})),
        (
            "numbers",
            r#"{"a":9007199254740993,"b":0.1,"c":-1}"#,
            json!({"a": 9_007_199_254_740_993_u64, "b": 0.1, "c": -1}),
        ),
        (
            "bare-words",
            r#"{"a":NaN,"b":Infinity,"c":-Infinity}"#,
            json!({"a": "NaN", "b": "Infinity", "c": "-Infinity"}),
        ),
    ] {
        let section = if slug == "bare-words" { "bare-words" } else { SECTION };
        let rule = "usr_metadata is an object of JSON, as Python writes it";
        let made = file(text(metadata, &[A, B]).as_bytes(), 0, &data());
        f.read(format!("v0.3-metadata-{slug}"), section, rule, made, reading().metadata(value));
    }
    let lone = |shape: &str, nbytes: usize| {
        let entry =
            format!(r#""t":{{"shape":{shape},"dtype":"float32","dtype_id":0,"offset":0,"nbytes":{nbytes}}}"#);
        file(text("{}", &[&entry]).as_bytes(), 0, &bytes(nbytes))
    };
    f.read(
        "v0.3-scalar",
        "places-of-tensors",
        "the shape [] is that of a scalar",
        lone("[]", 4),
        Reading::empty().tensor("t", "f32", &[], &bytes(4)),
    );
    f.read(
        "v0.3-rank-16",
        "places-of-tensors",
        "16 dimensions",
        lone(&json!(vec![1; 16]).to_string(), 4),
        Reading::empty().tensor("t", "f32", &[1; 16], &bytes(4)),
    );
    let empty = r#""e":{"shape":[0,2],"dtype":"float32","dtype_id":0,"offset":24,"nbytes":0}"#;
    let made = file(text("{}", &[A, empty, B]).as_bytes(), 0, &data());
    let with_empty = Reading::empty()
        .tensor("a", "f32", &[2, 3], &bytes(24))
        .tensor("e", "f32", &[0, 2], &[])
        .tensor("b", "i16", &[4], &bytes(8));
    f.read(
        "v0.3-empty-between",
        "places-of-tensors",
        "a tensor without bytes is where the one before it ends",
        made,
        with_empty,
    );
    let named = text("{}", &[&A.replace("\"a\"", "\"Größe/🦀\""), B]);
    let reading =
        Reading::empty().tensor("Größe/🦀", "f32", &[2, 3], &bytes(24)).tensor("b", "i16", &[4], &bytes(8));
    f.read("v0.3-name", SECTION, "a name is any string of JSON", file(named.as_bytes(), 0, &data()), reading);
}

fn header(f: &mut Format) {
    let sound = two();
    for (slug, rule, at, number) in [
        ("aux-2", "bits of aux but the first are zero", 8, 2u64 | 44 << 32),
        ("aux-high-bit", "bits of aux but the first are zero", 8, 1 << 31 | 44 << 32),
        ("manifest-over-the-header", "the manifest begins behind the header", 12, 43),
        ("manifest-that-wraps", "the file has the whole manifest", 12, u64::MAX),
        ("manifest-longer-than-the-file", "the file has the whole manifest", 20, 1 << 40),
        ("manifest-of-2-to-the-64-minus-1-bytes", "the file has the whole manifest", 20, u64::MAX),
        ("values-over-the-manifest", "values begin behind the manifest", 28, 0),
        ("values-not-aligned", "values begin at a multiple of 4,096", 28, 4097),
        ("values-behind-the-file", "the file has all values", 28, 1 << 40),
        ("no-values", "there are values", 36, 0),
        ("values-of-2-to-the-63-bytes", "values take less than 2^63 bytes", 36, 1 << 63),
        ("values-longer-than-the-file", "the file has all values", 36, 4096 + 9),
    ] {
        f.refused(format!("v0.3-{slug}"), SECTION, rule, patched(&sound, at, &number.to_le_bytes()));
    }
    for version in [301u32, 400, 10_000, u32::MAX] {
        f.refused(
            format!("version-{version}"),
            SECTION,
            "the version is 1, 100, 200 or 300",
            patched(&sound, 4, &version.to_le_bytes()),
        );
    }
}

fn manifests(f: &mut Format) {
    let sound = text("{}", &[A, B]);
    let mut refused = |slug: String, rule: &str, manifest: &str| {
        f.refused(format!("v0.3-{slug}"), SECTION, rule, file(manifest.as_bytes(), 0, &data()));
    };
    for key in ["manifest_ver", "timestamp", "magnetron_ver", "snapshot_ver", "usr_metadata", "tensor_map"] {
        let other = sound.replacen(&format!("\"{key}\""), "\"other\"", 1);
        refused(format!("no-{}", key.replace('_', "-")), "all keys of the manifest are required", &other);
    }
    for (key, field) in [
        ("shape", r#""shape":[4],"#),
        ("dtype", r#""dtype":"int16","#),
        ("dtype-id", r#""dtype_id":8,"#),
        ("offset", r#""offset":4096,"#),
        ("nbytes", r#","nbytes":8"#),
    ] {
        refused(
            format!("tensor-without-{key}"),
            "all keys of a tensor are required",
            &sound.replacen(field, "", 1),
        );
    }
    for (slug, rule, old, new) in [
        ("manifest-ver-2", "manifests have version 1", r#""manifest_ver":1"#, r#""manifest_ver":2"#),
        (
            "snapshot-ver-0.3.1",
            "the manifest says the version of the header",
            r#""snapshot_ver":"0.3.0""#,
            r#""snapshot_ver":"0.3.1""#,
        ),
        ("key-twice", "a key occurs once", r#""timestamp""#, r#""snapshot_ver":"0.3.0","timestamp""#),
        ("name-twice", "a name occurs once", r#""b":"#, r#""a":"#),
        ("field-twice", "a key occurs once", r#""offset":4096,"#, r#""offset":4096,"offset":4096,"#),
        ("metadata-list", "usr_metadata is an object", r#""usr_metadata":{}"#, r#""usr_metadata":[]"#),
        ("metadata-null", "usr_metadata is an object", r#""usr_metadata":{}"#, r#""usr_metadata":null"#),
        (
            "metadata-key-twice",
            "a key occurs once",
            r#""usr_metadata":{}"#,
            r#""usr_metadata":{"k":1,"k":2}"#,
        ),
        ("dtype-id-13", "types have the numbers 0 to 12", r#""dtype_id":8"#, r#""dtype_id":13"#),
        ("dtype-id-negative", "types have the numbers 0 to 12", r#""dtype_id":8"#, r#""dtype_id":-1"#),
        ("dtype-id-text", "types have the numbers 0 to 12", r#""dtype_id":8"#, r#""dtype_id":"8""#),
        ("dtype-number", "the name of a type is text", r#""dtype":"int16""#, r#""dtype":8"#),
        ("shape-5", "nbytes is what shape and type imply", "[4]", "[5]"),
        ("shape-scalar", "nbytes is what shape and type imply", "[4]", "[]"),
        ("nbytes-7", "nbytes is what shape and type imply", r#""nbytes":8"#, r#""nbytes":7"#),
        ("dimension-2-to-the-63", "dimensions are below 2^63", "[4]", "[9223372036854775808]"),
        ("dimension-negative", "a dimension is a number from 0 on", "[4]", "[-4]"),
        ("dimension-float", "a dimension is a number from 0 on", "[4]", "[4.0]"),
        (
            "product-that-wraps",
            "elements are counted without wrapping around",
            "[4]",
            "[4611686018427387904,4]",
        ),
        ("offset-null", "an offset is a number", r#""offset":4096"#, r#""offset":null"#),
        (
            "offset-behind-the-values",
            "the file has all values of a tensor",
            r#""offset":4096"#,
            r#""offset":8192"#,
        ),
        (
            "offset-2-to-the-64-minus-1",
            "the file has all values of a tensor",
            r#""offset":4096"#,
            r#""offset":18446744073709551615"#,
        ),
        ("tensor-map-list", "tensor_map is an object", "\"tensor_map\":{", "\"tensor_map\":[{"),
        ("timestamp-number", "a timestamp is text", r#""1970-01-01T00:00:00+00:00""#, "0"),
        (
            "word-nan-in-lower-case",
            "the manifest is JSON, with the bare words of Python",
            r#""usr_metadata":{}"#,
            r#""usr_metadata":{"k":nan}"#,
        ),
        (
            "trailing-comma",
            "the manifest is JSON, with the bare words of Python",
            r#""usr_metadata":{}"#,
            r#""usr_metadata":{"k":1,}"#,
        ),
    ] {
        refused(slug.to_owned(), rule, &sound.replacen(old, new, 1));
    }
    for (slug, manifest) in [
        ("empty", ""),
        ("empty-object", "{}"),
        ("list", "[]"),
        ("null", "null"),
        ("number", "7"),
        ("two-objects", "{}{}"),
        ("open", "{\"a\""),
    ] {
        refused(format!("manifest-{slug}"), "the manifest is one object of JSON", manifest);
    }
    let name = sound.find("0.2.2").expect("the version of magnetron");
    for (slug, byte) in [("nul", 0u8), ("latin-1", 0xe9)] {
        let manifest = patched(sound.as_bytes(), name, &[byte]);
        f.refused(
            format!("v0.3-manifest-with-{slug}"),
            SECTION,
            "the manifest is UTF-8 without NUL",
            file(&manifest, 0, &data()),
        );
    }
}

fn places(f: &mut Format) {
    let sound = two();
    let section = "places-of-tensors";
    let end = 44 + text("{}", &[A, B]).len();
    f.refused("v0.3-padding-behind-the-manifest", section, "padding is zero", patched(&sound, end, &[7]));
    f.refused("v0.3-padding-between-tensors", section, "padding is zero", patched(&sound, 5000, &[7]));
    let with = |tensors: &[&str], data: &[u8]| file(text("{}", tensors).as_bytes(), 0, data);
    let moved = |offset: &str| with(&[A, &B.replace("4096", offset)], &data());
    f.refused("v0.3-offset-not-aligned", section, "a tensor begins at a multiple of 4,096", moved("4080"));
    f.refused("v0.3-overlap", section, "two tensors do not share a part of their bytes", moved("8"));
    f.refused("v0.3-gap-before", section, "fewer than 4,096 bytes lie before a tensor", with(&[B], &data()));
    let mut long = bytes(24);
    long.resize(24 + 4096, 0);
    f.refused("v0.3-gap-behind", section, "values end with the last tensor", with(&[A], &long));
    f.refused("v0.3-no-tensors", section, "at least one tensor has bytes", with(&[], &data()));
    let empty = r#""e":{"shape":[0],"dtype":"float32","dtype_id":0,"offset":0,"nbytes":0}"#;
    f.refused("v0.3-only-an-empty-tensor", section, "at least one tensor has bytes", with(&[empty], &[]));
    let name: Value = "int32".into();
    let other = text("{}", &[A, &B.replace("\"int16\"", &name.to_string())]);
    f.either(
        "v0.3-other-name-of-a-type",
        SECTION,
        "dtype_id decides, and the name is for people",
        file(other.as_bytes(), 0, &data()),
        Some(reading()),
    );
}

fn cut(f: &mut Format) {
    let sound = two();
    let fields = [
        ("the aux", 8),
        ("the offset of the manifest", 12),
        ("the length of the manifest", 20),
        ("the offset of the values", 28),
        ("the length of the values", 36),
        ("the manifest", 44),
        ("the tensors", 200),
        ("the padding", 600),
        ("the values", 4096),
        ("the second tensor", 8192),
        ("the last byte", sound.len() - 1),
    ];
    f.cut("v0.3-", SECTION, &sound, &fields);
}
