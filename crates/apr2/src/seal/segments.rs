//! AES-256-GCM in segments, each of which decrypts alone.

use aes_gcm::aead::AeadInOut as _;
use aes_gcm::aead::inout::InOutBuf;
use aes_gcm::{Aes256Gcm, KeyInit as _, Nonce, Tag};

use crate::error::SealFault;
use crate::seal::derive::{FileKeys, Secret};
use crate::seal::hash::hash;
use crate::seal::sizes::TAG;
use crate::seal::wire::structure;

/// What is encrypted, so that nothing decrypts in the place of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Module {
    Tensor(u32),
    SealedIndex,
}

impl Module {
    const fn numbers(self) -> (u8, u32) {
        match self {
            Self::Tensor(ordinal) => (1, ordinal),
            Self::SealedIndex => (2, u32::MAX),
        }
    }
}

/// The cipher of a tensor or of the sealed index.
pub(crate) struct Cipher {
    cipher: Aes256Gcm,
    uuid: [u8; 16],
    module: Module,
    /// The length of a segment of plaintext.
    segment: usize,
    /// How many there are.
    count: u64,
}

impl Cipher {
    /// The cipher of a tensor; `identity` is what the index says of it, from its name to its last dimension.
    pub(crate) fn of_tensor(
        keys: &FileKeys,
        ordinal: u32,
        identity: &[u8],
        segment: u64,
        plain: u64,
    ) -> Self {
        let mut extra = ordinal.to_le_bytes().to_vec();
        extra.extend(hash(&[identity]));
        Self::new(&keys.sub("tensor", &extra), keys.uuid, Module::Tensor(ordinal), segment, plain)
    }

    pub(crate) fn of_index(keys: &FileKeys, segment: u64, plain: u64) -> Self {
        Self::new(&keys.sub("index", &[]), keys.uuid, Module::SealedIndex, segment, plain)
    }

    fn new(key: &Secret, uuid: [u8; 16], module: Module, segment: u64, plain: u64) -> Self {
        let count = plain.div_ceil(segment.max(1));
        let cipher = Aes256Gcm::new((&**key).into());
        Self { cipher, uuid, module, segment: usize::try_from(segment).unwrap_or(usize::MAX).max(1), count }
    }

    /// The bytes that `plain` bytes take when they are encrypted.
    pub(crate) fn stored_len(plain: u64, segment: u64) -> Option<u64> {
        crate::seal::sizes::stored_len(plain, segment)
    }

    fn nonce_and_aad(&self, number: u64) -> ([u8; 12], [u8; 32]) {
        let last = u32::from(number.saturating_add(1) == self.count);
        let (module, ordinal) = self.module.numbers();
        let mut nonce = [0; 12];
        let (low, high) = nonce.split_at_mut(8);
        low.copy_from_slice(&number.to_le_bytes());
        high.copy_from_slice(&last.to_le_bytes());
        let mut aad = [0; 32];
        let (uuid, rest) = aad.split_at_mut(16);
        uuid.copy_from_slice(&self.uuid);
        let words = u64::from(module) | u64::from(last) << 8 | u64::from(ordinal) << 32;
        for (field, word) in rest.as_chunks_mut::<8>().0.iter_mut().zip([words, number]) {
            *field = word.to_le_bytes();
        }
        (nonce, aad)
    }

    /// Decrypts segments that stand one after the other, of which `first` is the first, into `out`, which has their length.
    pub(crate) fn open(&self, first: u64, stored: &[u8], out: &mut [u8]) -> Result<(), SealFault> {
        let tag_len = usize::try_from(TAG).unwrap_or(16);
        let segments = stored.chunks(self.segment.saturating_add(tag_len));
        for ((number, stored), out) in (first..).zip(segments).zip(out.chunks_mut(self.segment)) {
            let failed = || SealFault::Segment(number);
            let split = stored.len().checked_sub(tag_len).and_then(|at| stored.split_at_checked(at));
            let (sealed, tag) = split.ok_or_else(failed)?;
            let (nonce, aad) = self.nonce_and_aad(number);
            let tag: [u8; 16] = tag.try_into().map_err(|_| failed())?;
            let buffer = InOutBuf::new(sealed, out).map_err(|_| failed())?;
            self.cipher
                .decrypt_inout_detached(&Nonce::from(nonce), &aad, buffer, &Tag::from(tag))
                .map_err(|_| failed())?;
        }
        Ok(())
    }

    /// Encrypts segments that stand one after the other, of which `first` is the first, behind what `out` has.
    pub(crate) fn seal(&self, first: u64, plain: &[u8], out: &mut Vec<u8>) -> Result<(), SealFault> {
        for (number, plain) in (first..).zip(plain.chunks(self.segment)) {
            let (nonce, aad) = self.nonce_and_aad(number);
            let at = out.len();
            out.extend(plain);
            let buffer = InOutBuf::from(out.get_mut(at..).unwrap_or_default());
            let tag = self
                .cipher
                .encrypt_inout_detached(&Nonce::from(nonce), &aad, buffer)
                .map_err(|_| structure("AES-GCM refuses a segment"))?;
            out.extend(tag.as_slice());
        }
        Ok(())
    }
}
