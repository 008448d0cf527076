//! The same file with other names for its tensors.

use std::collections::BTreeMap;

use modelfmt_core::{CommonFault, Part, TensorInfo};
use modelfmt_write::edit::NewFile;

use crate::error::{EditError, Fault, WriteError};
use crate::index::Index;
use crate::wire::{HEADER_LEN, Record, encode_header};

impl Index {
    /// What becomes of the file with these names for tensors, by their positions. All values move by as many bytes as the records
    /// become longer or shorter.
    ///
    /// # Errors
    /// [`EditError::Write`] for a name that a record has no room for, and for a file whose values lie among its records.
    pub fn edit(&self, names: &BTreeMap<usize, String>) -> Result<NewFile, EditError> {
        let named = |(position, tensor): (usize, TensorInfo<'_>)| {
            let name = names.get(&position).map_or(tensor.name, String::as_str);
            let offset = self.tensors().offset(position).unwrap_or_default();
            Record { name: name.to_owned(), dtype: tensor.dtype, offset, shape: tensor.shape.to_vec() }
        };
        let records: Vec<_> = self.tensors().iter().enumerate().map(named).collect();
        let lens = records.iter().map(Record::len);
        let end = lens.fold(HEADER_LEN, u64::saturating_add);
        let mut head = encode_header(records.len());
        for (position, mut record) in records.into_iter().enumerate() {
            let refuse = |fault: Fault| {
                WriteError::unsupported(Part::entry("tensor", position as u64).with_name(&record.name), fault)
            };
            let Some(after) = record.offset.checked_sub(self.records_end()) else {
                return Err(
                    refuse(CommonFault::Unchangeable("its values lie among the records").into()).into()
                );
            };
            let Ok(len) = u16::try_from(record.name.len()) else {
                return Err(refuse(Fault::NameLen(record.name.len())).into());
            };
            record.offset = end.saturating_add(after);
            record.encode(len, &mut head);
        }
        let mut file = NewFile::new();
        file.push(head);
        file.keep(self.records_end()..self.file_len());
        Ok(file)
    }
}
