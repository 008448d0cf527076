//! Files that break one rule each, of the arrays or of the archive around them, and every way to cut a file
//! short.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "this is test code"
)]

use modelfmt_npy::modelfmt_core::AnyError;
use modelfmt_npy::modelfmt_core::author::FileIndex as _;
use modelfmt_npy::{Container, Encoding, Index, Limits, OpenOptions, Reader, VerifyLevel};
use testkit::{CountingSource, Zip, ZipMember, error_text, peak};

/// Returns an array with this header and these values.
fn npy(descr: &str, order: &str, shape: &str, values: &[u8]) -> Vec<u8> {
    let mut text = format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}");
    while (text.len() + 11) % 64 != 0 {
        text.push(' ');
    }
    text.push('\n');
    let mut file = b"\x93NUMPY\x01\0".to_vec();
    file.extend((text.len() as u16).to_le_bytes());
    file.extend(text.as_bytes());
    file.extend(values);
    file
}

fn floats() -> Vec<u8> {
    npy("'<f4'", "False", "(2, 3)", &[7; 24])
}

fn member(name: &str) -> ZipMember {
    ZipMember::stored(name, &floats())
}

/// Returns an archive of two arrays after a change.
fn two(change: impl FnOnce(&mut Zip)) -> Vec<u8> {
    let mut zip = Zip::of([member("a.npy"), ZipMember::deflated("b.npy", &floats())]);
    change(&mut zip);
    zip.build()
}

fn arrays() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    vec![
        ("no bytes", vec![], "needs 6 bytes, but 0 are left"),
        ("another file", b"GGUF\0\0\0\0\0\0\0\0".to_vec(), "not an array of NumPy"),
        ("version 9", b"\x93NUMPY\x09\0\0\0\0\0".to_vec(), "is of version 9.0"),
        (
            "header too long",
            b"\x93NUMPY\x02\0\xff\xff\xff\xff".to_vec(),
            "the length of the header of an array is",
        ),
        ("no dictionary", npy("", "False", "()", b""), "is no dictionary"),
        ("objects", npy("'|O'", "False", "(1,)", &[0; 8]), "runs nothing"),
        ("structured", npy("[('a', '<f4')]", "False", "(1,)", &[0; 8]), "structured array"),
        ("void", npy("'|V2'", "False", "(1,)", &[0; 8]), "bfloat16"),
        ("text", npy("'<U4'", "False", "(1,)", &[0; 16]), "elements of type \"<U4\""),
        (
            "values too short",
            npy("'<f4'", "False", "(7,)", &[0; 24]),
            "covers 28 bytes from byte 128, but the file ends at byte 152",
        ),
        (
            "overflow",
            npy("'<f8'", "False", "(4611686018427387904, 8)", &[0; 24]),
            "covers 18446744073709551615 bytes",
        ),
        (
            "overflow in strides",
            npy("'<f8'", "True", "(4611686018427387904, 8)", &[0; 24]),
            "covers 18446744073709551615",
        ),
    ]
}

