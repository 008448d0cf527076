//! APR as aprender writes it: a header, metadata in JSON, an index, values.

use serde_json::{Value, json};
use testkit::{crc32, patched};

use super::aero::zstd;
use crate::suite::{Format, Reading, bytes};

/// Code, name, and how many elements take how many bytes.
type Row = (u8, &'static str, u64, usize);

const DTYPES: [Row; 15] = [
    (0, "f32", 1, 4),
    (1, "f16", 1, 2),
    (2, "bf16", 1, 2),
    (3, "f64", 1, 8),
    (4, "i32", 1, 4),
    (5, "i64", 1, 8),
    (6, "i8", 1, 1),
    (7, "u8", 1, 1),
    (8, "apr_q4", 32, 18),
    (9, "apr_q8", 1, 1),
    (12, "q4_k", 256, 144),
    (14, "q6_k", 256, 210),
    (30, "bf16", 1, 2),
    (128, "apr_q4", 32, 18),
    (129, "apr_q8", 1, 1),
];

const METADATA: &str = r#"{"model_type":"tiny"}"#;

#[derive(Clone)]
struct Entry {
    name: Vec<u8>,
    dtype: u8,
    dims: Vec<u64>,
    offset: u64,
    size: u64,
}

impl Entry {
    fn bytes(&self) -> Vec<u8> {
        let mut out = (self.name.len() as u16).to_le_bytes().to_vec();
        out.extend(&self.name);
        out.extend([self.dtype, self.dims.len() as u8]);
        for number in self.dims.iter().chain([&self.offset, &self.size]) {
            out.extend(number.to_le_bytes());
        }
        out
    }
}

/// A file that can be changed before it is built.
#[derive(Clone)]
struct File {
    magic: [u8; 4],
    version: u8,
    flags: u16,
    count: Option<u32>,
    metadata: Vec<u8>,
    metadata_offset: u64,
    metadata_size: Option<u32>,
    index_offset: Option<u64>,
    data_offset: Option<u64>,
    reserved: [u8; 20],
    entries: Vec<Entry>,
    data: Vec<u8>,
    has_footer: bool,
}

impl File {
    fn new() -> Self {
        Self {
            magic: *b"APR\0",
            version: 2,
            flags: 0x400,
            count: None,
            metadata: METADATA.as_bytes().to_vec(),
            metadata_offset: 64,
            metadata_size: None,
            index_offset: None,
            data_offset: None,
            reserved: [0; 20],
            entries: Vec::new(),
            data: Vec::new(),
            has_footer: true,
        }
    }

    fn tensor(mut self, name: &str, dtype: u8, dims: &[u64], values: &[u8]) -> Self {
        let offset = self.data.len() as u64;
        let name = name.as_bytes().to_vec();
        self.entries.push(Entry { name, dtype, dims: dims.to_vec(), offset, size: values.len() as u64 });
        self.data.extend(values);
        self.data.resize(self.data.len().next_multiple_of(64), 0);
        self
    }

    fn index_at(&self) -> usize {
        (64 + self.metadata.len()).next_multiple_of(64)
    }

    fn index_end(&self) -> usize {
        self.index_at() + self.entries.iter().map(|entry| entry.bytes().len()).sum::<usize>()
    }

    fn data_at(&self) -> usize {
        self.index_end().next_multiple_of(64)
    }

    fn build(&self) -> Vec<u8> {
        let mut out = self.magic.to_vec();
        out.extend([self.version, 0]);
        out.extend(self.flags.to_le_bytes());
        out.extend(self.count.unwrap_or(self.entries.len() as u32).to_le_bytes());
        out.extend(self.metadata_offset.to_le_bytes());
        out.extend(self.metadata_size.unwrap_or(self.metadata.len() as u32).to_le_bytes());
        out.extend(self.index_offset.unwrap_or(self.index_at() as u64).to_le_bytes());
        out.extend(self.data_offset.unwrap_or(self.data_at() as u64).to_le_bytes());
        let crc = crc32(&[&out[..], &self.reserved].concat());
        out.extend(crc.to_le_bytes());
        out.extend(self.reserved);
        out.extend(&self.metadata);
        out.resize(self.index_at(), 0);
        self.entries.iter().for_each(|entry| out.extend(entry.bytes()));
        out.resize(self.data_at(), 0);
        out.extend(&self.data);
        if self.has_footer { footed(out) } else { out }
    }
}

/// Appends the CRC-32 of the whole file.
fn footed(mut file: Vec<u8>) -> Vec<u8> {
    file.extend(crc32(&file).to_le_bytes());
    file
}

/// Makes a file with two tensors of bytes: `a` of 5, `b` of 3.
fn two() -> File {
    File::new().tensor("a", 7, &[5], &bytes(5)).tensor("b", 7, &[3], &bytes(3))
}

fn reading() -> Reading {
    Reading::empty().metadata(json!({"model_type": "tiny"}))
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
    let mut f = Format::new("apr", "apr", "docs/formats/apr.md");
    tensors(&mut f);
    sound(&mut f);
    headers(&mut f);
    entries(&mut f);
    metadata(&mut f);
    damage(&mut f);
    f
}

fn tensors(f: &mut Format) {
    for (code, dtype, elements, size) in DTYPES {
        let dims = [2, if elements == 1 { 3 } else { elements }];
        let mut nbytes = (dims[0] * dims[1] / elements) as usize * size;
        if dtype == "apr_q8" {
            nbytes += 4;
        }
        let values = bytes(nbytes);
        let file = File::new().tensor("t", code, &dims, &values).build();
        let section = if dtype.starts_with("apr_") { "apr_q4-and-apr_q8" } else { "dtypes" };
        f.read(
            format!("dtype-{code}-{dtype}"),
            section,
            format!("code {code} is {dtype}"),
            file,
            reading().tensor("t", dtype, &dims, &values),
        );
        for (slug, len) in [("short", nbytes - 1), ("long", nbytes + 1)] {
            let wrong = File::new().tensor("t", code, &dims, &bytes(len)).build();
            f.refused(
                format!("dtype-{code}-a-byte-{slug}"),
                "dtypes",
                format!("{dtype} of this shape has {nbytes} bytes"),
                wrong,
            );
        }
    }
    for code in [10u8, 11, 13, 15, 31, 127, 130, 255] {
        f.refused(
            format!("dtype-{code}"),
            "dtypes",
            "a code that no dtype has",
            File::new().tensor("t", code, &[4], &bytes(4)).build(),
        );
    }
    let rows = File::new().tensor("t", 12, &[2, 128], &bytes(288)).build();
    f.read(
        "rows-of-q4-k",
        "rows-of-q4_k",
        "a row of q4_k is filled up to whole blocks",
        rows,
        reading().tensor("t", "q4_k", &[2, 128], &bytes(288)),
    );
    let packed = File::new().tensor("t", 12, &[2, 128], &bytes(144)).build();
    f.refused(
        "rows-of-q4-k-not-filled-up",
        "rows-of-q4_k",
        "a row of q4_k is filled up to whole blocks",
        packed,
    );
    let part = File::new().tensor("t", 14, &[2, 100], &bytes(210)).build();
    f.refused("part-of-a-block-of-q6-k", "rows-of-q4_k", "elements of q6_k divide into blocks", part);
    for (slug, dims) in [
        ("scalar", vec![]),
        ("dimension-0", vec![3, 0]),
        ("rank-8", vec![1; 8]),
        ("rank-4", vec![2, 1, 3, 1]),
    ] {
        let values = bytes(4 * dims.iter().product::<u64>() as usize);
        let file = File::new().tensor("t", 0, &dims, &values).build();
        f.read(
            format!("shape-{slug}"),
            "layout",
            "ranks are 0 to 8",
            file,
            reading().tensor("t", "f32", &dims, &values),
        );
    }
    for rank in [9, 255] {
        f.refused(
            format!("rank-{rank}"),
            "layout",
            "ranks are 0 to 8",
            File::new().tensor("t", 7, &vec![1; rank], &bytes(1)).build(),
        );
    }
    for (slug, name) in
        [("umlaut", "Größe"), ("emoji", "🦀"), ("slashes", "a/b\\c"), ("of-256-bytes", &"n".repeat(256))]
    {
        let file = File::new().tensor(name, 7, &[4], &bytes(4)).build();
        f.read(
            format!("name-{slug}"),
            "names-and-ranks",
            "a name is UTF-8",
            file,
            reading().tensor(name, "u8", &[4], &bytes(4)),
        );
    }
    let (mut many, mut all) = (File::new(), reading());
    for n in 0..60usize {
        let (name, values) = (format!("t{n:02}"), bytes(n % 9));
        many = many.tensor(&name, 7, &[values.len() as u64], &values);
        all = all.tensor(&name, "u8", &[values.len() as u64], &values);
    }
    f.read("sixty-tensors", "layout", "entries, one after the other", many.build(), all);
}

fn sound(f: &mut Format) {
    f.read(
        "two-tensors",
        "layout",
        "a header, metadata, an index, values and a CRC",
        two().build(),
        of_two(),
    );
    f.read("empty", "layout", "a file without tensors", File::new().build(), reading());
    f.read(
        "magic-apr2",
        "magic",
        "aprender 0.20 to 0.24 wrote the magic of the draft",
        changed(|file| file.magic = *b"APR2"),
        of_two(),
    );
    f.read(
        "no-footer",
        "footer",
        "the CRC at the end may be missing",
        changed(|file| file.has_footer = false),
        of_two(),
    );
    for (slug, flags) in [
        ("none", 0u16),
        ("quantized", 0x420),
        ("lz4-over-plain-content", 0x401),
        ("zstd-over-plain-content", 0x402),
        ("sharded", 0x410),
        ("unknown", 0xf400),
    ] {
        f.read(
            format!("flags-{slug}"),
            "what-flags-mean",
            "flags say little about the content",
            changed(|file| file.flags = flags),
            of_two(),
        );
    }
    let tied = changed(|file| {
        file.entries[1] = Entry { name: b"b".to_vec(), ..file.entries[0].clone() };
        file.data.truncate(64);
    });
    let reading = reading().tensor("a", "u8", &[5], &bytes(5)).tensor("b", "u8", &[5], &bytes(5));
    f.either(
        "tied-tensors",
        "alignment-and-sections",
        "no program writes two tensors over the same bytes",
        tied,
        Some(reading),
    );
    let compressed = |flag: u16, made: &dyn Fn(&[u8]) -> Vec<u8>| {
        let whole = changed(|file| file.flags |= flag);
        [&whole[..64], &made(&whole[64..])].concat()
    };
    let lz4 = |content: &[u8]| [&(content.len() as u32).to_le_bytes()[..], &literals(content)].concat();
    let why = "one loader of aprender expands such content, others refuse it";
    f.either("content-in-lz4", "compressed-content", why, compressed(1, &lz4), Some(of_two()));
    f.either(
        "content-in-zstd",
        "compressed-content",
        why,
        compressed(2, &|content| zstd(content)),
        Some(of_two()),
    );
    let expands = "compressed content expands to a whole file";
    let longer =
        |content: &[u8]| [&(content.len() as u32 + 1).to_le_bytes()[..], &literals(content)].concat();
    f.refused("content-in-lz4-of-another-length", "compressed-content", expands, compressed(1, &longer));
    f.refused(
        "content-in-lz4-cut-short",
        "compressed-content",
        expands,
        compressed(1, &|content| lz4(content)[..50].to_vec()),
    );
    f.refused(
        "content-in-zstd-cut-short",
        "compressed-content",
        expands,
        compressed(2, &|content| zstd(content)[..100].to_vec()),
    );
    f.refused("content-of-noise", "compressed-content", expands, compressed(1, &|_| bytes(200)));
    f.refused(
        "content-encrypted",
        "encrypted-and-signed-content",
        "the format has no layout of encrypted content",
        compressed(4, &|_| bytes(200)),
    );
}

/// Makes an LZ4 block of one sequence, all literals.
pub(super) fn literals(content: &[u8]) -> Vec<u8> {
    let mut out = vec![0xf0];
    let mut left = content.len() - 15;
    while left >= 255 {
        out.push(255);
        left -= 255;
    }
    out.push(left as u8);
    out.extend(content);
    out
}

fn headers(f: &mut Format) {
    let sound = two().build();
    let (index, data, len) = (two().index_at() as u64, two().data_at() as u64, sound.len() as u64);
    let order = "metadata, index and values follow each other, inside the file";
    let rows: Vec<(&str, &'static str, &str, Vec<u8>)> = vec![
        (
            "magic",
            "telling-the-containers-apart",
            "a file begins with `APR` and a zero",
            changed(|f| f.magic = *b"APRX"),
        ),
        (
            "magic-lower-case",
            "telling-the-containers-apart",
            "a file begins with `APR` and a zero",
            changed(|f| f.magic = *b"apr\0"),
        ),
        ("version-1", "layout", "the version is 2", changed(|f| f.version = 1)),
        ("version-3", "layout", "the version is 2", changed(|f| f.version = 3)),
        ("column-major", "layout-flags", "column-major files are refused", changed(|f| f.flags = 0x800)),
        ("both-layouts", "layout-flags", "column-major files are refused", changed(|f| f.flags = 0xc00)),
        (
            "metadata-offset-65",
            "telling-the-containers-apart",
            "the metadata begin at 64",
            changed(|f| f.metadata_offset = 65),
        ),
        (
            "metadata-offset-0",
            "telling-the-containers-apart",
            "the metadata begin at 64",
            changed(|f| f.metadata_offset = 0),
        ),
        (
            "checksum-of-the-header",
            "header-checksum",
            "the header has its CRC-32",
            patched(&sound, 40, &[sound[40] ^ 1]),
        ),
        ("damaged-header", "header-checksum", "the header has its CRC-32", patched(&sound, 8, &[1])),
        ("reserved", "layout", "20 bytes of the header are zero", changed(|f| f.reserved[3] = 1)),
        (
            "metadata-of-0-bytes",
            "metadata",
            "the metadata are an object",
            changed(|f| f.metadata_size = Some(0)),
        ),
        ("metadata-behind-the-file", "layout", order, changed(|f| f.metadata_size = Some(u32::MAX))),
        ("metadata-over-the-index", "layout", order, changed(|f| f.metadata_size = Some(200))),
        (
            "metadata-cut-short",
            "metadata",
            "the metadata are an object",
            changed(|f| f.metadata_size = Some(5)),
        ),
        ("index-in-the-metadata", "layout", order, changed(|f| f.index_offset = Some(65))),
        ("index-behind-the-values", "layout", order, changed(|f| f.index_offset = Some(data + 1))),
        ("index-of-2-to-the-64-minus-1", "layout", order, changed(|f| f.index_offset = Some(u64::MAX))),
        ("values-before-the-index", "layout", order, changed(|f| f.data_offset = Some(index - 1))),
        ("values-behind-the-file", "layout", order, changed(|f| f.data_offset = Some(len + 1))),
        ("values-of-2-to-the-64-minus-1", "layout", order, changed(|f| f.data_offset = Some(u64::MAX))),
        (
            "tensors-one-more",
            "layout",
            "the index has as many entries as the header says",
            changed(|f| f.count = Some(3)),
        ),
        (
            "tensors-2-to-the-32-minus-1",
            "layout",
            "the index has as many entries as the header says",
            changed(|f| f.count = Some(u32::MAX)),
        ),
    ];
    for (slug, section, rule, file) in rows {
        f.refused(slug, section, rule, file);
    }
}

fn entries(f: &mut Format) {
    let b = |change: fn(&mut Entry)| changed(|file| change(&mut file.entries[1]));
    let inside = "the file has all values of a tensor";
    let implied = "the size is what dtype and shape imply";
    let rows: [(&str, &'static str, &str, Vec<u8>); 15] = [
        ("name-twice", "layout", "a name occurs once", b(|e| e.name = b"a".to_vec())),
        ("name-latin-1", "layout", "a name is UTF-8", b(|e| e.name = vec![0xff])),
        ("size-2", "dtypes", implied, b(|e| e.size = 2)),
        ("size-4", "dtypes", implied, b(|e| e.size = 4)),
        ("size-0", "dtypes", implied, b(|e| e.size = 0)),
        ("size-2-to-the-64-minus-1", "dtypes", implied, b(|e| e.size = u64::MAX)),
        ("dimension-2-to-the-63", "dtypes", implied, b(|e| e.dims = vec![1 << 63])),
        ("product-of-2-to-the-80", "dtypes", implied, b(|e| e.dims = vec![1 << 40; 2])),
        ("product-that-wraps-to-3", "dtypes", implied, b(|e| e.dims = vec![(1 << 63) + 1, 3])),
        ("offset-behind-the-file", "layout", inside, b(|e| e.offset = 4096)),
        ("end-behind-the-file", "layout", inside, b(|e| e.offset = 130)),
        ("offset-2-to-the-64-minus-1", "layout", inside, b(|e| e.offset = u64::MAX)),
        ("offset-that-wraps", "layout", inside, b(|e| e.offset = u64::MAX - 130)),
        (
            "offset-not-aligned",
            "alignment-and-sections",
            "a tensor begins at a multiple of 64",
            b(|e| e.offset = 65),
        ),
        (
            "overlap",
            "alignment-and-sections",
            "two tensors do not share a part of their bytes",
            b(|e| e.offset = 3),
        ),
    ];
    for (slug, section, rule, file) in rows {
        f.refused(slug, section, rule, file);
    }
    let swapped = changed(|file| file.entries.swap(0, 1));
    let reading = reading().tensor("b", "u8", &[3], &bytes(3)).tensor("a", "u8", &[5], &bytes(5));
    f.either(
        "names-out-of-order",
        "order-of-the-index",
        "aprender demands ascending names",
        swapped,
        Some(reading),
    );
}

fn metadata(f: &mut Format) {
    let with = |text: &[u8]| changed(|file| file.metadata = text.to_vec());
    for (slug, text) in [
        ("nested", r#"{"model_type":"x","a":[1,{"b":null}]}"#),
        ("unicode", r#"{"model_type":"größe 🦀"}"#),
        ("numbers", r#"{"model_type":"x","a":0.1,"b":-3}"#),
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
    for (slug, text) in [
        ("list", &b"[1]"[..]),
        ("null", b"null"),
        ("broken", b"{\"a\":}"),
        ("two", b"{}{}"),
        ("open", b"{"),
        ("latin-1", b"{\"model_type\":\"\xe9\"}"),
    ] {
        f.refused(format!("metadata-{slug}"), "metadata", "the metadata are an object of JSON", with(text));
    }
    f.refused("metadata-without-model-type", "metadata", "model_type is always there", with(b"{}"));
    f.either(
        "metadata-key-twice",
        "metadata",
        "the last of two keys counts",
        with(br#"{"model_type":"x","model_type":"y"}"#),
        Some(of_two().metadata(json!({"model_type": "y"}))),
    );
}

fn damage(f: &mut Format) {
    let sound = two().build();
    let (data, len) = (two().data_at(), sound.len());
    let sealed = |at: usize| footed(patched(&sound, at, &[9])[..len - 4].to_vec());
    f.refused("padding-between-values", "alignment-and-sections", "padding is zero", sealed(data + 5));
    f.refused("padding-behind-the-index", "alignment-and-sections", "padding is zero", sealed(data - 1));
    f.refused(
        "damaged-value",
        "footer",
        "the footer is the CRC-32 of all before it",
        patched(&sound, data, &[!sound[data]]),
    );
    f.refused(
        "damaged-footer",
        "footer",
        "the footer is the CRC-32 of all before it",
        patched(&sound, len - 1, &[!sound[len - 1]]),
    );
    f.refused("byte-behind", "footer", "the file ends with the footer", [&sound[..], b"x"].concat());
    f.refused("half-a-footer", "footer", "the file ends with the footer", sound[..len - 2].to_vec());
    let index = two().index_at();
    let fields = [
        ("the magic", 0),
        ("the flags", 6),
        ("the number of tensors", 8),
        ("the offset of the metadata", 12),
        ("the offset of the index", 24),
        ("the offset of the values", 32),
        ("the checksum", 40),
        ("the metadata", 64),
        ("the index", index),
        ("the name", index + 2),
        ("the dimensions", index + 5),
        ("the second entry", index + 29),
        ("the values", data),
        ("the values of the second tensor", data + 64),
    ];
    f.cut("", "layout", &sound, &fields);
}
