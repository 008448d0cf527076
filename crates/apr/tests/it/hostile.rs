//! What a hostile or damaged file may claim: one row per rule, and small files with every byte cut off or
//! flipped.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "this is test code")]

use crate::common::{Entry, File, footed, literals, lz4_with_zeros, sealed, zstd_frame, zstd_with_zeros};
use apr::modelfmt_core::{
    CommonFault,
    author::{FileIndex, parse_source},
};
use apr::{Error, Fault, Index, Limits, OpenOptions, Reader, Status, VerifyLevel};
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

fn changed(change: impl FnOnce(&mut File)) -> Vec<u8> {
    let mut file = File::two();
    change(&mut file);
    file.build()
}

fn b(change: impl FnOnce(&mut Entry)) -> Vec<u8> {
    changed(|file| change(&mut file.entries[1]))
}

#[test]
fn headers_that_break_a_rule_are_refused_at_open() {
    let two = File::two();
    let good = two.build();
    assert!(Reader::from_source(&good[..]).is_ok());
    let (index, data, len) = (two.index_at() as u64, two.data_at() as u64, good.len() as u64);
    let rows = [
        ("magic", changed(|f| f.magic = *b"APRN"), fault!(Fault::Magic(_), 0)),
        ("version 1", changed(|f| f.version = 1), fault!(Fault::Version(1), 4)),
        ("version 3", changed(|f| f.version = 3), fault!(Fault::Version(3), 4)),
        ("column-major", changed(|f| f.flags = 0x800), fault!(Fault::ColumnMajor, 6)),
        ("both layouts", changed(|f| f.flags = 0xc00), fault!(Fault::ColumnMajor, 6)),
        ("metadata_offset", changed(|f| f.metadata_offset = 65), fault!(Fault::PrivateLayout(65), 12)),
        ("header checksum", patched(&good, 40, &[good[40] ^ 1]), fault!(Fault::HeaderCrc { .. }, 40)),
        ("reserved bytes", patched(&good, 60, &[1]), fault!(Fault::HeaderCrc { .. }, 40)),
        (
            "no metadata",
            changed(|f| f.metadata_size = Some(0)),
            fault!(Fault::Common(CommonFault::Metadata(_)), 64),
        ),
        (
            "metadata past the end",
            changed(|f| f.metadata_size = Some(u32::MAX)),
            fault!(Fault::Common(CommonFault::OutOfBounds { .. }), 20),
        ),
        (
            "metadata over the index",
            changed(|f| f.metadata_size = Some(200)),
            fault!(Fault::SectionOrder { .. }, 24),
        ),
        (
            "metadata cut",
            changed(|f| f.metadata_size = Some(5)),
            fault!(Fault::Common(CommonFault::Metadata(_)), 68),
        ),
        (
            "metadata not an object",
            changed(|f| f.metadata = b"[1]".to_vec()),
            fault!(Fault::Common(CommonFault::Metadata(_)), 64),
        ),
        (
            "index in the metadata",
            changed(|f| f.index_offset = Some(65)),
            fault!(Fault::SectionOrder { .. }, 24),
        ),
        (
            "index past the data",
            changed(|f| f.index_offset = Some(data + 1)),
            fault!(Fault::SectionOrder { .. }, 32),
        ),
        (
            "index of 2^64",
            changed(|f| f.index_offset = Some(u64::MAX)),
            fault!(Fault::SectionOrder { .. }, 32),
        ),
        (
            "data before the index",
            changed(|f| f.data_offset = Some(index - 1)),
            fault!(Fault::SectionOrder { .. }, 32),
        ),
        (
            "data past the end",
            changed(|f| f.data_offset = Some(len + 1)),
            fault!(Fault::Common(CommonFault::OutOfBounds { .. }), 32),
        ),
        (
            "data of 2^64",
            changed(|f| f.data_offset = Some(u64::MAX)),
            fault!(Fault::Common(CommonFault::OutOfBounds { .. }), 32),
        ),
        ("tensors that are not there", changed(|f| f.count = Some(u32::MAX)), Truncated(index)),
        (
            "a tensor more",
            changed(|f| f.count = Some(3)),
            fault!(Fault::Common(CommonFault::Duplicate(_)), 0),
        ),
    ];
    for (name, file, refused) in &rows[..rows.len() - 1] {
        check_refused(name, file, refused);
    }
    // Zeros after the last entry read as an entry with an empty name and no dimensions. Its size is wrong.
    let more = &rows[rows.len() - 1].1;
    let error = Reader::from_source(&more[..]).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("tensor entry 2"), "{error}");
}

