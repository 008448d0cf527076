//! Writes the vectors again with the randomness that they name, and compares byte for byte. Only code in this
//! crate can choose the randomness.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "this is test code")]

use std::sync::{Arc, Mutex};

use apr2::{Compression, WriteOptions};
use modelfmt_core::value::{Object, json};
use modelfmt_core::{Execution, VerifyLevel};
use modelfmt_write::{MemoryFile, TensorSpec};

use super::*;
use crate::reader::{OpenOptions, Reader};
use crate::seal::testing::{Costs, Random};
use crate::seal::{Access, Identity, Passphrase, RawKey, SigningKey};

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn bytes<const N: usize>(object: &Object, path: &[&str]) -> [u8; N] {
    let (last, first) = path.split_last().unwrap();
    let within = first.iter().fold(object, |object, key| object.get(key).unwrap().as_object().unwrap());
    hex(within.get(last).unwrap().as_str().unwrap()).try_into().unwrap()
}

fn text<'o>(object: &'o Object, key: &str) -> &'o str {
    object.get(key).unwrap().as_str().unwrap()
}

/// Returns the options that a vector was sealed with. The randomness is in the order in which our writer uses
/// it.
fn options(vectors: &Object, file: &Object) -> (SealOptions, Access) {
    let mut random = bytes::<16>(file, &["uuid"]).to_vec();
    let (mut options, mut access) = (SealOptions::new(), Access::new());
    options.page = 1 << 12;
    options.segment = 1 << 12;
    for signer in file.get("signers").unwrap().as_array().unwrap().iter() {
        let key = SigningKey::from_bytes(&bytes(vectors, &["sign", signer.as_str().unwrap(), "secret"]));
        access = access.trust(key.verifying_key());
        options = options.sign(key);
    }
    if file.get("file_key").unwrap().as_str().is_some() {
        random.extend(bytes::<32>(file, &["file_key"]));
    }
    for slot in
        file.get("slots").and_then(|slots| slots.as_array()).into_iter().flat_map(|slots| slots.iter())
    {
        let slot = slot.as_object().unwrap();
        match slot.get("type").unwrap().as_u64().unwrap() {
            1 => {
                let identity =
                    Identity::from_bytes(&bytes(vectors, &["x25519", text(slot, "recipient"), "secret"]));
                random.extend(bytes::<32>(slot, &["ikm_e"]));
                let recipient = identity.recipient();
                let anonymous = slot.get("anonymous").is_some();
                options = options.recipient(if anonymous { recipient.anonymous() } else { recipient });
                access = access.open_with(identity);
            }
            2 => {
                random.extend(bytes::<16>(slot, &["salt"]));
                random.extend(bytes::<12>(slot, &["nonce"]));
                let passphrase = Passphrase::from_bytes(&hex(text(
                    vectors.get("passphrase").unwrap().as_object().unwrap(),
                    text(slot, "passphrase"),
                )));
                let number = |key| u32::try_from(slot.get(key).unwrap().as_u64().unwrap()).unwrap();
                let costs = Costs { memory: number("m"), passes: number("t"), lanes: number("p") };
                access = access.open_with(passphrase.clone().unwrap());
                options = options.passphrase_at(passphrase.unwrap(), costs);
            }
            3 => {
                let key = RawKey::from_bytes(&bytes(vectors, &["raw", text(slot, "key")]));
                random.extend(bytes::<12>(slot, &["nonce"]));
                options = options.raw_key(key.clone(), text(slot, "key"));
                access = access.open_with(key);
            }
            kind => options = options.unknown(u16::try_from(kind).unwrap(), hex(text(slot, "payload"))),
        }
    }
    options = options.revision(file.get("revision").unwrap().as_u64().unwrap());
    options = options.hide_index(file.get("sealed_index").unwrap().as_bool().unwrap());
    options.random = Random::Fixed(Arc::new(Mutex::new(random.into())));
    (options, access)
}

#[test]
fn the_vectors_are_written_again() {
    let folder = testkit::testdata("seal");
    let vectors = json::parse(&std::fs::read(folder.join("vectors.json")).unwrap()).unwrap().into_object();
    let mut same = 0;
    for file in
        vectors.get("files").unwrap().as_array().unwrap().iter().map(|file| file.clone().into_object())
    {
        let name = text(&file, "file");
        let vector = std::fs::read(folder.join(name)).unwrap();
        let (options, access) = options(&vectors, &file);
        let reader: Reader<_> =
            OpenOptions::new().with_extension(access.clone()).open_source(&vector[..]).unwrap();
        let values: Vec<_> =
            reader.tensors().iter().map(|info| reader.tensor(info.name).unwrap().bytes().to_vec()).collect();
        let specs = reader.tensors().iter().map(TensorSpec::from);
        let plan =
            Plan::new(specs, reader.index().metadata(), &WriteOptions::new().compression(Compression::Lz4));
        let out = MemoryFile::new();
        let written = options.write(&plan.unwrap(), &values, &out, &Execution::default()).unwrap();
        let out = out.into_bytes();
        let ours = OpenOptions::new().with_extension(access).open_source(&out[..]).unwrap();
        assert_eq!(ours.index().seal().unwrap().statement(), written.statement);
        let report = ours.verify(VerifyLevel::Full);
        assert!(report.is_ok(), "{name}: {report:?}");
        for (position, values) in values.iter().enumerate() {
            assert_eq!(ours.tensor(position).unwrap().bytes(), values, "{name} {position}");
        }
        // LZ4 streams depend on the compressor. All other tensors are stored byte for byte as in the vector.
        let (our, their) = (ours.index().seal.as_deref().unwrap(), reader.index().seal.as_deref().unwrap());
        assert_eq!(our.slots.as_ref().map(|keys| &keys.slots), their.slots.as_ref().map(|keys| &keys.slots));
        assert_eq!(our.body.commitment, their.body.commitment);
        for (position, (our, their)) in our.body.extents.iter().zip(&their.body.extents).enumerate() {
            if !apr2::author::stored(&ours.index().plain, position).unwrap().compressed {
                assert_eq!((our.size, our.digest), (their.size, their.digest), "{name} {position}");
                same += 1;
            }
        }
        if name != "signed-and-encrypted.apr" {
            assert_eq!(out.len() + usize::try_from(shorter(&ours, &reader)).unwrap(), vector.len(), "{name}");
        }
    }
    assert_eq!(same, 5 * 5);
}

