//! One row per rule that a file can break, and files that claim to hold more than they do.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "helpers of tests"
)]

use std::io;

use crate::common::{Tensor, checksum_of, malformed, metadata, open, signed, write};
use mag::modelfmt_core::{CommonFault, Container, Status};
use mag::value::Value;
use mag::{Checksum, DType, Error, Fault, Limits, OpenOptions, Reader, Source, VerifyLevel};
use testkit::{CountingSource, FaultySource, patched, peak};

/// The offsets of the parts of [`good`].
const ENTRY_N: usize = 24;
const ENTRY_M: usize = 41;
const TENSOR_A: usize = 58;
const TENSOR_B: usize = 99;
const RECORDS_END: usize = 132;
const DATA_A: usize = 192;
const DATA_B: usize = 256;
const FILE_LEN: usize = 264;

/// Returns a file with two entries and two tensors, f32 [2, 3] and i16 [4].
fn good(checksum: Checksum) -> Vec<u8> {
    let tensors =
        [Tensor::counting("a", DType::F32, &[2, 3], 0), Tensor::counting("b", DType::I16, &[4], 100)];
    let metadata = metadata([("n", Value::from(7)), ("m", Value::from(0.5))]);
    let file = write(&tensors, &metadata, checksum);
    assert_eq!(file.len(), FILE_LEN);
    for (at, byte) in
        [(ENTRY_N + 16, b'n'), (ENTRY_M + 16, b'm'), (TENSOR_A + 40, b'a'), (TENSOR_B + 32, b'b')]
    {
        assert_eq!(file[at], byte);
    }
    assert_eq!((file[DATA_A], file[DATA_B]), (0, 100));
    file
}

