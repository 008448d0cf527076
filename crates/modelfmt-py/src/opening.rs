//! Keywords of opening: the pin, the keys that must have signed, the keys that decrypt, and what requests may
//! do.

use std::path::PathBuf;

use modelfmt::apr2::seal::{Access, Identity, Passphrase, RawKey};
use modelfmt::keys::{Error as KeyError, PrivateKey, PublicKey};
use modelfmt::{OpenOptions, Pin, seal};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::errors::{of_key, refuse};
use crate::policy;
use crate::remote::Allowed;

/// The keywords for opening a model.
#[derive(Default)]
pub(crate) struct Opening {
    pin: Option<Pin>,
    pub(crate) allowed: Allowed,
    /// The keys that must have signed.
    pub(crate) keys: Vec<PublicKey>,
    threshold: Option<usize>,
    min_revision: Option<u64>,
    identities: Vec<Identity>,
    passphrase: Option<Passphrase>,
    raw_key: Option<RawKey>,
    /// The part of a checkpoint that is the model.
    root: Option<String>,
    pub(crate) policy: Option<PathBuf>,
}

impl Opening {
    /// Reads the keywords. `None` has the same effect as leaving out the keyword.
    pub(crate) fn new(given: &Bound<'_, PyDict>) -> PyResult<Self> {
        let mut opening = Self::default();
        for (key, value) in given {
            if !value.is_none() {
                opening.set(&key.extract::<String>()?, &value)?;
            }
        }
        if opening.keys.is_empty() && (opening.threshold.is_some() || opening.min_revision.is_some()) {
            let why = "threshold and min_revision are about signatures: give keys= too";
            return Err(refuse(given.py(), "usage", why));
        }
        Ok(opening)
    }

    fn set(&mut self, key: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = value.py();
        let usage = |text: &dyn std::fmt::Display| refuse(py, "usage", &format!("{key}: {text}"));
        match key {
            "pin" => {
                let pin: String = value.extract()?;
                self.pin = Some(pin.parse().map_err(|error: modelfmt::wording::ParseError| usage(&error))?);
            }
            "keys" => self.keys = public_keys(key, value)?,
            "threshold" => self.threshold = Some(value.extract()?),
            "min_revision" => self.min_revision = Some(value.extract()?),
            "identity" => {
                let identity = |one| fit(py, key, seal::identity(&private_key(one)?));
                self.identities = listed(key, value)?.iter().map(identity).collect::<PyResult<_>>()?;
            }
            "passphrase" => self.passphrase = Some(passphrase(value)?),
            "raw_key" => self.raw_key = Some(raw_key(value)?),
            "policy" => self.policy = Some(value.extract()?),
            "root" => self.root = Some(value.extract()?),
            "allow_instance_credentials" => self.allowed.instance_credentials = value.extract()?,
            "allow_private_redirects" => self.allowed.private_redirects = value.extract()?,
            "cache" => self.allowed.no_cache = !value.extract::<bool>()?,
            other => {
                return Err(PyTypeError::new_err(format!("there is no keyword {other:?} of opening")));
            }
        }
        Ok(())
    }

    /// Returns the options of the library. With `is_beside`, the keys are for a signature next to the file,
    /// which is checked elsewhere.
    pub(crate) fn options(&mut self, py: Python<'_>, is_beside: bool) -> PyResult<OpenOptions> {
        let mut options = policy::options(py, self.policy.take())?;
        if let Some(pin) = self.pin {
            options = options.pin(pin);
        }
        if let Some(root) = self.root.take() {
            options = options.root(root);
        }
        if is_beside && (self.threshold.is_some() || self.min_revision.is_some()) {
            let why = "threshold, min_revision: a signature beside a file is by one key and has no revision; only sealed APR2 files have more";
            return Err(refuse(py, "usage", why));
        }
        let is_signed = !is_beside && !self.keys.is_empty();
        let is_sealed = !self.identities.is_empty() || self.passphrase.is_some() || self.raw_key.is_some();
        if !is_signed && !is_sealed {
            return Ok(options);
        }
        let access = if is_signed { self.trusted(py)? } else { Access::new() };
        Ok(options.access(self.opened(access)))
    }

