//! The vectors of SEAL 1 (`testdata/seal/`): reads every file, and checks every stated outcome and every
//! tampered variant.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "this is test code")]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use apr2_seal::seal::{
    Access, Argon2Caps, Identity, Passphrase, RawKey, Recipient, SealOptions, SigningKey, VerifyingKey,
};
use apr2_seal::value::{Object, Value, json};
use apr2_seal::write::{MemoryFile, MemoryFolder};
use apr2_seal::{
    Compression, DType, Error, Execution, Fault, Metadata, OpenOptions, Plan, Reader, SetPlan, SetReader,
    TensorSpec, VerifyLevel, WriteOptions,
};
use modelfmt_core::source::MemoryFiles;
use testkit::bounded;

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

/// Returns the caller's demands and keys according to a vector.
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
    OpenOptions::new().with_extension(access).open_source(bytes)
}

/// Returns the name of the check that fails. Faults of the header, the footer and truncated files keep their
/// own errors.
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

/// Returns `ok`, or the first check that fails when opening or verifying.
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
            let values = reader.tensor(position).unwrap();
            let stored = reader.index().location(position).unwrap();
            assert_eq!(Some(stored.stored_nbytes), tensor.get("size").unwrap().as_u64());
            assert_eq!(*blake3::hash(values.bytes()).as_bytes(), digest, "{name} {}", info.name);
            // Every part of it, read alone.
            let whole = values.bytes();
            for (begin, end) in [(0, 1), (1, 5000), (4090, 4100), (whole.len() / 2, whole.len())] {
                let (begin, end) = (begin.min(whole.len()), end.min(whole.len()));
                let part = reader.read_range(position, begin as u64..end as u64).unwrap();
                assert_eq!(*part, whole[begin..end], "{name} {begin}..{end}");
                let mut out = vec![0; end - begin];
                reader.read_into(position, begin as u64, &mut out).unwrap();
                assert_eq!(out, whole[begin..end]);
            }
            assert!(reader.checked().tensor(position).is_ok());
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

type Files = BTreeMap<String, Arc<[u8]>>;

const FIRST: &str = "model-00001-of-00002.apr";
const SECOND: &str = "model-00002-of-00002.apr";

/// Returns the set of the vectors after a change.
fn set(change: impl FnOnce(&mut Files)) -> MemoryFiles {
    let read = |name: &str| (name.to_owned(), fs::read(folder().join("set").join(name)).unwrap().into());
    let mut files: Files = ["model.apr", FIRST, SECOND].into_iter().map(read).collect();
    change(&mut files);
    MemoryFiles(files)
}

fn edited(files: &mut Files, from: &str, to: &str) {
    let text = String::from_utf8(files["model.apr"].to_vec()).unwrap();
    assert!(text.contains(from), "{from}");
    files.insert("model.apr".to_owned(), text.replacen(from, to, 1).into_bytes().into());
}

/// Opens a set and reads all of it. Returns the first check that fails.
fn set_outcome(files: MemoryFiles, access: Access) -> String {
    let options = OpenOptions::new().with_extension(access);
    let read = || -> Result<(), Error> {
        let set = SetReader::from_files_with(files, "model.apr", &options)?;
        set.open_all()?;
        (0..set.index().names().len()).try_for_each(|position| set.tensor(position).map(|_| ()))
    };
    read().map_or_else(|error| error.to_string(), |()| "ok".to_owned())
}

