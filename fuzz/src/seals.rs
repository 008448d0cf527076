//! Sealed files of APR2, made from the test vectors: a reader with the signer's key or an opening key gets
//! the values that were sealed, or an error. The tests do not have the secrets to make other valid files.

use std::ops::Range;
use std::sync::LazyLock;

use apr2_seal::seal::{Access, Argon2Caps, Identity, Passphrase, RawKey, VerifyingKey};
use apr2_seal::{OpenOptions, Reader};
use arbitrary::{Arbitrary, Result, Unstructured};
use modelfmt_core::VerifyLevel;
use modelfmt_core::value::{Object, json};

use super::drill::{Depth, limits};
use super::mutate::{fix_apr2, mutate, number_at};
use super::readers::{both, open_bound};

/// A vector, its content, and the access to it.
struct Sealed {
    bytes: Vec<u8>,
    tensors: Vec<(String, Vec<u8>)>,
    statement: [u8; 32],
    trusted: Option<Access>,
    opened: Option<Access>,
    /// The position of the data, and of the seal section with its parts.
    data: usize,
    seal: usize,
    signatures: usize,
    keys: usize,
    /// The length of a segment of plaintext, or of a page.
    step: u64,
}

/// The file that takes long to open is the last one.
const NAMES: [&str; 5] = [
    "signed.apr",
    "encrypted-key.apr",
    "signed-and-encrypted.apr",
    "encrypted-recipient.apr",
    "encrypted-passphrase.apr",
];

/// Just enough for the cost of the vectors' passphrase.
const CAPS: Argon2Caps = Argon2Caps { memory: 1 << 10, work: 1 << 11, passes: 4, lanes: 4 };

static SEALED: LazyLock<Vec<Sealed>> = LazyLock::new(|| {
    let folder = testkit::testdata("seal");
    let read = |name: &str| std::fs::read(folder.join(name)).expect("a vector");
    let vectors = json::parse(&read("vectors.json")).expect("the vectors").into_object();
    NAMES.map(|name| sealed(&vectors, name, read(name))).into()
});

/// Returns the secret in a hexadecimal string at this path.
fn secret<const N: usize>(vectors: &Object, path: &[&str]) -> [u8; N] {
    let (last, first) = path.split_last().expect("a path");
    let within = first.iter().fold(vectors, |object, key| {
        object.get(key).and_then(|value| value.as_object()).expect("a key of the vectors")
    });
    let text = within.get(last).and_then(|value| value.as_str()).expect("a secret of the vectors");
    let mut out = [0; N];
    for (byte, at) in out.iter_mut().zip((0..text.len()).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal digits");
    }
    out
}

fn sealed(vectors: &Object, name: &str, bytes: Vec<u8>) -> Sealed {
    let (signs, encrypts) = (bytes[8] & 32 != 0, bytes[8] & 16 != 0);
    let alice = VerifyingKey::from_bytes(&secret(vectors, &["sign", "alice", "public"])).expect("a key");
    let trusted = signs.then(|| Access::new().trust(alice));
    let raw = |name| Access::new().open_with(RawKey::from_bytes(&secret(vectors, &["raw", name])));
    let opened = encrypts.then(|| match name {
        "encrypted-recipient.apr" => {
            Access::new().open_with(Identity::from_bytes(&secret(vectors, &["x25519", "carol", "secret"])))
        }
        "encrypted-passphrase.apr" => {
            let passphrase = Passphrase::from_bytes("correct horse é世".as_bytes()).expect("a passphrase");
            Access::new().open_with(passphrase).argon2_caps(CAPS)
        }
        "encrypted-key.apr" => raw("kms/1"),
        _ => raw("kms/2"),
    });
    let access = opened.clone().or_else(|| trusted.clone()).expect("one of both");
    let reader = open(&bytes, &access).expect("a good vector");
    let values = |name: &str| reader.tensor(name).expect("a tensor").bytes().to_vec();
    let tensors = reader.tensors().iter().map(|info| (info.name.to_owned(), values(info.name))).collect();
    let statement = reader.index().seal().expect("a sealed file").statement();
    let at = |offset: usize| number_at(&bytes, bytes.len() - 64 + offset) as usize;
    let (seal, signatures) = (at(8), at(8) + at(16) + at(24));
    let keys = signatures + (at(32) & 0xffff_ffff);
    let data = reader.index().sections().data.offset() as usize;
    Sealed { data, seal, signatures, keys, tensors, statement, trusted, opened, step: 1 << 12, bytes }
}

fn options(access: &Access) -> OpenOptions {
    OpenOptions::new().limits(limits()).with_extension(access.clone())
}

fn open<'a>(bytes: &'a [u8], access: &Access) -> std::result::Result<Reader<&'a [u8]>, apr2_seal::Error> {
    options(access).open_source(bytes)
}