#[test]
fn entries_that_break_a_rule_are_refused_at_open() {
    let two = File::two();
    let second = two.entry_at(1) as u64;
    let out = || fault!(Fault::Common(CommonFault::OutOfBounds { .. }), 0);
    let at_second = |refused| match refused {
        At(rule, _) => At(rule, second),
        truncated @ Truncated(_) => truncated,
    };
    let rows = [
        (
            "name twice",
            b(|e| e.name = b"a".to_vec()),
            fault!(Fault::Common(CommonFault::Duplicate(_)), second),
        ),
        ("name not UTF-8", b(|e| e.name = vec![0xff]), fault!(Fault::Common(CommonFault::Utf8), second + 2)),
        ("dtype 10", b(|e| e.dtype = 10), fault!(Fault::UnknownDType(10), second + 3)),
        ("dtype 255", b(|e| e.dtype = 255), fault!(Fault::UnknownDType(255), second + 3)),
        ("dtype 13", b(|e| e.dtype = 13), fault!(Fault::UnknownDType(13), second + 3)),
        ("rank 9", b(|e| e.dims = vec![1; 9]), fault!(Fault::Rank(9), second + 4)),
        ("rank 255", b(|e| e.dims = vec![1; 255]), fault!(Fault::Rank(255), second + 4)),
        (
            "size too small",
            b(|e| e.size = 2),
            fault!(Fault::Common(CommonFault::Nbytes { found: 2, expected: 3 }), second),
        ),
        ("size too large", b(|e| e.size = 4), fault!(Fault::Common(CommonFault::Nbytes { .. }), second)),
        (
            "q4_k with rows that are not filled up",
            b(|e| (e.dtype, e.dims, e.size) = (12, vec![2, 128], 144)),
            fault!(Fault::Common(CommonFault::Nbytes { found: 144, expected: 288 }), second),
        ),
        (
            "q6_k with a part of a block",
            b(|e| (e.dtype, e.dims) = (14, vec![2, 100])),
            fault!(Fault::Common(CommonFault::PartialBlock { .. }), second),
        ),
        (
            "apr_q8 without a scale",
            b(|e| e.dtype = 129),
            fault!(Fault::Common(CommonFault::Nbytes { found: 3, expected: 7 }), second),
        ),
        (
            "too many elements",
            b(|e| e.dims = vec![1 << 40; 2]),
            fault!(Fault::Common(CommonFault::TooManyElements(_)), second),
        ),
        ("offset past the end", b(|e| e.offset = 4096), at_second(out())),
        ("end past the end", b(|e| e.offset = 130), at_second(out())),
        ("offset of 2^64 - 1", b(|e| e.offset = u64::MAX), at_second(out())),
        ("an end that wraps", b(|e| e.offset = u64::MAX - two.data_at() as u64 - 1), at_second(out())),
    ];
    for (name, file, refused) in &rows {
        check_refused(name, file, refused);
    }
}

fn findings(file: &[u8]) -> Vec<String> {
    let reader = OpenOptions::new().ignore_checksum(true).open_source(file).unwrap();
    let far =
        OpenOptions::new().ignore_checksum(true).open_source(CountingSource::new(file.to_vec())).unwrap();
    let report = reader.verify(VerifyLevel::Full);
    assert_eq!(report, far.verify(VerifyLevel::Full));
    assert_eq!(report.is_ok(), report.errors.is_empty());
    report.errors
}

