//! A file in which every table has entries, and copies of it with one field changed each.

use serde_json::json;
use testkit::patched;

use super::layout::{File, array, bitset, string};
use crate::suite::{Format, Reading};

/// Makes that file. Its layout:
///
/// ```text
///   0 header, 69 padding          352 value of a, 358 padding
///  72 size variable D, 80 value   360 value of b (bit_count, byte_count, bytes at 368), 370 padding
///  88 entry a  120 b  152 c       376 value of c (element_type, ndim, dims, data at 392), 395 padding
/// 184 d (type 192, flags 196,     400 value of d, 401 padding
///     nbytes 200, offset 208)     408 tensor t, 411 padding
/// 216 tensor t 260 u  304 w       416 tensor w
///     (dtype 312, ndim 316,       424 end
///     flags 320, dims 324,
///     nbytes 332, offset 340)
/// ```
fn sound() -> Vec<u8> {
    File::new(1)
        .sizevar("D", 3)
        .value("a", 14, &string("ab"))
        .value("b", 13, &bitset(9, &[0x55, 1]))
        .value("c", 15, &array(12, &[3], &[1, 0, 1]))
        .value("d", 12, &[1])
        .tensor("t", 12, &[3], Some(&[1, 1, 0]))
        .tensor("u", 10, &[2], None)
        .tensor("w", 10, &[2], Some(&[7; 8]))
        .build()
}

fn u32s(n: u32) -> Vec<u8> {
    n.to_le_bytes().to_vec()
}

fn u64s(n: u64) -> Vec<u8> {
    n.to_le_bytes().to_vec()
}

