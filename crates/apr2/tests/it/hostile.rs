//! What a hostile or damaged file may claim: one row per rule, and small files with every byte cut off or
//! flipped.
#![cfg(feature = "lz4")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "this is test code")]

use crate::common::{Entry, File, METADATA, changed, check_found, sealed, stored, threads};
use apr2::{Error, Fault, Index, Limits, OpenOptions, Reader, Source, VerifyLevel};
use modelfmt_core::author::parse_source;
use testkit::{CountingSource, FaultySource, bounded, patched, peak};

/// The expected error when opening.
enum Refused {
    /// A fault of this kind, at this byte.
    Fault(fn(&Fault) -> bool, u64),
    /// A part that is cut short at this byte.
    Truncated(u64),
}
use Refused::{Fault as At, Truncated};

fn check_refused(name: &str, file: &[u8], refused: &Refused) {
    let far = CountingSource::new(file.to_vec());
    for error in [
        bounded(file.len(), || Reader::from_source(file).map(|_| ())).unwrap_err(),
        bounded(file.len(), || Reader::from_source(far).map(|_| ())).unwrap_err(),
    ] {
        let as_expected = match (refused, &error) {
            (At(rule, place), Error::Malformed { at, fault, .. }) => rule(fault) && at == place,
            (Truncated(place), Error::Truncated { at, .. }) => at == place,
            _ => false,
        };
        assert!(as_expected, "{name}: {error} ({error:?})");
    }
}

macro_rules! fault {
    ($pattern:pat, $at:expr) => {
        At(|fault| matches!(fault, $pattern), $at)
    };
}
use modelfmt_core::CommonFault;

#[test]
fn headers_that_break_a_rule_are_refused_at_open() {
    let two = File::two();
    let good = two.build();
    assert!(Reader::from_source(&good[..]).is_ok());
    let (index, data) = (two.index_offset(), two.data_offset());
    let len = good.len();
    let word = |at: usize, value: usize| patched(&good, at, &u32::try_from(value).unwrap().to_le_bytes());
    let most = usize::try_from(u32::MAX).unwrap();
    let rows = [
        ("magic", patched(&good, 0, b"APR3"), fault!(Fault::Magic(_), 0)),
        ("version 1", patched(&good, 4, &[1]), fault!(Fault::Version(1), 4)),
        ("version 3", patched(&good, 4, &[3]), fault!(Fault::Version(3), 4)),
        ("unknown flag", patched(&good, 9, &[1]), fault!(Fault::UnknownFlags(0x100), 8)),
        ("unknown high flag", patched(&good, 11, &[0x80]), fault!(Fault::UnknownFlags(0x8000_0000), 8)),
        ("encrypted", patched(&good, 8, &[0x12]), fault!(Fault::Encrypted, 8)),
        ("metadata_offset", word(12, 33), fault!(Fault::MetadataOffset(33), 12)),
        (
            "metadata_size past the end",
            word(16, len),
            fault!(Fault::Common(CommonFault::OutOfBounds { .. }), 16),
        ),
        ("metadata_size over the index", word(16, index - 31), fault!(Fault::SectionOrder { .. }, 20)),
        (
            "metadata_size of 4 GiB",
            word(16, most),
            fault!(Fault::Common(CommonFault::OutOfBounds { .. }), 16),
        ),
        ("metadata_size 0", word(16, 0), fault!(Fault::Common(CommonFault::Metadata(_)), 32)),
        ("metadata_size too short", word(16, 5), fault!(Fault::Common(CommonFault::Metadata(_)), 36)),
        ("index_offset in the metadata", word(20, 40), fault!(Fault::SectionOrder { .. }, 20)),
        (
            "index_offset past the end",
            word(20, most),
            fault!(Fault::Common(CommonFault::OutOfBounds { .. }), 24),
        ),
        ("index_size over the data", word(24, data - index + 1), fault!(Fault::SectionOrder { .. }, 28)),
        (
            "index_size past the end",
            word(24, most),
            fault!(Fault::Common(CommonFault::OutOfBounds { .. }), 24),
        ),
        ("index_size 0", word(24, 0), Truncated(index as u64)),
        ("index_size short", word(24, 40), Truncated(index as u64 + 8)),
        ("data_offset in the index", word(28, data - 64), fault!(Fault::SectionOrder { .. }, 28)),
        ("data_offset odd", word(28, data + 1), fault!(Fault::DataAlignment(_), 28)),
        (
            "data_offset past the end",
            word(28, data + 1024),
            fault!(Fault::Common(CommonFault::OutOfBounds { .. }), 28),
        ),
        ("magic_end", patched(&good, len - 12, b"2RPB"), fault!(Fault::FooterMagic(_), len as u64 - 12)),
        ("file_size", patched(&good, len - 8, &[0]), fault!(Fault::FileSize(_), len as u64 - 8)),
    ];
    for (name, file, refused) in &rows {
        check_refused(name, file, refused);
    }
    let mut longer = good.clone();
    longer.push(0);
    check_refused("appended", &longer, &fault!(Fault::FooterMagic(_), len as u64 - 11));
}

