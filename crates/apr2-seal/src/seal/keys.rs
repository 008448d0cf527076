//! The keys that open an encrypted file. Memory that holds a secret is wiped when dropped, and secrets are
//! never printed.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hpke::kem::X25519HkdfSha256;
use hpke::{Deserializable as _, Kem, Serializable as _};
use zeroize::Zeroizing;

use crate::seal::derive::Secret;
use crate::seal::hash::{Hash, hex, key_id};
use crate::seal::passphrase_cost::Costs;
use crate::seal::signatures::InvalidKey;

pub(crate) type Public = <X25519HkdfSha256 as Kem>::PublicKey;
pub(crate) type Private = <X25519HkdfSha256 as Kem>::PrivateKey;

/// A key or passphrase that may open a file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Opener {
    /// A secret X25519 key.
    Identity(Identity),
    /// A passphrase.
    Passphrase(Passphrase),
    /// A raw key of 32 bytes, such as one from a key service.
    RawKey(RawKey),
}

impl From<Identity> for Opener {
    fn from(identity: Identity) -> Self {
        Self::Identity(identity)
    }
}

impl From<Passphrase> for Opener {
    fn from(passphrase: Passphrase) -> Self {
        Self::Passphrase(passphrase)
    }
}

impl From<RawKey> for Opener {
    fn from(key: RawKey) -> Self {
        Self::RawKey(key)
    }
}

/// A public X25519 key that a file is encrypted for.
#[derive(Clone, PartialEq, Eq)]
pub struct Recipient {
    key: [u8; 32],
    pub(crate) is_anonymous: bool,
}

impl Recipient {
    /// Creates a public key from its 32 bytes (RFC 7748).
    ///
    /// # Errors
    /// If the key is of small order, such as zero: anybody could read what is encrypted for it.
    pub fn from_bytes(bytes: &[u8; 32]) -> Result<Self, InvalidKey> {
        // With a point of small order, every shared secret is zero, whatever the other key is.
        let weak = InvalidKey("it is of small order: what is encrypted for it anybody can read");
        let probe = Identity::from_bytes(&[0x55; 32]);
        let recipient = Self { key: *bytes, is_anonymous: false };
        let public = recipient.public().ok_or(weak)?;
        let shared = hpke::setup_receiver::<hpke::aead::AesGcm256, hpke::kdf::HkdfSha256, X25519HkdfSha256>(
            &hpke::OpModeR::Base,
            probe.private().as_ref().ok_or(weak)?,
            &<X25519HkdfSha256 as Kem>::EncappedKey::from_bytes(&public.to_bytes()).map_err(|_| weak)?,
            &[],
        );
        shared.map(|_| recipient).map_err(|_| weak)
    }

    /// Returns the key as 32 bytes.
    #[must_use]
    pub const fn to_bytes(&self) -> [u8; 32] {
        self.key
    }

    /// Hides the key's identifier in the file.
    #[must_use]
    pub const fn anonymous(mut self) -> Self {
        self.is_anonymous = true;
        self
    }

    /// Returns the identifier of the key in files.
    #[must_use]
    pub fn key_id(&self) -> [u8; 32] {
        key_id("x25519 key", &self.key)
    }

    pub(crate) fn public(&self) -> Option<Public> {
        Public::from_bytes(&self.key).ok()
    }
}

impl fmt::Debug for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recipient({})", hex(&self.key_id()))
    }
}

/// A secret X25519 key.
#[derive(Clone)]
pub struct Identity(Zeroizing<[u8; 32]>);

impl Identity {
    /// Creates a secret key from its 32 bytes (RFC 7748).
    #[must_use]
    pub fn from_bytes(secret: &[u8; 32]) -> Self {
        Self(Zeroizing::new(*secret))
    }

    /// Returns the public key.
    #[must_use]
    pub fn recipient(&self) -> Recipient {
        let public = self.private().map(|private| X25519HkdfSha256::sk_to_pk(&private).to_bytes());
        let mut key = [0; 32];
        if let Some(public) = public {
            key.copy_from_slice(&public);
        }
        Recipient { key, is_anonymous: false }
    }

    pub(crate) fn private(&self) -> Option<Private> {
        Private::from_bytes(&*self.0).ok()
    }

    pub(crate) fn key_id(&self) -> Hash {
        self.recipient().key_id()
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity(of {})", hex(&self.key_id()))
    }
}

