//! GGUF, one file or a split set: typed values as metadata.

use modelfmt_core::DType::{BF16, F16, F32, F64, I8, I16, I32, I64};

use super::Format;
use super::capabilities::{Access, Alignments, Blocks, Capabilities, Metadata, Names, Properties, SetNaming};
use super::entry::{Detection, Entry, format_fns};
use modelfmt_rules::wording::Choice;

pub(super) static GGUF: Entry = Entry {
    name: "gguf",
    feature: "gguf",
    detection: Detection::Magic(b"GGUF"),
    ending: Some(".gguf"),
    sharded: Some(Format::GgufSharded),
    is_set: false,
    versions: &[],
    capabilities: CAPABILITIES,
    choices: &[
        Choice::ShardSize,
        Choice::Shards,
        Choice::Align,
        Choice::Stringify,
        Choice::Reserve,
        Choice::Map,
        Choice::Base,
        Choice::Pre,
    ],
    fns: format_fns!("gguf", write: super::entry::Write::File(on::write), common_metadata: Some(on::common_metadata), plain: Some(on::plain), value: Some(on::value), edit: Some(on::edit), retyped: Some(on::retyped)),
};

pub(super) static GGUF_SHARDED: Entry = Entry {
    name: "gguf-sharded",
    feature: "gguf",
    // A file of a split begins like any other; only its metadata says that it is part of a split.
    detection: Detection::Opening,
    ending: None,
    sharded: None,
    is_set: true,
    versions: &[],
    capabilities: Capabilities {
        format: Format::GgufSharded,
        properties: Properties { set_naming: SetNaming::Numbered, ..CAPABILITIES.properties },
        ..CAPABILITIES
    },
    choices: &[
        Choice::ShardSize,
        Choice::Shards,
        Choice::Align,
        Choice::Stringify,
        Choice::Reserve,
        Choice::Map,
        Choice::Base,
        Choice::Pre,
    ],
    fns: format_fns!("gguf", write: super::entry::Write::Set(on::plan_set), first_file: Some(on::first_file), common_metadata: Some(on::common_metadata), plain: Some(on::plain), value: Some(on::value), edit_set: Some(on::EDIT_SET)),
};

const CAPABILITIES: Capabilities = Capabilities {
    format: Format::Gguf,
    numbers: &[I8, I16, I32, I64, F16, BF16, F32, F64],
    blocks: Blocks::All,
    complex: false,
    packed: false,
    min_rank: 0,
    max_rank: 4,
    names: Names::UpTo63Bytes,
    declared: false,
    quants: false,
    metadata: Metadata::TypedLists,
    access: Access::ReadWrite,
    properties: Properties {
        alignments: Alignments::PowersOfTwo,
        ends_with_values: true,
        ..Properties::NONE
    },
};

#[cfg(feature = "gguf")]
mod on {

    use modelfmt_core::author::Shortened;
    use modelfmt_core::source::{BoxSource, SharedFiles};
    use modelfmt_core::value::{Object, Value};
    use modelfmt_core::{AnyError, Execution, Part};
    use modelfmt_gguf::{
        MetaValue, Metadata, PADDING, Plan, Reader, SetPlan, SetReader, WriteError, WriteOptions,
    };
    use modelfmt_write::edit::NewFile;
    use modelfmt_write::{AnyNewFiles, Sink, TensorData};

    use crate::formats::Format;
    use crate::formats::capabilities::Capabilities;
    use crate::formats::change::{Change, EditFault, NewValue};
    use crate::formats::common_metadata::{CommonMetadata, ValueTypes, text};
    use crate::formats::entry::{AnyReader, EditSet, Job, JobError, reader_of};
    use crate::formats::set_plan::{self, set_plan};

