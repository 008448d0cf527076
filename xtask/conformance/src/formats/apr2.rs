//! APR2, the draft: a header, metadata in JSON, an index, values, a footer. And APR1.

use serde_json::{Value, json};
use testkit::{crc32, patched};

use super::apr::literals;
use crate::suite::{Format, Reading, bytes};

const DTYPES: [(u8, &str, u64, usize); 13] = [
    (0, "f32", 1, 4),
    (1, "f16", 1, 2),
    (2, "bf16", 1, 2),
    (3, "i8", 1, 1),
    (4, "i16", 1, 2),
    (5, "i32", 1, 4),
    (6, "i64", 1, 8),
    (7, "u8", 1, 1),
    (16, "q8_0", 32, 34),
    (17, "q4_0", 32, 18),
    (18, "q4_1", 32, 20),
    (19, "q5_0", 32, 22),
    (20, "q5_1", 32, 24),
];

const METADATA: &str = r#"{"apr_version":"2.0.0","architecture":{"n_mels":80},"model_type":"tiny"}"#;

#[derive(Clone)]
struct Entry {
    name: Vec<u8>,
    dtype: u8,
    dims: Vec<u64>,
    offset: u64,
    size: u64,
    raw_size: u64,
    flags: u32,
}

fn u8s(name: &str, offset: u64, size: u64) -> Entry {
    Entry { name: name.as_bytes().to_vec(), dtype: 7, dims: vec![size], offset, size, raw_size: 0, flags: 0 }
}

/// A file that can be changed before it is built.
#[derive(Clone)]
struct File {
    flags: u32,
    metadata: Vec<u8>,
    gap: usize,
    reserved: u32,
    entries: Vec<Entry>,
    trailing: Vec<u8>,
    data: Vec<u8>,
}

impl File {
    /// Makes a file with one tensor, aligned to 64.
    fn of(name: &str, dtype: u8, dims: &[u64], values: &[u8]) -> Self {
        let entry = Entry { dtype, dims: dims.to_vec(), ..u8s(name, 0, values.len() as u64) };
        let flags = if dtype >= 16 { 0b100_0010 } else { 0b10 };
        Self {
            flags,
            metadata: METADATA.into(),
            gap: 0,
            reserved: 0,
            entries: vec![entry],
            trailing: vec![],
            data: values.to_vec(),
        }
    }

    fn index_at(&self) -> usize {
        32 + self.metadata.len() + self.gap
    }

    fn index(&self) -> Vec<u8> {
        let mut out = (self.entries.len() as u32).to_le_bytes().to_vec();
        out.extend(self.reserved.to_le_bytes());
        for entry in &self.entries {
            out.extend((entry.name.len() as u16).to_le_bytes());
            out.extend(&entry.name);
            out.extend([entry.dtype, entry.dims.len() as u8]);
            for number in entry.dims.iter().chain([&entry.offset, &entry.size, &entry.raw_size]) {
                out.extend(number.to_le_bytes());
            }
            out.extend(entry.flags.to_le_bytes());
        }
        out.extend(&self.trailing);
        out
    }

    fn data_at(&self) -> usize {
        (self.index_at() + self.index().len()).next_multiple_of(64)
    }

    fn build(&self) -> Vec<u8> {
        let index = self.index();
        let mut out = b"APR2\x02\0\0\0".to_vec();
        out.extend(self.flags.to_le_bytes());
        for number in [32, self.metadata.len(), self.index_at(), index.len(), self.data_at()] {
            out.extend((number as u32).to_le_bytes());
        }
        out.extend(&self.metadata);
        out.resize(self.index_at(), 0);
        out.extend(index);
        out.resize(self.data_at(), 0);
        out.extend(&self.data);
        footed(out)
    }
}

/// Appends a correct footer.
fn footed(mut file: Vec<u8>) -> Vec<u8> {
    file.extend(crc32(&file).to_le_bytes());
    file.extend(b"2RPA");
    file.extend((file.len() as u64 + 8).to_le_bytes());
    file
}

/// Replaces the footer by a correct one, after a change.
fn sealed(file: &[u8]) -> Vec<u8> {
    footed(file[..file.len() - 16].to_vec())
}

/// Makes a file with two tensors of bytes: `a` of 5, `b` of 3.
fn two() -> File {
    let mut file = File::of("a", 7, &[5], &bytes(5));
    file.data.resize(64, 0);
    file.data.extend(bytes(3));
    file.entries.push(u8s("b", 64, 3));
    file
}

