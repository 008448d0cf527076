//! Files that break a rule: one row each, with the error and its offset.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "test code")]

use modelfmt_core::{CommonFault, Status};
use oinf::{
    Bitset, Container, DType, Error, Fault, Index, Limits, Metadata, NdArray, OpenOptions, Reader,
    TensorSpec, ValueType, VerifyLevel,
};
use testkit::{CountingSource, FaultySource, bounded, patched, peak};

/// Returns a small file that keeps every rule. The rows below refer to these offsets:
///
/// ```text
///   0 header, 69 padding          352 value of a, 358 padding
///  72 size variable D, 80 value   360 value of b (bit_count, byte_count, bytes at 368), 370 padding
///  88 entry a  120 b  152 c       376 value of c (element_type, ndim, dims, data at 392), 395 padding
/// 184 d (type 192, flags 196,     400 value of d, 401 padding
///     nbytes 200, offset 208)     408 tensor t, 411 padding
/// 216 tensor t 260 u  304 w       416 tensor w
///     (dtype 312, ndim 316,       424 end
///     flags 320, dims 324,
///     nbytes 332, offset 340)
/// ```
fn good() -> Vec<u8> {
    let metadata = Metadata::new()
        .sizevar("D", 3)
        .value("a", "ab")
        .value("b", Bitset::new(9, vec![0x55, 1]).unwrap())
        .value("c", NdArray::new(DType::Bool, vec![3], vec![1, 0, 1]).unwrap())
        .value("d", true);
    let specs = [
        TensorSpec::new("t", DType::Bool, vec![3]),
        TensorSpec::declared("u", DType::F32, vec![2]),
        TensorSpec::new("w", DType::F32, vec![2]),
    ];
    let file = crate::common::write(&specs, &metadata, &[vec![1, 1, 0], vec![], vec![7; 8]], 1);
    assert_eq!((file.len(), &file[352..358], file[400]), (424, &b"\x02\0\0\0ab"[..], 1));
    file
}

#[test]
fn the_file_itself_is_good() {
    let file = good();
    let report = Reader::from_source(&file[..]).unwrap().verify(VerifyLevel::Full);
    assert!(report.is_ok(), "{report:?}");
    let checks: Vec<_> = report.checks.iter().map(|check| check.name).collect();
    assert_eq!(checks, ["structure", "padding", "values", "extents"]);
    let checks = Reader::from_source(&file[..]).unwrap().verify(VerifyLevel::Control).checks;
    assert_eq!(checks.iter().map(|check| check.name).collect::<Vec<_>>(), ["structure"]);
}

