//! Tensors: types, shapes, names and offsets, and big-endian files.

use serde_json::json;
use testkit::gguf::Gguf;
use testkit::patched;

use super::{TYPES, one};
use crate::suite::{Format, Reading, bytes};

pub(super) fn types(f: &mut Format) {
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

pub(super) fn shapes(f: &mut Format) {
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

pub(super) fn names(f: &mut Format) {
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

pub(super) fn offsets(f: &mut Format) {
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

pub(super) fn padding(f: &mut Format) {
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

/// Encodes text for a big-endian file.
fn big(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_be_bytes(), text.as_bytes()].concat()
}

pub(super) fn big_endian(f: &mut Format) {
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
