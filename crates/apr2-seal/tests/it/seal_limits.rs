//! Numbers in a sealed file that no writer produces are refused by name before anything is allocated for
//! them. Also what the writer refuses before it writes.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "this is test code")]

use std::fs;

use apr2_seal::seal::{Access, Argon2Caps, Identity, Passphrase, SealOptions, SigningKey};
use apr2_seal::value::Object;
use apr2_seal::write::MemoryFile;
use apr2_seal::{
    DType, Error, Execution, Fault, Metadata, OpenOptions, Plan, Reader, SealFault, TensorData, TensorSpec,
    VerifyLevel, WriteOptions,
};
use testkit::bounded;

fn vector(name: &str) -> Vec<u8> {
    fs::read(testkit::testdata("seal").join(name)).unwrap()
}

fn number(bytes: &[u8], at: usize) -> usize {
    usize::try_from(u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())).unwrap()
}

/// The offsets of the parts of a file.
struct At {
    trailer: usize,
    body: usize,
    signatures: usize,
    keys: usize,
}

fn at(bytes: &[u8]) -> At {
    let trailer = bytes.len() - 64;
    let body = number(bytes, trailer + 8);
    let signatures = body + number(bytes, trailer + 16) + number(bytes, trailer + 24);
    At { trailer, body, signatures, keys: signatures + (number(bytes, trailer + 32) & 0xffff_ffff) }
}

/// Returns the result of opening, which may hold little more memory than the file.
fn opened(bytes: &[u8], access: Access) -> String {
    let open = || OpenOptions::new().with_extension(access).open_source(bytes).map(|_| ());
    match bounded((16 << 10) + 5 * bytes.len(), open) {
        Ok(()) => "ok".to_owned(),
        Err(Error::Malformed { fault: Fault::Seal(fault), .. }) => {
            fault.to_string().split(':').next().unwrap().to_owned()
        }
        Err(error) => error.to_string(),
    }
}

/// Builds a file with these bytes as signatures and keys, and matching sizes.
fn with_sections(bytes: &[u8], signatures: &[u8], keys: &[u8]) -> Vec<u8> {
    let At { trailer, signatures: from, .. } = at(bytes);
    let mut out = [&bytes[..from], signatures, keys, &bytes[trailer..]].concat();
    let end = out.len();
    let len = |part: &[u8]| u32::try_from(part.len()).unwrap().to_le_bytes();
    out[end - 32..end - 28].copy_from_slice(&len(signatures));
    out[end - 28..end - 24].copy_from_slice(&len(keys));
    out[end - 8..].copy_from_slice(&(end as u64).to_le_bytes());
    out
}