#[test]
fn entries_that_break_a_rule_are_refused_at_open() {
    let two = File::two();
    let first = two.index_offset() as u64 + 8;
    let second = first + 2 + 1 + 2 + 8 + 28;
    let data = two.data_offset() as u64;
    let b = |change: fn(&mut Entry)| changed(&two, |file| change(&mut file.entries[1]));
    let rows = [
        ("no name", b(|e| (e.name, e.dims) = (Vec::new(), vec![3, 1])), fault!(Fault::EmptyName, second)),
        (
            "name twice",
            b(|e| e.name = b"a".to_vec()),
            fault!(Fault::Common(CommonFault::Duplicate(_)), second),
        ),
        ("name not UTF-8", b(|e| e.name = vec![0xff]), fault!(Fault::Common(CommonFault::Utf8), second + 2)),
        ("dtype 8", b(|e| e.dtype = 8), fault!(Fault::UnknownDType(8), second + 3)),
        ("dtype 21", b(|e| e.dtype = 21), fault!(Fault::UnknownDType(21), second + 3)),
        (
            "rank 0",
            changed(&two, |f| (f.entries[1].dims, f.trailing) = (Vec::new(), vec![0; 8])),
            fault!(Fault::Rank(0), second + 4),
        ),
        ("rank 9", b(|e| e.dims = vec![1; 9]), fault!(Fault::Rank(9), second + 4)),
        ("rank 255", b(|e| e.dims = vec![1; 255]), fault!(Fault::Rank(255), second + 4)),
        (
            "too many elements",
            b(|e| e.dims = vec![1 << 40; 2]),
            fault!(Fault::Common(CommonFault::TooManyElements(_)), second),
        ),
        (
            "2^63 bytes",
            b(|e| e.dims = vec![1 << 63]),
            fault!(Fault::Common(CommonFault::TooManyElements(_)), second),
        ),
        (
            "part of a block",
            b(|e| (e.dtype, e.dims) = (16, vec![33])),
            fault!(Fault::Common(CommonFault::PartialBlock { .. }), second),
        ),
        (
            "size too small",
            b(|e| e.size = 2),
            fault!(Fault::Common(CommonFault::Nbytes { found: 2, expected: 3 }), second),
        ),
        (
            "size too large",
            b(|e| e.size = 4),
            fault!(Fault::Common(CommonFault::Nbytes { found: 4, expected: 3 }), second),
        ),
        (
            "raw_size",
            b(|e| e.raw_size = 4),
            fault!(Fault::Common(CommonFault::Nbytes { found: 4, expected: 3 }), second),
        ),
        (
            "raw_size 2^63",
            b(|e| e.raw_size = 1 << 63),
            fault!(Fault::Common(CommonFault::Nbytes { .. }), second),
        ),
        (
            "raw_size and dims of 2^62",
            b(|e| (e.raw_size, e.dims) = (1 << 62, vec![1 << 62])),
            fault!(Fault::Expansion { .. }, second),
        ),
        (
            "offset past the end",
            b(|e| e.offset = 65),
            fault!(Fault::Common(CommonFault::OutOfBounds { .. }), second),
        ),
        (
            "offset near 2^64",
            b(|e| e.offset = u64::MAX),
            fault!(Fault::Common(CommonFault::OutOfBounds { .. }), second),
        ),
        (
            "offset 2^63",
            b(|e| e.offset = 1 << 63),
            fault!(Fault::Common(CommonFault::OutOfBounds { .. }), second),
        ),
        (
            "an empty tensor far away",
            b(|e| (e.dims, e.size, e.offset) = (vec![0], 0, 256)),
            fault!(Fault::Common(CommonFault::OutOfBounds { .. }), second),
        ),
        (
            "trailing bytes",
            changed(&two, |f| f.trailing = vec![0]),
            fault!(Fault::TrailingIndex(1), second + 41),
        ),
    ];
    for (name, file, refused) in &rows {
        check_refused(name, file, refused);
    }
    let count = |n: u32| patched(&two.build(), two.index_offset(), &n.to_le_bytes());
    check_refused("a tensor more", &count(3), &Truncated(first));
    check_refused("2^32 - 1 tensors", &count(u32::MAX), &Truncated(first));
    check_refused("a tensor less", &count(1), &fault!(Fault::TrailingIndex(_), second));
    assert!(data > second);
}

