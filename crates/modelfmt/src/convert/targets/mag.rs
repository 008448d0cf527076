//! MAG: numbers as metadata.

use mag::{Checksum, Metadata, Number, Plan, WriteOptions};
use modelfmt_core::value::Value;
use modelfmt_core::write::{Sink, TensorData};
use modelfmt_core::{AnyError, Part, Work};

use crate::convert::Conversion;
use crate::convert::options::MagChecksum;

pub(super) fn write(
    conversion: &Conversion<'_>,
    data: &dyn TensorData,
    sink: &dyn Sink,
    work: &Work<'_>,
) -> Result<(), AnyError> {
    let mut metadata = Metadata::new();
    for (key, value) in &conversion.metadata.keys {
        // The mapping has left numbers only.
        let Some(number) = number(value) else { continue };
        let unfit = |fault| mag::Error::Unfit { part: Part::named("metadata key", key), fault };
        metadata.push(key, number).map_err(|fault| unfit(fault).erase())?;
    }
    let checksum = match conversion.options.checksum {
        Some(MagChecksum::Crc32c) => Checksum::Crc32c,
        Some(MagChecksum::Crc32) | None => Checksum::Crc32,
    };
    let plan = Plan::new(conversion.specs(), &metadata, &WriteOptions::new().checksum(checksum));
    plan.and_then(|plan| plan.write(data, sink, work)).map_err(mag::Error::erase)
}

fn number(value: &Value) -> Option<Number> {
    match value {
        Value::Int(n) => n.as_i64().map(Number::I64),
        Value::Float(x) => Some(Number::F64(*x)),
        _ => None,
    }
}
