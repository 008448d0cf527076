//! Writes a [`Model`] in each format.

use apr2::Compression;
use mag::Checksum;
use modelfmt_core::Execution;
use modelfmt_core::value::{Object, Value};
use modelfmt_core::write::WriteError;
use modelfmt_core::write::{MemoryFile, TensorSpec};
use oinf::MetaValue;

use super::model::Model;

/// Writes a model; the bits of the number choose options. Nothing if the format cannot hold it.
pub(crate) type Write = fn(&Model, u8, &Execution<'_>) -> Option<Vec<u8>>;

/// The file, unless the format cannot hold the model; any other failure is a finding.
fn written<P, F: std::fmt::Display>(
    plan: Result<P, WriteError<F>>,
    write: impl FnOnce(&P, &MemoryFile) -> Result<(), WriteError<F>>,
) -> Option<(P, Vec<u8>)> {
    let refused = |error: &WriteError<F>| matches!(error, WriteError::Unsupported { .. });
    let plan = match plan {
        Err(error) if refused(&error) => return None,
        plan => {
            plan.unwrap_or_else(|error| panic!("planning fails only where a model does not fit: {error}"))
        }
    };
    let file = MemoryFile::new();
    match write(&plan, &file) {
        Err(error) if refused(&error) => return None,
        done => done.unwrap_or_else(|error| panic!("memory takes everything: {error}")),
    }
    Some((plan, file.into_bytes()))
}

/// Bit 0 of `flags`: magnetron's checksum.
pub(crate) fn mag(model: &Model, flags: u8, work: &Execution<'_>) -> Option<Vec<u8>> {
    let number = |value: &Value| match value {
        Value::Float(x) => Value::Float(*x),
        other => other.as_i64().unwrap_or(-1).into(),
    };
    let metadata: Object = model.metadata.iter().map(|(key, value)| (key, number(value))).collect();
    let checksum = if flags & 1 == 0 { Checksum::Crc32 } else { Checksum::Crc32c };
    let options = mag::WriteOptions::new().checksum(checksum);
    let plan = mag::Plan::new(model.specs.iter().cloned(), &metadata, &options);
    let (plan, bytes) = written(plan, |plan, file| plan.write(&model.values, file, work))?;
    assert_eq!(bytes.len() as u64, plan.file_len());
    Some(bytes)
}

/// Bit 0 of `flags`: size variables instead of integers.
pub(crate) fn oinf(model: &Model, flags: u8, work: &Execution<'_>) -> Option<Vec<u8>> {
    let mut metadata = oinf::Metadata::new();
    for (key, value) in model.metadata.iter() {
        let value = match value {
            Value::Null => oinf::Bitset::of([true, false, true]).map(MetaValue::Bitset).expect("three bits"),
            Value::Bool(b) => MetaValue::Bool(*b),
            Value::Int(n) if flags & 1 == 1 => {
                metadata = metadata.sizevar(key.to_owned(), n.as_u64().unwrap_or(7));
                continue;
            }
            Value::Int(n) => MetaValue::I64(n.as_i64().unwrap_or(-1)),
            Value::Float(x) => MetaValue::F64(*x),
            Value::String(text) => MetaValue::Str(text.clone().into()),
            Value::Bytes(_) | Value::Array(_) | Value::Object(_) => {
                let array = oinf::NdArray::new(oinf::DType::U8, vec![3u64], vec![1u8, 2, 3]);
                MetaValue::Ndarray(array.expect("three bytes"))
            }
        };
        metadata = metadata.value(key.to_owned(), value);
    }
    let plan = oinf::Plan::new(model.specs.iter().cloned(), &metadata, &oinf::WriteOptions::new());
    let (plan, bytes) = written(plan, |plan, file| plan.write(&model.values, file, work))?;
    assert_eq!(bytes.len() as u64, plan.file_len());
    Some(bytes)
}

/// Bit 0 of `flags`: without metadata.
pub(crate) fn safetensors(model: &Model, flags: u8, work: &Execution<'_>) -> Option<Vec<u8>> {
    let metadata = (flags & 1 == 0).then_some(&model.metadata);
    let options = modelfmt_safetensors::WriteOptions::new();
    let plan = modelfmt_safetensors::Plan::new(model.specs.iter().cloned(), metadata, &options);
    let (plan, bytes) = written(plan, |plan, file| plan.write(&model.values, file, work))?;
    assert_eq!(bytes.len() as u64, plan.file_len());
    Some(bytes)
}

/// Bit 0 of `flags`: for streaming; bit 1: with a vocabulary.
pub(crate) fn apr(model: &Model, flags: u8, work: &Execution<'_>) -> Option<Vec<u8>> {
    use apr::Flags;
    let chosen =
        [(1, Flags::STREAMING), (2, Flags::HAS_VOCAB)].into_iter().filter(|(bit, _)| flags & bit != 0);
    let options =
        apr::WriteOptions::new().flags(chosen.fold(Flags::empty(), |all, (_, flag)| all.with(flag)));
    let metadata = apr::Metadata::new("fuzz", [("own", model.metadata.clone())].into_iter().collect());
    // Each row of q4_k is filled up, and the model's values are of rows that are not.
    let is_filled = |(spec, values): (&TensorSpec<'_>, &Vec<u8>)| {
        apr::nbytes(spec.dtype, &spec.shape).is_ok_and(|nbytes| nbytes != values.len() as u64)
    };
    if model.specs.iter().zip(&model.values).any(is_filled) {
        return None;
    }
    let plan = apr::Plan::new(model.specs.iter().cloned(), &metadata, &options);
    let (plan, bytes) = written(plan, |plan, file| plan.write(&model.values, file, work))?;
    assert_eq!(bytes.len() as u64, plan.file_len());
    Some(bytes)
}

/// Bit 0 of `flags`: LZ4; bit 1: aligned to 32; bit 2: for streaming.
pub(crate) fn apr2(model: &Model, flags: u8, work: &Execution<'_>) -> Option<Vec<u8>> {
    let options = apr2_options(flags);
    let metadata = apr2::Metadata::new("fuzz", model.metadata.clone());
    let plan = apr2::Plan::new(model.specs.iter().cloned(), &metadata, &options);
    let (plan, bytes) = written(plan, |plan, file| plan.write(&model.values, file, work))?;
    assert!(plan.file_len().is_none_or(|len| bytes.len() as u64 == len));
    Some(bytes)
}

pub(crate) fn apr2_options(flags: u8) -> apr2::WriteOptions {
    apr2::WriteOptions::new()
        .compression(if flags & 1 == 0 { Compression::None } else { Compression::Lz4 })
        .alignment(if flags & 2 == 0 { apr2::Alignment::Bytes64 } else { apr2::Alignment::Bytes32 })
        .streaming(flags & 4 != 0)
}

/// Bit 0 of `flags`: zstd; bit 1: hashes of tensors; bit 2: of the control region; bit 3: of pages; bit 4: small shards.
pub(crate) fn aero(model: &Model, flags: u8, work: &Execution<'_>) -> Option<Vec<u8>> {
    let plan = aero::Plan::new(model.specs.iter().cloned(), &aero_metadata(model), &aero_options(flags));
    let (plan, bytes) = written(plan, |plan, file| plan.write(&model.values, file, work))?;
    assert!(plan.file_len().is_none_or(|len| bytes.len() as u64 == len));
    Some(bytes)
}

pub(crate) fn aero_metadata(model: &Model) -> Object {
    let mut metadata = model.metadata.clone();
    metadata.insert("model_name", "fuzz");
    metadata.insert("architecture", "demo");
    metadata
}

pub(crate) fn aero_options(flags: u8) -> aero::WriteOptions {
    aero::WriteOptions::new()
        .uuid([7; 16])
        .zstd((flags & 1 != 0).then_some(1))
        .tensor_hashes(flags & 2 != 0)
        .control_hash(flags & 4 != 0)
        .page_hashes((flags & 8 != 0).then_some(64))
        .shard_size(if flags & 16 == 0 { 1 << 31 } else { 100 })
}
