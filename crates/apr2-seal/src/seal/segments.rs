//! AES-256-GCM in segments, each of which can be decrypted alone.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use crate::error::SealFault;
use crate::seal::aes::{Aes256Gcm, Given, TAG_LEN};
use crate::seal::derive::{FileKeys, Secret};
use crate::seal::hash::hash;
use crate::seal::wire::structure;

/// The kind of plaintext. It is authenticated, so that no ciphertext can be moved to another place.
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
    /// The number of segments.
    count: u64,
}

impl Cipher {
    /// Creates the cipher of a tensor. `identity` is the part of its index entry from its name to its last
    /// dimension.
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
        let cipher = Aes256Gcm::new(key);
        Self { cipher, uuid, module, segment: usize::try_from(segment).unwrap_or(usize::MAX).max(1), count }
    }

    /// Returns the number of bytes that `plain` bytes take when encrypted.
    pub(crate) fn stored_len(plain: u64, segment: u64) -> Option<u64> {
        crate::seal::sizes::stored_len(plain, segment)
    }

    /// Returns the nonce and the associated data of a segment, which bind it to its place.
    fn given(&self, number: u64) -> Given {
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
        Given { nonce, aad }
    }

    /// Decrypts consecutive segments into `out`, which must have the length of their plaintext. The first
    /// segment is number `first`.
    pub(crate) fn open(&self, first: u64, stored: &[u8], out: &mut [u8]) -> Result<(), SealFault> {
        let segments = stored.chunks(self.segment.saturating_add(TAG_LEN));
        for ((number, stored), out) in (first..).zip(segments).zip(out.chunks_mut(self.segment)) {
            let opened = self.cipher.open(&self.given(number), stored, out);
            opened.map_err(|_| SealFault::Segment(number))?;
        }
        Ok(())
    }

    /// Decrypts one segment in place, and returns the plaintext without the tag.
    pub(crate) fn open_in_place<'b>(
        &self,
        number: u64,
        stored: &'b mut [u8],
    ) -> Result<&'b mut [u8], SealFault> {
        let opened = self.cipher.open_in_place(&self.given(number), stored);
        opened.map_err(|_| SealFault::Segment(number))
    }

    /// Encrypts consecutive segments into `out`, which must have the length that
    /// [`sealed_len`](Self::sealed_len) returns. The first segment is number `first`. Passes each encrypted
    /// segment to `saw`.
    pub(crate) fn seal(
        &self,
        first: u64,
        plain: &[u8],
        out: &mut [u8],
        mut saw: impl FnMut(&[u8]),
    ) -> Result<(), SealFault> {
        let refused = || structure("AES-GCM refuses a segment");
        let outs = out.chunks_mut(self.segment.saturating_add(TAG_LEN));
        for ((number, plain), out) in (first..).zip(plain.chunks(self.segment)).zip(outs) {
            let (sealed, tag) = out.split_at_mut_checked(plain.len()).ok_or_else(refused)?;
            sealed.copy_from_slice(plain);
            let made = self.cipher.seal(&self.given(number), sealed).map_err(|_| refused())?;
            *<&mut [u8; TAG_LEN]>::try_from(tag).map_err(|_| refused())? = made;
            saw(out);
        }
        Ok(())
    }

    /// Does the same as [`seal`](Self::seal), but encrypts into a new buffer.
    pub(crate) fn sealed(&self, first: u64, plain: &[u8]) -> Result<Vec<u8>, SealFault> {
        let mut out = vec![0; self.sealed_len(plain.len())];
        self.seal(first, plain, &mut out, |_| ())?;
        Ok(out)
    }

    /// Returns the number of bytes that the segments of `plain` bytes take. All segments except the last are
    /// whole.
    pub(crate) const fn sealed_len(&self, plain: usize) -> usize {
        plain.saturating_add(plain.div_ceil(self.segment).saturating_mul(TAG_LEN))
    }
}