#[test]
fn what_is_for_verify_opens_and_is_reported() {
    let two = File::two();
    let good = two.build();
    assert!(findings(&good).is_empty());
    let (data, len) = (two.data_at(), good.len());
    let whole = |file: &[u8]| footed(file[..file.len() - 4].to_vec());
    let rows = [
        ("header checksum", whole(&patched(&good, 40, &[good[40] ^ 1])), "header, crc32 at byte 40"),
        ("reserved", changed(|f| f.reserved[3] = 1), "header, reserved at byte 44: is not zero"),
        ("no model_type", changed(|f| f.metadata = b"{}".to_vec()), "model_type"),
        (
            "names out of order",
            changed(|f| f.entries.swap(0, 1)),
            "tensor entry 1 \"a\", name at byte 128: does not follow",
        ),
        (
            "an index elsewhere",
            changed(|f| {
                // The metadata is shorter than the space it takes, so the index is 64 bytes too late.
                f.metadata.extend([b' '; 40]);
                f.metadata_size = Some(u32::try_from(crate::common::METADATA.len()).unwrap());
            }),
            "header, index_offset at byte 24",
        ),
        ("a byte in the padding", sealed(&patched(&good, data + 5, &[9])), "is not zero"),
        ("a byte behind the index", sealed(&patched(&good, data - 1, &[9])), "is not zero"),
        ("a value", patched(&good, data, &[9]), "footer, crc32"),
        ("the footer", patched(&good, len - 1, &[good[len - 1] ^ 1]), "footer, crc32"),
        ("misaligned", b(|e| e.offset = 65), "the offset is not a multiple of 64"),
        ("overlap", b(|e| e.offset = 3), "overlaps a part of tensor \"a\""),
        ("appended", [&good[..], b"x"].concat(), "5 bytes follow the padding of the last tensor"),
        ("cut in the padding", good[..len - 5].to_vec(), "the file is cut short"),
        ("cut in the footer", good[..len - 1].to_vec(), "3 bytes follow the padding"),
    ];
    for (name, file, expected) in &rows {
        let found = findings(file);
        assert!(found.iter().any(|text| text.contains(expected)), "{name}: {found:?}");
    }
}

#[test]
fn a_header_that_does_not_match_opens_only_when_asked() {
    let good = File::two().build();
    let bad = patched(&good, 8, &[1]);
    assert!(Reader::from_source(&bad[..]).is_err());
    let reader = OpenOptions::new().ignore_checksum(true).open_source(&bad[..]).unwrap();
    assert_eq!(reader.tensors().len(), 1);
    let report = reader.verify(VerifyLevel::Header);
    assert_eq!(report.check("structure").unwrap().status, Status::Failed);
    // The option skips the checksum, not the checks of the structure.
    let broken = patched(&good, 12, &[1]);
    assert!(OpenOptions::new().ignore_checksum(true).open_source(&broken[..]).is_err());
}

#[test]
fn files_without_a_footer_and_tied_tensors_are_good() {
    let file = changed(|f| f.has_footer = false);
    let reader = Reader::from_source(&file[..]).unwrap();
    let report = reader.verify(VerifyLevel::Full);
    assert!(report.is_ok(), "{:?}", report.errors);
    assert_eq!(report.check("crc").unwrap().status, Status::Absent);
    let tied = changed(|f| {
        f.entries[1] = Entry::u8s("b", 0, 5);
        f.data.truncate(64);
    });
    assert!(findings(&tied).is_empty());
    let empty = changed(|f| {
        f.entries = vec![Entry::u8s("e", 0, 0)];
        f.data.clear();
    });
    assert!(findings(&empty).is_empty());
    let old = changed(|f| (f.magic, f.flags) = (*b"APR2", 0));
    assert!(findings(&old).is_empty());
    let flags = changed(|f| f.flags = 0x400 | 12);
    let report = Reader::from_source(&flags[..]).unwrap().verify(VerifyLevel::Full);
    assert!(report.is_ok());
    for name in ["signature", "encryption"] {
        assert_eq!(report.check(name).unwrap().status, Status::Absent);
    }
}