/// A rule, the offset and bytes of a patch that breaks it (the checksum is then corrected), and the expected
/// offset and fault.
type Row = (&'static str, usize, Vec<u8>, u64, Fault);

fn rules() -> Vec<Row> {
    let u32s = |n: u32| n.to_le_bytes().to_vec();
    let u64s = |n: u64| n.to_le_bytes().to_vec();
    let out = |offset, len| CommonFault::OutOfBounds { offset, len, end: FILE_LEN as u64 }.into();
    let many = |shape: &str| CommonFault::TooManyElements(shape.to_owned()).into();
    let twice = |name: &str| CommonFault::Duplicate(name.to_owned()).into();
    vec![
        ("magic", 0, b"GGUF".to_vec(), 0, Fault::Magic(*b"GGUF")),
        ("version 0", 4, u32s(0), 4, Fault::Version(0)),
        ("version 2", 4, u32s(2), 4, Fault::Version(2)),
        ("header aux", 20, u32s(1), 20, Fault::Reserved(1)),
        ("header aux, high bit", 20, u32s(1 << 31), 20, Fault::Reserved(1 << 31)),
        ("metadata type 0", ENTRY_N, vec![0], 24, Fault::MetadataType(0)),
        ("metadata type 3", ENTRY_N, vec![3], 24, Fault::MetadataType(3)),
        ("metadata type 255", ENTRY_M, vec![255], 41, Fault::MetadataType(255)),
        ("metadata aux, byte 1", ENTRY_N + 1, vec![1], 24, Fault::Reserved(0x0101)),
        ("metadata aux, byte 2", ENTRY_N + 2, vec![1], 24, Fault::Reserved(0x1_0001)),
        ("metadata aux, byte 3", ENTRY_N + 3, vec![0x80], 24, Fault::Reserved(0x8000_0001)),
        ("metadata key of no bytes", ENTRY_N + 12, u32s(0), 36, Fault::EmptyKey),
        ("metadata key of 65,536 bytes", ENTRY_N + 12, u32s(65_536), 36, Fault::KeyLength(65_536)),
        ("metadata key of 4 GiB", ENTRY_N + 12, u32s(u32::MAX), 36, Fault::KeyLength(u64::from(u32::MAX))),
        ("metadata key in Latin-1", ENTRY_N + 16, vec![0xe9], 40, CommonFault::Utf8.into()),
        ("metadata key twice", ENTRY_M + 16, b"n".to_vec(), 57, twice("n")),
        ("dtype 11", TENSOR_A, vec![11], 58, Fault::DTypeCode(11)),
        ("dtype 255", TENSOR_A, vec![255], 58, Fault::DTypeCode(255)),
        // The key then begins inside the shape: length 2, and two zero bytes.
        ("rank 0", TENSOR_A + 1, vec![0], 59, Fault::Rank0),
        ("tensor aux, byte 2", TENSOR_A + 2, vec![1], 58, Fault::Reserved(0x1_0200)),
        ("tensor aux, byte 3", TENSOR_A + 3, vec![1], 58, Fault::Reserved(0x100_0200)),
        ("numel too small", TENSOR_A + 4, u64s(5), 62, Fault::Numel { found: 5, expected: 6 }),
        ("numel of 0", TENSOR_A + 4, u64s(0), 62, Fault::Numel { found: 0, expected: 6 }),
        (
            "numel of 2^64 - 1",
            TENSOR_A + 4,
            u64s(u64::MAX),
            62,
            Fault::Numel { found: u64::MAX, expected: 6 },
        ),
        (
            "a shape that numel does not fit",
            TENSOR_B + 20,
            u64s(5),
            103,
            Fault::Numel { found: 4, expected: 5 },
        ),
        ("dimension 2^63", TENSOR_A + 20, u64s(1 << 63), 78, Fault::Dimension(1 << 63)),
        ("dimension 2^64 - 1", TENSOR_A + 28, u64s(u64::MAX), 78, Fault::Dimension(u64::MAX)),
        ("a product beyond 2^64", TENSOR_A + 20, u64s(1 << 62), 78, many("[4611686018427387904, 3]")),
        ("bytes beyond 2^63", TENSOR_B + 20, u64s(1 << 62), 119, many("[4611686018427387904]")),
        ("buffer behind the file", TENSOR_A + 12, u64s(320), 70, out(320, 24)),
        ("buffer that ends behind the file", TENSOR_A + 12, u64s(256), 70, out(256, 24)),
        ("offset 2^63", TENSOR_A + 12, u64s(1 << 63), 70, out(1 << 63, 24)),
        ("offset 2^64 - 64", TENSOR_A + 12, u64s(u64::MAX - 63), 70, out(u64::MAX - 63, 24)),
        ("an end that wraps to 0", TENSOR_A + 12, u64s(u64::MAX - 23), 70, out(u64::MAX - 23, 24)),
        ("offset 2^64 - 1", TENSOR_B + 12, u64s(u64::MAX), 111, out(u64::MAX, 8)),
        ("tensor key of no bytes", TENSOR_A + 36, u32s(0), 94, Fault::EmptyKey),
        ("tensor key of 65,536 bytes", TENSOR_A + 36, u32s(65_536), 94, Fault::KeyLength(65_536)),
        ("tensor key in Latin-1", TENSOR_B + 32, vec![0xff], 131, CommonFault::Utf8.into()),
        ("tensor key twice", TENSOR_B + 32, b"a".to_vec(), 131, twice("a")),
    ]
}

#[test]
fn every_rule_is_kept_at_open() {
    let good = good(Checksum::Crc32);
    for (rule, at, bytes, offset, fault) in rules() {
        let found = malformed(&signed(&patched(&good, at, &bytes), RECORDS_END));
        assert_eq!(found, (offset, fault), "{rule}");
    }
}

#[test]
fn errors_name_the_record_the_tensor_and_the_field() {
    let file = signed(&patched(&good(Checksum::Crc32), TENSOR_B + 4, &[9]), RECORDS_END);
    let text = open(&file).err().unwrap().to_string();
    assert_eq!(text, "tensor record 1 \"b\", numel at byte 103: is 9, but the dimensions have the product 4");
}

#[test]
fn a_key_that_leaves_the_file_is_cut_short() {
    let file = signed(&patched(&good(Checksum::Crc32), TENSOR_B + 28, &60_000u32.to_le_bytes()), RECORDS_END);
    let error = open(&file).err().unwrap();
    assert!(matches!(error, Error::Truncated { at: 131, need: 60_000, have: 133, .. }), "{error:?}");
}

/// The offset of the empty tensor is checked too. It may be the end of the file, but no more.
#[test]
fn an_empty_tensor_lies_in_the_file() {
    let file = write(&[Tensor::counting("e", DType::F32, &[0], 0)], &metadata([]), Checksum::Crc32);
    assert_eq!(file.len(), 64);
    assert!(open(&file).is_ok());
    let (at, fault) = malformed(&signed(&patched(&file, 36, &65u64.to_le_bytes()), 57));
    assert_eq!((at, fault), (36, CommonFault::OutOfBounds { offset: 65, len: 0, end: 64 }.into()));
}

#[test]
fn what_is_for_verify_opens_and_is_reported() {
    let good = good(Checksum::Crc32);
    let findings = |tensor: usize, offset: u64| {
        let file = signed(&patched(&good, tensor + 12, &offset.to_le_bytes()), RECORDS_END);
        let reader = open(&file).unwrap();
        for level in [VerifyLevel::Header, VerifyLevel::Control] {
            assert!(reader.verify(level).is_ok(), "extents are for the full level");
        }
        let report = reader.verify(VerifyLevel::Full);
        assert_eq!(report.check("extents").unwrap().status == Status::Failed, !report.is_ok());
        report.errors
    };
    let misaligned = "tensor \"a\" at byte 193: the offset is not a multiple of 64";
    assert_eq!(findings(TENSOR_A, 193), [misaligned]);
    let over = "tensor \"a\" at byte 128: lies over the records, which end at byte 132";
    assert_eq!(findings(TENSOR_A, 128), [over]);
    let overlap = "tensor \"a\" at byte 192: shares some of its bytes with tensor \"b\"";
    assert_eq!(findings(TENSOR_B, 192), [overlap]);
    let all = [
        "tensor \"a\" at byte 233: the offset is not a multiple of 64",
        "tensor \"b\" at byte 256: shares some of its bytes with tensor \"a\"",
    ];
    assert_eq!(findings(TENSOR_A, 233), all);
    assert_eq!(findings(TENSOR_A, 8).len(), 2, "misaligned, and over the records");
}

/// Two tensors over exactly the same bytes are allowed.
#[test]
fn tied_tensors_are_no_finding() {
    let tensors = ["a", "b"].map(|name| Tensor::counting(name, DType::I8, &[4], 0));
    let file = write(&tensors, &metadata([]), Checksum::Crc32);
    let tied = signed(&patched(&file, 24 + 33 + 12, &file[36..44]), 24 + 2 * 33);
    let reader = open(&tied).unwrap();
    assert_eq!(reader.index().tensors().location(0), reader.index().tensors().location(1));
    assert!(reader.verify(VerifyLevel::Full).is_ok());
}

#[test]
fn every_length_of_a_file_that_was_cut_is_an_error() {
    for checksum in [Checksum::Crc32, Checksum::Crc32c] {
        let file = good(checksum);
        for len in 0..file.len() {
            let error = open(&file[..len]).err().unwrap_or_else(|| panic!("{len} bytes open"));
            match error {
                Error::Truncated { .. } => assert!(len < RECORDS_END, "{len} bytes: {error}"),
                Error::Malformed { fault: Fault::Common(CommonFault::OutOfBounds { .. }), .. } => {
                    assert!(len >= TENSOR_B, "{len} bytes: {error}");
                }
                _ => panic!("{len} bytes: {error}"),
            }
        }
        // Bytes after the last buffer are accepted.
        assert!(open(&[file.as_slice(), &[0; 100]].concat()).is_ok());
    }
}

#[test]
fn every_flipped_bit_of_header_and_records_is_found() {
    for checksum in [Checksum::Crc32, Checksum::Crc32c] {
        let file = good(checksum);
        for bit in 0..RECORDS_END * 8 {
            let flipped = patched(&file, bit / 8, &[file[bit / 8] ^ (1 << (bit % 8))]);
            assert!(open(&flipped).is_err(), "bit {bit} of a file with {}", checksum.name());
        }
        // The checksum does not cover the values.
        assert!(open(&patched(&file, DATA_A, &[1])).is_ok());
    }
}

#[test]
fn a_file_that_matches_no_checksum_opens_only_when_asked() {
    for checksum in [Checksum::Crc32, Checksum::Crc32c] {
        let file = patched(&good(checksum), ENTRY_N + 4, &[8]);
        let stored = checksum_of(&good(checksum), RECORDS_END, checksum);
        let fault = Fault::Checksum {
            stored,
            crc32: checksum_of(&file, RECORDS_END, Checksum::Crc32),
            crc32c: checksum_of(&file, RECORDS_END, Checksum::Crc32c),
        };
        assert_eq!(malformed(&file), (8, fault.clone()));

        let reader = OpenOptions::new().ignore_checksum(true).open_source(file.as_slice()).unwrap();
        assert_eq!(reader.index().checksum(), None);
        assert_eq!(reader.index().metadata().get("n"), Some(&Value::from(8)));
        assert_eq!(reader.tensor("b").unwrap().bytes()[0], 100);
        assert!(reader.details().unwrap().get("checksum").unwrap().is_null());
        assert!(reader.verify(VerifyLevel::Header).is_ok(), "nothing is hashed at this level");
        for level in [VerifyLevel::Control, VerifyLevel::Full] {
            let report = reader.verify(level);
            assert_eq!(report.errors, [format!("header, checksum at byte 8: {fault}")]);
            assert_eq!(report.check("crc").unwrap().status, Status::Failed);
        }
        // The option skips the checksum, not the checks of the structure.
        let broken = patched(&file, 20, &[1]);
        assert!(OpenOptions::new().ignore_checksum(true).open_source(broken.as_slice()).is_err());
    }
}

#[test]
fn counts_beyond_the_file_allocate_nothing() {
    let mut file = good(Checksum::Crc32)[..100].to_vec();
    for (num_tensors, num_meta_kv) in [(u32::MAX, 0), (0, u32::MAX), (u32::MAX, u32::MAX), (3, 0), (0, 5)] {
        file[12..16].copy_from_slice(&num_tensors.to_le_bytes());
        file[16..20].copy_from_slice(&num_meta_kv.to_le_bytes());
        let (result, nbytes) = peak(|| Reader::from_source(file.as_slice()).map(|_| ()));
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Truncated { .. } | Error::Limit { .. }), "{error:?}");
        assert!(nbytes < 1024, "{nbytes} bytes for {num_tensors} tensors, {num_meta_kv} entries");
    }
}

