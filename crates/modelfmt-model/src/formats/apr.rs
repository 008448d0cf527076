//! APR as aprender writes it: a JSON object as metadata, and an index sorted by name.

use modelfmt_core::DType::{self, AprQ4, AprQ8, BF16, F16, F32, F64, I8, I32, I64, Q4K, Q6K, U8};

use super::Format;
use super::capabilities::{Access, Blocks, Capabilities, Metadata, MetadataSchema, Names, Properties};
use super::entry::{Detection, Entry, format_fns};
use modelfmt_rules::wording::Choice;

pub(super) static APR: Entry = Entry {
    name: "apr",
    feature: "apr",
    detection: Detection::Header(is_header),
    ending: None,
    sharded: None,
    is_set: false,
    versions: &[],
    capabilities: Capabilities {
        format: Format::Apr,
        numbers: NUMBERS,
        blocks: Blocks::Some(BLOCKS),
        complex: false,
        packed: false,
        min_rank: 0,
        max_rank: 8,
        names: Names::UpTo256Bytes,
        declared: false,
        quants: false,
        metadata: Metadata::Json,
        access: Access::ReadWrite,
        properties: Properties { schema: Some(MetadataSchema::Apr), sorted: true, ..Properties::NONE },
    },
    choices: &[Choice::ModelName, Choice::Architecture, Choice::ModelType, Choice::Reserve],
    fns: format_fns!(
        "apr",
        write: super::entry::Write::File(on::write),
        unreadable: Some(on::unreadable),
        edit: Some(on::edit)
    ),
};

pub(super) static APRN: Entry = Entry {
    name: "aprn",
    feature: "apr",
    detection: Detection::Magic(b"APRN"),
    ending: None,
    sharded: None,
    is_set: false,
    versions: &[],
    capabilities: Capabilities {
        format: Format::Aprn,
        numbers: &[],
        blocks: Blocks::None,
        complex: false,
        packed: false,
        min_rank: 0,
        max_rank: 0,
        names: Names::Any,
        declared: false,
        quants: false,
        metadata: Metadata::ReadOnly,
        access: Access::NoTensors(
            "a model of aprender's first generation (APRN) is one structure of a Rust program and has no list of tensors; load it with aprender, and save its weights as safetensors",
        ),
        properties: Properties::NONE,
    },
    choices: &[],
    fns: format_fns!("apr"),
};

const NUMBERS: &[DType] = &[I8, U8, I32, I64, F16, BF16, F32, F64];
const BLOCKS: &[DType] = &[Q4K, Q6K, AprQ4, AprQ8];

/// Checks whether a file begins with the current magic, or with that of aprender 0.20 to 0.24. The latter is
/// also the magic of APR2, but in APR the metadata begins at byte 64 instead of 32.
pub(super) fn is_header(first: &[u8]) -> bool {
    let metadata_offset = first.get(12..).and_then(|rest| rest.first_chunk()).copied();
    first.starts_with(b"APR\0")
        || (first.starts_with(b"APR2\x02\0") && metadata_offset.map(u64::from_le_bytes) == Some(64))
}

#[cfg(feature = "apr")]
mod on {
    use apr::{Flags, Metadata, Plan, WriteOptions};
    use modelfmt_core::Execution;
    use modelfmt_core::source::BoxSource;
    use modelfmt_core::value::Object;
    use modelfmt_write::edit::NewFile;
    use modelfmt_write::{Sink, TensorData};

    use crate::formats::change::{Change, EditFault, NewValue};
    use crate::formats::entry::{AnyReader, Job, JobError, reader_of};
    use crate::formats::merged::readers;

    pub(super) fn write(
        job: &Job<'_>,
        data: &dyn TensorData,
        sink: &dyn Sink,
        work: &Execution<'_>,
    ) -> Result<(), JobError> {
        let metadata = Metadata::from(job.metadata.keys.clone());
        let plan = Plan::new(job.specs(), &metadata, &options(job, &metadata));
        Ok(plan.and_then(|plan| plan.write(data, sink, work))?)
    }

    /// Returns the options. The output keeps the flags that describe the content of the source; a merged
    /// model has the flags of all sources. If no source had a vocabulary and the output has one, its flag is
    /// set.
    fn options(job: &Job<'_>, metadata: &Metadata) -> WriteOptions {
        let sources =
            readers(job.source).filter_map(|(_, source)| reader_of::<apr::Reader<BoxSource>>(source));
        let (mut flags, mut had_vocabulary) = (Flags::empty(), false);
        for source in sources {
            flags = flags.with(source.index().flags());
            had_vocabulary |= source.index().metadata().has_vocabulary();
        }
        if metadata.has_vocabulary() && !had_vocabulary {
            flags = flags.with(Flags::HAS_VOCAB);
        }
        WriteOptions::new().flags(flags).reserve(job.options.output.reserve.unwrap_or_default())
    }

    /// Returns the keys that would keep aprender's tools from reading any of the metadata.
    pub(super) fn unreadable(keys: &Object) -> Vec<(String, String)> {
        let metadata = Metadata::from(keys.clone());
        metadata.unreadable_keys().map(|(key, fault)| (key.to_owned(), fault.to_string())).collect()
    }

    /// Applies an edit of metadata and names, and returns the new file.
    pub(super) fn edit(opened: &dyn AnyReader, change: &Change<'_>) -> Result<NewFile, EditFault> {
        let Some(reader) = reader_of::<apr::Reader<BoxSource>>(opened) else {
            return Err(EditFault::unopened());
        };
        let index = reader.index();
        let metadata = change.apply(index.metadata().object(), NewValue::to_value)?.map(Metadata::from);
        Ok(index.edit(reader.source(), change.names, metadata.as_ref())?)
    }
}