#[test]
fn a_set_is_what_its_signers_have_signed() {
    let vectors = vectors();
    let key =
        |name: &str| VerifyingKey::from_bytes(&bytes32(text(&vectors, &["sign", name, "public"]))).unwrap();
    let alice = || Access::new().trust(key("alice"));
    let options = OpenOptions::new().with_extension(alice());
    let reader = SetReader::from_files_with(set(|_| ()), "model.apr", &options).unwrap();
    let expected = at(&vectors, &["set"]).as_object().unwrap();
    for tensor in objects(expected, "tensors") {
        let read = reader.tensor(text(&tensor, &["name"])).unwrap();
        assert_eq!(*blake3::hash(read.bytes()).as_bytes(), bytes32(text(&tensor, &["blake3"])));
    }
    let pinned = Access::new().statement(bytes32(text(expected, &["statement"])));
    let swap = |files: &mut Files| {
        let (first, second) = (files[FIRST].clone(), files[SECOND].clone());
        files.insert(FIRST.to_owned(), second);
        files.insert(SECOND.to_owned(), first);
        // Sizes are not signed, because they change when a shard is rekeyed.
        for (from, to) in [("4136", "x"), ("5080", "4136"), ("\"size\": x", "\"size\": 5080")] {
            edited(files, from, to);
        }
    };
    let swapped_names = |files: &mut Files| {
        edited(files, FIRST, "x");
        edited(files, SECOND, FIRST);
        edited(files, "\"x\"", &format!("\"{SECOND}\""));
    };
    let no_seal = |files: &mut Files| edited(files, "\"seal\"", "\"other\"");
    let map = |files: &mut Files| edited(files, "\"zq\": 1", "\"zq\": 0");
    let flip = |files: &mut Files| {
        let mut bytes = files[SECOND].to_vec();
        bytes[2000] ^= 1; // of a tensor
        files.insert(SECOND.to_owned(), bytes.into());
    };
    let cases: [(&str, MemoryFiles, Access, &str); 12] = [
        ("as it is", set(|_| ()), alice(), "ok"),
        ("nothing demanded", set(|_| ()), Access::new(), "ok"),
        ("pinned", set(|_| ()), pinned, "ok"),
        ("another pin", set(|_| ()), Access::new().statement([7; 32]), "SealSet"),
        ("another key", set(|_| ()), Access::new().trust(key("mallory")), "SealNoTrustedSignature"),
        ("an older one", set(|_| ()), alice().min_revision(3), "SealRevision"),
        ("shards swapped", set(swap), alice(), "SealSet"),
        ("names swapped", set(swapped_names), alice(), "SealBadSignature"),
        ("no list", set(no_seal), alice(), "SealMissing"),
        ("the map edited", set(map), alice(), "SealBadSignature"),
        ("a shard edited", set(flip), alice(), "Seal"),
        ("a shard dropped", set(|files| drop(files.remove(SECOND))), alice(), "cannot open"),
    ];
    for (what, files, access, expected) in cases {
        let found = set_outcome(files, access);
        assert!(found.contains(expected), "{what}: {found}, not {expected}");
    }
}

#[test]
fn a_sealed_set_is_read_again() {
    let metadata = Metadata::new("tiny", Object::default());
    let specs = ["a", "b"].map(|name| TensorSpec::new(name, DType::U8, vec![100_000]));
    let plan = SetPlan::new("m.apr", specs, &metadata, &WriteOptions::new().shard_size(150_000)).unwrap();
    let (alice, carol) = (SigningKey::from_bytes(&[1; 32]), Identity::from_bytes(&[2; 32]));
    let seal = SealOptions::new().sign(alice.clone()).recipient(carol.recipient()).revision(4);
    let folder = MemoryFolder::default();
    seal.write_set(&plan, &[[1u8; 100_000], [2; 100_000]], &folder, &Execution::default()).unwrap();
    let access = Access::new().trust(alice.verifying_key()).min_revision(4);
    let open = |access: Access| {
        SetReader::from_files_with(folder.files(), "m.apr", &OpenOptions::new().with_extension(access))
            .unwrap()
    };
    let reader = open(access.clone().open_with(carol));
    assert_eq!(reader.tensor("b").unwrap().bytes(), [2; 100_000]);
    assert!(reader.verify(VerifyLevel::Full).is_ok(), "{:?}", reader.verify(VerifyLevel::Full));
    // Without a key the set is still what alice has signed, and reports that its values cannot be read.
    let locked = open(access);
    assert!(locked.verify(VerifyLevel::Full).is_ok());
    assert!(locked.tensor("b").unwrap_err().to_string().contains("SealNoKey"));
}

