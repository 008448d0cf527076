//! Random models become GGUF, and gguf-py's reader must find in them what was written.

use modelfmt::convert::Overwrite;
use modelfmt::{DType, Format};
use modelfmt_core::value::{Object, Value, json};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::common::{T, all, options, safetensors, tensor};

const CASES: usize = 40;

/// The types that both safetensors and ggml have.
const DTYPES: [DType; 8] =
    [DType::F32, DType::F16, DType::BF16, DType::F64, DType::I8, DType::I16, DType::I32, DType::I64];

/// Returns a value and its type in gguf-py's names. For an array, the type of the array comes before the type
/// of its members.
fn values() -> impl Strategy<Value = (Value, Vec<&'static str>)> {
    let list = |items: Vec<i64>, kind: &'static str| {
        (items.into_iter().map(Value::from).collect::<Value>(), vec!["array", kind])
    };
    prop_oneof![
        any::<i32>().prop_map(|n| (n.into(), vec!["int32"])),
        (1u32 << 31..).prop_map(|n| (n.into(), vec!["uint32"])),
        (i64::MIN..i64::from(i32::MIN)).prop_map(|n| (n.into(), vec!["int64"])),
        (1u64 << 32..1 << 63).prop_map(|n| (n.into(), vec!["int64"])),
        (1u64 << 63..).prop_map(|n| (n.into(), vec!["uint64"])),
        (-1000i32..1000).prop_map(|n| (Value::Float(f64::from(n) / 7.0), vec!["float64"])),
        any::<bool>().prop_map(|b| (b.into(), vec!["bool"])),
        "[a-z é\"{}]{0,9}".prop_map(|text| (text.into(), vec!["string"])),
        proptest::collection::vec(any::<i32>().prop_map(i64::from), 1..5).prop_map(move |n| list(n, "int32")),
        proptest::collection::vec(-1i64..=u32::MAX.into(), 9..12).prop_map(move |mut n| {
            n.extend([-1, u32::MAX.into()]);
            list(n, "int64")
        }),
        proptest::collection::vec("[a-z]{0,3}", 1..5)
            .prop_map(|texts| (texts.into_iter().map(Value::from).collect(), vec!["array", "string"])),
        proptest::collection::vec(any::<bool>(), 1..5)
            .prop_map(|flags| (flags.into_iter().map(Value::from).collect(), vec!["array", "bool"])),
    ]
}

type Described = (Vec<(String, (Value, Vec<&'static str>))>, Vec<(usize, Vec<u64>)>, u32, bool);

fn models() -> impl Strategy<Value = Described> {
    (
        proptest::collection::vec(("[a-z._]{1,12}", values()), 0..7),
        proptest::collection::vec((0..DTYPES.len(), proptest::collection::vec(1u64..5, 1..5)), 1..6),
        0u32..9,
        any::<bool>(),
    )
}

#[test]
fn the_reader_of_gguf_py_finds_what_was_put_there() {
    let folder = tempfile::tempdir().unwrap();
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut expected = Vec::new();
    for number in 0..CASES {
        let (entries, tensors, shift, is_split) = models().new_tree(&mut runner).unwrap().current();
        let keys: Object = entries.iter().map(|(key, (value, _))| (key.clone(), value.clone())).collect();
        let kinds: Vec<(String, Vec<&str>)> = keys
            .keys()
            // If a key occurs twice, the last value counts.
            .map(|key| {
                entries
                    .iter()
                    .rev()
                    .find(|(other, _)| other == key)
                    .map(|(key, (_, kinds))| (key.clone(), kinds.clone()))
            })
            .map(Option::unwrap)
            .collect();
        let tensors: Vec<T> = tensors
            .iter()
            .enumerate()
            .map(|(n, (dtype, shape))| tensor(format!("blk.{n}.w").leak(), DTYPES[*dtype], shape))
            .collect();
        let source = safetensors(&tensors, "{}");
        let options = options(|o| {
            o.metadata.set = Some(keys.clone());
            o.output.align = (shift > 0).then_some(1 << shift);
            o.output.shard_size = (is_split && tensors.len() > 1).then_some(1);
            o.output.overwrite = Overwrite::Refuse;
        });
        let out = folder.path().join(format!("{number:02}.gguf"));
        let done = modelfmt::Conversion::new(&source, &out).to(Format::Gguf).options(&options).write();
        let done = done.unwrap_or_else(|error| panic!("{}", all(&error)));
        expected.push((done.files, keys, kinds, tensors, 1u64 << if shift > 0 { shift } else { 5 }));
    }
    let script = include_str!("oracle/gguf_read.py");
    let found = testkit::python(script, &[folder.path().to_str().unwrap()]);
    let found = json::parse_object(found.as_bytes()).unwrap();
    let mut splits = 0;
    for (files, keys, kinds, tensors, alignment) in expected {
        splits += usize::from(files.len() > 1);
        let read: Vec<&Value> = files.iter().map(|file| found.get(&file.path).unwrap()).collect();
        let first: Vec<Value> = list(read[0], "metadata");
        let (own, added): (Vec<_>, Vec<_>) =
            first.into_iter().partition(|entry| keys.contains_key(&name(entry)));
        let of_keys = kinds.iter().map(|(key, kinds)| {
            let value = keys.get(key).cloned().unwrap();
            Value::from(vec![key.as_str().into(), kinds.iter().copied().collect::<Value>(), value])
        });
        assert_eq!(own, of_keys.collect::<Vec<_>>());
        let known = ["general.alignment", "split.no", "split.count", "split.tensors.count"];
        assert!(added.iter().all(|entry| known.contains(&name(entry).as_str())), "{added:?}");
        let all = read.iter().flat_map(|file| list(file, "tensors"));
        let all: Vec<Vec<Value>> = all.map(|tensor| tensor.as_array().unwrap().iter().collect()).collect();
        assert_eq!(all.len(), tensors.len());
        for (found, tensor) in all.iter().zip(&tensors) {
            let hex = tensor.bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            let shape = tensor.shape.iter().copied().collect::<Value>();
            let expected = [tensor.name.into(), tensor.dtype.name().into(), shape, hex.into()];
            assert_eq!(found[..], expected);
        }
        for file in read {
            assert_eq!(file.get("alignment"), Some(&alignment.into()));
        }
    }
    assert!(splits > 5, "{splits}");
}

fn list(file: &Value, key: &str) -> Vec<Value> {
    file.get(key).and_then(Value::as_array).unwrap().iter().collect()
}

fn name(entry: &Value) -> String {
    entry.as_array().unwrap().get(0).and_then(|key| key.as_str().map(str::to_owned)).unwrap()
}