/// The case that the first byte of an input chooses.
struct Case<'a> {
    sealed: &'a Sealed,
    access: Access,
    /// Whether values that are read must equal those that were sealed.
    must_match: bool,
    /// Whether there is an opening key.
    has_key: bool,
}

/// The low bits choose the file, and the next bits choose the reader's keys.
fn case(first: u8) -> Case<'static> {
    // A passphrase is slow, so one in 64 inputs tries one.
    let number = if first & 63 == 63 { 4 } else { usize::from(first & 3) };
    let sealed = &SEALED[number];
    let who = first >> 2 & 3;
    let access = match who {
        0 => sealed.trusted.clone(),
        1 => sealed.opened.clone(),
        2 => Some(sealed.opened.clone().unwrap_or_default().statement(sealed.statement)),
        _ => None,
    };
    let has_key = sealed.opened.is_some() && (who == 1 || who == 2);
    Case { sealed, must_match: access.is_some(), has_key, access: access.unwrap_or_default() }
}

impl Case<'_> {
    /// Opens a file in memory and by ranges, and compares its content with what was sealed.
    fn read(&self, bytes: &[u8], depth: Depth) {
        // A passphrase takes a MiB of memory, which the bound does not include.
        if depth.is_whole() && self.sealed.bytes != SEALED[4].bytes {
            let options = options(&self.access);
            let bound = open_bound(bytes.len());
            both(
                bytes,
                depth,
                bound,
                |b| options.open_source(b),
                |r| options.open_source(r),
                |reader| reader.source(),
            );
        }
        self.check(bytes);
    }

    fn check(&self, bytes: &[u8]) {
        let Ok(reader) = open(bytes, &self.access) else { return };
        let report = reader.verify(VerifyLevel::Full);
        let is_locked = reader.index().seal().is_some_and(|seal| seal.is_locked());
        if !self.must_match {
            return;
        }
        if !is_locked || !reader.tensors().is_empty() {
            assert_eq!(reader.tensors().len(), self.sealed.tensors.len());
        }
        for (position, info) in reader.tensors().iter().enumerate() {
            let (name, sealed) = &self.sealed.tensors[position];
            assert_eq!(info.name, name, "the name of tensor {position}");
            match reader.tensor(position) {
                Ok(values) => assert!(values.bytes() == *sealed, "{name} is not what was sealed"),
                Err(_) if is_locked => {}
                Err(error) => assert!(!report.is_ok(), "verify finds nothing, but {error}"),
            }
            let half = sealed.len() as u64 / 2;
            if let Ok(values) = reader.read_range(position, half..sealed.len() as u64) {
                assert!(*values == sealed[half as usize..], "a part of {name} is not what was sealed");
            }
        }
    }
}

/// Changes one or several fields in a part of the file.
fn changed(u: &mut Unstructured<'_>, file: &mut Vec<u8>, part: Range<usize>) -> Result<()> {
    let mut rest = file.split_off(part.end.min(file.len()));
    let mut changed = file.split_off(part.start.min(file.len()));
    mutate(u, &mut changed)?;
    file.append(&mut changed);
    file.append(&mut rest);
    Ok(())
}

/// Corrects the sizes in the trailer and in the footer, for parts whose lengths have changed.
fn fix_sizes(file: &mut [u8], sizes: [u64; 3], smaller: [u32; 2]) {
    let Some(at) = file.len().checked_sub(64) else { return };
    let fields = sizes.map(u64::to_le_bytes).concat();
    file[at + 8..at + 32].copy_from_slice(&fields);
    file[at + 32..at + 40].copy_from_slice(&smaller.map(u32::to_le_bytes).concat());
    fix_apr2(file);
}

/// Changes fields in header, metadata, index, body, pages and trailer, or replaces the body by any bytes.
pub fn section(bytes: &[u8], depth: Depth) {
    let Some((&first, rest)) = bytes.split_first() else { return };
    let case = case(first);
    let Sealed { bytes, data, seal, signatures, keys, .. } = case.sealed;
    let end = bytes.len() - 64;
    let mut file = bytes.clone();
    if first & 0x80 != 0 {
        // The input replaces the body and its tables.
        file.splice(*seal..*signatures, rest.iter().copied());
        let body = number_at(bytes, end + 16).min(rest.len() as u64);
        let sizes = [*seal as u64, body, rest.len() as u64 - body];
        fix_sizes(&mut file, sizes, [(keys - signatures) as u32, (end - keys) as u32]);
    } else {
        let mut u = Unstructured::new(rest);
        let parts = [0..*data, *seal..seal + 160, *seal..*signatures, *signatures..end, end..bytes.len()];
        let _: Result<()> = (|| {
            for part in parts.iter().rev() {
                if u8::arbitrary(&mut u)? & 1 == 1 {
                    changed(&mut u, &mut file, part.clone())?;
                }
            }
            Ok(())
        })();
        if first & 0x40 != 0 {
            fix_apr2(&mut file);
        }
    }
    case.read(&file, depth);
}

