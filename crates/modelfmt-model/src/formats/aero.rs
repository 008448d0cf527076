//! AERO and AEROSET: a JSON object as metadata, and a manifest that is made anew.

use super::Format;
use super::capabilities::{
    Access, Blocks, Capabilities, EVERY_NUMBER, Metadata, MetadataSchema, Names, PinKind, Properties,
};
use super::entry::{Detection, Entry, IndexJson, Version, format_fns};
use modelfmt_rules::wording::Choice;

pub(super) static AERO: Entry = Entry {
    name: "aero",
    feature: "aero",
    detection: Detection::Magic(b"AERO"),
    ending: Some(".aero"),
    sharded: None,
    is_set: false,
    versions: &[Version::only(&["0.1"])],
    capabilities: CAPABILITIES,
    choices: CHOICES,
    fns: format_fns!(
        "aero",
        open_override: Some(on::open),
        write: super::entry::Write::File(on::write),
        common_metadata: Some(on::common_metadata),
        unreadable: Some(on::unreadable),
        pin: Some(on::pin),
        edit: Some(on::edit), same: Some(on::same)
    ),
};

pub(super) static AEROSET: Entry = Entry {
    name: "aeroset",
    feature: "aero",
    detection: Detection::Index(IndexJson {
        keys: &[],
        name: Some("AEROSET"),
        files: &[("parts", Some("path")), ("global_tidx", Some("path"))],
        endings: &[],
    }),
    ending: Some(".aeroset.json"),
    sharded: None,
    is_set: true,
    versions: &[Version::only(&["0.1"])],
    capabilities: Capabilities {
        format: Format::AeroSet,
        properties: Properties { schema: Some(MetadataSchema::Aero), ..Properties::NONE },
        ..CAPABILITIES
    },
    choices: CHOICES_OF_SET,
    fns: format_fns!(
        "aero",
        open_override: Some(on::open_set),
        write: super::entry::Write::Set(on::plan_set),
        common_metadata: Some(on::common_metadata),
        unreadable: Some(on::unreadable),
        proves_files: true,
        edit_set: Some(on::EDIT_SET)
    ),
};

const CAPABILITIES: Capabilities = Capabilities {
    format: Format::Aero,
    numbers: EVERY_NUMBER,
    blocks: Blocks::All,
    complex: false,
    packed: true,
    min_rank: 0,
    max_rank: 255,
    names: Names::Any,
    declared: false,
    quants: false,
    metadata: Metadata::Json,
    access: Access::ReadWrite,
    properties: Properties {
        schema: Some(MetadataSchema::Aero),
        pin: Some(PinKind::Head),
        shared_values: true,
        ..Properties::NONE
    },
};

const CHOICES: &[Choice] = &[
    Choice::ModelName,
    Choice::Architecture,
    Choice::ModelType,
    Choice::ShardSize,
    Choice::Reserve,
    Choice::ControlHash,
    Choice::PageHashes,
    Choice::TensorHashes,
    Choice::Uuid,
    Choice::NoZstd,
];

/// The choices for a single file, and the number of files.
const CHOICES_OF_SET: &[Choice] = &[
    Choice::ModelName,
    Choice::Architecture,
    Choice::ModelType,
    Choice::ShardSize,
    Choice::Shards,
    Choice::Reserve,
    Choice::ControlHash,
    Choice::PageHashes,
    Choice::TensorHashes,
    Choice::Uuid,
    Choice::NoZstd,
];

#[cfg(feature = "aero")]
mod on {
    use aero::{
        Chunk, Error, FileProofs, FourCC, Index, NewChunk, Plan, Reader, ReaderExt as _, SetPlan, SetReader,
        SetReaderExt as _, VerifiedFiles, WriteOptions,
    };
    use std::collections::HashSet;

    use modelfmt_core::author::now;
    use modelfmt_core::source::{BoxSource, SharedFiles, shared_files};
    use modelfmt_core::value::{Object, Value};
    use modelfmt_core::{AnyError, DType, Execution, OpenFile, Source};
    use modelfmt_write::edit::NewFile;
    use modelfmt_write::{AnyNewFiles, Sink, TensorData};

