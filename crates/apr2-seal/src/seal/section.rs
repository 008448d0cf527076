//! The seal section of a file, checked in the order that the specification requires.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use apr2::Flags;

use crate::error::SealFault;
use crate::seal::access::Access;
use crate::seal::hash::{self, Hash, hex};
use crate::seal::keys_section::KeysSection;
use crate::seal::signatures::{self, Purpose, Record};
use crate::seal::wire::{Body, SealedExtent, Trailer, structure};

/// The parts at the front of a file that its statement covers.
pub(crate) struct FrontBytes<'a> {
    pub(crate) header: &'a [u8],
    pub(crate) metadata: &'a [u8],
    pub(crate) index: &'a [u8],
}

/// The parts of the section that are read when a file is opened.
pub(crate) struct SectionBytes<'a> {
    pub(crate) body: &'a [u8],
    pub(crate) signatures: &'a [u8],
    pub(crate) keys: &'a [u8],
}

/// The decoded seal section of a file, and, if a key opens it, what it hides.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) trailer: Trailer,
    pub(crate) body: Body,
    pub(crate) flags: Flags,
    pub(crate) data_offset: u64,
    pub(crate) statement: Hash,
    pub(crate) records: Vec<Record>,
    pub(crate) slots: Option<KeysSection>,
    pub(crate) keys: Option<crate::seal::derive::FileKeys>,
    /// The keys that the caller named and that have signed the file.
    pub(crate) trusted: Vec<Hash>,
    /// Whether content is also checked for changes by attackers who can decrypt it.
    pub(crate) binds_content: bool,
    /// The page tables that have been read and checked, by position.
    pub(crate) tables: Mutex<HashMap<usize, Arc<Vec<Hash>>>>,
}

/// A section, and the content of a sealed index.
pub(crate) struct Opened {
    pub(crate) section: Section,
    pub(crate) hidden: Option<Hidden>,
}

/// The content of a sealed index.
pub(crate) struct Hidden {
    pub(crate) flags: u32,
    pub(crate) metadata: Vec<u8>,
    pub(crate) index: Vec<u8>,
}

impl Section {
    /// Decodes the section, checks it against the caller's demands, and opens it with the caller's keys.
    pub(crate) fn open(
        trailer: Trailer,
        flags: Flags,
        data_offset: u64,
        front: &FrontBytes<'_>,
        bytes: &SectionBytes<'_>,
        access: &Access,
    ) -> Result<Opened, SealFault> {
        let is_encrypted = flags.contains(Flags::ENCRYPTED);
        let body = Body::decode(bytes.body, &trailer, data_offset, is_encrypted)?;
        let statement = hash::statement(front.header, front.metadata, front.index, bytes.body);
        let records = signatures::parse(bytes.signatures)?;
        if !access.signers.is_empty() || access.threshold > 0 {
            signatures::check(&records, &access.signers, access.threshold, Purpose::File, &statement)?;
        }
        if access.statement.is_some_and(|demanded| demanded != statement) {
            return Err(SealFault::Set(format!("the statement is {}, another is demanded", hex(&statement))));
        }
        if let Some(least) = access.min_revision.filter(|&least| body.revision < least) {
            return Err(SealFault::Revision { found: body.revision, least });
        }
        if body.is_index_sealed() && (front.index != [0; 8] || hides(flags)) {
            return Err(structure("the index is sealed, but the front of the file has one too"));
        }
        let slots = if is_encrypted { Some(KeysSection::decode(bytes.keys)?) } else { None };
        let named = access.signers.iter().map(signatures::VerifyingKey::key_id);
        let has_signed =
            |id: &Hash| records.iter().filter_map(|record| record.signed).any(|s| s.key_id == *id);
        let trusted = named.filter(has_signed).collect();
        let section = Self {
            trailer,
            body,
            flags,
            data_offset,
            statement,
            records,
            slots,
            keys: None,
            trusted,
            binds_content: !is_encrypted || access.binds_content(),
            tables: Mutex::default(),
        };
        section.unlock(bytes, access)
    }

