//! What is written equals what gguf-py writes, and what ggml does not read is refused.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "this is test code"
)]

use std::fs;
use std::path::Path;

use modelfmt_gguf::write::{MemoryFile, MemoryFolder};
use modelfmt_gguf::{
    ArrayBuf, DType, Execution, MetaValue, Metadata, Plan, Reader, SetPlan, SetReader, TensorSpec, ValueType,
    VerifyLevel, WriteOptions,
};

/// Writes the same model with our writer.
fn written_again(path: &Path) -> Vec<u8> {
    let reader = Reader::open(path).unwrap();
    let specs = reader.tensors().iter().map(|t| TensorSpec::new(t.name, t.dtype, t.shape));
    let plan = Plan::new(specs, reader.metadata().unwrap(), &WriteOptions::new()).unwrap();
    let values: Vec<Vec<u8>> =
        reader.tensors().iter().map(|t| reader.tensor(t.name).unwrap().bytes().to_vec()).collect();
    let file = MemoryFile::new();
    plan.write(&values, &file, &Execution::default()).unwrap();
    let bytes = file.into_bytes();
    assert_eq!(plan.file_len(), bytes.len() as u64);
    bytes
}

#[test]
fn random_models_have_the_bytes_of_gguf_py() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let _ = testkit::python(include_str!("../oracle/write.py"), &[path, "8"]);
    for name in (0..8).map(|n| n.to_string()).chain(["little-endian".to_owned()]) {
        let path = folder.path().join(format!("{name}.gguf"));
        assert!(written_again(&path) == fs::read(&path).unwrap(), "{name}");
    }
    let little = fs::read(folder.path().join("little-endian.gguf")).unwrap();
    assert!(written_again(&folder.path().join("big-endian.gguf")) == little);
}

#[test]
fn ggml_reads_what_is_written_and_writes_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let _ = testkit::python(include_str!("../oracle/write.py"), &[folder.path().to_str().unwrap(), "8"]);
    let (ours, theirs) = (folder.path().join("ours.gguf"), folder.path().join("theirs.gguf"));
    for number in 0..8 {
        let reader = Reader::open(folder.path().join(format!("{number}.gguf"))).unwrap();
        let mut metadata = Metadata::new();
        for (key, value) in reader.metadata().unwrap().iter().filter(|(key, _)| *key != "test.nested") {
            metadata.push(key, value).unwrap(); // ggml has no lists of lists
        }
        let specs =
            reader.tensors().iter().map(|t| TensorSpec::new(t.name, t.dtype, without_leading_ones(t.shape)));
        let plan = Plan::new(specs, &metadata, &WriteOptions::new()).unwrap();
        let values: Vec<Vec<u8>> =
            reader.tensors().iter().map(|t| reader.tensor(t.name).unwrap().bytes().to_vec()).collect();
        let file = MemoryFile::new();
        plan.write(&values, &file, &Execution::default()).unwrap();
        fs::write(&ours, file.into_bytes()).unwrap();
        testkit::ggml_rewrites(&ours, &theirs);
        assert!(fs::read(&theirs).unwrap() == fs::read(&ours).unwrap(), "{number}");
    }
}

/// ggml writes the shape without leading dimensions of 1, but with at least one dimension.
fn without_leading_ones(shape: &[u64]) -> &[u64] {
    let ones = shape.iter().take_while(|&&dim| dim == 1).count();
    &shape[ones.min(shape.len() - 1)..]
}

#[test]
fn files_by_other_writers_are_written_again_byte_for_byte() {
    for name in ["align1", "align4", "for-aero", "q2_0", "q8_1", "rank0", "types"] {
        let path = testkit::testdata("reference/gguf").join(name).with_extension("gguf");
        assert!(written_again(&path) == fs::read(&path).unwrap(), "{name}");
    }
}

#[test]
fn a_split_by_gguf_py_is_written_again_byte_for_byte() {
    let folder = testkit::testdata("reference/gguf");
    let set = SetReader::open(folder.join("split-00001-of-00003.gguf")).unwrap();
    let infos: Vec<_> = set.tensors().map(Result::unwrap).collect();
    let specs = infos.iter().map(|t| TensorSpec::new(t.name, t.dtype, t.shape));
    let options = WriteOptions::new().shard_size(576);
    let plan = SetPlan::new("split", specs, set.metadata().unwrap(), &options).unwrap();
    let values: Vec<Vec<u8>> = infos.iter().map(|t| set.tensor(t.name).unwrap().bytes().to_vec()).collect();
    let files = MemoryFolder::default();
    plan.write(&values, &files, &Execution::default()).unwrap();
    let files = files.files().0;
    assert_eq!(files.len(), 3);
    for (name, bytes) in &files {
        assert!(**bytes == *fs::read(folder.join(name)).unwrap(), "{name}");
    }
    assert_eq!(plan.total_len(), files.values().map(|bytes| bytes.len() as u64).sum::<u64>());
}

