//! Versions 0.1 and 0.2: snapshots with a pool of names.

use testkit::mag::{Described, Snapshot, sign};
use testkit::patched;

use super::{LATER, values};
use crate::suite::{Format, Reading, bytes};

const SECTION: &str = "versions-01-and-02";

/// Offsets in [`two`].
const COUNT: usize = 36;
const POOL: usize = 40;
const NAMES: usize = 52;
const MDT: usize = 54;
const TENSOR_A: usize = 62;
const TENSOR_B: usize = TENSOR_A + 40;
const END: usize = TENSOR_B + 32;

pub(super) fn add(f: &mut Format) {
    for version in [100, 200] {
        sound(f, version);
        rules(f, version);
    }
    cut(f);
}

/// Makes a file with one tensor.
fn of(version: u32, dtype: u8, dims: &[u64], values: &[u8]) -> Vec<u8> {
    let elements = dims.iter().product();
    let tensor = Described { dtype, name: 0, elements, offset: 0, dims: dims.to_vec() };
    Snapshot { version, names: vec![b"t".to_vec()], tensors: vec![tensor] }.with_values(values)
}

/// Makes a file with two tensors: f32 `[2, 3]` and f16 `[4]`.
fn two(version: u32) -> Vec<u8> {
    let offset = if version == 200 { 32 } else { 24 };
    let a = Described { dtype: 0, name: 0, elements: 6, offset: 0, dims: vec![2, 3] };
    let b = Described { dtype: 1, name: 1, elements: 4, offset, dims: vec![4] };
    let mut data = bytes(24);
    data.resize(offset as usize, 0);
    data.extend(bytes(8));
    Snapshot { version, names: vec![b"a".to_vec(), b"b".to_vec()], tensors: vec![a, b] }.with_values(&data)
}

fn sound(f: &mut Format, version: u32) {
    let name = format!("v0.{}", version / 100);
    let reading =
        Reading::empty().tensor("a", "f32", &[2, 3], &bytes(24)).tensor("b", "f16", &[4], &bytes(8));
    f.read(
        format!("{name}-two-tensors"),
        SECTION,
        "a pool of names, descriptors, values",
        two(version),
        reading,
    );
    for (number, (dtype, size)) in LATER.iter().enumerate() {
        let code = if version == 100 && number > 3 { number - 1 } else { number };
        if version == 200 || number != 3 {
            let values = values(dtype, 6 * size);
            let reading = Reading::empty().tensor("t", dtype, &[2, 3], &values);
            let rule = format!("code {code} is {dtype}");
            f.read(
                format!("{name}-dtype-{dtype}"),
                SECTION,
                rule,
                of(version, code as u8, &[2, 3], &values),
                reading,
            );
        }
    }
    for (slug, dims) in
        [("rank-0", vec![]), ("rank-1", vec![3]), ("rank-16", vec![1; 16]), ("rank-63", vec![1; 63])]
    {
        let values = bytes(4 * dims.iter().product::<u64>() as usize);
        let reading = Reading::empty().tensor("t", "f32", &dims, &values);
        f.read(
            format!("{name}-{slug}"),
            SECTION,
            "ranks are 0 to 63",
            of(version, 0, &dims, &values),
            reading,
        );
    }
}

