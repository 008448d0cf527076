//! APR2, one file or several: a JSON object as metadata.

use apr2::{Alignment, Error, Flags, Metadata, Plan, SetPlan, WriteOptions};
use modelfmt_core::write::{NewFiles, Sink, TensorData};
use modelfmt_core::{AnyError, Work};

use crate::convert::Conversion;
use crate::convert::options::Compression;

pub(super) fn write(
    conversion: &Conversion<'_>,
    data: &dyn TensorData,
    sink: &dyn Sink,
    work: &Work<'_>,
) -> Result<(), AnyError> {
    let plan = Plan::new(conversion.specs(), &metadata(conversion), &options(conversion));
    plan.and_then(|plan| plan.write(data, sink, work)).map_err(Error::erase)
}

pub(super) fn write_set(
    conversion: &Conversion<'_>,
    data: &dyn TensorData,
    name: &str,
    files: &impl NewFiles,
    work: &Work<'_>,
) -> Result<(), AnyError> {
    let options = options(conversion);
    let options = match conversion.options.shard_size {
        Some(nbytes) => options.shard_size(nbytes),
        None => options,
    };
    let plan = SetPlan::new(name, conversion.specs(), &metadata(conversion), &options);
    plan.and_then(|plan| plan.write(data, files, work)).map_err(Error::erase)
}

fn metadata(conversion: &Conversion<'_>) -> Metadata {
    conversion.metadata.keys.clone().into()
}

fn options(conversion: &Conversion<'_>) -> WriteOptions {
    let alignment = match conversion.options.align {
        Some(32) => Alignment::Bytes32,
        _ => Alignment::Bytes64,
    };
    let compression = match conversion.options.compress {
        Some(Compression::Lz4) => apr2::Compression::Lz4,
        Some(Compression::None) | None => apr2::Compression::None,
    };
    // DECISIONS, APR2, "STREAMING": kept.
    let flags = conversion.model.as_apr2().map(|reader| reader.index().flags());
    let streaming = flags.is_some_and(|flags| flags.contains(Flags::STREAMING));
    WriteOptions::new().alignment(alignment).compression(compression).streaming(streaming)
}
