//! The keys of a file, all derived from one secret and the file's identifier.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use hkdf::Hkdf;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::seal::hash::{Hash, label};

/// A secret of 32 bytes.
pub(crate) type Secret = Zeroizing<[u8; 32]>;

/// Derives a key of 32 bytes from a secret. Deriving this length never fails.
pub(crate) fn derive(salt: &[u8], secret: &[u8], info: &[u8]) -> Secret {
    let mut key = Zeroizing::new([0; 32]);
    let expanded = Hkdf::<Sha256>::new(Some(salt), secret).expand(info, &mut *key);
    debug_assert!(expanded.is_ok(), "32 bytes are less than HKDF's limit");
    key
}

/// The keys of one file.
#[derive(Clone)]
pub(crate) struct FileKeys {
    file_key: Secret,
    pub(crate) uuid: [u8; 16],
}

impl FileKeys {
    pub(crate) const fn new(file_key: Secret, uuid: [u8; 16]) -> Self {
        Self { file_key, uuid }
    }

    pub(crate) fn file_key(&self) -> &[u8; 32] {
        &self.file_key
    }

    pub(crate) fn sub(&self, purpose: &str, extra: &[u8]) -> Secret {
        let mut info = label(purpose);
        info.extend(extra);
        derive(&self.uuid, &*self.file_key, &info)
    }

    /// Returns the commitment to the only key that opens the file.
    pub(crate) fn commitment(&self) -> Hash {
        *self.sub("commit", &[])
    }

    pub(crate) fn mac(&self, purpose: &str, bytes: &[u8]) -> Hash {
        let mut out = [0; 32];
        if let Some(mac) = self.hmac(purpose, bytes) {
            out.copy_from_slice(&mac.finalize().into_bytes());
        }
        out
    }

    /// Checks a MAC in constant time.
    pub(crate) fn is_mac(&self, purpose: &str, bytes: &[u8], mac: &[u8]) -> bool {
        self.hmac(purpose, bytes).is_some_and(|found| found.verify_slice(mac).is_ok())
    }

    /// Makes an HMAC. HMAC takes keys of any length.
    fn hmac(&self, purpose: &str, bytes: &[u8]) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&*self.sub(purpose, &[])).ok()?;
        mac.update(bytes);
        Some(mac)
    }
}

impl std::fmt::Debug for FileKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FileKeys(…)")
    }
}