/// Changes fields in the sections of signatures and of keys, or replaces them by any bytes. They are not what
/// was written, so that no key opens the file.
pub fn slots(bytes: &[u8], depth: Depth) {
    let Some((&first, rest)) = bytes.split_first() else { return };
    let case = case(first);
    let Sealed { bytes: good, signatures, keys, .. } = case.sealed;
    let end = good.len() - 64;
    let (mut list, mut slots) = (good[*signatures..*keys].to_vec(), good[*keys..end].to_vec());
    let mut u = Unstructured::new(rest);
    match first >> 6 {
        0 => list = rest.to_vec(),
        1 if !slots.is_empty() => slots = rest.to_vec(),
        2 => drop(mutate(&mut u, &mut list)),
        _ => {
            let _ = mutate(&mut u, &mut slots).and_then(|()| mutate(&mut u, &mut list));
        }
    }
    let mut file = [&good[..*signatures], &list, &slots, &good[end..]].concat();
    let body_size = number_at(good, end + 16);
    let sizes = [number_at(good, end + 8), body_size, number_at(good, end + 24)];
    fix_sizes(&mut file, sizes, [list.len() as u32, slots.len() as u32]);
    if case.has_key && slots != good[*keys..end] {
        assert!(
            open(&file, &case.access).is_err(),
            "slots were changed, and a key opens the file all the same"
        );
    }
    if case.has_key && slots == good[*keys..end] && list == good[*signatures..*keys] {
        assert!(open(&file, &case.access).is_ok(), "nothing was changed");
    }
    case.read(&file, depth);
}

/// Changes some stored bytes and reads ranges. A range with a changed byte in its segments or pages is
/// refused, and every other range has the sealed values.
pub fn segments(bytes: &[u8], _: Depth) {
    let Some((&first, rest)) = bytes.split_first() else { return };
    let Sealed { bytes: good, tensors, data, seal, step, statement, opened, trusted, .. } =
        case(first).sealed;
    let pins = opened.is_none() || first & 4 != 0;
    let access = opened.clone().or_else(|| trusted.clone()).unwrap_or_default();
    let access = if first & 4 != 0 { access.statement(*statement) } else { access };
    let mut u = Unstructured::new(rest);
    let mut file = good.clone();
    let _: Result<()> = (|| {
        for _ in 0..u.int_in_range(0..=4)? {
            let at = data + u.int_in_range(0..=seal - data - 1)?;
            match u.int_in_range(0..=2)? {
                0 => file[at] ^= u8::arbitrary(&mut u)?,
                1 => {
                    // Bytes from another position, as long as a segment or not.
                    let from = data + u.int_in_range(0..=seal - data - 1)?;
                    let len = if bool::arbitrary(&mut u)? { 4112 } else { u.int_in_range(1..=5000)? };
                    let len = len.min(seal - at).min(seal - from);
                    let copy = good[from..from + len].to_vec();
                    file[at..at + len].copy_from_slice(&copy);
                }
                _ => {
                    let end = (at + u.int_in_range(1..=64)?).min(*seal);
                    file[at..end].fill(0);
                }
            }
        }
        Ok(())
    })();
    let Ok(reader) = open(&file, &access) else {
        panic!("what is read when a file is opened was not changed")
    };
    let tag = if opened.is_some() { 16 } else { 0 };
    let differs = |range: Range<usize>| file[range.clone()] != good[range];
    for (position, (name, sealed)) in tensors.iter().enumerate() {
        let len = sealed.len() as u64;
        let begin = u.int_in_range(0..=len).unwrap_or(0);
        let end = u.int_in_range(begin..=len).unwrap_or(len);
        let stored = reader.index().location(position).expect("a place");
        let at = stored.offset.expect("where it is") as usize;
        let all = at..at + stored.stored_nbytes as usize;
        let is_compressed = stored.stored_nbytes != len + len.div_ceil(*step) * tag;
        let found = reader.read_range(position, begin..end);
        if let Ok(found) = &found {
            assert!(**found == sealed[begin as usize..end as usize], "{name} is not what was sealed");
        }
        if is_compressed || begin == end {
            assert!(found.is_ok() || differs(all), "{name} was not changed: {:?}", found.err());
            continue;
        }
        // The segments that are decrypted, within the pages that are hashed.
        let of = |number: u64| ((number * (step + tag)) as usize).min(all.len());
        let mut touched = of(begin / step)..of(end.div_ceil(*step));
        if pins {
            let page = *step as usize;
            touched = touched.start / page * page..touched.end.next_multiple_of(page).min(all.len());
        }
        let touched = at + touched.start..at + touched.end;
        assert!(found.is_ok() != differs(touched), "{name}, {begin}..{end}: {:?}", found.err());
    }
}
