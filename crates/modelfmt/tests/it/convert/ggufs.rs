//! GGUF to every other format and back gives the same bytes.

use std::path::Path;

use modelfmt::convert::ConvertOptions;
use modelfmt::convert::TypeRule;
use modelfmt::{DType, Execution, Format, Model, VerifyLevel};
use modelfmt_core::value::{Object, Value, json};
use modelfmt_gguf::{ArrayBuf, MetaValue, Metadata, Plan, ValueType, WriteOptions};
use modelfmt_write::{MemoryFile, TensorSpec};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::common::{T, all, apr2, convert, notes, object, open, options, safetensors, tensor, try_convert};

/// Targets that can hold all of GGUF's metadata, if the types of the tensors fit.
const CARRIERS: [Format; 10] = [
    Format::Aero,
    Format::AeroSet,
    Format::Apr2,
    Format::Apr2Sharded,
    Format::Apr,
    Format::Safetensors,
    Format::SafetensorsSharded,
    Format::Gguf,
    Format::GgufSharded,
    Format::Mag,
];

/// Returns the options with which a model is converted to a carrier without a loss.
fn there(carrier: Format) -> ConvertOptions {
    options(|o| {
        o.metadata.stringify = carrier == Format::Safetensors;
        o.output.shard_size = (carrier == Format::GgufSharded).then_some(1);
        // MAG version 1 has only numbers.
        o.output.version = (carrier == Format::Mag).then(|| "0.3".to_owned());
    })
}

fn gguf_bytes(model: &Model) -> Vec<u8> {
    let file = MemoryFile::new();
    modelfmt::Conversion::to_format(model, Format::Gguf)
        .options(&options(|_| {}))
        .execution(&Execution::sequential())
        .write_to_sink(&file)
        .unwrap_or_else(|error| panic!("back: {}", all(&error)));
    file.into_bytes()
}

/// Checks whether a conversion failed only because the target lacks dtypes, ranks or names of tensors, or any
/// tensors.
fn lacks_types(error: &modelfmt::Error) -> bool {
    // MAG 0.3 requires a tensor with values, and dimensions below 2^63.
    if matches!(error, modelfmt::Error::Refused { .. }) {
        return error.to_string().contains("MAG 0.3 needs one")
            || error.to_string().contains("more than 2^63");
    }
    let modelfmt::Error::Unsupported { unsupported, .. } = error else { return false };
    unsupported.iter().all(|item| item.what().starts_with("tensor "))
}

/// Converts to each carrier, and from it to each second carrier. Returns the number of ways.
fn round_trips(bytes: &[u8], what: &str) -> usize {
    let source = open("m.gguf", bytes.to_vec());
    let mut trips = 0;
    for first in CARRIERS {
        let carried = match try_convert(&source, first, &there(first)) {
            Ok((carried, done)) => {
                assert!(done.dropped.is_empty());
                carried
            }
            Err(error) if lacks_types(&error) => continue,
            Err(error) => panic!("{what} to {first}: {}", all(&error)),
        };
        assert!(gguf_bytes(&carried) == bytes, "{what} by {first}");
        let same = modelfmt::diff::diff(&source, &carried, &Execution::sequential()).unwrap();
        // A key that a format requires in another form has another value there.
        let asked = ["model_name", "architecture", "model_type"];
        // JSON cannot hold a NaN as a number, and in safetensors everything is text.
        let is_other = |value: &Option<Value>| value.as_ref().is_some_and(|value| !value.is_json());
        let mut differing = same.metadata.iter().filter(|_| first != Format::Safetensors);
        let other = differing.find(|entry| !asked.contains(&entry.key.as_str()) && !is_other(&entry.a));
        assert!(other.is_none(), "{what} by {first}: {other:?}");
        for second in CARRIERS {
            match try_convert(&carried, second, &there(second)) {
                Ok((further, _)) => {
                    let back = gguf_bytes(&further);
                    if back != bytes {
                        let json = |model: &Model| json::to_string(&model.metadata().unwrap()).unwrap();
                        let back = open("back.gguf", back);
                        let ways = [json(&source), json(&carried), json(&further), json(&back)];
                        panic!("{what} by {first}, {second}: {}", ways.join("\n"));
                    }
                }
                Err(error) => assert!(lacks_types(&error), "{what} by {first} to {second}: {}", all(&error)),
            }
        }
        trips += 1;
    }
    trips
}

