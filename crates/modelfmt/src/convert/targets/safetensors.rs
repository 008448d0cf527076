//! safetensors, one file or several: strings as metadata.

use modelfmt_core::value::Object;
use modelfmt_core::write::{NewFiles, Sink, TensorData};
use modelfmt_core::{AnyError, Work};
use modelfmt_safetensors::{Error, Plan, SetPlan, WriteOptions};

use crate::convert::Conversion;

pub(super) fn write(
    conversion: &Conversion<'_>,
    data: &dyn TensorData,
    sink: &dyn Sink,
    work: &Work<'_>,
) -> Result<(), AnyError> {
    let plan = Plan::new(conversion.specs(), metadata(conversion), &WriteOptions::new());
    plan.and_then(|plan| plan.write(data, sink, work)).map_err(Error::erase)
}

pub(super) fn write_set(
    conversion: &Conversion<'_>,
    data: &dyn TensorData,
    name: &str,
    files: &impl NewFiles,
    work: &Work<'_>,
) -> Result<(), AnyError> {
    let options = WriteOptions::new().file_metadata(conversion.metadata.files.clone());
    let options = match conversion.options.shard_size {
        Some(nbytes) => options.shard_size(nbytes),
        None => options,
    };
    let stem = name.strip_suffix(".safetensors.index.json").unwrap_or(name);
    let plan = SetPlan::new(stem, conversion.specs(), metadata(conversion), &options);
    plan.and_then(|plan| plan.write(data, files, work)).map_err(Error::erase)
}

/// No `__metadata__` rather than an empty one.
fn metadata<'c>(conversion: &'c Conversion<'_>) -> Option<&'c Object> {
    Some(&conversion.metadata.keys).filter(|keys| !keys.is_empty())
}
