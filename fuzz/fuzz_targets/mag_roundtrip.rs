//! Any model that MAG can hold: what is written is read again and written again to the same bytes.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use mag::tensor_core::write::{MemoryFile, TensorData};
use mag::{Checksum, DType, Error, Level, Metadata, Number, Plan, Reader, TensorSpec, Work, WriteOptions};

#[derive(Arbitrary, Debug)]
struct Model {
    tensors: Vec<(String, u8, Vec<u8>, u8)>,
    metadata: BTreeMap<String, (bool, u64)>,
    castagnoli: bool,
}

/// Values are made, not taken from the input, so that small inputs make large models; but not larger than this.
const MAX_NBYTES: u64 = 1 << 16;

fuzz_target!(|model: Model| {
    let specs: Vec<_> = model.tensors.iter().map(spec).collect();
    let nbytes = |spec: &TensorSpec<'_>| spec.dtype.nbytes(&spec.shape).unwrap_or(0);
    if specs.iter().fold(0, |sum: u64, spec| sum.saturating_add(nbytes(spec))) > MAX_NBYTES {
        return;
    }
    let mut metadata = Metadata::new();
    for (key, &(integer, bits)) in &model.metadata {
        let value = if integer { Number::I64(bits.cast_signed()) } else { Number::F64(f64::from_bits(bits)) };
        metadata.push(key, value).expect("keys of a map are unique");
    }
    let checksum = if model.castagnoli { Checksum::Crc32c } else { Checksum::Crc32 };
    let values: Vec<_> =
        specs.iter().zip(&model.tensors).map(|(s, t)| vec![t.3; nbytes(s) as usize]).collect();

    let Some(file) = write(&specs, &metadata, checksum, &values) else { return };
    let reader = Reader::from_source(file.as_slice()).expect("what we write opens");
    assert_eq!(reader.index().checksum(), Some(checksum));
    assert!(reader.verify(Level::Full).is_ok());
    for (position, values) in values.iter().enumerate() {
        assert_eq!(reader.tensor_at(position).expect("a tensor").bytes(), values);
    }
    let specs: Vec<_> = reader.tensors().map(TensorSpec::from).collect();
    let again = write(&specs, reader.metadata(), checksum, &values);
    assert!(again.is_some_and(|again| again == file), "written again, byte for byte");
});

/// Every dtype, also those that MAG has no code for; dimensions in 0..8 and sometimes vast.
fn spec((name, dtype, dims, _): &(String, u8, Vec<u8>, u8)) -> TensorSpec<'_> {
    let dim = |&byte: &u8| if byte == 255 { 1 << 40 } else { u64::from(byte % 8) };
    let dtype = DType::ALL[usize::from(*dtype) % DType::ALL.len()];
    TensorSpec::new(name, dtype, dims.iter().map(dim).collect::<Vec<_>>())
}

/// The file, unless MAG cannot hold the model.
fn write(
    specs: &[TensorSpec<'_>],
    metadata: &Metadata,
    checksum: Checksum,
    values: &dyn TensorData,
) -> Option<Vec<u8>> {
    let plan = match Plan::new(specs.iter().cloned(), metadata, &WriteOptions::new().checksum(checksum)) {
        Ok(plan) => plan,
        Err(Error::Unfit { .. }) => return None,
        Err(error) => panic!("planning does nothing that can fail otherwise: {error}"),
    };
    let file = MemoryFile::new();
    plan.write(values, &file, &Work::sequential()).expect("memory takes everything");
    let bytes = file.into_bytes();
    assert_eq!(bytes.len() as u64, plan.file_len());
    Some(bytes)
}