#[test]
fn files_by_other_writers_come_back_byte_for_byte() {
    let mut trips = 0;
    for path in testkit::golden_files("reference/gguf", "gguf") {
        if path.file_name().unwrap().to_str().unwrap().starts_with("split") {
            continue;
        }
        trips += round_trips(&std::fs::read(&path).unwrap(), &path.display().to_string());
    }
    assert!(trips > 30, "{trips}");
    // Files of our own builder may have gaps, ties or another version. What we write from them must come
    // back.
    for path in testkit::golden_files("gguf", "gguf") {
        let model = Model::open(&path).unwrap();
        if path.ends_with("names.gguf") || path.ends_with("odd.gguf") {
            // The specification allows longer names than ggml reads; these files have other faults.
            let text = all(&try_convert(&model, Format::Gguf, &options(|_| {})).unwrap_err());
            assert!(text.contains("names of gguf have at most 63 bytes"), "{text}");
            continue;
        }
        let written = gguf_bytes(&model);
        assert!(round_trips(&written, &path.display().to_string()) >= 4, "{}", path.display());
    }
}

/// A value of any type, made from a few numbers.
#[derive(Clone, Debug)]
enum Any {
    Scalar(u8, u64),
    Text(String),
    List(Vec<Any>),
}

fn scalar(kind: u8, bits: u64) -> MetaValue<'static> {
    match kind % 12 {
        0 => MetaValue::U8(bits as u8),
        1 => MetaValue::I8(bits as i8),
        2 => MetaValue::U16(bits as u16),
        3 => MetaValue::I16(bits as i16),
        4 => MetaValue::U32(bits as u32),
        5 => MetaValue::I32(bits as i32),
        6 => MetaValue::U64(bits),
        7 => MetaValue::I64(bits.cast_signed()),
        8 => MetaValue::Bool(bits % 2 == 1),
        9 => MetaValue::F32(f32::from_bits(bits as u32)),
        10 => MetaValue::F32((bits % 1000) as f32 / 8.0),
        _ => MetaValue::F64(f64::from_bits(bits)),
    }
}

fn kind_of(value: &Any) -> ValueType {
    match value {
        Any::Scalar(kind, bits) => scalar(*kind, *bits).value_type(),
        Any::Text(_) => ValueType::String,
        Any::List(_) => ValueType::Array,
    }
}

/// Returns the members that have the same type as the first.
fn list(members: &[Any]) -> ArrayBuf {
    let kind = members.first().map_or(ValueType::U16, kind_of);
    let mut list = ArrayBuf::new(kind);
    for member in members.iter().filter(|member| kind_of(member) == kind) {
        match member {
            Any::Scalar(kind, bits) => list.push(scalar(*kind, *bits)),
            Any::Text(text) => list.push(MetaValue::String(text)),
            Any::List(inner) => list.push(self::list(inner).as_value()),
        }
        .unwrap();
    }
    list
}

fn values() -> BoxedStrategy<Any> {
    let leaf = prop_oneof![
        3 => (any::<u8>(), any::<u64>()).prop_map(|(kind, bits)| Any::Scalar(kind, bits)),
        2 => (any::<u8>(), 0u64..3).prop_map(|(kind, bits)| Any::Scalar(kind, bits)),
        1 => ".{0,6}".prop_map(Any::Text),
        1 => proptest::sample::select(&["NaN", "null", "1", "[1]", "\"a\"", ""][..]).prop_map(|text| Any::Text(text.to_owned())),
    ];
    leaf.prop_recursive(3, 24, 5, |inner| proptest::collection::vec(inner, 0..5).prop_map(Any::List)).boxed()
}