/// Makes a file with a tensor of 65,546 bytes in two blocks, and returns the tensor's bytes too.
fn compressed() -> (File, Vec<u8>) {
    let values: Vec<u8> = bytes(251).into_iter().cycle().take(65_546).collect();
    let mut data = Vec::new();
    for block in values.chunks(65_536) {
        let block =
            if block.len() < 15 { [&[(block.len() as u8) << 4], block].concat() } else { literals(block) };
        data.extend((block.len() as u32).to_le_bytes());
        data.extend(block);
    }
    let mut file = File::of("z", 7, &[65_546], &data);
    (file.flags, file.entries[0].raw_size, file.entries[0].flags) = (0b11, 65_546, 1);
    (file, values)
}

fn reading() -> Reading {
    Reading::empty().metadata(serde_json::from_str(METADATA).expect("JSON"))
}

fn of_two() -> Reading {
    reading().tensor("a", "u8", &[5], &bytes(5)).tensor("b", "u8", &[3], &bytes(3))
}

fn changed(change: impl FnOnce(&mut File)) -> Vec<u8> {
    let mut file = two();
    change(&mut file);
    file.build()
}

pub(crate) fn files() -> Format {
    let mut f = Format::new("apr2", "apr", "docs/formats/apr2.md");
    tensors(&mut f);
    sound(&mut f);
    headers(&mut f);
    entries(&mut f);
    promises(&mut f);
    metadata(&mut f);
    blocks(&mut f);
    apr1(&mut f);
    f
}

fn tensors(f: &mut Format) {
    for (code, dtype, elements, size) in DTYPES {
        let dims = [2, if elements == 1 { 3 } else { elements }];
        let values = bytes((dims[0] * dims[1] / elements) as usize * size);
        let rule = format!("dtype {code} is {dtype}");
        f.read(
            format!("dtype-{dtype}"),
            "layout",
            rule,
            File::of("t", code, &dims, &values).build(),
            reading().tensor("t", dtype, &dims, &values),
        );
        let rule = format!("{dtype} of this shape has {} bytes", values.len());
        f.refused(
            format!("dtype-{dtype}-a-byte-short"),
            "sizes",
            rule,
            File::of("t", code, &dims, &values[1..]).build(),
        );
        if elements > 1 {
            let half = File::of("t", code, &[16], &bytes(size)).build();
            f.refused(
                format!("dtype-{dtype}-half-a-block"),
                "block-types",
                "elements are a multiple of 32",
                half,
            );
        }
    }
    for code in [8u8, 9, 15, 21, 30, 255] {
        f.refused(
            format!("dtype-{code}"),
            "layout",
            "a code that no dtype has",
            File::of("t", code, &[4], &bytes(4)).build(),
        );
    }
    for (slug, dims) in [("rank-1", vec![7]), ("rank-8", vec![1; 8]), ("dimension-0", vec![3, 0])] {
        let values = bytes(4 * dims.iter().product::<u64>() as usize);
        let made = File::of("t", 0, &dims, &values).build();
        f.read(
            format!("shape-{slug}"),
            "names-and-shapes",
            "a tensor has 1 to 8 dimensions",
            made,
            reading().tensor("t", "f32", &dims, &values),
        );
    }
    for rank in [0, 9, 255] {
        let made = File::of("t", 7, &vec![1; rank], &bytes(1)).build();
        f.refused(format!("rank-{rank}"), "names-and-shapes", "a tensor has 1 to 8 dimensions", made);
    }
    for (slug, name) in
        [("umlaut", "Größe"), ("emoji", "🦀"), ("slashes", "a/b\\c"), ("of-65535-bytes", &"n".repeat(65_535))]
    {
        let made = File::of(name, 7, &[4], &bytes(4)).build();
        f.read(
            format!("name-{slug}"),
            "names-and-shapes",
            "a name has 1 to 65,535 bytes of UTF-8",
            made,
            reading().tensor(name, "u8", &[4], &bytes(4)),
        );
    }
    f.refused(
        "name-empty",
        "names-and-shapes",
        "a name has 1 to 65,535 bytes of UTF-8",
        File::of("", 7, &[4], &bytes(4)).build(),
    );
}