#[test]
fn metadata_that_is_not_an_object_is_refused_at_open() {
    let refused = |text: &str| {
        let file = changed(&File::two(), |file| file.metadata = text.as_bytes().to_vec());
        check_refused(
            text.get(..20).unwrap_or(text),
            &file,
            &At(|f| matches!(f, Fault::Common(CommonFault::Metadata(_))), at(text)),
        );
    };
    fn at(text: &str) -> u64 {
        let error = modelfmt_core::value::json::parse(text.as_bytes());
        32 + error.err().and_then(|e| e.offset()).unwrap_or(0) as u64
    }
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let nested = format!("{{\"a\":{deep}}}");
    let objects = format!("{}1{}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
    for text in ["[]", "null", "{", "{\"a\":1,\"a\":1}", "{}{}", "{\"a\":1e999}", &deep, &nested, &objects] {
        refused(text);
    }
    let levels = |n: usize| format!("{{\"a\":{}{}}}", "[".repeat(n - 1), "]".repeat(n - 1));
    let file = changed(&File::two(), |file| file.metadata = levels(127).into_bytes());
    assert!(Reader::from_source(file).is_ok());
    refused(&levels(128));
    // Missing keys are reported by verify.
    let file = changed(&File::two(), |file| file.metadata = b"{}".to_vec());
    let report = Reader::from_source(file).unwrap().verify(VerifyLevel::Header);
    assert_eq!(report.errors.len(), 3, "{:?}", report.errors);
}

#[test]
fn what_opens_and_breaks_a_rule_is_found_by_verify() {
    let (two, z) = (File::two(), File::compressed());
    for file in [&two, &z] {
        let report = Reader::from_source(file.build()).unwrap().verify(VerifyLevel::Full);
        assert!(report.is_ok(), "{:?}", report.errors);
    }
    let b = |change: fn(&mut Entry)| changed(&two, |file| change(&mut file.entries[1]));
    let flags = |flags| changed(&two, |file| file.flags = flags);
    let gap = two.data_offset() + 10;
    for (name, file, check, words) in [
        ("reserved", changed(&two, |f| f.reserved = 1), "structure", "reserved"),
        ("tensor flag", b(|e| e.flags = 2), "structure", "0x2 are not known"),
        ("tensor flag without", b(|e| e.flags = 1), "structure", "bit 0 is set"),
        ("compressed without flag", changed(&z, |f| f.entries[0].flags = 0), "structure", "bit 0 is not set"),
        ("COMPRESSED", flags(0b11), "structure", "COMPRESSED is set"),
        ("no COMPRESSED", changed(&z, |f| f.flags = 0b10), "structure", "COMPRESSED is not set"),
        ("QUANTIZED", flags(0b100_0010), "structure", "QUANTIZED is set"),
        (
            "no QUANTIZED",
            changed(&two, |f| {
                f.entries[1] = Entry { dtype: 17, dims: vec![32], ..Entry::u8s("b", 64, 18) };
                f.data.resize(64 + 18, 5);
            }),
            "structure",
            "QUANTIZED is not set",
        ),
        (
            "STREAMING",
            changed(&two, |f| {
                f.flags |= 0x80;
                f.entries.swap(0, 1);
            }),
            "structure",
            "STREAMING",
        ),
        ("footer far", changed(&two, |f| f.data.push(0)), "structure", "does not follow"),
        (
            "alignment",
            changed(&two, |f| {
                f.entries[1].offset = 32;
                f.data = vec![0; 35];
            }),
            "extents",
            "ALIGNED_64",
        ),
        (
            "overlap",
            changed(&two, |f| (f.flags, f.entries[1].offset, f.data) = (0, 4, vec![1; 7])),
            "extents",
            "overlaps",
        ),
        ("padding", sealed(&patched(&two.build(), gap, &[1])), "padding", &format!("byte {gap}")),
        (
            "padding between sections",
            {
                let file = changed(&two, |f| f.gap = 5);
                sealed(&patched(&file, 32 + METADATA.len() + 2, &[1]))
            },
            "padding",
            "padding",
        ),
        ("crc", patched(&two.build(), gap - 8, &[9]), "crc", "crc32"),
        ("signed", flags(0b10_0010), "signature", "cannot be checked"),
    ] {
        check_found(name, &file, check, words);
    }
    let aligned = changed(&two, |f| {
        (f.flags, f.entries[1].offset, f.data) = (0b100, 32, [&[1; 5][..], &[0; 27], &[2; 3]].concat());
    });
    assert!(Reader::from_source(aligned).unwrap().verify(VerifyLevel::Full).is_ok());
    let tied = changed(&two, |f| (f.entries[1], f.data) = (Entry::u8s("b", 0, 5), vec![1; 5]));
    assert!(Reader::from_source(tied).unwrap().verify(VerifyLevel::Full).is_ok(), "tied weights");
    let gapped = changed(&two, |f| f.gap = 5);
    assert!(Reader::from_source(gapped).unwrap().verify(VerifyLevel::Full).is_ok(), "a gap of zeros");
    // Both ways to place an empty tensor at the end: with its padding in the file, and without.
    for data in [vec![1; 5], [&[1; 5][..], &[0; 59]].concat()] {
        let file = changed(&two, |f| (f.entries[1], f.data) = (Entry::u8s("b", 64, 0), data.clone()));
        let reader = Reader::from_source(file).unwrap();
        assert!(reader.tensor("b").unwrap().bytes().is_empty());
        let report = reader.verify(VerifyLevel::Full);
        assert!(report.is_ok(), "{:?}", report.errors);
    }
    let none = changed(&two, |f| (f.entries, f.data) = (Vec::new(), Vec::new()));
    assert!(Reader::from_source(none).unwrap().verify(VerifyLevel::Full).is_ok(), "no tensors");
    let minor = sealed(&patched(&two.build(), 6, &[9]));
    assert!(Reader::from_source(minor).unwrap().verify(VerifyLevel::Full).is_ok(), "any minor version");
}

#[test]
fn any_flipped_byte_is_found() {
    let small = {
        // Raw, compressed, empty and quantized tensors, with every kind of padding.
        let tensors = [
            crate::common::Tensor::bytes("raw", crate::common::noise(70, 1)),
            crate::common::Tensor::bytes("z", vec![3; 1000]),
            crate::common::Tensor::bytes("empty", Vec::new()),
            crate::common::Tensor::new("q", apr2::DType::Q8_0, &[32], crate::common::noise(34, 2)),
        ];
        crate::common::write(&tensors, &crate::common::lz4(), &threads(1))
    };
    let files = [File::two().build(), changed(&File::two(), |f| f.gap = 3), small, apr1()];
    for file in &files {
        assert!(Reader::from_source(&file[..]).unwrap().verify(VerifyLevel::Full).is_ok());
        for at in 0..file.len() {
            for bits in [0x01, 0x20, 0xff] {
                let flipped = patched(file, at, &[file[at] ^ bits]);
                let found = match Reader::from_source(&flipped[..]) {
                    Ok(reader) => !reader.verify_with(VerifyLevel::Full, &threads(1)).is_ok(),
                    Err(_) => true,
                };
                assert!(found, "byte {at}, bits {bits:#x}");
            }
        }
    }
}

fn apr1() -> Vec<u8> {
    let index = r#"[{"name":"a","dtype":"F32","shape":[2],"offset":0,"size":8}]"#;
    crate::common::apr1(METADATA, 1, index, &[0, 0, 128, 63, 0, 0, 0, 64])
}

#[test]
fn every_truncation_is_an_error() {
    for file in [File::two().build(), apr1()] {
        for len in 0..file.len() {
            let cut = &file[..len];
            let opened = Reader::from_source(cut);
            // APR1 has no magic at its end, so a file whose data is cut may open. Its CRC detects the cut.
            assert!(
                !opened.is_ok_and(|reader| reader.verify_with(VerifyLevel::Full, &threads(1)).is_ok()),
                "{len} bytes"
            );
        }
    }
    let file = File::two().build();
    for len in 0..file.len() {
        assert!(Reader::from_source(&file[..len]).is_err(), "{len} bytes");
    }
}

#[test]
fn each_limit_is_kept() {
    let open = |file: &[u8], change: fn(&mut Limits)| {
        let mut limits = Limits::default();
        change(&mut limits);
        let reader = OpenOptions::new().limits(limits).open_source(file.to_vec());
        reader.map(|_| ()).unwrap_err()
    };
    let two = File::two().build();
    for (name, error) in [
        ("tensors", open(&two, |l| l.tensors = 1)),
        ("name_len", open(&two, |l| l.name_len = 0)),
        ("rank", open(&two, |l| l.rank = 0)),
        ("index_len", open(&two, |l| l.index_len = 20)),
        ("metadata_len", open(&two, |l| l.metadata_len = 20)),
        ("apr1 tensors", open(&apr1(), |l| l.tensors = 0)),
        ("apr1 name_len", open(&apr1(), |l| l.name_len = 0)),
        ("apr1 rank", open(&apr1(), |l| l.rank = 0)),
        ("apr1 index_len", open(&apr1(), |l| l.index_len = 20)),
        ("apr1 metadata_len", open(&apr1(), |l| l.metadata_len = 20)),
    ] {
        assert!(matches!(error, Error::Limit { .. }), "{name}: {error}");
    }
    for file in [&two, &apr1()] {
        assert!(matches!(open(file, |l| l.depth = 1), Error::Malformed { .. }));
    }
}

#[test]
fn claims_are_not_allocated_for() {
    let two = File::two();
    let huge_count = patched(&two.build(), two.index_offset(), &u32::MAX.to_le_bytes());
    // A megabyte that claims to expand to 255 MB, with a broken first block.
    let mut bad = vec![0xff; 1 << 20];
    bad[..4].copy_from_slice(&[0; 4]);
    let expanding = stored(bad, 255 << 20);
    let deep = changed(&two, |file| file.metadata = "[".repeat(1 << 20).into_bytes());
    for (name, file) in [("count", huge_count), ("expanding", expanding), ("deep", deep)] {
        let (result, nbytes) = peak(|| {
            let reader = Reader::from_source(&file[..])?;
            reader.tensor("z").map(|_| ())
        });
        assert!(result.is_err(), "{name}");
        assert!(nbytes < 256 << 10, "{name}: {nbytes} bytes");
    }
}

/// A file of 100 GB and more: the given `pieces`, and zeros in between.
struct Sparse {
    len: u64,
    pieces: Vec<(u64, Vec<u8>)>,
}

impl Source for Sparse {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > self.len) {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        out.fill(0);
        for (start, bytes) in &self.pieces {
            for (i, &byte) in bytes.iter().enumerate() {
                let at = start + i as u64;
                if at >= offset && at - offset < out.len() as u64 {
                    out[usize::try_from(at - offset).unwrap()] = byte;
                }
            }
        }
        Ok(())
    }
}