    /// Reads the keys, and what their plain values do not show: types, bits and order.
    pub(super) fn common_metadata(opened: &dyn AnyReader) -> Result<CommonMetadata, AnyError> {
        let mut common = CommonMetadata::keys_of(opened)?;
        let file = reader_of::<Reader<BoxSource>>(opened).map(|reader| reader.metadata()).transpose()?;
        let set = reader_of::<SetReader<SharedFiles>>(opened);
        let of_set = set.map(|reader| reader.metadata()).transpose()?;
        let metadata = file.or(of_set);
        for key in metadata.into_iter().flat_map(Metadata::replaced_text) {
            common.lose(key, "has text that is not UTF-8, where U+FFFD replaces invalid bytes");
        }
        // Keys of later files of a split are lost: the metadata of the model is in the first file.
        for (number, key) in set.into_iter().flat_map(|set| set.index().foreign_keys()) {
            let why = format!(
                "file {number} of the split says it, and the metadata of the model is that of the first"
            );
            common.lose(key, why);
        }
        let mut types = metadata.map(types).unwrap_or_default();
        // This key is only padding in the file.
        common.keys.remove(PADDING);
        types.types.remove(PADDING);
        types.keys.retain(|key| key != PADDING);
        common.types = Some(types);
        (common.name, common.architecture) =
            (text(&common.keys, "general.name"), text(&common.keys, "general.architecture"));
        Ok(common)
    }

    fn types(metadata: &Metadata) -> ValueTypes {
        let modelfmt_gguf::Hints { types, stored } = metadata.hints();
        // The order is kept because containers sort keys, or move some of them.
        let says_more = metadata.len() > 1 || metadata.keys().any(|key| !key.is_ascii());
        let keys = if says_more { metadata.keys().map(str::to_owned).collect() } else { Vec::new() };
        ValueTypes { types, stored, keys }
    }

    /// Returns the plain value of a value that is stored bit for bit.
    pub(super) fn plain(stored: &Value) -> Option<Value> {
        let tree = Object::from_iter([("stored", stored.clone())]);
        let mut metadata = Metadata::new();
        metadata.push_tree("", &tree.into()).ok()?;
        Some(metadata.get("")?.to_value())
    }

    pub(super) fn write(
        job: &Job<'_>,
        data: &dyn TensorData,
        sink: &dyn Sink,
        work: &Execution<'_>,
    ) -> Result<(), JobError> {
        let plan = Plan::new(job.specs(), &metadata(job)?, &options(job));
        Ok(plan.and_then(|plan| plan.write(data, sink, work))?)
    }

    set_plan!(
        SetPlan,
        |plan| plan.head().path,
        |plan: &SetPlan,
         parts: &[_],
         data: &dyn TensorData,
         files: &dyn AnyNewFiles,
         work: &Execution<'_>| { plan.finish(parts, data, &files, work) },
        last: |plan| plan.head().tensors
    );

    /// Plans a split whose first file has this name.
    pub(super) fn plan_set(job: &Job<'_>, first: &str) -> Result<Box<dyn set_plan::SetPlan>, JobError> {
        let split = modelfmt_gguf::SplitName::parse(first).map(|name| name.stem);
        let stem = split.unwrap_or_else(|| first.strip_suffix(".gguf").unwrap_or(first));
        Ok(Box::new(plan(job, stem)?))
    }

    /// Returns the name of the first file, which contains the number of files.
    pub(super) fn first_file(job: &Job<'_>, stem: &str) -> Result<String, JobError> {
        let plan = plan(job, stem)?;
        Ok(plan.shards().next().map_or(stem, |(name, _)| name).to_owned())
    }

    fn plan(job: &Job<'_>, stem: &str) -> Result<SetPlan, JobError> {
        let options = match job.options.output.shard_size {
            Some(nbytes) => options(job).shard_size(nbytes),
            None => options(job),
        };
        Ok(SetPlan::new(stem, job.specs(), &metadata(job)?, &options)?)
    }

    fn options(job: &Job<'_>) -> WriteOptions {
        // Keys that are not ASCII were checked before, by their origin.
        let options = WriteOptions::new().utf8_keys(true);
        match job.options.output.align {
            Some(align) => options.alignment(align),
            None => options,
        }
    }

    fn metadata(job: &Job<'_>) -> Result<Metadata, WriteError> {
        let mut metadata = Metadata::new();
        for (key, tree) in &job.metadata.keys {
            let pushed = metadata.push_tree(key, tree);
            pushed.map_err(|fault| WriteError::unsupported(Part::named("metadata key", key), fault))?;
        }
        if let Some(nbytes) = job.options.output.reserve.filter(|_| metadata.get(PADDING).is_none()) {
            let spaces = " ".repeat(usize::try_from(nbytes).unwrap_or_default());
            let pushed = metadata.push(PADDING, MetaValue::String(&spaces));
            pushed.map_err(|fault| WriteError::unsupported(Part::named("metadata key", PADDING), fault))?;
        }
        Ok(metadata)
    }

