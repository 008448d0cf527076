//! MAG: numbers as metadata.

use modelfmt_core::DType::{self, BF16, Bool, F8E4M3, F16, F32, I8, I16, I32, I64, U8, U16, U32, U64};

use super::Format;
use super::capabilities::{Access, Blocks, Capabilities, Metadata, Names, Properties};
use super::entry::{Detection, Entry, Version, format_fns};
use modelfmt_rules::wording::Choice;

pub(super) static MAG: Entry = Entry {
    name: "mag",
    feature: "mag",
    detection: Detection::Magic(b"MAG!"),
    ending: Some(".mag"),
    sharded: None,
    is_set: false,
    versions: VERSIONS,
    capabilities: Capabilities {
        format: Format::Mag,
        numbers: NUMBERS,
        blocks: Blocks::None,
        complex: false,
        packed: false,
        min_rank: 1,
        max_rank: 255,
        names: Names::UpTo65535Bytes,
        declared: false,
        quants: false,
        metadata: Metadata::Numbers,
        access: Access::ReadWrite,
        properties: Properties { version_of_today: Some("0.3"), ends_with_values: true, ..Properties::NONE },
    },
    choices: &[Choice::Checksum, Choice::Reserve],
    fns: format_fns!("mag", write: super::entry::Write::File(on::write), common_metadata: Some(on::common_metadata), edit: Some(on::edit), same: Some(on::same)),
};

/// The versions that can be written.
const VERSIONS: &[Version] =
    &[Version::only(&["1"]), Version { names: V0_3, capabilities: Some(&CAPABILITIES_0_3), extended: None }];

/// The names of version 0.3, which magnetron 0.2 reads.
const V0_3: &[&str] = &["0.3", "0.3.0"];

static CAPABILITIES_0_3: Capabilities = Capabilities {
    format: Format::Mag,
    numbers: NUMBERS_0_3,
    blocks: Blocks::None,
    complex: false,
    packed: false,
    min_rank: 0,
    max_rank: 16,
    names: Names::UpTo65535Bytes,
    declared: false,
    quants: false,
    metadata: Metadata::Object,
    access: Access::ReadWrite,
    properties: Properties { version_of_today: Some("0.3"), ends_with_values: true, ..Properties::NONE },
};

const NUMBERS_0_3: &[DType] = &[Bool, I8, U8, I16, U16, I32, U32, I64, U64, F16, BF16, F32, F8E4M3];

const NUMBERS: &[DType] = &[Bool, I8, I16, U16, I32, U32, I64, U64, F16, F32];

#[cfg(feature = "mag")]
mod on {
    use mag::{Checksum, ManifestOptions, Plan, WriteOptions};
    use modelfmt_core::source::BoxSource;
    use modelfmt_core::value::Value;
    use modelfmt_core::{AnyError, Execution};
    use modelfmt_write::edit::NewFile;
    use modelfmt_write::{Sink, TensorData};

    use crate::formats::change::{Change, EditFault, NewValue};
    use crate::formats::common_metadata::CommonMetadata;
    use crate::formats::entry::{AnyReader, Job, JobError, reader_of};
    use crate::formats::merged::readers;
    use modelfmt_rules::options::ConvertOptions;
    use modelfmt_rules::options::MagChecksum;

    pub(super) fn write(
        job: &Job<'_>,
        data: &dyn TensorData,
        sink: &dyn Sink,
        work: &Execution<'_>,
    ) -> Result<(), JobError> {
        let reserve = job.options.output.reserve.unwrap_or_default();
        if job.options.output.version.as_deref().is_some_and(|version| super::V0_3.contains(&version)) {
            let plan = Plan::v0_3(job.specs(), &job.metadata.keys, &manifest(job).reserve(reserve));
            return Ok(plan.and_then(|plan| plan.write(data, sink, work))?);
        }
        let checksum = match job.options.mag.checksum {
            Some(MagChecksum::Crc32c) => Checksum::Crc32c,
            Some(MagChecksum::Crc32) | None => Checksum::Crc32,
        };
        let plan = Plan::new(
            job.specs(),
            &job.metadata.keys,
            &WriteOptions::new().checksum(checksum).reserve(reserve),
        );
        Ok(plan.and_then(|plan| plan.write(data, sink, work))?)
    }

    /// Reads the metadata. MAG 0.3 has a JSON object. Other versions have only numbers, which no other format
    /// takes as metadata.
    pub(super) fn common_metadata(opened: &dyn AnyReader) -> Result<CommonMetadata, AnyError> {
        let reader = reader_of::<mag::Reader<BoxSource>>(opened);
        if reader.is_some_and(|reader| reader.index().manifest().is_some()) {
            return CommonMetadata::keys_of(opened);
        }
        let mut keys = opened.metadata()?.into_object();
        for (_, value) in keys.iter_mut() {
            if let Value::Float(x) = value
                && !x.is_finite()
            {
                let bits = format!("{:016x}", x.to_bits());
                *value = Value::Object([("type", "f64"), ("bits", &bits)].into_iter().collect());
            }
        }
        Ok(CommonMetadata { native: Some(keys), ..CommonMetadata::default() })
    }

    /// Returns the members of the manifest besides metadata and tensors, taken from the first source that has
    /// one.
    fn manifest(job: &Job<'_>) -> ManifestOptions {
        let options = ManifestOptions::new();
        let mut sources =
            readers(job.source).filter_map(|(_, source)| reader_of::<mag::Reader<BoxSource>>(source));
        match sources.find_map(|reader| reader.index().manifest()) {
            Some(found) => options.timestamp(found.timestamp()).magnetron_version(found.magnetron_version()),
            None => options,
        }
    }

    /// Applies an edit of metadata and names, and returns the new file.
    pub(super) fn edit(opened: &dyn AnyReader, change: &Change<'_>) -> Result<NewFile, EditFault> {
        let Some(reader) = reader_of::<mag::Reader<BoxSource>>(opened) else {
            return Err(EditFault::unopened());
        };
        let index = reader.index();
        let metadata = change.apply(index.metadata(), NewValue::to_value)?;
        Ok(index.edit(reader.source(), change.names, metadata.as_ref())?)
    }

    /// Sets the options with which a conversion to MAG keeps the properties of the source.
    pub(super) fn same(opened: &dyn AnyReader, options: &mut ConvertOptions) {
        let Some(reader) = reader_of::<mag::Reader<BoxSource>>(opened) else { return };
        match reader.index().version() {
            mag::Version::V1 if reader.index().checksum() == Some(Checksum::Crc32c) => {
                options.mag.checksum = Some(MagChecksum::Crc32c);
            }
            mag::Version::V1 => {}
            _ => options.output.version = super::V0_3.first().map(|name| (*name).to_owned()),
        }
    }
}
