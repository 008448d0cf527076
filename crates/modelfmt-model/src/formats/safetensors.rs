//! safetensors, one file or several: strings as metadata.

use modelfmt_core::DType;

use super::Format;
use super::capabilities::{Access, Blocks, Capabilities, Metadata, Names, Properties, SetNaming};
use super::entry::{Detection, Entry, IndexJson, format_fns};
use modelfmt_rules::wording::Choice;

pub(super) static SAFETENSORS: Entry = Entry {
    name: "safetensors",
    feature: "safetensors",
    detection: Detection::FirstBytes(is_header),
    ending: Some(".safetensors"),
    sharded: Some(Format::SafetensorsSharded),
    is_set: false,
    versions: &[],
    capabilities: CAPABILITIES,
    choices: &[Choice::ShardSize, Choice::Shards, Choice::Stringify, Choice::Reserve],
    fns: format_fns!("safetensors", write: super::entry::Write::File(on::write), edit: Some(on::edit)),
};

pub(super) static SAFETENSORS_SHARDED: Entry = Entry {
    name: "safetensors-sharded",
    feature: "safetensors",
    detection: Detection::Index(IndexJson {
        keys: &["weight_map"],
        name: None,
        files: &[("weight_map", None)],
        endings: &[],
    }),
    ending: Some(".safetensors.index.json"),
    sharded: None,
    is_set: true,
    versions: &[],
    capabilities: Capabilities {
        format: Format::SafetensorsSharded,
        metadata: Metadata::Index,
        properties: Properties {
            set_naming: SetNaming::Ending(".safetensors.index.json", ".safetensors"),
            ..Properties::NONE
        },
        ..CAPABILITIES
    },
    choices: &[Choice::ShardSize, Choice::Shards, Choice::Reserve],
    fns: format_fns!("safetensors", write: super::entry::Write::Set(on::plan_set), common_metadata: Some(on::common_metadata), edit_set: Some(on::EDIT_SET)),
};

/// Every dtype of numbers except packed integers.
const NUMBERS: &[DType] = &[
    DType::Bool,
    DType::I8,
    DType::U8,
    DType::I16,
    DType::U16,
    DType::I32,
    DType::U32,
    DType::I64,
    DType::U64,
    DType::F16,
    DType::BF16,
    DType::F32,
    DType::F64,
    DType::F8E4M3,
    DType::F8E5M2,
    DType::F8E8M0,
    DType::F8E4M3Fnuz,
    DType::F8E5M2Fnuz,
    DType::F6E2M3,
    DType::F6E3M2,
    DType::F4,
];

const CAPABILITIES: Capabilities = Capabilities {
    format: Format::Safetensors,
    numbers: NUMBERS,
    blocks: Blocks::None,
    complex: true,
    packed: false,
    min_rank: 0,
    max_rank: 255,
    names: Names::AnyBut("__metadata__"),
    declared: false,
    quants: false,
    metadata: Metadata::Strings,
    access: Access::ReadWrite,
    properties: Properties::NONE,
};

/// Checks the first bytes. The format has no magic: a file begins with the length of a header, and this
/// header is within the file and begins with `{`.
fn is_header(first: &[u8], file_len: u64) -> bool {
    let Some(&len) = first.first_chunk() else { return false };
    let len = u64::from_le_bytes(len);
    let is_within = len.checked_add(8).is_some_and(|end| end <= file_len);
    is_within && len >= 2 && first.get(8) == Some(&b'{')
}

#[cfg(feature = "safetensors")]
mod on {
    use modelfmt_core::source::{BoxSource, SharedFiles};
    use modelfmt_core::value::{Object, Value};
    use modelfmt_core::{AnyError, Execution};
    use modelfmt_safetensors::{Plan, SetPlan, SetReader, WriteOptions};
    use modelfmt_write::edit::NewFile;
    use modelfmt_write::{AnyNewFiles, Sink, TensorData};

    use crate::formats::Format;
    use crate::formats::change::{Change, EditFault, NewValue};
    use crate::formats::common_metadata::CommonMetadata;
    use crate::formats::entry::{AnyReader, EditSet, Job, JobError, reader_of};
    use crate::formats::set_index_edit::IndexChange;
    use crate::formats::set_plan::{self, set_plan};
    use modelfmt_rules::wording::unsupported::Unsupported;