#[test]
fn numbers_that_no_writer_makes_are_refused_by_name() {
    let bytes = vector("encrypted-recipient.apr");
    let At { trailer, body, .. } = at(&bytes);
    let max = u64::MAX.to_le_bytes();
    let long = |n: u64| n.to_le_bytes().to_vec();
    let word = |n: u32| n.to_le_bytes().to_vec();
    let cases: Vec<(&str, usize, Vec<u8>, &str)> = vec![
        ("version_major", body + 8, vec![2, 0], "SealVersion"),
        ("version_minor is free", body + 10, vec![9, 9], "ok"),
        ("seal_flags", body + 12, word(2), "SealVersion"),
        ("INDEX_SEALED without an index", body + 12, word(1), "SealStructure"),
        ("tensor_count, one more", body + 40, word(7), "SealStructure"),
        ("tensor_count, 2^20 + 1", body + 40, word((1 << 20) + 1), "SealLimit"),
        ("tensor_count, 2^32 - 1", body + 40, word(u32::MAX), "SealLimit"),
        ("segment_log2, 0", body + 44, vec![0], "SealLimit"),
        ("segment_log2, 11", body + 44, vec![11], "SealLimit"),
        ("segment_log2, 21", body + 44, vec![21], "SealLimit"),
        ("segment_log2, 255", body + 44, vec![255], "SealLimit"),
        ("segment_log2, another", body + 44, vec![13], "tensor entry 1"),
        ("page_log2, 9", body + 45, vec![9], "SealLimit"),
        ("page_log2, 25", body + 45, vec![25], "SealLimit"),
        ("page_log2, another", body + 45, vec![13], "SealStructure"),
        ("reserved", body + 46, vec![1], "SealVersion"),
        ("sealed_index_size, 2^31 + 1", body + 48, long((1 << 31) + 1), "SealLimit"),
        ("sealed_index_size, 2^64 - 1", body + 48, max.to_vec(), "SealLimit"),
        ("sealed_index_size, 1", body + 48, long(1), "SealStructure"),
        ("seal_offset of the body", body + 56, long(64), "SealStructure"),
        ("offset of an extent", body + 96, max.to_vec(), "SealStructure"),
        ("size of an extent", body + 104, max.to_vec(), "SealStructure"),
        (
            "offset and size that wrap around",
            body + 96,
            [long(u64::MAX - 7), long(8)].concat(),
            "SealStructure",
        ),
        ("an extent over another", body + 96 + 48, long(512), "SealStructure"),
        ("a size of a tag alone", body + 104, long(16), "SealStructure"),
        ("seal_offset", trailer + 8, max.to_vec(), "SealStructure"),
        ("seal_offset, not a multiple of 64", trailer + 8, long(body as u64 + 1), "SealStructure"),
        ("body_size", trailer + 16, max.to_vec(), "SealStructure"),
        ("body_size, 0", trailer + 16, long(0), "SealStructure"),
        ("pages_size", trailer + 24, max.to_vec(), "SealStructure"),
        ("signatures_size", trailer + 32, word(u32::MAX), "SealStructure"),
        ("keys_size", trailer + 36, word(u32::MAX), "SealStructure"),
        ("keys_size, 0", trailer + 36, word(0), "SealStructure"),
        ("zero", trailer + 44, word(1), "SealStructure"),
    ];
    for (what, at, change, expected) in cases {
        let mut bytes = bytes.clone();
        bytes[at..at + change.len()].copy_from_slice(&change);
        let found = opened(&bytes, Access::new());
        assert!(found.starts_with(expected), "{what}: {found}, not {expected}");
    }
}

#[test]
fn signatures_and_keys_that_are_too_long_or_cut_are_refused() {
    let bytes = vector("encrypted-recipient.apr");
    let At { keys, signatures, trailer, .. } = at(&bytes);
    let (signatures, good) = (&bytes[signatures..keys], &bytes[keys..trailer]);
    let record = |kind: u16, stated: u32, len: usize| {
        let mut out = [&kind.to_le_bytes()[..], &[0, 0], &stated.to_le_bytes()].concat();
        out.resize(8 + len, 7);
        out
    };
    let slots = |list: &[u8], count: u16| {
        let len = u32::try_from(list.len()).unwrap().to_le_bytes();
        [&len[..], &count.to_le_bytes(), &[0, 0], list, &[0; 64]].concat()
    };
    let unknown = record(900, 60_000, 60_000);
    let kib64 = record(900, 66_000, 66_000);
    let (longer, shorter) = (record(5, u32::MAX, 8), record(1, 95, 95));
    let mib = slots(&record(0x8000, 1 << 20, 1 << 20), 1);
    let cases: Vec<(&str, &[u8], Vec<u8>, &str)> = vec![
        ("as it was", signatures, good.to_vec(), "ok"),
        ("an unknown algorithm", &unknown, good.to_vec(), "ok"),
        ("64 KiB of signatures", &kib64, good.to_vec(), "SealLimit"),
        ("1 MiB of keys", signatures, mib, "SealLimit"),
        ("a record of 7 bytes", &[1, 0, 0, 0, 0, 0, 0], good.to_vec(), "SealStructure"),
        ("a record that is longer than the section", &longer, good.to_vec(), "SealStructure"),
        ("Ed25519 of 95 bytes", &shorter, good.to_vec(), "SealStructure"),
        ("no slots, and said so", signatures, slots(&[], 0), "ok"),
        ("slots of another count", signatures, slots(&record(0x8000, 1, 1), 2), "SealStructure"),
        ("65,535 slots that are not there", signatures, slots(&[], u16::MAX), "SealStructure"),
        ("a slot that is cut", signatures, slots(&record(0x8000, 9, 8), 1), "SealStructure"),
        ("X25519 of 111 bytes", signatures, slots(&record(1, 111, 111), 1), "SealStructure"),
        ("a passphrase of 89 bytes", signatures, slots(&record(2, 89, 89), 1), "SealStructure"),
        ("a raw key of 59 bytes", signatures, slots(&record(3, 59, 59), 1), "SealStructure"),
        ("a raw key of 1085 bytes", signatures, slots(&record(3, 1085, 1085), 1), "SealStructure"),
        ("keys without MACs", signatures, slots(&[], 0)[..40].to_vec(), "SealStructure"),
        ("slots_size", signatures, [&max_u32()[..], &[0; 68]].concat(), "SealStructure"),
    ];
    for (what, signatures, keys, expected) in cases {
        let bytes = with_sections(&bytes, signatures, &keys);
        assert_eq!(opened(&bytes, Access::new()), expected, "{what}");
    }
    // Unknown slot types open nothing, but do not make the file invalid.
    let unknown = with_sections(&bytes, signatures, &slots(&record(0x8000, 100, 100), 1));
    let access = Access::new().open_with(Identity::from_bytes(&[5; 32]));
    assert_eq!(opened(&unknown, access), "SealNoKey");
}