/// A name, the section, the rule, the offset of the patch, and its bytes.
type Row = (&'static str, &'static str, &'static str, usize, Vec<u8>);

const PADDING: (&str, &str) = ("header-padding", "padding is zero");

fn header() -> Vec<Row> {
    let (ascending, inside) =
        ("offsets of sections ascend and are multiples of 8", "sections end in the file");
    vec![
        ("magic", "layout", "a file begins with `OINF` and a zero", 0, b"X".to_vec()),
        ("magic-without-its-zero", "layout", "a file begins with `OINF` and a zero", 4, b" ".to_vec()),
        ("version-0", "layout", "the version is 1 or 2", 5, u32s(0)),
        ("version-3", "layout", "the version is 1 or 2", 5, u32s(3)),
        ("flags", "header-padding", "flags are zero", 9, u32s(1)),
        ("reserved", "header-padding", "reserved is zero", 25, u32s(0x100)),
        ("sizevars-not-aligned", "offsets", ascending, 29, u64s(73)),
        ("sizevars-in-the-header", "offsets", ascending, 29, u64s(64)),
        ("metadata-before-the-sizevars", "offsets", ascending, 37, u64s(64)),
        ("metadata-not-aligned", "offsets", ascending, 37, u64s(84)),
        ("tensors-before-the-metadata", "offsets", ascending, 45, u64s(80)),
        ("tensors-not-aligned", "offsets", ascending, 45, u64s(220)),
        ("data-before-the-tensors", "offsets", ascending, 53, u64s(208)),
        ("data-not-aligned", "offsets", ascending, 53, u64s(348)),
        ("data-behind-the-file", "offsets", inside, 53, u64s(432)),
        ("data-near-2-to-the-64", "offsets", inside, 53, u64s(u64::MAX - 7)),
        ("file-size-longer", "offsets", "file_size is right", 61, u64s(432)),
        ("file-size-shorter", "offsets", "file_size is right", 61, u64s(416)),
        ("file-size-0", "offsets", "file_size is right", 61, u64s(0)),
        ("sizevars-one-more", "layout", "a table ends before the next", 13, u32s(2)),
        ("values-one-more", "layout", "a table ends before the next", 17, u32s(5)),
        ("tensors-one-more", "layout", "a table ends before the next", 21, u32s(4)),
        ("sizevars-2-to-the-32-minus-1", "layout", "a table ends before the next", 13, u32s(u32::MAX)),
        ("values-2-to-the-32-minus-1", "layout", "a table ends before the next", 17, u32s(u32::MAX)),
        ("tensors-2-to-the-32-minus-1", "layout", "a table ends before the next", 21, u32s(u32::MAX)),
        ("header-padding", PADDING.0, PADDING.1, 71, vec![1]),
        ("padding-of-a-sizevar", "values", PADDING.1, 77, vec![1]),
        ("padding-of-a-key", "values", PADDING.1, 95, vec![9]),
        ("padding-of-a-name", "values", PADDING.1, 309, vec![1]),
        ("padding-of-a-section", "values", PADDING.1, 351, vec![1]),
        ("padding-of-a-string", "values", PADDING.1, 358, vec![1]),
        ("padding-of-a-bitset", "values", PADDING.1, 375, vec![1]),
        ("padding-of-an-array", "values", PADDING.1, 395, vec![1]),
        ("padding-of-a-scalar", "values", PADDING.1, 407, vec![1]),
        ("padding-of-a-tensor", "values", PADDING.1, 411, vec![1]),
        ("bytes-of-no-sizevar", "offsets", "no bytes belong to nothing", 13, vec![0]),
    ]
}

fn metadata() -> Vec<Row> {
    let (inside, implied) =
        ("the file has all bytes of a value", "value_nbytes is what type and payload imply");
    vec![
        ("value-flags", "declared-tensors", "value_flags are zero", 100, u32s(1)),
        ("value-not-aligned", "offsets", "payloads begin at multiples of 8", 112, u64s(353)),
        ("value-in-the-tables", "offsets", "payloads do not begin before the data", 112, u64s(344)),
        ("value-behind-the-file", "offsets", inside, 112, u64s(424)),
        ("value-near-2-to-the-64", "offsets", inside, 112, u64s(u64::MAX - 7)),
        ("value-of-2-to-the-64-minus-1-bytes", "offsets", inside, 104, u64s(u64::MAX)),
        ("value-over-a-tensor", "overlaps", "payloads do not overlap", 208, u64s(408)),
        ("string-with-more-than-its-padding", "value_nbytes", implied, 104, u64s(16)),
        ("string-without-its-padding", "value_nbytes", implied, 104, u64s(6)),
        ("string-shorter-than-it-says", "value_nbytes", implied, 352, u32s(40)),
        ("string-of-0-characters", "characters", "texts have one or more characters", 352, u32s(0)),
        ("bitset-of-17-bits-in-2-bytes", "layout", "a bit set has ceil(bits / 8) bytes", 360, u32s(17)),
        ("bitset-of-9-bits-in-3-bytes", "layout", "a bit set has ceil(bits / 8) bytes", 364, u32s(3)),
        ("bitset-longer-than-its-bits", "value_nbytes", implied, 136, u64s(24)),
        ("bool-of-two-bytes", "value_nbytes", implied, 200, u64s(2)),
        ("bool-of-no-byte", "value_nbytes", implied, 200, u64s(0)),
        ("i64-of-one-byte", "value_nbytes", implied, 192, u32s(4)),
        ("array-of-3-dimensions-beyond", "value_nbytes", implied, 380, u32s(3)),
        ("array-of-255-dimensions", "value_nbytes", implied, 380, u32s(255)),
        ("key-longer-than-the-table", "layout", "a table ends before the next", 88, u32s(60_000)),
    ]
}

fn tensors() -> Vec<Row> {
    let (inside, implied) =
        ("the file has all values of a tensor", "data_nbytes is what type and dimensions imply");
    let declared = "a tensor without values has 0 as offset and length";
    vec![
        ("tensor-type-0", "layout", "tensors have types of numbers", 312, u32s(0)),
        ("tensor-type-26", "layout", "tensors have types of numbers", 312, u32s(26)),
        ("tensor-of-bitsets", "layout", "tensors have types of numbers", 312, u32s(13)),
        ("tensor-of-strings", "layout", "tensors have types of numbers", 312, u32s(14)),
        ("tensor-of-arrays", "layout", "tensors have types of numbers", 312, u32s(15)),
        ("tensor-f64-of-8-bytes", "layout", implied, 312, u32s(11)),
        ("flag-2-in-version-1", "declared-tensors", "flags but HAS_DATA are zero", 320, u32s(3)),
        ("flag-high-bit", "declared-tensors", "flags but HAS_DATA are zero", 276, u32s(1 << 31)),
        ("declared-with-a-length", "declared-tensors", declared, 288, u64s(8)),
        ("declared-with-an-offset", "declared-tensors", declared, 296, u64s(416)),
        ("without-flag-but-with-values", "declared-tensors", declared, 320, u32s(0)),
        ("nbytes-4", "layout", implied, 332, u64s(4)),
        ("nbytes-16", "layout", implied, 332, u64s(16)),
        ("dimension-1", "layout", implied, 324, u64s(1)),
        ("dimension-2-to-the-63", "layout", implied, 324, u64s(1 << 63)),
        (
            "dimension-2-to-the-64-minus-1",
            "layout",
            "elements are counted without wrapping around",
            280,
            u64s(u64::MAX),
        ),
        ("rank-200", "layout", "a table ends before the next", 316, u32s(200)),
        ("rank-2-to-the-32-minus-1", "layout", "a table ends before the next", 316, u32s(u32::MAX)),
        ("name-longer-than-the-table", "layout", "a table ends before the next", 304, u32s(60)),
        ("tensor-not-aligned", "offsets", "payloads begin at multiples of 8", 340, u64s(412)),
        ("tensor-in-the-tables", "offsets", "payloads do not begin before the data", 340, u64s(0)),
        ("tensor-behind-the-file", "offsets", inside, 340, u64s(424)),
        ("tensor-near-2-to-the-64", "offsets", inside, 340, u64s(u64::MAX - 7)),
        ("tensor-of-2-to-the-64-minus-1-bytes", "offsets", inside, 332, u64s(u64::MAX)),
        ("tensor-over-another", "overlaps", "payloads do not overlap", 340, u64s(408)),
        ("bool-tensor-of-2", "values", "a boolean is 0 or 1", 409, vec![2]),
    ]
}

pub(super) fn add(f: &mut Format) {
    let file = sound();
    let bits = [true, false, true, false, true, false, true, false, true];
    let reading = Reading::empty().tensor("t", "bool", &[3], &[1, 1, 0]).declared("u", "f32", &[2]).tensor(
        "w",
        "f32",
        &[2],
        &[7; 8],
    );
    let reading = reading.metadata(json!({
        "a": {"type": "str", "value": "ab"},
        "b": {"type": "bitset", "value": bits},
        "c": {"type": "ndarray", "dtype": "bool", "shape": [3], "value": [true, false, true]},
        "d": {"type": "bool", "value": true},
    }));
    f.read("all-tables", "layout", "size variables, metadata and tensors", file.clone(), reading);
    for (slug, section, rule, at, bytes) in [header(), metadata(), tensors()].concat() {
        f.refused(slug, section, rule, patched(&file, at, &bytes));
    }
    let mut longer = file.clone();
    longer.extend([0; 8]);
    f.refused("eight-bytes-behind", "offsets", "file_size is right", longer.clone());
    let len = longer.len() as u64;
    f.refused(
        "eight-bytes-of-nothing",
        "offsets",
        "no bytes belong to nothing",
        patched(&longer, 61, &len.to_le_bytes()),
    );
    quant(f);
    cut(f, &file);
}

/// Encodes the payload of a quantization: scheme, modes, axes, counts.
fn payload(modes: [u32; 3], scale: (u64, u64), zero: (u64, u64), rest: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    modes.iter().chain(&[0]).for_each(|mode| out.extend(mode.to_le_bytes()));
    [scale.0, scale.1, zero.0, zero.1].iter().for_each(|number| out.extend(number.to_le_bytes()));
    out.extend(rest);
    out.resize(out.len().next_multiple_of(8), 0);
    out
}

fn quant(f: &mut Format) {
    let values: Vec<u8> = (0..6).collect();
    let file = |quant: &[u8]| File::new(2).quantized("q", 1, &[2, 3], Some(&values), Some(quant)).build();
    let reading = Reading::empty().tensor("q", "i8", &[2, 3], &values);
    let scale = 0.5f32.to_le_bytes();
    let scales = [scale; 3].concat();
    let zero = 3i32.to_le_bytes();
    let section = "quant-payload";
    for (slug, quant) in [
        ("symmetric", payload([1, 1, 0], (0, 1), (0, 0), &scale)),
        ("asymmetric", payload([2, 1, 1], (0, 1), (0, 1), &[scale, zero].concat())),
        ("per-channel", payload([1, 2, 0], (1, 3), (0, 0), &scales)),
    ] {
        f.read(
            format!("v2-quant-{slug}"),
            section,
            "a payload of scales and zero points",
            file(&quant),
            reading.clone(),
        );
    }
    for (slug, rule, quant) in [
        ("scheme-0", "schemes are 1 and 2", payload([0, 1, 0], (0, 1), (0, 0), &scale)),
        ("scheme-3", "schemes are 1 and 2", payload([3, 1, 0], (0, 1), (0, 0), &scale)),
        ("scale-mode-0", "scale modes are 1 and 2", payload([1, 0, 0], (0, 1), (0, 0), &scale)),
        ("scale-mode-3", "scale modes are 1 and 2", payload([1, 3, 0], (0, 1), (0, 0), &scale)),
        (
            "zero-mode-3",
            "zero-point modes are 0, 1 and 2",
            payload([2, 1, 3], (0, 1), (0, 1), &[scale, zero].concat()),
        ),
        (
            "symmetric-with-zero-points",
            "symmetric payloads have no zero points",
            payload([1, 1, 1], (0, 1), (0, 1), &[scale, zero].concat()),
        ),
        (
            "asymmetric-without",
            "asymmetric payloads have zero points",
            payload([2, 1, 0], (0, 1), (0, 0), &scale),
        ),
        (
            "two-scales-per-tensor",
            "per tensor the count is 1",
            payload([1, 1, 0], (0, 2), (0, 0), &[scale; 2].concat()),
        ),
        ("axis-2", "the axis is below the rank", payload([1, 2, 0], (2, 3), (0, 0), &scales)),
        (
            "two-scales-of-three-channels",
            "per channel the count is the dimension",
            payload([1, 2, 0], (1, 2), (0, 0), &[scale; 2].concat()),
        ),
        ("scales-missing", "the payload has all scales", payload([1, 2, 0], (1, 3), (0, 0), &scale)),
        (
            "count-2-to-the-62",
            "the payload has all scales",
            payload([1, 2, 0], (1, 1 << 62), (0, 0), &scales),
        ),
        ("short", "a payload has 48 bytes before the scales", vec![1, 0, 0, 0, 1, 0, 0, 0]),
    ] {
        f.refused(format!("v2-quant-{slug}"), section, rule, file(&quant));
    }
    let lone = File::new(2)
        .quantized("q", 1, &[2, 3], None, Some(&payload([1, 1, 0], (0, 1), (0, 0), &scale)))
        .build();
    f.read(
        "v2-quant-declared",
        "version-2",
        "a declared tensor may have a quant payload",
        lone,
        Reading::empty().declared("q", "i8", &[2, 3]),
    );
}

fn cut(f: &mut Format, sound: &[u8]) {
    let fields = [
        ("the version", 5),
        ("the flags", 9),
        ("the numbers of entries", 13),
        ("the offsets of sections", 29),
        ("the file size", 61),
        ("the padding of the header", 69),
        ("a size variable", 72),
        ("its value", 80),
        ("the metadata", 88),
        ("the second entry", 120),
        ("the tensors", 216),
        ("the second tensor", 260),
        ("the dimensions", 324),
        ("the padding of the tables", 348),
        ("the values", 352),
        ("a bit set", 360),
        ("an array", 376),
        ("a tensor", 408),
        ("the last tensor", 416),
        ("the last byte", sound.len() - 1),
    ];
    f.cut("", "offsets", sound, &fields);
    for len in [72, 88, 216, 352, 376, 408, 416] {
        let cut = patched(&sound[..len], 61, &(len as u64).to_le_bytes());
        f.refused(
            format!("cut-to-{len}-bytes-and-so-stated"),
            "offsets",
            "sections and payloads end in the file",
            cut,
        );
    }
}
