//! The JSON index: the file of each tensor (docs/formats/pytorch.md#several-files).
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::author::NameTable;
use modelfmt_core::source::SetPaths;
use modelfmt_core::value::{Object, Value, json};
use modelfmt_core::{CommonFault, Limits, Part};

use crate::error::{Error, Fault, Result};

/// The content of the index of a set: the tensors in the order of its `weight_map`, the file of each tensor,
/// and its `metadata`.
#[derive(Clone, Debug)]
pub struct SetIndex {
    names: NameTable,
    files: NameTable,
    /// For each tensor, the number of its file.
    shard_of: Vec<u32>,
    metadata: Object,
    len: u64,
}

impl SetIndex {
    /// Parses the JSON text of an index.
    ///
    /// # Errors
    /// If the text is not JSON, lacks `weight_map`, or has a path that leads out of its folder.
    pub fn parse(text: &[u8], limits: &Limits) -> Result<Self> {
        Limits::check("the length of the index", text.len() as u64, limits.index_len)?;
        let part = || Part::new("index");
        let refuse = |at: usize, fault: Fault| Error::Malformed { part: part(), at: at as u64, fault };
        let mut top = json::parse_object(text).map_err(|error| {
            refuse(error.offset().unwrap_or(0), CommonFault::Metadata(error.message().to_owned()).into())
        })?;
        let map = top.remove("weight_map");
        let map =
            map.as_ref().and_then(Value::as_object).ok_or_else(|| refuse(0, Fault::Missing("weight_map")))?;
        let metadata = match top.remove("metadata") {
            Some(Value::Object(metadata)) => metadata,
            _ => Object::new(),
        };
        let (mut names, mut files) = (NameTable::with_capacity(map.len()), NameTable::default());
        let (mut shard_of, mut paths) = (Vec::with_capacity(map.len()), SetPaths::default());
        Limits::check("the number of tensors", map.len() as u64, limits.tensors)?;
        for (name, file) in map {
            let part = || Part::named("tensor", name);
            let refuse = |fault| Error::Malformed { part: part(), at: 0, fault };
            Limits::check("the length of a name", name.len() as u64, limits.name_len)?;
            let file = file.as_str().ok_or_else(|| refuse(Fault::Missing("weight_map")))?;
            names.push(name).map_err(|fault| refuse(fault.into()))?;
            let number = match files.find(file) {
                Some(number) => number,
                None => {
                    let count = (files.len() as u64).saturating_add(1);
                    Limits::check("the number of files", count, limits.entries)?;
                    paths.add(file).map_err(|why| refuse(Fault::Path(why)))?;
                    files.push(file).map_err(|fault| refuse(fault.into()))?
                }
            };
            shard_of.push(u32::try_from(number).map_err(|_| refuse(CommonFault::TooManyNames.into()))?);
        }
        Ok(Self { names, files, shard_of, metadata, len: text.len() as u64 })
    }

    /// Returns the names of the tensors, in order.
    #[must_use]
    pub const fn names(&self) -> &NameTable {
        &self.names
    }

    /// Returns the paths of the files, in the order of their first occurrence.
    #[must_use]
    pub const fn files(&self) -> &NameTable {
        &self.files
    }

    /// Returns the number of the file that holds the tensor at a position.
    #[must_use]
    pub fn shard_of(&self, position: usize) -> Option<usize> {
        self.shard_of.get(position).map(|&number| number as usize)
    }

    /// Returns the `metadata` of the index: usually `total_size`, the number of bytes of all tensors.
    #[must_use]
    pub const fn metadata(&self) -> &Object {
        &self.metadata
    }

    /// Returns the length of the index's text in bytes.
    #[must_use]
    pub const fn text_len(&self) -> u64 {
        self.len
    }
}