fn max_u32() -> [u8; 4] {
    u32::MAX.to_le_bytes()
}

/// Each parameter beyond its cap is refused before Argon2id takes any memory. Parameters within the caps are
/// tried.
#[test]
fn argon2_parameters_are_capped_one_by_one() {
    let bytes = vector("encrypted-passphrase.apr");
    let slot = at(&bytes).keys + 8 + 8;
    let phrase = || Access::new().open_with(Passphrase::from_bytes(b"any").unwrap());
    for (what, memory, passes, lanes) in [
        ("no lane", 1024u32, 2u32, 0u32),
        ("17 lanes", 1024, 2, 17),
        ("no pass", 1024, 0, 1),
        ("65 passes", 1024, 65, 1),
        ("less than 8 KiB for each lane", 31, 1, 4),
        ("more than 1 GiB", (1 << 20) + 1, 1, 1),
        ("4 TiB", u32::MAX, 1, 1),
        ("1 GiB in 5 passes", 1 << 20, 5, 1),
        ("everything", u32::MAX, u32::MAX, u32::MAX),
    ] {
        let mut bytes = bytes.clone();
        let fields = [memory, passes, lanes].map(u32::to_le_bytes).concat();
        bytes[slot + 16..slot + 28].copy_from_slice(&fields);
        assert_eq!(opened(&bytes, phrase()), "SealLimit", "{what}");
        // Raising one cap does not raise the others.
        let caps = Argon2Caps { lanes: 17, passes: 65, ..Argon2Caps::default() };
        if matches!(what, "4 TiB" | "1 GiB in 5 passes" | "no lane") {
            assert_eq!(opened(&bytes, phrase().argon2_caps(caps)), "SealLimit", "{what}");
        }
    }
    // A slot beyond the caps does not keep other slots from being tried.
    let At { signatures, keys, trailer, .. } = at(&bytes);
    let mut both = bytes[keys..trailer].to_vec();
    let mut hostile = both[8..104].to_vec();
    hostile[24..28].copy_from_slice(&max_u32());
    both.splice(8..8, hostile);
    both[..8].copy_from_slice(&[192, 0, 0, 0, 2, 0, 0, 0]);
    let both = with_sections(&bytes, &bytes[signatures..keys], &both);
    let good = Access::new().open_with(Passphrase::from_bytes("correct horse é世".as_bytes()).unwrap());
    let open = OpenOptions::new().with_extension(good).open_source(&both[..]).map(|_| ());
    assert!(open.unwrap_err().to_string().contains("SealKeysMac"), "the second slot opens");
}

