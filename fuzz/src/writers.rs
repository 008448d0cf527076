//! Writes a [`Model`] in each format, with our writers, or by hand what they cannot write.

use apr2::Compression;
use mag::Checksum;
use modelfmt_core::value::{Object, Value};
use modelfmt_core::{DType, Execution};
use modelfmt_write::WriteError;
use modelfmt_write::{MemoryFile, TensorSpec};
use oinf::{MetaValue, Quant};
use testkit::mag::{Described, Snapshot};

use super::model::Model;

/// Writes a model; the bits of the number choose options. Returns `None` if the format cannot hold the model.
pub(crate) type Write = fn(&Model, u8, &Execution<'_>) -> Option<Vec<u8>>;

/// Returns the file, unless the format cannot hold the model. Any other failure is a finding.
pub(crate) fn written<P, F: std::fmt::Display>(
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

/// Returns the version that bits 1 and 2 of the flags choose.
pub(crate) fn mag_version(flags: u8) -> mag::Version {
    match flags >> 1 & 3 {
        0 => mag::Version::V1,
        1 => mag::Version::V0_3,
        2 => mag::Version::V0_1,
        _ => mag::Version::V0_2,
    }
}

/// Writes any generation, see [`mag_version`]. For version 1, bit 0: magnetron's checksum.
pub(crate) fn mag_any(model: &Model, flags: u8, work: &Execution<'_>) -> Option<Vec<u8>> {
    match mag_version(flags) {
        mag::Version::V1 => mag(model, flags, work),
        mag::Version::V0_3 => mag_0_3(model, work),
        version => mag_snapshot(model, version),
    }
}

fn mag_0_3(model: &Model, work: &Execution<'_>) -> Option<Vec<u8>> {
    let specs = model.specs.iter().cloned();
    let plan = mag::Plan::v0_3(specs, &model.metadata, &mag::ManifestOptions::new());
    let (plan, bytes) = written(plan, |plan, file| plan.write(&model.values, file, work))?;
    assert_eq!(bytes.len() as u64, plan.file_len());
    Some(bytes)
}

/// The types of MAG 0.2 and 0.3, in the order of their codes.
pub(crate) const MAG_CODES: &[DType] = &[
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::F8E4M3,
    DType::Bool,
    DType::U8,
    DType::I8,
    DType::U16,
    DType::I16,
    DType::U32,
    DType::I32,
    DType::U64,
    DType::I64,
];

/// Writes a snapshot, which has neither metadata nor tensors without values.
fn mag_snapshot(model: &Model, version: mag::Version) -> Option<Vec<u8>> {
    let is_first = version == mag::Version::V0_1;
    let mut snapshot = Snapshot { version: version.number(), names: Vec::new(), tensors: Vec::new() };
    let mut all = Vec::new();
    for (spec, values) in model.specs.iter().zip(&model.values) {
        let name = spec.name.as_bytes().to_vec();
        let is_fit = !name.is_empty() && !name.contains(&0) && spec.has_data && spec.shape.len() < 64;
        if !is_fit || values.is_empty() || snapshot.names.contains(&name) {
            return None;
        }
        if !is_first {
            all.resize(all.len().next_multiple_of(16), 0);
        }
        let code = MAG_CODES.iter().position(|&dtype| dtype == spec.dtype)?;
        // Version 0.1 has no float8.
        let code = match code {
            3 if is_first => return None,
            4.. if is_first => code - 1,
            _ => code,
        };
        snapshot.tensors.push(Described {
            dtype: code as u8,
            name: snapshot.names.len() as u32,
            elements: spec.shape.iter().product(),
            offset: all.len() as u64,
            dims: spec.shape.to_vec(),
        });
        snapshot.names.push(name);
        all.extend(values);
    }
    Some(snapshot.with_values(&all))
}

/// OINF 1; bit 0 of `flags`: size variables instead of integers.
pub(crate) fn oinf(model: &Model, flags: u8, work: &Execution<'_>) -> Option<Vec<u8>> {
    oinf_any(model, flags & 1, work)
}

/// Bit 1: version 2. Without it, bit 2: the later types in version 1.
pub(crate) fn oinf_has_later_types(flags: u8) -> bool {
    flags & 6 != 0
}

/// Returns quant payloads for some of the tensors, in version 2 (bit 1) if bit 2 is set. Bit 3: with zero
/// points.
pub(crate) fn oinf_quants(model: &Model, flags: u8) -> Vec<(&str, Quant)> {
    const MOST: u64 = 1000;
    if flags & 6 != 6 {
        return Vec::new();
    }
    let quant = |(number, spec): (usize, &TensorSpec<'static>)| {
        let rank = spec.shape.len();
        let axis = (number % 3 == 1 && rank > 0).then(|| number % rank);
        let count = axis.map_or(1, |axis| spec.shape[axis]);
        if count > MOST {
            return None;
        }
        let zero_points = (flags & 8 != 0).then(|| (0..count as i32).map(|n| n - 3).collect());
        let scheme = if flags & 8 != 0 { oinf::Scheme::Asymmetric } else { oinf::Scheme::Symmetric };
        let scales = (0..count).map(|n| n as f32 / 8.0).collect();
        Some(Quant { scheme, axis: axis.map(|axis| axis as u64), scales, zero_points })
    };
    let chosen = model.specs.iter().enumerate().filter(|(number, _)| number % 3 != 2);
    chosen.filter_map(|(number, spec)| Some((&*spec.name, quant((number, spec))?))).collect()
}

/// Writes both versions and all types: see [`oinf_has_later_types`] and [`oinf_quants`]. Bit 0: size
/// variables instead of integers; bit 4: metadata of the later types.
pub(crate) fn oinf_any(model: &Model, flags: u8, work: &Execution<'_>) -> Option<Vec<u8>> {
    const SMALL: [DType; 4] = [DType::F8E5M2, DType::I4, DType::U2, DType::T1];
    let mut metadata = oinf::Metadata::new();
    for (key, value) in model.metadata.iter() {
        let value = match value {
            Value::Null => {
                oinf::Bitset::from_bits([true, false, true]).map(MetaValue::Bitset).expect("three bits")
            }
            Value::Bool(b) => MetaValue::Bool(*b),
            Value::Int(n) if flags & 1 == 1 => {
                metadata = metadata.sizevar(key.to_owned(), n.as_u64().unwrap_or(7));
                continue;
            }
            Value::Int(n) if flags & 16 != 0 => {
                let dtype = SMALL[n.as_u64().unwrap_or(0) as usize % SMALL.len()];
                oinf::SmallNumber::new(dtype, 1).expect("a small type").into()
            }
            Value::Int(n) => MetaValue::I64(n.as_i64().unwrap_or(-1)),
            Value::Float(x) => MetaValue::F64(*x),
            Value::Array(list) if flags & 16 != 0 => {
                let len = list.len() as u64;
                let bytes = vec![1; DType::I4.nbytes(&[len]).expect("a few") as usize];
                // After an odd number of elements, the remaining half byte is zero.
                MetaValue::Ndarray(oinf::NdArray::new(DType::I4, vec![len], bytes).expect("as many bytes"))
            }
            Value::String(text) => MetaValue::Str(text.clone().into()),
            Value::Bytes(_) | Value::Array(_) | Value::Object(_) => {
                let array = oinf::NdArray::new(DType::U8, vec![3u64], vec![1u8, 2, 3]);
                MetaValue::Ndarray(array.expect("three bytes"))
            }
        };
        metadata = metadata.value(key.to_owned(), value);
    }
    let version = if flags & 2 == 0 { oinf::Version::V1 } else { oinf::Version::V2 };
    let options = oinf::WriteOptions::new().version(version).extended_types(flags & 4 != 0);
    let quants = oinf_quants(model, flags);
    let options = quants.into_iter().fold(options, |options, (name, quant)| options.quant(name, quant));
    let plan = oinf::Plan::new(model.specs.iter().cloned(), &metadata, &options);
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
    // Each row of q4_k is padded, but the rows of the model's values are not.
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
