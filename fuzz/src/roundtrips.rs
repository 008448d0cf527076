//! Writes any model that a format can hold: the output is valid, can be read again, and has the same bytes
//! each time.

use arbitrary::{Arbitrary, Result, Unstructured};
use modelfmt_core::{Container, DType, Execution, VerifyLevel};
use modelfmt_write::MemoryFolder;
use oinf::ReaderExt as _;

use super::drill::Depth;
use super::ggufs;
use super::model::{Constraints, Model};
use super::writers::{self, Write};

/// Returns the flags of an input: its first byte.
pub(crate) fn flags(bytes: &[u8]) -> u8 {
    bytes.first().copied().unwrap_or(0)
}

fn model(bytes: &[u8], constraints: Constraints, write: Write) -> Option<(Model, Vec<u8>)> {
    let mut u = Unstructured::new(bytes);
    let made: Result<_> = (|| {
        let flags = u8::arbitrary(&mut u)?;
        let any = Constraints { declared: constraints.declared, ..Constraints::ANY };
        Ok((flags, Model::arbitrary(&mut u, if flags & 0xe0 == 0xe0 { any } else { constraints })?))
    })();
    let (flags, model) = made.ok()?;
    let file = write(&model, flags, &Execution::sequential())?;
    let work = Execution { threads: if flags & 0x60 == 0x60 { 3 } else { 1 }, progress: None };
    assert!(write(&model, flags, &work).as_ref() == Some(&file), "the same input gives the same bytes");
    Some((model, file))
}

/// Finds every tensor by name. `has_scalars` is false if a scalar becomes the shape [1].
fn check(model: &Model, reader: &dyn Container, has_scalars: bool) {
    assert_eq!(reader.tensor_count(), model.specs.len());
    for (spec, values) in model.specs.iter().zip(&model.values) {
        let position = reader.find(&spec.name).expect("a tensor that was written");
        let info = reader.info(position).expect("a tensor that was found");
        let shape: &[u64] = if spec.shape.is_empty() && !has_scalars { &[1] } else { &spec.shape };
        assert_eq!((info.dtype, info.shape, info.has_data), (spec.dtype, shape, spec.has_data), "{spec:?}");
        if spec.has_data {
            let found = reader.read(position).expect("values that were written");
            assert!(*found == **values, "the values of {spec:?}");
        }
    }
    let report = reader.verify(VerifyLevel::Full, &Execution::sequential());
    assert!(report.is_ok(), "{:?}", report.errors);
    reader.metadata().expect("metadata that was written");
    reader.details().expect("details");
}

pub(crate) const NUMBERS: &[DType] = &[
    DType::F16,
    DType::F32,
    DType::Bool,
    DType::I8,
    DType::I16,
    DType::U16,
    DType::I32,
    DType::U32,
    DType::I64,
    DType::U64,
];
pub(crate) const MAG: Constraints = Constraints { dtypes: NUMBERS, plain_names: false, declared: false };
const MAG_LATER: Constraints = Constraints { dtypes: writers::MAG_CODES, ..MAG };
pub(crate) const OINF: Constraints = Constraints {
    dtypes: &[
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
        DType::F16,
        DType::F32,
        DType::F64,
        DType::Bool,
    ],
    plain_names: true,
    declared: true,
};
const OINF_LATER: Constraints = Constraints {
    dtypes: &[
        DType::BF16,
        DType::F8E5M2,
        DType::I4,
        DType::I2,
        DType::I1,
        DType::U4,
        DType::U2,
        DType::U1,
        DType::F32,
        DType::I8,
        DType::Bool,
    ],
    ..OINF
};
pub(crate) const GGUF: Constraints = Constraints {
    dtypes: &[DType::F32, DType::F16, DType::I8, DType::I64, DType::Q4_0, DType::Q6K, DType::Iq1S],
    plain_names: true,
    declared: false,
};
pub(crate) const SAFETENSORS: Constraints = Constraints {
    dtypes: &[
        DType::F16,
        DType::F32,
        DType::F64,
        DType::BF16,
        DType::U8,
        DType::I64,
        DType::Bool,
        DType::F8E4M3,
        DType::F4,
        DType::C64,
    ],
    plain_names: false,
    declared: false,
};
pub(crate) const APR2: Constraints = Constraints {
    dtypes: &[DType::F32, DType::F16, DType::BF16, DType::I8, DType::Q8_0, DType::Q4_0, DType::Q5_1],
    plain_names: false,
    declared: false,
};
pub(crate) const APR: Constraints = Constraints {
    dtypes: &[DType::F32, DType::F16, DType::BF16, DType::F64, DType::I8, DType::AprQ4, DType::AprQ8],
    plain_names: false,
    declared: false,
};
pub(crate) const AERO: Constraints = Constraints {
    dtypes: &[
        DType::F32,
        DType::F16,
        DType::BF16,
        DType::I8,
        DType::U64,
        DType::Bool,
        DType::Q8_0,
        DType::Q4K,
        DType::Packed,
    ],
    plain_names: false,
    declared: false,
};

/// Returns what the generation that the flags choose can hold.
pub(crate) fn mag_constraints(flags: u8) -> Constraints {
    if writers::mag_version(flags) == mag::Version::V1 { MAG } else { MAG_LATER }
}

pub(crate) fn oinf_constraints(flags: u8) -> Constraints {
    if writers::oinf_has_later_types(flags) { OINF_LATER } else { OINF }
}

