//! Attacks on a reader that has a key for a file that nobody has signed.

use apr2::{Compression, Flags};

use super::{
    Access, Identity, Parts, SealOptions, Subject, carol, encrypted, eve, keys_of, open, ours, read, refused,
    vector, verified,
};
use crate::seal::keys_section::Slot;

/// Structural faults, which no writer produces. They are reported before the MAC is checked.
const STRUCTURE: [&str; 6] =
    ["SealStatementMac", "SealStructure", "SealVersion", "SealLimit", "SealMissing", "structure"];

fn forged(subject: &Subject, forge: impl FnOnce(&mut Parts)) -> Vec<u8> {
    let mut parts = Parts::of(&subject.bytes);
    forge(&mut parts);
    parts.join()
}

/// Makes a forgery by an attacker who has the file's key. Only the encrypted content distinguishes it from
/// the owner's file.
fn forged_with_key(subject: &Subject, forge: impl FnOnce(&mut Parts)) -> Vec<u8> {
    let mut parts = Parts::of(&subject.bytes);
    forge(&mut parts);
    parts.put_digests_right();
    parts.put_macs_right(&keys_of(subject));
    parts.join()
}

#[test]
fn flip_in_header_metadata_index_or_body() {
    for subject in encrypted().iter().filter(|subject| !subject.name.contains("passphrase")) {
        let parts = Parts::of(&subject.bytes);
        let to = |n: u64| usize::try_from(n).unwrap();
        let front = to(u64::from(parts.header.index_offset) + u64::from(parts.header.index_size));
        let body = to(parts.header.data_offset.into()) + parts.data.len();
        let body_end = body + 96 + 48 * parts.body.extents.len() + parts.sealed_index.len();
        for at in (0..front).step_by(2).chain(body..body_end) {
            let mut flipped = subject.bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            let found = read(&flipped, &subject.access);
            let what = format!("{}, byte {at}: {found}", subject.name);
            match at.checked_sub(body) {
                Some(16..32) => assert_eq!(found, "SealNoKey", "uuid, {what}"),
                Some(64..96) => assert_eq!(found, "SealKeyCommitment", "commitment, {what}"),
                _ => assert!(STRUCTURE.contains(&&*found), "{what}"),
            }
        }
        refused(subject, &forged(subject, |p| p.body.revision += 1), "revision", &["SealStatementMac"]);
        refused(subject, &forged(subject, |p| p.metadata.push(b' ')), "metadata", &["SealStatementMac"]);
    }
}

#[test]
fn flip_in_a_tensor_or_in_pages() {
    for subject in encrypted() {
        for tensor in ["a.weight", "big", "runs", "q"] {
            let bytes = forged(&subject, |parts| parts.stored(tensor)[7] ^= 1);
            assert_eq!(read(&bytes, &subject.access), "SealSegment", "{}", subject.name);
            assert_eq!(verified(&bytes, &subject.access), "SealDigest", "{}", subject.name);
        }
        let bytes = forged(&subject, |parts| parts.pages[5] ^= 1);
        assert_eq!(verified(&bytes, &subject.access), "SealPages", "{}", subject.name);
        assert_eq!(read(&bytes, &subject.access), "ok", "{}: segments are enough", subject.name);
    }
}

#[test]
fn truncation() {
    for subject in encrypted() {
        let parts = Parts::of(&subject.bytes);
        let start = usize::try_from(parts.header.data_offset).unwrap();
        // Also at the end of a segment.
        let borders = (0..4).map(|n| start + 576 + n * 4112);
        for len in (0..subject.bytes.len()).step_by(61).chain(borders) {
            let found = read(&subject.bytes[..len], &subject.access);
            assert!(["SealStructure", "structure"].contains(&&*found), "{}, {len}: {found}", subject.name);
        }
    }
}

#[test]
fn last_segments_dropped_and_all_digests_put_right() {
    for subject in encrypted() {
        let bytes = forged(&subject, |parts| {
            parts.drop_last("big");
            parts.put_digests_right();
        });
        refused(&subject, &bytes, "big is shorter", &["SealStatementMac"]);
        if Parts::of(&subject.bytes).is_hidden() {
            continue; // the index cannot be changed without decrypting it
        }
        let bytes = forged_with_key(&subject, |parts| parts.drop_last("big"));
        refused(&subject, &bytes, "big is shorter, with the key", &["SealSegment"]);
    }
    // The identity of a compressed tensor does not depend on its stored length. But each segment
    // authenticates whether it is the last one.
    for subject in
        encrypted().iter().filter(|subject| matches!(subject.name, "ours, recipient" | "ours, raw key"))
    {
        let stored = Parts::of(&subject.bytes).stored("noisy").len();
        assert!(stored > 3 * 4112 && stored < 60_000, "{stored}");
        let bytes = forged_with_key(subject, |parts| parts.drop_last("noisy"));
        assert_eq!(Parts::of(&bytes).listed[6].dims, [60_000]);
        refused(subject, &bytes, "noisy is shorter, with the key", &["SealSegment"]);
    }
}

