//! Attacks on a caller that names the key of the signer.

use apr2::{Compression, Flags};

use super::{
    Access, Parts, Plan, SealOptions, Subject, alice, carol, eve, mallory, open, ours, read, refused, signed,
    vector, verified,
};
use crate::seal::hash::hex;
use crate::seal::keys_section::KeysSection;
use crate::seal::signatures::Purpose;
use crate::seal::tail;

/// Structural faults, which no writer produces. They are reported before the signature is checked.
const STRUCTURE: [&str; 6] =
    ["SealBadSignature", "SealStructure", "SealVersion", "SealLimit", "SealMissing", "structure"];

/// Returns the file with a flipped bit, for every third byte of a range.
fn flips(bytes: &[u8], range: std::ops::Range<usize>) -> impl Iterator<Item = (String, Vec<u8>)> {
    range.step_by(3).map(|at| {
        let mut flipped = bytes.to_vec();
        flipped[at] ^= 1 << (at % 8);
        (format!("byte {at}"), flipped)
    })
}

fn at(n: impl Into<u64>) -> usize {
    usize::try_from(n.into()).unwrap()
}

#[test]
fn flip_in_header_metadata_index_or_body() {
    for subject in signed() {
        let parts = Parts::of(&subject.bytes);
        let front = at(parts.header.index_offset) + at(parts.header.index_size);
        let body = at(parts.header.data_offset) + parts.data.len();
        let body_end = body + 96 + 48 * parts.body.extents.len() + parts.sealed_index.len();
        for (what, flipped) in flips(&subject.bytes, 0..32).chain(flips(&subject.bytes, body..body_end)) {
            let found = read(&flipped, &subject.access);
            assert!(STRUCTURE.contains(&&*found), "{}, {what}: {found}", subject.name);
        }
        // Nothing is parsed before it is checked.
        for (what, flipped) in flips(&subject.bytes, 32..front) {
            assert_eq!(read(&flipped, &subject.access), "SealBadSignature", "{}, {what}", subject.name);
        }
        // Values that are valid in some file, but not in this one.
        let forged = |forge: fn(&mut Parts)| {
            let mut forged = parts.clone();
            forge(&mut forged);
            forged.join()
        };
        let good: [(_, fn(&mut Parts)); 4] = [
            ("revision", |parts| parts.body.revision += 1),
            ("uuid", |parts| parts.body.uuid[0] ^= 1),
            ("digest", |parts| parts.body.extents[1].digest[0] ^= 1),
            ("metadata", |parts| parts.metadata.push(b' ')),
        ];
        for (what, forge) in good {
            refused(&subject, &forged(forge), what, &["SealBadSignature"]);
        }
    }
}

#[test]
fn flip_in_a_tensor_or_in_pages() {
    for subject in signed() {
        let has_key = !open(&subject.bytes, &subject.access).unwrap().index().seal().unwrap().is_locked();
        for tensor in ["a.weight", "big", "runs", "q"] {
            let mut parts = Parts::of(&subject.bytes);
            let last = parts.stored(tensor).len() - 1;
            parts.stored(tensor)[last] ^= 1;
            assert_eq!(verified(&parts.join(), &subject.access), "SealDigest", "{}", subject.name);
            if has_key {
                assert_eq!(read(&parts.join(), &subject.access), "SealDigest", "{}", subject.name);
            }
        }
        let mut parts = Parts::of(&subject.bytes);
        parts.pages[5] ^= 1; // of `big`
        assert_eq!(verified(&parts.join(), &subject.access), "SealPages", "{}", subject.name);
        if has_key {
            let reader = open(&parts.join(), &subject.access).unwrap();
            let part = reader.read_range("big", 0..10).unwrap_err().to_string();
            assert!(part.contains("SealPages"), "{}: {part}", subject.name);
        }
    }
}

#[test]
fn truncation() {
    for subject in signed() {
        for len in (0..subject.bytes.len()).step_by(61).chain([subject.bytes.len() - 1]) {
            let found = read(&subject.bytes[..len], &subject.access);
            assert!(["SealStructure", "structure"].contains(&&*found), "{}, {len}: {found}", subject.name);
        }
    }
}

