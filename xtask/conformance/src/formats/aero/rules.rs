//! The rules of the control region, the index, the contents and the hashes, and files that break them.

use serde_json::{Map, Value, json};
use testkit::patched;

use super::{
    Chunk, ENTRIES, TOC, bin, chunk, chunks, entry, file, index, map, pack, reading, two, with, zstd,
};
use crate::suite::{Format, Reading, bytes};

pub(super) fn control(f: &mut Format) {
    let (all, sound) = (chunks(), file(&chunks()));
    let end = sound.len() as u64;
    let toc = |n: usize| ENTRIES + 80 * n;
    let names = ENTRIES + 80 * all.len();
    let u32s = |n: u32| n.to_le_bytes().to_vec();
    let u64s = |n: u64| n.to_le_bytes().to_vec();
    let rows: Vec<(&str, &'static str, &str, usize, Vec<u8>)> = vec![
        ("magic", "header", "a file begins with `AERO`", 0, b"OREA".to_vec()),
        ("major-version-1", "header-and-toc", "the version is 0.1", 4, vec![1, 0]),
        ("minor-version-0", "header-and-toc", "the version is 0.1", 6, vec![0, 0]),
        ("minor-version-2", "header-and-toc", "the version is 0.1", 6, vec![2, 0]),
        ("header-size-97", "header-and-toc", "the header has 96 bytes", 8, u32s(97)),
        ("file-flags", "header-and-toc", "file_flags are zero", 44, u64s(1)),
        ("file-flags-high-bit", "header-and-toc", "file_flags are zero", 44, u64s(1 << 63)),
        ("reserved-of-the-header", "header-and-toc", "reserved bytes are zero", 95, vec![1]),
        ("reserved0-of-the-toc", "header-and-toc", "reserved bytes are zero", 100, vec![1]),
        ("reserved1-of-the-toc", "header-and-toc", "reserved bytes are zero", 111, vec![1]),
        ("reserved-of-an-entry", "header-and-toc", "reserved bytes are zero", toc(2) + 40, vec![1]),
        (
            "toc-over-the-header",
            "header-and-toc",
            "the parts of the control region do not overlap",
            12,
            u64s(95),
        ),
        ("toc-behind-the-file", "header-and-toc", "the file has the whole TOC", 12, u64s(end)),
        ("toc-near-2-to-the-64", "header-and-toc", "the file has the whole TOC", 12, u64s(u64::MAX - 8)),
        ("toc-too-short", "header-and-toc", "toc_length is 16 + 80 for each entry", 20, u64s(335)),
        ("toc-too-long", "header-and-toc", "toc_length is 16 + 80 for each entry", 20, u64s(337)),
        ("fewer-entries", "header-and-toc", "toc_length is 16 + 80 for each entry", 96, u32s(3)),
        (
            "entries-2-to-the-32-minus-1",
            "header-and-toc",
            "toc_length is 16 + 80 for each entry",
            96,
            u32s(u32::MAX),
        ),
        (
            "names-over-the-header",
            "header-and-toc",
            "the parts of the control region do not overlap",
            28,
            u64s(90),
        ),
        (
            "names-over-the-toc",
            "header-and-toc",
            "the parts of the control region do not overlap",
            28,
            u64s(400),
        ),
        ("names-behind-the-file", "header-and-toc", "the file has all names", 28, u64s(end - 1)),
        ("names-of-2-to-the-63-bytes", "header-and-toc", "the file has all names", 36, u64s(1 << 63)),
        (
            "name-behind-the-table",
            "names-of-chunks",
            "a name is in the table of names",
            toc(1) + 32,
            u32s(1000),
        ),
        ("name-over-the-end", "names-of-chunks", "a name is in the table of names", toc(3) + 36, u32s(80)),
        ("name-with-a-nul", "names-of-chunks", "a name has no NUL", names + 3, vec![0]),
        ("name-over-two", "names-of-chunks", "a name has no NUL", toc(0) + 36, u32s(12)),
        ("name-latin-1", "names-of-chunks", "a name is UTF-8", names + 3, vec![0xe9]),
        (
            "chunk-behind-the-file",
            "table-of-contents",
            "the file has all bytes of a chunk",
            toc(0) + 8,
            u64s(end),
        ),
        (
            "chunk-near-2-to-the-64",
            "table-of-contents",
            "the file has all bytes of a chunk",
            toc(0) + 8,
            u64s(u64::MAX),
        ),
        (
            "shard-longer-than-the-file",
            "table-of-contents",
            "the file has all bytes of a chunk",
            toc(3) + 16,
            u64s(1 << 40),
        ),
        ("two-indexes", "duplicate-chunks", "a file has one index", toc(1), b"TIDX".to_vec()),
        ("index-with-another-length", "chunk-lengths", "a plain chunk has one length", toc(2) + 24, u64s(7)),
        ("json-with-another-length", "chunk-lengths", "a plain chunk has one length", toc(0) + 24, u64s(3)),
        ("shard-that-says-compressed", "zstandard", "weights are never compressed", toc(3) + 4, vec![3]),
        ("shard-not-aligned", "alignment", "a shard begins at a multiple of 16", toc(3) + 8, {
            let at = u64::from_le_bytes(sound[toc(3) + 8..][..8].try_into().expect("eight bytes"));
            u64s(at - 8)
        }),
        (
            "chunk-over-the-header",
            "header-and-toc",
            "chunks lie behind the control region",
            toc(0) + 8,
            u64s(0),
        ),
        (
            "chunk-over-the-toc",
            "header-and-toc",
            "chunks lie behind the control region",
            toc(0) + 8,
            u64s(200),
        ),
        ("index-damaged", "table-of-contents", "a chunk has the hash that the TOC states", 0, Vec::new()),
        (
            "weights-damaged",
            "table-of-contents",
            "a chunk has the hash that the TOC states",
            sound.len() - 1,
            vec![!sound[sound.len() - 1]],
        ),
        (
            "hash-of-the-weights-zero",
            "hash-not-recorded",
            "the hash of a shard is recorded",
            toc(3) + 48,
            vec![0; 32],
        ),
        (
            "hash-of-the-index-damaged",
            "table-of-contents",
            "a chunk has the hash that the TOC states",
            toc(2) + 50,
            vec![!sound[toc(2) + 50]],
        ),
    ];
    for (slug, section, rule, mut at, mut bytes) in rows {
        if bytes.is_empty() {
            at = u64::from_le_bytes(sound[toc(2) + 8..][..8].try_into().expect("eight bytes")) as usize + 20;
            bytes = vec![!sound[at]];
        }
        f.refused(slug, section, rule, patched(&sound, at, &bytes));
    }
    let named = patched(&patched(&sound, toc(1), b"WTSH"), toc(1) + 32, &sound[toc(3) + 32..][..8]);
    f.refused("two-shards-of-one-name", "duplicate-chunks", "a shard has a name of its own", named);
    let weights = u64::from_le_bytes(sound[toc(3) + 8..][..8].try_into().expect("eight bytes")) as usize;
    f.refused(
        "padding-not-zero",
        "padding",
        "bytes between chunks are zero",
        patched(&sound, weights - 1, &[1]),
    );
    f.refused("bytes-behind", "padding", "bytes behind the last chunk are zero", [&sound[..], &[1]].concat());
    f.either(
        "zeros-behind",
        "padding",
        "zeros behind the last chunk hide nothing",
        [&sound[..], &[0; 100]].concat(),
        Some(two()),
    );
}

