//! Compares with openinfer-oinf 0.1.1, the format's own writer and verifier, byte for byte.

#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use std::fs;
use std::path::Path;

use modelfmt_core::Container;
use oinf::modelfmt_core::value::{Object, Value, json};
use oinf::{DType, MetaValue, Metadata, Reader, TensorSpec, VerifyLevel};

/// The number of files that the oracle writes: from fields, with few entries, with many entries.
const FILES: usize = 120;

#[test]
fn files_of_the_oracle_are_read_and_written_again_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let _ = testkit::python(include_str!("../oracle/write.py"), &[path, &FILES.to_string()]);
    for number in 0..FILES {
        let path = folder.path().join(format!("{number}.oinf"));
        let reader = Reader::open(&path).unwrap_or_else(|e| panic!("{number}: {e}"));
        let expected = fs::read(path.with_extension("json")).unwrap();
        let expected = json::parse(&expected).unwrap();
        assert_eq!(seen(&reader), expected, "{number}");
        let report = reader.verify(VerifyLevel::Full);
        assert!(report.is_ok(), "{number}: {:?}", report.errors);
        let bytes = fs::read(&path).unwrap();
        assert!(crate::common::rewrite(&reader) == bytes, "{number}: other bytes");
        assert!(bytes.len() < 1 << 20 && reader.index().file_len() == bytes.len() as u64);
    }
}

/// Returns what a reader sees in a file, in the form of the oracle's script.
fn seen<S: oinf::Source>(reader: &Reader<S>) -> Value {
    let tensors = reader.tensors().iter().map(|tensor| {
        let bytes = tensor.has_data.then(|| reader.tensor(tensor.name).unwrap().into_bytes());
        let hex = bytes.map(|bytes| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        let mut object = Object::new();
        object.insert("name", tensor.name);
        object.insert("dtype", tensor.dtype.name());
        object.insert("shape", tensor.shape.iter().copied().collect::<Value>());
        object.insert("values", hex);
        object
    });
    let mut all = Object::new();
    all.insert("sizevars", reader.details().unwrap().get("sizevars").cloned());
    all.insert("metadata", Container::metadata(reader).unwrap());
    all.insert("tensors", tensors.collect::<Value>());
    // Goes through text, in which NaN and infinities are strings.
    json::parse(json::to_string(&Value::from(all)).unwrap().as_bytes()).unwrap()
}

#[test]
fn files_of_ours_pass_its_verifier() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..40 {
        save(folder.path(), number, &random(number));
    }
    let path = folder.path().to_str().unwrap();
    let text = testkit::python(include_str!("../oracle/verify.py"), &[path, "without"]);
    assert_eq!(text.matches("== ").count(), 40, "{text}");
    // The golden files of the verifier's version.
    let one = tempfile::tempdir().unwrap();
    let mut count = 0;
    for path in testkit::golden_files("oinf", "oinf") {
        if Reader::open(&path).unwrap().index().version() == oinf::Version::V1 {
            fs::copy(&path, one.path().join(path.file_name().unwrap())).unwrap();
            count += 1;
        }
    }
    let text =
        testkit::python(include_str!("../oracle/verify.py"), &[one.path().to_str().unwrap(), "without"]);
    assert_eq!(text.matches("== ").count(), count, "{text}");
}

/// The types 16 to 25 in version 1, in tensors and metadata: the verifier reads the same values as we do. It
/// calls f8_e5m2 f8.
#[test]
fn it_reads_the_types_that_came_later() {
    let folder = tempfile::tempdir().unwrap();
    let mut expected = String::new();
    for seed in 0..30 {
        let mut random = crate::common::Random(seed);
        let metadata = (0..random.below(6))
            .fold(Metadata::new(), |metadata, n| metadata.value(format!("k.{n}"), random.later_value()));
        let specs: Vec<_> = (0..random.below(10)).map(|n| random.later_spec(format!("t-{n}"))).collect();
        let data: Vec<_> = specs.iter().map(|spec| random.values(spec)).collect();
        let options = oinf::WriteOptions::new().extended_types(true);
        let file = crate::common::write_as(&specs, &metadata, &data, 2, &options);
        save(folder.path(), seed, &file);
        let reader = Reader::from_source(&file[..]).unwrap();
        expected.push_str(&format!("== {seed:02}.oinf\n"));
        for (key, value) in reader.index().metadata() {
            let (dtype, shape, numbers) = match &value {
                MetaValue::Ndarray(array) => {
                    (array.dtype(), Some(array.shape()), numbers(array.dtype(), array.shape(), array.bytes()))
                }
                MetaValue::Bf16(x) => (DType::BF16, None, vec![x.to_f32()]),
                MetaValue::Small(x) => (x.dtype(), None, vec![x.to_f32()]),
                other => panic!("{other:?}"),
            };
            expected.push_str(&line(key, dtype, shape, &hex(dtype, &numbers)));
        }
        for tensor in reader.tensors() {
            let elements = if tensor.has_data { tensor.elements() } else { 0 };
            if elements == 0 {
                expected.push_str(
                    &line(tensor.name, tensor.dtype, Some(tensor.shape), "")
                        .replace(" = ", " -- uninitialized"),
                );
                continue;
            }
            let found = numbers(tensor.dtype, tensor.shape, reader.tensor(tensor.name).unwrap().bytes());
            let shape = Some(tensor.shape).filter(|_| elements > 1);
            expected.push_str(&line(tensor.name, tensor.dtype, shape, &hex(tensor.dtype, &found)));
        }
    }
    let path = folder.path().to_str().unwrap();
    let found = testkit::python(include_str!("../oracle/values.py"), &[path]);
    assert_eq!(found, expected);
}

