//! Slots: each wraps the file's key for one key or passphrase that may open the file.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use aes_gcm::aead::AeadInOut as _;
use aes_gcm::{Aes256Gcm, KeyInit as _, Nonce, Tag};
use hpke::kem::X25519HkdfSha256;
use hpke::rand_core::CryptoRng;
use hpke::{Deserializable as _, Kem, Serializable as _};
use zeroize::Zeroizing;

use crate::error::SealFault;
use crate::seal::access::Access;
use crate::seal::derive::{Secret, derive};
use crate::seal::hash::label;
use crate::seal::keys::{Identity, Opener, Passphrase, RawKey, Recipient};
use crate::seal::keys_section::Slot;
use crate::seal::passphrase_cost::{Costs, PASSPHRASE_SLOTS};
use crate::seal::passphrase_limits::Argon2Caps;
use crate::seal::wire::{Fields, structure};

pub(crate) const X25519: u16 = 1;
pub(crate) const PASSPHRASE: u16 = 2;
pub(crate) const RAW_KEY: u16 = 3;

/// Unwraps the file's key from the first slot that one of the caller's keys opens.
pub(crate) fn unwrap(slots: &[Slot], access: &Access, uuid: &[u8; 16]) -> Result<Secret, SealFault> {
    let mut beyond = None;
    for opener in &access.openers {
        let found = match opener {
            Opener::Identity(identity) => of_identity(slots, identity, uuid),
            Opener::Passphrase(passphrase) => {
                of_passphrase(slots, passphrase, uuid, &access.argon2, &mut beyond)
            }
            Opener::RawKey(key) => of_type(slots, RAW_KEY).find_map(|payload| raw_key(payload, key, uuid)),
        };
        if let Some(file_key) = found {
            return Ok(file_key);
        }
    }
    Err(beyond.unwrap_or(SealFault::NoKey(
        "none of the given keys and passphrases opens the file; `modelfmt inspect` lists who can open it",
    )))
}

fn of_type(slots: &[Slot], kind: u16) -> impl Iterator<Item = &[u8]> {
    slots.iter().filter(move |slot| slot.kind == kind).map(|slot| &*slot.payload)
}

fn of_identity(slots: &[Slot], identity: &Identity, uuid: &[u8; 16]) -> Option<Secret> {
    let (private, own_id) = (identity.private()?, identity.key_id());
    of_type(slots, X25519).find_map(|payload| {
        let (key_id, rest) = payload.split_first_chunk::<32>()?;
        if *key_id != [0; 32] && *key_id != own_id {
            return None;
        }
        let (enc, wrapped) = rest.split_first_chunk::<32>()?;
        let enc = <X25519HkdfSha256 as Kem>::EncappedKey::from_bytes(enc).ok()?;
        let opened = hpke::single_shot_open::<hpke::aead::AesGcm256, hpke::kdf::HkdfSha256, X25519HkdfSha256>(
            &hpke::OpModeR::Base,
            &private,
            &enc,
            &hpke_info(uuid),
            wrapped,
            &[],
        );
        secret(&Zeroizing::new(opened.ok()?))
    })
}

fn hpke_info(uuid: &[u8; 16]) -> Vec<u8> {
    let mut info = label("hpke");
    info.extend(uuid);
    info
}

fn secret(bytes: &[u8]) -> Option<Secret> {
    let mut secret = Zeroizing::new([0; 32]);
    (bytes.len() == secret.len()).then(|| secret.copy_from_slice(bytes))?;
    Some(secret)
}

fn of_passphrase(
    slots: &[Slot],
    passphrase: &Passphrase,
    uuid: &[u8; 16],
    caps: &Argon2Caps,
    beyond: &mut Option<SealFault>,
) -> Option<Secret> {
    of_type(slots, PASSPHRASE).enumerate().find_map(|(number, payload)| {
        if number >= PASSPHRASE_SLOTS {
            // Any of the other slots may be the right one for the passphrase.
            beyond.get_or_insert_with(|| {
                let most = format!(
                    "a passphrase is tried on {PASSPHRASE_SLOTS} slots at most, and the file has more"
                );
                SealFault::Limit(most)
            });
            return None;
        }
        let (fixed, rest) = payload.split_first_chunk::<28>()?;
        let mut c = Fields(fixed);
        let (salt, costs) = (c.array::<16>().ok()?, Costs::decode(&mut c).ok()?);
        if let Err(fault) = costs.check(caps) {
            *beyond = Some(fault);
            return None;
        }
        let (nonce, wrapped) = rest.split_first_chunk::<12>()?;
        let key = passphrase_key(passphrase, costs, &salt, uuid).ok()?;
        open(&key, nonce, &passphrase_aad(uuid, fixed), wrapped)
    })
}

fn passphrase_key(
    passphrase: &Passphrase,
    costs: Costs,
    salt: &[u8; 16],
    uuid: &[u8; 16],
) -> Result<Secret, SealFault> {
    let stretched = passphrase.stretched(salt, costs, |bytes| costs.stretch(bytes, salt))?;
    Ok(derive(uuid, &*stretched, &label("passphrase")))
}

fn passphrase_aad(uuid: &[u8; 16], fixed: &[u8; 28]) -> Vec<u8> {
    let mut aad = label("passphrase");
    aad.extend(uuid);
    aad.extend(fixed);
    aad
}

fn raw_key(payload: &[u8], key: &RawKey, uuid: &[u8; 16]) -> Option<Secret> {
    let (nonce, rest) = payload.split_first_chunk::<12>()?;
    let (wrapped, id) = rest.split_at_checked(48)?;
    let (key, aad) = raw_key_parts(key, id, uuid);
    open(&key, nonce, &aad, wrapped)
}