pub(super) fn entries(f: &mut Format) {
    let one = |change: &dyn Fn(&mut Map<String, Value>)| {
        let mut entry = entry("a", 1, &[2, 3], 64, 24);
        change(entry.as_object_mut().expect("an object"));
        with(&[entry], &bytes(256))
    };
    for key in ["name", "dtype", "shape", "shard_id", "data_off", "data_len"] {
        let slug = key.replace('_', "-");
        let without = one(&|entry| {
            entry.remove(key);
        });
        f.refused(
            format!("tensor-without-{slug}"),
            "tensor-index",
            "a tensor has name, dtype, shape, shard_id, data_off and data_len",
            without,
        );
        for (kind, value) in [
            ("null", Value::Null),
            ("negative", json!(-1)),
            ("float", json!(1.5)),
            ("list", json!([])),
            ("map", json!({})),
        ] {
            if (key, kind) != ("shape", "list") {
                let wrong = one(&|entry| drop(entry.insert(key.to_owned(), value.clone())));
                f.refused(
                    format!("{slug}-is-{kind}"),
                    "tensor-index",
                    "a value has the type that its key asks for",
                    wrong,
                );
            }
        }
    }
    let set = |key: &'static str, value: Value| {
        one(&move |entry| drop(entry.insert(key.to_owned(), value.clone())))
    };
    for (slug, key, value) in [
        ("data-len-20", "data_len", json!(20)),
        ("data-len-25", "data_len", json!(25)),
        ("offset-behind-the-shard", "data_off", json!(256)),
        ("end-behind-the-shard", "data_off", json!(240)),
        ("offset-near-2-to-the-64", "data_off", json!(u64::MAX)),
        ("offset-that-wraps", "data_off", json!(u64::MAX - 23)),
        ("product-beyond-2-to-the-64", "shape", json!([1u64 << 62, 4])),
        ("bytes-beyond-2-to-the-64", "shape", json!([1u64 << 62])),
        ("dimension-negative", "shape", json!([-2, -3])),
        ("dimension-text", "shape", json!(["2", "3"])),
    ] {
        f.refused(
            slug,
            "length-of-a-tensor",
            "a tensor lies in its shard, with the bytes that dtype and shape imply",
            set(key, value),
        );
    }
    f.refused("shard-9", "chunks", "a tensor's shard is in the file", set("shard_id", json!(9)));
    let twice = with(&[entry("a", 5, &[4], 0, 4), entry("a", 5, &[4], 4, 4)], &bytes(8));
    f.refused("name-twice", "tensor-index", "a name occurs once", twice);
    let sound = index(&[entry("a", 5, &[4], 0, 4)]);
    let key = pack(&"tensors".into());
    let half = &sound[..sound.len() - 3];
    for (slug, content) in [
        ("no-bytes", vec![]),
        ("number", pack(&json!(1))),
        ("list", pack(&json!([]))),
        ("without-tensors", pack(&json!({"x": 1}))),
        ("tensors-number", pack(&json!({"tensors": 1}))),
        ("tensors-map", pack(&json!({"tensors": {}}))),
        ("bytes-behind", [&sound[..], &[0]].concat()),
        ("cut-short", half.to_vec()),
        ("member-number", pack(&json!({"tensors": [1]}))),
        ("list-of-2-to-the-32-minus-1", [&[0x81][..], &key, &[0xdd, 255, 255, 255, 255]].concat()),
        ("text-of-2-to-the-32-minus-1-bytes", [&[0x81][..], &[0xdb, 255, 255, 255, 255]].concat()),
        ("reserved-byte", [&[0x81][..], &key, &[0xc1]].concat()),
        ("key-twice", [&[0x82][..], &key, &[0x90], &key, &[0x90]].concat()),
        ("name-latin-1", {
            let at = sound.windows(6).position(|w| w == b"\xdb\0\0\0\x01a").expect("the name");
            patched(&sound, at + 5, &[0xe9])
        }),
    ] {
        let made =
            file(&[chunk(b"TIDX", "tensors", 4, &content), chunk(b"WTSH", "weights.shard0", 2, &bytes(8))]);
        f.refused(
            format!("index-{slug}"),
            "tensor-index",
            "the index is one map of MessagePack with a list of tensors",
            made,
        );
    }
}

