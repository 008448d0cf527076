//! What opening holds at most, and that work is linear in the number of tensors.

use modelfmt::{Level, Model, Work};
use testkit::{CountingSource, peak};

use crate::fuzz::{open_bound, sample_of, samples};

/// Opens from memory, without the copy of the input itself; the bytes held at most.
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

/// What opening holds for each byte of an index of 20,000 tensors, at most: the figures of docs/ROBUSTNESS.md.
const BOUNDS: &[(&str, usize)] =
    &[("aero", 4), ("mag", 4), ("oinf", 4), ("apr2", 4), ("apr1", 8), ("safetensors", 4), ("gguf", 4)];

#[test]
fn an_index_takes_a_small_multiple_of_its_bytes() {
    for (name, times) in BOUNDS {
        let bytes = sample_of(name, 20_000);
        let (held, index) = (held(&bytes), index_len(name, &bytes));
        let ratio = held as f64 / index as f64;
        println!("{name}: {held} bytes held, index of {index}: {ratio:.2} times");
        assert!(held <= (64 << 10) + times * index, "{name}: {ratio:.2} times the index");
    }
}

/// The worst that a byte of text can make a reader hold: a tree of the smallest values, of which APR's metadata is one.
/// The others keep nothing, or the text itself.
#[test]
fn hostile_metadata_takes_a_bounded_multiple_of_its_bytes() {
    let many = |text: &str, times: usize| vec![text; times].join(",");
    let numbers = format!(r#"{{"architecture":{{}},"x":[{}]}}"#, many("1", 100_000));
    let nested = format!(r#"{{"architecture":{{}},"x":[{}]}}"#, many("[]", 70_000));
    let objects = format!(r#"{{"architecture":{{}},"x":[{}]}}"#, many(r#"{"":0}"#, 30_000));
    let keys: Vec<String> = (0..20_000).map(|n| format!(r#""{n:x}":0"#)).collect();
    let keys = format!("{{{}}}", keys.join(","));
    for (what, text) in [("numbers", numbers), ("lists", nested), ("objects", objects), ("keys", keys)] {
        let mut apr1 = b"APR1".to_vec();
        apr1.extend((text.len() as u32).to_le_bytes());
        apr1.extend(text.as_bytes());
        apr1.extend([0, 0, 0, 0, 2, 0, 0, 0]);
        apr1.extend(b"[]\0\0\0\0");
        let held = held(&apr1);
        println!(
            "apr metadata of {what}: {held} bytes held for {}: {:.1} times",
            text.len(),
            held as f64 / text.len() as f64
        );
        assert!(held <= open_bound(apr1.len()), "{what}");
        assert!(Model::from_source(what, apr1).is_ok(), "{what}");
    }
    let strings: Vec<String> = (0..20_000).map(|n| format!(r#""{n:x}":"""#)).collect();
    let mut header = format!(r#"{{"__metadata__":{{{}}}}}"#, strings.join(",")).into_bytes();
    header.splice(0..0, (header.len() as u64).to_le_bytes());
    let held = held(&header);
    println!(
        "safetensors metadata: {held} bytes held for {}: {:.1} times",
        header.len(),
        held as f64 / header.len() as f64
    );
    assert!(held <= open_bound(header.len()));
    assert!(Model::from_source("strings", header).is_ok());
}

/// The bytes that are read to open the file by ranges: those of its index.
fn index_len(name: &str, bytes: &[u8]) -> usize {
    let source = std::sync::Arc::new(CountingSource::new(bytes.to_vec()));
    Model::from_source(name, source.clone()).unwrap();
    source.nbytes() as usize
}

/// Bytes read and bytes held for twice as many tensors are at most twice as many, but for what is constant.
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
                model.tensor_at(position).unwrap();
            }
            let read = (source.nbytes(), source.reads());
            source.reset();
            assert!(model.container().verify(Level::Full, &Work::sequential()).is_ok());
            [opened.0, opened.1, held as u64, read.0, read.1, source.nbytes(), source.reads()]
        });
        println!("{}: {one:?}, {two:?}", sample.name);
        for (what, (one, two)) in WHAT.iter().zip(one.into_iter().zip(two)) {
            // Vectors that double hold up to twice of what they need, at one size or the other.
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