fn raw_key_parts(key: &RawKey, id: &[u8], uuid: &[u8; 16]) -> (Secret, Vec<u8>) {
    let mut info = label("raw key");
    let mut aad = info.clone();
    info.extend(id);
    aad.extend(uuid);
    aad.extend(id);
    (derive(uuid, &*key.0, &info), aad)
}

fn open(key: &Secret, nonce: &[u8; 12], aad: &[u8], wrapped: &[u8]) -> Option<Secret> {
    let (sealed, tag) = wrapped.split_first_chunk::<32>()?;
    let tag: [u8; 16] = tag.try_into().ok()?;
    let mut file_key = Zeroizing::new(*sealed);
    Aes256Gcm::new((&**key).into())
        .decrypt_inout_detached(&Nonce::from(*nonce), aad, file_key.as_mut_slice().into(), &Tag::from(tag))
        .ok()?;
    Some(file_key)
}

fn close(key: &Secret, nonce: &[u8; 12], aad: &[u8], file_key: &[u8; 32]) -> Result<[u8; 48], SealFault> {
    let mut sealed = *file_key;
    let tag = Aes256Gcm::new((&**key).into())
        .encrypt_inout_detached(&Nonce::from(*nonce), aad, sealed.as_mut_slice().into())
        .map_err(|_| structure("AES-GCM refuses a key"))?;
    let mut wrapped = [0; 48];
    let (head, tail) = wrapped.split_at_mut(32);
    head.copy_from_slice(&sealed);
    tail.copy_from_slice(&tag);
    Ok(wrapped)
}

/// Makes a slot for an X25519 key. Its ephemeral key needs randomness.
pub(crate) fn for_recipient(
    recipient: &Recipient,
    file_key: &[u8; 32],
    uuid: &[u8; 16],
    random: &mut impl CryptoRng,
) -> Result<Slot, SealFault> {
    let refused = || structure("a recipient's key cannot be used");
    let public = recipient.public().ok_or_else(refused)?;
    let (enc, wrapped) = hpke::single_shot_seal_with_rng::<
        hpke::aead::AesGcm256,
        hpke::kdf::HkdfSha256,
        X25519HkdfSha256,
    >(&hpke::OpModeS::Base, &public, &hpke_info(uuid), file_key, &[], random)
    .map_err(|_| refused())?;
    let key_id = if recipient.is_anonymous { [0; 32] } else { recipient.key_id() };
    let payload = [&key_id[..], &enc.to_bytes(), &wrapped].concat();
    Ok(Slot { kind: X25519, payload })
}

pub(crate) fn for_passphrase(
    passphrase: &Passphrase,
    costs: Costs,
    salt: [u8; 16],
    nonce: [u8; 12],
    file_key: &[u8; 32],
    uuid: &[u8; 16],
) -> Result<Slot, SealFault> {
    let mut fixed = [0; 28];
    let words = [costs.memory, costs.passes, costs.lanes].map(u32::to_le_bytes);
    for (byte, from) in fixed.iter_mut().zip(salt.iter().chain(words.as_flattened())) {
        *byte = *from;
    }
    let key = passphrase_key(passphrase, costs, &salt, uuid)?;
    let wrapped = close(&key, &nonce, &passphrase_aad(uuid, &fixed), file_key)?;
    Ok(Slot { kind: PASSPHRASE, payload: [&fixed[..], &nonce, &wrapped].concat() })
}

pub(crate) fn for_raw_key(
    key: &RawKey,
    id: &[u8],
    nonce: [u8; 12],
    file_key: &[u8; 32],
    uuid: &[u8; 16],
) -> Result<Slot, SealFault> {
    let (key, aad) = raw_key_parts(key, id, uuid);
    let wrapped = close(&key, &nonce, &aad, file_key)?;
    Ok(Slot { kind: RAW_KEY, payload: [&nonce[..], &wrapped, id].concat() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn a_passphrase_of_a_slot_beyond_those_that_are_tried_is_a_limit() {
        let (file_key, uuid) = ([1; 32], [2; 16]);
        let costs = Costs { memory: 8, passes: 1, lanes: 1 };
        let phrase = |number: u8| Passphrase::from_bytes(&[b'a' + number]).unwrap();
        let slot = |number: u8| {
            for_passphrase(&phrase(number), costs, [number; 16], [number; 12], &file_key, &uuid).unwrap()
        };
        let all: Vec<Slot> = (0..6).map(slot).collect();
        let opened = |slots: &[Slot], number| unwrap(slots, &Access::new().open_with(phrase(number)), &uuid);
        assert_eq!(*opened(&all, 3).unwrap(), file_key);
        for beyond in [4, 5, 9] {
            let fault = opened(&all, beyond).unwrap_err();
            assert_eq!(
                fault.to_string(),
                "SealLimit: a passphrase is tried on 4 slots at most, and the file has more"
            );
        }
        assert!(matches!(opened(&all[..4], 9), Err(SealFault::NoKey(_))));
        // Another key still opens the file.
        let raw = RawKey::from_bytes(&[3; 32]);
        let mut more = all;
        more.push(Slot {
            kind: RAW_KEY,
            payload: for_raw_key(&raw, b"id", [0; 12], &file_key, &uuid).unwrap().payload,
        });
        let both = Access::new().open_with(phrase(5)).open_with(raw);
        assert_eq!(*unwrap(&more, &both, &uuid).unwrap(), file_key);
    }
}
