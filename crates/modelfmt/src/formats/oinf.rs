//! OINF: typed values and size variables as metadata.

use modelfmt_core::DType::{self, Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};

use super::Format;
use super::capabilities::{Access, Blocks, Capabilities, Metadata, Names};
use super::entry::{Entry, Tells, Version, driver};
use crate::choice::Choice;

pub(super) static OINF: Entry = Entry {
    name: "oinf",
    feature: "oinf",
    tells: Tells::Magic(b"OINF\0"),
    ending: Some(".oinf"),
    sharded: None,
    is_set: false,
    versions: &[Version::only(&["1"])],
    capabilities: Capabilities {
        format: Format::Oinf,
        numbers: NUMBERS,
        blocks: Blocks::None,
        complex: false,
        packed: false,
        min_rank: 0,
        max_rank: 255,
        names: Names::Plain,
        declared: true,
        metadata: Metadata::Typed,
        access: Access::ReadWrite,
    },
    choices: &[Choice::Sizevars, Choice::Declare],
    driver: driver!("oinf", on::open, write: super::entry::Write::File(on::write), value: Some(on::value), quant: Some(on::quant)),
};

const NUMBERS: &[DType] = &[Bool, I8, U8, I16, U16, I32, U32, I64, U64, F16, F32, F64];

#[cfg(feature = "oinf")]
mod on {
    use modelfmt_core::source::BoxSource;
    use modelfmt_core::value::Value;
    use modelfmt_core::write::{Sink, TensorData};
    use modelfmt_core::{AnyError, Execution, Part};
    use oinf::{MetaValue, Metadata, Plan, WriteOptions};

    use crate::formats::capabilities::plain_fault;
    use crate::formats::entry::{Job, JobError, Opened, ToOpen, reader_of};
    use crate::quant::Quant;

    /// Opens one file.
    pub(super) fn open(opened: ToOpen<'_>) -> Result<Box<dyn Opened>, AnyError> {
        opened.open_file::<oinf::Reader<_>>()
    }

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
            let unfit = |error: oinf::ValueError| {
                let fault = modelfmt_core::CommonFault::Metadata(error.to_string()).into();
                oinf::WriteError::Unsupported { part: Part::named("metadata key", key), fault }
            };
            let value = MetaValue::from_value(value).map_err(unfit)?;
            metadata.values.push((key.into(), value));
        }
        let plan = Plan::new(job.specs(), &metadata, &WriteOptions::new());
        Ok(plan.and_then(|plan| plan.write(data, sink, work))?)
    }

    /// The quant payload of a tensor.
    pub(super) fn quant(opened: &dyn Opened, position: usize) -> Result<Option<Quant>, AnyError> {
        let Some(reader) = reader_of::<oinf::Reader<BoxSource>>(opened) else { return Ok(None) };
        let quant = reader.quant_at(position)?;
        Ok(quant.map(|oinf::Quant { axis, scales, zero_points, .. }| Quant { axis, scales, zero_points }))
    }

    /// The value, if OINF can hold it under that key; else why not.
    pub(super) fn value(key: &str, value: Value) -> Result<Value, String> {
        if let Some(why) = plain_fault(key) {
            return Err(why);
        }
        let read = MetaValue::from_value(&value).map_err(|error| error.to_string())?;
        match read.as_str().and_then(plain_fault) {
            Some(why) => Err(why),
            None => Ok(value),
        }
    }
}
