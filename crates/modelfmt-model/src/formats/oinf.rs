//! OINF: typed values and size variables as metadata; in version 2 also scales and zero points of tensors.

use modelfmt_core::DType::{
    self, BF16, Bool, F8E5M2, F16, F32, F64, I1, I2, I4, I8, I16, I32, I64, T1, T2, U1, U2, U4, U8, U16, U32,
    U64,
};

use super::Format;
use super::capabilities::{Access, Blocks, Capabilities, Metadata, Names, Properties};
use super::entry::{Detection, Entry, Version, format_fns};
use modelfmt_rules::wording::Choice;

pub(super) static OINF: Entry = Entry {
    name: "oinf",
    feature: "oinf",
    detection: Detection::Magic(b"OINF\0"),
    ending: Some(".oinf"),
    sharded: None,
    is_set: false,
    versions: VERSIONS,
    capabilities: of_version(NUMBERS, false),
    choices: &[Choice::Sizevars, Choice::Declare, Choice::ExtendedTypes],
    fns: format_fns!("oinf", write: super::entry::Write::File(on::write), common_metadata: Some(on::common_metadata), value: Some(on::value), quant: Some(on::quant), sizevars: Some(on::sizevars), edit: Some(on::edit), same: Some(on::same)),
};

/// The versions that can be written.
const VERSIONS: &[Version] = &[
    Version { names: &["1"], capabilities: None, extended: Some(&EXTENDED) },
    Version { names: V2, capabilities: Some(&CAPABILITIES_2), extended: None },
];

/// The names of version 2.
const V2: &[&str] = &["2"];

static EXTENDED: Capabilities = of_version(ALL_NUMBERS, false);
static CAPABILITIES_2: Capabilities = of_version(ALL_NUMBERS, true);

const fn of_version(numbers: &'static [DType], quants: bool) -> Capabilities {
    Capabilities {
        format: Format::Oinf,
        numbers,
        blocks: Blocks::None,
        complex: false,
        packed: false,
        min_rank: 0,
        max_rank: 255,
        names: Names::Plain,
        declared: true,
        quants,
        metadata: Metadata::Typed,
        access: Access::ReadWrite,
        properties: Properties { prescribed_output: true, ..Properties::NONE },
    }
}

/// Value types 1 to 12 of the document.
const NUMBERS: &[DType] = &[Bool, I8, U8, I16, U16, I32, U32, I64, U64, F16, F32, F64];

/// Value types 1 to 12, and 16 to 25.
const ALL_NUMBERS: &[DType] = &[
    Bool, I8, U8, I16, U16, I32, U32, I64, U64, F16, F32, F64, BF16, F8E5M2, I4, I2, I1, U4, U2, U1, T2, T1,
];

#[cfg(feature = "oinf")]
mod on {
    use modelfmt_core::source::BoxSource;
    use modelfmt_core::value::{Object, Value};
    use modelfmt_core::{AnyError, Execution, Part};
    use modelfmt_write::edit::NewFile;
    use modelfmt_write::{Sink, TensorData};
    use oinf::ReaderExt as _;
    use oinf::{MetaValue, Metadata, Plan, Scheme, Version, WriteOptions};

    use crate::formats::capabilities::{Capabilities, plain_fault};
    use crate::formats::change::{Change, EditFault};
    use crate::formats::common_metadata::CommonMetadata;
    use crate::formats::entry::{AnyReader, Job, JobError, reader_of};
    use crate::quant::Quant;
    use modelfmt_rules::options::ConvertOptions;

    pub(super) fn write(
        job: &Job<'_>,
        data: &dyn TensorData,
        sink: &dyn Sink,
        work: &Execution<'_>,
    ) -> Result<(), JobError> {
        let mut metadata = Metadata::new();
        for (name, value) in &job.metadata.sizevars {
            metadata.sizevars.push((name.into(), value.as_u64().unwrap_or_default()));
        }
        for (key, value) in &job.metadata.keys {
            let value = MetaValue::from_value(value)
                .map_err(|fault| oinf::WriteError::unsupported(Part::named("metadata key", key), fault))?;
            metadata.values.push((key.into(), value));
        }
        let plan = Plan::new(job.specs(), &metadata, &options(job));
        Ok(plan.and_then(|plan| plan.write(data, sink, work))?)
    }

    /// Reads the metadata bit for bit, because only OINF has its value types.
    pub(super) fn common_metadata(opened: &dyn AnyReader) -> Result<CommonMetadata, AnyError> {
        let native = reader_of::<oinf::Reader<BoxSource>>(opened).map(|reader| {
            reader.index().metadata().map(|(key, value)| (key, value.to_value_exact())).collect()
        });
        Ok(CommonMetadata { native: Some(native.unwrap_or_default()), ..CommonMetadata::default() })
    }