fn rules(f: &mut Format, version: u32) {
    let name = format!("v0.{}", version / 100);
    let sound = two(version);
    let u32s = |n: u32| n.to_le_bytes().to_vec();
    let u64s = |n: u64| n.to_le_bytes().to_vec();
    let rows: Vec<(&str, &str, usize, Vec<u8>)> = vec![
        ("reserved", "the word at 20 is zero", 20, u32s(1)),
        ("metadata-entries", "there are no metadata entries", 24, u32s(2)),
        ("mark-of-the-pool", "the pool begins with `SRP!`", 32, b"SRP?".to_vec()),
        ("pool-of-65535-names", "a pool has at most 65,534 names", COUNT, u32s(65_535)),
        ("pool-of-2-to-the-32-minus-1-names", "a pool has at most 65,534 names", COUNT, u32s(u32::MAX)),
        ("pool-that-begins-at-1", "the first offset of the pool is 0", POOL, u32s(1)),
        ("pool-that-descends", "offsets of the pool ascend", POOL + 4, u32s(3)),
        ("name-empty", "no name is empty", POOL + 4, u32s(0)),
        ("pool-beyond-the-file", "the file has all names", POOL + 8, u32s(1 << 20)),
        ("name-with-a-nul", "a name has no NUL", NAMES, vec![0]),
        ("name-latin-1", "a name is UTF-8", NAMES, vec![0xe9]),
        ("name-twice", "a name occurs once", NAMES + 1, b"a".to_vec()),
        ("mark-of-the-metadata", "the metadata begin with `MDT!`", MDT, b"MDT?".to_vec()),
        ("mark-of-the-descriptors", "the descriptors begin with `DSC!`", MDT + 4, b"DSC?".to_vec()),
        ("rank-64", "ranks are 0 to 63", TENSOR_A, vec![64]),
        ("dtype-13", "codes of types are 0 to 12", TENSOR_A + 1, vec![13]),
        ("dtype-255", "codes of types are 0 to 12", TENSOR_A + 1, vec![255]),
        ("reserved-of-a-tensor", "two bytes of a descriptor are zero", TENSOR_A + 2, vec![1]),
        ("name-number-2", "a name is in the pool", TENSOR_A + 4, u32s(2)),
        ("one-name-of-two-tensors", "a name occurs once", TENSOR_B + 4, u32s(0)),
        ("elements-0", "a tensor has elements", TENSOR_B + 24, u64s(0)),
        ("elements-7", "the number of elements is the product of the dimensions", TENSOR_A + 8, u64s(7)),
        ("offset-behind-the-file", "the file has all values of a tensor", TENSOR_A + 16, u64s(1 << 20)),
        ("offset-that-wraps", "the file has all values of a tensor", TENSOR_A + 16, u64s(u64::MAX - 15)),
        ("dimension-2-to-the-63", "the number of elements is below 2^63", TENSOR_B + 24, u64s(1 << 63)),
        ("tensors-one-more", "the file has as many descriptors as its header says", 28, u32s(3)),
        (
            "tensors-2-to-the-32-minus-1",
            "the file has as many descriptors as its header says",
            28,
            u32s(u32::MAX),
        ),
    ];
    for (slug, rule, at, bytes) in rows {
        let mut file = patched(&sound, at, &bytes);
        sign(&mut file);
        f.refused(format!("{name}-{slug}"), SECTION, rule, file);
    }
    for (slug, at) in [("checksum", 16), ("name", NAMES), ("shape", TENSOR_A + 24)] {
        let bytes = [sound[at] ^ 1];
        f.refused(
            format!("{name}-damaged-{slug}"),
            SECTION,
            "the CRC-32C is that of byte 20 to `BUF!`",
            patched(&sound, at, &bytes),
        );
    }
    f.refused(
        format!("{name}-mark-of-the-values"),
        SECTION,
        "the values begin with `BUF!`",
        patched(&sound, END, b"BUF?"),
    );
    if version == 100 {
        let old = patched(&sound, 32, &[1, 0, 0, 0]);
        f.refused(
            "v0.1-unreleased-layout",
            "unreleased-sources",
            "version 100 has the mark `SRP!` at byte 32",
            old,
        );
    }
}

fn cut(f: &mut Format) {
    let sound = two(200);
    let fields = [
        ("the time", 8),
        ("the checksum", 16),
        ("the number of tensors", 28),
        ("the pool", 32),
        ("the number of names", COUNT),
        ("the offsets of names", POOL),
        ("the names", NAMES),
        ("the mark of metadata", MDT),
        ("the descriptors", TENSOR_A),
        ("the shape", TENSOR_A + 24),
        ("the second descriptor", TENSOR_B),
        ("the mark of the values", END),
        ("the padding", END + 4),
        ("the values", (END + 4).next_multiple_of(16)),
        ("the values of the second tensor", sound.len() - 8),
        ("the last byte", sound.len() - 1),
    ];
    f.cut("v0.2-", SECTION, &sound, &fields);
}
