//! The options for sealing a file: who signs it, and who can open it.

use std::sync::{Arc, OnceLock};

use hpke::rand_core::{TryCryptoRng, TryRng};

use crate::error::SealFault;
use crate::seal::derive::{FileKeys, Secret};
use crate::seal::hash::Hash;
use crate::seal::keys::{Passphrase, RawKey, Recipient};
use crate::seal::keys_section::Slot;
use crate::seal::passphrase_cost::{Costs, PASSPHRASE_SLOTS};
use crate::seal::passphrase_limits::Argon2Caps;
use crate::seal::signatures::{Purpose, Signed, SigningKey};
use crate::seal::slots;
use crate::seal::wire::{MAX_KEYS, MAX_SIGNATURES};

/// The length of a slot's type and length fields. It is also the number of bytes before all slots.
const SLOT_HEAD: usize = 8;
/// The number of bytes after all slots.
const MACS: usize = 64;
/// The length of a signature record.
const SIGNATURE_RECORD: usize = 104;

fn at_most(limit: u32) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

/// How to seal a file: who signs it, and who can open it. If you name nobody who can open it, it is not
/// encrypted.
///
/// ```
/// use apr2_seal::seal::{Access, Identity, SealOptions, SigningKey};
/// use apr2_seal::write::MemoryFile;
/// use apr2_seal::{DType, Execution, Metadata, OpenOptions, Plan, TensorSpec, WriteOptions};
///
/// let (alice, carol) = (SigningKey::from_bytes(&[1; 32]), Identity::from_bytes(&[2; 32])); // from files, really
/// let plan = Plan::new([TensorSpec::new("w", DType::U8, vec![3])], &Metadata::new("tiny", Default::default()), &WriteOptions::new())?;
/// let seal = SealOptions::new().sign(alice.clone()).recipient(carol.recipient());
/// let file = MemoryFile::new();
/// seal.write(&plan, &[[1u8, 2, 3]], &file, &Execution::default())?;
///
/// let access = Access::new().trust(alice.verifying_key()).open_with(carol);
/// let model = OpenOptions::new().with_extension(access).open_source(file.into_bytes())?;
/// assert_eq!(model.tensor("w")?.bytes(), [1, 2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SealOptions {
    pub(crate) signers: Vec<SigningKey>,
    pub(crate) revision: u64,
    pub(crate) hides_index: bool,
    pub(crate) segment: u64,
    pub(crate) page: u64,
    openers: Vec<NewSlot>,
    pub(crate) random: Random,
}

#[derive(Clone, Debug)]
enum NewSlot {
    Recipient(Recipient),
    Passphrase(Passphrase, Costs, Salt),
    RawKey(RawKey, Vec<u8>),
    /// A slot of an unknown type.
    #[cfg(test)]
    Unknown(Slot),
}

/// The salt for a passphrase.
#[derive(Clone, Debug)]
enum Salt {
    /// A new salt for each file.
    Fresh,
    /// One salt for all files of a set, made for the first file.
    OfSet(Arc<OnceLock<[u8; 16]>>),
}

impl Salt {
    fn draw(&self, random: &Random) -> Result<[u8; 16], SealFault> {
        let fresh = || random.array();
        match self {
            Self::Fresh => fresh(),
            Self::OfSet(salt) => match salt.get() {
                Some(salt) => Ok(*salt),
                None => fresh().map(|fresh| *salt.get_or_init(|| fresh)),
            },
        }
    }
}

impl Default for SealOptions {
    fn default() -> Self {
        Self {
            signers: Vec::new(),
            revision: 0,
            hides_index: false,
            segment: 1 << 16,
            page: 1 << 18,
            openers: Vec::new(),
            random: Random::System,
        }
    }
}

impl SealOptions {
    /// Creates the default options: nobody signs, and nothing is encrypted.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Signs the file with this key.
    #[must_use]
    pub fn sign(mut self, key: SigningKey) -> Self {
        self.signers.push(key);
        self
    }

    /// Encrypts the file, so that the owner of this key can open it.
    #[must_use]
    pub fn recipient(mut self, recipient: Recipient) -> Self {
        self.openers.push(NewSlot::Recipient(recipient));
        self
    }

    /// Encrypts the file, so that anybody who knows the passphrase can open it. Trying a passphrase takes 64
    /// MiB of memory and three passes.
    #[must_use]
    pub fn passphrase(self, passphrase: Passphrase) -> Self {
        self.passphrase_at(passphrase, Costs { memory: 64 << 10, passes: 3, lanes: 4 })
    }

    pub(crate) fn passphrase_at(mut self, passphrase: Passphrase, costs: Costs) -> Self {
        self.openers.push(NewSlot::Passphrase(passphrase, costs, Salt::Fresh));
        self
    }

    /// Prepares the options for all files of one set, which then have the same salt for a passphrase. Trying
    /// the passphrase takes the time and memory of Argon2id once for the set instead of once for each file.
    /// The keys of the files are different anyway.
    #[must_use]
    pub fn for_set(mut self) -> Self {
        for opener in &mut self.openers {
            if let NewSlot::Passphrase(_, _, salt) = opener {
                *salt = Salt::OfSet(Arc::default());
            }
        }
        self
    }

    /// Encrypts the file, so that anybody who has this key can open it. The file shows `id`, at most 1024
    /// bytes, with which a reader can request the key from a key service.
    #[must_use]
    pub fn raw_key(mut self, key: RawKey, id: impl Into<Vec<u8>>) -> Self {
        self.openers.push(NewSlot::RawKey(key, id.into()));
        self
    }

    #[cfg(test)]
    pub(crate) fn unknown(mut self, kind: u16, payload: Vec<u8>) -> Self {
        self.openers.push(NewSlot::Unknown(Slot { kind, payload }));
        self
    }

