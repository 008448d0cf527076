//! APR2, one file or several: a JSON object as metadata.

use modelfmt_core::DType::{self, BF16, F16, F32, I8, I16, I32, I64, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, U8};

use super::Format;
use super::capabilities::{
    Access, Alignments, Blocks, Capabilities, Metadata, MetadataSchema, Names, PinKind, Properties,
};
use super::entry::{Detection, Entry, IndexJson, Version, format_fns};
use modelfmt_rules::wording::Choice;

pub(super) static APR2: Entry = Entry {
    name: "apr2",
    feature: "apr2",
    detection: Detection::Header(|first| first.starts_with(b"APR2") && !super::apr::is_header(first)),
    ending: Some(".apr"),
    sharded: Some(Format::Apr2Sharded),
    is_set: false,
    versions: VERSIONS,
    capabilities: CAPABILITIES,
    choices: CHOICES,
    fns: format_fns!("apr2", write: super::entry::Write::File(on::write), edit: Some(on::edit), same: Some(on::same), pin: Some(on::pin), sealing: Some(on::sealing)),
};

pub(super) static APR2_SHARDED: Entry = Entry {
    name: "apr2-sharded",
    feature: "apr2",
    detection: Detection::Index(IndexJson {
        keys: &["apr_version", "shards"],
        name: None,
        files: &[("shards", Some("file"))],
        endings: &[],
    }),
    ending: None,
    sharded: None,
    is_set: true,
    versions: VERSIONS,
    capabilities: Capabilities { format: Format::Apr2Sharded, ..CAPABILITIES },
    choices: CHOICES,
    fns: format_fns!(
        "apr2",
        write: super::entry::Write::Set(on::plan_set),
        common_metadata: Some(on::common_metadata_of_set),
        pin: Some(on::pin),
        sealing: Some(on::sealing),
        same: Some(on::same),
        edit_set: Some(on::EDIT_SET)
    ),
};

pub(super) static APR1: Entry = Entry {
    name: "apr1",
    feature: "apr2",
    detection: Detection::Magic(b"APR1"),
    ending: None,
    sharded: None,
    is_set: false,
    versions: &[],
    capabilities: Capabilities {
        format: Format::Apr1,
        blocks: Blocks::None,
        access: Access::ReadOnly(Some("apr2 is what follows it")),
        properties: Properties { schema: Some(MetadataSchema::Apr2), ..Properties::NONE },
        ..CAPABILITIES
    },
    choices: &[],
    fns: format_fns!("apr2"),
};

const VERSIONS: &[Version] = &[Version::only(&["2.0", "2"])];
const CAPABILITIES: Capabilities = Capabilities {
    format: Format::Apr2,
    numbers: NUMBERS,
    blocks: Blocks::Some(BLOCKS),
    complex: false,
    packed: false,
    min_rank: 1,
    max_rank: 8,
    names: Names::UpTo65535Bytes,
    declared: false,
    quants: false,
    metadata: Metadata::Json,
    access: Access::ReadWrite,
    properties: Properties {
        schema: Some(MetadataSchema::Apr2),
        embedded_signatures: true,
        pin: Some(PinKind::Statement),
        alignments: Alignments::Of32And64,
        ..Properties::NONE
    },
};
const NUMBERS: &[DType] = &[I8, U8, I16, I32, I64, F16, BF16, F32];
const BLOCKS: &[DType] = &[Q8_0, Q4_0, Q4_1, Q5_0, Q5_1];

const CHOICES: &[Choice] = &[
    Choice::ModelName,
    Choice::Architecture,
    Choice::ModelType,
    Choice::ShardSize,
    Choice::Shards,
    Choice::Compress,
    Choice::Align,
    Choice::Reserve,
    Choice::Seal,
    Choice::Sign,
];

#[cfg(feature = "apr2")]
mod on {
    use modelfmt_core::source::{BoxSource, SharedFiles};
    use modelfmt_core::value::{Object, Value};
    use modelfmt_core::{AnyError, Execution, Source};
    use modelfmt_write::edit::NewFile;
    use modelfmt_write::{AnyNewFiles, Sink, TensorData};
    #[cfg(feature = "seal")]
    use modelfmt_write::{AnyWriteError, SetPart, WrittenPart, no_part};

    use crate::apr2::{self, Alignment, Flags, Metadata, Plan, SetPlan, WriteOptions};
    use crate::formats::Format;
    use crate::formats::change::{Change, EditFault, NewValue};
    use crate::formats::common_metadata::CommonMetadata;
    use crate::formats::entry::{AnyReader, EditSet, Job, JobError, Sealing, reader_of};
    use crate::formats::merged::readers;
    use crate::formats::set_index_edit::{IndexChange, each, unchangeable};
    use crate::formats::set_plan::{self, set_plan};
    use modelfmt_rules::options::Compression;
    use modelfmt_rules::options::ConvertOptions;
    use modelfmt_rules::pin::Pin;

