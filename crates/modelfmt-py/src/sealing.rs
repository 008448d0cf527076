//! Keywords of what is written: who signs it, and who can open it.

use modelfmt::apr2::seal::{Passphrase, RawKey, Recipient, SealOptions, SigningKey};
use modelfmt::keys::{KeyType, PublicKey};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::errors::refuse;
use crate::opening::{listed, passphrase, private_key, public_keys};

/// From keywords; those that are `None` are not given.
pub(crate) fn seal(given: &Bound<'_, PyDict>) -> PyResult<SealOptions> {
    let py = given.py();
    let mut options = SealOptions::new();
    let (mut raw_key, mut key_id) = (None, String::new());
    for (key, value) in given {
        if value.is_none() {
            continue;
        }
        match key.extract::<String>()?.as_str() {
            "sign" => {
                for key in listed(&value)? {
                    options = options.sign(signing_key(&key)?);
                }
            }
            "revision" => options = options.revision(value.extract()?),
            "recipients" => {
                for key in public_keys(&value)? {
                    options = options.recipient(recipient(py, &key)?);
                }
            }
            "passphrase" => {
                let phrase: Passphrase = passphrase(&value)?;
                options = options.passphrase(phrase);
            }
            "raw_key" => raw_key = Some(value.cast_into::<PyBytes>()?),
            "key_id" => key_id = value.extract()?,
            "hide_index" => options = options.hide_index(value.extract()?),
            other => return Err(PyTypeError::new_err(format!("there is no keyword {other:?} of sealing"))),
        }
    }
    if let Some(bytes) = raw_key {
        let bytes = bytes.as_bytes().try_into();
        let bytes = bytes.map_err(|_| refuse(py, "usage", "raw_key: a key is 32 bytes"))?;
        options = options.raw_key(RawKey::from_bytes(bytes), key_id);
    }
    Ok(options)
}

/// A private key that signs within APR2 files.
pub(crate) fn signing_key(key: &Bound<'_, PyAny>) -> PyResult<SigningKey> {
    let private = private_key(key)?;
    let bytes = private.secret().try_into().ok().filter(|_| private.key_type() == KeyType::Ed25519);
    let why = "sign: signatures inside APR2 files are of Ed25519 keys, and this key has another type";
    Ok(SigningKey::from_bytes(bytes.ok_or_else(|| refuse(key.py(), "key", why))?))
}

fn recipient(py: Python<'_>, key: &PublicKey) -> PyResult<Recipient> {
    let bytes = key.as_bytes().try_into().ok().filter(|_| key.key_type() == KeyType::X25519);
    let why = "recipients: files are encrypted for X25519 keys, and this key has another type";
    let bytes = bytes.ok_or_else(|| refuse(py, "key", why))?;
    Recipient::from_bytes(bytes).map_err(|error| refuse(py, "key", &format!("recipients: {error}")))
}
