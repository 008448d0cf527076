//! Shared by the tests.
#![allow(
    clippy::cast_possible_truncation,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "this is test code"
)]

use modelfmt_safetensors::value::Object;
use modelfmt_safetensors::write::MemoryFile;
use modelfmt_safetensors::{DType, Execution, Plan, Reader, Source, TensorSpec, WriteOptions};

/// Returns every dtype of the format.
pub(crate) fn dtypes() -> Vec<DType> {
    let all = DType::ALL.iter().copied();
    let dtypes: Vec<DType> = all.filter(|&dtype| modelfmt_safetensors::can_hold(dtype)).collect();
    assert_eq!(dtypes.len(), 22);
    dtypes
}

/// A tensor to write, with its values.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<u64>,
    pub(crate) values: Vec<u8>,
}

impl Tensor {
    /// Creates a tensor whose bytes count up from `first`.
    pub(crate) fn counting(name: &str, dtype: DType, shape: &[u64], first: u8) -> Self {
        let nbytes = dtype.nbytes(shape).unwrap();
        let values = (0..nbytes).map(|i| first.wrapping_add(i as u8)).collect();
        Self { name: name.to_owned(), dtype, shape: shape.to_vec(), values }
    }

    pub(crate) fn spec(&self) -> TensorSpec<'_> {
        TensorSpec::new(&self.name, self.dtype, &self.shape)
    }
}

pub(crate) fn values(tensors: &[Tensor]) -> Vec<&[u8]> {
    tensors.iter().map(|tensor| tensor.values.as_slice()).collect()
}

pub(crate) fn strings<'a>(entries: impl IntoIterator<Item = (&'a str, &'a str)>) -> Object {
    entries.into_iter().collect()
}

/// Writes a file with our writer.
pub(crate) fn write(tensors: &[Tensor], metadata: Option<&Object>, work: &Execution<'_>) -> Vec<u8> {
    let plan = Plan::new(tensors.iter().map(Tensor::spec), metadata, &WriteOptions::new()).unwrap();
    let file = MemoryFile::new();
    plan.write(&values(tensors), &file, work).unwrap();
    let bytes = file.into_bytes();
    assert_eq!(bytes.len() as u64, plan.file_len());
    bytes
}

/// Writes the content that a reader sees with our writer.
pub(crate) fn rewrite<S: Source>(reader: &Reader<S>) -> Vec<u8> {
    let specs = reader.tensors().iter().map(TensorSpec::from);
    let plan = Plan::new(specs, reader.index().metadata(), &WriteOptions::new()).unwrap();
    let read = |position| reader.tensor(position).unwrap().bytes().to_vec();
    let values: Vec<_> = (0..reader.tensors().len()).map(read).collect();
    let file = MemoryFile::new();
    plan.write(&values, &file, &Execution::default()).unwrap();
    file.into_bytes()
}

/// Returns a file with this header and these data.
pub(crate) fn file(header: &str, data: &[u8]) -> Vec<u8> {
    raw(header.as_bytes(), data)
}

/// Returns a file with this header, which may be anything.
pub(crate) fn raw(header: &[u8], data: &[u8]) -> Vec<u8> {
    let len = header.len() as u64;
    [&len.to_le_bytes(), header, data].concat()
}

/// Returns the entry of a tensor in a header, made from these texts.
pub(crate) fn entry(name: &str, dtype: &str, shape: &str, offsets: &str) -> String {
    format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}"#)
}

/// Returns the JSON of a header with these entries.
pub(crate) fn header(entries: &[&str]) -> String {
    format!("{{{}}}", entries.join(","))
}