#[test]
fn every_length_of_a_file_that_was_cut_is_an_error_or_a_finding() {
    let two = File::two();
    let good = two.build();
    for len in 0..good.len() {
        let cut = &good[..len];
        match bounded(len, || Reader::from_source(cut)) {
            Err(Error::Truncated { .. } | Error::Malformed { .. }) => assert!(len < good.len() - 64, "{len}"),
            Err(error) => panic!("{len}: {error}"),
            Ok(_) if len == good.len() - 4 => {
                assert!(findings(cut).is_empty(), "files without a footer exist");
            }
            Ok(_) => assert!(!findings(cut).is_empty(), "{len}"),
        }
    }
    for file in [two.lz4(), two.zstd()] {
        for len in 0..file.len() {
            assert!(Reader::from_source(&file[..len]).is_err(), "{len} of {}", file.len());
        }
    }
}

#[test]
fn every_flipped_bit_is_found() {
    let good = File::two().build();
    for bit in 0..good.len() * 8 {
        let flipped = patched(&good, bit / 8, &[good[bit / 8] ^ (1 << (bit % 8))]);
        if let Ok(reader) = Reader::from_source(&flipped[..]) {
            assert!(!reader.verify(VerifyLevel::Full).is_ok(), "bit {bit}");
        }
    }
}

#[test]
fn content_that_is_compressed_as_a_whole_is_expanded() {
    let two = File::two();
    for (file, encoding) in [(two.lz4(), "lz4"), (two.zstd(), "zstd")] {
        let reader = bounded(file.len(), || Reader::from_source(&file[..])).unwrap();
        let far = Reader::from_source(CountingSource::new(file.clone())).unwrap();
        assert_eq!(reader.tensor("a").unwrap().bytes(), [1, 2, 3, 4, 5]);
        assert_eq!(far.tensor("b").unwrap().bytes(), [6, 7, 8]);
        let mut out = [0; 2];
        reader.read_into(0, 3, &mut out).unwrap();
        assert_eq!(out, [4, 5]);
        assert!(reader.read_into(0, 4, &mut out).is_err());
        let location = reader.index().location(0).unwrap();
        assert_eq!((location.encoding.name(), location.offset), (encoding, Some(two.data_at() as u64)));
        assert!(reader.verify(VerifyLevel::Full).is_ok());
        assert_eq!(reader.index().file_len(), file.len() as u64);
    }
    // A flag on uncompressed content does not make it compressed.
    for flag in [1, 2, 3] {
        let plain = changed(|f| f.flags |= flag);
        let reader = Reader::from_source(&plain[..]).unwrap();
        assert_eq!(reader.index().location(0).unwrap().encoding.name(), "raw");
        assert!(reader.verify(VerifyLevel::Full).is_ok());
    }
    // The CRC in the expanded content finds damage there.
    let mut file = two.lz4();
    let at = file.len() - 70;
    file[at] ^= 1;
    let report = Reader::from_source(&file[..]).unwrap().verify(VerifyLevel::Full);
    assert!(report.errors.iter().any(|text| text.contains("crc32")), "{:?}", report.errors);
}

