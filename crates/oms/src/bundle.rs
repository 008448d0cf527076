//! The file of a signature: a Sigstore bundle that contains a DSSE envelope.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

#[cfg(not(target_arch = "wasm32"))]
use std::path::Path;

use base64ct::{Base64, Encoding as _};
#[cfg(not(target_arch = "wasm32"))]
use modelfmt_core::{Source as _, source::FileSource};
use modelfmt_keys::{KeyId, PrivateKey, PublicKey};
use serde::de::MapAccess;

#[cfg(not(target_arch = "wasm32"))]
use crate::error::Error;
use crate::error::{Fault, Result};
use crate::statement::{Members, Object, Objects, PAYLOAD_TYPE, members, text};

/// The largest bundle that is read, in bytes: enough for the statement of about a million files.
pub const MAX_BUNDLE: u64 = 256 << 20;

const MEDIA_TYPE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

/// A parsed bundle. Nothing in it may be trusted before [`check`](Self::check) has succeeded.
#[derive(Debug)]
pub struct Bundle {
    hint: Option<String>,
    payload: Vec<u8>,
    signature: Vec<u8>,
}

impl Bundle {
    /// Reads the file of a signature, which must be a regular file of at most [`MAX_BUNDLE`] bytes.
    ///
    /// # Errors
    /// [`Error::Missing`] if there is no such file, [`Error::Read`] if it cannot be read, [`Error::Bundle`] if it is not a
    /// valid bundle.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn read(path: &Path) -> Result<Self> {
        let failed = |source: std::io::Error| match source.kind() {
            std::io::ErrorKind::NotFound => Error::Missing { path: path.to_owned() },
            _ => Error::Read { path: path.to_owned(), source },
        };
        let bad = |fault| Error::Bundle { path: path.to_owned(), fault };
        // Only a regular file is opened: a pipe would keep the caller waiting, and a device has no end.
        let file = FileSource::open(path).map_err(failed)?;
        if file.len() > MAX_BUNDLE {
            return Err(bad(Fault::TooLarge(file.len(), MAX_BUNDLE)));
        }
        let bytes = file.read(0..file.len()).map_err(failed)?;
        Self::parse(&bytes).map_err(bad)
    }

    /// Parses the bytes of a signature's file.
    ///
    /// # Errors
    /// A fault if the bytes are not a valid bundle.
    pub fn parse(bytes: &[u8]) -> std::result::Result<Self, Fault> {
        if bytes.len() as u64 > MAX_BUNDLE {
            return Err(Fault::TooLarge(bytes.len() as u64, MAX_BUNDLE));
        }
        let parsed: Parsed = members(bytes)?;
        known("the bundle's type", parsed.media_type, MEDIA_TYPE)?;
        let material =
            parsed.material.ok_or_else(|| Fault::Json("there is no verificationMaterial".to_owned()))?;
        if material.has_certificate {
            return Err(Fault::Certificate);
        }
        let envelope = parsed.envelope.ok_or_else(|| Fault::Json("there is no dsseEnvelope".to_owned()))?;
        known("the payload's type", envelope.payload_type, PAYLOAD_TYPE)?;
        let signatures = envelope.signatures.unwrap_or_default();
        let found = signatures.len();
        let Ok([signature]) = <[Signature; 1]>::try_from(signatures) else {
            return Err(Fault::NotOne { what: "signatures", found });
        };
        let payload = decode(&text(envelope.payload, "payload")?, "the payload")?;
        let signature = decode(&text(signature.0, "sig")?, "the signature")?;
        let hint = material.key.and_then(|key| key.0).filter(|hint| !hint.is_empty());
        Ok(Self { hint, payload, signature })
    }

    /// Returns the id of the key that the bundle names. It proves nothing, because anyone can write it; it
    /// only says which key to try.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Returns the id of the key that made the signature, if it is one of `keys`.
    #[must_use]
    pub fn check(&self, keys: &[PublicKey]) -> Option<KeyId> {
        let message = pae(&self.payload);
        // If the hint names another key, this key is not tried. So the key that a bundle names is never
        // different from the key that verified it.
        let named =
            keys.iter().filter(|key| self.hint.as_ref().is_none_or(|hint| *hint == key.id().to_string()));
        let mut nist = named.filter(|key| key.key_type().is_nist());
        nist.find(|key| key.verify(&message, &self.signature).is_ok()).map(PublicKey::id)
    }

    /// Returns the signed bytes, which are JSON.
    pub(crate) fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Signs a payload and returns the bundle.
    pub(crate) fn sign(payload: &[u8], key: &PrivateKey) -> Result<String> {
        let signature = key.sign(&pae(payload))?;
        Ok(format!(
            "{{\"mediaType\":\"{MEDIA_TYPE}\",\"verificationMaterial\":{{\"publicKey\":{{\"hint\":\"{}\"}},\"tlogEntries\":[]}},\
             \"dsseEnvelope\":{{\"payload\":\"{}\",\"payloadType\":\"{PAYLOAD_TYPE}\",\
             \"signatures\":[{{\"sig\":\"{}\",\"keyid\":\"\"}}]}}}}\n",
            key.public().id(),
            Base64::encode_string(payload),
            Base64::encode_string(&signature),
        ))
    }
}