/// The manifest of a set whose index is hidden lists no tensors. The shards list them for readers that have a
/// key.
#[test]
fn a_set_that_hides_its_index_is_read_again() {
    let metadata = Metadata::new("tiny", Object::from_iter([("layers", 2)]));
    let specs = ["a", "b"].map(|name| TensorSpec::new(name, DType::U8, vec![100_000]));
    let plan = SetPlan::new("m.apr", specs, &metadata, &WriteOptions::new().shard_size(150_000)).unwrap();
    let (alice, carol) = (SigningKey::from_bytes(&[1; 32]), Identity::from_bytes(&[2; 32]));
    let seal = SealOptions::new().sign(alice.clone()).recipient(carol.recipient()).hide_index(true);
    let folder = MemoryFolder::default();
    seal.write_set(&plan, &[[1u8; 100_000], [2; 100_000]], &folder, &Execution::default()).unwrap();
    let files = MemoryFiles(
        folder.files().0.into_iter().map(|(name, bytes)| (format!("in/{name}"), bytes)).collect(),
    );
    let open = |access: Access| {
        let options = OpenOptions::new().with_extension(access);
        SetReader::from_files_with(files.clone(), "in/m.apr", &options)
    };
    let trust = || Access::new().trust(alice.verifying_key());
    let reader = open(trust().open_with(carol.clone())).unwrap();
    assert!(reader.index().names().iter().eq(["a", "b"]) && !reader.index().hides_names());
    assert_eq!(reader.tensor("b").unwrap().bytes(), [2; 100_000]);
    assert_eq!(reader.metadata().unwrap(), &metadata);
    assert!(reader.verify(VerifyLevel::Full).is_ok(), "{:?}", reader.verify(VerifyLevel::Full));
    // Without a key the set is still what alice has signed.
    for access in [Access::new(), trust()] {
        let locked = open(access).unwrap();
        assert!(locked.index().hides_names() && locked.index().names().is_empty());
        assert_eq!(locked.index().statement(), reader.index().statement());
        assert!(locked.verify(VerifyLevel::Full).is_ok(), "{:?}", locked.verify(VerifyLevel::Full));
    }
    let other = open(Access::new().open_with(Identity::from_bytes(&[3; 32]))).unwrap_err().to_string();
    assert!(other.contains("SealNoKey") && other.contains("m-00001-of-00002.apr"), "{other}");
    // An index that is reused with other demands is checked against them.
    let again = |options: &OpenOptions| {
        let set = SetReader::with_index(Arc::clone(reader.index()), folder.files(), options);
        set.tensor("b").map(|tensor| tensor.bytes().to_vec())
    };
    assert!(again(&OpenOptions::new()).is_ok());
    let mallory = SigningKey::from_bytes(&[9; 32]).verifying_key();
    let error =
        again(&OpenOptions::new().with_extension(Access::new().trust(mallory))).unwrap_err().to_string();
    assert!(error.contains("SealNoTrustedSignature"), "{error}");
}