fn sound(f: &mut Format) {
    f.read(
        "two-tensors",
        "layout",
        "a header, metadata, an index, values and a footer",
        two().build(),
        of_two(),
    );
    let none = changed(|file| (file.entries, file.data) = (Vec::new(), Vec::new()));
    f.read("empty", "layout", "a file without tensors", none, reading());
    f.read(
        "minor-version-9",
        "version",
        "any minor version is read",
        sealed(&patched(&two().build(), 6, &[9])),
        of_two(),
    );
    f.read(
        "gap-of-zeros",
        "sections",
        "zeros may lie between sections",
        changed(|file| file.gap = 5),
        of_two(),
    );
    f.read(
        "streaming",
        "streaming",
        "tensors lie in the order of the index",
        changed(|file| file.flags |= 0x80),
        of_two(),
    );
    let promised = |flags: u32, at: u64| {
        changed(|file| {
            (file.flags, file.entries[1].offset) = (flags, at);
            file.data.truncate(5);
            file.data.resize(at as usize, 0);
            file.data.extend(bytes(3));
        })
    };
    f.read("aligned-to-32", "flags", "tensors begin at multiples of 32", promised(0b100, 32), of_two());
    f.read("not-aligned", "flags", "without a flag nothing is promised", promised(0, 5), of_two());
    let tied = changed(|file| (file.entries[1], file.data) = (u8s("b", 0, 5), bytes(5)));
    let reading_of_tied = reading().tensor("a", "u8", &[5], &bytes(5)).tensor("b", "u8", &[5], &bytes(5));
    f.either(
        "tied-tensors",
        "ties",
        "the draft does not say whether two tensors may have the same bytes",
        tied,
        Some(reading_of_tied),
    );
    let (file, values) = compressed();
    f.read(
        "compressed",
        "compression",
        "a tensor in blocks of LZ4",
        file.build(),
        reading().tensor("z", "u8", &[65_546], &values),
    );
}

fn headers(f: &mut Format) {
    let sound = two().build();
    let (index, data, len) = (two().index_at() as u32, two().data_at() as u32, sound.len());
    let word = |at: usize, value: u32| sealed(&patched(&sound, at, &value.to_le_bytes()));
    let order = "metadata, index and values follow each other, inside the file";
    let rows: Vec<(&str, &'static str, &str, Vec<u8>)> = vec![
        ("magic", "magic", "a file begins with `APR2`", patched(&sound, 0, b"APR3")),
        ("magic-reversed", "magic", "a file begins with `APR2`", patched(&sound, 0, b"2RPA")),
        ("major-version-1", "version", "the major version is 2", patched(&sound, 4, &[1])),
        ("major-version-3", "version", "the major version is 2", patched(&sound, 4, &[3])),
        ("unknown-flag", "flags", "unknown flags are refused", word(8, 0x102)),
        ("unknown-high-flag", "flags", "unknown flags are refused", word(8, 0x8000_0002)),
        ("encrypted", "flags", "a file that says it is encrypted is not read as plain", word(8, 0x12)),
        (
            "signed-without-a-signature",
            "flags",
            "a file that says it is signed has a signature",
            word(8, 0x22),
        ),
        ("metadata-offset-33", "sections", order, word(12, 33)),
        ("metadata-behind-the-file", "sections", order, word(16, len as u32)),
        ("metadata-over-the-index", "sections", order, word(16, index - 31)),
        ("metadata-of-4-gib", "sections", order, word(16, u32::MAX)),
        ("metadata-of-0-bytes", "metadata", "the metadata are an object", word(16, 0)),
        ("metadata-cut-short", "metadata", "the metadata are an object", word(16, 5)),
        ("index-in-the-metadata", "sections", order, word(20, 40)),
        ("index-behind-the-file", "sections", order, word(20, u32::MAX)),
        ("index-over-the-values", "sections", order, word(24, data - index + 1)),
        ("index-of-4-gib", "sections", order, word(24, u32::MAX)),
        ("index-of-0-bytes", "sections", "index_size is used exactly", word(24, 0)),
        ("index-of-40-bytes", "sections", "index_size is used exactly", word(24, 40)),
        ("values-in-the-index", "sections", order, word(28, data - 64)),
        ("values-not-aligned", "sections", "data_offset is a multiple of 64", word(28, data + 1)),
        ("values-behind-the-file", "sections", order, word(28, data + 1024)),
        ("magic-of-the-footer", "footer", "the footer has `2RPA`", patched(&sound, len - 12, b"2RPB")),
        ("file-size", "footer", "the footer has the size of the file", patched(&sound, len - 8, &[0])),
        (
            "crc",
            "footer",
            "the footer has the CRC-32 of all before it",
            patched(&sound, len - 16, &[!sound[len - 16]]),
        ),
        (
            "damaged-value",
            "footer",
            "the footer has the CRC-32 of all before it",
            patched(&sound, len - 17, &[!sound[len - 17]]),
        ),
        (
            "damaged-metadata",
            "footer",
            "the footer has the CRC-32 of all before it",
            patched(&sound, 50, b"x"),
        ),
        ("byte-behind", "footer", "the file ends with the footer", [&sound[..], &[0]].concat()),
        ("footer-twice", "footer", "the footer follows the last tensor", footed(sound.clone())),
        ("tensors-one-more", "sections", "index_size is used exactly", word(index as usize, 3)),
        ("tensors-one-less", "sections", "index_size is used exactly", word(index as usize, 1)),
        (
            "tensors-2-to-the-32-minus-1",
            "sections",
            "index_size is used exactly",
            word(index as usize, u32::MAX),
        ),
        (
            "bytes-behind-the-entries",
            "sections",
            "index_size is used exactly",
            changed(|file| file.trailing = vec![0]),
        ),
    ];
    for (slug, section, rule, file) in rows {
        f.refused(slug, section, rule, file);
    }
    let fields = [
        ("the magic", 0),
        ("the flags", 8),
        ("the offsets", 12),
        ("the metadata", 32),
        ("the index", index as usize),
        ("the first entry", index as usize + 8),
        ("the second entry", index as usize + 49),
        ("the values", data as usize),
        ("the footer", len - 16),
        ("the size of the file", len - 8),
    ];
    f.cut("", "footer", &sound, &fields);
}

