//! SEAL 1: signed and encrypted APR2 files (docs/formats/apr2.md#encrypted-and-signed).
//!
//! A sealed file has an additional section after its tensors. The body of this section has a digest of each
//! tensor. A signature signs the *statement*, the hash of the header, the metadata, the index and the body.
//! So a signature can be checked without reading a tensor and without a decryption key, and a single tensor
//! or a part of it can be checked alone. Values are encrypted with AES-256-GCM in segments, each of which can
//! be decrypted alone. A slot for each recipient wraps the file's key.
//!
//! [`Access`] holds the demands of a caller and its keys. A file never says whom to trust: unless the caller
//! has named the key, a signature proves nothing.

mod access;
mod aes;
#[cfg(test)]
mod attacks;
mod derive;
mod digest;
mod hash;
mod keys;
mod keys_section;
mod options;
mod passphrase_cost;
mod passphrase_limits;
pub(crate) mod read;
mod section;
mod segments;
mod signatures;
mod sizes;
mod slots;
pub(crate) mod tail;
mod wire;

pub use access::Access;
pub use keys::{Identity, Opener, Passphrase, RawKey, Recipient};
pub use options::SealOptions;
pub use passphrase_limits::Argon2Caps;
pub use section::{Seal, SignatureInfo, SlotInfo};
pub use signatures::{InvalidKey, SigningKey, VerifyingKey};

pub(crate) use hash::statement;
pub(crate) use hash::{Hash, hash_of, hex, pages_of};
pub(crate) use section::{FrontBytes, Opened, Section, SectionBytes};
pub(crate) use sizes::plain_len;
pub(crate) use wire::{END_LEN, TRAILER_LEN, Trailer};

/// Used for sets that are signed as one.
pub(crate) mod set {
    pub(crate) use super::hash::{hash, label};
    pub(crate) use super::signatures::{Purpose, Signed};

    use super::{Hash, VerifyingKey, signatures::Record};
    use crate::error::SealFault;

    /// Checks that enough of the named keys have signed the statement of a set.
    pub(crate) fn check(
        signatures: &[Signed],
        keys: &[VerifyingKey],
        threshold: usize,
        statement: &Hash,
    ) -> Result<(), SealFault> {
        let records: Vec<Record> =
            signatures.iter().map(|&signed| Record { algorithm: 1, signed: Some(signed) }).collect();
        super::signatures::check(&records, keys, threshold, Purpose::Set, statement)
    }
}

/// Used by the writer of sealed files.
pub(crate) mod write {
    pub(crate) use super::derive::FileKeys;
    pub(crate) use super::digest::Digester;
    pub(crate) use super::segments::Cipher;
    pub(crate) use super::wire::{Body, INDEX_SEALED, SealedExtent, Trailer};
}

/// Settings that only tests may choose.
#[cfg(test)]
pub(crate) mod testing {
    pub(crate) use super::options::Random;
    pub(crate) use super::passphrase_cost::Costs;
}
