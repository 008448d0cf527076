//! Keys that open sealed files, and keys of signers. They come from JavaScript as text and stay in the
//! worker. Errors never contain any of their bytes.

use modelfmt::apr2::seal::{Access, Passphrase, RawKey};
use modelfmt::modelfmt_core::author::with_causes;
use modelfmt::seal;
use modelfmt_keys::{PrivateKey, PublicKey};
use serde_json::Value;

use crate::answers::{Refusal, Result, usage};

/// Reads the requirements for a sealed file and the keys that open it: `passphrase`, a text, and `files`, the
/// texts of key files.
pub(crate) fn access(given: &Value) -> Result<Access> {
    let mut access = Access::new();
    if let Some(text) = given.get("passphrase").and_then(Value::as_str) {
        access = access.open_with(Passphrase::from_bytes(text.as_bytes()).map_err(refused)?);
    }
    let files = given.get("files").and_then(Value::as_array).into_iter().flatten();
    files.filter_map(Value::as_str).try_fold(access, with)
}

/// Reads the keys of signers from their texts.
#[inline(never)]
pub(crate) fn signers(given: Option<&Value>) -> Result<Vec<PublicKey>> {
    let texts = given.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    texts.map(|text| PublicKey::from_pem(text).map_err(refused)).collect()
}

/// Adds the key in a file, whatever its purpose is.
fn with(access: Access, text: &str) -> Result<Access> {
    if text.contains("PRIVATE KEY-----") {
        let key = PrivateKey::from_pem(text).map_err(refused)?;
        return Ok(access.open_with(seal::identity(&key).map_err(refused)?));
    }
    if text.contains("PUBLIC KEY-----") {
        let key = PublicKey::from_pem(text).map_err(refused)?;
        return Ok(access.trust(seal::verifying_key(&key).map_err(refused)?));
    }
    let key = RawKey::from_file_content(text.as_bytes());
    Ok(access.open_with(key.map_err(|_| usage("a key is a PEM file, 32 bytes, or 64 hex digits"))?))
}

fn refused(error: impl std::error::Error) -> Refusal {
    usage(with_causes(&error))
}