    use crate::formats::Format;
    use crate::formats::change::{Change, EditFault, NewValue};
    use crate::formats::common_metadata::{CommonMetadata, text};
    use crate::formats::entry::{AnyReader, EditSet, Job, JobError, ToOpen, reader_of};
    use crate::formats::merged::readers;
    use crate::formats::open_any::OpenAny;
    use crate::formats::own_options;
    use crate::formats::set_index_edit::{IndexChange, each};
    use crate::formats::set_plan::{self, set_plan};
    use crate::job::tensors::Origin;
    use modelfmt_rules::options::ConvertOptions;
    use modelfmt_rules::pin::Pin;
    use modelfmt_rules::wording::unsupported::Unsupported;

    /// Opens one file.
    pub(super) fn open(opened: ToOpen<'_>) -> Result<OpenAny<SharedFiles>, AnyError> {
        let Some(Pin::Aero(hash)) = opened.options.pin else {
            return OpenAny::open_now(Format::Aero, opened);
        };
        let reader = aero::open_pinned(opened.source, hash, &own_options::<Index>(opened.options))?;
        let index = std::sync::Arc::clone(reader.index());
        let source: BoxSource = Box::new(reader.into_source());
        Ok(OpenAny::Aero(OpenFile::with_index(index, source)?))
    }

    /// Opens a set by its index.
    pub(super) fn open_set(mut opened: ToOpen<'_>) -> Result<OpenAny<SharedFiles>, AnyError> {
        if opened.options.pin.is_some() {
            // The index is read through its proof; its hashes prove the other files.
            let options = own_options::<Index>(opened.options);
            let proofs = now(FileProofs::read(&opened.source, options.settings().limits_ref()))?;
            opened.files = shared_files(VerifiedFiles::new(proofs, opened.files));
        }
        OpenAny::open_now(Format::AeroSet, opened)
    }

    /// Returns the reader of an AERO file, if the source is one.
    fn file(source: &dyn AnyReader) -> Option<&Reader<BoxSource>> {
        reader_of(source)
    }

    /// Returns the pin that proves all bytes of a file.
    pub(super) fn pin(opened: &dyn AnyReader) -> Result<Option<Pin>, AnyError> {
        let Some(reader) = file(opened) else { return Ok(None) };
        Ok(reader.pin()?.map(Pin::Aero))
    }

    /// Returns the reader of an AEROSET, if the source is one.
    fn set(source: &dyn AnyReader) -> Option<&SetReader<SharedFiles>> {
        reader_of(source)
    }

    pub(super) fn write(
        job: &Job<'_>,
        data: &dyn TensorData,
        sink: &dyn Sink,
        work: &Execution<'_>,
    ) -> Result<(), JobError> {
        let mut options = carry(job, options(job))?;
        if let Some(nbytes) = job.options.output.shard_size {
            options = options.shard_size(nbytes);
        }
        for (&tensor, &of) in job.tied {
            if let Some((tensor, of)) = job.name(tensor).zip(job.name(of)) {
                options = options.tie(tensor, of);
            }
        }
        let plan = Plan::new(job.specs(), &job.metadata.keys, &options);
        Ok(plan.and_then(|plan| plan.write(data, sink, work))?)
    }

