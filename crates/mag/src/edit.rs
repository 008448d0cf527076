//! Changes the metadata of a file and the names of its tensors. The values stay as they are.

use std::collections::BTreeMap;

use modelfmt_core::author::align_up;
use modelfmt_core::value::Object;
use modelfmt_core::{CommonFault, Part, Source, TensorTable};
use modelfmt_write::edit::NewFile;

use crate::error::{EditError, Fault, WriteError};
use crate::index::Index;
use crate::layout::check_key;
use crate::metadata::Numbers;
use crate::v1;
use crate::version::Version;

impl Index {
    /// Renames tensors (`names` maps positions to new names), replaces the metadata if given, and returns the
    /// new content of the file. The values stay as they are. The checksum of version 1 is recomputed and
    /// keeps its kind.
    ///
    /// The values keep their offsets if the records, or the manifest of version 0.3, still end before them.
    /// The file can then be changed in place.
    ///
    /// # Errors
    /// [`EditError::Write`] if the version cannot hold a name, a key or the metadata, if a name occurs twice,
    /// or if the file has version 0.1 or 0.2 or big-endian values.
    pub fn edit(
        &self,
        _: &impl Source,
        names: &BTreeMap<usize, String>,
        metadata: Option<&Object>,
    ) -> Result<NewFile, EditError> {
        let unchangeable = |what| unfit(Part::new("the file"), CommonFault::Unchangeable(what));
        if self.is_big_endian {
            return Err(unchangeable("its numbers are big-endian"));
        }
        let is_v1 = self.version == Version::V1;
        for (position, name) in names {
            match check_key(name) {
                Err(Fault::EmptyKey) if !is_v1 => {}
                checked => {
                    let part = || Part::entry("tensor", *position as u64).with_name(name);
                    checked.map_err(|fault| unfit(part(), fault))?;
                }
            }
        }
        match self.version {
            Version::V1 => self.edit_v1(names, metadata),
            #[cfg(feature = "v0_3")]
            Version::V0_3 => self.edit_v0_3(names, metadata),
            _ => Err(unchangeable("it is of a version that is only read")),
        }
    }

    fn edit_v1(
        &self,
        names: &BTreeMap<usize, String>,
        metadata: Option<&Object>,
    ) -> Result<NewFile, EditError> {
        let numbers = match metadata {
            Some(metadata) => {
                for key in metadata.keys() {
                    check_key(key).map_err(|fault| unfit(Part::named("metadata key", key), fault))?;
                }
                &Numbers::of(metadata)?
            }
            None => &self.numbers,
        };
        let filled = self.tensors.iter().enumerate().filter(|(_, info)| info.nbytes > 0);
        let first = filled.filter_map(|(position, _)| self.tensors.offset(position)).min();
        let first = first.unwrap_or(self.file_len).max(self.index_end).min(self.file_len);
        let same = self.renamed(names, |offset| offset)?;
        let records = v1::records::len(&same, numbers);
        // Shifts by a multiple of 64, so that buffers stay aligned.
        let shift = records.checked_sub(first).map_or(Some(0), |more| align_up(more, v1::wire::ALIGNMENT));
        let shift = shift.unwrap_or(u64::MAX);
        let start = first.saturating_add(shift);
        // In a file without values, the end need not be aligned, but empty tensors must be.
        let aligned = start.saturating_sub(start % v1::wire::ALIGNMENT);
        let moved = |offset: u64| if offset >= first { offset.saturating_add(shift) } else { aligned };
        let tensors = self.renamed(names, moved)?;
        let mut head = v1::records::encode(&tensors, numbers, self.checksum.unwrap_or_default())?;
        let known = head.len() as u64;
        let mut file = NewFile::new();
        // Fills the gap between the records and the values up to the first multiple of 64.
        let filled = if shift > 0 { start } else { start.min(self.index_end.max(known)) };
        let filled = align_up(filled, v1::wire::ALIGNMENT).unwrap_or(filled).min(start);
        head.resize(usize::try_from(filled).unwrap_or(head.len()).max(head.len()), v1::wire::FILL);
        file.push(head);
        file.keep(filled.saturating_sub(shift)..self.file_len);
        Ok(file)
    }

    #[cfg(feature = "v0_3")]
    fn edit_v0_3(
        &self,
        names: &BTreeMap<usize, String>,
        metadata: Option<&Object>,
    ) -> Result<NewFile, EditError> {
        let mut options = crate::ManifestOptions::new();
        if let Some(manifest) = self.manifest() {
            options = options.timestamp(manifest.timestamp()).magnetron_version(manifest.magnetron_version());
        }
        let start = self.data.offset();
        let tensors = self.renamed(names, |offset| offset.saturating_sub(start))?;
        let metadata = metadata.unwrap_or_else(|| self.metadata());
        let room = (start, self.data.len());
        let (mut head, begin) = crate::v0_3::encode(&tensors, metadata, &options, room)?;
        head.resize(usize::try_from(begin).unwrap_or(head.len()), 0);
        let mut file = NewFile::new();
        file.push(head);
        file.keep(start..self.file_len);
        Ok(file)
    }

    fn renamed(
        &self,
        names: &BTreeMap<usize, String>,
        offset: impl Fn(u64) -> u64,
    ) -> Result<TensorTable, EditError> {
        self.tensors.renamed(names, offset).map_err(|fault| unfit(Part::new("tensors"), fault))
    }
}

fn unfit(part: Part, fault: impl Into<Fault>) -> EditError {
    WriteError::unsupported(part, fault).into()
}