/// Returns the line that the verifier prints.
fn line(name: &str, dtype: DType, shape: Option<&[u64]>, values: &str) -> String {
    let dtype = if dtype == DType::F8E5M2 { "f8" } else { dtype.name() };
    let dims = |shape: &[u64]| shape.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let shape = shape.map_or_else(String::new, |shape| format!("[{}]", dims(shape)));
    format!("{name}: {dtype}{shape} = {values}\n")
}

fn numbers(dtype: DType, shape: &[u64], bytes: &[u8]) -> Vec<f32> {
    let info = oinf::TensorInfo::new("", dtype, shape).unwrap();
    oinf::TensorView::new(info, oinf::Bytes::Borrowed(bytes)).unwrap().to_f32().unwrap()
}

/// Returns the bits of the numbers. A NaN is written as that word, except in f8, where the verifier takes
/// every NaN for an infinity.
fn hex(dtype: DType, numbers: &[f32]) -> String {
    let text = |x: &f32| match x.is_nan() {
        true if dtype != DType::F8E5M2 => "nan".to_owned(),
        is_nan if is_nan || x.is_infinite() => "inf".to_owned(),
        _ => format!("{:08x}", x.to_bits()),
    };
    numbers.iter().map(text).collect::<Vec<_>>().join(" ")
}

/// The verifier's own output, which shows the values that it has read.
#[test]
fn its_verifier_reads_what_we_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let bits = oinf::Bitset::from_bits([true, false, true, true, false, false, false, false, true]).unwrap();
    let array = oinf::NdArray::new(DType::I16, vec![2, 2], vec![1, 0, 2, 0, 3, 0, 0xff, 0xff]).unwrap();
    let metadata = Metadata::new()
        .sizevar("D", 128)
        .sizevar("B", u64::MAX)
        .value("mode", "clamp_up")
        .value("bits", bits)
        .value("array", array)
        .value("eps", MetaValue::F16(half(0.5)))
        .value("on", true)
        .value("n", -5i8);
    let specs = [
        TensorSpec::new("x", DType::F32, vec![]),
        TensorSpec::declared("y", DType::I16, vec![2, 3]),
        TensorSpec::new("flags", DType::Bool, vec![3]),
        TensorSpec::new("none", DType::U8, vec![2, 0]),
    ];
    let data = [10.5f32.to_le_bytes().to_vec(), vec![], vec![1, 0, 1], vec![]];
    save(folder.path(), 0, &crate::common::write(&specs, &metadata, &data, 1));
    let path = folder.path().to_str().unwrap();
    let text = testkit::python(include_str!("../oracle/verify.py"), &[path, "with"]);
    let expected = "\
== 00.oinf
B := 18446744073709551615
D := 128

array: i16[2, 2] = { \n{ 1, 2 } ,\n{ 3, -1 } ,\n}
bits: bitset[9] = 0d 01
eps: f16 = 0.5
mode: str = \"clamp_up\"
n: i8 = -5
on: bool = true

flags: bool[3] = { true, false, true }
- [nbytes: 3, min: 0, max: 1, mean: 0.666667, median: 1, std: 0.471405]
- hist: {([0, 0], 1), ([1, 1], 2)}

none: u8[2, 0] -- uninitialized

x: f32 = 10.5

y: i16[2, 3] -- uninitialized

";
    assert_eq!(text, expected);
}

fn half(x: f32) -> modelfmt_core::f16 {
    modelfmt_core::f16::from_f32(x)
}

fn save(folder: &Path, number: u64, bytes: &[u8]) {
    fs::write(folder.join(format!("{number:02}.oinf")), bytes).unwrap();
}

/// Writes a file with every dtype and every metadata type. Sizes and values depend on the seed.
fn random(seed: u64) -> Vec<u8> {
    let mut random = crate::common::Random(seed);
    let metadata = (0..random.below(12)).fold(Metadata::new(), |metadata, n| {
        let value = random.value();
        metadata.sizevar(format!("S{n}"), random.next()).value(format!("k.{n}"), value)
    });
    let specs: Vec<_> = (0..random.below(20)).map(|n| random.spec(format!("t-{n}"))).collect();
    let data: Vec<_> = specs.iter().map(|spec| random.values(spec)).collect();
    crate::common::write(&specs, &metadata, &data, 2)
}