fn entries(f: &mut Format) {
    let b = |change: fn(&mut Entry)| changed(|file| change(&mut file.entries[1]));
    let inside = "the file has all values of a tensor";
    let implied = "size, or raw_size, is what dtype and shape imply";
    for (slug, section, rule, file) in [
        ("name-twice", "names-and-shapes", "a name occurs once", b(|e| e.name = b"a".to_vec())),
        ("name-latin-1", "names-and-shapes", "a name is UTF-8", b(|e| e.name = vec![0xff])),
        ("size-2", "sizes", implied, b(|e| e.size = 2)),
        ("size-4", "sizes", implied, b(|e| e.size = 4)),
        ("raw-size-4", "sizes", implied, b(|e| e.raw_size = 4)),
        ("raw-size-2-to-the-63", "sizes", implied, b(|e| e.raw_size = 1 << 63)),
        (
            "raw-size-that-lz4-cannot-make",
            "sizes",
            "LZ4 makes at most 255 bytes of one",
            b(|e| (e.raw_size, e.dims) = (1 << 40, vec![1 << 40])),
        ),
        ("dimension-2-to-the-63", "sizes", implied, b(|e| e.dims = vec![1 << 63])),
        ("product-of-2-to-the-80", "sizes", implied, b(|e| e.dims = vec![1 << 40; 2])),
        ("product-that-wraps-to-3", "sizes", implied, b(|e| e.dims = vec![(1 << 63) + 1, 3])),
        ("end-behind-the-file", "sections", inside, b(|e| e.offset = 65)),
        ("offset-2-to-the-63", "sections", inside, b(|e| e.offset = 1 << 63)),
        ("offset-2-to-the-64-minus-1", "sections", inside, b(|e| e.offset = u64::MAX)),
        ("offset-that-wraps", "sections", inside, b(|e| e.offset = u64::MAX - 200)),
        (
            "empty-tensor-far-away",
            "sizes",
            "an empty tensor is at most at the next aligned position",
            b(|e| (e.dims, e.size, e.offset) = (vec![0], 0, 256)),
        ),
    ] {
        f.refused(slug, section, rule, file);
    }
}

