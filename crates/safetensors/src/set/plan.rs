//! Plans a set from the descriptions of its tensors: divides tensors into files, and makes the index's text.

#[cfg(not(target_arch = "wasm32"))]
use std::path::Path;

use modelfmt_core::CommonFault;
use modelfmt_core::source::check_relative;
use modelfmt_core::value::{Object, Value, json};
use modelfmt_core::{Execution, Part};
use modelfmt_write::{
    DataFrom, NewFiles, NewSet, SetPart, TensorData, TensorSpec, WrittenPart, no_part, unfit_parts,
    write_part,
};
#[cfg(not(target_arch = "wasm32"))]
use modelfmt_write::{NewFolder, Overwrite};

use crate::error::{Fault, WriteError};
use crate::layout::{Draft, Plan, WriteOptions};
use crate::wire::push_string;

/// The key in the index for the number of bytes of all tensors.
const TOTAL_SIZE: &str = "total_size";

/// A set to write: files `STEM-00001-of-0000N.safetensors`, and `STEM.safetensors.index.json`.
///
/// Tensors keep their order. A tensor that would make a file larger than [`WriteOptions::shard_size`] begins
/// the next file.
#[derive(Clone, Debug)]
pub struct SetPlan {
    shards: Vec<Shard>,
    index_name: String,
    index: Vec<u8>,
}

#[derive(Clone, Debug)]
struct Shard {
    name: String,
    plan: Plan,
    /// The position in the whole model of the shard's first tensor.
    first: usize,
}

impl SetPlan {
    /// Divides tensors into files, and lays out each file. `metadata` goes into the index, with the number of
    /// bytes of all tensors as `total_size`, which replaces a number under this key, but not a string. The
    /// strings of `metadata` also go into each file, where loaders look for `format`
    /// (docs/formats/safetensors.md#writing-a-set).
    ///
    /// # Errors
    /// [`WriteError::Unsupported`] for the first tensor that the format cannot hold, or a stem that is not a valid file name.
    pub fn new<'a, 'm>(
        stem: &str,
        specs: impl IntoIterator<Item = TensorSpec<'a>>,
        metadata: impl Into<Option<&'m Object>>,
        options: &WriteOptions,
    ) -> Result<Self, WriteError> {
        let metadata = metadata.into();
        check_relative(stem)
            .map_err(|why| WriteError::unsupported(Part::named("stem", stem), Fault::Path(why)))?;
        let mut strings = metadata.map(strings).unwrap_or_default();
        strings.extend(options.file_metadata.clone());
        let strings = Some(strings).filter(|strings| !strings.is_empty());
        let plans = divide(specs, strings.as_ref(), options)?;
        let count = plans.len();
        let mut first = 0_usize;
        let shards = plans.into_iter().enumerate().map(|(number, plan)| {
            let name = format!("{stem}-{:05}-of-{count:05}.safetensors", number.saturating_add(1));
            let shard = Shard { name, first, plan };
            first = shard.plan.tensors().len().saturating_add(first);
            shard
        });
        let shards: Vec<Shard> = shards.collect();
        check_unique(&shards)?;
        let index = index_text(&shards, metadata)?;
        Ok(Self { shards, index_name: format!("{stem}.safetensors.index.json"), index })
    }

    /// Returns the files, each with its name and its plan.
    pub fn shards(&self) -> impl ExactSizeIterator<Item = (&str, &Plan)> {
        self.shards.iter().map(|shard| (shard.name.as_str(), &shard.plan))
    }

    /// Returns the name of the index.
    #[must_use]
    pub fn index_name(&self) -> &str {
        &self.index_name
    }

    /// Returns the total length of all files and the index in bytes.
    #[must_use]
    pub fn total_len(&self) -> u64 {
        let files = self.shards.iter().map(|shard| shard.plan.file_len());
        files.fold(self.index.len() as u64, u64::saturating_add)
    }

    /// Writes the set: all files, then the index. `data` numbers the tensors as they were given to
    /// [`SetPlan::new`].
    ///
    /// # Errors
    /// If a value cannot be read, if a file cannot be written, or if the progress callback stops the work. In
    /// these cases no file appears, unless only the last step fails.
    pub fn write(
        &self,
        data: &dyn TensorData,
        files: &impl NewFiles,
        work: &Execution<'_>,
    ) -> Result<(), WriteError> {
        let names = self.shards.iter().map(|shard| &shard.name);
        let mut set = NewSet::begin(files, &self.index_name, names)?;
        for Shard { name, plan, first } in &self.shards {
            let output = set.create(name)?;
            plan.write(&DataFrom { data, first: *first }, &output, work)?;
            set.done(name, output)?;
        }
        set.commit(&self.index)
    }