    pub(super) fn write(
        job: &Job<'_>,
        data: &dyn TensorData,
        sink: &dyn Sink,
        work: &Execution<'_>,
    ) -> Result<(), JobError> {
        let plan = Plan::new(job.specs(), &metadata(job), &options(job))?;
        #[cfg(feature = "seal")]
        if let Some(seal) = &job.options.apr2.seal {
            return Ok(seal.write(&plan, data, sink, work).map(|_| ())?);
        }
        Ok(plan.write(data, sink, work)?)
    }

    /// Reads the metadata of the first shard. The other shards repeat the keys that every file of the format
    /// needs. Any other keys in them are lost.
    pub(super) fn common_metadata_of_set(opened: &dyn AnyReader) -> Result<CommonMetadata, AnyError> {
        let mut common = CommonMetadata::keys_of(opened)?;
        let Some(set) = reader_of::<apr2::SetReader<SharedFiles>>(opened) else { return Ok(common) };
        for (number, listed) in set.index().shards().enumerate().skip(1) {
            let shard = set.shard(number)?;
            for (key, value) in shard.index().metadata().object() {
                if common.keys.get(key) != Some(value) {
                    let file = listed.path;
                    let why =
                        format!("{file:?} says it, and the metadata of a set is that of its first file");
                    common.lose(key, why);
                }
            }
        }
        Ok(common)
    }