#[test]
fn tensors_beyond_4_gib_are_read_with_64_bit_offsets() {
    const FAR: u64 = 100_000_000_000_000 / 64 * 64;
    let head = changed(&File::two(), |file| {
        file.entries[0] = Entry { dims: vec![FAR], ..Entry::u8s("vast", 0, FAR) };
        file.entries[1] = Entry::u8s("last", FAR, 3);
        file.data.clear();
    });
    // As built, the file has a head, and a footer at a place where the data should be.
    let Err(Error::Malformed { .. }) = Reader::from_source(&head[..]) else { panic!("the data are missing") };
    let data = (head.len() - 16) as u64;
    let len = data + FAR + 3 + 16;
    let footer = [&[0; 4][..], b"2RPA", &len.to_le_bytes()].concat();
    let pieces = vec![(0, head[..head.len() - 16].to_vec()), (data + FAR, vec![7, 8, 9]), (len - 16, footer)];
    let reader = Reader::from_source(Sparse { len, pieces }).unwrap();
    assert_eq!(reader.tensor("last").unwrap().bytes(), [7, 8, 9]);
    let mut out = [1; 2];
    reader.read_into(0, FAR - 2, &mut out).unwrap();
    assert_eq!(out, [0, 0]);
    assert_eq!(reader.index().location(1).unwrap().offset, Some(data + FAR));
    assert!(reader.verify(VerifyLevel::Header).is_ok());
}