    pub(super) fn write(
        job: &Job<'_>,
        data: &dyn TensorData,
        sink: &dyn Sink,
        work: &Execution<'_>,
    ) -> Result<(), JobError> {
        let plan = Plan::new(job.specs(), metadata(job), &options(job));
        Ok(plan.and_then(|plan| plan.write(data, sink, work))?)
    }

    set_plan!(
        SetPlan,
        |plan| plan.index_name().to_owned(),
        |plan: &SetPlan, parts: &[_], _: &dyn TensorData, files: &dyn AnyNewFiles, _: &Execution<'_>| {
            plan.finish(parts, &files)
        }
    );

    /// Plans a set whose index has this name.
    pub(super) fn plan_set(job: &Job<'_>, name: &str) -> Result<Box<dyn set_plan::SetPlan>, JobError> {
        let options = options(job).file_metadata(job.metadata.files.clone());
        let options = match job.options.output.shard_size {
            Some(nbytes) => options.shard_size(nbytes),
            None => options,
        };
        let stem = name.strip_suffix(".safetensors.index.json").unwrap_or(name);
        Ok(Box::new(SetPlan::new(stem, job.specs(), metadata(job), &options)?))
    }

    /// Reads the metadata of the index, and keys that only the files have. `total_size` describes the layout
    /// and is not carried.
    pub(super) fn common_metadata(opened: &dyn AnyReader) -> Result<CommonMetadata, AnyError> {
        let mut common = CommonMetadata::keys_of(opened)?;
        let Some(set) = reader_of::<SetReader<SharedFiles>>(opened) else { return Ok(common) };
        for key in set.index().unknown_keys() {
            let why = "only the metadata of the index is carried over";
            common.losses.push(Unsupported::loss(CommonMetadata::INDEX_KEY, key, why));
        }
        let mut files = Vec::new();
        for (number, file) in set.index().files().iter().enumerate() {
            let shard = set.shard(number)?;
            for (key, value) in shard.index().metadata().into_iter().flatten() {
                // The value in the first file counts; a different value in a later file is a loss.
                match common.keys.get(key) {
                    None => {
                        common.keys.insert(key, value.clone());
                        files.push(key.to_owned());
                    }
                    Some(known) if known == value => {}
                    Some(_) => {
                        common.lose(key, format!("{file:?} has another value than an earlier file"));
                    }
                }
            }
        }
        common.files = Some(files);
        Ok(common)
    }

    fn options(job: &Job<'_>) -> WriteOptions {
        WriteOptions::new().reserve(job.options.output.reserve.unwrap_or_default())
    }

    /// Returns the metadata of the output; `None` instead of an empty `__metadata__`.
    fn metadata<'c>(job: &'c Job<'_>) -> Option<&'c Object> {
        Some(&job.metadata.keys).filter(|keys| !keys.is_empty())
    }

    /// The files also contain the strings of the metadata, if their writer put them there.
    pub(super) const EDIT_SET: EditSet = EditSet {
        file: Format::Safetensors,
        first_has_metadata: false,
        index: Some(edit_index),
        digest: None,
    };

    fn edit_index(index: &mut Object, edit: &IndexChange<'_>) -> Result<(), EditFault> {
        let none = Object::new();
        let before = index.get("metadata").and_then(Value::as_object).unwrap_or(&none);
        if let Some(metadata) = edit.change.apply(before, NewValue::to_value)? {
            index.insert("metadata", metadata);
        }
        if let Some(map) = index.get_mut("weight_map").and_then(Value::as_object_mut) {
            edit.rename(map);
        }
        Ok(())
    }

    /// Applies an edit of metadata and names, and returns the new file.
    pub(super) fn edit(opened: &dyn AnyReader, change: &Change<'_>) -> Result<NewFile, EditFault> {
        let Some(reader) = reader_of::<modelfmt_safetensors::Reader<BoxSource>>(opened) else {
            return Err(EditFault::unopened());
        };
        let index = reader.index();
        let none = Object::new();
        let metadata = change.apply(index.metadata().unwrap_or(&none), NewValue::to_text)?;
        Ok(index.edit(reader.source(), change.names, metadata.as_ref())?)
    }
}