#[test]
fn compressed_content_that_lies_is_refused() {
    let two = File::two();
    let file = |flag: u16, content: &[u8]| {
        let whole = File { flags: 0x400 | flag, ..two.clone() }.build();
        [&whole[..64], content].concat()
    };
    let inner = two.build()[64..].to_vec();
    let lz4 =
        |len: usize, block: &[u8]| file(1, &[&u32::try_from(len).unwrap().to_le_bytes(), block].concat());
    let good = literals(&inner);
    for (name, file) in [
        ("a length too large", lz4(inner.len() + 1, &good)),
        ("a length too small", lz4(inner.len() - 1, &good)),
        ("a length of 4 GiB", lz4(u32::MAX as usize, &good)),
        ("no block", lz4(inner.len(), &[])),
        ("noise", lz4(inner.len(), &crate::common::noise(300, 1))),
        ("no length", file(1, &[1, 2])),
        ("nothing", file(1, &[])),
        ("a frame that ends early", file(2, &zstd_frame(&inner)[..100])),
        ("noise behind the frame", file(2, &[&zstd_frame(&inner)[..], b"noise"].concat())),
        ("no frame", file(2, &crate::common::noise(300, 2))),
        ("a frame of something else", file(2, &zstd_frame(b"hello"))),
        ("encrypted", file(4, &crate::common::noise(300, 3))),
    ] {
        let error = bounded(file.len(), || Reader::from_source(&file[..]).map(|_| ())).unwrap_err();
        assert!(matches!(error, Error::Malformed { .. } | Error::Truncated { .. }), "{name}: {error:?}");
        let far = Reader::from_source(CountingSource::new(file)).map(|_| ()).unwrap_err();
        assert_eq!(far.to_string(), error.to_string(), "{name}");
    }
}

/// Zeros that expand by a factor of more than a thousand, in the only way that LZ4 has: a long match.
#[test]
fn expansion_has_a_limit() {
    let zeros = 64 << 20;
    let mut block = vec![0x1f, 0, 1, 0];
    let more = zeros - 1 - 19 - 5;
    block.extend(vec![255; more / 255]);
    block.extend([u8::try_from(more % 255).unwrap(), 0x50, 0, 0, 0, 0, 0]);
    let whole = changed(|f| f.flags |= 1);
    let file = [&whole[..64], &u32::try_from(zeros).unwrap().to_le_bytes(), &block].concat();
    let mut limits = Limits::default();
    limits.expansion = 16;
    let (error, held) = peak(|| OpenOptions::new().limits(limits).open_source(&file[..]).map(|_| ()));
    assert!(matches!(error, Err(Error::Malformed { fault: Fault::Expansion { .. }, .. })), "{error:?}");
    assert!(held < 1 << 20, "{held}");
    let error = Reader::from_source(&file[..]).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("metadata"), "what it expands to is no file: {error}");
}

#[test]
fn every_limit_can_be_lowered() {
    type Lower = fn(&mut Limits);
    let rows: [(&str, Lower); 6] = [
        ("the number of tensors", |l| l.tensors = 1),
        ("the length of a name", |l| l.name_len = 0),
        ("the number of dimensions", |l| l.rank = 0),
        ("the length of the index", |l| l.index_len = 10),
        ("the length of the metadata", |l| l.metadata_len = 10),
        ("", |l| l.depth = 0),
    ];
    for (name, lower) in rows {
        let mut limits = Limits::default();
        lower(&mut limits);
        let file = File::two().build();
        let error = OpenOptions::new().limits(limits).open_source(&file[..]).map(|_| ()).unwrap_err();
        match error {
            Error::Limit { what, .. } => assert_eq!(what, name),
            error => assert!(name.is_empty() && error.to_string().contains("nested deeper"), "{error}"),
        }
    }
}

#[test]
fn a_source_that_fails_is_an_error_and_never_a_wrong_answer() {
    let two = File::two();
    for file in [two.build(), two.lz4()] {
        let all = |broken: std::ops::Range<u64>| -> Result<(), Error> {
            let reader = Reader::from_source(FaultySource::new(file.clone(), broken))?;
            reader.tensor("a")?;
            reader.tensor("b")?;
            reader.verify(VerifyLevel::Full).into_result().map_err(|_| Error::Cancelled)?;
            Ok(())
        };
        let len = file.len() as u64;
        all(len..len).unwrap();
        for at in 0..len {
            assert!(all(at..at + 1).is_err(), "{at}");
        }
    }
}