    set_plan!(
        SetPlan,
        |plan| plan.manifest_name().to_owned(),
        |plan: &SetPlan, parts: &[_], _: &dyn TensorData, files: &dyn AnyNewFiles, _: &Execution<'_>| {
            plan.finish(parts, &files)
        }
    );

    /// A sealed set. Its parts share a key that is made while the set is written, so no part can be written alone.
    #[cfg(feature = "seal")]
    struct Sealed {
        plan: SetPlan,
        seal: apr2::seal::SealOptions,
    }

    #[cfg(feature = "seal")]
    impl set_plan::SetPlan for Sealed {
        fn index_name(&self) -> String {
            self.plan.manifest_name().to_owned()
        }

        fn parts(&self) -> Vec<SetPart> {
            Vec::new()
        }

        fn write(
            &self,
            data: &dyn TensorData,
            files: &dyn AnyNewFiles,
            work: &Execution<'_>,
        ) -> Result<(), AnyWriteError> {
            Ok(self.seal.write_set(&self.plan, data, &files, work)?)
        }

        fn write_part(
            &self,
            number: usize,
            _: &dyn TensorData,
            _: &dyn AnyNewFiles,
            _: &Execution<'_>,
        ) -> Result<WrittenPart, AnyWriteError> {
            Err(no_part(self.plan.manifest_name(), number))
        }

        fn finish(
            &self,
            _: &[WrittenPart],
            data: &dyn TensorData,
            files: &dyn AnyNewFiles,
            work: &Execution<'_>,
        ) -> Result<(), AnyWriteError> {
            self.write(data, files, work)
        }
    }

    /// Plans a set whose index has this name.
    pub(super) fn plan_set(job: &Job<'_>, name: &str) -> Result<Box<dyn set_plan::SetPlan>, JobError> {
        let options = options(job);
        let options = match job.options.output.shard_size {
            Some(nbytes) => options.shard_size(nbytes),
            None => options,
        };
        let plan = SetPlan::new(name, job.specs(), &metadata(job), &options)?;
        #[cfg(feature = "seal")]
        if let Some(seal) = &job.options.apr2.seal {
            return Ok(Box::new(Sealed { plan, seal: seal.clone() }));
        }
        Ok(Box::new(plan))
    }

    fn metadata(job: &Job<'_>) -> Metadata {
        job.metadata.keys.clone().into()
    }

    fn options(job: &Job<'_>) -> WriteOptions {
        let alignment = match job.options.output.align {
            Some(32) => Alignment::Bytes32,
            _ => Alignment::Bytes64,
        };
        let compression = match job.options.apr2.compress {
            Some(Compression::Lz4) => apr2::Compression::Lz4,
            Some(Compression::None) | None => apr2::Compression::None,
        };
        // The streaming flag of a source is kept, also in a merged model.
        let mut sources =
            readers(job.source).filter_map(|(_, source)| reader_of::<apr2::Reader<BoxSource>>(source));
        let streaming = sources.any(|reader| reader.index().flags().contains(Flags::STREAMING));
        let reserve = job.options.output.reserve.unwrap_or_default();
        WriteOptions::new()
            .alignment(alignment)
            .compression(compression)
            .streaming(streaming)
            .reserve(reserve)
    }

    pub(super) const EDIT_SET: EditSet = EditSet {
        file: Format::Apr2,
        first_has_metadata: true,
        index: Some(edit_manifest),
        digest: Some(shard_crc),
    };

    fn edit_manifest(manifest: &mut Object, edit: &IndexChange<'_>) -> Result<(), EditFault> {
        if manifest.contains_key("seal") && !edit.files.is_empty() {
            if cfg!(not(feature = "seal")) {
                return Err(unchangeable("it is signed"));
            }
            // The seal signs the files before the edit.
            manifest.remove("seal");
        }
        if let Some(map) = manifest.get_mut("tensor_shard_map").and_then(Value::as_object_mut) {
            edit.rename(map);
        }
        let shards = each(manifest.get("shards"), |shard| edit.restate(shard, ["file", "size", "crc32"]))?;
        manifest.insert("shards", shards);
        if let Some(NewValue::Text(version)) = edit.change.given("apr_version") {
            manifest.insert("apr_version", version.as_str());
        }
        Ok(())
    }

    /// Returns the CRC of a whole shard, which depends on its length alone.
    fn shard_crc(shard: &dyn Source, _: &Execution<'_>) -> std::io::Result<String> {
        Ok(format!("{:08x}", apr2::shard_crc(shard.len())))
    }

    /// Applies an edit of metadata and names, and returns the new file.
    pub(super) fn edit(opened: &dyn AnyReader, change: &Change<'_>) -> Result<NewFile, EditFault> {
        let Some(reader) = reader_of::<apr2::Reader<BoxSource>>(opened) else {
            return Err(EditFault::unopened());
        };
        let index = reader.index();
        let metadata = change.apply(index.metadata().object(), NewValue::to_value)?.map(Metadata::from);
        Ok(index.edit(reader.source(), change.names, metadata.as_ref())?)
    }

    /// Returns the pin of a sealed file or set: its statement.
    pub(super) fn pin(opened: &dyn AnyReader) -> Result<Option<Pin>, AnyError> {
        #[cfg(feature = "seal")]
        {
            let of_file = reader_of::<apr2::Reader<BoxSource>>(opened);
            let of_file = of_file.and_then(|reader| reader.index().seal()).map(|seal| seal.statement());
            let of_set = || reader_of::<apr2::SetReader<SharedFiles>>(opened)?.index().statement();
            Ok(of_file.or_else(of_set).map(Pin::Seal))
        }
        #[cfg(not(feature = "seal"))]
        {
            let _ = opened;
            Ok(None)
        }
    }

    /// Returns whether a file, or the first shard of a set, is encrypted, and whether the file or the set is
    /// signed. A set is signed as a whole.
    pub(super) fn sealing(opened: &dyn AnyReader) -> Sealing {
        let file = reader_of::<apr2::Reader<BoxSource>>(opened).map(|reader| reader.index());
        let set = reader_of::<apr2::SetReader<SharedFiles>>(opened);
        let shard = set.and_then(|set| set.shard(0).ok());
        let Some(index) = file.or_else(|| shard.map(|shard| shard.index())) else {
            return Sealing::default();
        };
        #[cfg(feature = "seal")]
        let is_signed = match set.map(|set| set.index()).filter(|set| set.statement().is_some()) {
            Some(set) => set.signatures().next().is_some(),
            None => index.seal().is_some_and(|seal| seal.signatures().next().is_some()),
        };
        #[cfg(not(feature = "seal"))]
        let is_signed = false;
        Sealing { is_encrypted: index.flags().contains(Flags::ENCRYPTED), is_signed }
    }

    /// Sets the options with which a conversion to APR2 keeps the properties of the source; for a set, those of its first shard.
    pub(super) fn same(opened: &dyn AnyReader, options: &mut ConvertOptions) {
        let of_file = reader_of::<apr2::Reader<BoxSource>>(opened).map(|reader| reader.index().flags());
        let of_set = || {
            let shard = reader_of::<apr2::SetReader<SharedFiles>>(opened)?.shard(0).ok()?;
            Some(shard.index().flags())
        };
        let Some(flags) = of_file.or_else(of_set) else { return };
        if flags.contains(Flags::COMPRESSED) {
            options.apr2.compress = Some(Compression::Lz4);
        }
        options.output.align = flags.alignment().and_then(|align| align.try_into().ok());
    }
}
