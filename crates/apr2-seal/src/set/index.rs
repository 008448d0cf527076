//! A manifest of `modelfmt-apr2` with the key `seal`.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::sync::Arc;

use apr2::{Shard, author::parse_manifest};
use modelfmt_core::{Limits, Part, author::NameTable};

use super::seal::SetSeal;
use crate::error::{Result, SealFault, malformed};
use crate::index::Index;
use crate::seal::{Access, SignatureInfo};

/// The content of a manifest, sealed or not: the shards, and the tensors in the order of its `tensor_shard_map`.
#[derive(Clone, Debug)]
pub struct SetIndex {
    pub(super) plain: apr2::SetIndex,
    seal: Option<SetSeal>,
    /// The demands against which the manifest has been checked.
    pub(super) checked: Option<Arc<Access>>,
    /// The indexes of the shards, if the shards list the tensors and the manifest does not.
    pub(super) opened: Vec<Arc<Index>>,
}

impl SetIndex {
    /// Parses the JSON text of a manifest. Skips keys that the specification does not name.
    ///
    /// # Errors
    /// If the text is not JSON, lacks a key, names a tensor or a file twice, maps a tensor to a shard that it
    /// does not list, or has a path that leads out of its folder.
    pub fn parse(text: &[u8], limits: &Limits) -> Result<Self> {
        let mut seal = None;
        let plain = parse_manifest(text, limits, |object, shards| {
            let Some(value) = object.get("seal") else { return Ok(()) };
            let refused = |fault| malformed(Part::new("manifest").with_field("seal"), 0, fault);
            let object = value.as_object();
            let object =
                object.ok_or_else(|| refused(SealFault::Structure("`seal` is no object".to_owned())))?;
            seal = Some(SetSeal::parse(object, shards).map_err(refused)?);
            Ok(())
        })?;
        Ok(Self { plain, seal, checked: None, opened: Vec::new() })
    }

    /// Returns the version that the manifest states, such as `2.0.0`.
    #[must_use]
    pub fn apr_version(&self) -> Option<&str> {
        self.plain.apr_version()
    }

    /// Returns the names of the tensors, in order.
    #[must_use]
    pub const fn names(&self) -> &NameTable {
        self.plain.names()
    }

    /// Returns the number of the shard that has the tensor at a position.
    #[must_use]
    pub fn shard_of(&self, position: usize) -> Option<usize> {
        self.plain.shard_of(position)
    }

    /// Returns the shards, in order.
    pub fn shards(&self) -> impl ExactSizeIterator<Item = Shard<'_>> {
        self.plain.shards()
    }

    /// Returns the shard with this number, counted from 0.
    #[must_use]
    pub fn shard(&self, number: usize) -> Option<Shard<'_>> {
        self.plain.shard(number)
    }

    pub(super) const fn seal(&self) -> Option<&SetSeal> {
        self.seal.as_ref()
    }

    /// Returns the keys that claim to have signed the set, and whether the caller has named keys to check
    /// this.
    pub(super) fn signers(&self) -> Option<(String, bool)> {
        let named = self.checked.as_deref().map_or(&[][..], |access| &access.signers);
        self.seal().map(|seal| (seal.signers(named), !named.is_empty()))
    }

    /// Checks the manifest against the caller's demands.
    pub(super) fn check_seal(&self, access: &Access) -> Result<(), SealFault> {
        let Some(seal) = self.seal() else {
            return match access.demands() {
                true => Err(SealFault::Missing("a sealed model is demanded, and the manifest has no `seal`")),
                false => Ok(()),
            };
        };
        seal.check(self.shards().map(|shard| shard.path), &self.shard_map(), access)
    }

    /// Returns the statement that a signature of the set covers, or `None` if the set is not sealed. A caller
    /// can require exactly this set with it.
    #[must_use]
    pub fn statement(&self) -> Option<[u8; 32]> {
        let shards = self.shards().map(|shard| shard.path);
        self.seal().and_then(|seal| seal.statement(shards, &self.shard_map()).ok())
    }

    /// Returns the revision of a sealed set, which its signers chose.
    #[must_use]
    pub fn revision(&self) -> Option<u64> {
        self.seal().map(SetSeal::revision)
    }

    /// Returns the signatures in the manifest. Only those by keys that the caller has named prove anything.
    pub fn signatures(&self) -> impl Iterator<Item = SignatureInfo> + '_ {
        let named = self.checked.as_deref().map_or(&[][..], |access| &access.signers);
        self.seal().into_iter().flat_map(|seal| seal.signatures(named))
    }

    /// Returns the tensors that the manifest lists, each with the number of its shard.
    pub(super) fn shard_map(&self) -> Vec<(&str, u32)> {
        if !self.opened.is_empty() {
            return Vec::new();
        }
        let shard = |position| self.shard_of(position).and_then(|shard| u32::try_from(shard).ok());
        let names = self.names().iter().enumerate();
        names.filter_map(|(position, name)| Some((name, shard(position)?))).collect()
    }

    /// Returns the length of the manifest's text in bytes.
    #[must_use]
    pub const fn text_len(&self) -> u64 {
        self.plain.text_len()
    }
}
