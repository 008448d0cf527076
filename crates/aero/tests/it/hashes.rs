//! Wrong, unusable and missing hashes: page hashes, the control hash, and hashes that are not recorded.
#![cfg(feature = "zstd")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "helpers of tests"
)]

use crate::common::{
    entry, failed, file, good, index, model, msgpack, noise, number, object, open, rehashed, toc, with,
};
use aero::modelfmt_core::value::Value;
use aero::{Error, Fault, VerifyLevel, WriteOptions};
use testkit::patched;

/// Returns a file with a shard of 250 bytes and page hashes for it.
fn with_pages(name: &str, payload: &[u8]) -> Vec<u8> {
    let content = index([entry("a"), with(with(entry("b"), "data_off", 0), "hash_b3", "0")]);
    file(&[
        (b"WTSH", "weights.shard0", 2, &noise(250, 0)),
        (b"TIDX", "tensors", 4, &content),
        (b"PHSH", name, 8, payload),
    ])
}

fn pages(size: u64) -> Vec<Value> {
    noise(250, 0)
        .chunks(size as usize)
        .map(|page| Value::Bytes(blake3::hash(page).as_bytes().to_vec()))
        .collect()
}

/// aerotensor refuses page hashes without a digest.
#[test]
fn an_empty_shard_has_no_page_hashes() {
    let options = WriteOptions::new().page_hashes(Some(64)).shard_size(100);
    for (sizes, pages) in [(&[0][..], 0), (&[0, 0], 0), (&[], 0), (&[100, 0], 1), (&[100, 0, 100], 2)] {
        let file = model(sizes, &options);
        let reader = open(&file).unwrap();
        let names = reader.index().chunks().filter(|chunk| chunk.fourcc == aero::FourCC::PHSH);
        assert_eq!(names.count(), pages, "{sizes:?}");
        let report = reader.verify(VerifyLevel::Full);
        assert!(report.is_ok(), "{sizes:?}: {report:?}");
        for position in 0..sizes.len() {
            reader.tensor(position).unwrap();
        }
    }
}

#[test]
fn page_hashes_that_do_not_fit_are_refused() {
    let payload = |shard: &str, size: u64, digests: Vec<Value>| {
        msgpack(object([
            ("shard_name", shard.into()),
            ("page_size", size.into()),
            ("digests", digests.into()),
        ]))
    };
    let (name, shard) = ("weights.shard0.phsh", "weights.shard0");
    let good = with_pages(name, &payload(shard, 100, pages(100)));
    let reader = open(&good).unwrap();
    assert!(!failed(&reader.verify(VerifyLevel::Full), "page-hashes"));
    assert_eq!(*reader.checked().read_range(0, 3..20).unwrap(), noise(250, 0)[67..84]);
    let mut short = pages(100);
    short[1] = Value::Bytes(vec![0; 31]);
    let mut text = pages(100);
    text[1] = "digest".into();
    let mut wrong = pages(100);
    wrong[0] = Value::Bytes(vec![0; 32]);
    let rows = [
        ("page size 0", name, payload(shard, 0, pages(100))),
        ("bytes behind it", name, [payload(shard, 100, pages(100)), vec![0]].concat()),
        ("too few digests", name, payload(shard, 100, pages(100)[..2].to_vec())),
        ("too many digests", name, payload(shard, 100, pages(50))),
        ("a digest of 31 bytes", name, payload(shard, 100, short)),
        ("a digest that is text", name, payload(shard, 100, text)),
        ("an unknown shard", name, payload("weights.shard1", 100, pages(100))),
        ("a digest that is wrong", name, payload(shard, 100, wrong)),
        (
            "no page size",
            name,
            msgpack(object([("shard_name", shard.into()), ("digests", pages(100).into())])),
        ),
        ("no map", name, msgpack(3)),
    ];
    for (rule, name, payload) in rows {
        let file = with_pages(name, &payload);
        let reader = open(&file).unwrap();
        assert!(failed(&reader.verify(VerifyLevel::Full), "page-hashes"), "{rule}");
        assert!(matches!(reader.checked().read_range(0, 3..20), Err(Error::Malformed { .. })), "{rule}");
        assert!(reader.read_range(0, 3..20).is_ok(), "{rule}: without verifying it is read");
    }
    // Under another name the page hashes are not found, and verify says why.
    let file = with_pages("pages", &payload(shard, 100, pages(100)));
    let reader = open(&file).unwrap();
    assert!(failed(&reader.verify(VerifyLevel::Full), "page-hashes"));
    assert_eq!(
        *reader.checked().read_range(0, 3..20).unwrap(),
        noise(250, 0)[67..84],
        "by the hash of the shard"
    );
    // A whole tensor is verified by its own hash, and this one is not a hash.
    assert!(matches!(reader.checked().tensor("b"), Err(Error::Malformed { fault: Fault::HashText, .. })));
}