/// Returns the bytes that are signed: the payload with its type, so that it cannot be mistaken for data of
/// another type (DSSE 1.0).
fn pae(payload: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {PAYLOAD_TYPE} {} ", PAYLOAD_TYPE.len(), payload.len());
    [head.as_bytes(), payload].concat()
}

fn decode(text: &str, what: &'static str) -> std::result::Result<Vec<u8>, Fault> {
    Base64::decode_vec(text).map_err(|_| Fault::Base64(what))
}

fn known(
    what: &'static str,
    found: Option<String>,
    expected: &'static str,
) -> std::result::Result<(), Fault> {
    match found {
        Some(found) if found == expected => Ok(()),
        found => Err(Fault::Unknown { what, found: found.unwrap_or_default(), expected }),
    }
}

#[derive(Default)]
struct Parsed {
    media_type: Option<String>,
    material: Option<Material>,
    envelope: Option<Envelope>,
}

impl<'de> Members<'de> for Parsed {
    fn member<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> std::result::Result<bool, A::Error> {
        match key {
            "mediaType" => self.media_type = Some(map.next_value()?),
            "verificationMaterial" => self.material = Some(map.next_value_seed(Object::default())?),
            "dsseEnvelope" => self.envelope = Some(map.next_value_seed(Object::default())?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

#[derive(Default)]
struct Material {
    key: Option<Key>,
    has_certificate: bool,
}

impl<'de> Members<'de> for Material {
    fn member<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> std::result::Result<bool, A::Error> {
        match key {
            "publicKey" => self.key = Some(map.next_value_seed(Object::default())?),
            "certificate" | "x509CertificateChain" => {
                self.has_certificate = true;
                return Ok(false);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// The id of a key. Bundles of `model_signing` before 1.1.0 have the key itself here, which is ignored.
#[derive(Default)]
struct Key(Option<String>);

impl<'de> Members<'de> for Key {
    fn member<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> std::result::Result<bool, A::Error> {
        if key == "hint" {
            self.0 = map.next_value()?;
        }
        Ok(key == "hint")
    }
}

#[derive(Default)]
struct Envelope {
    payload: Option<String>,
    payload_type: Option<String>,
    signatures: Option<Vec<Signature>>,
}

impl<'de> Members<'de> for Envelope {
    fn member<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> std::result::Result<bool, A::Error> {
        match key {
            "payload" => self.payload = Some(map.next_value()?),
            "payloadType" => self.payload_type = Some(map.next_value()?),
            "signatures" => self.signatures = Some(map.next_value_seed(Objects::default())?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

#[derive(Default)]
struct Signature(Option<String>);

impl<'de> Members<'de> for Signature {
    fn member<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> std::result::Result<bool, A::Error> {
        if key == "sig" {
            self.0 = Some(map.next_value()?);
        }
        Ok(key == "sig")
    }
}
