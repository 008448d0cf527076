//! The maximum memory for opening files, and that work is linear in the number of tensors.

use std::fs;
use std::path::Path;

use modelfmt::{Execution, Format, Model, Object, Source, VerifyLevel};
use testkit::{CountingSource, peak};

use super::fuzz::{open_bound, sample_of, samples};

/// Opens from memory. Returns the peak of held bytes, without the copy of the input itself.
fn held(bytes: &[u8]) -> usize {
    let copy = bytes.to_vec();
    peak(|| Model::from_source("input", copy).map(|model| drop(std::hint::black_box(model))).ok()).1
}

#[test]
fn every_truncation_opens_within_the_bound() {
    for sample in samples() {
        let mut most = 0;
        for len in 0..=sample.bytes.len() {
            let held = held(&sample.bytes[..len]);
            assert!(held <= open_bound(len), "{}: {held} bytes for {len}", sample.name);
            most = most.max(held);
        }
        println!("{}: {most} bytes at most, for a file of {}", sample.name, sample.bytes.len());
    }
}

/// A part of a tensor is read piece by piece: memory does not grow with its size, nor with the gaps between
/// its rows.
#[test]
fn a_slice_is_shown_in_bounded_memory() {
    /// A file whose values are zeros that are not stored anywhere.
    struct Sparse {
        head: Vec<u8>,
        len: u64,
    }
    impl Source for Sparse {
        fn len(&self) -> u64 {
            self.len
        }
        fn read_into(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
            out.fill(0);
            let head = self.head.get(usize::try_from(offset).unwrap_or(usize::MAX)..).unwrap_or_default();
            out.iter_mut().zip(head).for_each(|(out, byte)| *out = *byte);
            Ok(())
        }
    }
    let (rows, columns) = (1u64 << 20, 1u64 << 20);
    let header = format!(
        r#"{{"w":{{"dtype":"U8","shape":[{rows},{columns}],"data_offsets":[0,{}]}}}}"#,
        rows * columns
    );
    let head = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
    let len = head.len() as u64 + rows * columns;
    let model = Model::from_source("w.safetensors", Sparse { head, len }).unwrap();
    // 24 MiB each: whole rows, and a few columns of many rows.
    for (slice, shape) in [("0:24", "[24, 1048576]"), ("::64,:1536", "[16384, 1536]")] {
        let mut options = modelfmt::show::ShowOptions::default();
        options.slice = Some(slice.parse().unwrap());
        options.stats_only = true;
        let mut out = Vec::new();
        let work = Execution::sequential();
        let ((), held) =
            peak(|| modelfmt::show::show_with(&model, &["w"], &options, &mut out, &work).unwrap());
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.starts_with(&format!("w[{slice}]: u8{shape}")) && text.contains("nbytes: 25165824"),
            "{text}"
        );
        println!("{slice}: {held} bytes");
        assert!(held < 10 << 20, "{slice}: {held}");
    }
}

/// Name patterns reject most names by their first and last characters, which takes no memory.
#[test]
fn names_that_begin_or_end_otherwise_take_no_memory() {
    let names: Vec<String> = (0..1000).map(|n| format!("model.layers.{n}.mlp.up_proj.weight")).collect();
    for (patterns, expected) in [
        (["*.bias", "lm_head.*", "model.layers.?.{a,b}.bias", "visual.**/[qk].weight"], 0),
        (["model.layers.*.weight", "lm_head.*", "x*", "*x"], 1000),
    ] {
        let globs = modelfmt::model::Globs::new(patterns).unwrap();
        let (found, held) = peak(|| names.iter().filter(|name| globs.is_match(name)).count());
        assert_eq!((found, held), (expected, 0));
    }
}