/// Adds files with wrong flags, reserved fields, offsets and padding.
fn promises(f: &mut Format) {
    let b = |change: fn(&mut Entry)| changed(|file| change(&mut file.entries[1]));
    let flags = |flags: u32| changed(|file| file.flags = flags);
    let says = "flags say what the tensors are";
    let quantized = changed(|file| {
        file.entries[1] = Entry { dtype: 17, dims: vec![32], ..u8s("b", 64, 18) };
        file.data.resize(64 + 18, 5);
    });
    let swapped = changed(|file| {
        file.flags |= 0x80;
        file.entries.swap(0, 1);
    });
    let moved = changed(|file| {
        file.entries[1].offset = 32;
        file.data = vec![0; 35];
    });
    let overlap = changed(|file| (file.flags, file.entries[1].offset, file.data) = (0, 4, vec![1; 7]));
    let sound = two().build();
    let gap = changed(|file| file.gap = 5);
    for (slug, section, rule, file) in [
        ("reserved-of-the-index", "layout", "reserved is zero", changed(|file| file.reserved = 1)),
        ("flag-2-of-a-tensor", "compression", "unknown flags of a tensor are zero", b(|e| e.flags = 2)),
        (
            "tensor-that-says-compressed",
            "compression",
            "bit 0 says whether raw_size is not 0",
            b(|e| e.flags = 1),
        ),
        ("compressed-without-compressed-tensors", "flags", says, flags(0b11)),
        ("quantized-without-blocks", "flags", says, flags(0b100_0010)),
        ("blocks-without-quantized", "flags", says, quantized),
        ("streaming-in-another-order", "streaming", "tensors lie in the order of the index", swapped),
        ("aligned-64-and-is-not", "flags", "tensors begin at multiples of 64", moved),
        ("overlap", "ties", "two tensors do not share a part of their bytes", overlap),
        (
            "gap-before-the-footer",
            "footer",
            "the footer follows the last tensor",
            changed(|file| file.data.push(0)),
        ),
        (
            "padding-between-values",
            "sections",
            "gaps are zero",
            sealed(&patched(&sound, two().data_at() + 10, &[1])),
        ),
        (
            "padding-between-sections",
            "sections",
            "gaps are zero",
            sealed(&patched(&gap, 32 + METADATA.len() + 2, &[1])),
        ),
    ] {
        f.refused(slug, section, rule, file);
    }
}