    set_plan!(
        SetPlan,
        |plan| plan.index_name().to_owned(),
        |plan: &SetPlan, parts: &[_], _: &dyn TensorData, files: &dyn AnyNewFiles, work: &Execution<'_>| {
            plan.finish(parts, &files, work)
        }
    );

    /// Plans a set whose index has this name.
    pub(super) fn plan_set(job: &Job<'_>, name: &str) -> Result<Box<dyn set_plan::SetPlan>, JobError> {
        let mut options = carry(job, options(job))?;
        if let Some(nbytes) = job.options.output.shard_size {
            options = options.part_size(nbytes);
        }
        if let Some(set) = job.source.and_then(set) {
            options = options.delivery(set.index().base_url(), set.index().cache().cloned());
        }
        Ok(Box::new(SetPlan::new(name, job.specs(), &job.metadata.keys, &options)?))
    }

    /// Returns the index of an AERO file or set, if the source is one.
    fn index_of(source: &dyn AnyReader) -> Option<&Index> {
        let index = file(source).map(|reader| &**reader.index());
        index.or_else(|| set(source).and_then(|set| set.index().tensors()).map(|index| &**index))
    }

    /// Returns the `quant_params` of a tensor, if they say more than a ggml type.
    fn own_params(index: &Index, position: usize, dtype: DType) -> Option<Object> {
        let Some(Value::Object(params)) = index.quant_params(position) else { return None };
        let is_usual = dtype.is_quantized() && params.len() == 1 && params.contains_key("ggml_type");
        (!is_usual).then_some(params)
    }

    /// Copies the parts that only AERO can hold: in the descriptions of tensors, in the index and in chunks
    /// of other kinds. If several sources have the same part, the first source counts.
    fn carry(job: &Job<'_>, mut options: WriteOptions) -> Result<WriteOptions, JobError> {
        let sources: Vec<_> = readers(job.source).collect();
        for item in &job.tensors.items {
            let Origin::Model(position) = item.origin else { continue };
            let next = sources.partition_point(|(first, _)| *first <= position);
            let source = next.checked_sub(1).and_then(|number| sources.get(number));
            let Some((index, first)) = source.and_then(|&(first, source)| Some((index_of(source)?, first)))
            else {
                continue;
            };
            let position = position.saturating_sub(first);
            let Some(tensor) = index.tensors().info(position) else { continue };
            let name = job.tensors.name(job.source, item);
            if item.from == item.to
                && let Some(params) = own_params(index, position, tensor.dtype)
            {
                options = options.quant_params(name, &params)?;
            }
            let flags = index.entry(position).map_or(0, |entry| entry.flags);
            let keys = index.unknown_keys(position)?;
            if flags != 0 || !keys.is_empty() {
                options = options.tensor_keys(name, flags, &keys)?;
            }
        }
        let (mut top, mut known) = (Object::new(), HashSet::new());
        for (_, source) in sources {
            let Some(index) = index_of(source) else { continue };
            for (key, value) in index.unknown_top_keys()? {
                if !top.contains_key(&key) {
                    top.insert(key, value);
                }
            }
            let carried = own_chunks(index).filter(|(_, _, loss)| loss.is_none());
            let carried: Vec<_> = carried
                .filter(|(_, chunk, _)| !known.contains(&(chunk.fourcc, chunk.name.to_owned())))
                .collect();
            for (position, chunk, _) in carried {
                let content = match (file(source), set(source)) {
                    (Some(reader), _) => reader.chunk_at(position),
                    (None, Some(set)) => set.global().and_then(|global| global.chunk_at(position)),
                    (None, None) => continue,
                };
                let content = content?;
                let new = NewChunk::new(chunk.fourcc, chunk.name).with_flags(chunk.flags);
                options = options.chunk(new, content.to_vec());
                known.insert((chunk.fourcc, chunk.name.to_owned()));
            }
        }
        Ok(options.own_keys(&top, job.metadata.manifest.clone())?)
    }

    fn options(job: &Job<'_>) -> WriteOptions {
        let asked = job.options;
        let mut options = WriteOptions::new()
            .control_hash(asked.aero.control_hash)
            .page_hashes(asked.aero.page_hashes)
            .tensor_hashes(asked.aero.tensor_hashes)
            .reserve(asked.output.reserve.unwrap_or_default())
            // The architecture is given for models from APR2, where the key is an object.
            .model(&job.metadata.name, &job.metadata.architecture);
        if let Some(uuid) = asked.aero.uuid {
            options = options.uuid(uuid);
        }
        if asked.aero.no_zstd {
            options = options.zstd(None);
        }
        options
    }

    /// Returns the key that makes readers reverse shapes.
    pub(super) fn unreadable(keys: &Object) -> Vec<(String, String)> {
        let why = "says that shapes are in ggml's order, and they are written in the usual order";
        aero::is_from_gguf(keys).then(|| ("source_format".to_owned(), why.to_owned())).into_iter().collect()
    }

    /// Chunks that a writer makes anew.
    const KNOWN: [FourCC; 6] =
        [FourCC::IHSH, FourCC::MJSN, FourCC::MMSG, FourCC::PHSH, FourCC::TIDX, FourCC::WTSH];

    /// The keys of a manifest that a writer makes anew.
    const MANIFEST: [&str; 5] = ["format", "model", "chunks", "shards", "quant_descriptors"];

    /// Reads the metadata of the chunk MJSN. The manifest is made anew; its other keys are kept for an AERO
    /// target.
    pub(super) fn common_metadata(source: &dyn AnyReader) -> Result<CommonMetadata, AnyError> {
        let mut common = CommonMetadata::default();
        let mut parts = source.metadata()?.into_object();
        common.keys = parts.remove("json").unwrap_or_default().into_object();
        common.shapes_reversed = aero::is_from_gguf(&common.keys);
        common.manifest = parts.remove("manifest").unwrap_or_default().into_object();
        let model = common.manifest.get("model").and_then(Value::as_object).cloned().unwrap_or_default();
        take_names(&mut common, "manifest key", &model);
        if let Some(set) = set(source) {
            take_names(&mut common, CommonMetadata::INDEX_KEY, set.index().model());
            let keys =
                [("base_url", set.index().base_url().is_some()), ("cache", set.index().cache().is_some())];
            for (key, _) in keys.into_iter().filter(|(_, is_there)| *is_there) {
                let why = "only the index of an AEROSET has it";
                common.own_set.push(Unsupported::loss(CommonMetadata::INDEX_KEY, key, why));
            }
        }
        (common.name, common.architecture) = (text(&model, "name"), text(&model, "architecture"));
        common.manifest.retain(|key, _| !MANIFEST.contains(&key));
        for key in common.manifest.keys() {
            let why = "the manifest of an AERO file has it, and no other format has a manifest";
            common.own.push(Unsupported::loss("manifest key", key, why));
        }
        losses(source, &mut common.own, &mut common.losses)?;
        Ok(common)
    }

    /// Takes the name and architecture from a manifest, or from the index of a set, if the keys do not have
    /// them. Other members are lost, because the manifest is made anew from the keys.
    fn take_names(common: &mut CommonMetadata, kind: &'static str, model: &Object) {
        for (inner, value) in model {
            let key = match inner {
                "name" => "model_name",
                "architecture" => "architecture",
                _ => {
                    let why = "it is made again, with name and architecture";
                    common.losses.push(Unsupported::loss(kind, &format!("model.{inner}"), why));
                    continue;
                }
            };
            match common.keys.get(key) {
                None => _ = common.keys.insert(key, value.clone()),
                Some(known) if known == value || known.as_str().is_none() => {}
                Some(_) => {
                    let why = "the JSON metadata says something else, and the manifest is made from that";
                    common.losses.push(Unsupported::loss(kind, &format!("model.{inner}"), why));
                }
            }
        }
    }

    /// Lists the parts of an AERO source that only AERO can hold, and those that are lost with any target.
    fn losses(
        source: &dyn AnyReader,
        own: &mut Vec<Unsupported>,
        losses: &mut Vec<Unsupported>,
    ) -> Result<(), AnyError> {
        if let Some(index) = index_of(source) {
            index_losses(index, own, losses)?;
            for (_, chunk, loss) in own_chunks(index) {
                let (losses, why) = match loss {
                    None => (&mut *own, "only AERO has chunks"),
                    Some(why) => (&mut *losses, why),
                };
                losses.push(chunk_loss(&chunk, why));
            }
        }
        if let Some(set) = set(source) {
            for number in 0..set.index().parts().len() {
                let part = set.part(number)?;
                let why = "it is in a part of the set, and parts are made again";
                losses.extend(own_chunks(part.index()).map(|(_, chunk, _)| chunk_loss(&chunk, why)));
            }
        }
        Ok(())
    }

    fn index_losses(
        index: &Index,
        own: &mut Vec<Unsupported>,
        losses: &mut Vec<Unsupported>,
    ) -> Result<(), Error> {
        for key in index.unknown_top_keys()?.keys() {
            own.push(Unsupported::loss("key of the tensor index", key, "only AERO has such an index"));
        }
        for (position, tensor) in index.tensors().iter().enumerate() {
            let mut lose = |what: String| {
                let why = format!("the tensor index says {what} of it, which only AERO can hold");
                own.push(Unsupported::loss("tensor", tensor.name, why));
            };
            index.unknown_keys(position)?.keys().for_each(|key| lose(format!("{key:?}")));
            let entry = index.entry(position);
            if let Some(flags) = entry.map(|entry| entry.flags).filter(|&flags| flags != 0) {
                lose(format!("flags {flags:#x}"));
            }
            let params = own_params(index, position, tensor.dtype);
            let others = params.iter().flat_map(Object::keys).filter(|key| *key != "ggml_type");
            if tensor.dtype != DType::Packed {
                others.for_each(|key| lose(format!("\"quant_params\" with {key:?}")));
            }
            // A tensor without parameters of its own is described by the manifest, which is made anew.
            let described = entry.is_some_and(|entry| entry.quant_id.is_some());
            if tensor.dtype == DType::Packed && described && params.is_none() {
                let why = "the manifest describes its codec, which is not known and cannot be carried";
                losses.push(Unsupported::loss("tensor", tensor.name, why));
            }
        }
        Ok(())
    }

    /// Returns the chunks of other kinds with their positions. If a chunk is not carried, the third member
    /// says why. Their total length is limited, because chunks are in memory while a file is written.
    fn own_chunks(index: &Index) -> impl Iterator<Item = (usize, Chunk<'_>, Option<&'static str>)> {
        const MAX_LEN: u64 = 64 << 20;
        let mut len = 0u64;
        let others = index.chunks().enumerate().filter(|(_, chunk)| !KNOWN.contains(&chunk.fourcc));
        others.map(move |(position, chunk)| {
            if chunk.is_misnamed() {
                return (
                    position,
                    chunk,
                    Some("it has the name of the control hash, and its type was changed"),
                );
            }
            len = len.saturating_add(chunk.ulen);
            let is_too_large = len > MAX_LEN;
            (position, chunk, is_too_large.then_some("chunks of other kinds are carried up to 64 MiB in all"))
        })
    }

    fn chunk_loss(chunk: &Chunk<'_>, why: &'static str) -> Unsupported {
        Unsupported::loss("chunk", &format!("{} {}", chunk.fourcc, chunk.name), why)
    }

    /// The first file lists all tensors.
    pub(super) const EDIT_SET: EditSet = EditSet {
        file: Format::Aero,
        first_has_metadata: true,
        index: Some(edit_index),
        digest: Some(sha256),
    };

    fn edit_index(index: &mut Object, edit: &IndexChange<'_>) -> Result<(), EditFault> {
        const KEYS: [&str; 3] = ["path", "size_bytes", "sha256"];
        let parts = each(index.get("parts"), |part| edit.restate(part, KEYS))?;
        index.insert("parts", parts);
        if let Some(global) = index.get_mut("global_tidx").and_then(Value::as_object_mut) {
            edit.restate(global, KEYS)?;
        }
        // `model` repeats two keys of the metadata.
        if let Some(model) = index.get_mut("model").and_then(Value::as_object_mut) {
            for (key, own) in [("model_name", "name"), ("architecture", "architecture")] {
                let new = edit.change.given(key).map(NewValue::to_value);
                if let Some(new) = new.filter(|new| new.as_str().is_some())
                    && model.get(own).is_some_and(|old| edit.before.get(key) == Some(old))
                {
                    model.insert(own, new);
                }
            }
        }
        Ok(())
    }

    fn sha256(file: &dyn Source, work: &Execution<'_>) -> std::io::Result<String> {
        let digest = aero::sha256(file, work)?;
        Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Applies an edit of metadata and names, and returns the new file.
    pub(super) fn edit(opened: &dyn AnyReader, change: &Change<'_>) -> Result<NewFile, EditFault> {
        let Some(reader) = reader_of::<Reader<BoxSource>>(opened) else { return Err(EditFault::unopened()) };
        let before = reader.metadata()?;
        let metadata = change.apply(&before, NewValue::to_value)?;
        Ok(reader.index().edit(reader.source(), change.names, metadata.as_ref())?)
    }

    /// Sets the options with which a conversion to AERO keeps the properties of the source.
    pub(super) fn same(opened: &dyn AnyReader, options: &mut ConvertOptions) {
        let Some(reader) = file(opened) else { return };
        let index = reader.index();
        let has = |fourcc| index.chunks().any(|chunk| chunk.fourcc == fourcc);
        options.aero.uuid = Some(index.uuid());
        options.aero.control_hash = has(FourCC::IHSH);

        let entry = |position| index.entry(position);
        let shards = (0..index.tensors().len()).filter_map(entry).map(|entry| entry.shard_id);
        let pages = shards.take(1).filter_map(|shard| reader.page_hashes(shard).ok().flatten());
        options.aero.page_hashes = pages.map(|pages| pages.page_size()).max();
        let mut entries = (0..index.tensors().len()).filter_map(entry);
        options.aero.tensor_hashes = entries.any(|entry| entry.hash_b3.is_some());
        let tidx = index.chunks().find(|chunk| chunk.fourcc == FourCC::TIDX);
        options.aero.no_zstd = tidx.is_some_and(|chunk| !chunk.flags.is_compressed());
    }
}