    /// Opens the slots with the caller's keys, and checks everything that needs the file's key.
    fn unlock(mut self, bytes: &SectionBytes<'_>, access: &Access) -> Result<Opened, SealFault> {
        let Some(slots) = self.slots.as_ref().filter(|_| !access.openers.is_empty()) else {
            return Ok(Opened { section: self, hidden: None });
        };
        let uuid = self.body.uuid;
        let file_key = crate::seal::slots::unwrap(&slots.slots, access, &uuid)?;
        let keys = crate::seal::derive::FileKeys::new(file_key, uuid);
        if keys.commitment() != self.body.commitment {
            return Err(SealFault::KeyCommitment);
        }
        let before_mac = bytes.keys.split_last_chunk::<32>().map_or(bytes.keys, |(before, _)| before);
        if !keys.is_mac("keys mac", before_mac, &slots.keys_mac) {
            return Err(SealFault::KeysMac);
        }
        if !keys.is_mac("statement mac", &self.statement, &slots.statement_mac) {
            return Err(SealFault::StatementMac);
        }
        let hidden =
            if self.body.is_index_sealed() { Some(self.sealed_index(&keys, bytes.body)?) } else { None };
        self.keys = Some(keys);
        Ok(Opened { section: self, hidden })
    }

    fn sealed_index(&self, keys: &crate::seal::derive::FileKeys, body: &[u8]) -> Result<Hidden, SealFault> {
        let at = usize::try_from(self.body.sealed_index_at).unwrap_or(usize::MAX);
        let stored = body.get(at..).unwrap_or_default();
        let plain = crate::seal::sizes::plain_len(stored.len() as u64, self.body.segment)?;
        let too_large = |_| SealFault::Limit("the sealed index does not fit into memory".to_owned());
        let mut text = vec![0; usize::try_from(plain).map_err(too_large)?];
        crate::seal::segments::Cipher::of_index(keys, self.body.segment, plain).open(0, stored, &mut text)?;
        let mut c = crate::seal::wire::Fields(&text);
        let (metadata_len, index_len, flags, zero) = (c.u32()?, c.u32()?, c.u32()?, c.u32()?);
        let (metadata, index) = (c.bytes(metadata_len.into())?, c.bytes(index_len.into())?);
        let hidden_flags = Flags::COMPRESSED.bits() | Flags::QUANTIZED.bits();
        if zero != 0 || !c.0.is_empty() || flags & !hidden_flags != self.flags.bits() {
            return Err(structure("the sealed index does not fit its file"));
        }
        Ok(Hidden { flags, metadata: metadata.to_vec(), index: index.to_vec() })
    }

    pub(crate) const fn is_encrypted(&self) -> bool {
        self.flags.contains(Flags::ENCRYPTED)
    }

    /// Returns whether the file is encrypted and no given key decrypts it.
    pub(crate) const fn is_locked(&self) -> bool {
        self.is_encrypted() && self.keys.is_none()
    }

    /// Returns whether the names of tensors are hidden and no given key reveals them.
    pub(crate) const fn hides_index(&self) -> bool {
        self.body.is_index_sealed() && self.is_locked()
    }

    /// Returns the length of a segment of plaintext, or `None` if tensors are not encrypted.
    pub(crate) fn segment(&self) -> Option<u64> {
        Some(self.body.segment).filter(|&segment| segment > 0)
    }

    /// Checks that the offsets (from the start of the data) and sizes of the tensors match those in the
    /// section.
    pub(crate) fn check_extents(
        &self,
        listed: impl ExactSizeIterator<Item = (u64, u64)>,
    ) -> Result<(), SealFault> {
        if listed.len() != self.body.extents.len() {
            return Err(structure("the seal section has another number of tensors than the index"));
        }
        for (number, ((offset, size), extent)) in (0..).zip(listed.zip(&self.body.extents)) {
            if (offset, size) != (extent.offset, extent.size) {
                return Err(SealFault::Extent(number));
            }
        }
        Ok(())
    }