    /// Returns the value if GGUF can hold it under that key, or else the reason why not.
    pub(super) fn value(target: &Capabilities, key: &str, tree: Value) -> Result<Value, String> {
        let is_split = target.format == Format::GgufSharded;
        if is_split && matches!(key, "split.no" | "split.count" | "split.tensors.count") {
            return Err(SPLIT.to_owned());
        }
        let mut metadata = Metadata::new();
        metadata.push_tree(key, &tree).map_err(|error| error.to_string())?;
        match (key, metadata.get(key)) {
            ("split.count", Some(count)) if !matches!(count.as_u64(), Some(0 | 1)) => Err(SPLIT.to_owned()),
            ("general.alignment", Some(MetaValue::U32(align))) if !align.is_power_of_two() => {
                Err(format!("an alignment is a power of two, not {align}"))
            }
            ("general.alignment", Some(other)) if other.value_type() != modelfmt_gguf::ValueType::U32 => {
                Err("an alignment is a u32".to_owned())
            }
            _ => Ok(tree),
        }
    }

    const SPLIT: &str = "the files of a split say there which of them they are";

    pub(super) const EDIT_SET: EditSet =
        EditSet { file: Format::Gguf, first_has_metadata: true, index: None, digest: None };

    /// Applies an edit of metadata and names, and returns the new file.
    pub(super) fn edit(opened: &dyn AnyReader, change: &Change<'_>) -> Result<NewFile, EditFault> {
        let Some(reader) = reader_of::<Reader<BoxSource>>(opened) else { return Err(EditFault::unopened()) };
        let index = reader.index();
        if !change.has_metadata() {
            return Ok(index.edit(reader.source(), change.names, None)?);
        }
        let before = index.metadata();
        change.check_unset(before.keys().collect::<Vec<_>>().into_iter())?;
        let (types, mut after) = (before.hints().types, Metadata::new());
        for (key, value) in before.iter().filter(|(key, _)| !change.is_gone(key)) {
            match change.given(key) {
                Some(given) => {
                    let scalar = || Value::from(value.value_type().name());
                    let before = types.get(key).cloned().unwrap_or_else(scalar);
                    push_new(&mut after, key, given, Some(before))?;
                }
                None => after
                    .push(key, value)
                    .map_err(|fault| WriteError::unsupported(Part::named("metadata key", key), fault))
                    .map_err(modelfmt_write::edit::EditError::from)?,
            }
        }
        for (key, given) in change.added(|key| before.get(key).is_some()) {
            push_new(&mut after, key, given, None)?;
        }
        Ok(index.edit(reader.source(), change.names, Some(&after))?)
    }

    /// Returns notes about keys whose values have another type after the edit. Most readers expect one type
    /// only.
    pub(super) fn retyped(before: &dyn AnyReader, after: &dyn AnyReader) -> Vec<String> {
        let reader = reader_of::<Reader<BoxSource>>;
        let Some((before, after)) = reader(before).zip(reader(after)) else { return Vec::new() };
        let after = after.index().metadata();
        let changed = before.index().metadata().iter().filter_map(|(key, value)| {
            let (was, is) = (value.value_type().name(), after.get(key)?.value_type().name());
            let key = Shortened(key);
            (was != is && modelfmt_gguf::llama_type(key.0) != Some(is)).then(|| {
                format!(
                    "metadata key {key:?} had the type {was} and has {is} now; programs may ask for {was}"
                )
            })
        });
        changed.collect()
    }

    /// Adds a value with the type that llama.cpp expects, or else the old type of its key, or else the first
    /// type that can hold it.
    fn push_new(
        metadata: &mut Metadata,
        key: &str,
        given: &NewValue,
        before: Option<Value>,
    ) -> Result<(), EditFault> {
        let value = given.to_value();
        let known = modelfmt_gguf::llama_type(key).map(Value::from);
        for name in [known, before].into_iter().flatten() {
            let typed = Object::from_iter([("type", name), ("value", value.clone())]);
            if metadata.push_tree(key, &typed.into()).is_ok() {
                return Ok(());
            }
        }
        let pushed = metadata.push_tree(key, &value);
        pushed.map_err(|error| EditFault::unfit("metadata key", key, error.to_string()))
    }
}