/// Files by our writer, in all forms. Readers that trust a key detect changes, and so do readers that have
/// only a key.
#[test]
fn no_byte_of_a_sealed_file_can_change_unseen() {
    let metadata = Metadata::new("tiny", Object::default());
    let specs = [("a", 300u64), ("b", 9000), ("c", 0)];
    let specs = specs.map(|(name, len)| TensorSpec::new(name, DType::U8, vec![len]));
    let values = [vec![1u8; 300], (0..9000u32).map(|n| (n * 7 % 251).to_le_bytes()[0]).collect(), Vec::new()];
    let (alice, carol) = (SigningKey::from_bytes(&[1; 32]), Identity::from_bytes(&[2; 32]));
    for (signs, encrypts, hides, compression) in [
        (true, false, false, Compression::None),
        (true, true, false, Compression::Lz4),
        (true, true, true, Compression::None),
        (false, true, true, Compression::Lz4),
    ] {
        let plan =
            Plan::new(specs.clone(), &metadata, &WriteOptions::new().compression(compression)).unwrap();
        let (mut seal, mut access) = (SealOptions::new().hide_index(hides), Access::new());
        if signs {
            (seal, access) = (seal.sign(alice.clone()), access.trust(alice.verifying_key()));
        }
        if encrypts {
            (seal, access) = (seal.recipient(carol.recipient()), access.open_with(carol.clone()));
        }
        let file = MemoryFile::new();
        seal.write(&plan, &values, &file, &Execution::default()).unwrap();
        let good = file.into_bytes();
        assert_eq!(outcome(&good, access.clone()), "ok");
        for at in (0..good.len()).step_by(if good.len() > 4000 { 11 } else { 1 }) {
            let mut bytes = good.to_vec();
            bytes[at] ^= 1 << (at % 8);
            assert_ne!(outcome(&bytes, access.clone()), "ok", "byte {at}");
        }
        for len in (0..good.len()).step_by(97) {
            assert!(open(&good[..len], access.clone()).is_err(), "cut to {len}");
        }
        // A wrong key, and no key.
        let other = Access::new().open_with(Identity::from_bytes(&[3; 32]));
        assert_eq!(outcome(&good, other), if encrypts { "SealNoKey" } else { "SealMissing" });
        if encrypts {
            let reader = open(&good, Access::new()).unwrap();
            assert_eq!(reader.tensors().len(), if hides { 0 } else { 3 });
            assert!(reader.verify(VerifyLevel::Full).is_ok(), "{:?}", reader.verify(VerifyLevel::Full));
        }
    }
}

/// Two files for the same key share no parts that could be moved from one to the other.
#[test]
fn parts_of_another_file_are_told() {
    let metadata = Metadata::new("tiny", Object::default());
    let write = |fill: u8, identity: &Identity| {
        let specs = ["a", "b"].map(|name| TensorSpec::new(name, DType::U8, vec![200]));
        let plan = Plan::new(specs, &metadata, &WriteOptions::new()).unwrap();
        let file = MemoryFile::new();
        let seal = SealOptions::new().recipient(identity.recipient());
        seal.write(&plan, &[[fill; 200], [fill + 1; 200]], &file, &Execution::default()).unwrap();
        file.into_bytes().to_vec()
    };
    let carol = Identity::from_bytes(&[2; 32]);
    let (first, second) = (write(1, &carol), write(3, &carol));
    assert_ne!(first, write(1, &carol), "nothing is encrypted twice under one key");
    let access = || Access::new().open_with(carol.clone());
    let data = {
        let reader = open(&first, access()).unwrap();
        usize::try_from(reader.index().location(0).unwrap().offset.unwrap()).unwrap()
    };
    let read = |bytes: &[u8]| {
        let reader = open(bytes, access())?;
        let tensor = reader.tensor("a")?;
        Ok(tensor.bytes().to_vec())
    };
    let failed = |bytes: &[u8]| name(&read(bytes).unwrap_err());
    assert_eq!(read(&first).unwrap(), [1; 200]);
    let with = |at: usize, len: usize, from: &[u8]| {
        let mut bytes = first.clone();
        bytes[at..at + len].copy_from_slice(from);
        bytes
    };
    // A tensor of the other file, and the neighbouring tensor.
    assert_eq!(failed(&with(data, 216, &second[data..data + 216])), "SealSegment");
    assert_eq!(failed(&with(data, 216, &first[data + 256..data + 256 + 216])), "SealSegment");
    // The keys of the other file.
    let keys = first.len() - 64 - (8 + 120 + 64);
    assert_eq!(failed(&with(keys, 8 + 120 + 64, &second[keys..keys + 8 + 120 + 64])), "SealNoKey");
}

