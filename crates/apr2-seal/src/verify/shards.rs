//! The combined findings about the seals of all shards of a set.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::{Report, author::Shortened};

use super::LOCKED;
use super::sealed::SealFindings;
use crate::seal::Section;

/// The combined findings about sealed shards.
#[derive(Default)]
pub struct Seals {
    digests: Vec<String>,
    encryption: Vec<String>,
    /// The number of tensors in all shards.
    tensors: usize,
    /// Whether digests were checked.
    is_hashed: bool,
    is_encrypted: bool,
    /// Whether a shard has values that no given key decrypts.
    is_locked: bool,
}

impl Seals {
    pub(super) fn take(&mut self, section: &Section, found: SealFindings, file: &str) {
        let named = |text: String| format!("shard {:?}: {text}", Shortened(file));
        self.digests.extend(found.digests.into_iter().map(named));
        self.encryption.extend(found.encryption.into_iter().map(named));
        self.tensors = self.tensors.saturating_add(section.body.extents.len());
        self.is_hashed = true;
        self.is_encrypted |= section.is_encrypted();
        self.is_locked |= section.is_locked();
    }

    pub(crate) fn add_to(self, report: &mut Report) {
        if !self.is_hashed {
            return;
        }
        let tensors = format!("{} tensors", self.tensors);
        report.add("digests", self.digests, tensors.clone());
        match (self.is_encrypted, self.is_locked) {
            (false, _) => report.add_absent("encryption", "no shard is encrypted"),
            (true, true) if self.encryption.is_empty() => report.add_absent("encryption", LOCKED),
            _ => report.add("encryption", self.encryption, tensors),
        }
    }
}