    /// Returns the keys that must have signed inside the file.
    fn trusted(&self, py: Python<'_>) -> PyResult<Access> {
        let mut access = Access::new();
        for key in &self.keys {
            access = access.trust(fit(py, "keys", seal::verifying_key(key))?);
        }
        if let Some(threshold) = self.threshold {
            access = access.threshold(threshold);
        }
        if let Some(revision) = self.min_revision {
            access = access.min_revision(revision);
        }
        Ok(access)
    }

    /// Adds the keys that open an encrypted file.
    fn opened(&mut self, mut access: Access) -> Access {
        for identity in self.identities.drain(..) {
            access = access.open_with(identity);
        }
        if let Some(passphrase) = self.passphrase.take() {
            access = access.open_with(passphrase);
        }
        if let Some(key) = self.raw_key.take() {
            access = access.open_with(key);
        }
        access
    }
}

/// Reads a passphrase, which is text or its bytes.
pub(crate) fn passphrase(value: &Bound<'_, PyAny>) -> PyResult<Passphrase> {
    let text = match value.cast::<PyBytes>() {
        Ok(bytes) => bytes.as_bytes().to_vec(),
        Err(_) => value.extract::<String>()?.into_bytes(),
    };
    Passphrase::from_bytes(&text)
        .map_err(|error| refuse(value.py(), "usage", &format!("passphrase: {error}")))
}

/// Reads a key of 32 bytes that opens a file directly.
pub(crate) fn raw_key(value: &Bound<'_, PyAny>) -> PyResult<RawKey> {
    let bytes = value.extract::<&[u8]>()?.try_into();
    let bytes = bytes.map_err(|_| refuse(value.py(), "usage", "raw_key: a key is 32 bytes"))?;
    Ok(RawKey::from_bytes(bytes))
}

/// Returns the keys of a list, or the single key. An empty list is an error, because it would switch off what
/// the keyword is for: a list of trusted keys that turns out to be empty must not let every file pass.
pub(crate) fn listed<'py>(keyword: &str, value: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    if value.is_instance_of::<PyBytes>() || value.extract::<PathBuf>().is_ok() {
        return Ok(vec![value.clone()]);
    }
    let keys = value.try_iter()?.collect::<PyResult<Vec<_>>>()?;
    if keys.is_empty() {
        let why = format!("{keyword}: it is empty; give a key, or several, or leave out {keyword}=");
        return Err(refuse(value.py(), "usage", &why));
    }
    Ok(keys)
}

/// Reads public keys, each a path or PEM as bytes.
pub(crate) fn public_keys(keyword: &str, value: &Bound<'_, PyAny>) -> PyResult<Vec<PublicKey>> {
    let read = |one: &Bound<'_, PyAny>| read_key(one, PublicKey::from_pem, PublicKey::read);
    listed(keyword, value)?.iter().map(read).collect()
}

/// Reads a private key, which is a path or PEM as bytes.
pub(crate) fn private_key(value: &Bound<'_, PyAny>) -> PyResult<PrivateKey> {
    read_key(value, PrivateKey::from_pem, PrivateKey::read)
}

/// Reads a key. Errors never contain any of its content.
fn read_key<T>(
    value: &Bound<'_, PyAny>,
    from_pem: impl FnOnce(&str) -> Result<T, KeyError>,
    read: impl FnOnce(&std::path::Path) -> Result<T, KeyError>,
) -> PyResult<T> {
    let py = value.py();
    let failed = |error: &KeyError| of_key(py, error);
    match value.cast::<PyBytes>() {
        Ok(bytes) => {
            let text = std::str::from_utf8(bytes.as_bytes());
            let text =
                text.map_err(|_| refuse(py, "key", "the bytes of a key are its PEM, which is text"))?;
            from_pem(text).map_err(|error| failed(&error))
        }
        Err(_) => read(&value.extract::<PathBuf>()?).map_err(|error| failed(&error)),
    }
}

/// Returns a key in the form for sealed files, or an error that names the keyword.
pub(crate) fn fit<T>(py: Python<'_>, keyword: &str, key: Result<T, KeyError>) -> PyResult<T> {
    key.map_err(|error| refuse(py, "key", &format!("{keyword}: {error}")))
}
