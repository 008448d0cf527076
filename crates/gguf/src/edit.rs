//! Changes the metadata of a file and the names of its tensors. The values stay as they are.

use std::collections::BTreeMap;

use modelfmt_core::author::align_up;
use modelfmt_core::{CommonFault, Part, Source, TensorTable};
use modelfmt_write::edit::NewFile;

use crate::error::{EditError, Fault, WriteError, unfit_key};
use crate::index::Index;
use crate::layout::encode;
use crate::metadata::{MetaValue, Metadata};
use crate::wire;

impl Index {
    /// Renames tensors (`names` maps positions to new names), replaces the metadata if given, and returns the
    /// new content of the file. The values and their places in the data stay as they are.
    ///
    /// The data begin right after the records, at the next multiple of the alignment. So the file can be
    /// changed in place if the new records end before the same multiple. If the metadata has a string under
    /// [`PADDING`](crate::PADDING), its length is adjusted to achieve this.
    ///
    /// # Errors
    /// [`EditError::Write`] for names and keys that ggml does not read or that occur twice, for an alignment
    /// that differs from the file's, and for a file with big-endian numbers.
    pub fn edit(
        &self,
        _: &impl Source,
        names: &BTreeMap<usize, String>,
        metadata: Option<&Metadata>,
    ) -> Result<NewFile, EditError> {
        if self.is_big_endian() {
            return Err(unfit(Part::new("header"), CommonFault::Unchangeable("its numbers are big-endian")));
        }
        if let Some((position, name)) = names.iter().find(|(_, name)| name.len() > wire::MAX_NAME_LEN) {
            let part = Part::entry("tensor", *position as u64).with_name(name);
            return Err(unfit(part, Fault::NameLength(name.len() as u64)));
        }
        let start = self.data_start();
        let renamed = self.tensors().renamed(names, |offset| offset.saturating_sub(start));
        let tensors = renamed.map_err(|fault| unfit(Part::new("tensors"), fault))?;
        let metadata = metadata.unwrap_or_else(|| self.metadata());
        self.check(metadata)?;
        let head = self.fitted(&tensors, metadata)?;
        let mut file = NewFile::new();
        let new_start = align_up(head.len() as u64, self.alignment().into()).unwrap_or(u64::MAX);
        let gap = new_start.saturating_sub(head.len() as u64);
        file.push(head);
        file.push(vec![0; usize::try_from(gap).unwrap_or(0)]); // less than the alignment
        // A file without values may end inside the padding after the records.
        if start < self.file_len() {
            file.keep(start..self.file_len());
        }
        Ok(file)
    }

    /// Encodes the head. If the metadata has a padding string, adjusts its length so that the data keep their
    /// place, if possible.
    fn fitted(&self, tensors: &TensorTable, metadata: &Metadata) -> Result<Vec<u8>, EditError> {
        let head = |metadata: &Metadata| {
            let mut head = encode(tensors, metadata);
            // Versions 2 and 3 differ only in the version number.
            let version = head.iter_mut().skip(wire::MAGIC.len());
            version.zip(self.version().to_le_bytes()).for_each(|(to, from)| *to = from);
            head
        };
        let as_is = head(metadata);
        let Some(padding) = metadata.get(wire::PADDING).and_then(|value| value.as_str().map(str::len)) else {
            return Ok(as_is);
        };
        let without = (as_is.len() as u64).saturating_sub(padding as u64);
        let Some(room) = self.data_start().checked_sub(without).and_then(|room| usize::try_from(room).ok())
        else {
            return Ok(as_is);
        };
        let mut fitted = Metadata::new();
        for (key, value) in metadata.iter() {
            let spaces = " ".repeat(if key == wire::PADDING { room } else { 0 });
            let value = if key == wire::PADDING { MetaValue::String(&spaces) } else { value };
            fitted.push(key, value).map_err(|fault| unfit_key(key, fault))?;
        }
        Ok(head(&fitted))
    }

    fn check(&self, metadata: &Metadata) -> Result<(), EditError> {
        for key in metadata.keys().filter(|key| self.metadata().get(key).is_none()) {
            wire::check_key(key).map_err(|fault| unfit_key(key, fault))?;
        }
        let value = |metadata: &Metadata, key: &str| metadata.get(key).map(|value| value.to_value());
        let mut replaced = self.metadata().replaced_text();
        // Invalid bytes in the text were replaced by U+FFFD when it was read, and would be written like this.
        if let Some(key) = replaced.find(|key| value(metadata, key) == value(self.metadata(), key)) {
            return Err(
                unfit_key(key, CommonFault::Unchangeable("it has text that is not UTF-8").into()).into()
            );
        }
        for key in wire::SPLIT.into_iter().chain([wire::ALIGNMENT]) {
            if value(metadata, key) != value(self.metadata(), key) {
                let why = "it says where values are";
                return Err(unfit_key(key, CommonFault::Unchangeable(why).into()).into());
            }
        }
        Ok(())
    }
}

fn unfit(part: Part, fault: impl Into<Fault>) -> EditError {
    WriteError::unsupported(part, fault).into()
}