/// Returns how many bytes fewer our compressed tensors take, including padding.
fn shorter(ours: &Reader<&[u8]>, theirs: &Reader<&[u8]>) -> u64 {
    let end = |reader: &Reader<&[u8]>| reader.index().sections().data.end();
    end(theirs) - end(ours)
}

/// Values that count how often each tensor is read.
struct Counted(Vec<Vec<u8>>, Vec<std::sync::atomic::AtomicU64>);

impl TensorData for Counted {
    fn read(
        &self,
        tensor: usize,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.1[tensor].fetch_add(out.len() as u64, std::sync::atomic::Ordering::Relaxed);
        self.0.read(tensor, offset, out)
    }
}

/// A sink that refuses to write a byte twice. With the same key, that would reveal what was encrypted.
struct Once(MemoryFile, Mutex<Vec<Range<u64>>>);

impl Sink for Once {
    fn write_at(&self, at: u64, bytes: &[u8]) -> std::io::Result<()> {
        let new = at..at + bytes.len() as u64;
        let mut seen = self.1.lock().unwrap();
        assert!(
            seen.iter().all(|old| old.end <= new.start || new.end <= old.start),
            "{new:?} is written twice"
        );
        seen.push(new);
        self.0.write_at(at, bytes)
    }
}

#[test]
fn values_are_compressed_once_where_they_fit_into_memory() {
    let mut state = 1u64;
    let mut noise = |len: usize| -> Vec<u8> {
        let next = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state.to_le_bytes()[7]
        };
        (0..len).map(next).collect()
    };
    let kib = 1 << 10;
    let values = vec![
        vec![1; 300 * kib], // small, alone in the first batch with the next two
        noise(200 * kib),   // becomes no smaller
        Vec::new(),
        vec![2; 700 * kib],
        [noise(600 * kib), vec![3; 2500 * kib]].concat(), // does not fit
        vec![4; 10],
        Vec::new(),
    ];
    let names: Vec<String> = (0..values.len()).map(|n| format!("t{n}")).collect();
    let specs = names
        .iter()
        .zip(&values)
        .map(|(name, values)| TensorSpec::new(name, modelfmt_core::DType::U8, vec![values.len() as u64]));
    let options = WriteOptions::new().compression(Compression::Lz4);
    let plan = Plan::new(specs, &apr2::Metadata::new("t", Object::default()), &options).unwrap();
    let carol = Identity::from_bytes(&[5; 32]);
    for (seal, hides) in [(true, false), (true, true), (false, false)] {
        for threads in [1, 3] {
            let mut options = SealOptions::new().sign(SigningKey::from_bytes(&[1; 32])).hide_index(hides);
            let mut access = Access::new().trust(SigningKey::from_bytes(&[1; 32]).verifying_key());
            if seal {
                options = options.recipient(carol.recipient());
                access = access.open_with(carol.clone());
            }
            let data = Counted(values.clone(), values.iter().map(|_| Default::default()).collect());
            let out = Once(MemoryFile::new(), Mutex::default());
            options.write(&plan, &data, &out, &Execution { threads, progress: None }).unwrap();
            let reads: Vec<u64> = data.1.into_iter().map(std::sync::atomic::AtomicU64::into_inner).collect();
            let lens: Vec<u64> = values.iter().map(|values| values.len() as u64).collect();
            // A tensor that does not get smaller is read again, to be stored raw.
            let expected = [lens[0], 2 * lens[1], 0, lens[3], 2 * lens[4], 2 * lens[5], 0];
            assert_eq!(reads, expected);
            let out = out.0.into_bytes();
            let reader: Reader<_> = OpenOptions::new().with_extension(access).open_source(&out[..]).unwrap();
            let report = reader.verify(VerifyLevel::Full);
            assert!(report.is_ok(), "{report:?}");
            for (position, values) in values.iter().enumerate() {
                assert_eq!(reader.tensor(position).unwrap().bytes(), values, "{position}");
                let is_packed = apr2::author::stored(&reader.index().plain, position).unwrap().compressed;
                assert_eq!(is_packed, [0, 3, 4].contains(&position));
            }
        }
    }
}