#[test]
fn sources_that_fail_are_errors_that_say_where() {
    let file = File::compressed().build();
    for broken in [0..4, 40..41, 200..201, file.len() as u64 - 3..file.len() as u64] {
        let source = FaultySource::new(file.clone(), broken.clone());
        match Reader::from_source(source) {
            Ok(reader) => {
                let error = reader.tensor("z").map(|_| ()).unwrap_err();
                assert!(error.is_io(), "{error}");
                let report = reader.verify(VerifyLevel::Full);
                assert!(!report.is_ok(), "{broken:?}");
            }
            Err(error) => assert!(error.is_io(), "{error}"),
        }
    }
}

#[test]
fn the_parser_takes_whatever_it_is_fed_at_once() {
    use modelfmt_core::author::{FileIndex, Parser};
    let parser = |len: usize| Index::parser(len as u64, OpenOptions::new().settings());
    let file = File::two().build();
    for extra in [0, 1, 50, 1000] {
        let mut parser = parser(file.len());
        while let Some(range) = parser.need() {
            assert!(range.start < range.end && range.end <= file.len() as u64);
            let start = usize::try_from(range.start).unwrap();
            let end = (usize::try_from(range.end).unwrap() + extra).min(file.len());
            parser.feed(&file[start..end]).unwrap();
        }
        assert_eq!(parser.finish().unwrap().tensors().len(), 2);
    }
    assert!(parser(0).finish().is_err());
    assert_eq!(parse_source(parser(file.len()), &file).unwrap().tensors().len(), 2);
    assert_eq!(Index::parse(&file).unwrap().tensors().len(), 2);
}
