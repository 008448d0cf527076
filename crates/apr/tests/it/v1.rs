//! APRN: what a file says about itself, one row per rule, and every byte cut off or flipped.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "this is test code")]

use std::fs;

use apr::modelfmt_core::{CommonFault, Container};
use apr::v1::{OpenOptions, Reader};
use apr::{Error, Fault, Limits, Status, VerifyLevel};
use testkit::{CountingSource, FaultySource, bounded, patched, peak};

/// An APRN file to assemble byte by byte. A test changes fields before it builds the file.
#[derive(Clone)]
struct File {
    version: u8,
    model_type: u16,
    metadata: Vec<u8>,
    metadata_size: Option<u32>,
    payload: Vec<u8>,
    payload_size: Option<u32>,
    uncompressed: u32,
    compression: u8,
    flags: u8,
    quality: u8,
    reserved: [u8; 9],
    /// The bytes between the payload and the footer.
    behind: Vec<u8>,
}

fn text(text: &str) -> Vec<u8> {
    [&[0xa0 | u8::try_from(text.len()).unwrap()], text.as_bytes()].concat()
}

fn map(pairs: &[(&str, &[u8])]) -> Vec<u8> {
    let members = pairs.iter().flat_map(|(key, value)| [&text(key)[..], value].concat());
    [0x80 | u8::try_from(pairs.len()).unwrap()].into_iter().chain(members).collect()
}

impl File {
    fn good() -> Self {
        let (created, version) = (text("2025-11-27"), text("0.10.0"));
        Self {
            version: 1,
            model_type: 4,
            metadata: map(&[
                ("created_at", &created),
                ("aprender_version", &version),
                ("training", &[0x81, 0xa1, b'n', 0x93, 1, 2, 3]),
            ]),
            metadata_size: None,
            payload: (0..100).collect(),
            payload_size: None,
            uncompressed: 100,
            compression: 0,
            flags: 0,
            quality: 90,
            reserved: [0; 9],
            behind: Vec::new(),
        }
    }

    fn build(&self) -> Vec<u8> {
        let size = |stated: Option<u32>, bytes: &[u8]| stated.unwrap_or(u32::try_from(bytes.len()).unwrap());
        let mut out = b"APRN".to_vec();
        out.extend([self.version, 0]);
        out.extend(self.model_type.to_le_bytes());
        let sizes = [size(self.metadata_size, &self.metadata), size(self.payload_size, &self.payload)];
        sizes.iter().chain([&self.uncompressed]).for_each(|size| out.extend(size.to_le_bytes()));
        out.extend([self.compression, self.flags, self.quality]);
        out.extend(self.reserved);
        out.extend([&self.metadata[..], &self.payload, &self.behind].concat());
        let crc = testkit::crc32(&out);
        out.extend(crc.to_le_bytes());
        out
    }
}

fn changed(change: impl FnOnce(&mut File)) -> Vec<u8> {
    let mut file = File::good();
    change(&mut file);
    file.build()
}

#[test]
fn the_golden_file_holds_what_its_text_says() {
    let path = testkit::testdata("apr").join("v1-linear-regression.aprn");
    let expected = fs::read_to_string(path.with_extension("txt")).unwrap();
    assert_eq!(testkit::dump(&Reader::open(&path).unwrap()), expected);
    assert_eq!(testkit::dump(&Reader::from_source(fs::read(&path).unwrap()).unwrap()), expected);
}

