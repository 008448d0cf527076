//! Keys that open sealed files, and keys of signers. They come from JavaScript as text and stay in the worker; what an error says has no
//! byte of them.

use modelfmt::apr2::seal::{Access, Identity, Passphrase, RawKey, VerifyingKey};
use modelfmt_keys::{KeyType, PrivateKey, PublicKey};
use serde_json::Value;

use crate::answers::{Result, usage};

/// What is demanded of a sealed file and what opens it: `passphrase`, a text, and `files`, the texts of files with keys.
pub(crate) fn access(given: &Value) -> Result<Access> {
    let mut access = Access::new();
    if let Some(text) = given.get("passphrase").and_then(Value::as_str) {
        let passphrase = Passphrase::from_bytes(text.as_bytes());
        access = access.open_with(passphrase.map_err(|error| usage(error.to_string()))?);
    }
    let files = given.get("files").and_then(Value::as_array).into_iter().flatten();
    files.filter_map(Value::as_str).try_fold(access, with)
}

/// Keys of signers, whose texts these are.
#[inline(never)]
pub(crate) fn signers(given: Option<&Value>) -> Result<Vec<PublicKey>> {
    let texts = given.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let key = |text: &str| {
        let refused =
            |error: &modelfmt_keys::Error| usage(modelfmt::modelfmt_core::author::with_causes(error));
        PublicKey::from_pem(text).map_err(|error| refused(&error))
    };
    texts.map(key).collect()
}

/// With the key that is in a file, whatever it is for.
fn with(access: Access, text: &str) -> Result<Access> {
    let refused = |error: &modelfmt_keys::Error| usage(modelfmt::modelfmt_core::author::with_causes(error));
    if text.contains("PRIVATE KEY-----") {
        let key = PrivateKey::from_pem(text).map_err(|error| refused(&error))?;
        let bytes = key.secret().try_into().ok().filter(|_| key.key_type() == KeyType::X25519);
        let bytes =
            bytes.ok_or_else(|| usage("files are opened with X25519 keys, and this key has another type"))?;
        return Ok(access.open_with(Identity::from_bytes(bytes)));
    }
    if text.contains("PUBLIC KEY-----") {
        let key = PublicKey::from_pem(text).map_err(|error| refused(&error))?;
        let bytes = key.as_bytes().try_into().ok().filter(|_| key.key_type() == KeyType::Ed25519);
        let bytes = bytes
            .ok_or_else(|| usage("APR2 files are signed with Ed25519 keys, and this key has another type"))?;
        let key = VerifyingKey::from_bytes(bytes).map_err(|error| usage(error.to_string()))?;
        return Ok(access.trust(key));
    }
    let key = raw(text.trim_end()).ok_or_else(|| usage("a key is a PEM file, 32 bytes, or 64 hex digits"))?;
    Ok(access.open_with(RawKey::from_bytes(&key)))
}

/// 64 hex digits.
fn raw(text: &str) -> Option<[u8; 32]> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut key = [0; 32];
    if pairs.len() != key.len() || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in key.iter_mut().zip(pairs) {
        *byte = u8::try_from(digit(*high)? << 4 | digit(*low)?).ok()?;
    }
    Some(key)
}