#[test]
fn passphrases_that_cost_too_much_are_not_tried() {
    let bytes = fs::read(folder().join("encrypted-passphrase.apr")).unwrap();
    let good = Passphrase::from_bytes("correct horse é世".as_bytes());
    let phrase = || good.clone().unwrap();
    let seal = |caps| outcome(&bytes, Access::new().open_with(phrase()).argon2_caps(caps));
    let caps = Argon2Caps::default();
    assert!(matches!(&*seal(Argon2Caps { memory: 1023, ..caps }), "SealLimit"));
    assert!(matches!(&*seal(Argon2Caps { passes: 1, ..caps }), "SealLimit"));
    assert!(matches!(&*seal(Argon2Caps { work: 2047, ..caps }), "SealLimit"));
    // 4 TiB, for which nothing is allocated. The parameters come after the type, the length and the salt.
    let slot = bytes.len() - 64 - 64 - 88;
    let mut hostile = bytes.clone();
    hostile[slot + 16..slot + 20].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(bounded(1 << 20, || outcome(&hostile, Access::new().open_with(phrase()))), "SealLimit");
}

/// Printing an access, its parts or an error reveals no secret.
#[test]
fn nothing_secret_is_printed() {
    let secret = [0xa7; 32];
    let access = Access::new()
        .open_with(Identity::from_bytes(&secret))
        .open_with(RawKey::from_bytes(&secret))
        .open_with(Passphrase::from_bytes(b"open sesame").unwrap());
    let options =
        SealOptions::new().sign(SigningKey::from_bytes(&secret)).raw_key(RawKey::from_bytes(&secret), "id");
    let bytes = fs::read(folder().join("encrypted-key.apr")).unwrap();
    let error = open(&bytes, access.clone()).unwrap_err();
    let printed = format!("{access:?} {access:#?} {options:?} {error} {error:?}");
    for hidden in ["a7a7", "167, 167", "0xa7", "sesame", "111, 112, 101, 110"] {
        assert!(!printed.contains(hidden), "{printed}");
    }
}

#[test]
fn keys_that_protect_nothing_are_refused() {
    assert!(Recipient::from_bytes(&[0; 32]).is_err());
    let mut one = [0; 32];
    one[0] = 1;
    assert!(Recipient::from_bytes(&one).is_err());
    assert!(VerifyingKey::from_bytes(&one).is_err(), "the neutral point");
    assert!(Passphrase::from_bytes(b"").is_err());
    assert!(Recipient::from_bytes(&Identity::from_bytes(&[9; 32]).recipient().to_bytes()).is_ok());
}

/// A verification that is stopped reports this once, and not for every tensor that it has not decrypted.
#[test]
fn a_verification_that_is_stopped_ends() {
    let metadata = Metadata::new("tiny", Object::default());
    let specs = ["a", "b", "c", "d"].map(|name| TensorSpec::new(name, DType::U8, vec![100]));
    let carol = Identity::from_bytes(&[2; 32]);
    let plan = Plan::new(specs, &metadata, &WriteOptions::new()).unwrap();
    let (file, seal) = (MemoryFile::new(), SealOptions::new().recipient(carol.recipient()));
    seal.write(&plan, &[[1u8; 100]; 4], &file, &Execution::sequential()).unwrap();
    let bytes = file.into_bytes();
    let reader = open(&bytes, Access::new().open_with(carol)).unwrap();
    assert!(reader.verify(VerifyLevel::Full).is_ok());
    let stop = |_| std::ops::ControlFlow::Break(());
    let work = Execution { progress: Some(&stop), ..Execution::sequential() };
    let report = reader.verify_with(VerifyLevel::Full, &work);
    let check = report.checks.iter().find(|check| check.name == "encryption").unwrap();
    assert!(!report.is_ok() && !check.detail.contains("more"), "{report:?}");
}