#[test]
fn tensors_or_segments_swapped() {
    for subject in encrypted() {
        for (first, second) in [(("big", 0), ("big", 1)), (("big", 0), ("edge", 0))] {
            let bytes = forged(&subject, |parts| parts.swap(first, second));
            assert_eq!(read(&bytes, &subject.access), "SealSegment", "{}", subject.name);
            assert_eq!(verified(&bytes, &subject.access), "SealDigest", "{}", subject.name);
            let bytes = forged(&subject, |parts| {
                parts.swap(first, second);
                parts.put_digests_right();
            });
            refused(&subject, &bytes, "swapped, digests put right", &["SealStatementMac"]);
            let bytes = forged_with_key(&subject, |parts| parts.swap(first, second));
            refused(&subject, &bytes, "swapped, with the key", &["SealSegment"]);
        }
    }
}

#[test]
fn names_shapes_or_extents_swapped() {
    for subject in encrypted() {
        let parts = Parts::of(&subject.bytes);
        if parts.is_hidden() {
            let bytes = forged(&subject, |parts| parts.body.extents.swap(0, 5));
            refused(&subject, &bytes, "extents", &["SealStatementMac", "SealStructure"]);
            let bytes = forged_with_key(&subject, |parts| parts.body.extents.swap(0, 5));
            refused(&subject, &bytes, "extents, with the key", &["SealExtent"]);
            continue;
        }
        for (what, bytes) in super::swapped(&parts) {
            refused(&subject, &bytes, what, &["SealStatementMac"]);
            let mut parts = Parts::of(&bytes);
            parts.put_macs_right(&keys_of(&subject));
            refused(&subject, &parts.join(), what, &["SealSegment"]);
        }
    }
}

#[test]
fn tensor_or_keys_of_another_file() {
    let seal = SealOptions::new().recipient(carol().recipient());
    let mut other = Parts::of(&ours(&seal, Compression::Lz4));
    let tensor = other.stored("big").to_vec();
    for subject in encrypted() {
        let put = |parts: &mut Parts| parts.stored("big").copy_from_slice(&tensor);
        let bytes = forged(&subject, |parts| {
            put(parts);
            parts.put_digests_right();
        });
        refused(&subject, &bytes, "a tensor", &["SealStatementMac"]);
        refused(&subject, &forged_with_key(&subject, put), "a tensor, with the key", &["SealSegment"]);
        let bytes = forged(&subject, |parts| parts.keys.clone_from(&other.keys));
        refused(&subject, &bytes, "keys", &["SealNoKey"]);
    }
}

#[test]
fn signed_cleared_or_a_plain_file_instead() {
    for subject in encrypted() {
        // A plain file, and a file that is only signed.
        for instead in ["apr2/dtypes.apr", "seal/signed.apr"] {
            let bytes = std::fs::read(testkit::testdata(instead)).unwrap();
            refused(&subject, &bytes, instead, &["SealMissing"]);
        }
        let bytes = forged(&subject, |parts| {
            parts.header.flags = parts.header.flags.with(Flags::SIGNED, true);
        });
        refused(&subject, &bytes, "SIGNED set", &["SealStatementMac"]);
    }
    // A file that is also signed, for a caller that has only the key. This caller does not notice that
    // signatures are removed: they can be added and dropped without a change of the statement.
    let access = Access::new().open_with(carol());
    let both = Subject { name: "both", bytes: vector("signed-and-encrypted.apr"), access };
    let bytes = forged(&both, |parts| parts.header.flags = parts.header.flags.without(Flags::SIGNED));
    refused(&both, &bytes, "SIGNED cleared", &["SealStatementMac"]);
    refused(&both, &forged(&both, |parts| parts.signatures.clear()), "no signatures", &["ok"]);
}

