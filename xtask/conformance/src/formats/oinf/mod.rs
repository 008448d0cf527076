//! OINF: three tables, and what they point to.

mod layout;
mod rules;

use serde_json::{Value, json};

use self::layout::{File, array, bitset, string};
use crate::suite::{Format, Reading, bytes};

/// The types with codes from 1 on, and the bytes of an element.
const TYPES: [(&str, usize); 12] = [
    ("i8", 1),
    ("i16", 2),
    ("i32", 4),
    ("i64", 8),
    ("u8", 1),
    ("u16", 2),
    ("u32", 4),
    ("u64", 8),
    ("f16", 2),
    ("f32", 4),
    ("f64", 8),
    ("bool", 1),
];

/// The types with codes from 16 on, and the bits of an element.
const LATER: [(&str, usize); 10] = [
    ("bf16", 16),
    ("f8_e5m2", 8),
    ("i4", 4),
    ("i2", 2),
    ("i1", 1),
    ("u4", 4),
    ("u2", 2),
    ("u1", 1),
    ("t2", 2),
    ("t1", 1),
];

pub(crate) fn files() -> Format {
    let mut f = Format::new("oinf", "oinf", "docs/formats/oinf.md");
    tensors(&mut f);
    scalars(&mut f);
    values(&mut f);
    names(&mut f);
    rules::add(&mut f);
    f
}

/// Makes values of a type. A boolean is 0 or 1, and no element of t2 is -2.
fn numbers(dtype: &str, len: usize) -> Vec<u8> {
    match dtype {
        "bool" => (0..len).map(|n| (n % 3 == 0).into()).collect(),
        "t2" => vec![0b0100_1101; len],
        _ => bytes(len),
    }
}

fn tensors(f: &mut Format) {
    f.read("empty", "layout", "a file without tables", File::new(1).build(), Reading::empty());
    f.read(
        "version-2-empty",
        "version-2",
        "a file without tables, of version 2",
        File::new(2).build(),
        Reading::empty(),
    );
    for (number, (dtype, size)) in TYPES.iter().enumerate() {
        let values = numbers(dtype, 6 * size);
        for version in [1, 2] {
            let file = File::new(version).tensor("t", number as u32 + 1, &[2, 3], Some(&values));
            let section = if version == 1 { "layout" } else { "version-2" };
            let reading = Reading::empty().tensor("t", dtype, &[2, 3], &values);
            f.read(
                format!("v{version}-dtype-{dtype}"),
                section,
                format!("type {} is {dtype}", number + 1),
                file.build(),
                reading,
            );
        }
        let declared = File::new(1).tensor("t", number as u32 + 1, &[2, 3], None);
        let reading = Reading::empty().declared("t", dtype, &[2, 3]);
        f.read(
            format!("declared-{dtype}"),
            "declared-tensors",
            "a tensor may have no values",
            declared.build(),
            reading,
        );
    }
    for (number, (dtype, bits)) in LATER.iter().enumerate() {
        let values = numbers(dtype, bits * 8 / 8);
        let file = File::new(2).tensor("t", number as u32 + 16, &[2, 4], Some(&values));
        let reading = Reading::empty().tensor("t", dtype, &[2, 4], &values);
        let rule = format!("type {} is {dtype}", number + 16);
        f.read(format!("v2-dtype-{dtype}"), "types-16-to-25", rule, file.build(), reading.clone());
        let old = File::new(1).tensor("t", number as u32 + 16, &[2, 4], Some(&values));
        let why = "the document of version 1 ends at type 15; its package writes the others too";
        f.either(format!("v1-dtype-{dtype}"), "types-16-to-25", why, old.build(), Some(reading));
        if *bits < 8 {
            let count = 8 / bits + 1;
            let mut values = numbers(dtype, 1);
            values.push(1);
            let file = |values: &[u8]| {
                File::new(2).tensor("t", number as u32 + 16, &[count as u64], Some(values)).build()
            };
            let reading = Reading::empty().tensor("t", dtype, &[count as u64], &values);
            let rule = "elements are packed, lowest bits first, and the bits after the last are zero";
            f.read(format!("v2-{dtype}-not-whole-bytes"), "types-16-to-25", rule, file(&values), reading);
            values[1] |= 0x80;
            f.refused(format!("v2-{dtype}-bits-after-the-last"), "values", rule, file(&values));
        }
    }
    let f32s = |dims: &[u64]| bytes(4 * dims.iter().product::<u64>() as usize);
    for (slug, dims) in [
        ("scalar", vec![]),
        ("empty", vec![0]),
        ("empty-matrix", vec![3, 0]),
        ("rank-8", vec![1; 8]),
        ("rank-32", vec![1; 32]),
        ("odd", vec![3]),
    ] {
        let section = if slug == "scalar" { "scalars" } else { "layout" };
        let reading = Reading::empty().tensor("t", "f32", &dims, &f32s(&dims));
        let file = File::new(1).tensor("t", 10, &dims, Some(&f32s(&dims)));
        f.read(format!("shape-{slug}"), section, "ndim dimensions, slowest first", file.build(), reading);
    }
    let (mut many, mut reading) = (File::new(1), Reading::empty());
    for n in 0..60 {
        let name = format!("layer.{n}");
        let values = bytes(n % 11);
        many = many.tensor(&name, 5, &[values.len() as u64], Some(&values));
        reading = reading.tensor(&name, "u8", &[values.len() as u64], &values);
    }
    f.read("sixty-tensors", "layout", "entries, one after the other", many.build(), reading);
    let order = File::new(1).tensor("b", 5, &[1], Some(&[1])).tensor("a", 5, &[1], Some(&[2]));
    let reading = Reading::empty().tensor("b", "u8", &[1], &[1]).tensor("a", "u8", &[1], &[2]);
    f.read(
        "tensors-in-another-order",
        "order-of-tables",
        "tables may be in any order",
        order.build(),
        reading,
    );
}

