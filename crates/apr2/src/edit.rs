//! Changes the metadata of a file and the names of its tensors. The values stay as they are.

use std::collections::BTreeMap;

use modelfmt_core::author::{Crc, Cursor, align_up};
use modelfmt_core::{CommonFault, Part, Source, TensorTable};
use modelfmt_write::edit::NewFile;

use crate::error::{EditError, Fault, WriteError, unfit};
use crate::index::{Generation, Index};
use crate::layout::{encode, section_len};
use crate::metadata::Metadata;
use crate::wire::{DATA_ALIGNMENT, Entry, FOOTER_LEN, Flags, Footer, HEADER_LEN, Header, INDEX_HEADER_LEN};

impl Index {
    /// Renames tensors (`names` maps positions to new names), replaces the metadata if given, and returns the
    /// new content of the file. The values and their places in the data section stay as they are.
    ///
    /// The data section keeps its offset if the metadata and the index still fit before it; spaces fill up
    /// the metadata. The file can then be changed in place. The new CRC is computed from the old one without
    /// reading the values, so damaged values still do not match it.
    ///
    /// # Errors
    /// [`EditError::Read`] if the file cannot be read; [`EditError::Write`] if APR2 cannot hold a name or the
    /// metadata, if a name occurs twice, or if the file is APR1 or signed.
    pub fn edit(
        &self,
        source: &impl Source,
        names: &BTreeMap<usize, String>,
        metadata: Option<&Metadata>,
    ) -> Result<NewFile, EditError> {
        self.edit_with(source, names, metadata, signed)
    }

    /// Edits the file. If the file is signed, `unsigned` returns the end of its tensors, and the CRC of
    /// everything before that end.
    pub(crate) fn edit_with(
        &self,
        source: &impl Source,
        names: &BTreeMap<usize, String>,
        metadata: Option<&Metadata>,
        unsigned: impl FnOnce() -> Result<(u64, u32), EditError>,
    ) -> Result<NewFile, EditError> {
        let unchangeable = |what| unfit(Part::new("the file"), CommonFault::Unchangeable(what));
        if self.generation == Generation::Apr1 {
            return Err(unchangeable("it is APR1, which is only read").into());
        }
        if self.flags.contains(Flags::ENCRYPTED) || self.is_encrypted() {
            // The keys of tensors depend on their names, and nothing may be encrypted twice with one key, so
            // all tensors would have to be written again.
            return Err(unchangeable("it is encrypted").into());
        }
        for (position, name) in names {
            let refuse = |fault: Fault| unfit(Part::entry("tensor", *position as u64).with_name(name), fault);
            match u16::try_from(name.len()) {
                Ok(0) => return Err(refuse(Fault::EmptyName).into()),
                Ok(_) => {}
                Err(_) => return Err(refuse(Fault::NameLen(name.len() as u64)).into()),
            }
        }
        let tensors = self.tensors().renamed(names, |offset| offset);
        let tensors = tensors.map_err(|fault| unfit(Part::new("tensor index"), fault))?;
        let metadata = match metadata.filter(|&metadata| *metadata != self.metadata) {
            Some(metadata) => encode(metadata)?,
            None => read(source, self.sections.metadata.range())?,
        };
        let entries = self.entries(&tensors);
        if self.is_signed() && self.head(metadata.clone(), &entries, self.flags)? == self.old_head(source)? {
            return Ok(self.unchanged());
        }
        self.rewritten(source, metadata, &entries, unsigned)
    }

    /// Removes the signatures of a file: returns its content without the seal section. The values, and their places in the data
    /// section, stay as they are.
    ///
    /// # Errors
    /// If the file cannot be read, or its signatures cannot be removed.
    pub fn without_signatures(&self, source: &impl Source) -> Result<NewFile, EditError> {
        self.without_signatures_with(source, signed)
    }

    /// Removes the signatures. `unsigned` is as in [`edit_with`](Self::edit_with).
    pub(crate) fn without_signatures_with(
        &self,
        source: &impl Source,
        unsigned: impl FnOnce() -> Result<(u64, u32), EditError>,
    ) -> Result<NewFile, EditError> {
        if self.flags.contains(Flags::ENCRYPTED) || self.is_encrypted() {
            return Err(unfit(Part::new("the file"), CommonFault::Unchangeable("it is encrypted")).into());
        }
        if !self.is_signed() {
            return Ok(self.unchanged());
        }
        let metadata = read(source, self.sections.metadata.range())?;
        self.rewritten(source, metadata, &self.entries(self.tensors()), unsigned)
    }

