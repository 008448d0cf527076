//! OINF: typed values and size variables as metadata.

use modelfmt_core::value::Value;
use modelfmt_core::write::{Sink, TensorData};
use modelfmt_core::{AnyError, Part, Work};
use oinf::{MetaValue, Metadata, Plan, WriteOptions};

use crate::convert::Conversion;
use crate::convert::fit::plain_fault;

pub(super) fn write(
    conversion: &Conversion<'_>,
    data: &dyn TensorData,
    sink: &dyn Sink,
    work: &Work<'_>,
) -> Result<(), AnyError> {
    let mut metadata = Metadata::new();
    for (name, value) in &conversion.metadata.sizevars {
        metadata.sizevars.push((name.into(), value.as_u64().unwrap_or_default()));
    }
    for (key, value) in &conversion.metadata.keys {
        let unfit = |error: oinf::ValueError| {
            let fault = modelfmt_core::Fault::Metadata(error.to_string()).into();
            oinf::Error::Unfit { part: Part::named("metadata key", key), fault }.erase()
        };
        let value = MetaValue::from_value(value).map_err(unfit)?;
        metadata.values.push((key.into(), value));
    }
    let plan = Plan::new(conversion.specs(), &metadata, &WriteOptions::new());
    plan.and_then(|plan| plan.write(data, sink, work)).map_err(oinf::Error::erase)
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