#[test]
fn metadata_far_from_the_index_is_asked_for_alone() {
    let far = changed(|f| {
        f.metadata.extend(vec![b' '; 100_000]);
        f.metadata_size = Some(u32::try_from(crate::common::METADATA.len()).unwrap());
    });
    let source = CountingSource::new(far.clone());
    let reader = Reader::from_source(source).unwrap();
    assert!(reader.source().nbytes() < 40_000, "{}", reader.source().nbytes());
    let parsed =
        parse_source(Index::parser(far.len() as u64, OpenOptions::new().settings()), &&far[..]).unwrap();
    assert!(parsed.tensors().iter().eq(reader.tensors().iter()));
    assert!(Index::parse(&far).is_ok());
}

/// No digest covers the stored bytes, and a digest of the expanded content has no place in the file, so
/// intact content never counts as checked. Content that does not match its own CRC is refused anyway.
#[test]
fn checked_reads_of_compressed_content_say_that_there_is_no_hash_or_what_is_damaged() {
    type Checked = Result<Vec<u8>, Error>;
    let reads = |file: &[u8]| -> Vec<Checked> {
        let near = Reader::from_source(file).unwrap();
        let far = Reader::from_source(CountingSource::new(file.to_vec())).unwrap();
        let whole = [near.checked().tensor("a"), far.checked().tensor("a"), near.checked().tensor("b")];
        let part = [near.checked().read_range("b", 1..3), far.checked().read_range("b", 0..0)];
        let whole = whole.map(|tensor| tensor.map(|tensor| tensor.bytes().to_vec()));
        whole.into_iter().chain(part.map(|bytes| bytes.map(|bytes| bytes.to_vec()))).collect()
    };
    let two = File::two();
    let bare = File { has_footer: false, ..two.clone() };
    for file in [two.lz4(), two.zstd(), bare.lz4(), bare.zstd()] {
        for read in reads(&file) {
            assert!(matches!(read, Err(Error::NoHash { .. })), "{read:?}");
        }
    }
    let mut damaged = two.lz4();
    let at = damaged.len() - 70; // a literal: it still expands
    damaged[at] ^= 1;
    for read in reads(&damaged) {
        assert!(matches!(read, Err(Error::Malformed { fault: Fault::Crc { .. }, .. })), "{read:?}");
    }
}

/// The memory held for compressed content depends on the limits, not on what the content claims or would
/// expand to.
#[test]
fn the_memory_of_compressed_content_is_bounded_by_the_limits() {
    const LEN: usize = (1 << 20) + 100_000;
    let of_zeros = |flag: u16| {
        let mut file = File { flags: 0x400 | flag, has_footer: false, ..File::two() };
        file.entries = vec![Entry::u8s("z", 0, LEN as u64)];
        file.data.clear();
        file.build()
    };
    for flag in [1u16, 2] {
        let plain = of_zeros(flag);
        let stored =
            if flag == 1 { lz4_with_zeros(&plain[64..], LEN) } else { zstd_with_zeros(&plain[64..], LEN) };
        let file = [&plain[..64], &stored].concat();
        assert!(file.len() < 32 << 10, "{}", file.len());
        let open = |limits: Limits| {
            let options = OpenOptions::new().limits(limits);
            peak(|| options.open_source(&file[..]).map(|reader| reader.tensors().len()))
        };
        let (opened, held) = open(Limits::default());
        assert!(matches!(opened, Ok(1)), "{flag}: {opened:?}");
        // The expanded content, which grows in steps, and a copy of it after the header.
        println!("{flag}: {held} bytes held for {} that become {LEN}", file.len());
        assert!(held < 4 * LEN, "{flag}: {held}");
        let (mut small, mut short) = (Limits::default(), Limits::default());
        (small.expansion, short.metadata_len) = (1, 1 << 20);
        for limits in [small, short] {
            let (refused, held) = open(limits);
            let is_expansion =
                matches!(refused, Err(Error::Malformed { fault: Fault::Expansion { .. }, .. }));
            assert!(is_expansion, "{flag}: {refused:?}");
            println!("{flag}: {held} bytes held for what is refused");
            assert!(held < 4 << 20, "{flag}: {held}");
        }
    }
}