fn keys() -> BoxedStrategy<String> {
    const KNOWN: [&str; 9] = [
        "general.name",
        "general.architecture",
        "general.file_type",
        "general.quantization_version",
        "tokenizer.ggml.tokens",
        "model_name",
        "architecture",
        "model_type",
        "quantization",
    ];
    prop_oneof![
        1 => proptest::sample::select(&KNOWN[..]).prop_map(str::to_owned),
        2 => "[ -~]{1,6}",
    ]
    .boxed()
}

/// What a file has: metadata, tensors by type and rows, and its alignment.
type Described = (Vec<(String, Any)>, Vec<(usize, u64)>, u32);

fn models() -> impl Strategy<Value = Described> {
    (
        proptest::collection::vec((keys(), values()), 0..8),
        proptest::collection::vec((0usize..DTYPES.len(), 0u64..4), 0..5),
        0u32..8,
    )
}

const DTYPES: [DType; 8] =
    [DType::F32, DType::F16, DType::BF16, DType::I32, DType::Q8_0, DType::Q4K, DType::F64, DType::Iq4Nl];

fn build((entries, tensors, shift): &Described) -> Vec<u8> {
    let mut metadata = Metadata::new();
    for (key, value) in entries {
        let list = if let Any::List(members) = value { list(members) } else { ArrayBuf::new(ValueType::U8) };
        let value = match value {
            Any::Scalar(kind, bits) => scalar(*kind, *bits),
            Any::Text(text) => MetaValue::String(text),
            Any::List(_) => list.as_value(),
        };
        let _ = metadata.push(key, value); // a key twice is there once
    }
    let described: Vec<(String, DType, Vec<u64>)> = tensors
        .iter()
        .enumerate()
        .map(|(number, &(dtype, rows))| {
            let dtype = DTYPES[dtype];
            let row = if dtype.is_quantized() { 256 } else { 5 };
            (format!("t{}", (number * 7) % 5), dtype, if rows == 0 { vec![row] } else { vec![rows, row] })
        })
        .collect();
    let specs = described.iter().map(|(name, dtype, shape)| TensorSpec::new(name, *dtype, &shape[..]));
    let mut options = WriteOptions::new();
    if *shift > 0 {
        options = options.alignment(1 << shift);
    }
    let plan = Plan::new(specs, &metadata, &options).unwrap();
    let values: Vec<Vec<u8>> = described
        .iter()
        .map(|(name, dtype, shape)| {
            tensor("w", *dtype, shape).bytes.iter().map(|b| b ^ name.as_bytes()[1]).collect()
        })
        .collect();
    let file = MemoryFile::new();
    plan.write(&values, &file, &Execution::sequential()).unwrap();
    file.into_bytes()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, rng_seed: RngSeed::Fixed(3), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_models_come_back_byte_for_byte(described in models()) {
        let trips = round_trips(&build(&described), "a random model");
        prop_assert!(trips >= 4);
    }
}

/// The index of a set holds any JSON and does not say that it came from a GGUF file; a single file holds it
/// as text.
#[test]
fn a_list_comes_back_by_the_index_of_a_set_and_a_file() {
    let list = testkit::gguf::array(4, &[2_147_483_648_u32.to_le_bytes().to_vec()]);
    let file = testkit::gguf::Gguf::new().entry("general.name", 9, &list);
    assert!(round_trips(&file.build(), "a list") >= 4);
}

fn types(model: &Model) -> Vec<(String, String)> {
    let metadata = model.as_gguf().unwrap().index().metadata();
    let name = |value: MetaValue<'_>| match value.as_array() {
        Some(array) => format!("{}[]", array.value_type().name()),
        None => value.value_type().name().to_owned(),
    };
    metadata.iter().map(|(key, value)| (key.to_owned(), name(value))).collect()
}

