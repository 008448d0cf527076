//! Keys that open sealed files, and keys of signers. They come from JavaScript as text and stay in the
//! worker. Errors never contain any of their bytes.

use modelfmt::apr2::seal::{Access, Passphrase, RawKey};
use modelfmt::modelfmt_core::author::with_causes;
use modelfmt::seal;
use modelfmt_keys::{PrivateKey, PublicKey};
use serde_json::Value;

use crate::answers::{Refusal, Result, usage};
use crate::args::texts;

/// Reads the requirements for a sealed file and the keys that open it: `passphrase`, a text, and `files`, the
/// texts of key files. Anything else is an error, because a key that was ignored would be a demand that was
/// dropped.
#[inline(never)]
pub(crate) fn access(given: &Value) -> Result<Access> {
    const WRONG: &str = "keys: { passphrase, files } is needed: a text, a list of the texts of keys, or both";
    let wrong = || usage(WRONG);
    let mut access = None::<Access>;
    for (key, value) in given.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
        let sum = access.take().unwrap_or_default();
        access = Some(match (&**key, value) {
            ("passphrase", Value::String(text)) => {
                sum.open_with(Passphrase::from_bytes(text.as_bytes()).map_err(refused)?)
            }
            ("files", Value::Array(files)) if !files.is_empty() => {
                files.iter().try_fold(sum, |sum, file| with(sum, file.as_str().ok_or_else(wrong)?))?
            }
            _ => return Err(wrong()),
        });
    }
    access.ok_or_else(wrong)
}

/// Reads the keys of signers from their texts.
#[inline(never)]
pub(crate) fn signers(given: Option<&Value>) -> Result<Vec<PublicKey>> {
    let texts = given.map(|given| texts("signers", given)).transpose()?.unwrap_or_default();
    texts.iter().map(|text| PublicKey::from_pem(text).map_err(refused)).collect()
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