/// A source that claims to be vast and is zero after its first bytes, like a sparse file.
struct Sparse(Vec<u8>);

impl Source for Sparse {
    fn len(&self) -> u64 {
        1 << 62
    }
    fn read_into(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        out.fill(0);
        let begin = usize::try_from(offset).unwrap_or(usize::MAX).min(self.0.len());
        let len = out.len().min(self.0.len() - begin);
        out[..len].copy_from_slice(&self.0[begin..begin + len]);
        Ok(())
    }
}

#[test]
fn counts_that_a_sparse_file_could_hold_allocate_little() {
    let mut head = good(Checksum::Crc32)[..24].to_vec();
    head[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
    head[16..20].copy_from_slice(&0u32.to_le_bytes());
    let error = Reader::from_source(Sparse(head.clone())).map(|_| ()).unwrap_err();
    assert!(matches!(error, Error::Limit { what: "the length of the records", .. }), "{error:?}");

    let mut limits = Limits::default();
    limits.index_len = u64::MAX;
    let options = OpenOptions::new().limits(limits);
    let (result, nbytes) = peak(|| options.open_source(Sparse(head)).map(|_| ()));
    match result {
        Err(Error::Malformed { at: 44, fault: Fault::EmptyKey, .. }) => {}
        // The address space is a limit that nobody can raise.
        Err(Error::Limit { max, .. }) if usize::BITS == 32 && max == usize::MAX as u64 => {}
        other => panic!("{other:?}"),
    }
    assert!(nbytes < 64 << 20, "{nbytes} bytes");
}

type Lower = fn(&mut Limits);

#[test]
fn every_limit_can_be_lowered() {
    fn row(lower: Lower) -> (Result<(), Error>, Result<(), Error>) {
        let file = good(Checksum::Crc32);
        let mut limits = Limits::default();
        lower(&mut limits);
        let options = OpenOptions::new().limits(limits);
        let by_ranges = options.open_source(CountingSource::new(file.clone())).map(|_| ());
        (options.open_source(file.as_slice()).map(|_| ()), by_ranges)
    }
    let rows: [(Lower, &str, u64, u64); 5] = [
        (|l| l.tensors = 1, "the number of tensors", 2, 1),
        (|l| l.entries = 1, "the number of metadata entries", 2, 1),
        (|l| l.name_len = 0, "the length of a metadata key", 1, 0),
        (|l| l.rank = 1, "the rank of a tensor", 2, 1),
        (|l| l.index_len = 131, "the length of the records", 132, 131),
    ];
    for (lower, name, number, cap) in rows {
        let (a, b) = row(lower);
        for result in [a, b] {
            let Err(Error::Limit { what, found, max }) = result else { panic!("{name}: {result:?}") };
            assert_eq!((what, found, max), (name, number, cap));
        }
    }
    let exact: Lower = |l| {
        (l.tensors, l.entries, l.name_len, l.rank, l.index_len) = (2, 2, 1, 2, RECORDS_END as u64);
    };
    assert!(row(exact).0.is_ok() && row(exact).1.is_ok());
    let file = write(&[Tensor::counting("long", DType::I8, &[1], 0)], &metadata([]), Checksum::Crc32);
    let mut limits = Limits::default();
    limits.name_len = 3;
    let error = OpenOptions::new().limits(limits).open_source(file.as_slice()).map(|_| ()).unwrap_err();
    assert!(
        matches!(error, Error::Limit { what: "the length of a tensor name", found: 4, max: 3 }),
        "{error:?}"
    );
}

#[test]
fn what_cannot_be_read_says_where() {
    let file = good(Checksum::Crc32);
    let error = Reader::from_source(FaultySource::new(file.clone(), 30..31)).map(|_| ()).unwrap_err();
    assert!(matches!(error, Error::Io { at: 0, len: 264, .. }), "{error:?}");

    let mut padded = file;
    padded.resize(100_000, 0);
    let after_open = (1 << 16) + DATA_A as u64;
    let moved = signed(&patched(&padded, TENSOR_A + 12, &after_open.to_le_bytes()), RECORDS_END);
    let reader = Reader::from_source(FaultySource::new(moved, after_open + 23..after_open + 24)).unwrap();
    let error = reader.tensor("a").map(|_| ()).unwrap_err();
    assert!(matches!(error, Error::Io { at, len: 24, .. } if at == after_open), "{error:?}");
    assert!(reader.read_into(0, 0, &mut [0; 23]).is_ok());
    let error = reader.read_into(0, 20, &mut [0; 4]).unwrap_err();
    assert!(matches!(error, Error::Io { at, len: 4, .. } if at == after_open + 20), "{error:?}");
    assert!(reader.tensor("b").is_ok());
}