pub fn mag(bytes: &[u8], _: Depth) {
    let version = writers::mag_version(flags(bytes));
    let Some((model, file)) = model(bytes, mag_constraints(flags(bytes)), writers::mag_any) else { return };
    let reader = mag::Reader::from_source(&*file).expect("what we write opens");
    assert_eq!(reader.index().version(), version);
    check(&model, &reader, version != mag::Version::V1);
    let metadata = reader.index().metadata();
    match version {
        mag::Version::V0_3 => assert_eq!(metadata.sorted_clone(), model.metadata.sorted_clone()),
        mag::Version::V1 => assert_eq!(metadata.len(), model.metadata.len()),
        _ => assert_eq!(metadata.len(), 0),
    }
}

pub fn oinf(bytes: &[u8], _: Depth) {
    let flags = flags(bytes);
    let Some((model, file)) = model(bytes, oinf_constraints(flags), writers::oinf_any) else { return };
    let reader = oinf::Reader::from_source(&*file).expect("what we write opens");
    check(&model, &reader, true);
    let quants = writers::oinf_quants(&model, flags);
    for spec in &model.specs {
        let expected = quants.iter().find(|(name, _)| *name == spec.name).map(|(_, quant)| quant);
        assert_eq!(reader.quant(&spec.name).expect("a tensor that was written").as_ref(), expected);
    }
}

/// Tests a single file and a split. A model that fits into a file fits into a split too.
pub fn gguf(bytes: &[u8], _: Depth) {
    let Some((model, file)) = model(bytes, GGUF, ggufs::write) else { return };
    let reader = modelfmt_gguf::Reader::from_source(&*file).expect("what we write opens");
    check(&model, &reader, true);
    let metadata = ggufs::metadata(&model);
    same_metadata(&metadata, reader.index().metadata());
    if metadata.keys().any(modelfmt_gguf::SetIndex::is_of_file) {
        return; // what a file of a split says of itself is no metadata of the model
    }
    let size = 40 * u64::from(flags(bytes) >> 2);
    let options = ggufs::options(flags(bytes)).shard_size(size);
    let specs = model.specs.iter().cloned();
    let plan = modelfmt_gguf::SetPlan::new("m", specs, &metadata, &options).expect("a split of what fits");
    let folder = MemoryFolder::default();
    plan.write(&model.values, &folder, &Execution::sequential()).expect("memory takes everything");
    let names: Vec<&str> = plan.shards().map(|(name, _)| name).collect();
    if names.len() == 1 {
        return; // one file is no split, and has been read above
    }
    let name = names.get(usize::from(flags(bytes)) % names.len()).expect("a file of the split");
    let set = modelfmt_gguf::SetReader::from_files(folder.files(), name).expect("what we write opens");
    check(&model, &set, true);
    same_metadata(&metadata, set.index().metadata());
}

/// Compares with the values that were written; the alignment may have been added.
fn same_metadata(written: &modelfmt_gguf::Metadata, found: &modelfmt_gguf::Metadata) {
    const ALIGNMENT: &str = "general.alignment";
    let but_alignment = |metadata: &modelfmt_gguf::Metadata| {
        metadata.keys().filter(|key| *key != ALIGNMENT).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(but_alignment(found), but_alignment(written));
    for (key, value) in written.iter().filter(|(key, _)| *key != ALIGNMENT) {
        assert_eq!(found.get(key), Some(value), "{key}");
    }
}

pub fn safetensors(bytes: &[u8], _: Depth) {
    let Some((model, file)) = model(bytes, SAFETENSORS, writers::safetensors) else { return };
    let reader = modelfmt_safetensors::Reader::from_source(&*file).expect("what we write opens");
    check(&model, &reader, true);
}

pub fn apr2(bytes: &[u8], _: Depth) {
    let Some((model, file)) = model(bytes, APR2, writers::apr2) else { return };
    let reader = apr2::Reader::from_source(&*file).expect("what we write opens");
    check(&model, &reader, false);
    let architecture = reader.index().metadata().architecture().expect("what was written");
    assert_eq!(architecture.sorted_clone(), model.metadata.sorted_clone());
}

pub fn apr(bytes: &[u8], _: Depth) {
    let Some((model, file)) = model(bytes, APR, writers::apr) else { return };
    let reader = apr::Reader::from_source(&*file).expect("what we write opens");
    check(&model, &reader, true);
    assert!(reader.tensors().iter().is_sorted_by_key(|info| info.name), "the index is sorted");
    let own = reader.index().metadata().object().get("own").and_then(|own| own.as_object());
    assert_eq!(own.expect("what was written").sorted_clone(), model.metadata.sorted_clone());
}

pub fn aero(bytes: &[u8], _: Depth) {
    let Some((model, file)) = model(bytes, AERO, writers::aero) else { return };
    let reader = aero::Reader::from_source(&*file).expect("what we write opens");
    check(&model, &reader, true);
    let json = reader.metadata().expect("metadata that decodes");
    assert_eq!(json.sorted_clone(), writers::aero_metadata(&model).sorted_clone());
}

trait SortedClone {
    fn sorted_clone(&self) -> Self;
}

impl SortedClone for modelfmt_core::value::Object {
    fn sorted_clone(&self) -> Self {
        self.clone().sorted()
    }
}
