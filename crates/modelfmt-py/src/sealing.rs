//! Keywords of what is written: who signs it, and who can open it.

use modelfmt::apr2::seal::{Passphrase, RawKey, SealOptions, SigningKey};
use modelfmt::seal;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::errors::refuse;
use crate::opening::{fit, listed, passphrase, private_key, public_keys};

/// From keywords; those that are `None` are not given.
pub(crate) fn sealing(given: &Bound<'_, PyDict>) -> PyResult<SealOptions> {
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
                    options = options.recipient(fit(py, "recipients", seal::recipient(&key))?);
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
    fit(key.py(), "sign", seal::signing_key(&private_key(key)?))
}