/// A file that lost its seal section, but whose flags still say that it was sealed.
#[test]
fn a_stripped_section_is_told() {
    for (name, is_signed) in [("signed.apr", true), ("encrypted-recipient.apr", false)] {
        let bytes = vector(name);
        let mut stripped = bytes[..at(&bytes).body].to_vec();
        let mut footer = bytes[bytes.len() - 16..].to_vec();
        footer[..4].copy_from_slice(&crc32fast::hash(&stripped).to_le_bytes());
        footer[8..].copy_from_slice(&(stripped.len() as u64 + 16).to_le_bytes());
        stripped.extend(footer);
        let alice = SigningKey::from_bytes(&[1; 32]).verifying_key();
        for access in
            [Access::new().trust(alice), Access::new().statement([0; 32]), Access::new().threshold(1)]
        {
            let expected: &[&str] =
                if is_signed { &["SealStructure"] } else { &["SealMissing", "SealStructure"] };
            assert!(expected.contains(&&*opened(&stripped, access)), "{name}");
        }
        if is_signed {
            // Without demands, this is a file of the draft that claims to be signed. Verify reports that it
            // is not.
            let reader = OpenOptions::new().open_source(&stripped[..]).unwrap();
            let report = reader.verify(VerifyLevel::Full);
            assert!(report.errors.iter().any(|error| error.contains("SIGNED is set")), "{report:?}");
        } else {
            assert_eq!(opened(&stripped, Access::new()), "SealStructure");
        }
    }
}

/// Values that must not be requested.
struct Untouched;

impl TensorData for Untouched {
    fn read(&self, _: usize, _: u64, _: &mut [u8]) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        panic!("no value may be read before everything has been checked")
    }
}

fn refused(seal: &SealOptions, specs: impl IntoIterator<Item = TensorSpec<'static>>) -> String {
    let plan = Plan::new(specs, &Metadata::new("limits", Object::default()), &WriteOptions::new()).unwrap();
    let file = MemoryFile::new();
    let error = seal.write(&plan, &Untouched, &file, &Execution::default()).unwrap_err();
    assert!(file.into_bytes().is_empty());
    error.to_string()
}

#[test]
fn what_the_writer_cannot_seal_it_refuses_before_it_writes() {
    let spec = |len: u64| TensorSpec::new("w", DType::U8, vec![len]);
    let carol = || SealOptions::new().recipient(Identity::from_bytes(&[2; 32]).recipient());
    // One key may encrypt 2^44 bytes.
    let long = refused(&carol(), [spec((1 << 44) + 1)]);
    assert!(long.contains("SealLimit") && long.contains("2^44"), "{long}");
    let phrase = |n: u8| Passphrase::from_bytes(&[n]).unwrap();
    let five = (1..=5).fold(SealOptions::new(), |seal, n| seal.passphrase(phrase(n)));
    assert!(refused(&five, [spec(1)]).contains("SealLimit"), "a reader tries four");
    let hidden = refused(&SealOptions::new().hide_index(true), [spec(1)]);
    assert!(hidden.contains("SealMissing"), "{hidden}");
    let raw = apr2_seal::seal::RawKey::from_bytes(&[7; 32]);
    let id = refused(&SealOptions::new().raw_key(raw, vec![0; 1025]), [spec(1)]);
    assert!(id.contains("1024"), "{id}");
    let many = (0..9000)
        .fold(SealOptions::new(), |seal, _| seal.recipient(Identity::from_bytes(&[2; 32]).recipient()));
    assert!(refused(&many, [spec(1)]).contains("1 MiB"));
    let signers = (0..1000).fold(SealOptions::new(), |seal, _| seal.sign(SigningKey::from_bytes(&[1; 32])));
    assert!(refused(&signers, [spec(1)]).contains("64 KiB"));
}

