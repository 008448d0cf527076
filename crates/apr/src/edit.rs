//! Changes the metadata of a file and the names of its tensors. The values stay as they are.

use std::collections::BTreeMap;
use std::ops::Range;

use modelfmt_core::author::{Crc, Cursor, align_up};
use modelfmt_core::value::json;
use modelfmt_core::{CommonFault, Part, Source};
use modelfmt_write::edit::NewFile;

use crate::error::{EditError, Error, Fault, WriteError, unfit};
use crate::index::Index;
use crate::metadata::Metadata;
use crate::wire::{self, ALIGNMENT, Entry, FOOTER_LEN, Flags, HEADER_LEN, Header};

impl Index {
    /// Renames tensors (`names` maps positions to new names), replaces the metadata if given, and returns the
    /// new content of the file. The values and their places in the data section stay as they are. If the
    /// index was sorted by name, it is sorted again.
    ///
    /// The data section keeps its place if the metadata and the index still fit before it; spaces fill up the
    /// metadata. The file can then be changed in place. The new CRC is computed from the old one without
    /// reading the values, so damaged values still do not match it.
    ///
    /// # Errors
    /// [`EditError::Read`] if the file cannot be read; [`EditError::Write`] if APR cannot hold a name or the
    /// metadata, if a name occurs twice, or if the content of the file is compressed.
    pub fn edit(
        &self,
        source: &impl Source,
        names: &BTreeMap<usize, String>,
        metadata: Option<&Metadata>,
    ) -> Result<NewFile, EditError> {
        if self.image.is_some() {
            let fault = CommonFault::Unchangeable("its content is compressed");
            return Err(unfit(Part::new("the file"), fault).into());
        }
        let is_wrong = |name: &str| !(1..=wire::MAX_NAME_LEN).contains(&name.len());
        if let Some((position, name)) = names.iter().find(|(_, name)| is_wrong(name)) {
            let part = Part::entry("tensor", *position as u64).with_name(name);
            return Err(unfit(part, Fault::NameLen(name.len() as u64)).into());
        }
        self.tensors()
            .renamed(names, |offset| offset)
            .map_err(|fault| unfit(Part::new("tensor index"), fault))?;
        // Sets the flag only for a vocabulary that is new. If the flag was missing before, it stays missing.
        let is_new = metadata.is_some_and(|new| new.has_vocabulary() && !self.metadata().has_vocabulary());
        let flags = if is_new { self.header.flags.with(Flags::HAS_VOCAB) } else { self.header.flags };
        let metadata = match metadata {
            Some(metadata) => {
                metadata.check()?;
                let refuse = |text| unfit(Part::new("metadata"), CommonFault::Metadata(text));
                let text = json::to_string(metadata.object());
                text.map_err(|error| refuse(error.to_string()))?.into_bytes()
            }
            None => read(source, self.sections.metadata.range())?,
        };
        let index = read(source, self.sections.index.offset()..self.tensors.index_end)?;
        let index = self.entries(&index, names)?;
        let head = self.head(metadata, &index, flags)?;
        let mut file = NewFile::new();
        let data = self.sections.data.offset();
        let Some(footer) = self.sections.footer else {
            file.push(head);
            file.keep(data..self.file_len);
            return Ok(file);
        };
        let old_head = read(source, 0..data)?;
        let stated = read(source, footer.range())?;
        let stated = Cursor::new(&stated, footer.offset()).u32("crc32").map_err(Error::from)?;
        let rest = footer.offset().saturating_sub(data);
        let crc = Crc::of(&old_head).replaced(stated, rest, Crc::of(&head));
        file.push(head);
        file.keep(data..footer.offset());
        file.push(crc.to_le_bytes());
        debug_assert_eq!(footer.len(), FOOTER_LEN);
        Ok(file)
    }

    /// Returns the index entries with the new names, otherwise unchanged.
    fn entries(&self, index: &[u8], names: &BTreeMap<usize, String>) -> Result<Vec<u8>, Error> {
        let mut c = Cursor::new(index, self.sections.index.offset());
        let mut entries = Vec::with_capacity(self.tensors().len());
        for position in 0..self.tensors().len() {
            c.record("tensor entry", Some(position as u64));
            let before = c.clone();
            let name = Entry::decode(&mut c)?.name;
            let head = 2 + name.len() as u64;
            let mut rest = before.clone();
            rest.bytes(head, "name")?;
            let len = c.offset().saturating_sub(rest.offset());
            entries.push((names.get(&position).map_or(name, String::as_str), rest.bytes(len, "entry")?));
        }
        if self.tensors.unsorted.is_none() {
            entries.sort_unstable_by_key(|(name, _)| *name);
        }
        let mut out = Vec::with_capacity(index.len());
        for (name, rest) in entries {
            out.extend(u16::try_from(name.len()).unwrap_or(u16::MAX).to_le_bytes()); // at most 256
            out.extend(name.as_bytes());
            out.extend_from_slice(rest);
        }
        Ok(out)
    }

    /// Encodes everything before the data section.
    fn head(&self, mut metadata: Vec<u8>, entries: &[u8], flags: Flags) -> Result<Vec<u8>, WriteError> {
        let too_long = || unfit(Part::new("tensor index"), Fault::TooLong);
        let up = |at: u64| align_up(at, ALIGNMENT).ok_or_else(too_long);
        let index_len = up(entries.len() as u64)?;
        let metadata_end = HEADER_LEN.saturating_add(metadata.len() as u64);
        let old = self.sections.data.offset();
        // Readers skip white space after JSON.
        if let Some(index_offset) =
            old.checked_sub(index_len).filter(|&offset| offset >= up(metadata_end).unwrap_or(u64::MAX))
        {
            let room = index_offset.saturating_sub(up(metadata_end)?);
            let room = usize::try_from(room).map_err(|_| too_long())?;
            metadata.resize(metadata.len().saturating_add(room), b' ');
        }
        let index_offset = up(HEADER_LEN.saturating_add(metadata.len() as u64))?;
        let data_offset = index_offset.saturating_add(index_len);
        let metadata_size = u32::try_from(metadata.len());
        let header = Header {
            metadata_size: metadata_size.map_err(|_| unfit(Part::new("metadata"), Fault::TooLong))?,
            index_offset,
            data_offset,
            flags,
            ..self.header
        };
        let mut out = header.encode();
        out.extend(metadata);
        out.resize(usize::try_from(index_offset).map_err(|_| too_long())?, 0);
        out.extend_from_slice(entries);
        out.resize(usize::try_from(data_offset).map_err(|_| too_long())?, 0);
        Ok(out)
    }
}

fn read(source: &impl Source, range: Range<u64>) -> Result<Vec<u8>, EditError> {
    let bytes = source.read(range.clone()).map_err(|error| EditError::io(&range, error))?;
    Ok(bytes.to_vec())
}