    /// Returns the files without the index. Each can be written separately.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = SetPart> + '_ {
        self.shards.iter().map(|shard| SetPart::new(&shard.name, shard.first, shard.plan.tensors().len()))
    }

    /// Writes one file, which appears when it is complete. With the same plan, any process writes the same
    /// bytes as [`write`](Self::write), however often.
    ///
    /// # Errors
    /// If a value cannot be read, if the part cannot be written, or if there is no such part.
    pub fn write_part(
        &self,
        number: usize,
        data: &dyn TensorData,
        files: &impl NewFiles,
        work: &Execution<'_>,
    ) -> Result<WrittenPart, WriteError> {
        let shard = self.shards.get(number).ok_or_else(|| no_part(&self.index_name, number))?;
        write_part(files, &shard.name, false, |output| {
            shard.plan.write(&DataFrom { data, first: shard.first }, output, work)?;
            Ok(WrittenPart { nbytes: shard.plan.file_len(), digests: Vec::new() })
        })
    }

    /// Writes the index after all files are written. `parts` has the results of
    /// [`write_part`](Self::write_part), in order. The parts themselves are not read.
    ///
    /// # Errors
    /// If the index cannot be written, or `parts` do not belong to this plan.
    pub fn finish(&self, parts: &[WrittenPart], files: &impl NewFiles) -> Result<(), WriteError> {
        let lens = self.shards.iter().map(|shard| shard.plan.file_len());
        if !lens.eq(parts.iter().map(|part| part.nbytes)) {
            return Err(unfit_parts(&self.index_name, self.shards.len()));
        }
        NewSet::begin(files, &self.index_name, [""; 0])?.commit(&self.index)
    }

    /// Writes the set into an existing folder.
    ///
    /// # Errors
    /// If a value cannot be read or a file cannot be written, or if a file exists and may not be replaced.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn write_folder(
        &self,
        folder: impl AsRef<Path>,
        overwrite: Overwrite,
        data: &dyn TensorData,
        work: &Execution<'_>,
    ) -> Result<(), WriteError> {
        self.write(data, &NewFolder::new(folder.as_ref(), overwrite), work)
    }
}

/// Returns the entries with string values, which every file can hold.
fn strings(metadata: &Object) -> Object {
    let entries = metadata.iter().filter(|(_, value)| value.as_str().is_some());
    entries.map(|(key, value)| (key.to_owned(), value.clone())).collect()
}

/// Divides the tensors into files, in order.
fn divide<'a>(
    specs: impl IntoIterator<Item = TensorSpec<'a>>,
    metadata: Option<&Object>,
    options: &WriteOptions,
) -> Result<Vec<Plan>, WriteError> {
    let mut plans = Vec::new();
    let mut draft = Draft::new(metadata, 0)?;
    for (number, spec) in specs.into_iter().enumerate() {
        if draft.len() > 0 && draft.file_len_with(&spec) > options.shard_size {
            let full = std::mem::replace(&mut draft, Draft::new(metadata, number)?);
            plans.push(full.finish(options)?);
        }
        draft.push(&spec)?;
    }
    if draft.len() > 0 {
        plans.push(draft.finish(options)?);
    }
    Ok(plans)
}

/// Checks that names are unique across files. Each plan has only checked its own tensors.
fn check_unique(shards: &[Shard]) -> Result<(), WriteError> {
    let mut names = modelfmt_core::author::NameTable::default();
    for tensor in shards.iter().flat_map(|shard| shard.plan.tensors()) {
        let part = Part::entry("tensor", names.len() as u64).with_name(tensor.name);
        names.push(tensor.name).map_err(|error| WriteError::unsupported(part, CommonFault::from(error)))?;
    }
    Ok(())
}

/// Formats the text of the index in its usual layout: indented by two spaces, one line per tensor.
fn index_text(shards: &[Shard], metadata: Option<&Object>) -> Result<Vec<u8>, WriteError> {
    let nbytes = |shard: &Shard| shard.plan.tensors().iter().map(|t| t.nbytes).fold(0, u64::saturating_add);
    let total = shards.iter().map(nbytes).fold(0, u64::saturating_add);
    let mut object = metadata.cloned().unwrap_or_default();
    if object.get(TOTAL_SIZE).is_none_or(|found| !matches!(found, Value::String(_))) {
        object.insert(TOTAL_SIZE, total);
    }
    let unfit = |error: json::JsonError| WriteError::Unsupported {
        part: Part::new("metadata"),
        fault: CommonFault::Metadata(error.to_string()).into(),
    };
    let pretty = json::to_string_pretty(&object).map_err(unfit)?.replace('\n', "\n  ");
    let mut out = format!("{{\n  \"metadata\": {pretty},\n  \"weight_map\": {{").into_bytes();
    let mut separator = "\n    ";
    for shard in shards {
        for tensor in shard.plan.tensors() {
            out.extend_from_slice(separator.as_bytes());
            push_string(&mut out, tensor.name);
            out.extend_from_slice(b": ");
            push_string(&mut out, &shard.name);
            separator = ",\n    ";
        }
    }
    out.extend_from_slice(if shards.is_empty() { b"}\n}\n" } else { b"\n  }\n}\n" });
    Ok(out)
}