/// Only the flags say that the file is sealed. It has no trailer.
#[test]
fn flags_alone_do_not_make_a_sealed_file() {
    let specs = [TensorSpec::new("w", DType::U8, vec![100])];
    let plan = Plan::new(specs, &Metadata::new("tiny", Object::default()), &WriteOptions::new()).unwrap();
    let file = MemoryFile::new();
    plan.write(&[[7u8; 100]], &file, &Execution::default()).unwrap();
    let good = file.into_bytes().to_vec();
    let with = |flag: u8| {
        let mut bytes = good.clone();
        bytes[8] |= flag;
        bytes
    };
    match Reader::from_source(with(0x10)).unwrap_err() {
        Error::Malformed { fault: Fault::Seal(SealFault::Structure(_)), at, .. } => {
            assert_eq!(at, good.len() as u64 - 64);
        }
        other => panic!("{other}"),
    }
    let signed = Reader::from_source(with(0x20)).unwrap();
    assert_eq!(signed.tensor("w").unwrap().bytes(), [7; 100]);
    assert!(signed.index().seal().is_none());
    let report = signed.verify(VerifyLevel::Full);
    assert!(
        report.errors.iter().any(|error| error.contains("cannot be checked: SealStructure")),
        "{report:?}"
    );
    let access = Access::new().trust(SigningKey::from_bytes(&[1; 32]).verifying_key());
    assert!(OpenOptions::new().with_extension(access).open_source(with(0x20)).is_err());
}

/// A tensor of several jobs, parts and segments, in a local file and elsewhere.
#[test]
fn an_encrypted_tensor_is_read_without_a_second_buffer_of_its_length() {
    const PLAIN: usize = (5 << 20) + (64 << 10) + 12;
    let values: Vec<u8> = (0..PLAIN).map(|n| (n * 7 + n / 4096).to_le_bytes()[0]).collect();
    let plan = Plan::new(
        [TensorSpec::new("w", DType::U8, vec![PLAIN as u64])],
        &Metadata::new("tiny", Object::new()),
        &WriteOptions::new(),
    );
    let owner = Identity::from_bytes(&[7; 32]);
    let access = || Access::new().open_with(owner.clone());
    let file = MemoryFile::new();
    let options = SealOptions::new().recipient(owner.recipient());
    options.write(&plan.unwrap(), &[&values[..]], &file, &Execution::sequential()).unwrap();
    let bytes = file.into_bytes();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("encrypted.apr");
    fs::write(&path, &bytes).unwrap();

    let near = OpenOptions::new().with_extension(access()).open(&path).unwrap();
    let (tensor, held) = testkit::peak(|| near.tensor("w").unwrap());
    assert_eq!(tensor.bytes(), values);
    assert!(held < PLAIN + (1 << 20), "{held} bytes were held for {PLAIN}");
    let source = testkit::CountingSource::new(bytes.clone());
    let far = OpenOptions::new().with_extension(access()).open_source(&source).unwrap();
    source.reset();
    assert_eq!(far.tensor("w").unwrap().bytes(), values);
    assert_eq!(source.reads(), 1, "where each read may be a request, there is one");

    // Parts that begin or end inside a segment, and parts that do not.
    let segment = 64 << 10;
    for range in [0..segment, segment..3 * segment, 5..PLAIN, 0..segment + 1, 40 * segment..PLAIN, 7..9] {
        let mut part = vec![0; range.len()];
        near.read_into(0, range.start as u64, &mut part).unwrap();
        assert_eq!(part, values[range.clone()], "{range:?}");
    }
    // A changed segment reveals nothing, whichever it is.
    let start = usize::try_from(near.index().location(0).unwrap().offset.unwrap()).unwrap();
    for segment_number in [0, 17, 80] {
        let mut broken = bytes.clone();
        broken[start + segment_number * (segment + 16) + 3] ^= 1;
        fs::write(&path, &broken).unwrap();
        let near = OpenOptions::new().with_extension(access()).open(&path).unwrap();
        let mut out = vec![0; PLAIN];
        let error = near.read_into(0, 0, &mut out).unwrap_err();
        let expected = format!("SealSegment: segment {segment_number} does not decrypt");
        assert!(format!("{error:?}").contains(&expected), "{error:?}");
        let from = segment_number * segment;
        let to = PLAIN.min(from + segment);
        assert!(out[from..to].iter().all(|&byte| byte == 0), "segment {segment_number} is shown");
    }
}