fn entry(kind: u32, payload: &[u8]) -> Vec<u8> {
    File::new(1).value("k", kind, payload).build()
}

fn of(kind: &str, value: impl Into<Value>) -> Reading {
    Reading::empty().metadata(json!({"k": {"type": kind, "value": value.into()}}))
}

fn scalars(f: &mut Format) {
    macro_rules! integers {
        ($($kind:literal $type:ident),*) => {$(
            for (slug, number) in [("smallest", $type::MIN), ("largest", $type::MAX), ("of-7", 7)] {
                let reading = of(stringify!($type), number);
                let rule = concat!("a value of type ", stringify!($kind), ": ", stringify!($type));
                f.read(format!("value-{}-{slug}", stringify!($type)), "layout", rule, entry($kind, &number.to_le_bytes()), reading);
            }
        )*};
    }
    integers!(1 i8, 2 i16, 3 i32, 4 i64, 5 u8, 6 u16, 7 u32, 8 u64);
    for (slug, number, value) in [
        ("one-half", 0.5, json!(0.5)),
        ("nan", f64::NAN, json!("NaN")),
        ("infinity", f64::INFINITY, json!("Infinity")),
        ("minus-2", -2.0, json!(-2.0)),
    ] {
        let short = (number as f32).to_le_bytes();
        f.read(
            format!("value-f64-{slug}"),
            "layout",
            "a value of type 11: f64",
            entry(11, &number.to_le_bytes()),
            of("f64", value.clone()),
        );
        f.read(
            format!("value-f32-{slug}"),
            "layout",
            "a value of type 10: f32",
            entry(10, &short),
            of("f32", value),
        );
    }
    for (slug, bits, value) in [
        ("one-half", 0x3800u16, json!(0.5)),
        ("subnormal", 1, json!(2f64.powi(-24))),
        ("infinity", 0x7c00, json!("Infinity")),
    ] {
        f.read(
            format!("value-f16-{slug}"),
            "layout",
            "a value of type 9: f16",
            entry(9, &bits.to_le_bytes()),
            of("f16", value),
        );
    }
    f.read("value-false", "values", "0 is false", entry(12, &[0]), of("bool", false));
    f.read("value-true", "values", "1 is true", entry(12, &[1]), of("bool", true));
    for byte in [2, 255] {
        f.refused(format!("value-bool-{byte}"), "values", "a boolean is 0 or 1", entry(12, &[byte]));
    }
}