#[test]
fn last_segments_dropped_and_all_digests_put_right() {
    for subject in signed() {
        let mut parts = Parts::of(&subject.bytes);
        parts.drop_last("big");
        parts.put_digests_right();
        refused(&subject, &parts.join(), "big is shorter", &["SealBadSignature"]);
    }
}

#[test]
fn tensors_or_segments_swapped() {
    for subject in signed() {
        for (first, second) in [(("big", 0), ("big", 1)), (("big", 0), ("edge", 0))] {
            let mut parts = Parts::of(&subject.bytes);
            parts.swap(first, second);
            assert_eq!(verified(&parts.join(), &subject.access), "SealDigest", "{}", subject.name);
            parts.put_digests_right();
            refused(&subject, &parts.join(), "swapped, digests put right", &["SealBadSignature"]);
        }
    }
}

#[test]
fn names_shapes_or_extents_swapped() {
    for subject in signed() {
        let parts = Parts::of(&subject.bytes);
        let mut extents = parts.clone();
        extents.body.extents.swap(0, 5);
        extents.put_digests_right();
        if parts.is_hidden() {
            refused(&subject, &extents.join(), "extents", &["SealBadSignature"]);
            continue;
        }
        for (what, forged) in super::swapped(&parts) {
            refused(&subject, &forged, what, &["SealBadSignature"]);
        }
    }
}

#[test]
fn tensor_keys_or_signatures_of_another_file() {
    let other = SealOptions::new().sign(alice()).recipient(carol().recipient()).revision(7);
    for subject in signed() {
        let mut parts = Parts::of(&subject.bytes);
        let compression =
            if parts.listed.iter().any(|l| l.raw_size > 0) { Compression::Lz4 } else { Compression::None };
        let mut other = Parts::of(&ours(&other, compression));
        if parts.body.segment > 0 {
            let tensor = other.stored("big").to_vec();
            parts.stored("big").copy_from_slice(&tensor);
            assert_eq!(verified(&parts.join(), &subject.access), "SealDigest", "{}", subject.name);
            let mut parts = Parts::of(&subject.bytes);
            parts.keys.clone_from(&other.keys);
            // A caller without a key for the file does not notice changes of slots, which are not signed.
            let expected =
                if subject.name.contains("key") || parts.is_hidden() && subject.name != "vector, both" {
                    "SealNoKey"
                } else {
                    "ok"
                };
            assert_eq!(read(&parts.join(), &subject.access), expected, "{}", subject.name);
        }
        let mut parts = Parts::of(&subject.bytes);
        parts.signatures.clone_from(&other.signatures);
        refused(&subject, &parts.join(), "signatures", &["SealBadSignature"]);
    }
}

#[test]
fn signed_cleared_signatures_removed_or_a_plain_file_instead() {
    for subject in signed() {
        let mut parts = Parts::of(&subject.bytes);
        parts.signatures.clear();
        refused(&subject, &parts.join(), "no signatures", &["SealNoTrustedSignature"]);
        parts.header.flags = parts.header.flags.without(Flags::SIGNED);
        refused(&subject, &parts.join(), "SIGNED cleared", &["SealMissing"]);
        let plain = plain(&subject);
        refused(&subject, &plain, "a plain file", &["SealMissing"]);
        // A plain file that claims to be signed.
        let mut claims = plain;
        claims[8] |= 1 << 5;
        // If the caller provides a key, the first error is that the file is not encrypted.
        let expected = ["SealStructure", "SealMissing"];
        refused(&subject, &claims, "a plain file that claims", &expected);
    }
}

