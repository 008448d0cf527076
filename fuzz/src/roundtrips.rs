//! Any model that a format can hold: what is written is sound, is read again, and is the same bytes each time.

use arbitrary::{Arbitrary, Result, Unstructured};
use modelfmt_core::{Container, DType, Execution, VerifyLevel};

use super::drill::Depth;
use super::model::{Model, Taste};
use super::writers::{self, Write};

fn model(bytes: &[u8], taste: Taste, write: Write) -> Option<(Model, Vec<u8>)> {
    let mut u = Unstructured::new(bytes);
    let made: Result<_> = (|| {
        let flags = u8::arbitrary(&mut u)?;
        let any = Taste { declared: taste.declared, ..Taste::ANY };
        Ok((flags, Model::arbitrary(&mut u, if flags & 0xe0 == 0xe0 { any } else { taste })?))
    })();
    let (flags, model) = made.ok()?;
    let file = write(&model, flags, &Execution::sequential())?;
    let work = Execution { threads: if flags & 0x60 == 0x60 { 3 } else { 1 }, progress: None };
    assert!(write(&model, flags, &work).as_ref() == Some(&file), "the same input gives the same bytes");
    Some((model, file))
}

/// Looks for every tensor by name. `has_scalars` is false where a scalar becomes the shape [1].
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
pub(crate) const MAG: Taste = Taste { dtypes: NUMBERS, plain_names: false, declared: false };
pub(crate) const OINF: Taste = Taste {
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
pub(crate) const SAFETENSORS: Taste = Taste {
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
pub(crate) const APR2: Taste = Taste {
    dtypes: &[DType::F32, DType::F16, DType::BF16, DType::I8, DType::Q8_0, DType::Q4_0, DType::Q5_1],
    plain_names: false,
    declared: false,
};
pub(crate) const APR: Taste = Taste {
    dtypes: &[DType::F32, DType::F16, DType::BF16, DType::F64, DType::I8, DType::AprQ4, DType::AprQ8],
    plain_names: false,
    declared: false,
};
pub(crate) const AERO: Taste = Taste {
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

pub fn mag(bytes: &[u8], _: Depth) {
    let Some((model, file)) = model(bytes, MAG, writers::mag) else { return };
    let reader = mag::Reader::from_source(&*file).expect("what we write opens");
    check(&model, &reader, false);
    assert_eq!(reader.index().metadata().len(), model.metadata.len());
}

pub fn oinf(bytes: &[u8], _: Depth) {
    let Some((model, file)) = model(bytes, OINF, writers::oinf) else { return };
    let reader = oinf::Reader::from_source(&*file).expect("what we write opens");
    check(&model, &reader, true);
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