    /// Sets the revision. Callers can refuse files with a lower revision.
    #[must_use]
    pub const fn revision(mut self, revision: u64) -> Self {
        self.revision = revision;
        self
    }

    /// Sets whether to also encrypt names, shapes and metadata. The number of tensors and their sizes stay
    /// visible.
    #[must_use]
    pub const fn hide_index(mut self, hide: bool) -> Self {
        self.hides_index = hide;
        self
    }

    /// Returns whether the file is encrypted.
    #[must_use]
    pub fn encrypts(&self) -> bool {
        !self.openers.is_empty()
    }

    /// Checks the options before anything is written. Refuses what no reader would open.
    pub(crate) fn check(&self) -> Result<(), SealFault> {
        let limit = |what: &str| Err(SealFault::Limit(what.to_owned()));
        if self.hides_index && !self.encrypts() {
            return Err(SealFault::Missing("an index can be hidden only in an encrypted file"));
        }
        let (mut slots_len, mut passphrases) = (0, 0);
        for opener in &self.openers {
            slots_len += SLOT_HEAD
                + match opener {
                    NewSlot::Recipient(_) => 112,
                    NewSlot::Passphrase(_, costs, _) => {
                        passphrases += 1;
                        costs.check(&Argon2Caps::default())?;
                        88
                    }
                    NewSlot::RawKey(_, id) if id.len() > 1024 => {
                        return limit("the id of a key has more than 1024 bytes");
                    }
                    NewSlot::RawKey(_, id) => 60 + id.len(),
                    #[cfg(test)]
                    NewSlot::Unknown(slot) => slot.payload.len(),
                };
        }
        if passphrases > PASSPHRASE_SLOTS {
            return limit("a file has more than four passphrases, and readers try no more");
        }
        if SLOT_HEAD + slots_len + MACS > at_most(MAX_KEYS) || self.openers.len() > usize::from(u16::MAX) {
            return limit("there are too many who can open the file: their slots take more than 1 MiB");
        }
        if self.signers.len() * SIGNATURE_RECORD > at_most(MAX_SIGNATURES) {
            return limit("there are too many signers: their signatures take more than 64 KiB");
        }
        Ok(())
    }

    /// Makes the slots for everybody who can open the file.
    pub(crate) fn slots(&self, keys: &FileKeys) -> Result<Vec<Slot>, SealFault> {
        let mut all = Vec::with_capacity(self.openers.len());
        for opener in &self.openers {
            all.push(match opener {
                NewSlot::Recipient(recipient) => {
                    let mut random = Drawing { random: &self.random, fault: None };
                    let slot = slots::for_recipient(recipient, keys.file_key(), &keys.uuid, &mut random)?;
                    if let Some(fault) = random.fault {
                        return Err(fault);
                    }
                    slot
                }
                NewSlot::Passphrase(passphrase, costs, salt) => {
                    let (salt, nonce) = (salt.draw(&self.random)?, self.random.array()?);
                    slots::for_passphrase(passphrase, *costs, salt, nonce, keys.file_key(), &keys.uuid)?
                }
                NewSlot::RawKey(key, id) => {
                    slots::for_raw_key(key, id, self.random.array()?, keys.file_key(), &keys.uuid)?
                }
                #[cfg(test)]
                NewSlot::Unknown(slot) => slot.clone(),
            });
        }
        Ok(all)
    }

    /// Returns the signature of each signer.
    pub(crate) fn sign_statement(&self, statement: &Hash) -> Vec<Signed> {
        self.signers.iter().filter_map(|key| key.sign(Purpose::File, statement).signed).collect()
    }

    /// Makes new keys for a file that is about to be written. They are never used for a second file.
    pub(crate) fn fresh_keys(&self) -> Result<FileKeys, SealFault> {
        let uuid = self.random.array()?;
        let mut file_key = Secret::new([0; 32]); // filled in place: a copy would not be wiped
        if self.encrypts() {
            self.random.fill(&mut *file_key)?;
        }
        Ok(FileKeys::new(file_key, uuid))
    }
}

/// The source of randomness.
#[derive(Clone, Debug)]
pub(crate) enum Random {
    System,
    /// Bytes from a test, in the order in which they are used.
    #[cfg(test)]
    Fixed(Arc<std::sync::Mutex<std::collections::VecDeque<u8>>>),
}

impl Random {
    fn fill(&self, out: &mut [u8]) -> Result<(), SealFault> {
        match self {
            Self::System => getrandom::fill(out)
                .map_err(|error| SealFault::Limit(format!("the system gives no randomness: {error}"))),
            #[cfg(test)]
            Self::Fixed(bytes) => {
                let mut bytes = bytes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                for byte in out {
                    *byte =
                        bytes.pop_front().ok_or_else(|| SealFault::Limit("no more randomness".to_owned()))?;
                }
                Ok(())
            }
        }
    }

    pub(crate) fn array<const N: usize>(&self) -> Result<[u8; N], SealFault> {
        let mut out = [0; N];
        self.fill(&mut out).map(|()| out)
    }
}

/// Randomness for code that cannot return errors. A failure is recorded, and checked before the result is
/// used.
struct Drawing<'a> {
    random: &'a Random,
    fault: Option<SealFault>,
}

impl TryRng for Drawing<'_> {
    type Error = std::convert::Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        let mut out = [0; 4];
        self.try_fill_bytes(&mut out).map(|()| u32::from_le_bytes(out))
    }

    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        let mut out = [0; 8];
        self.try_fill_bytes(&mut out).map(|()| u64::from_le_bytes(out))
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Self::Error> {
        if let Err(fault) = self.random.fill(out) {
            self.fault = Some(fault);
        }
        Ok(())
    }
}

impl TryCryptoRng for Drawing<'_> {}