/// A passphrase, as bytes.
///
/// A passphrase and its clones cache the results of Argon2id, because computing them takes long and all files
/// of a set need the same result.
#[derive(Clone)]
pub struct Passphrase {
    bytes: Zeroizing<Vec<u8>>,
    stretched: Arc<Mutex<Vec<Arc<Stretched>>>>,
}

/// A result of Argon2id for a passphrase.
struct Stretched {
    salt: [u8; 16],
    costs: Costs,
    /// `None` until it is computed. The lock is held during the computation, so that only threads that need
    /// the same result wait.
    secret: Mutex<Option<Secret>>,
}

/// The number of results that are cached: as many as one file may need.
const REMEMBERED: usize = crate::seal::passphrase_cost::PASSPHRASE_SLOTS;

impl Passphrase {
    /// Creates a passphrase from its bytes.
    ///
    /// # Errors
    /// If it is empty.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, InvalidKey> {
        if bytes.is_empty() {
            return Err(InvalidKey("the passphrase is empty"));
        }
        Ok(Self { bytes: Zeroizing::new(bytes.to_vec()), stretched: Arc::default() })
    }

    /// Returns the result of `argon2` for the passphrase with this salt and these costs, from the cache if
    /// possible. Only threads that need the same result wait.
    pub(crate) fn stretched<E>(
        &self,
        salt: &[u8; 16],
        costs: Costs,
        argon2: impl FnOnce(&[u8]) -> Result<Secret, E>,
    ) -> Result<Secret, E> {
        let entry = self.entry(salt, costs);
        let mut secret = entry.secret.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(secret) = &*secret {
            return Ok(secret.clone());
        }
        match argon2(&self.bytes) {
            Ok(made) => Ok(secret.insert(made).clone()),
            Err(error) => {
                self.known().retain(|known| !Arc::ptr_eq(known, &entry));
                Err(error)
            }
        }
    }

    /// Returns the cache entry where the result is or will be. A new entry replaces the oldest.
    fn entry(&self, salt: &[u8; 16], costs: Costs) -> Arc<Stretched> {
        let mut known = self.known();
        if let Some(same) = known.iter().find(|known| known.salt == *salt && known.costs == costs) {
            return Arc::clone(same);
        }
        if known.len() >= REMEMBERED {
            known.remove(0);
        }
        let new = Arc::new(Stretched { salt: *salt, costs, secret: Mutex::default() });
        known.push(Arc::clone(&new));
        new
    }

    /// Locks the cache. The lock is never held for long.
    fn known(&self) -> MutexGuard<'_, Vec<Arc<Stretched>>> {
        self.stretched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
impl Passphrase {
    /// Returns the number of cached results.
    pub(crate) fn remembered(&self) -> usize {
        self.known().len()
    }
}

impl fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passphrase(…)")
    }
}

/// A raw key of 32 secret bytes.
#[derive(Clone)]
pub struct RawKey(pub(crate) Zeroizing<[u8; 32]>);

impl RawKey {
    /// Creates a raw key from its bytes.
    #[must_use]
    pub fn from_bytes(secret: &[u8; 32]) -> Self {
        Self(Zeroizing::new(*secret))
    }

    /// Creates a raw key from the content of a key file: its 32 bytes, or 64 hex digits that may be followed
    /// by a newline.
    ///
    /// ```
    /// use apr2_seal::seal::RawKey;
    ///
    /// assert!(RawKey::from_file_content(&[7; 32]).is_ok());
    /// assert!(RawKey::from_file_content(format!("{}\n", "07".repeat(32)).as_bytes()).is_ok());
    /// assert!(RawKey::from_file_content(b"seven").is_err());
    /// ```
    ///
    /// # Errors
    /// If the content has neither form.
    pub fn from_file_content(content: &[u8]) -> Result<Self, InvalidKey> {
        if let Ok(key) = content.try_into() {
            return Ok(Self::from_bytes(key));
        }
        let neither = InvalidKey("a key file has 32 bytes, or 64 hex digits");
        let (pairs, rest) = content.strip_suffix(b"\n").unwrap_or(content).as_chunks::<2>();
        let mut key = Zeroizing::new([0; 32]);
        if pairs.len() != key.len() || !rest.is_empty() {
            return Err(neither);
        }
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        for (byte, [high, low]) in key.iter_mut().zip(pairs) {
            *byte = digit(*high).zip(digit(*low)).map(|(high, low)| high << 4 | low).ok_or(neither)?;
        }
        Ok(Self(key))
    }
}

