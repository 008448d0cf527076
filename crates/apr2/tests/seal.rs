//! The vectors of SEAL 1 (`testdata/seal/`): every file is read, every outcome and every tampered variant is what they say.
#![cfg(all(feature = "encrypt", feature = "lz4"))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "this is test code")]

use std::fs;
use std::path::PathBuf;

use apr2::seal::{Access, Identity, Passphrase, RawKey, VerifyingKey};
use apr2::value::{Object, Value, json};
use apr2::{Error, Fault, OpenOptions, Reader, VerifyLevel};

fn folder() -> PathBuf {
    testkit::testdata("seal")
}

fn vectors() -> Object {
    let text = fs::read_to_string(folder().join("vectors.json")).unwrap();
    json::parse(text.as_bytes()).unwrap().into_object()
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn bytes32(text: &str) -> [u8; 32] {
    hex(text).try_into().unwrap()
}

fn at<'v>(value: &'v Object, path: &[&str]) -> &'v Value {
    let (last, first) = path.split_last().unwrap();
    first.iter().fold(value, |object, key| object.get(key).unwrap().as_object().unwrap()).get(last).unwrap()
}

fn text<'v>(value: &'v Object, path: &[&str]) -> &'v str {
    at(value, path).as_str().unwrap()
}

fn list(value: &Object, key: &str) -> Vec<String> {
    let list = value.get(key).unwrap().as_array().unwrap();
    list.iter().map(|item| item.as_str().unwrap().to_owned()).collect()
}

fn objects(value: &Object, key: &str) -> Vec<Object> {
    value.get(key).unwrap().as_array().unwrap().iter().map(|item| item.clone().into_object()).collect()
}

/// What a vector says that the caller names and brings.
fn access(vectors: &Object, case: &Object) -> Access {
    let mut access = Access::new();
    for name in list(case, "trust") {
        let public = bytes32(text(vectors, &["sign", &name, "public"]));
        access = access.trust(VerifyingKey::from_bytes(&public).unwrap());
    }
    for key in list(case, "keys") {
        let (kind, name) = key.split_once(':').unwrap();
        access = match kind {
            "x25519" => {
                let identity = Identity::from_bytes(&bytes32(text(vectors, &["x25519", name, "secret"])));
                assert_eq!(
                    identity.recipient().key_id(),
                    bytes32(text(vectors, &["x25519", name, "key_id"]))
                );
                access.open_with(identity)
            }
            "passphrase" => {
                access.open_with(Passphrase::from_bytes(&hex(text(vectors, &["passphrase", name]))).unwrap())
            }
            _ => access.open_with(RawKey::from_bytes(&bytes32(text(vectors, &["raw", name])))),
        };
    }
    if let Some(threshold) = case.get("threshold") {
        access = access.threshold(usize::try_from(threshold.as_u64().unwrap()).unwrap());
    }
    match case.get("min_revision") {
        Some(revision) => access.min_revision(revision.as_u64().unwrap()),
        None => access,
    }
}

fn open(bytes: &[u8], access: Access) -> Result<Reader<&[u8]>, Error> {
    OpenOptions::new().access(access).open_source(bytes)
}

/// The name of the check that fails; header, footer and truncation keep their own errors.
fn name(error: &Error) -> String {
    match error {
        Error::Malformed { fault: Fault::Seal(fault), .. } => {
            fault.to_string().split(':').next().unwrap().to_owned()
        }
        Error::Malformed { fault: Fault::FooterMagic(_) | Fault::FileSize(_), .. }
        | Error::Truncated { .. } => "SealStructure".to_owned(),
        other => format!("{other:?}"),
    }
}

/// `ok`, or the first check that fails in opening or verifying.
fn outcome(bytes: &[u8], access: Access) -> String {
    let reader = match open(bytes, access) {
        Ok(reader) => reader,
        Err(error) => return name(&error),
    };
    let report = reader.verify(VerifyLevel::Full);
    let order = ["SealDigest", "SealPages", "SealSegment", "SealGap", "SealCrc"];
    let found = order.iter().find(|name| report.errors.iter().any(|error| error.contains(*name)));
    found.map_or_else(
        || if report.is_ok() { "ok".to_owned() } else { report.errors.join("; ") },
        |n| (*n).to_owned(),
    )
}

#[test]
fn every_file_holds_what_the_vectors_say() {
    let vectors = vectors();
    for file in &objects(&vectors, "files") {
        let name = text(file, &["file"]);
        let bytes = fs::read(folder().join(name)).unwrap();
        let reader = open(&bytes, access(&vectors, file)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let seal = reader.index().seal().unwrap();
        assert_eq!(seal.statement(), bytes32(text(file, &["statement"])), "{name}");
        assert_eq!(seal.uuid()[..], hex(text(file, &["uuid"])), "{name}");
        assert_eq!(Some(seal.revision()), file.get("revision").unwrap().as_u64(), "{name}");
        let signers = list(file, "signers");
        let signed =
            seal.signatures().filter_map(|signature| signature.key_id.map(|id| (id, signature.is_trusted)));
        let expected =
            signers.into_iter().map(|signer| (bytes32(text(&vectors, &["sign", &signer, "key_id"])), true));
        assert_eq!(signed.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{name}");
        assert_eq!(reader.metadata().unwrap().object().get("note").unwrap().as_str(), Some("vector"));
        let tensors = objects(file, "tensors");
        assert_eq!(reader.tensors().len(), tensors.len());
        for (position, tensor) in tensors.iter().enumerate() {
            let info = reader.tensors().info(position).unwrap();
            assert_eq!(info.name, text(tensor, &["name"]));
            let digest = bytes32(text(tensor, &["blake3"]));
            let values = reader.tensor_at(position).unwrap();
            let stored = reader.index().location(position).unwrap();
            assert_eq!(Some(stored.stored_nbytes), tensor.get("size").unwrap().as_u64());
            assert_eq!(*blake3::hash(values.bytes()).as_bytes(), digest, "{name} {}", info.name);
            // Every part of it alone.
            let whole = values.bytes();
            for (begin, end) in [(0, 1), (1, 5000), (4090, 4100), (whole.len() / 2, whole.len())] {
                let (begin, end) = (begin.min(whole.len()), end.min(whole.len()));
                let part = reader.read_range_at(position, begin as u64..end as u64).unwrap();
                assert_eq!(*part, whole[begin..end], "{name} {begin}..{end}");
                let mut out = vec![0; end - begin];
                reader.read_into(position, begin as u64, &mut out).unwrap();
                assert_eq!(out, whole[begin..end]);
            }
            assert!(reader.tensor_at_checked(position).is_ok());
        }
    }
}

#[test]
fn every_outcome_is_what_the_vectors_say() {
    let vectors = vectors();
    for case in &objects(&vectors, "outcomes") {
        let bytes = fs::read(folder().join(text(case, &["file"]))).unwrap();
        assert_eq!(outcome(&bytes, access(&vectors, case)), text(case, &["expect"]), "{case:?}");
    }
}

#[test]
fn every_tampered_variant_is_told() {
    let vectors = vectors();
    for case in &objects(&vectors, "tampered") {
        let mut bytes = fs::read(folder().join(text(case, &["file"]))).unwrap();
        let number = |key| usize::try_from(case.get(key).unwrap().as_u64().unwrap()).unwrap();
        bytes[number("offset")] ^= u8::try_from(number("xor")).unwrap();
        assert_eq!(outcome(&bytes, access(&vectors, case)), text(case, &["expect"]), "{case:?}");
    }
}