fn archives() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    vec![
        ("bytes behind", [two(|_| {}), vec![0]].concat(), "is not where a zip archive ends"),
        ("an end in the comment", two(|zip| zip.comment = b"PK\x05\x06".to_vec()), "end record"),
        (
            "bytes before",
            two(|zip| zip.before = b"PK\x03\x04".to_vec())[4..].to_vec(),
            "bytes were put before",
        ),
        ("counts one more", two(|zip| zip.count = Some(3)), "directory"),
        ("counts one fewer", two(|zip| zip.count = Some(1)), "the end record counts wrong"),
        ("counts many", two(|zip| (zip.count, zip.is_long) = (Some(1 << 40), true)), "limit is"),
        ("counts differ", two(|zip| zip.is_long = true).split_at(0).1.to_vec(), ""),
        ("one name twice", Zip::of([member("a.npy"), member("a.npy")]).build(), "\"a.npy\" is used twice"),
        ("NUL in a name", Zip::of([member("a.npy\0b.npy")]).build(), "NUL in its name"),
        ("encrypted", two(|zip| zip.members[0].flags = [0x801; 2]), "is encrypted"),
        ("encrypted in one header", two(|zip| zip.members[0].flags[1] = 0x801), "is encrypted"),
        (
            "another name",
            two(|zip| zip.members[0].names[1] = b"c.npy".to_vec()),
            "another name than the directory",
        ),
        ("another method", two(|zip| zip.members[0].method[1] = 8), "another method than"),
        ("another size", two(|zip| zip.members[0].len[1] = 5), "another size than"),
        ("another CRC", two(|zip| zip.members[0].crc[1] ^= 1), "another CRC-32 than"),
        ("bzip2", two(|zip| zip.members[0].method = [12; 2]), "compressed by method 12"),
        ("two sizes", two(|zip| zip.members[0].len = [5; 2]), "is stored as it is, but has 5 bytes"),
        ("a bomb", two(|zip| zip.members[1].len = [1 << 30; 2]), "more than"),
        ("a header within another", two(|zip| zip.members[1].at = Some(8)), "reach into"),
        ("the same header", two(|zip| zip.members[1].at = Some(0)), "reach into"),
        ("a header beyond", two(|zip| zip.members[1].at = Some(1 << 30)), "the file ends at byte"),
        ("an extra field too long", two(|zip| zip.members[0].extra[0] = vec![1, 0, 9, 0]), "extra field"),
        ("no array", Zip::of([ZipMember::stored("a.npy", b"GGUF")]).build(), "not an array of NumPy"),
        (
            "an empty member",
            Zip::of([ZipMember::stored("a.npy", b"")]).build(),
            "needs 12 bytes, but 0 are left",
        ),
    ]
}

#[test]
fn each_rule_is_kept() {
    for (name, file, expected) in arrays().into_iter().chain(archives()) {
        let (opened, held) = peak(|| Reader::from_source(&file[..]));
        assert!(held < (1 << 20), "{name}: {held} bytes were held");
        match opened {
            Ok(_) => assert_eq!(expected, "", "{name} opens"),
            Err(error) => {
                let text = error_text(error);
                assert!(!expected.is_empty() && text.contains(expected), "{name}: {text}");
            }
        }
    }
}

#[test]
fn what_is_no_damage_is_read() {
    let long = |zip: &mut Zip| {
        zip.is_long = true;
        zip.members.iter_mut().for_each(|member| member.is_long = true);
    };
    for (name, file) in [
        ("plain", two(|_| {})),
        ("64 bits", two(long)),
        ("a comment", two(|zip| zip.comment = b"saved by hand".to_vec())),
        (
            "sizes behind",
            two(|zip| zip.members = zip.members.iter().cloned().map(ZipMember::described_behind).collect()),
        ),
        ("aligned", two(|zip| zip.alignment = 64)),
        (
            "a field of 64 bits in one header",
            two(|zip| zip.members[0].extra[1] = [&[1, 0, 16, 0][..], &[0; 16]].concat()),
        ),
    ] {
        let reader = Reader::from_source(&file[..]).unwrap_or_else(|error| panic!("{name}: {error}"));
        for array in ["a", "b"] {
            assert_eq!(reader.tensor(array).unwrap().bytes(), [7; 24], "{name}");
        }
        reader.verify(VerifyLevel::Full).into_result().unwrap();
        let counting = CountingSource::new(&file[..]);
        let opened = Reader::from_source(&counting).unwrap();
        assert!(counting.reads() <= 4, "{name}: {} reads", counting.reads());
        let encodings = [0, 1].map(|position| Container::location(&opened, position).unwrap().encoding);
        assert_eq!(encodings, [Encoding::Raw, Encoding::Deflate]);
    }
}

#[test]
fn what_is_no_tensor_is_left_out_with_a_warning() {
    let objects = npy("'|O'", "False", "(1,)", b"\x80\x04cos\nsystem\n");
    let members =
        [member("a.npy"), ZipMember::stored("o.npy", &objects), ZipMember::stored("readme.txt", b"hello")];
    let reader = Reader::from_source(Zip::of(members).build()).unwrap();
    assert_eq!(reader.tensors().len(), 1);
    let warnings = Container::warnings(&reader);
    assert!(warnings.len() == 2 && warnings.iter().any(|text| text.contains("objects")), "{warnings:?}");
}