impl fmt::Debug for RawKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RawKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argon2_runs_once_for_a_salt_and_costs() {
        let phrase = Passphrase::from_bytes(b"a").unwrap_or_else(|_| unreachable!("it is not empty"));
        let runs = std::cell::Cell::new(0u8);
        let stretch = |phrase: &Passphrase, salt: u8, memory| {
            let argon2 = |_: &[u8]| {
                runs.set(runs.get() + 1);
                Ok::<_, ()>(Secret::new([runs.get(); 32]))
            };
            phrase
                .stretched(&[salt; 16], Costs { memory, passes: 1, lanes: 1 }, argon2)
                .map(|secret| secret[0])
        };
        assert_eq!(stretch(&phrase, 1, 8), Ok(1));
        assert_eq!(stretch(&phrase.clone(), 1, 8), Ok(1));
        assert_eq!((stretch(&phrase, 2, 8), stretch(&phrase, 1, 16)), (Ok(2), Ok(3)));
        assert_eq!(stretch(&phrase, 1, 8), Ok(1));
        // Another passphrase has its own cache, even if its bytes are the same.
        assert_eq!(stretch(&Passphrase::from_bytes(b"a").unwrap_or(phrase.clone()), 1, 8), Ok(4));
        // The cache does not grow with the number of salts.
        for salt in 3..100 {
            stretch(&phrase, salt, 8).unwrap_or_default();
        }
        assert_eq!(phrase.remembered(), 4);
        // Failures are not cached.
        let failed = phrase.stretched(&[200; 16], Costs { memory: 8, passes: 1, lanes: 1 }, |_| Err(()));
        assert!(failed.is_err() && phrase.remembered() == 3);
        assert!(
            phrase
                .stretched(&[200; 16], Costs { memory: 8, passes: 1, lanes: 1 }, |_| Ok::<_, ()>(
                    Secret::new([1; 32])
                ))
                .is_ok()
        );
    }

    /// Files with other salts can be opened while Argon2id works on one salt. Files with the same salt use
    /// its result.
    #[test]
    fn only_threads_that_want_the_same_wait() {
        use std::sync::mpsc::channel;
        let phrase = Passphrase::from_bytes(b"a").unwrap_or_else(|_| unreachable!("it is not empty"));
        let costs = Costs { memory: 8, passes: 1, lanes: 1 };
        let (begun, has_begun) = channel();
        let (go_on, may_go_on) = channel();
        let phrase = &phrase;
        std::thread::scope(|scope| {
            let first = scope.spawn(move || {
                let slow = |_: &[u8]| {
                    begun.send(()).unwrap_or_default();
                    may_go_on.recv().unwrap_or_default();
                    Ok::<_, ()>(Secret::new([1; 32]))
                };
                phrase.stretched(&[1; 16], costs, slow).map(|secret| secret[0])
            });
            has_begun.recv().unwrap_or_default();
            // If this call waited for the other computation, it would wait forever.
            let other = phrase.stretched(&[2; 16], costs, |_| Ok::<_, ()>(Secret::new([2; 32])));
            assert_eq!(other.map(|secret| secret[0]), Ok(2));
            let same = scope.spawn(|| phrase.stretched(&[1; 16], costs, |_| Err(())).map(|secret| secret[0]));
            go_on.send(()).unwrap_or_default();
            assert_eq!(first.join().ok(), Some(Ok(1)));
            assert_eq!(same.join().ok(), Some(Ok(1)));
        });
    }

    #[test]
    fn raw_keys_are_bytes_or_hex_digits() {
        let key = |content: &[u8]| RawKey::from_file_content(content).map(|key| *key.0);
        let (digits, bytes) = ("0aF1".repeat(16), [0x0a, 0xf1].repeat(16));
        for content in [bytes.as_slice(), digits.as_bytes(), format!("{digits}\n").as_bytes()] {
            assert_eq!(key(content).as_ref().map(<[u8; 32]>::as_slice), Ok(bytes.as_slice()));
        }
        let wrong = [
            "",
            "0a",
            &digits[1..],
            &format!("{digits}0"),
            &format!("{digits}\n\n"),
            &digits.replacen('a', "g", 1),
            &digits.replacen("0a", "+a", 1),
            &digits.replacen("0a", "é", 1),
        ]
        .map(|content| key(content.as_bytes()));
        assert!(wrong.iter().all(Result::is_err), "{wrong:?}");
    }
}
