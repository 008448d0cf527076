//! Files that exist: read, and written again byte for byte.
use oinf::{Level, Plan, Reader, Work, WriteOptions};
use tensor_core::write::{MemoryFile, TensorSpec};

#[test]
fn smoke() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/reference/simple_model.oinf");
    let reader = Reader::open(path).unwrap();
    let plan = Plan::new(
        reader.tensors().map(TensorSpec::from),
        &reader.index().to_metadata(),
        &WriteOptions::new(),
    )
    .unwrap();
    let data: Vec<Vec<u8>> = reader
        .tensors()
        .map(|t| if t.has_data { reader.tensor(t.name).unwrap().bytes().to_vec() } else { Vec::new() })
        .collect();
    let file = MemoryFile::new();
    plan.write(&data, &file, &Work::default()).unwrap();
    assert!(file.into_bytes() == std::fs::read(path).unwrap());
    let report = reader.verify(Level::Full);
    assert!(report.is_ok(), "{report:?}");
}