/// The index of a set is recognized without being held in memory, wherever it is read from.
#[test]
fn an_index_is_told_in_pieces() {
    struct Far<'a>(&'a [u8]);
    impl Source for Far<'_> {
        fn len(&self) -> u64 {
            self.0.len() as u64
        }
        fn read_into(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
            self.0.read_into(offset, out)
        }
    }
    let names: String = (0..100_000).map(|n| format!(r#","{n:060}":"file-{n:060}""#)).collect();
    let index = format!(r#"{{"weight_map":{{"a":"b"{names}}}}}"#).into_bytes();
    let whole = (&index[..], Some(Format::SafetensorsSharded));
    for (text, expected) in [whole, (&index[..index.len() - 1], None)] {
        let near = peak(|| Format::detect(&text).unwrap());
        let far = peak(|| Format::detect(&Far(text)).unwrap());
        for ((found, held), most) in [(near, 1_000), (far, 100_000)] {
            assert_eq!(found, expected);
            assert!((1..most).contains(&held), "{held} bytes for {}", text.len());
        }
    }
}

/// Good and bad files: testdata/ and the fuzzer's corpus. (The files that break one rule each, in the tests
/// of each format, are held to the same bound there.)
#[test]
fn files_of_all_kinds_open_within_the_bound() {
    // zstd needs a context, and the metadata that it may decompress from a file.
    const ZSTD: usize = 1 << 20;
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let mut folders = vec![testkit::testdata(""), corpus];
    let (mut opened, mut refused) = (0, 0);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes = fs::read(&path).unwrap();
            let (is_ok, held) = {
                let copy = bytes.clone();
                peak(|| Model::from_source("input", copy).is_ok())
            };
            let zstd = bytes.windows(4).any(|four| four == [0x28, 0xb5, 0x2f, 0xfd]);
            // A deflate stream has a window, and each byte of a pickle may make a value.
            let is_archive = bytes.starts_with(b"PK") || bytes.first() == Some(&0x80);
            let inflate = if is_archive { (128 << 10) + 100 * bytes.len() } else { 0 };
            let bound = open_bound(bytes.len()) + if zstd { ZSTD } else { 0 } + inflate;
            assert!(held <= bound, "{}: {held} bytes for {}", path.display(), bytes.len());
            *(if is_ok { &mut opened } else { &mut refused }) += 1;
        }
    }
    println!("{opened} opened, {refused} refused");
    assert!(opened > 80 && refused > 80, "{opened}, {refused}");
}

/// The maximum memory for each byte of an index: the figures in docs/ROBUSTNESS.md.
const TIMES: usize = 4;

#[test]
fn an_index_takes_a_small_multiple_of_its_bytes() {
    for name in [
        "aero",
        "mag",
        "mag 0.3",
        "mag 0.1",
        "mag 0.2",
        "oinf",
        "oinf 2",
        "apr2",
        "apr1",
        "apr",
        "safetensors",
        "gguf",
    ] {
        let bytes = sample_of(name, 20_000);
        let (held, index) = (held(&bytes), index_len(name, &bytes));
        let ratio = held as f64 / index as f64;
        println!("{name}: {held} bytes held, index of {index}: {ratio:.2} times");
        assert!(held <= (16 << 10) + TIMES * index, "{name}: {ratio:.2} times the index");
    }
}