    /// Replaces everything before the data section, and leaves out the signatures.
    fn rewritten(
        &self,
        source: &impl Source,
        metadata: Vec<u8>,
        entries: &[u8],
        unsigned: impl FnOnce() -> Result<(u64, u32), EditError>,
    ) -> Result<NewFile, EditError> {
        let (end, crc) = if self.is_signed() { unsigned()? } else { self.whole(source)? };
        let head = self.head(metadata, entries, self.flags.without(Flags::SIGNED))?;
        let data = self.sections.data.offset()..end;
        let crc32 = Crc::of(&self.old_head(source)?).replaced(crc, end - data.start, Crc::of(&head));
        let mut file = NewFile::new();
        let file_size = (head.len() as u64).saturating_add(end - data.start).saturating_add(FOOTER_LEN);
        file.push(head);
        file.keep(data);
        file.push(Footer { crc32, file_size }.encode());
        Ok(file)
    }

    const fn is_signed(&self) -> bool {
        self.flags.contains(Flags::SIGNED)
    }

    fn unchanged(&self) -> NewFile {
        let mut file = NewFile::new();
        file.keep(0..self.file_len);
        file
    }

    /// Encodes the index section with these names.
    fn entries(&self, tensors: &TensorTable) -> Vec<u8> {
        let data = self.sections.data.offset();
        let mut out = u32::try_from(tensors.len()).unwrap_or(u32::MAX).to_le_bytes().to_vec(); // a file had them
        out.extend(self.tensors.reserved.to_le_bytes());
        for (info, stored) in tensors.iter().zip(self.tensors.all_stored()) {
            let entry = Entry {
                name: info.name,
                dtype: info.dtype,
                dims: info.shape,
                offset: stored.offset.saturating_sub(data),
                size: stored.len,
                raw_size: if stored.compressed { stored.nbytes } else { 0 },
                flags: stored.flags,
            };
            entry.encode(&mut out);
        }
        out
    }

    /// Encodes everything before the data section.
    fn head(&self, mut metadata: Vec<u8>, entries: &[u8], flags: Flags) -> Result<Vec<u8>, WriteError> {
        debug_assert!(entries.len() as u64 >= INDEX_HEADER_LEN);
        let old = self.sections.data.offset();
        let end = HEADER_LEN.saturating_add(metadata.len() as u64).saturating_add(entries.len() as u64);
        let room = old.checked_sub(end).and_then(|room| usize::try_from(room).ok());
        let data_offset = match room {
            // Readers skip white space after JSON. A remainder shorter than the alignment becomes the gap
            // before the data.
            Some(room) => {
                let spaces = room - room % 64;
                metadata.resize(metadata.len().saturating_add(spaces), b' ');
                old
            }
            None => align_up(end, DATA_ALIGNMENT).unwrap_or(u64::MAX),
        };
        let metadata_size = section_len("metadata", metadata.len() as u64)?;
        let header = Header {
            version_major: self.version.0,
            version_minor: self.version.1,
            flags,
            metadata_offset: 32,
            metadata_size,
            index_offset: section_len("metadata", HEADER_LEN.saturating_add(u64::from(metadata_size)))?,
            index_size: section_len("tensor index", entries.len() as u64)?,
            data_offset: section_len("everything before the data section", data_offset)?,
        };
        let mut out = header.encode().to_vec();
        out.extend(metadata);
        out.extend_from_slice(entries);
        out.resize(usize::try_from(data_offset).unwrap_or(out.len()), 0);
        Ok(out)
    }

    fn old_head(&self, source: &impl Source) -> Result<Vec<u8>, EditError> {
        read(source, 0..self.sections.data.offset())
    }

    /// Returns the end of the data section, and the CRC of everything before that end according to the
    /// footer.
    fn whole(&self, source: &impl Source) -> Result<(u64, u32), EditError> {
        let end = self.sections.data.end();
        let footer = read(source, end..self.file_len)?;
        Ok((end, Footer::decode(&mut Cursor::new(&footer, end), self.file_len)?.crc32))
    }
}

/// Refuses signed files, because this crate does not know where a seal section begins.
fn signed() -> Result<(u64, u32), EditError> {
    Err(unfit(Part::new("the file"), CommonFault::Unchangeable("it is signed")).into())
}

fn read(source: &impl Source, range: std::ops::Range<u64>) -> Result<Vec<u8>, EditError> {
    let bytes = source.read(range.clone()).map_err(|error| EditError::io(&range, error))?;
    Ok(bytes.to_vec())
}