#[test]
fn a_file_says_what_it_is_and_lists_no_tensors() {
    let file = changed(|f| {
        (f.flags, f.compression, f.uncompressed) = (0b10_0011, 3, 400);
        f.behind = vec![7; 96];
    });
    let far = Reader::from_source(CountingSource::new(file.clone())).unwrap();
    assert_eq!(far.source().reads(), 1);
    for reader in [&far as &dyn Container, &Reader::from_source(&file[..]).unwrap()] {
        assert_eq!((reader.tensor_count(), reader.version().as_deref()), (0, Some("1.0")));
        let details = reader.details().unwrap();
        let detail = |key: &str| details.get(key).cloned().unwrap();
        assert_eq!((detail("model_type"), detail("compression")), ("random_forest".into(), "lz4".into()));
        assert_eq!((detail("payload_nbytes"), detail("uncompressed_nbytes")), (100u64.into(), 400u64.into()));
        assert_eq!(detail("quality"), 90u64.into());
        assert_eq!(
            detail("flags"),
            ["ENCRYPTED", "SIGNED", "QUANTIZED"].map(String::from).into_iter().collect()
        );
        let report = reader.verify(VerifyLevel::Full, &apr::Execution::default());
        assert!(report.is_ok(), "{:?}", report.errors);
        for name in ["signature", "encryption"] {
            assert_eq!(report.check(name).unwrap().status, Status::Absent);
        }
        assert_eq!(report.check("crc").unwrap().status, Status::Ok);
    }
    assert_eq!(far.metadata().unwrap().get("training").and_then(|t| t.get("n")).unwrap().kind(), "an array");
    assert_eq!(far.index().payload().range(), 95..195);
}

#[test]
fn files_that_break_a_rule_are_refused_at_open() {
    type Is = fn(&Fault) -> bool;
    let out: Is = |f| matches!(f, Fault::Common(CommonFault::OutOfBounds { .. }));
    let metadata: Is = |f| matches!(f, Fault::Common(CommonFault::Metadata(_)));
    let deep = [vec![0x81, 0xa1, b'x'], vec![0x91; 200_000], vec![0xc0]].concat();
    let rows: [(&str, Vec<u8>, Is, u64); 14] = [
        ("magic", patched(&File::good().build(), 3, b"2"), |f| matches!(f, Fault::MagicV1(_)), 0),
        ("version", changed(|f| f.version = 2), |f| matches!(f, Fault::VersionV1(2)), 4),
        ("metadata past the end", changed(|f| f.metadata_size = Some(u32::MAX)), out, 8),
        ("payload past the end", changed(|f| f.payload_size = Some(101)), out, 12),
        ("payload of 4 GiB", changed(|f| f.payload_size = Some(u32::MAX)), out, 12),
        ("no room for a signature", changed(|f| (f.flags, f.behind) = (2, vec![0; 95])), out, 21),
        ("no metadata", changed(|f| f.metadata.clear()), metadata, 32),
        ("metadata that is no map", changed(|f| f.metadata = vec![0x93, 1, 2, 3]), metadata, 32),
        ("a byte behind the map", changed(|f| f.metadata.push(0xc0)), metadata, 32),
        ("metadata cut short", changed(|f| f.metadata.truncate(40)), metadata, 32),
        ("a key twice", changed(|f| f.metadata = map(&[("a", &[1]), ("a", &[1])])), metadata, 32),
        ("a key that is no text", changed(|f| f.metadata = vec![0x81, 1, 1]), metadata, 32),
        (
            "a list of 4 billion",
            changed(|f| f.metadata = map(&[("a", &[0xdd, 255, 255, 255, 255])])),
            metadata,
            32,
        ),
        ("metadata nested deep", changed(|f| f.metadata = deep), metadata, 32),
    ];
    for (name, file, is, place) in &rows {
        let far = CountingSource::new(file.clone());
        for error in [
            bounded(file.len(), || Reader::from_source(&file[..]).map(|_| ())).unwrap_err(),
            bounded(file.len(), || Reader::from_source(far).map(|_| ())).unwrap_err(),
        ] {
            let Error::Malformed { at, ref fault, .. } = error else { panic!("{name}: {error:?}") };
            assert!(is(fault) && at == *place, "{name}: {error} ({error:?})");
        }
    }
    let text = vec![0xdb, 255, 255, 255, 255];
    let (error, held) =
        peak(|| Reader::from_source(changed(|f| f.metadata = map(&[("a", &text)]))).map(|_| ()));
    assert!(error.is_err() && held < 64 << 10, "{held}");
}