/// Returns an object of the shortest possible keys, each with a value. Just before a hash table doubles its
/// size, it holds the most memory for each byte of text.
fn object_of_keys(count: usize, value: &str) -> String {
    const DIGITS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let entry = |mut n: usize| {
        let mut key = String::new();
        loop {
            key.push(DIGITS[n % DIGITS.len()].into());
            n /= DIGITS.len();
            if n == 0 {
                return format!(r#""{key}":{value}"#);
            }
        }
    };
    format!("{{{}}}", (0..count).map(entry).collect::<Vec<_>>().join(","))
}

/// Just above and just below the number of entries at which a hash table grows.
const COUNTS: [usize; 5] = [14_000, 14_400, 20_000, 28_600, 28_700];

fn apr1(metadata: &str) -> Vec<u8> {
    let mut file = b"APR1".to_vec();
    file.extend((metadata.len() as u32).to_le_bytes());
    file.extend(metadata.as_bytes());
    file.extend([0, 0, 0, 0, 2, 0, 0, 0]);
    file.extend(b"[]\0\0\0\0");
    file
}

/// Returns a file without tensors and without a footer.
fn apr(metadata: &str) -> Vec<u8> {
    let at = (64 + metadata.len() as u64).next_multiple_of(64);
    let mut file = b"APR\0\x02\0\0\x04\0\0\0\0".to_vec();
    file.extend(64u64.to_le_bytes());
    file.extend((metadata.len() as u32).to_le_bytes());
    file.extend([at.to_le_bytes(), at.to_le_bytes()].concat());
    file.resize(64, 0);
    let crc = crc32fast::hash(&[&file[..40], &file[44..]].concat());
    file[40..44].copy_from_slice(&crc.to_le_bytes());
    file.extend(metadata.as_bytes());
    file.resize(at as usize, 0);
    file
}

fn safetensors(header: &str) -> Vec<u8> {
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file
}

/// Trees of the smallest values: a reader must not hold the memory that these bytes would take as a tree.
#[test]
fn hostile_metadata_takes_a_bounded_multiple_of_its_bytes() {
    let many = |text: &str, times: usize| vec![text; times].join(",");
    let x = |members: String| format!(r#"{{"architecture":{{}},"x":[{members}]}}"#);
    let mut files = vec![
        ("apr1, numbers", apr1(&x(many("1", 100_000)))),
        ("apr1, lists", apr1(&x(many("[]", 70_000)))),
        ("apr1, objects", apr1(&x(many(r#"{"":0}"#, 30_000)))),
        ("apr1, texts", apr1(&x(many(r#""""#, 30_000)))),
    ];
    let with_apr = |files: &mut Vec<(&str, Vec<u8>)>, what, members: String| {
        files.push((what, apr(&format!(r#"{{"model_type":"","x":[{members}]}}"#))));
    };
    with_apr(&mut files, "apr, numbers", many("1", 100_000));
    with_apr(&mut files, "apr, lists", many("[]", 70_000));
    with_apr(&mut files, "apr, objects", many(r#"{"":0}"#, 30_000));
    with_apr(&mut files, "apr, texts", many(r#""""#, 30_000));
    with_apr(&mut files, "apr, a key twice", many(r#"{"a":0,"a":0}"#, 30_000));
    for count in COUNTS {
        files.push(("apr, keys", apr(&object_of_keys(count, "0"))));
        files.push(("apr1, keys", apr1(&object_of_keys(count, "0"))));
        let metadata = object_of_keys(count, r#""""#);
        files.push(("safetensors, keys", safetensors(&format!(r#"{{"__metadata__":{metadata}}}"#))));
    }
    for (what, bytes) in files {
        let held = held(&bytes);
        println!(
            "{what}: {held} bytes held for {}: {:.1} times",
            bytes.len(),
            held as f64 / bytes.len() as f64
        );
        assert!(held <= (16 << 10) + TIMES * bytes.len(), "{what}");
        assert!(Model::from_source(what, bytes).is_ok(), "{what}");
    }
}

/// Returns a GGUF file with the shortest keys, each a boolean.
fn gguf_of_keys(keys: &Object) -> Vec<u8> {
    let mut file = b"GGUF\x03\0\0\0".to_vec();
    file.extend([0u64.to_le_bytes(), (keys.len() as u64).to_le_bytes()].concat());
    for key in keys.keys() {
        file.extend((key.len() as u64).to_le_bytes());
        file.extend(key.as_bytes());
        file.extend([7, 0, 0, 0, 1]);
    }
    file
}

/// The memory that `inspect` holds for metadata with the shortest keys, from opening the file to the last
/// byte of its JSON.
#[test]
fn inspecting_many_keys_takes_a_bounded_multiple_of_the_file() {
    const TIMES: usize = 10;
    for count in [14_400, 28_700, 100_000] {
        let keys = object_of_keys(count, "0");
        let object = modelfmt_core::value::json::parse_object(keys.as_bytes()).unwrap();
        let model = Model::from_source("apr", apr(&keys)).unwrap();
        let converted = |to: Format, version: Option<&str>| {
            let mut options = modelfmt::convert::ConvertOptions::default();
            options.output.version = version.map(str::to_owned);
            let file = modelfmt_write::MemoryFile::new();
            modelfmt::Conversion::to_format(&model, to)
                .options(&options)
                .execution(&Execution::sequential())
                .write_to_sink(&file)
                .unwrap();
            file.into_bytes()
        };
        let texts = object_of_keys(count, r#""""#);
        let files = [
            ("safetensors", safetensors(&format!(r#"{{"__metadata__":{texts}}}"#))),
            ("gguf", gguf_of_keys(&object)),
            ("apr", apr(&keys)),
            ("apr1", apr1(&keys)),
            ("aero", aero_chunk(b"MJSN", keys.into_bytes())),
            ("mag", converted(Format::Mag, None)),
            ("oinf", converted(Format::Oinf, None)),
        ];
        for (what, file) in files {
            let len = file.len();
            let ((), held) = peak(|| {
                let model = Model::from_source(what, file).unwrap();
                let inspection =
                    modelfmt::inspect::inspect(&model, &Default::default(), &Execution::sequential())
                        .unwrap();
                assert!(inspection.metadata.as_object().is_some_and(|object| !object.is_empty()), "{what}");
                serde_json::to_writer(std::io::sink(), &inspection).unwrap();
            });
            println!(
                "{what}, {count} keys: {held} bytes held for {len}: {:.1} times",
                held as f64 / len as f64
            );
            assert!(held <= TIMES * len, "{what}, {count} keys: {held} for {len}");
        }
    }
}

/// Returns the number of bytes that are read to open the file by ranges: its index.
fn index_len(name: &str, bytes: &[u8]) -> usize {
    let source = std::sync::Arc::new(CountingSource::new(bytes.to_vec()));
    Model::from_source(name, source.clone()).unwrap();
    source.nbytes() as usize
}

/// For twice as many tensors, at most twice as many bytes are read and held, apart from constant amounts.
#[test]
fn work_is_linear() {
    const N: usize = 4000;
    for sample in samples() {
        let [one, two] = [N, 2 * N].map(|n| {
            let source = std::sync::Arc::new(CountingSource::new(sample_of(sample.name, n)));
            let (model, held) = peak(|| Model::from_source(sample.name, source.clone()).unwrap());
            let opened = (source.nbytes(), source.reads());
            source.reset();
            for position in 0..model.tensor_count() {
                model.tensor(position).unwrap();
            }
            let read = (source.nbytes(), source.reads());
            source.reset();
            assert!(model.container().verify(VerifyLevel::Full, &Execution::sequential()).is_ok());
            [opened.0, opened.1, held as u64, read.0, read.1, source.nbytes(), source.reads()]
        });
        println!("{}: {one:?}, {two:?}", sample.name);
        for (what, (one, two)) in WHAT.iter().zip(one.into_iter().zip(two)) {
            // Vectors that double their size hold up to twice what they need, at either size.
            let allowed = if *what == "bytes held to open" { one * 4 } else { one * 21 / 10 };
            assert!(
                two <= allowed + (256 << 10),
                "{}, {what}: {one} for {N} tensors, {two} for twice as many",
                sample.name
            );
        }
    }
}

const WHAT: &[&str] = &[
    "bytes read to open",
    "reads to open",
    "bytes held to open",
    "bytes read for all tensors",
    "reads for all tensors",
    "bytes read to verify",
    "reads to verify",
];

/// Returns a GGUF file with one key that has an array of these members.
fn gguf_array(kind: u32, count: u64, members: &[u8]) -> Vec<u8> {
    let mut file = b"GGUF\x03\0\0\0".to_vec();
    file.extend([0u64.to_le_bytes(), 1u64.to_le_bytes(), 1u64.to_le_bytes()].concat());
    file.extend(b"k\x09\0\0\0");
    file.extend(kind.to_le_bytes());
    file.extend(count.to_le_bytes());
    file.extend(members);
    file
}

/// Returns an AERO file with this manifest, or this metadata, uncompressed.
fn aero_chunk(fourcc: &[u8; 4], content: Vec<u8>) -> Vec<u8> {
    let file = modelfmt_write::MemoryFile::new();
    let chunks = vec![aero::NewChunk::new(aero::FourCC(*fourcc), "chunk")];
    let mut writer = aero::ChunkWriter::new(&file, [7; 16], chunks).unwrap();
    writer.put(0, content).unwrap();
    writer.finish().unwrap();
    file.into_bytes()
}

fn manifest(member: &[u8], count: usize) -> Vec<u8> {
    let head = [&b"\x81\xa1x\xdd"[..], &u32::try_from(count).unwrap().to_be_bytes()].concat();
    aero_chunk(b"MMSG", [head, member.repeat(count)].concat())
}

fn json(member: &str, count: usize) -> Vec<u8> {
    let list = vec![member; count].join(",");
    aero_chunk(b"MJSN", format!(r#"{{"x":[{list}]}}"#).into_bytes())
}

/// Metadata as a tree, of lists with the smallest members.
#[test]
fn lists_in_metadata_take_about_the_bytes_of_the_file() {
    const N: usize = 300_000;
    let files = [
        ("gguf, u8", gguf_array(0, N as u64, &[200; N])),
        ("gguf, i8", gguf_array(1, N as u64, &[200; N])),
        ("gguf, u16", gguf_array(2, N as u64, &[200; 2 * N])),
        ("gguf, f32", gguf_array(6, N as u64, &[60; 4 * N])),
        ("gguf, bool", gguf_array(7, N as u64, &[1; N])),
        ("gguf, f64", gguf_array(12, N as u64, &[60; 8 * N])),
        ("gguf, texts", gguf_array(8, N as u64, &[0; 8 * N])),
        ("gguf, arrays", gguf_array(9, N as u64, &[0; 12 * N])),
        ("manifest, nil", manifest(&[0xc0], N)),
        ("manifest, integers", manifest(&[7], N)),
        ("manifest, texts", manifest(&[0xa0], N)),
        ("manifest, floats", manifest(&[0xca, 1, 2, 3, 4], N)),
        ("json, digits", json("1", N)),
        ("json, integers", json("-129", N)),
        ("json, floats", json("1.5", N)),
        ("json, texts", json(r#""""#, N)),
        ("json, null", json("null", N)),
        ("json, floats of 64 bits", json("1.1", N)),
        ("json, lists", json("[]", N)),
        ("manifest, lists", manifest(&[0x90], N)),
        ("manifest, objects", manifest(&[0x80], N)),
    ];
    for (what, bytes) in files {
        let len = bytes.len();
        let model = Model::from_source(what, bytes).unwrap();
        let (tree, held) = peak(|| model.metadata().unwrap());
        println!("{what}: {held} bytes held for {len}: {:.1} times", held as f64 / len as f64);
        assert!(held <= (16 << 10) + TIMES * len, "{what}: {held} for {len}");
        drop(tree);
    }
}

/// The keys of an object and the index of a set take more memory, within separate limits: see
/// docs/ROBUSTNESS.md.
#[test]
fn what_takes_more_is_bounded() {
    for count in COUNTS {
        let bytes = aero_chunk(b"MJSN", object_of_keys(count, "0").into_bytes());
        let len = bytes.len();
        let model = Model::from_source("keys", bytes).unwrap();
        let (_, held) = peak(|| model.metadata().unwrap());
        println!("json, {count} keys: {held} bytes held for {len}: {:.1} times", held as f64 / len as f64);
        assert!(held <= 10 * len, "{held} for {len}");
    }
    let numbers = vec!["0"; 200_000].join(",");
    let keys = object_of_keys(28_700, "0");
    let limits = modelfmt_core::Limits::default();
    let file = r#""sha256":"","size_bytes":0"#;
    let aeroset = format!(
        r#"{{"format":{{"name":"AEROSET","version":[0,2]}},"model":{{"name":"","architecture":""}},"parts":[{{"path":"p",{file},"shards":[{numbers}]}}],"global_tidx":{{"path":"i",{file}}}}}"#
    );
    let manifest = format!(
        r#"{{"apr_version":"2.0.0","shard_count":1,"total_size":1,"shards":[{{"file":"a","size":1,"crc32":""}}],"tensor_map":{{}},"x":{keys}}}"#
    );
    let index = format!(r#"{{"metadata":{keys},"weight_map":{{}}}}"#);
    let parsed = [
        ("aeroset", aeroset.len(), peak(|| aero::SetIndex::parse(aeroset.as_bytes(), &limits).is_ok())),
        ("apr2", manifest.len(), peak(|| apr2_seal::SetIndex::parse(manifest.as_bytes(), &limits).is_ok())),
        (
            "safetensors",
            index.len(),
            peak(|| modelfmt_safetensors::SetIndex::parse(index.as_bytes(), &limits).is_ok()),
        ),
    ];
    for (what, len, (_, held)) in parsed {
        println!("index of {what}: {held} bytes held for {len}: {:.1} times", held as f64 / len as f64);
        assert!(held <= 16 * len, "{what}: {held} for {len}");
    }
}

/// Returns a GGUF file with a list of this many bytes in its metadata.
fn gguf_list(len: usize) -> Vec<u8> {
    let mut bytes = b"GGUF\x03\0\0\0".to_vec();
    [0u64, 1, 1].iter().for_each(|n| bytes.extend(n.to_le_bytes())); // no tensors, one key, of one byte
    bytes.push(b'k');
    bytes.extend([9u32, 0].iter().flat_map(|n| n.to_le_bytes())); // an array of u8
    bytes.extend((len as u64).to_le_bytes());
    bytes.resize(bytes.len() + len, 200);
    bytes
}

/// Only the beginning of a long value is shown, and no more than that is turned into text.
#[test]
fn showing_a_long_list_takes_no_more_than_the_list() {
    const LEN: usize = 3 << 20;
    let model = Model::from_source("m.gguf", gguf_list(LEN)).unwrap();
    let mut out = Vec::new();
    let (_, held) = peak(|| modelfmt::show::show(&model, &mut out, &Execution::sequential()).unwrap());
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains(&format!("k: list[{LEN}] = [200,200,")) && text.contains('…'), "{text}");
    println!("{held} bytes held at most to show a list of {LEN}");
    assert!(held < 3 * LEN, "{held}"); // a byte takes two, and growing leaves some room
    let metadata = model.metadata().unwrap();
    let (start, held) = peak(|| modelfmt::value::json::start(&metadata, 200));
    assert!(start.starts_with("{\"k\":[200,") && start.chars().count() == 200, "{start}");
    assert!(held < 8192, "{held}");
}

/// Blocks are decoded piece by piece: memory does not grow with the tensor.
#[test]
fn statistics_and_differences_of_blocks_hold_little_whatever_the_size() {
    const BLOCK: usize = 18; // of 32 elements of q4_0
    let held = |blocks: usize| {
        let file = |last: u8| {
            let mut values = vec![0x11; blocks * BLOCK];
            values[blocks * BLOCK - 1] = last;
            let file = testkit::gguf::Gguf::new().tensor("w", 2, &[32, blocks as u64], &values).build();
            Model::from_source("m.gguf", file).unwrap()
        };
        let (a, b, work) = (file(0x11), file(0x12), Execution::sequential());
        let (stats, of_stats) = peak(|| modelfmt::show::stats(&a, 0, &work).unwrap());
        assert_eq!(stats.count, 32 * blocks as u64);
        let (diff, of_diff) = peak(|| modelfmt::diff::diff(&a, &b, &work).unwrap());
        assert_eq!(diff.changed.len(), 1);
        [of_stats, of_diff]
    };
    // Decoded, the larger one takes 16 MiB in f32, and twice that in f64.
    let (one, two) = (held(1 << 16), held(1 << 17));
    println!("{one:?} bytes held for 2 Mi elements, {two:?} for twice as many");
    for ((one, two), most) in one.into_iter().zip(two).zip([4 << 20, 14 << 20]) {
        assert!(one.max(two) < most && two < one + (1 << 18), "{one}, {two}");
    }
}

/// A digest for every byte: the state of the unfinished digests stays in proportion to the file.
#[cfg(feature = "aero")]
#[test]
fn page_hashes_are_checked_within_the_bound() {
    const LEN: usize = 200_000;
    let header = format!(
        r#"{{"a":{{"dtype":"U8","shape":[{}],"data_offsets":[0,{0}]}},"b":{{"dtype":"U8","shape":[{}],"data_offsets":[{0},{LEN}]}}}}"#,
        LEN - LEN / 3,
        LEN / 3
    );
    let mut bytes = safetensors(&header);
    bytes.resize(bytes.len() + LEN, 7);
    let source = Model::from_source("m.safetensors", bytes).unwrap();
    let convert = |model: &Model, target, include: &[&str], page| {
        let mut options = modelfmt::convert::ConvertOptions::default();
        options.metadata.lossy = true;
        options.tensors.include = include.iter().map(|&glob| glob.to_owned()).collect();
        options.aero.page_hashes = page;
        let sink = modelfmt_write::MemoryFile::new();
        modelfmt::Conversion::to_format(model, target)
            .options(&options)
            .execution(&Execution::sequential())
            .write_to_sink(&sink)
            .unwrap();
        sink.into_bytes()
    };
    for page in [1, 100, 200] {
        let aero = convert(&source, Format::Aero, &[], Some(page));
        let len = aero.len();
        let model = Model::from_source("m.aero", aero).unwrap();
        for include in [&[][..], &["a"], &["b"]] {
            let held = peak(|| convert(&model, Format::Safetensors, include, None)).1;
            println!("pages of {page}, {include:?}: {held} bytes held, file of {len}");
            assert!(held <= (2 << 20) + TIMES * len, "pages of {page}, {include:?}: {held} bytes for {len}");
        }
    }
}

/// A safetensors file with tensors of these lengths in bytes, whose values are made when they are read.
struct Made {
    head: Vec<u8>,
    len: u64,
}

impl Made {
    fn new(sizes: &[u64]) -> Self {
        let mut at = 0;
        let entries = sizes.iter().enumerate().map(|(n, &nbytes)| {
            let begin = at;
            at += nbytes;
            format!(
                r#""blk.{n}.w":{{"dtype":"F32","shape":[{},256],"data_offsets":[{begin},{at}]}}"#,
                nbytes / 1024
            )
        });
        let head = safetensors(&format!("{{{}}}", entries.collect::<Vec<_>>().join(",")));
        Self { len: head.len() as u64 + at, head }
    }
}

impl Source for Made {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        for (at, byte) in (offset..).zip(out) {
            *byte = self.head.get(at as usize).copied().unwrap_or(0);
        }
        Ok(())
    }
}

/// To GGUF, unchanged and quantized: values pass through in pieces.
#[test]
fn a_conversion_to_gguf_holds_little_whatever_the_size() {
    let held = |sizes: &[u64], quantize: &[&str]| {
        let model = Model::from_source("m.safetensors", Made::new(sizes)).unwrap();
        let mut options = modelfmt::convert::ConvertOptions::default();
        options.types.rules = quantize.iter().map(|rule| rule.parse().unwrap()).collect();
        let convert = || {
            let work = Execution::sequential();
            modelfmt::Conversion::to_format(&model, Format::Gguf)
                .options(&options)
                .execution(&work)
                .write_to_sink(&modelfmt_write::Discard::default())
                .unwrap();
        };
        peak(convert).1
    };
    for (quantize, mib) in [(&[][..], 96), (&["quantize q8_0"][..], 24)] {
        let (one, two) = (held(&[mib << 20], quantize), held(&[mib << 20, mib << 19], quantize));
        println!("{quantize:?}: {one} bytes held for {mib} MiB, {two} for half as much again");
        assert!(one.max(two) < 16 << 20, "{one}, {two}");
        assert!(two < one + (1 << 20), "{one}, {two}");
    }
}