/// A name, the offset and bytes of a patch, and the expected fault and offset.
type Row = (&'static str, usize, Vec<u8>, Fault, u64);

fn u32s(n: u32) -> Vec<u8> {
    n.to_le_bytes().to_vec()
}

fn u64s(n: u64) -> Vec<u8> {
    n.to_le_bytes().to_vec()
}

fn character(byte: u8, position: usize) -> Fault {
    Fault::Character { found: format!("the byte {byte:#04x}"), position }
}

fn payload_len(value_type: ValueType, found: u64, expected: u64) -> Fault {
    Fault::PayloadLen { value_type, found, expected }
}

fn out_of_bounds(offset: u64, len: u64) -> Fault {
    Fault::Common(CommonFault::OutOfBounds { offset, len, end: 424 })
}

fn header_rows() -> Vec<Row> {
    vec![
        ("magic", 0, b"X".to_vec(), Fault::Magic, 0),
        ("magic without its zero", 4, b" ".to_vec(), Fault::Magic, 0),
        ("version", 5, u32s(3), Fault::Version(3), 5),
        ("flags", 9, u32s(1), Fault::NotZero(1), 9),
        ("reserved", 25, u32s(0x100), Fault::NotZero(0x100), 25),
        ("offset_sizevars unaligned", 29, u64s(73), Fault::Unaligned(73), 29),
        ("offset_sizevars in the header", 29, u64s(64), Fault::NotAscending { offset: 64, before: 72 }, 29),
        ("offset_metadata before", 37, u64s(64), Fault::NotAscending { offset: 64, before: 72 }, 37),
        ("offset_metadata unaligned", 37, u64s(84), Fault::Unaligned(84), 37),
        ("offset_tensors before", 45, u64s(80), Fault::NotAscending { offset: 80, before: 88 }, 45),
        ("offset_tensors unaligned", 45, u64s(220), Fault::Unaligned(220), 45),
        ("offset_data before", 53, u64s(208), Fault::NotAscending { offset: 208, before: 216 }, 53),
        ("offset_data unaligned", 53, u64s(348), Fault::Unaligned(348), 53),
        ("offset_data beyond the end", 53, u64s(432), out_of_bounds(432, 0), 53),
        ("offset_data near 2^64", 53, u64s(u64::MAX - 7), out_of_bounds(u64::MAX - 7, 0), 53),
        ("file_size longer", 61, u64s(432), Fault::FileSize { stated: 432, actual: 424 }, 61),
        ("file_size shorter", 61, u64s(416), Fault::FileSize { stated: 416, actual: 424 }, 61),
    ]
}

fn metadata_rows() -> Vec<Row> {
    let bits = |found, bits, expected| Fault::BitsetBytes { found, bits, expected };
    let too_many = |shape: &str| Fault::Common(CommonFault::TooManyElements(shape.to_owned()));
    vec![
        ("size variable without a name", 72, u32s(0), Fault::EmptyString, 76),
        ("space in a name", 76, b" ".to_vec(), character(b' ', 0), 76),
        ("slash in a key", 92, b"/".to_vec(), character(b'/', 0), 92),
        ("byte beyond ASCII in a key", 92, b"\xc3".to_vec(), character(0xc3, 0), 92),
        ("key twice", 124, b"a".to_vec(), Fault::Common(CommonFault::Duplicate("a".to_owned())), 120),
        ("value type 0", 96, u32s(0), Fault::UnknownType(0), 96),
        ("value type 26", 96, u32s(26), Fault::UnknownType(26), 96),
        ("bf16 value of another length", 192, u32s(16), payload_len(ValueType::Bf16, 1, 8), 400),
        ("t1 value of another length", 96, u32s(25), payload_len(ValueType::T1, 8, 1), 352),
        ("value_flags", 100, u32s(1), Fault::NotZero(1), 100),
        ("value_offset unaligned", 112, u64s(353), Fault::Unaligned(353), 112),
        ("value_offset in the tables", 112, u64s(344), Fault::BeforeData { offset: 344, data: 352 }, 112),
        ("value beyond the end", 112, u64s(424), out_of_bounds(424, 8), 112),
        ("value_offset near 2^64", 112, u64s(u64::MAX - 7), out_of_bounds(u64::MAX - 7, 8), 112),
        ("value_nbytes near 2^64", 104, u64s(u64::MAX), out_of_bounds(352, u64::MAX), 112),
        ("string with more than its padding", 104, u64s(16), payload_len(ValueType::Str, 16, 8), 352),
        ("string without its padding", 104, u64s(6), payload_len(ValueType::Str, 6, 8), 352),
        ("string shorter than it says", 352, u32s(40), payload_len(ValueType::Str, 8, 48), 352),
        ("string without characters", 352, u32s(0), Fault::EmptyString, 356),
        ("string with a space", 357, b" ".to_vec(), character(b' ', 1), 356),
        ("bit_count without bytes", 360, u32s(17), bits(2, 17, 3), 364),
        ("byte_count beyond bits", 364, u32s(3), bits(3, 9, 2), 364),
        (
            "byte_count near 2^32",
            360,
            [u32s(u32::MAX), u32s(1 << 29)].concat(),
            payload_len(ValueType::Bitset, 16, 8 + (1 << 29)),
            360,
        ),
        ("bitset longer than its bits", 136, u64s(24), payload_len(ValueType::Bitset, 24, 16), 360),
        ("array of strings", 376, u32s(14), Fault::NotNumeric(ValueType::Str), 376),
        ("array of nothing known", 376, u32s(0), Fault::UnknownType(0), 376),
        ("array with too many elements", 384, u64s(u64::MAX), too_many("[18446744073709551615]"), 384),
        ("array longer than its shape", 384, u64s(9), payload_len(ValueType::Ndarray, 24, 32), 376),
        ("array shorter than its shape", 384, u64s(0), payload_len(ValueType::Ndarray, 24, 16), 376),
        ("dimensions beyond the payload", 380, u32s(3), payload_len(ValueType::Ndarray, 24, 32), 376),
        ("boolean of two bytes", 200, u64s(2), payload_len(ValueType::Bool, 2, 1), 400),
        ("boolean of no byte", 200, u64s(0), payload_len(ValueType::Bool, 0, 8), 400),
        ("i64 of one byte", 192, u32s(4), payload_len(ValueType::I64, 1, 8), 400),
    ]
}

fn tensor_rows() -> Vec<Row> {
    let nbytes = |found, expected| Fault::Common(CommonFault::Nbytes { found, expected });
    let too_many = |shape: &str| Fault::Common(CommonFault::TooManyElements(shape.to_owned()));
    vec![
        ("name twice", 264, b"t".to_vec(), Fault::Common(CommonFault::Duplicate("t".to_owned())), 260),
        ("colon in a name", 308, b":".to_vec(), character(b':', 0), 308),
        ("dtype 0", 312, u32s(0), Fault::UnknownType(0), 312),
        ("bitset tensor", 312, u32s(13), Fault::NotNumeric(ValueType::Bitset), 312),
        ("array tensor", 312, u32s(15), Fault::NotNumeric(ValueType::Ndarray), 312),
        ("bf16 tensor", 312, u32s(16), CommonFault::Nbytes { found: 8, expected: 4 }.into(), 332),
        ("i4 tensor", 312, u32s(18), CommonFault::Nbytes { found: 8, expected: 1 }.into(), 332),
        ("unknown flag", 320, u32s(3), Fault::FlagBits(2), 320),
        ("declared with flag", 276, u32s(1 << 31), Fault::FlagBits(1 << 31), 276),
        ("declared with length", 288, u64s(8), Fault::DeclaredData(8), 288),
        ("declared with offset", 296, u64s(416), Fault::DeclaredData(416), 296),
        ("without flag but with data", 320, u32s(0), Fault::DeclaredData(416), 340),
        ("length and shape disagree", 332, u64s(4), nbytes(4, 8), 332),
        ("shape and length disagree", 324, u64s(1), nbytes(8, 4), 332),
        ("dtype and length disagree", 312, u32s(11), nbytes(8, 16), 332),
        ("too many elements", 324, u64s(1 << 63), too_many("[9223372036854775808]"), 304),
        ("too many declared elements", 280, u64s(u64::MAX), too_many("[18446744073709551615]"), 260),
        ("data unaligned", 340, u64s(412), Fault::Unaligned(412), 340),
        ("data in the tables", 340, u64s(0), Fault::BeforeData { offset: 0, data: 352 }, 340),
        ("data beyond the end", 340, u64s(424), out_of_bounds(424, 8), 340),
        ("data near 2^64", 340, u64s(u64::MAX - 7), out_of_bounds(u64::MAX - 7, 8), 340),
        ("length near 2^64", 332, u64s(u64::MAX), out_of_bounds(416, u64::MAX), 340),
    ]
}

#[test]
fn a_broken_rule_is_refused_with_what_and_where() {
    for (name, at, bytes, fault, where_) in [header_rows(), metadata_rows(), tensor_rows()].concat() {
        let file = patched(&good(), at, &bytes);
        match bounded(file.len(), || Index::parse(&file).map(|_| "opened")) {
            Err(Error::Malformed { at, fault: found, .. }) => {
                assert_eq!((found, at), (fault, where_), "{name}");
            }
            other => panic!("{name}: {other:?}"),
        }
        let (len, source) = (file.len(), CountingSource::new(file));
        let report = bounded(len, || OpenOptions::new().open_source(source).map(|_| ()));
        assert!(report.is_err(), "{name}: by ranges");
    }
}

#[test]
fn messages_name_the_type_and_what_to_do() {
    let message = |at, bytes: &[u8]| Index::parse(&patched(&good(), at, bytes)).unwrap_err().to_string();
    assert!(message(96, &u32s(26)).ends_with("is value type 26, which OINF does not define"));
    let text = "metadata value 1 \"b\", byte_count at byte 364: is 3, but 9 bits take 2 bytes";
    assert_eq!(message(364, &u32s(3)), text);
    assert_eq!(message(0, b"P"), "header, magic at byte 0: is not \"OINF\\0\": this is not an OINF file");
}

#[test]
fn tables_that_run_into_each_other_are_cut_short() {
    // One more size variable than fits; a metadata table that ends inside its last entry; a count that is
    // impossible in a file of this length.
    for (name, at, bytes) in [
        ("n_sizevars", 13, u32s(2)),
        ("n_metadata", 17, u32s(5)),
        ("n_tensors", 21, u32s(4)),
        ("n_tensors near 2^32", 21, u32s(u32::MAX)),
        ("tensor table that ends early", 53, u64s(336)),
        ("offset_sizevars without room", 29, u64s(80)),
        ("name that runs over the table", 304, u32s(60)),
        ("dimensions that run over the table", 316, u32s(200)),
    ] {
        let error = Index::parse(&patched(&good(), at, &bytes)).unwrap_err();
        assert!(matches!(error, Error::Truncated { .. }), "{name}: {error}");
    }
}

/// Each row has a name, the offset and bytes of a patch, the check that finds it, and the byte that it names.
#[test]
fn verify_finds_what_opening_lets_pass() {
    let file = good();
    let rows: [(&str, usize, &[u8], &str, u64); 17] = [
        ("header padding", 71, &[1], "padding", 71),
        ("padding of a size variable's name", 77, &[1], "padding", 77),
        ("padding of a key", 95, &[9], "padding", 95),
        ("padding of a tensor's name", 309, &[1], "padding", 309),
        ("padding of a section", 351, &[1], "padding", 351),
        ("padding of a string", 358, &[1], "padding", 358),
        ("padding of a bitset", 375, &[1], "padding", 375),
        ("padding of an array", 395, &[1], "padding", 395),
        ("padding behind a scalar", 407, &[1], "padding", 407),
        ("padding behind a tensor", 411, &[1], "padding", 411),
        ("boolean tensor", 409, &[2], "values", 409),
        ("boolean value", 400, &[2], "values", 400),
        ("boolean array", 394, &[0xff], "values", 376),
        ("bit beyond a bitset", 369, &[2], "values", 360),
        ("tensors that overlap in part", 340, &408u64.to_le_bytes(), "extents", 408),
        ("value over a tensor", 208, &408u64.to_le_bytes(), "extents", 408),
        ("no size variable any more", 13, &[0], "extents", 72),
    ];
    for (name, at, bytes, check, where_) in rows {
        let report = Reader::from_source(patched(&file, at, bytes)).unwrap().verify(VerifyLevel::Full);
        let failed: Vec<_> = report.checks.iter().filter(|c| c.status == Status::Failed).collect();
        assert_eq!(failed.iter().map(|c| c.name).collect::<Vec<_>>(), [check], "{name}: {report:?}");
        assert!(failed[0].detail.contains(&format!("at byte {where_}:")), "{name}: {report:?}");
        let report = Reader::from_source(patched(&file, at, bytes)).unwrap().verify(VerifyLevel::Control);
        assert!(report.is_ok(), "{name}: control looks at structure only");
    }
}

#[test]
fn verify_finds_holes_and_shared_bytes() {
    let longer = |mut file: Vec<u8>, by: usize| {
        file.resize(file.len() + by, 0);
        let len = file.len() as u64;
        patched(&file, 61, &u64s(len))
    };
    let undeclared = patched(&good(), 232, &[0; 28][..4]);
    let undeclared = patched(&undeclared, 244, &[0; 16]);
    let metadata = Metadata::new().value("a", "ab").value("b", "ab");
    let tied = crate::common::write(&[], &metadata, &[], 1); // tables to 136, values at 136 and 144
    let tied = patched(&tied, 72 + 32 + 24, &u64s(136));
    let declared =
        crate::common::write(&[TensorSpec::new("t", DType::U8, vec![3])], &Metadata::new(), &[vec![1; 3]], 1);
    let cut = patched(&declared[..declared.len() - 5], 61, &u64s(declared.len() as u64 - 5));
    for (name, file, check, finding) in [
        ("hole at the end", longer(good(), 8), "extents", "end of the file, before it at byte 424: 8 bytes"),
        ("hole where a tensor was", undeclared, "extents", "tensor \"w\", before it at byte 408: 8 bytes"),
        (
            "metadata tied",
            tied,
            "extents",
            "metadata value \"b\" at byte 136: shares bytes with metadata value \"a\"",
        ),
        (
            "last padding cut off",
            cut,
            "padding",
            "tensor \"t\" at byte 123: the file ends before the padding",
        ),
    ] {
        let report = Reader::from_source(file).unwrap().verify(VerifyLevel::Full);
        assert_eq!(report.check(check).unwrap().status, Status::Failed, "{name}: {report:?}");
        assert!(report.errors.iter().any(|error| error.contains(finding)), "{name}: {report:?}");
    }
}

#[test]
fn verify_lists_every_finding() {
    let mut file = good();
    for (at, byte) in [(70, 1), (358, 1), (409, 7), (410, 9), (400, 3)] {
        file = patched(&file, at, &[byte]);
    }
    let report = Reader::from_source(file).unwrap().verify(VerifyLevel::Full);
    assert_eq!(report.errors.len(), 4, "{report:?}");
    let text = "tensor \"t\" at byte 409: is boolean and must be 0 or 1, but is 7 (2 such bytes in all)";
    assert!(report.errors.iter().any(|error| error == text), "{report:?}");
}

/// Reads everything that can be read.
fn look(file: &[u8]) {
    let Ok(reader) = Reader::from_source(file) else { return };
    for position in 0..reader.tensor_count() {
        let _ = Container::read(&reader, position);
    }
    for (_, value) in reader.index().metadata() {
        let _ = (value.to_value(), value.to_value_exact());
    }
    let _ = (reader.verify(VerifyLevel::Full), Container::metadata(&reader), reader.details());
}

#[test]
fn every_truncation_is_an_error_or_a_file() {
    let file = good();
    for len in 0..file.len() {
        let cut = &file[..len];
        assert!(Index::parse(cut).is_err(), "{len}");
        // Also as if the file were meant to end there.
        if len >= 72 {
            let cut = patched(cut, 61, &u64s(len as u64));
            let opened = Index::parse(&cut).is_ok();
            assert!(!opened, "{len}: something lies beyond the end");
            look(&cut);
        }
    }
}

#[test]
fn no_byte_makes_it_panic() {
    let file = good();
    for at in 0..file.len() {
        for byte in [0, 1, 7, 8, 0x7f, 0x80, 0xff] {
            look(&patched(&file, at, &[byte]));
        }
        let end = (at + 8).min(file.len());
        look(&patched(&file, at, &[0xff; 8][..end - at]));
    }
}

#[test]
fn claims_cost_nothing() {
    for at in [13, 17, 21] {
        let file = patched(&good()[..424], at, &u32s(u32::MAX));
        let (error, nbytes) = peak(|| Index::parse(&file).unwrap_err());
        assert!(matches!(error, Error::Truncated { .. } | Error::Limit { .. }), "{error}");
        assert!(nbytes < 4096, "{nbytes} bytes for a claim at byte {at}");
    }
    for (at, claim) in [(352, u32s(0x7fff_ffff)), (380, u32s(255)), (316, u32s(255)), (304, u32s(60_000))] {
        let file = patched(&good(), at, &claim);
        let (_, nbytes) = peak(|| Index::parse(&file).unwrap_err());
        assert!(nbytes < 16_384, "{nbytes} bytes for a claim at byte {at}");
    }
}

/// A thousand entries over the same 64 KiB. Decoding each value would take this memory a thousand times.
#[test]
fn many_values_over_the_same_bytes_are_refused() {
    let array = NdArray::new(DType::U8, vec![65_536], vec![1; 65_536]).unwrap();
    let shared = Metadata::new().value("first", array);
    let more = (0..1000).fold(shared, |metadata, n| metadata.value(format!("k{n:03}"), 1u8));
    let mut file = crate::common::write(&[], &more, &[], 1);
    assert_eq!(Index::parse(&file).unwrap().metadata().len(), 1001);
    // "first" sorts first: its record is at 72, and the others follow at 72 + 16 + 24 + 32n.
    let (nbytes, offset) = (file[96..104].to_vec(), file[104..112].to_vec());
    for n in 0..1000 {
        let record = 112 + 32 * n;
        file = patched(&file, record + 8, &[u32s(15), u32s(0), nbytes.clone(), offset.clone()].concat());
    }
    let (error, held) = peak(|| Index::parse(&file).unwrap_err());
    let total = 1001 * (16 + 65_536);
    assert!(
        matches!(error, Error::Malformed { fault: Fault::SharedMetadata(found), .. } if found == total),
        "{error}"
    );
    assert!(held < 3 * file.len(), "{held} bytes for a file of {}", file.len());
}

#[test]
fn each_limit_is_heeded() {
    type Lower = fn(&mut Limits);
    let lower: [(&str, Lower); 7] = [
        ("the number of tensors", |limits| limits.tensors = 2),
        ("the number of metadata entries", |limits| limits.entries = 3),
        ("the number of size variables", |limits| limits.entries = 0),
        ("the length of a string", |limits| limits.name_len = 0),
        ("the number of dimensions", |limits| limits.rank = 0),
        ("the length of the tables", |limits| limits.index_len = 279),
        ("the length of the metadata", |limits| limits.metadata_len = 48),
    ];
    let file = good();
    for (expected, lower) in lower {
        let mut limits = Limits::default();
        lower(&mut limits);
        match OpenOptions::new().limits(limits).open_source(&file[..]).map(|_| ()) {
            Err(Error::Limit { what, .. }) => assert_eq!(what, expected),
            other => panic!("{expected}: {other:?}"),
        }
    }
    let mut limits = Limits::default();
    (limits.tensors, limits.entries, limits.name_len, limits.rank) = (3, 4, 1, 1);
    (limits.index_len, limits.metadata_len) = (280, 49);
    assert!(OpenOptions::new().limits(limits).open_source(&file[..]).is_ok());
}

#[test]
fn opening_takes_three_tight_reads() {
    let source = CountingSource::new(good());
    let reader = Reader::from_source(&source).unwrap();
    assert_eq!((source.reads(), source.nbytes()), (3, 401), "header, tables, values");
    source.reset();
    let tensor = reader.tensor("w").unwrap();
    assert_eq!((tensor.bytes(), source.reads(), source.nbytes()), (&[7; 8][..], 1, 8));
    source.reset();
    let again = Reader::with_index(reader.index().clone(), &source).unwrap();
    assert_eq!((source.reads(), again.tensor_count()), (0, 3));
    assert!(Reader::with_index(reader.index().clone(), &[0u8; 423][..]).is_err());
}

#[test]
fn what_cannot_be_read_is_an_error_that_says_where() {
    for (broken, at) in [(0..1, 0), (80..81, 72), (360..361, 352)] {
        match Reader::from_source(FaultySource::new(good(), broken)).map(|_| ()) {
            Err(Error::Io { at: found, .. }) => assert_eq!(found, at),
            other => panic!("{at}: {other:?}"),
        }
    }
    let reader = Reader::from_source(FaultySource::new(good(), 409..412)).unwrap();
    assert!(matches!(reader.tensor("t"), Err(Error::Io { at: 408, len: 3, .. })));
    assert!(reader.tensor("w").is_ok());
    let report = reader.verify(VerifyLevel::Full);
    assert_eq!(report.errors.len(), 2, "values of t, and its padding: {report:?}");
    assert!(report.errors.iter().all(|error| error.ends_with("this sector is broken")), "{report:?}");
}

#[test]
fn the_callers_mistakes_are_errors() {
    let file = good();
    let reader = Reader::from_source(&file[..]).unwrap();
    assert!(matches!(reader.tensor("nope"), Err(Error::NotFound { name }) if name == "nope"));
    assert!(matches!(reader.tensor(3), Err(Error::NotFound { .. })));
    assert!(matches!(reader.tensor("u"), Err(Error::NoData { name }) if name == "u"));
    assert!(matches!(reader.read_into(1, 0, &mut []), Err(Error::NoData { .. })));
    let mut out = [0; 4];
    reader.read_into(2, 4, &mut out).unwrap();
    assert_eq!(out, [7; 4]);
    let beyond = reader.read_into(2, 5, &mut out);
    assert!(matches!(beyond, Err(Error::OutOfRange { offset: 5, len: 4, nbytes: 8, .. })));
    assert!(reader.read_into(2, u64::MAX, &mut out).is_err());
    assert!(Container::location(&reader, 9).is_err() && Container::read(&reader, 1).is_err());
}

#[test]
fn booleans_are_looked_at_once_whether_tensors_are_tied_or_overlap() {
    let (count, len) = (50, 100_000);
    for step in [0, 8] {
        let names: Vec<String> = (0..count).map(|n| format!("t{n:03}")).collect();
        let first = len + 8 * count - step * (count - 1);
        let specs: Vec<_> =
            names.iter().map(|name| TensorSpec::new(name.as_str(), DType::Bool, vec![1])).collect();
        let mut file = crate::common::write(&specs, &Metadata::new(), &vec![vec![1]; count], 1);
        let data = (72 + 44 * count).next_multiple_of(8); // an entry: name 8, dtype, ndim, flags, dim, nbytes, offset
        for number in 0..count {
            let at = 72 + 44 * number;
            file = patched(&file, at + 20, &u64s(first as u64));
            file = patched(&file, at + 28, &u64s(first as u64));
            file = patched(&file, at + 36, &u64s((data + step * number) as u64));
        }
        file.truncate(data);
        file.resize((data + first + step * (count - 1)).next_multiple_of(8), 2);
        let total = file.len() as u64;
        let file = patched(&file, 61, &u64s(total));
        let source = CountingSource::new(file);
        let reader = Reader::from_source(&source).unwrap();
        let report = reader.verify(VerifyLevel::Full);
        assert!(report.errors.iter().any(|error| error.contains("must be 0 or 1")), "{report:?}");
        assert!(source.nbytes() < 3 * total, "{} of {total}", source.nbytes());
    }
}