#[test]
fn control_hashes_are_checked_as_decided() {
    let whole = model(&[10], &WriteOptions::new().zstd(None).control_hash(true));
    // Recomputes the digest independently, over the header, the TOC and the names with every hash zero.
    let start = number(&whole, toc(0) + 8) as usize;
    let mut control = whole[..start].to_vec();
    for n in 0..5 {
        control[toc(n) + 48..toc(n) + 80].fill(0);
    }
    let payload = &whole[start..][..number(&whole, toc(0) + 16) as usize];
    assert!(payload.ends_with(blake3::hash(&control).as_bytes()));
    assert!(open(&whole).unwrap().verify(VerifyLevel::Control).is_ok());
    let ihsh = |algo: &str, ranges: Vec<Value>, digest: Vec<u8>| {
        msgpack(object([
            ("algo", algo.into()),
            ("covered_ranges", ranges.into()),
            ("digest", Value::Bytes(digest)),
        ]))
    };
    let range = |start: u64, end: u64| -> Value { [start, end].into_iter().collect() };
    let digest_of = |bytes: &[u8]| blake3::hash(bytes).as_bytes().to_vec();
    let empty = digest_of(&[]);
    let rows = [
        ("nothing is covered", ihsh("blake3-256", vec![], empty.clone()), false),
        ("an empty range", ihsh("blake3-256", vec![range(5, 5)], empty.clone()), false),
        ("only the magic", ihsh("blake3-256", vec![range(0, 4)], digest_of(b"AERO")), false),
        ("another digest", ihsh("blake3-256", vec![], vec![0; 32]), false),
        ("another algorithm", ihsh("sha-256", vec![], empty.clone()), false),
        ("a short digest", ihsh("blake3-256", vec![], vec![0; 31]), false),
        ("a range behind the file", ihsh("blake3-256", vec![range(0, 1 << 40)], empty.clone()), false),
        ("a range that ends before it begins", ihsh("blake3-256", vec![range(9, 8)], empty.clone()), false),
        ("a range near 2^64", ihsh("blake3-256", vec![range(u64::MAX, u64::MAX)], empty.clone()), false),
        ("the same bytes again and again", ihsh("blake3-256", vec![range(0, 200); 1000], empty), false),
        ("no map", msgpack(1), false),
    ];
    for (rule, payload, is_ok) in rows {
        let plain = control_file("ihsh", &payload);
        let report = open(&plain).unwrap().verify(VerifyLevel::Control);
        assert_eq!(report.is_ok(), is_ok, "{rule}: {report:?}");
        assert_eq!(failed(&report, "ihsh"), !is_ok, "{rule}: {report:?}");
    }
}

/// Returns a file whose only chunk is a control hash with that name and content. The writer fills in a
/// control hash itself and gives no other chunk its name, so both are patched in afterwards.
fn control_file(name: &str, content: &[u8]) -> Vec<u8> {
    let stand_in = "x".repeat(name.len());
    let file = file(&[(b"XHSH", &stand_in, 8, content)]);
    let at = file.windows(name.len()).position(|bytes| bytes == stand_in.as_bytes()).unwrap();
    patched(&patched(&file, at, name.as_bytes()), toc(0), b"IHSH")
}

#[test]
fn the_control_hash_of_the_published_writer_is_read() {
    // It has another name, and 256 bytes, which end in zeros after the value.
    let name = "control.integrity";
    let padded = |last: u8| {
        let room = [vec![0; 255], vec![last]].concat();
        let file = control_file(name, &room);
        let control = &file[..number(&file, toc(0) + 8) as usize];
        let mut zeroed = control.to_vec();
        zeroed[toc(0) + 48..toc(0) + 80].fill(0);
        let range: Value = [0, control.len() as u64].into_iter().collect();
        let stated = msgpack(object([
            ("algo", "blake3-256".into()),
            ("covered_ranges", vec![range].into()),
            ("digest", Value::Bytes(blake3::hash(&zeroed).as_bytes().to_vec())),
        ]));
        rehashed(patched(&file, control.len(), &stated), 0)
    };
    let report = open(&padded(0)).unwrap().verify(VerifyLevel::Full);
    assert!(report.is_ok(), "{report:?}");
    assert!(failed(&open(&padded(1)).unwrap().verify(VerifyLevel::Full), "ihsh"), "other bytes behind it");
    // Nothing else would notice that it no longer is a control hash.
    let renamed = patched(&padded(0), toc(0), b"XHSH");
    assert!(failed(&open(&renamed).unwrap().verify(VerifyLevel::Header), "structure"));
}