#[test]
fn wrong_key() {
    for mut subject in encrypted() {
        let wrong = crate::seal::RawKey::from_bytes(&[3; 32]);
        subject.access = Access::new()
            .open_with(eve())
            .open_with(wrong)
            .open_with(crate::seal::Passphrase::from_bytes(b"wrong").unwrap());
        refused(&subject, &subject.bytes, "wrong key", &["SealNoKey"]);
    }
}

#[test]
fn slots_added_or_changed_without_the_file_key() {
    for subject in encrypted() {
        let keys = keys_of(&subject);
        // A slot for eve that only looks valid, added to the others.
        let eve = super::with_slot_for(&subject.bytes, &eve().recipient(), &[9; 32]);
        refused(&subject, &eve.join(), "a slot for eve", &["SealKeysMac"]);
        let unknown = Slot { kind: 0x7000, payload: vec![1, 2, 3] };
        let bytes = forged(&subject, |parts| super::add_slot(parts, unknown));
        refused(&subject, &bytes, "an unknown slot", &["SealKeysMac"]);
        // A MAC from before the change, or one that was made with another key.
        let bytes = forged(&subject, |parts| {
            parts.put_macs_right(&crate::seal::derive::FileKeys::new(
                zeroize::Zeroizing::new([9; 32]),
                keys.uuid,
            ));
        });
        refused(&subject, &bytes, "MACs of another key", &["SealKeysMac"]);
    }
}

#[test]
fn one_ciphertext_for_two_keys() {
    for subject in encrypted() {
        // The writer of a file can wrap a second key for eve, which decrypts the same bytes to something
        // else.
        let second = [9; 32];
        let parts = super::with_slot_for(&subject.bytes, &eve().recipient(), &second);
        let uuid = parts.body.uuid;
        let with = |keys: &crate::seal::derive::FileKeys| {
            let mut parts = parts.clone();
            parts.put_macs_right(keys);
            parts.join()
        };
        let for_eve = Access::new().open_with(eve());
        let second = crate::seal::derive::FileKeys::new(zeroize::Zeroizing::new(second), uuid);
        for bytes in [with(&second), with(&keys_of(&subject)), parts.join()] {
            assert_eq!(read(&bytes, &for_eve), "SealKeyCommitment", "{}", subject.name);
        }
    }
}

/// An older version that the key opens is valid. Only a caller that requires a revision or a statement
/// notices.
#[test]
fn older_version_replayed() {
    for subject in encrypted() {
        assert_eq!(read(&subject.bytes, &subject.access), "ok");
        let newer = subject.access.clone().min_revision(1);
        assert_eq!(read(&subject.bytes, &newer), "SealRevision", "{}", subject.name);
        let another = subject.access.clone().statement([7; 32]);
        assert_eq!(read(&subject.bytes, &another), "SealSet", "{}", subject.name);
    }
}

/// A pinned statement fixes every byte, even against attackers who have the key, because digests are then
/// checked in addition to AES-GCM.
#[test]
fn a_pinned_statement_binds_what_a_recipient_could_forge() {
    let identity: Identity = carol();
    let seal = SealOptions::new().recipient(identity.recipient());
    let bytes = ours(&seal, Compression::None);
    let access = Access::new().open_with(identity);
    let statement = open(&bytes, &access).unwrap().index().seal().unwrap().statement();
    let subject = Subject { name: "pinned", bytes, access: access.clone().statement(statement) };
    // Carol encrypts other values with the file's own key, and AES-GCM accepts them.
    let keys = keys_of(&subject);
    let mut parts = Parts::of(&subject.bytes);
    let listed = parts.listed[4].clone();
    let identity = apr2::author::identity(&listed.name, listed.dtype, &listed.dims);
    let cipher = crate::seal::segments::Cipher::of_tensor(&keys, 4, &identity, 4096, 4096);
    let other = cipher.sealed(0, &[0xee; 4096]).unwrap();
    parts.stored("edge").copy_from_slice(&other);
    let forged = parts.join();
    assert_eq!(read(&forged, &access), "ok", "without the statement only AES-GCM is looked at");
    assert_eq!(open(&forged, &access).unwrap().tensor("edge").unwrap().bytes(), [0xee; 4096]);
    assert_eq!(read(&forged, &subject.access), "SealDigest");
    let reader = open(&forged, &subject.access).unwrap();
    assert!(reader.read_range("edge", 0..10).unwrap_err().to_string().contains("SealDigest"));
    assert!(reader.tensor("big").is_ok(), "only the tensor that was changed is refused");
}