pub(super) fn content(f: &mut Format) {
    let of = |fourcc: &[u8; 4], name: &'static str, content: &[u8]| file(&[chunk(fourcc, name, 0, content)]);
    for (slug, text) in [
        ("nested", r#"{"a":[1,{"b":null}],"ü":0.1}"#),
        ("empty-object", "{}"),
        ("numbers", r#"{"a":18446744073709551615,"b":-1}"#),
    ] {
        let value: Value = serde_json::from_str(text).expect("JSON");
        f.read(
            format!("json-{slug}"),
            "chunks",
            "MJSN is an object of JSON",
            of(b"MJSN", "meta.json", text.as_bytes()),
            Reading::empty().metadata(json!({"json": value, "manifest": null})),
        );
    }
    for (slug, text) in [
        ("list", &b"[]"[..]),
        ("broken", b"{\"a\":}"),
        ("key-twice", br#"{"a":1,"a":2}"#),
        ("latin-1", b"{\"a\":\"\xe9\"}"),
        ("empty", b""),
        ("two", b"{}{}"),
    ] {
        f.refused(
            format!("json-{slug}"),
            "broken-metadata",
            "MJSN is an object of JSON",
            of(b"MJSN", "meta.json", text),
        );
    }
    let value = json!({"a": [1, 2, null, true], "b": {"c": "text"}, "d": -7, "e": 0.5});
    f.read(
        "manifest",
        "chunks",
        "MMSG is a map of MessagePack",
        of(b"MMSG", "manifest", &pack(&value)),
        Reading::empty().metadata(json!({"json": null, "manifest": value})),
    );
    for (slug, content) in [
        ("reserved-byte", vec![0xc1]),
        ("cut-short", pack(&value)[..20].to_vec()),
        ("empty", vec![]),
        ("bytes-behind", [pack(&value), vec![0]].concat()),
    ] {
        f.refused(
            format!("manifest-{slug}"),
            "broken-metadata",
            "MMSG is a map of MessagePack",
            of(b"MMSG", "manifest", &content),
        );
    }
    let frame = |change: &dyn Fn(&mut Chunk)| {
        let mut all = chunks();
        all[2] = chunk(b"TIDX", "tensors", 5, &all[2].content);
        change(&mut all[2]);
        file(&all)
    };
    let whole = "a frame makes the bytes that chunk_ulen says, and ends the chunk";
    f.refused("zstd-noise", "zstandard", whole, frame(&|c| c.stored = bytes(40)));
    f.refused("zstd-cut-short", "zstandard", whole, frame(&|c| drop(c.stored.split_off(c.stored.len() - 5))));
    f.refused("zstd-bytes-behind", "zstandard", whole, frame(&|c| c.stored.extend([0; 8])));
    f.refused("zstd-two-frames", "zstandard", whole, frame(&|c| c.stored.extend(zstd(b""))));
    f.refused("zstd-of-nothing", "zstandard", whole, frame(&|c| c.stored.clear()));
    f.refused(
        "zstd-makes-more",
        "zstandard",
        whole,
        frame(&|c| c.stored = zstd(&[&c.content[..], &[0]].concat())),
    );
    f.refused("zstd-makes-fewer", "zstandard", whole, frame(&|c| c.stored = zstd(&c.content[1..])));
}

pub(super) fn hashes(f: &mut Format) {
    let weights = bytes(100);
    let hashed = |hash: Value| {
        let mut entry = entry("t", 5, &[100], 0, 100);
        entry["hash_b3"] = hash;
        with(&[entry], &weights)
    };
    let right = blake3::hash(&weights).to_hex().to_string();
    f.read(
        "hash-of-a-tensor",
        "tensor-hashes",
        "hash_b3 is the BLAKE3 of the tensor",
        hashed(json!(right)),
        reading().tensor("t", "u8", &[100], &weights),
    );
    for (slug, hash) in
        [("wrong", "0".repeat(64)), ("short", right[..62].to_owned()), ("no-hex", "x".repeat(64))]
    {
        f.refused(
            format!("hash-of-a-tensor-{slug}"),
            "tensor-hashes",
            "hash_b3 is the BLAKE3 of the tensor",
            hashed(json!(hash)),
        );
    }
    let pages = |size: u64, shard: &str, digests: &[Vec<u8>]| {
        let mut list = [&[0xdd][..], &(digests.len() as u32).to_be_bytes()].concat();
        digests.iter().for_each(|digest| list.extend(bin(digest)));
        let payload =
            map([("shard_name", pack(&shard.into())), ("page_size", pack(&size.into())), ("digests", list)]
                .into_iter());
        let tidx = index(&[entry("t", 5, &[100], 0, 100)]);
        file(&[
            chunk(b"TIDX", "tensors", 4, &tidx),
            chunk(b"WTSH", "weights.shard0", 2, &weights),
            chunk(b"PHSH", "weights.shard0.phsh", 8, &payload),
        ])
    };
    let digests = |size: usize| {
        weights.chunks(size).map(|page| blake3::hash(page).as_bytes().to_vec()).collect::<Vec<_>>()
    };
    for size in [1usize, 32, 50, 100, 4096] {
        let made = pages(size as u64, "weights.shard0", &digests(size));
        f.read(
            format!("pages-of-{size}"),
            "page-hashes",
            "a digest for each page of a shard",
            made,
            reading().tensor("t", "u8", &[100], &weights),
        );
    }
    let mut wrong = digests(32);
    wrong[1][0] ^= 1;
    let mut short = digests(32);
    short[0].pop();
    let more = [digests(32), vec![vec![0; 32]]].concat();
    for (slug, made) in [
        ("wrong", pages(32, "weights.shard0", &wrong)),
        ("of-31-bytes", pages(32, "weights.shard0", &short)),
        ("too-few", pages(32, "weights.shard0", &digests(32)[..3])),
        ("too-many", pages(32, "weights.shard0", &more)),
        ("of-size-0", pages(0, "weights.shard0", &digests(32))),
        ("of-an-unknown-shard", pages(32, "weights.shard7", &digests(32))),
    ] {
        f.refused(
            format!("pages-{slug}"),
            "page-hashes",
            "a digest of 32 bytes for each page of a shard of the file",
            made,
        );
    }
}

pub(super) fn cut(f: &mut Format) {
    let sound = file(&chunks());
    let names = ENTRIES + 80 * 4;
    let fields = [
        ("the magic", 0),
        ("the version", 4),
        ("the offset of the toc", 12),
        ("the offset of the names", 28),
        ("the uuid", 52),
        ("the toc", TOC),
        ("the first entry", ENTRIES),
        ("the first hash", ENTRIES + 48),
        ("the second entry", ENTRIES + 80),
        ("the names", names),
        ("the json", (names + 48).next_multiple_of(16)),
        ("the weights", sound.len() - 128),
        ("the last byte", sound.len() - 1),
    ];
    f.cut("", "header-and-toc", &sound, &fields);
}