#[test]
fn what_is_for_verify_opens_and_is_reported() {
    let good = File::good().build();
    let rows = [
        ("kind of model", changed(|f| f.model_type = 11), "model type at byte 6: 11 is no kind of model"),
        ("size", changed(|f| (f.compression, f.uncompressed) = (1, (1 << 30) + 1)), "more than 1 GiB"),
        ("plain size", changed(|f| f.uncompressed = 99), "is 99, but 100 bytes are stored"),
        ("compression", changed(|f| f.compression = 4), "4 is no compression"),
        ("flag", changed(|f| f.flags = 0x80), "bit 7 is set"),
        ("quality", changed(|f| f.quality = 101), "is 101, beyond 100"),
        ("reserved", changed(|f| f.reserved[8] = 1), "reserved at byte 23: is not zero"),
        ("no created_at", changed(|f| f.metadata = map(&[])), "created_at"),
        (
            "a number as version",
            changed(|f| f.metadata = map(&[("aprender_version", &[1])])),
            "aprender_version",
        ),
        ("bytes behind", changed(|f| f.behind = vec![0; 5]), "5 bytes before the footer"),
        ("a payload byte", patched(&good, 120, &[good[120] ^ 1]), "footer, crc32"),
        ("the footer", patched(&good, good.len() - 1, &[good[good.len() - 1] ^ 1]), "footer, crc32"),
    ];
    assert!(Reader::from_source(&good[..]).unwrap().verify(VerifyLevel::Full).is_ok());
    for (name, file, expected) in &rows {
        let near = Reader::from_source(&file[..]).unwrap().verify(VerifyLevel::Full);
        let far = Reader::from_source(CountingSource::new(file.clone())).unwrap();
        assert_eq!(near, far.verify(VerifyLevel::Full));
        assert!(near.errors.iter().any(|text| text.contains(expected)), "{name}: {:?}", near.errors);
    }
}

#[test]
fn every_cut_and_every_flipped_bit_is_found() {
    let good = File::good().build();
    for len in 0..good.len() {
        let cut = &good[..len];
        match bounded(len, || Reader::from_source(cut)) {
            Err(Error::Truncated { .. } | Error::Malformed { .. }) => {}
            Err(error) => panic!("{len}: {error}"),
            Ok(reader) => assert!(!reader.verify(VerifyLevel::Full).is_ok(), "{len}"),
        }
    }
    for bit in 0..good.len() * 8 {
        let flipped = patched(&good, bit / 8, &[good[bit / 8] ^ (1 << (bit % 8))]);
        if let Ok(reader) = Reader::from_source(&flipped[..]) {
            assert!(!reader.verify(VerifyLevel::Full).is_ok(), "bit {bit}");
        }
    }
}

#[test]
fn limits_can_be_lowered() {
    type Lower = fn(&mut Limits);
    let rows: [(&str, Lower); 2] =
        [("the length of the metadata is 63", |l| l.metadata_len = 62), ("nested deeper", |l| l.depth = 1)];
    for (expected, lower) in rows {
        let mut limits = Limits::default();
        lower(&mut limits);
        let file = File::good().build();
        let error = OpenOptions::new().limits(limits).open_source(&file[..]).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn a_source_that_fails_is_an_error_and_never_a_wrong_answer() {
    let file = File::good().build();
    let all = |broken: std::ops::Range<u64>| -> Result<(), Error> {
        let reader = Reader::from_source(FaultySource::new(file.clone(), broken))?;
        reader.verify(VerifyLevel::Full).into_result().map(drop).map_err(|_| Error::Cancelled)
    };
    let len = file.len() as u64;
    all(len..len).unwrap();
    for at in 0..len {
        assert!(all(at..at + 1).is_err(), "{at}");
    }
}
