//! Shared by the tests.
#![allow(
    clippy::cast_possible_truncation,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "this is test code"
)]

#[cfg(feature = "v0_3")]
use mag::ManifestOptions;
use mag::modelfmt_core::value::{Object, Value};
use mag::write::MemoryFile;
use mag::{Checksum, DType, Error, Execution, Fault, Plan, Reader, TensorSpec, WriteOptions};
use testkit::{CountingSource, bounded};

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

/// Opens a file from memory and by ranges, with bounded memory. Both must agree.
pub(crate) fn open(file: &[u8]) -> Result<Reader<&[u8]>, Error> {
    let in_memory = bounded(file.len(), || Reader::from_source(file));
    let by_ranges = bounded(file.len(), || Reader::from_source(CountingSource::new(file.to_vec())));
    match (&in_memory, &by_ranges) {
        (Ok(_), Ok(_)) => {}
        (Err(a), Err(b)) => assert_eq!(a.to_string(), b.to_string(), "ranges and memory disagree"),
        _ => panic!("ranges and memory disagree: {:?}, {:?}", in_memory.is_ok(), by_ranges.is_ok()),
    }
    in_memory
}

/// Returns the offset and the fault of a malformed file.
pub(crate) fn malformed(file: &[u8]) -> (u64, Fault) {
    match open(file) {
        Err(Error::Malformed { at, fault, .. }) => (at, fault),
        other => panic!("{:?}", other.map(|_| "opens")),
    }
}

pub(crate) fn metadata<'a>(entries: impl IntoIterator<Item = (&'a str, Value)>) -> Object {
    entries.into_iter().collect()
}

/// Writes a file with our writer.
pub(crate) fn write(tensors: &[Tensor], metadata: &Object, checksum: Checksum) -> Vec<u8> {
    write_with(tensors, metadata, checksum, &Execution::default())
}

pub(crate) fn write_with(
    tensors: &[Tensor],
    metadata: &Object,
    checksum: Checksum,
    work: &Execution<'_>,
) -> Vec<u8> {
    let options = WriteOptions::new().checksum(checksum);
    let plan = Plan::new(tensors.iter().map(Tensor::spec), metadata, &options).unwrap();
    let values: Vec<&[u8]> = tensors.iter().map(|tensor| tensor.values.as_slice()).collect();
    let file = MemoryFile::new();
    plan.write(&values, &file, work).unwrap();
    let bytes = file.into_bytes();
    assert_eq!(bytes.len() as u64, plan.file_len());
    bytes
}

/// Writes a file of version 0.3 with our writer.
#[cfg(feature = "v0_3")]
pub(crate) fn write_0_3(tensors: &[Tensor], metadata: &Object) -> Vec<u8> {
    let specs = tensors.iter().map(Tensor::spec);
    let plan = Plan::v0_3(specs, metadata, &ManifestOptions::new()).unwrap();
    let values: Vec<&[u8]> = tensors.iter().map(|tensor| tensor.values.as_slice()).collect();
    let file = MemoryFile::new();
    plan.write(&values, &file, &Execution::default()).unwrap();
    let bytes = file.into_bytes();
    assert_eq!(bytes.len() as u64, plan.file_len());
    bytes
}

/// Returns a file of version 0.3 with this manifest and this many bytes of values, which count up from 0.
pub(crate) fn with_manifest(manifest: &[u8], values: usize) -> Vec<u8> {
    let begin = (44 + manifest.len()).next_multiple_of(4096);
    let mut file = b"MAG!".to_vec();
    file.extend(300u32.to_le_bytes());
    file.extend(0u32.to_le_bytes());
    for field in [44, manifest.len(), begin, values] {
        file.extend((field as u64).to_le_bytes());
    }
    file.extend(manifest);
    file.resize(begin, 0);
    file.extend((0..values).map(|i| i as u8));
    file
}

/// Computes, bit by bit, the right checksum of a file whose records end at `end`.
pub(crate) fn checksum_of(file: &[u8], end: usize, kind: Checksum) -> u32 {
    match kind {
        Checksum::Crc32 => testkit::crc32(&testkit::patched(&file[..end], 8, &[0; 4])),
        Checksum::Crc32c => testkit::crc32c(&file[12..end]),
    }
}

/// Corrects the checksum of a file whose records end at `end`.
pub(crate) fn signed(file: &[u8], end: usize) -> Vec<u8> {
    testkit::patched(file, 8, &checksum_of(file, end, Checksum::Crc32).to_le_bytes())
}
