//! Changes the metadata of a file and the names of its tensors. The values stay as they are.

use std::collections::BTreeMap;

use modelfmt_core::author::Extent;
use modelfmt_core::{CommonFault, Part, Source, TensorTable};
use modelfmt_write::edit::NewFile;

use crate::error::{EditError, Fault, WriteError};
use crate::index::Index;
use crate::layout::{Values, WriteOptions, after, align, count, sorted, text, text_len};
use crate::metadata::Metadata;
use crate::wire::{self, HEADER_LEN, Header, MetadataRecord, ValueType, text_fault};

impl Index {
    /// Renames tensors (`names` maps positions to new names), replaces the size variables and the metadata if
    /// `metadata` is given, and returns the new content of the file. The values stay as they are, and every
    /// table keeps the order of the file.
    ///
    /// OINF leaves no free space before the values, so the file can be changed in place only if the new
    /// tables and metadata values take exactly as many bytes as the old ones.
    ///
    /// # Errors
    /// [`EditError::Write`] if OINF cannot hold a name or the metadata, if a name occurs twice, or if the
    /// file has tensor values before metadata values.
    pub fn edit(
        &self,
        _: &impl Source,
        names: &BTreeMap<usize, String>,
        metadata: Option<&Metadata<'_>>,
    ) -> Result<NewFile, EditError> {
        for (position, name) in names {
            if let Some(fault) = text_fault(name) {
                return Err(unfit(Part::entry("tensor", *position as u64).with_name(name), fault));
            }
        }
        let own = self.to_metadata();
        let metadata = metadata.unwrap_or(&own);
        sorted("size variable", &metadata.sizevars)?;
        sorted("metadata entry", &metadata.values)?;
        let options = WriteOptions::new().version(self.version()).extended_types(true);
        let values = metadata.values.iter().map(|(key, value)| (&**key, value)).collect();
        let values = Values::encode(values, &options)?;
        let first = self.first_blob()?;
        let same = self.renamed(names, |offset| offset)?;
        let mut new =
            Layout { index: self, metadata, values: &values, tensors: same, tables: [0; 3], data: 0 };
        let start = new.place()?;
        new.tensors = self.renamed(names, |offset| moved(offset, first, start))?;
        let mut file = NewFile::new();
        file.push(new.encode((first, start))?);
        file.keep(first..self.file_len());
        Ok(file)
    }

    /// Returns the offset of the first tensor values or quant payload. All metadata values must be before it.
    fn first_blob(&self) -> Result<u64, EditError> {
        let extents = (0..self.tensors.len()).filter_map(|n| self.tensors.extent(n, self.file_len()));
        let blobs = extents.chain(self.quants.iter().map(|(_, extent)| extent));
        let first = blobs.map(Extent::offset).min().unwrap_or(self.file_len());
        let last = self.entries.values.iter().map(|entry| entry.extent.end()).max().unwrap_or(0);
        if first < last.max(self.header.data) {
            let fault = CommonFault::Unchangeable("values of its tensors are before its metadata");
            return Err(unfit(Part::new("data section"), fault));
        }
        Ok(first)
    }

    fn renamed(
        &self,
        names: &BTreeMap<usize, String>,
        offset: impl Fn(u64) -> u64,
    ) -> Result<TensorTable, EditError> {
        self.tensors.renamed(names, offset).map_err(|fault| unfit(Part::new("tensor entries"), fault))
    }
}

/// Returns the new offset of a byte, after the part that began at `first` has moved to `start`.
const fn moved(offset: u64, first: u64, start: u64) -> u64 {
    offset.saturating_sub(first).saturating_add(start)
}

/// The new form of everything before the first tensor values.
struct Layout<'a> {
    index: &'a Index,
    metadata: &'a Metadata<'a>,
    values: &'a Values<'a>,
    tensors: TensorTable,
    tables: [u64; 3],
    data: u64,
}

impl Layout<'_> {
    /// Places the tables and the metadata, and returns the offset of the first tensor values.
    fn place(&mut self) -> Result<u64, EditError> {
        let fields = 12 + self.index.version().tensor_tail();
        let lens: [u64; 3] = [
            self.metadata.sizevars.iter().map(|(name, _)| text_len(name) + 8).sum(),
            self.values.entries.iter().map(|entry| text_len(entry.key) + 24).sum(),
            self.tensors.iter().map(|info| text_len(info.name) + fields + 8 * info.shape.len() as u64).sum(),
        ];
        let mut at = HEADER_LEN;
        for (table, len) in self.tables.iter_mut().zip(lens) {
            *table = at;
            at = after(at, len)?;
        }
        self.data = at;
        Ok(after(at, self.values.bytes.len() as u64)?)
    }

    fn encode(&self, (first, start): (u64, u64)) -> Result<Vec<u8>, EditError> {
        let file_len = moved(self.index.file_len(), first, start);
        let header = Header {
            version: self.index.version(),
            counts: [
                count("size variables", self.metadata.sizevars.len())?,
                count("metadata entries", self.values.entries.len())?,
                count("tensors", self.tensors.len())?,
            ],
            tables: self.tables,
            data: self.data,
            file_size: file_len,
        };
        let mut out = Vec::new();
        header.encode(&mut out);
        for (name, value) in &self.metadata.sizevars {
            text("size variable", name, &mut out)?;
            out.extend(value.to_le_bytes());
        }
        align(&mut out);
        for entry in &self.values.entries {
            text("metadata entry", entry.key, &mut out)?;
            let offset = self.data.saturating_add(entry.offset);
            MetadataRecord::encode_rest(entry.value_type, entry.nbytes, offset, &mut out);
        }
        align(&mut out);
        for (position, info) in self.tensors.iter().enumerate() {
            text("tensor", info.name, &mut out)?;
            let refuse = |fault| unfit(Part::named("tensor", info.name), fault);
            let value_type =
                ValueType::from_dtype(info.dtype).ok_or_else(|| refuse(Fault::NoCode(info.dtype)))?;
            let quant = self.index.quants.extent(position).and_then(|extent| {
                Extent::new(moved(extent.offset(), first, start), extent.len(), file_len).ok()
            });
            let blobs = [self.tensors.extent(position, file_len), quant];
            wire::encode_tensor_rest(header.version, value_type, info.shape, blobs, &mut out)
                .map_err(refuse)?;
        }
        align(&mut out);
        out.extend(&self.values.bytes);
        Ok(out)
    }
}

fn unfit(part: Part, fault: impl Into<Fault>) -> EditError {
    WriteError::unsupported(part, fault).into()
}
