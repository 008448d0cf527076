//! AERO and AEROSET: a JSON object as metadata, and a manifest that is made anew.

use aero::{Error, FourCC, Index, Plan, SetPlan, WriteOptions};
use tensor_core::value::{Object, Value};
use tensor_core::write::{NewFiles, Sink, TensorData};
use tensor_core::{AnyError, DType, Work};

use crate::convert::Conversion;
use crate::convert::fit::Misfit;
use crate::error::Result;
use crate::model::Model;

pub(super) fn write(
    conversion: &Conversion<'_>,
    data: &dyn TensorData,
    sink: &dyn Sink,
    work: &Work<'_>,
) -> Result<(), AnyError> {
    let mut options = carried_params(conversion.model, options(conversion)).map_err(Error::erase)?;
    if let Some(nbytes) = conversion.options.shard_size {
        options = options.shard_size(nbytes);
    }
    let plan = Plan::new(conversion.specs(), &conversion.metadata.keys, &options);
    plan.and_then(|plan| plan.write(data, sink, work)).map_err(Error::erase)
}

pub(super) fn write_set(
    conversion: &Conversion<'_>,
    data: &dyn TensorData,
    name: &str,
    files: &impl NewFiles,
    work: &Work<'_>,
) -> Result<(), AnyError> {
    let mut options = carried_params(conversion.model, options(conversion)).map_err(Error::erase)?;
    if let Some(nbytes) = conversion.options.shard_size {
        options = options.part_size(nbytes);
    }
    let plan = SetPlan::new(name, conversion.specs(), &conversion.metadata.keys, &options);
    plan.and_then(|plan| plan.write(data, files, work)).map_err(Error::erase)
}

/// The `quant_params` of a tensor in a codec that is not known.
fn packed_params(index: &Index, position: usize) -> Option<Object> {
    match index.quant_params(position) {
        Some(Value::Object(params)) => Some(params),
        _ => None,
    }
}

/// What the tensor index of an AERO source says of codecs that are not known.
fn carried_params(model: &Model, mut options: WriteOptions) -> Result<WriteOptions, Error> {
    let index = model.as_aero().map(|reader| &**reader.index());
    let Some(index) = index.or_else(|| model.as_aeroset().map(|set| &**set.index())) else {
        return Ok(options);
    };
    for (position, tensor) in
        index.tensors().iter().enumerate().filter(|(_, tensor)| tensor.dtype == DType::Packed)
    {
        if let Some(params) = packed_params(index, position) {
            options = options.quant_params(tensor.name, &params)?;
        }
    }
    Ok(options)
}

fn options(conversion: &Conversion<'_>) -> WriteOptions {
    let asked = conversion.options;
    let mut options = WriteOptions::new()
        .control_hash(asked.control_hash)
        .page_hashes(asked.page_hashes)
        .tensor_hashes(asked.tensor_hashes)
        // For a model that came from APR2, where `architecture` is an object.
        .model(&conversion.metadata.name, &conversion.metadata.architecture);
    if let Some(uuid) = asked.uuid {
        options = options.uuid(uuid);
    }
    if asked.no_zstd {
        options = options.zstd(None);
    }
    options
}

/// What is lost of an AERO file whatever the target: chunks of other kinds, and what the tensor index says beyond the
/// specification (DECISIONS, "mapping of metadata").
pub(super) fn losses(model: &Model, losses: &mut Vec<Misfit>) -> Result<()> {
    if let Some(reader) = model.as_aero() {
        index_losses(model, reader.index(), losses)?;
    }
    if let Some(set) = model.as_aeroset() {
        index_losses(model, set.index(), losses)?;
        for number in 0..set.set().parts().len() {
            let part = set.part(number).map_err(|error| model.failed(error.erase()))?;
            chunk_losses(part.index(), losses);
        }
    }
    Ok(())
}

fn index_losses(model: &Model, index: &Index, losses: &mut Vec<Misfit>) -> Result<()> {
    chunk_losses(index, losses);
    for (position, tensor) in index.tensors().iter().enumerate() {
        let keys = index.unknown_keys(position).map_err(|error| model.failed(error.erase()))?;
        for key in keys.keys() {
            let why = format!("the tensor index says {key:?} of it, which no target can hold");
            losses.push(Misfit::loss("tensor", tensor.name, why));
        }
        // Without parameters of its own, a tensor is described by the manifest, which is made anew.
        let described = index.entry(position).is_some_and(|entry| entry.quant_id.is_some());
        if tensor.dtype == DType::Packed && described && packed_params(index, position).is_none() {
            let why = "the manifest describes its codec, which is not known and cannot be carried";
            losses.push(Misfit::loss("tensor", tensor.name, why));
        }
    }
    Ok(())
}

fn chunk_losses(index: &Index, losses: &mut Vec<Misfit>) {
    const KNOWN: [FourCC; 6] =
        [FourCC::IHSH, FourCC::MJSN, FourCC::MMSG, FourCC::PHSH, FourCC::TIDX, FourCC::WTSH];
    for chunk in index.chunks().filter(|chunk| !KNOWN.contains(&chunk.fourcc)) {
        let why = format!("chunks of the type {} are not carried", chunk.fourcc);
        losses.push(Misfit::loss("chunk", chunk.name, why));
    }
}