#[test]
fn values_of_json_get_types() {
    let keys = r#"{"apr_version": "2.0.0", "model_type": "t", "architecture": "llama", "context": 4096, "big": 4294967295, "base": 0.5,
        "flags": [true], "tokens": ["a", "b"], "general.alignment": 64}"#;
    let source = apr2(&[tensor("w", DType::F32, &[2])], keys);
    let model = convert(&source, Format::Gguf, &options(|_| {}));
    let mut found = types(&model);
    found.sort();
    let expected = [
        ("apr_version", "string"),
        ("architecture", "string"),
        ("base", "f64"),
        ("big", "u32"),
        ("context", "i32"),
        ("flags", "bool[]"),
        ("general.alignment", "u32"),
        ("model_type", "string"),
        ("tokens", "string[]"),
    ];
    assert_eq!(found, expected.map(|(key, kind)| (key.to_owned(), kind.to_owned())));
    assert_eq!(model.as_gguf().unwrap().index().alignment(), 64);
    assert!(model.verify(VerifyLevel::Full).is_ok());
    // A value that the user gives may state its type; otherwise it gets the type of the value that it
    // replaces.
    let given = object(
        r#"{"context": 8192, "big": {"type": "u64", "value": 1}, "new": {"type": "f32[]", "value": [0.1]}}"#,
    );
    let again = convert(&model, Format::Gguf, &options(|o| o.metadata.set = Some(given)));
    let kind = |key: &str| types(&again).into_iter().find(|(other, _)| other == key).unwrap().1;
    assert_eq!((kind("context"), kind("big"), kind("new")), ("i32".into(), "u64".into(), "f32[]".into()));
    let bytes = again.as_gguf().unwrap().index().metadata().get("context").unwrap().as_u64();
    assert_eq!(bytes, Some(8192));
}