fn values(f: &mut Format) {
    for text in ["a", "clamp_up", "1.0-rc.2", "abcdefgh", "AZ.az-09_"] {
        let slug = text.to_lowercase();
        f.read(
            format!("string-{slug}"),
            "characters",
            "texts have A-Z a-z 0-9 . _ -",
            entry(14, &string(text)),
            of("str", text),
        );
    }
    for (slug, text) in [
        ("space", "a b"),
        ("umlaut", "ü"),
        ("slash", "a/b"),
        ("nul", "a\0"),
        ("newline", "a\n"),
        ("empty", ""),
    ] {
        f.refused(
            format!("string-{slug}"),
            "characters",
            "texts have one or more of A-Z a-z 0-9 . _ -",
            entry(14, &string(text)),
        );
    }
    for (bits, packed) in
        [(1, vec![1]), (8, vec![0xa5]), (9, vec![0x55, 1]), (64, vec![0x0f; 8]), (0, vec![])]
    {
        let set: Vec<bool> = (0..bits as usize).map(|n| packed[n / 8] >> (n % 8) & 1 == 1).collect();
        let name = format!("bitset-of-{bits}");
        let file = entry(13, &bitset(bits, &packed));
        f.read(name, "layout", "bits of a set, the lowest of a byte first", file, of("bitset", json!(set)));
    }
    f.refused(
        "bitset-bits-after-the-last",
        "values",
        "the bits after the last are zero",
        entry(13, &bitset(9, &[0x55, 3])),
    );
    f.refused(
        "bitset-of-too-few-bytes",
        "layout",
        "a bit set has ceil(bits / 8) bytes",
        entry(13, &bitset(17, &[0, 0])),
    );
    f.refused(
        "bitset-of-too-many-bytes",
        "layout",
        "a bit set has ceil(bits / 8) bytes",
        entry(13, &bitset(8, &[0, 0])),
    );
    for (number, (dtype, size)) in TYPES.iter().enumerate() {
        let data: Vec<u8> = match *dtype {
            "f16" => vec![0x00, 0x38, 0x00, 0xc0],
            "f32" => [0.5f32, -2.0].iter().flat_map(|x| x.to_le_bytes()).collect(),
            "f64" => [0.5f64, -2.0].iter().flat_map(|x| x.to_le_bytes()).collect(),
            _ => [0u64, 1].iter().flat_map(|x| x.to_le_bytes()[..*size].to_vec()).collect(),
        };
        let value = match *dtype {
            "f16" | "f32" | "f64" => json!([0.5, -2.0]),
            "bool" => json!([false, true]),
            _ => json!([0, 1]),
        };
        let reading = Reading::empty()
            .metadata(json!({"k": {"type": "ndarray", "dtype": dtype, "shape": [2, 1], "value": value}}));
        let file = entry(15, &array(number as u32 + 1, &[2, 1], &data));
        f.read(
            format!("array-of-{dtype}"),
            "layout",
            "an array is its type, its dimensions and its values",
            file,
            reading,
        );
    }
    for (slug, kind) in [("strings", 14), ("bitsets", 13), ("arrays", 15), ("type-0", 0), ("type-26", 26)] {
        f.refused(
            format!("array-of-{slug}"),
            "layout",
            "an array has numbers or booleans",
            entry(15, &array(kind, &[8], &[0; 8])),
        );
    }
    let wrong = [
        ("longer", vec![2], 8),
        ("shorter", vec![4], 2),
        ("of-too-many", vec![u64::MAX], 8),
        ("that-wraps", vec![1 << 63, 2], 8),
    ];
    for (slug, dims, len) in wrong {
        f.refused(
            format!("array-{slug}"),
            "value_nbytes",
            "a value has the bytes that type and dimensions imply",
            entry(15, &array(4, &dims, &vec![0; len * 4])),
        );
    }
    f.refused("array-of-bool-2", "values", "a boolean is 0 or 1", entry(15, &array(12, &[2], &[1, 2])));
    for kind in [0u32, 26, 100, u32::MAX] {
        f.refused(format!("value-type-{kind}"), "types-16-to-25", "types are 1 to 25", entry(kind, &[0; 8]));
    }
    for (number, (dtype, size)) in TYPES.iter().enumerate() {
        let rule = format!("a value of {dtype} has {size} bytes");
        f.refused(
            format!("value-{dtype}-too-long"),
            "value_nbytes",
            rule,
            entry(number as u32 + 1, &vec![0; size + 8]),
        );
    }
}

fn names(f: &mut Format) {
    let tensor = |name: &str| File::new(1).tensor(name, 5, &[1], Some(&[7])).build();
    for (slug, name) in [
        ("dots", "a.b.0"),
        ("dashes", "a-b_c"),
        ("digits", "0"),
        ("capitals", "A"),
        ("of-8-characters", "abcdefgh"),
        ("long", &"n".repeat(500)),
    ] {
        let reading = Reading::empty().tensor(name, "u8", &[1], &[7]);
        f.read(
            format!("name-{slug}"),
            "string-padding",
            "a string is padded from its own start",
            tensor(name),
            reading,
        );
    }
    for (slug, name) in [
        ("empty", ""),
        ("space", "a b"),
        ("colon", "a:b"),
        ("slash", "a/b"),
        ("umlaut", "ü"),
        ("nul", "a\0b"),
    ] {
        let rule = "strings have one or more of A-Z a-z 0-9 . _ -";
        f.refused(format!("name-{slug}"), "characters", rule, tensor(name));
        f.refused(format!("key-{slug}"), "characters", rule, File::new(1).value(name, 5, &[7]).build());
        f.refused(format!("sizevar-{slug}"), "characters", rule, File::new(1).sizevar(name, 7).build());
    }
    let sizes = File::new(1).sizevar("D", 128).sizevar("B", u64::MAX).sizevar("zero", 0);
    f.read("sizevars", "layout", "names of dimensions, with a number each", sizes.build(), Reading::empty());
    let twice = "a name occurs once";
    f.refused(
        "name-twice",
        "layout",
        twice,
        File::new(1).tensor("a", 5, &[1], Some(&[1])).tensor("a", 5, &[1], Some(&[2])).build(),
    );
    f.refused("key-twice", "layout", twice, File::new(1).value("a", 5, &[1]).value("a", 5, &[2]).build());
    f.refused("sizevar-twice", "layout", twice, File::new(1).sizevar("a", 1).sizevar("a", 2).build());
    let shared = File::new(1).sizevar("a", 1).value("a", 5, &[1]).tensor("a", 5, &[1], Some(&[2]));
    let reading =
        Reading::empty().tensor("a", "u8", &[1], &[2]).metadata(json!({"a": {"type": "u8", "value": 1}}));
    f.read("name-of-all-tables", "layout", "tables have names of their own", shared.build(), reading);
}
