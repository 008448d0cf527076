//! Keywords of writing: the keys that sign a file, and those that can open it.

use modelfmt::apr2::seal::{SealOptions, SigningKey};
use modelfmt::seal;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::opening::{fit, listed, passphrase, private_key, public_keys, raw_key};

/// Returns the options from keywords. `None` has the same effect as leaving out the keyword.
pub(crate) fn sealing(given: &Bound<'_, PyDict>) -> PyResult<SealOptions> {
    let py = given.py();
    let mut options = SealOptions::new();
    let (mut key, mut key_id) = (None, String::new());
    for (name, value) in given {
        if value.is_none() {
            continue;
        }
        let name = name.extract::<String>()?;
        match name.as_str() {
            "sign" => {
                for key in listed(&name, &value)? {
                    options = options.sign(signing_key(&key)?);
                }
            }
            "revision" => options = options.revision(value.extract()?),
            "recipients" => {
                for key in public_keys(&name, &value)? {
                    options = options.recipient(fit(py, "recipients", seal::recipient(&key))?);
                }
            }
            "passphrase" => options = options.passphrase(passphrase(&value)?),
            "raw_key" => key = Some(raw_key(&value)?),
            "key_id" => key_id = value.extract()?,
            "hide_index" => options = options.hide_index(value.extract()?),
            other => return Err(PyTypeError::new_err(format!("there is no keyword {other:?} of sealing"))),
        }
    }
    Ok(match key {
        Some(key) => options.raw_key(key, key_id),
        None => options,
    })
}

/// Reads a private key that signs inside APR2 files.
pub(crate) fn signing_key(key: &Bound<'_, PyAny>) -> PyResult<SigningKey> {
    fit(key.py(), "sign", seal::signing_key(&private_key(key)?))
}