/// llama.cpp and gguf-py accept keys that are not ASCII: a file that has such keys keeps them, and `verify`
/// reports them. Such keys from other sources are losses, and so is one that the user gives.
#[test]
fn keys_that_are_not_ascii_stay_where_a_file_has_them() {
    for keys in [&["größe", "é", "plain"][..], &["é"]] {
        let mut metadata = Metadata::new();
        keys.iter().for_each(|key| metadata.push(key, MetaValue::U8(7)).unwrap());
        let plan = Plan::new([], &metadata, &WriteOptions::new().utf8_keys(true)).unwrap();
        let file = MemoryFile::new();
        plan.write(&Vec::<Vec<u8>>::new(), &file, &Execution::sequential()).unwrap();
        let bytes = file.into_bytes();
        let source = open("m.gguf", bytes.clone());
        assert!(gguf_bytes(&source) == bytes, "{keys:?}");
        assert!(round_trips(&bytes, "keys") > 8);
        let report = source.verify(VerifyLevel::Header);
        let errors = &report.errors;
        assert!(errors.iter().any(|error| error.contains("\"é\": the key is not ASCII")), "{errors:?}");
        let given = options(|o| o.metadata.set = Some(object(r#"{"ö": 1}"#)));
        let error = all(&try_convert(&source, Format::Gguf, &given).unwrap_err());
        assert!(
            error.contains("metadata key \"ö\": keys of GGUF are ASCII") && !error.contains("é"),
            "{error}"
        );
    }
}

#[test]
fn what_gguf_does_not_hold_is_listed_or_text() {
    let keys = r#"{"apr_version": "2.0.0", "model_type": "t", "architecture": {"n": 1}, "none": null, "mixed": [1, "a"], "é": 1,
        "split.count": 3, "general.alignment": 48, "ok": 1}"#;
    let source = apr2(&[tensor("w", DType::F32, &[2])], keys);
    let error = try_convert(&source, Format::Gguf, &options(|_| {})).unwrap_err();
    let text = all(&error);
    for line in [
        r#"metadata key "architecture": gguf holds numbers, booleans, strings and lists, not an object (stringify)"#,
        r#"metadata key "none": GGUF holds numbers, booleans, strings and lists, not null (stringify)"#,
        r#"metadata key "mixed": a list of GGUF has members of one type, and this has an integer and a string (stringify)"#,
        r#"metadata key "é": keys of GGUF are ASCII (lossy)"#,
        r#"metadata key "split.count": the files of a split say there which of them they are (lossy)"#,
        r#"metadata key "general.alignment": an alignment is a power of two, not 48 (lossy)"#,
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    let both = options(|o| {
        o.metadata.stringify = true;
        o.metadata.lossy = true;
    });
    let (model, done) = try_convert(&source, Format::Gguf, &both).unwrap();
    assert_eq!(done.dropped.len(), 3, "{:?}", done.dropped);
    let metadata = model.metadata().unwrap();
    let text = |key: &str| metadata.get(key).and_then(Value::as_str).map(str::to_owned);
    assert_eq!(text("architecture").as_deref(), Some(r#"{"n":1}"#));
    assert_eq!((text("none").as_deref(), text("mixed").as_deref()), (Some("null"), Some(r#"[1,"a"]"#)));
    // The same for safetensors, where every value is text.
    let (strings, _) =
        try_convert(&source, Format::Safetensors, &options(|o| o.metadata.stringify = true)).unwrap();
    let metadata = strings.metadata().unwrap();
    assert_eq!(metadata.get("ok").and_then(Value::as_str), Some("1"));
    assert_eq!(metadata.get("architecture").and_then(Value::as_str), Some(r#"{"n":1}"#));
    let text = all(&try_convert(&source, Format::Safetensors, &options(|_| {})).unwrap_err());
    assert!(
        text.contains(r#""ok": metadata of safetensors are strings, not an integer (stringify)"#),
        "{text}"
    );
    let refused = try_convert(&source, Format::Aero, &options(|o| o.metadata.stringify = true)).unwrap_err();
    assert!(
        refused.is_usage() && refused.to_string().contains("it is for safetensors, gguf and gguf-sharded"),
        "{refused}"
    );
}

#[test]
fn tensors_that_ggml_does_not_read_are_listed() {
    let long: &str = "n".repeat(64).leak();
    let tensors = [
        tensor("u", DType::U8, &[2]),
        tensor(long, DType::F32, &[1]),
        tensor("deep", DType::F32, &[1, 1, 1, 1, 1]),
    ];
    let text = all(&try_convert(&safetensors(&tensors, "{}"), Format::Gguf, &options(|_| {})).unwrap_err());
    for line in [
        r#"tensor "u": safetensors's u8 is not in gguf (widen, which makes it i16)"#,
        "names of gguf have at most 63 bytes (exclude)",
        r#"tensor "deep": the shape [1, 1, 1, 1, 1] has more dimensions than the 4 of gguf (exclude)"#,
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    // In AERO and APR2, blocks follow each other whatever the rows are.
    let blocks = apr2(
        &[tensor("q", DType::Q8_0, &[4, 16])],
        r#"{"apr_version": "2.0.0", "model_type": "t", "architecture": {}}"#,
    );
    let text = all(&try_convert(&blocks, Format::Gguf, &options(|o| o.metadata.lossy = true)).unwrap_err());
    assert!(text.contains(r#"tensor "q": the rows of [4, 16] are no whole blocks of q8_0"#), "{text}");
    convert(
        &blocks,
        Format::Gguf,
        &options(|o| {
            o.metadata.lossy = true;
            o.types.rules.push(TypeRule::dequantize(DType::F16));
        }),
    );
}

#[test]
fn options_of_gguf_do_what_they_say() {
    let source = safetensors(&[tensor("a", DType::F32, &[3]), tensor("b", DType::F32, &[3])], "{}");
    for align in [1, 4, 32, 4096] {
        let model = convert(&source, Format::Gguf, &options(|o| o.output.align = Some(align)));
        let index = model.as_gguf().unwrap().index();
        assert_eq!(index.alignment(), align);
        assert_eq!(index.metadata().get("general.alignment").is_some(), align != 32);
        let at = |position| model.location(position).unwrap().offset.unwrap();
        assert_eq!(at(1) - at(0), 12u64.next_multiple_of(align.into()));
        // The alignment is kept, unless another is requested.
        let again = convert(&model, Format::Gguf, &options(|_| {}));
        assert_eq!(again.as_gguf().unwrap().index().alignment(), align);
    }
    let error = try_convert(&source, Format::Gguf, &options(|o| o.output.align = Some(48))).unwrap_err();
    assert!(
        error.is_usage() && error.to_string() == "align: tensors are aligned to a power of two, not to 48",
        "{error}"
    );
}

/// Returns `general.quantization_version` and `general.file_type`, if they are u32, and checks whether they
/// come last.
fn quantization(model: &Model) -> [Option<u32>; 2] {
    let metadata = model.as_gguf().unwrap().index().metadata();
    ["general.quantization_version", "general.file_type"].map(|key| match metadata.get(key) {
        Some(MetaValue::U32(number)) => Some(number),
        None => None,
        other => panic!("{other:?}"),
    })
}

#[test]
fn how_a_model_is_quantized_is_said_as_llama_does() {
    let names = ["model.embed_tokens.weight", "model.layers.0.self_attn.v_proj.weight", "lm_head.weight"];
    let matrices: Vec<T> =
        names.iter().map(|name| super::common::floats(name, &[2, 256], &[0.5; 512])).collect();
    let source = safetensors(&matrices, r#"{"general.architecture": "llama"}"#);
    let plain = convert(&source, Format::Gguf, &options(|_| {}));
    assert_eq!(quantization(&plain), [None, None]);
    let quantize = |source: &Model, rules: &[&str]| {
        convert(
            source,
            Format::Gguf,
            &options(|o| {
                o.types.rules = rules.iter().map(|rule| TypeRule::parse_quantize(rule).unwrap()).collect();
            }),
        )
    };
    for (rules, number) in [
        (&["q4_k_m"][..], Some(15)),
        (&["q4_k_s"], Some(14)),
        (&["mostly_q8_0"], Some(7)),
        (&["q8_0"], Some(7)),
        (&["q4_k"], Some(15)),
        (&["q5_k"], Some(17)),
        (&["q6_k"], Some(18)),
        (&["q5_1", "lm_head.weight=q8_0"], Some(9)),
        (&["lm_head.weight=q8_0"], None),
    ] {
        assert_eq!(quantization(&quantize(&source, rules)), [Some(2), number], "{rules:?}");
    }
    // A wrong statement of another tool is corrected, at the end as in llama.cpp.
    let stated = object(r#"{"general.file_type": {"type": "u32", "value": 1}, "last": 1}"#);
    let stated = convert(&source, Format::Gguf, &options(|o| o.metadata.set = Some(stated)));
    let small = quantize(&stated, &["q4_k_m"]);
    let keys: Vec<&str> = small.as_gguf().unwrap().index().metadata().keys().collect();
    assert_eq!(keys[keys.len() - 3..], ["last", "general.quantization_version", "general.file_type"]);
    // It is corrected too if the rules for some tensors leave none of its type.
    let every: Vec<String> = source.tensors().map(|tensor| format!("{}=q8_0", tensor.name)).collect();
    let every: Vec<&str> = every.iter().map(String::as_str).collect();
    let as_bf16 = object(r#"{"general.file_type": {"type": "u32", "value": 32}}"#);
    let as_bf16 = convert(&source, Format::Gguf, &options(|o| o.metadata.set = Some(as_bf16)));
    assert_eq!(quantization(&quantize(&as_bf16, &every)), [Some(2), Some(7)]);
    // Copying blocks changes nothing, and decoding them leaves the keys as they are.
    assert_eq!(quantization(&convert(&small, Format::Gguf, &options(|_| {}))), [Some(2), Some(15)]);
    let decode = |rule: &str| {
        let options = options(|o| o.types.rules.push(TypeRule::parse_dequantize(rule).unwrap()));
        let (model, done) = try_convert(&small, Format::Gguf, &options).unwrap();
        (quantization(&model), notes(&done).iter().filter(|note| note.contains("is left out")).count())
    };
    assert_eq!(decode("f32"), ([None, Some(0)], 1));
    assert_eq!(decode("f16"), ([None, Some(1)], 1));
    assert_eq!(decode("bf16"), ([None, Some(32)], 1));
    assert_eq!(decode("*=f16"), ([None, None], 2));
    // A value that the user gives is kept.
    let given = options(|o| {
        o.types.rules.push(TypeRule::quantize(modelfmt::convert::Preset::Q4KM));
        o.metadata.set = Some(object(r#"{"general.file_type": {"type": "u32", "value": 14}}"#));
    });
    assert_eq!(quantization(&convert(&source, Format::Gguf, &given)), [Some(2), Some(14)]);
}

#[test]
fn models_in_memory_are_saved() {
    let folder = tempfile::tempdir().unwrap();
    let view = || modelfmt::View::new(&[1.0f32, 2.0], [2]).unwrap();
    let keys = object(r#"{"general.name": "tiny", "n": 3}"#);
    let path = folder.path().join("m.gguf");
    modelfmt::save(&path, [("w", view())], &keys).unwrap();
    let model = Model::open(&path).unwrap();
    assert_eq!((model.format(), model.metadata().unwrap()), (Format::Gguf, keys.clone().into()));
    modelfmt::convert::save_as(Format::GgufSharded, folder.path().join("n"), [("w", view())], &keys).unwrap();
    assert!(folder.path().join("n.gguf").exists(), "a split of one file is none");
}

#[test]
fn what_somebody_has_changed_on_the_way_counts() {
    let mut metadata = Metadata::new();
    metadata.push("n", MetaValue::U8(7)).unwrap();
    metadata.push("nan", MetaValue::F32(f32::from_bits(0x7fa0_0001))).unwrap();
    metadata.push("gone", MetaValue::U8(7)).unwrap();
    let plan = Plan::new([TensorSpec::new("w", DType::F32, &[1])], &metadata, &WriteOptions::new()).unwrap();
    let file = MemoryFile::new();
    plan.write(&[[0u8; 4]], &file, &Execution::sequential()).unwrap();
    let there = convert(&open("m.gguf", file.into_bytes()), Format::Apr2, &options(|_| {}));
    let mut keys = there.metadata().unwrap().as_object().cloned().unwrap();
    let reserved = keys.get("modelfmt").map(|value| json::to_string(value).unwrap()).unwrap();
    assert!(reserved.contains(r#""types":{"gone":"u8","n":"u8","nan":"f32"}"#), "{reserved}");
    assert!(
        reserved.contains(r#""keys":["n","nan","gone"]"#)
            && reserved.contains(r#""stored":{"nan":"060000000100a07f"}"#)
    );
    keys.insert("n", 700);
    keys.insert("nan", "text");
    keys.remove("gone");
    let changed = apr2(&[tensor("w", DType::F32, &[1])], &json::to_string(&Object::from_iter(keys)).unwrap());
    let back = convert(&changed, Format::Gguf, &options(|_| {}));
    let metadata = back.as_gguf().unwrap().index().metadata();
    assert_eq!(metadata.get("n"), Some(MetaValue::I32(700)));
    assert_eq!(metadata.get("nan"), Some(MetaValue::String("text")));
    assert!(metadata.get("gone").is_none());
}

#[test]
fn types_of_other_formats_are_kept_where_gguf_has_them() {
    let meta = oinf::Metadata::new()
        .value("n", 5u16)
        .value("h", modelfmt_core::f16::from_f32(0.5))
        .value("bits", oinf::Bitset::from_bits([true, false]).unwrap())
        .value("array", oinf::NdArray::new(DType::I16, vec![2, 1], vec![1, 0, 2, 0]).unwrap());
    let source = super::common::oinf(&[tensor("w", DType::F32, &[2])], &meta);
    let model = convert(&source, Format::Gguf, &options(|_| {}));
    let expected = [("array", "array[]"), ("bits", "bool[]"), ("h", "f32"), ("n", "u16")];
    assert_eq!(types(&model), expected.map(|(key, kind)| (key.to_owned(), kind.to_owned())));
}

#[test]
fn big_endian_and_version_2_become_version_3() {
    let path = testkit::testdata("gguf").join("version-2.gguf");
    let model = convert(&Model::open(Path::new(&path)).unwrap(), Format::Gguf, &options(|_| {}));
    assert_eq!(model.as_gguf().unwrap().index().version(), 3);
}

/// Also in the same format, because the output would have other bytes than the input.
#[test]
fn text_that_is_not_utf_8_is_a_loss() {
    let file =
        testkit::gguf::Gguf::new().entry("k", 8, b"\x01\0\0\0\0\0\0\0\xff").tensor("w", 24, &[2], &[1, 2]);
    let model = open("m.gguf", file.build());
    for target in [Format::Gguf, Format::Aero] {
        let asked = |lossy| {
            options(|o| {
                o.metadata.lossy = lossy;
                if target == Format::Aero {
                    (o.metadata.model_name, o.metadata.architecture) = (Some("m".into()), Some("a".into()));
                }
            })
        };
        let error = all(&try_convert(&model, target, &asked(false)).unwrap_err());
        assert!(error.contains("\"k\"") && error.contains("not UTF-8"), "{target}: {error}");
        let found = modelfmt::diff::flat_metadata(&convert(&model, target, &asked(true))).unwrap();
        assert_eq!(found.get("k"), Some(&"\u{fffd}".into()), "{target}");
    }
}

/// Room for edits belongs to the file that has it.
#[test]
fn room_in_a_file_does_not_travel() {
    const KEY: &str = "modelfmt.padding";
    let model = super::common::gguf(&[tensor("w", DType::F32, &[4])], &[("general.architecture", "test")]);
    let roomy = convert(&model, Format::Gguf, &options(|o| o.output.reserve = Some(100)));
    let has = |model: &Model| model.metadata().unwrap().get(KEY).and_then(Value::as_str).map(str::len);
    assert_eq!(has(&roomy), Some(100));
    for carrier in CARRIERS {
        let carried = convert(&roomy, carrier, &there(carrier));
        assert!(!format!("{:?}", carried.metadata().unwrap()).contains(KEY), "{carrier}");
    }
    let other = convert(&roomy, Format::Gguf, &options(|o| o.output.reserve = Some(50)));
    assert_eq!(has(&other), Some(50));
}

/// Names and the architecture are the first things that llama.cpp requires.
#[test]
fn what_llama_cpp_will_not_load_is_a_warning() {
    let warnings = |source: &Model, options: &ConvertOptions| {
        let (_, done) = try_convert(source, Format::Gguf, options).unwrap();
        done.warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let none = options(|_| {});
    let hub = safetensors(&[tensor("model.embed_tokens.weight", DType::F32, &[2, 4])], "{}");
    let found = warnings(&hub, &none);
    assert_eq!(
        found,
        ["llama.cpp will not load this GGUF file: the key general.architecture is missing, which follows \
          from `model_type` of a config.json beside the model, and tensors have the names of \
          Hugging Face, such as \"model.embed_tokens.weight\"; names and metadata are written as they are"]
    );
    let own = safetensors(&[tensor("token_embd.weight", DType::F32, &[2, 4])], "{}");
    assert!(warnings(&own, &none)[0].contains("general.architecture is missing, which follows"));
    let given = options(|o| o.metadata.set = Some(object(r#"{"general.architecture": "llama"}"#)));
    assert!(warnings(&own, &given).is_empty());
    assert!(
        warnings(&hub, &given)[0].contains("llama.cpp will not load this GGUF file: tensors have the names")
    );
    // A model that came from GGUF is unchanged.
    let gguf = super::common::gguf(&[tensor("a", DType::F32, &[2])], &[("general.architecture", "llama")]);
    let through = convert(&gguf, Format::Aero, &none);
    assert!(warnings(&through, &none).is_empty());
}
