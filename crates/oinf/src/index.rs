//! The content of an OINF file, checked and owned: size variables, metadata and tensors, and where the values
//! are.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::{Limits, TensorTable};

use crate::error::Result;
use crate::metadata::{Entries, MetaValue, Metadata};
use crate::quant::Quants;
use crate::sizevars::SizeVars;
use crate::wire::{Header, Version};

/// The content of an OINF file: its size variables, its metadata with values, and where each tensor is.
/// Everything has been checked.
#[derive(Clone, Debug)]
pub struct Index {
    pub(crate) header: Header,
    /// The end of the last record of each table.
    pub(crate) ends: [u64; 3],
    pub(crate) sizevars: SizeVars,
    pub(crate) entries: Entries,
    pub(crate) tensors: TensorTable,
    pub(crate) quants: Quants,
    /// The limits that the index was parsed with. `verify` parses the file again with them.
    pub(crate) limits: Limits,
}

impl Index {
    /// Returns the length of the file in bytes.
    #[must_use]
    pub const fn file_len(&self) -> u64 {
        self.header.file_size
    }

    /// Returns the version that the file states.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.header.version
    }

    /// Returns the offset of the data section.
    #[must_use]
    pub const fn data_offset(&self) -> u64 {
        self.header.data
    }

    /// Returns the size variables, in file order.
    #[must_use]
    pub const fn sizevars(&self) -> &SizeVars {
        &self.sizevars
    }

    /// Returns the keys and values of the metadata, in file order.
    pub fn metadata(&self) -> impl ExactSizeIterator<Item = (&str, MetaValue<'_>)> {
        self.entries.keys.iter().enumerate().map(|(position, key)| (key, self.entries.value(position)))
    }

    /// Returns the metadata value with this key.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<MetaValue<'_>> {
        self.entries.keys.find(key).map(|position| self.entries.value(position))
    }

    /// Returns the size variables and the metadata together, for a [`Plan`](crate::Plan).
    #[must_use]
    pub fn to_metadata(&self) -> Metadata<'_> {
        Metadata {
            sizevars: self.sizevars.iter().map(|(name, value)| (name.into(), value)).collect(),
            values: self.metadata().map(|(key, value)| (key.into(), value)).collect(),
        }
    }

    /// Returns the tensors, in file order.
    #[must_use]
    pub const fn tensors(&self) -> &TensorTable {
        &self.tensors
    }

    /// Checks the total length of the quant payloads, and records where OpenInfer's writer would store them.
    pub(crate) fn note_quants(&mut self) -> Result<()> {
        self.quants.check(self.header.file_size)?;
        if self.quants.iter().next().is_some() {
            let file_len = self.header.file_size;
            let data = (0..self.tensors.len()).filter_map(|position| self.tensors.extent(position, file_len));
            self.quants.note_written(data);
        }
        Ok(())
    }

    /// Returns the heap memory in bytes that the index takes.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        self.sizevars
            .heap_size()
            .saturating_add(self.entries.heap_size())
            .saturating_add(self.tensors.heap_size())
            .saturating_add(self.quants.heap_size())
    }
}