    fn options(job: &Job<'_>) -> WriteOptions {
        let options = WriteOptions::new().extended_types(job.options.oinf.allow_extended_types);
        if !job.options.output.version.as_deref().is_some_and(|version| super::V2.contains(&version)) {
            return options;
        }
        let quants = job.tensors.quants.iter().cloned();
        quants.fold(options.version(Version::V2), |options, (name, quant)| {
            let Quant { axis, scales, zero_points } = quant;
            let scheme = if zero_points.is_some() { Scheme::Asymmetric } else { Scheme::Symmetric };
            options.quant(name, oinf::Quant { scheme, axis, scales, zero_points })
        })
    }

    /// Returns the size variables.
    pub(super) fn sizevars(opened: &dyn AnyReader) -> Object {
        let reader = reader_of::<oinf::Reader<BoxSource>>(opened);
        reader.map(|reader| reader.index().sizevars().iter().collect()).unwrap_or_default()
    }

    /// Reads the scales and zero points of a tensor: its quant payload.
    pub(super) fn quant(opened: &dyn AnyReader, position: usize) -> Result<Option<Quant>, AnyError> {
        let Some(reader) = reader_of::<oinf::Reader<BoxSource>>(opened) else { return Ok(None) };
        let quant = reader.quant(position)?;
        Ok(quant.map(|oinf::Quant { axis, scales, zero_points, .. }| Quant { axis, scales, zero_points }))
    }

    /// Returns the value if that version of OINF can hold it under that key, or else the reason why not.
    pub(super) fn value(version: &Capabilities, key: &str, value: Value) -> Result<Value, String> {
        if let Some(why) = plain_fault(key) {
            return Err(why);
        }
        let read = MetaValue::from_value(&value).map_err(|error| error.to_string())?;
        if let Some(dtype) = read.types().filter_map(|of| of.dtype()).find(|&dtype| !version.has(dtype)) {
            let format = version.format;
            let elsewhere =
                format.version_with(dtype).map_or_else(String::new, |other| format!(", but in {other}"));
            return Err(format!("{dtype} is not in {format}{elsewhere}"));
        }
        match read.as_str().and_then(plain_fault) {
            Some(why) => Err(why),
            None => Ok(value),
        }
    }

    /// Applies an edit of metadata and names, and returns the new file.
    pub(super) fn edit(opened: &dyn AnyReader, change: &Change<'_>) -> Result<NewFile, EditFault> {
        let Some(reader) = reader_of::<oinf::Reader<BoxSource>>(opened) else {
            return Err(EditFault::unopened());
        };
        let index = reader.index();
        if !change.has_metadata() {
            return Ok(index.edit(reader.source(), change.names, None)?);
        }
        change.check_unset(index.metadata().map(|(key, _)| key).collect::<Vec<_>>().into_iter())?;
        let mut metadata = index.to_metadata();
        metadata.values.retain(|(key, _)| !change.is_gone(key));
        for (key, value) in &mut metadata.values {
            if let Some(given) = change.given(key) {
                *value = new_value(key, &given.to_value(), Some(value.value_type().name()))?;
            }
        }
        for (key, given) in change.added(|key| index.value(key).is_some()) {
            metadata.values.push((key.to_owned().into(), new_value(key, &given.to_value(), None)?));
        }
        Ok(index.edit(reader.source(), change.names, Some(&metadata))?)
    }

    /// Makes a value with the old type of its key, if that type can hold it, or else with its own type.
    fn new_value(key: &str, given: &Value, before: Option<&str>) -> Result<MetaValue<'static>, EditFault> {
        let typed =
            before.map(|name| Object::from_iter([("type", Value::from(name)), ("value", given.clone())]));
        let typed = typed.and_then(|typed| MetaValue::from_value(&typed.into()).ok());
        let value = match typed {
            Some(value) => Ok(value),
            None => MetaValue::from_value(given),
        };
        let value = value.map_err(|error| EditFault::unfit("metadata key", key, error.to_string()))?;
        Ok(value.into_owned())
    }

    /// Sets the options with which a conversion to OINF keeps the properties of the source.
    pub(super) fn same(opened: &dyn AnyReader, options: &mut ConvertOptions) {
        let Some(reader) = reader_of::<oinf::Reader<BoxSource>>(opened) else { return };
        options.oinf.allow_extended_types = true;
        if reader.index().version() == Version::V2 {
            options.output.version = super::V2.first().map(|name| (*name).to_owned());
        }
    }
}