fn model() -> Metadata {
    let mut metadata = Metadata::new();
    let mut inner = ArrayBuf::new(ValueType::Bool);
    inner.push(MetaValue::Bool(true)).unwrap();
    let mut outer = ArrayBuf::new(ValueType::Array);
    outer.push(inner.as_value()).unwrap();
    metadata.push("lists", outer.as_value()).unwrap();
    metadata.push("name", MetaValue::String("x")).unwrap();
    metadata
}

#[test]
fn every_alignment_is_written_and_read() {
    let specs = || {
        [
            TensorSpec::new("a", DType::I8, &[5]),
            TensorSpec::new("none", DType::F32, &[0, 3]),
            TensorSpec::new("s", DType::I16, &[]),
        ]
    };
    let values: [&[u8]; 3] = [&[1, 2, 3, 4, 5], &[], &[6, 7]];
    for alignment in [1, 2, 8, 32, 64, 4096] {
        let options = WriteOptions::new().alignment(alignment);
        let plan = Plan::new(specs(), &model(), &options).unwrap();
        let file = MemoryFile::new();
        plan.write(&values, &file, &Execution::default()).unwrap();
        let reader = Reader::from_source(file.into_bytes()).unwrap();
        assert_eq!(reader.index().alignment(), alignment);
        assert!(reader.verify(VerifyLevel::Full).is_ok());
        assert_eq!(reader.index().metadata().get("general.alignment").is_some(), alignment != 32);
        assert_eq!(reader.tensor("s").unwrap().bytes(), [6, 7]);
        // Back to 32, although the metadata state another alignment.
        let back = Plan::new(specs(), reader.metadata().unwrap(), &options.alignment(32)).unwrap();
        assert_eq!(back.tensors().offset(2).unwrap() % 32, back.tensors().offset(0).unwrap() % 32);
    }
}

#[test]
fn what_ggml_does_not_read_is_refused() {
    let one = |name: &str, dtype, shape: &[u64]| {
        Plan::new([TensorSpec::new(name, dtype, shape)], &Metadata::new(), &WriteOptions::new())
            .unwrap_err()
            .to_string()
    };
    let keyed = |key: &str, value| {
        let mut metadata = Metadata::new();
        metadata.push(key, value).unwrap();
        Plan::new([], &metadata, &WriteOptions::new()).unwrap_err().to_string()
    };
    let long = "n".repeat(64);
    assert_eq!(
        one(&long, DType::I8, &[1]),
        format!("tensor {long:?}: the name has 64 bytes, and ggml reads names below 64")
    );
    assert!(one("w", DType::U8, &[1]).starts_with("tensor \"w\": ggml has no type for u8"));
    assert_eq!(
        one("w", DType::I8, &[1; 5]),
        "tensor \"w\": the rank is 5, and ggml has at most 4 dimensions"
    );
    assert_eq!(
        one("w", DType::Q8_0, &[2, 16]),
        "tensor \"w\": rows of 16 elements do not divide into whole blocks of q8_0"
    );
    assert!(one("w", DType::Q8_0, &[]).contains("does not divide"));
    assert!(one("w", DType::F64, &[1 << 62]).starts_with("tensor \"w\": "));
    assert!(one("w", DType::I8, &[i64::MAX as u64]).contains("w"));
    let twice = [TensorSpec::new("w", DType::I8, &[1]), TensorSpec::new("w", DType::I8, &[1])];
    let options = WriteOptions::new();
    assert!(
        Plan::new(twice.clone(), &Metadata::new(), &options).unwrap_err().to_string().contains("used twice")
    );
    let split = SetPlan::new("m", twice, &Metadata::new(), &options.clone().shard_size(1));
    assert!(split.unwrap_err().to_string().contains("used twice"));
    assert_eq!(keyed("é", MetaValue::U8(1)), "metadata key \"é\": keys of GGUF are ASCII");
    assert!(keyed(&"k".repeat(65_536), MetaValue::U8(1)).contains("has 65536 bytes"));
    assert!(keyed("general.alignment", MetaValue::U64(32)).contains("must be a u32"));
    assert!(keyed("general.alignment", MetaValue::U32(0)).contains("not a power of two"));
    assert!(keyed("split.count", MetaValue::U16(2)).contains("only the writer of split sets"));
    assert!(SetPlan::new("../m", [], &Metadata::new(), &options).is_err());
    let many = (0..65_536).map(|n| TensorSpec::new(n.to_string(), DType::I8, &[1]));
    assert!(
        SetPlan::new("m", many, &Metadata::new(), &options.shard_size(1))
            .unwrap_err()
            .to_string()
            .contains("more than")
    );
    let mut metadata = model();
    assert!(metadata.push("name", MetaValue::U8(1)).is_err());
    let mut list = ArrayBuf::new(ValueType::U8);
    assert!(list.push(MetaValue::U16(1)).is_err());
    for depth in 1..126 {
        let mut outer = ArrayBuf::new(ValueType::Array);
        outer.push(list.as_value()).unwrap_or_else(|e| panic!("{depth}: {e}"));
        list = outer;
    }
    assert!(ArrayBuf::new(ValueType::Array).push(list.as_value()).is_err());
}
