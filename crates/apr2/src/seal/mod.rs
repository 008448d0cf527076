//! SEAL 1: signed and encrypted APR2 files (docs/formats/apr2.md#encrypted-and-signed).
//!
//! A sealed file has one more section behind its tensors. Its body has a digest of each tensor; what is signed is the hash of
//! header, metadata, index and body, the *statement*. So a signature is checked without reading a tensor, without a key that
//! decrypts, and one tensor or a part of it is checked alone. What encrypts is AES-256-GCM in segments, each of which decrypts
//! alone; slots wrap the file's key for each who may open it.
//!
//! [`Access`] says what a caller demands and brings. A file never says whom to trust: without a key that the caller names, a
//! signature proves nothing.

#![allow(dead_code, reason = "what writes sealed files needs the rest")]

mod access;
#[cfg(feature = "encrypt")]
mod derive;
mod hash;
mod keys;
mod keys_section;
pub(crate) mod read;
mod section;
#[cfg(feature = "encrypt")]
mod segments;
mod signatures;
mod sizes;
#[cfg(feature = "encrypt")]
mod slots;
mod wire;

pub use access::Access;
pub use keys::Argon2Caps;
#[cfg(feature = "encrypt")]
#[cfg_attr(docsrs, doc(cfg(feature = "encrypt")))]
pub use keys::{Identity, Opener, Passphrase, RawKey, Recipient};
pub use section::{Seal, SignatureInfo, SlotInfo};
pub use signatures::{SigningKey, UnfitKey, VerifyingKey};

pub(crate) use hash::{Hash, hash_of, hex, page_node, pages_of, root as digest_of_nodes};
pub(crate) use section::{FrontBytes, Opened, Section, SectionBytes};
pub(crate) use sizes::plain_len;
pub(crate) use wire::{END_LEN, TRAILER_LEN, Trailer};