#[test]
fn a_hash_of_zeros_is_one_that_was_not_recorded() {
    let good = good();
    let mjsn = patched(&good, toc(0) + 48, &[0; 32]);
    let reader = open(&mjsn).unwrap();
    assert!(!reader.metadata().unwrap().is_empty());
    let report = reader.verify(VerifyLevel::Full);
    let check = report.check("chunk-hashes").unwrap();
    assert!(
        report.is_ok() && check.detail.contains("hash is not recorded: MJSN chunk \"meta.json\""),
        "{check:?}"
    );
    let both = patched(&mjsn, toc(1) + 48, &[0; 32]);
    let report = open(&both).unwrap().verify(VerifyLevel::Full);
    let check = report.check("chunk-hashes").unwrap();
    assert!(check.detail.contains("MJSN chunk \"meta.json\", MMSG chunk \"manifest\""), "{check:?}");
    // An attacker who changes a chunk and zeroes its hash does not get a clean report.
    let json = number(&mjsn, toc(0) + 8) as usize;
    let changed = patched(&mjsn, json + 2, b"A");
    assert!(open(&changed).unwrap().metadata().unwrap().contains_key("Architecture"));
    let report = open(&changed).unwrap().verify(VerifyLevel::Full);
    let check = report.check("chunk-hashes").unwrap();
    assert!(check.is_partial && check.detail.contains("all chunks but"), "{check:?}");
    let check = open(&good).unwrap().verify(VerifyLevel::Full);
    assert!(!check.check("chunk-hashes").unwrap().is_partial, "nothing is zero");
    let five: Vec<_> = ["a", "b", "c", "d", "e"].map(|name| (b"NOTE", name, 0, &b"x"[..])).to_vec();
    let five = (0..5).fold(file(&five), |file, entry| patched(&file, toc(entry) + 48, &[0; 32]));
    let report = open(&five).unwrap().verify(VerifyLevel::Full);
    let detail = &report.check("chunk-hashes").unwrap().detail;
    assert!(detail.ends_with("chunk \"a\", chunk \"b\", chunk \"c\" and 2 more"), "{detail}");
    let tidx = patched(&good, toc(2) + 48, &[0; 32]);
    let report = open(&tidx).unwrap().verify(VerifyLevel::Full);
    assert!(report.is_ok() && report.check("chunk-hashes").unwrap().is_partial);
    // A zero hash over weights would hide damage.
    let weights = patched(&good, toc(3) + 48, &[0; 32]);
    assert!(failed(&open(&weights).unwrap().verify(VerifyLevel::Full), "chunk-hashes"));
}

#[test]
fn all_control_hashes_together_cover_no_more_bytes_than_the_file_has() {
    let content = |end: u64| {
        let range: Value = [0, end].into_iter().collect();
        msgpack(object([
            ("algo", "blake3-256".into()),
            ("covered_ranges", vec![range].into()),
            ("digest", Value::Bytes(vec![0; 32])),
        ]))
    };
    let names: Vec<String> = (0..100).map(|n| format!("ihsh {n:02}")).collect();
    let of = |end: u64| {
        let content = content(end);
        let chunks: Vec<_> = names.iter().map(|name| (b"XHSH", name.as_str(), 8, &content[..])).collect();
        (0..names.len()).fold(file(&chunks), |file, entry| patched(&file, toc(entry), b"IHSH"))
    };
    let len = of(1 << 14).len() as u64; // a number that MessagePack writes as it writes the length
    let source = testkit::CountingSource::new(of(len));
    let reader = aero::Reader::from_source(&source).unwrap();
    let report = reader.verify(VerifyLevel::Control);
    assert_eq!(report.errors.iter().filter(|error| error.contains("has BLAKE3")).count(), 1);
    assert_eq!(report.errors.iter().filter(|error| error.contains("it is not checked")).count(), 99);
    assert!(source.nbytes() < 4 * len, "{} of {len}", source.nbytes());

    let stop = |_| std::ops::ControlFlow::Break(());
    let work = aero::Execution { progress: Some(&stop), ..aero::Execution::sequential() };
    let report = reader.verify_with(VerifyLevel::Full, &work);
    assert!(failed(&report, "ihsh") && report.errors.len() == 1, "{report:?}");
    let plain = good();
    let report = open(&plain).unwrap().verify_with(VerifyLevel::Full, &work);
    assert!(failed(&report, "chunk-hashes") && report.errors.len() == 1, "{report:?}");
}