fn metadata(f: &mut Format) {
    let with = |text: &[u8]| changed(|file| file.metadata = text.to_vec());
    for (slug, text) in [
        ("nested", r#"{"apr_version":"2.0.0","architecture":{"a":[1,{"b":null}]},"model_type":"x"}"#),
        ("architecture-text", r#"{"apr_version":"2.0.0","architecture":"llama","model_type":"x"}"#),
        ("unicode", r#"{"apr_version":"2.0.0","architecture":{},"model_type":"größe 🦀"}"#),
    ] {
        let value: Value = serde_json::from_str(text).expect("JSON");
        f.read(
            format!("metadata-{slug}"),
            "metadata",
            "the metadata are an object of JSON",
            with(text.as_bytes()),
            of_two().metadata(value),
        );
    }
    for key in ["apr_version", "architecture", "model_type"] {
        let mut value: Value = serde_json::from_str(METADATA).expect("JSON");
        value.as_object_mut().expect("an object").remove(key);
        let rule = "apr_version, architecture and model_type are there";
        f.refused(
            format!("metadata-without-{}", key.replace('_', "-")),
            "metadata",
            rule,
            with(value.to_string().as_bytes()),
        );
    }
    let number = METADATA.replace(r#"{"n_mels":80}"#, "7");
    f.refused(
        "metadata-architecture-number",
        "metadata",
        "architecture is an object or text",
        with(number.as_bytes()),
    );
    for (slug, text) in [
        ("list", &b"[]"[..]),
        ("null", b"null"),
        ("open", b"{"),
        ("two", b"{}{}"),
        ("key-twice", br#"{"apr_version":"2.0.0","architecture":{},"model_type":"x","model_type":"y"}"#),
        ("latin-1", b"{\"a\":\"\xe9\"}"),
        ("trailing-comma", b"{\"a\":1,}"),
    ] {
        f.refused(format!("metadata-{slug}"), "metadata", "the metadata are an object of JSON", with(text));
    }
}

fn blocks(f: &mut Format) {
    let z = |change: &dyn Fn(&mut File)| {
        let (mut file, _) = compressed();
        change(&mut file);
        file.entries[0].size = file.data.len() as u64;
        file.build()
    };
    let small = |values: &[u8], data: &[u8]| {
        let mut file = File::of("z", 7, &[values.len() as u64], data);
        (file.flags, file.entries[0].raw_size, file.entries[0].flags) = (0b11, values.len() as u64, 1);
        file.build()
    };
    let block = |content: &[u8]| [&(content.len() as u32).to_le_bytes()[..], content].concat();
    // 20 bytes of one literal and a match.
    let run = [&[0x1a, 7, 1, 0][..], &[0x50, 7, 7, 7, 7, 7]].concat();
    f.read(
        "compressed-run",
        "compression",
        "a tensor in blocks of LZ4",
        small(&[7; 20], &block(&run)),
        reading().tensor("z", "u8", &[20], &[7; 20]),
    );
    let rule = "blocks expand to the tensor, all but the last to 65,536 bytes";
    f.refused(
        "compressed-flag-of-a-tensor-missing",
        "compression",
        "bit 0 says whether raw_size is not 0",
        z(&|file| file.entries[0].flags = 0),
    );
    f.refused(
        "compressed-flag-missing",
        "flags",
        "COMPRESSED says that a tensor is compressed",
        z(&|file| file.flags = 0b10),
    );
    f.refused("compressed-cut-short", "compression", rule, z(&|file| file.data.truncate(1000)));
    f.refused("compressed-bytes-behind", "compression", rule, z(&|file| file.data.push(0)));
    f.refused("compressed-block-of-4-gib", "compression", rule, z(&|file| file.data[..4].fill(255)));
    f.refused("compressed-block-of-0-bytes", "compression", rule, z(&|file| file.data[..4].fill(0)));
    f.refused("compressed-makes-fewer", "compression", rule, small(&[7; 21], &block(&run)));
    f.refused("compressed-makes-more", "compression", rule, small(&[7; 19], &block(&run)));
    f.refused("compressed-noise", "compression", rule, small(&[7; 20], &block(&[0xff; 10])));
    let before = [&[0x1a, 7, 9, 0][..], &[0x50, 7, 7, 7, 7, 7]].concat();
    f.refused("compressed-match-before-the-block", "compression", rule, small(&[7; 20], &block(&before)));
    let zero = [&[0x1a, 7, 0, 0][..], &[0x50, 7, 7, 7, 7, 7]].concat();
    f.refused("compressed-match-at-0", "compression", rule, small(&[7; 20], &block(&zero)));
    let halves = [block(&literals(&[7; 30])), block(&literals(&[7; 30]))].concat();
    f.refused("compressed-two-short-blocks", "compression", rule, small(&[7; 60], &halves));
}

fn apr1(f: &mut Format) {
    let metadata = r#"{"model_type":"x"}"#;
    let made = |metadata: &str, count: u32, index: &str, data: &[u8]| {
        let mut out = b"APR1".to_vec();
        out.extend((metadata.len() as u32).to_le_bytes());
        out.extend(metadata.as_bytes());
        out.extend(count.to_le_bytes());
        out.extend((index.len() as u32).to_le_bytes());
        out.extend(index.as_bytes());
        out.extend(data);
        out.extend(crc32(&out).to_le_bytes());
        out
    };
    let index = r#"[{"name":"t","dtype":"F32","shape":[2],"offset":0,"size":8}]"#;
    let sound = made(metadata, 1, index, &bytes(8));
    let reading = Reading::empty().tensor("t", "f32", &[2], &bytes(8)).metadata(json!({"model_type": "x"}));
    f.read("apr1", "apr1", "metadata and index in JSON, values, a CRC", sound.clone(), reading);
    for (slug, file) in [
        ("metadata-list", made("[]", 1, index, &bytes(8))),
        ("index-object", made(metadata, 1, "{}", &bytes(8))),
        ("tensors-2", made(metadata, 2, index, &bytes(8))),
        ("dtype", made(metadata, 1, &index.replace("F32", "F31"), &bytes(8))),
        ("size", made(metadata, 1, &index.replace("\"size\":8", "\"size\":7"), &bytes(8))),
        ("offset", made(metadata, 1, &index.replace("\"offset\":0", "\"offset\":4"), &bytes(8))),
        ("without-a-name", made(metadata, 1, &index.replace("\"name\":\"t\",", ""), &bytes(8))),
        ("damaged", patched(&sound, sound.len() - 6, &[!sound[sound.len() - 6]])),
        ("cut-short", sound[..sound.len() - 1].to_vec()),
    ] {
        f.refused(format!("apr1-{slug}"), "apr1", "what the metadata, the index and the CRC say is so", file);
    }
}