#[test]
fn damage_is_found_by_crc() {
    for at in [0, 1] {
        let mut zip = Zip::of([member("a.npy"), ZipMember::deflated("b.npy", &floats())]);
        zip.members[at].crc = [1; 2];
        let reader = Reader::from_source(zip.build()).unwrap();
        let report = reader.verify(VerifyLevel::Full);
        assert!(report.errors.len() == 1 && report.errors[0].contains("CRC-32"), "{:?}", report.errors);
        let name = ["a", "b"][at];
        assert_eq!(reader.tensor(name).unwrap().bytes(), [7; 24], "a plain read does not look");
        let text = error_text(reader.checked().tensor(name).unwrap_err());
        assert!(text.contains("00000001") && text.contains("--no-verify"), "{text}");
        assert!(reader.checked().tensor(["b", "a"][at]).is_ok());
    }
    // A stream that ends early.
    let mut short = ZipMember::deflated("b.npy", &floats());
    short.stored = ZipMember::deflated("b.npy", &floats()[..140]).stored;
    let reader = Reader::from_source(Zip::of([short]).build()).unwrap();
    let text = error_text(reader.tensor("b").unwrap_err());
    assert!(text.contains("makes 140 bytes, not"), "{text}");
    assert!(!reader.verify(VerifyLevel::Full).is_ok());
}

#[test]
fn files_that_are_cut_short_are_refused() {
    for file in [floats(), two(|_| {}), two(|zip| zip.is_long = true)] {
        for len in 0..file.len() {
            let refused = Reader::from_source(&file[..len]);
            assert!(refused.is_err(), "{len} of {} bytes", file.len());
        }
    }
}

/// Changes each byte in turn. If the file still opens, it is read and verified.
#[test]
fn files_with_a_wrong_byte_do_no_harm() {
    for file in [npy("'>f4'", "True", "(2, 3)", &[7; 24]), two(|_| {})] {
        for at in 0..file.len() {
            for bits in [1, 0x80, 0xff] {
                let mut file = file.clone();
                file[at] ^= bits;
                let Ok(reader) = Reader::from_source(&file[..]) else { continue };
                for info in reader.tensors() {
                    let _ = (reader.tensor(info.name), reader.checked().tensor(info.name));
                }
                reader.verify(VerifyLevel::Full);
            }
        }
    }
}

/// A program that fetched the file can then fetch it again.
#[test]
fn errors_say_whether_the_end_of_the_file_is_missing() {
    let is_end_missing =
        |file: &[u8]| AnyError::from(Reader::from_source(file).unwrap_err()).is_end_missing();
    let file = floats();
    for len in [0, 4, 60, file.len() - 25, file.len() - 1] {
        assert!(is_end_missing(&file[..len]), "{len} bytes");
    }
    let archive = two(|_| {});
    assert!(is_end_missing(&archive[..archive.len() - 22]), "an archive ends with a record of 22 bytes");
    assert!(is_end_missing(&two(|zip| zip.members[1].at = Some(1 << 30))), "a header beyond the end");
    for file in [
        npy("'|O'", "False", "(1,)", &[0; 8]),
        b"GGUF\0\0\0\0".to_vec(),
        two(|zip| zip.members[0].crc[1] ^= 1),
    ] {
        assert!(!is_end_missing(&file));
    }
}

#[test]
fn limits_are_kept() {
    let file = two(|_| {});
    let mut limits = Limits::default();
    limits.tensors = 1;
    assert!(OpenOptions::new().limits(limits).open_source(&file[..]).is_err());
    let mut limits = Limits::default();
    limits.name_len = 0;
    assert!(OpenOptions::new().limits(limits).open_source(&file[..]).is_err());
    let mut limits = Limits::default();
    limits.index_len = 10;
    assert!(OpenOptions::new().limits(limits).open_source(&file[..]).is_err());
    assert_eq!(
        Index::parse(&file).unwrap().tensors().len(),
        Index::parse_bytes(&file).unwrap().tensors().len()
    );
}