    pub(crate) fn extent(&self, position: usize) -> Option<&SealedExtent> {
        self.body.extents.get(position)
    }
}

/// Returns whether there are flags that a file with a sealed index must not show.
fn hides(flags: Flags) -> bool {
    flags.contains(Flags::COMPRESSED) || flags.contains(Flags::QUANTIZED)
}

/// The claims of a sealed file about its signatures and about who can open it; see
/// [`Index::seal`](crate::Index::seal).
///
/// The claims of a file prove nothing by themselves. Only the keys that the caller has named in [`Access`]
/// prove anything.
#[derive(Clone, Copy, Debug)]
pub struct Seal<'a>(pub(crate) &'a Section);

impl Seal<'_> {
    /// Returns the hash of everything that a signature covers. It identifies the content of the file.
    #[must_use]
    pub const fn statement(&self) -> [u8; 32] {
        self.0.statement
    }

    /// Returns the identifier of this file.
    #[must_use]
    pub const fn uuid(&self) -> [u8; 16] {
        self.0.body.uuid
    }

    /// Returns the revision that the signer chose.
    #[must_use]
    pub const fn revision(&self) -> u64 {
        self.0.body.revision
    }

    /// Returns whether the values are encrypted.
    #[must_use]
    pub const fn is_encrypted(&self) -> bool {
        self.0.is_encrypted()
    }

    /// Returns whether the values are encrypted and no given key decrypts them.
    #[must_use]
    pub const fn is_locked(&self) -> bool {
        self.0.is_locked()
    }

    /// Returns whether names, shapes and metadata are encrypted too.
    #[must_use]
    pub const fn has_sealed_index(&self) -> bool {
        self.0.body.is_index_sealed()
    }

    /// Returns the number of tensors, visible or hidden.
    #[must_use]
    pub fn tensor_count(&self) -> usize {
        self.0.body.extents.len()
    }

    /// Returns the signatures, in file order.
    pub fn signatures(&self) -> impl ExactSizeIterator<Item = SignatureInfo> {
        self.0.records.iter().map(|record| SignatureInfo {
            algorithm: record.algorithm,
            key_id: record.signed.map(|signed| signed.key_id),
            is_trusted: record.signed.is_some_and(|signed| self.0.trusted.contains(&signed.key_id)),
        })
    }

    /// Returns the slots in file order. Each is for one key or passphrase that opens the file.
    pub fn slots(&self) -> impl Iterator<Item = SlotInfo> {
        self.0.slots.iter().flat_map(|section| &section.slots).map(|slot| SlotInfo {
            kind: slot.kind,
            id: match slot.kind {
                1 => slot.payload.get(..32).filter(|id| *id != [0; 32]).map(<[u8]>::to_vec),
                3 => slot.payload.get(60..).filter(|id| !id.is_empty()).map(<[u8]>::to_vec),
                _ => None,
            },
        })
    }
}

/// A signature in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SignatureInfo {
    /// The number of the algorithm; 1 is Ed25519.
    pub algorithm: u16,
    /// The key that the signature claims, or `None` for an unknown algorithm.
    pub key_id: Option<[u8; 32]>,
    /// Whether the signature is valid and by a key that the caller has named.
    pub is_trusted: bool,
}

/// A slot, which is one way to open a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlotInfo {
    /// The number of its type: 1 X25519, 2 a passphrase, 3 a raw key.
    pub kind: u16,
    /// The identifier of the key: a hash of 32 bytes for X25519, the writer's choice for a raw key. `None` if
    /// the file does not show it.
    pub id: Option<Vec<u8>>,
}

impl SlotInfo {
    /// Returns `x25519`, `passphrase`, `raw-key` or `unknown`.
    #[must_use]
    pub const fn kind_name(&self) -> &'static str {
        match self.kind {
            1 => "x25519",
            2 => "passphrase",
            3 => "raw-key",
            _ => "unknown",
        }
    }
}