/// Writes a valid file that is not sealed.
fn plain(subject: &Subject) -> Vec<u8> {
    let specs = [modelfmt_write::TensorSpec::new("w", modelfmt_core::DType::U8, vec![3])];
    let metadata = apr2::Metadata::new(subject.name, modelfmt_core::value::Object::default());
    let plan = Plan::new(specs, &metadata, &apr2::WriteOptions::new()).unwrap();
    let file = modelfmt_write::MemoryFile::new();
    plan.write(&[[1u8, 2, 3]], &file, &modelfmt_core::Execution::default()).unwrap();
    file.into_bytes().to_vec()
}

#[test]
fn signed_by_another_key_or_its_record_relabelled() {
    for subject in signed() {
        let mut parts = Parts::of(&subject.bytes);
        let mut record = mallory().sign(Purpose::File, &parts.statement()).signed.unwrap();
        parts.signatures = tail::signatures(&[record]);
        refused(&subject, &parts.join(), "by mallory", &["SealNoTrustedSignature"]);
        record.key_id = alice().verifying_key().key_id();
        parts.signatures = tail::signatures(&[record]);
        refused(&subject, &parts.join(), "relabelled", &["SealBadSignature"]);
        // A good signature next to it does not help.
        let good = alice().sign(Purpose::File, &parts.statement()).signed.unwrap();
        parts.signatures = tail::signatures(&[good, record]);
        refused(&subject, &parts.join(), "beside a good one", &["SealBadSignature"]);
        // A signature that alice made for a set is not valid for a file.
        let set = alice().sign(Purpose::Set, &parts.statement()).signed.unwrap();
        parts.signatures = tail::signatures(&[set]);
        refused(&subject, &parts.join(), "signed as a set", &["SealBadSignature"]);
        // Two signatures by one key count once.
        parts.signatures = tail::signatures(&[good, good]);
        let two = Access { threshold: 2, ..subject.access.clone() };
        assert_eq!(read(&parts.join(), &two), "SealNoTrustedSignature", "{}", subject.name);
    }
}

#[test]
fn one_ciphertext_for_two_keys() {
    for subject in signed().iter().filter(|subject| subject.bytes[8] & 16 != 0) {
        let other = SealOptions::new().recipient(eve().recipient()).fresh_keys().unwrap();
        let mut parts = Parts::of(&subject.bytes);
        parts.body.commitment = other.commitment();
        refused(subject, &parts.join(), "another commitment", &["SealBadSignature"]);
        // A valid signature does not help either: the key in the added slot does not match the commitment.
        let parts = super::with_slot_for(&subject.bytes, &eve().recipient(), other.file_key());
        let for_eve = Access::new().trust(alice().verifying_key()).open_with(eve());
        assert_eq!(read(&parts.join(), &for_eve), "SealKeyCommitment", "{}", subject.name);
    }
}

#[test]
fn older_version_replayed() {
    for subject in signed() {
        let reader = open(&subject.bytes, &subject.access).unwrap();
        let seal = reader.index().seal().unwrap();
        let demands = |access: Access| read(&subject.bytes, &access);
        let next = subject.access.clone().min_revision(seal.revision() + 1);
        assert_eq!(demands(next), "SealRevision", "{}", subject.name);
        assert_eq!(demands(subject.access.clone().min_revision(seal.revision())), "ok", "{}", subject.name);
        let pinned = Access::new().statement(seal.statement());
        assert_eq!(demands(pinned), "ok", "{} {}", subject.name, hex(&seal.statement()));
        let another = subject.access.clone().statement([7; 32]);
        assert_eq!(demands(another), "SealSet", "{}", subject.name);
    }
}

/// Slots are not signed, so that they can change. A caller that has a key still notices the change.
#[test]
fn slots_added_or_changed_without_the_file_key() {
    let bytes = vector("signed-and-encrypted.apr");
    let parts = Parts::of(&bytes);
    let slots = KeysSection::decode(&parts.keys).unwrap().slots;
    assert!(slots.len() > 1);
    let mut forged = parts;
    forged.keys[8 + 8] ^= 1; // of the slot whose type nobody knows
    let access = Access::new().trust(alice().verifying_key()).open_with(carol());
    assert_eq!(read(&forged.join(), &access), "SealKeysMac");
}
