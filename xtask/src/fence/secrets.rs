//! The secrets that open the encrypted files of `testdata/seal/`, as files that the program reads.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::run::Result;

/// The contents of the files, by the names that [`super::cases::SECRETS`] lists.
pub(super) struct Secrets(BTreeMap<&'static str, Vec<u8>>);

impl Secrets {
    /// Reads the secrets from `seal/vectors.json`.
    pub(super) fn read(testdata: &Path) -> Result<Self> {
        let vectors: Value = serde_json::from_slice(&fs::read(testdata.join("seal/vectors.json"))?)?;
        let value = |path: &str| -> Result<String> {
            let value = vectors.pointer(path).and_then(Value::as_str);
            Ok(value.ok_or_else(|| format!("seal/vectors.json has no {path}"))?.to_owned())
        };
        let recipient = private_key(&bytes(&value("/x25519/carol/secret")?)?);
        Ok(Self(BTreeMap::from([
            ("phrase", bytes(&value("/passphrase/good")?)?),
            ("raw", value("/raw/kms~11")?.into_bytes()),
            ("recipient", recipient.into_bytes()),
        ])))
    }

    pub(super) fn get(&self, name: &str) -> Option<&[u8]> {
        self.0.get(name).map(Vec::as_slice)
    }
}

fn bytes(hex: &str) -> Result<Vec<u8>> {
    let digits: Option<Vec<u32>> = hex.chars().map(|c| c.to_digit(16)).collect();
    let digits = digits.ok_or_else(|| format!("{hex:?} is not hexadecimal"))?;
    digits
        .chunks(2)
        .map(|pair| Ok(u8::try_from(pair.iter().fold(0, |value, digit| value * 16 + digit))?))
        .collect()
}

/// Encodes an X25519 key in PEM: PKCS #8, RFC 8410.
fn private_key(secret: &[u8]) -> String {
    const BEFORE: &[u8] = &[0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x6e, 4, 0x22, 4, 0x20];
    let text = base64(&[BEFORE, secret].concat());
    format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n")
}

/// Encodes whole groups of three bytes in base64.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |bits: u32| DIGITS.get(bits as usize & 63).copied().map_or('=', char::from);
    let group = |three: &[u8]| three.iter().fold(0, |bits, byte| bits << 8 | u32::from(*byte));
    bytes.chunks(3).map(group).flat_map(|bits| [18, 12, 6, 0].map(|shift| digit(bits >> shift))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_what_openssl_writes() {
        let testdata = crate::workspace::root().join("testdata");
        let pem = fs::read_to_string(testdata.join("keys/x25519.pem")).unwrap();
        // The secret of that file: its last 32 bytes.
        let base64: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
        let mut bits = base64.bytes().flat_map(|c| {
            let digit = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
                .iter()
                .position(|d| *d == c);
            (0..6).rev().map(move |bit| digit.unwrap() >> bit & 1)
        });
        let mut decoded = Vec::new();
        for _ in 0..48 {
            decoded.push(bits.by_ref().take(8).fold(0, |byte, bit| byte << 1 | u8::try_from(bit).unwrap()));
        }
        assert_eq!(private_key(&decoded[16..]), pem);
        let secrets = Secrets::read(&testdata).unwrap();
        assert!(super::super::cases::SECRETS.iter().all(|name| secrets.get(name).is_some()));
    }
}
