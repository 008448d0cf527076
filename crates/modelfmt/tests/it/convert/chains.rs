//! Random metadata through every chain of up to four formats: every item arrives, or the step that lost it
//! has said so.
//!
//! `MODELFMT_CHAIN_CASES=N cargo test -p modelfmt --test it chains` runs N cases.

use std::collections::BTreeSet;

use modelfmt::convert::Converted;
use modelfmt::convert::TypeRule;
use modelfmt::{DType, Error, Format, Model, Object, Value};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};

use super::aeros::extras;
use super::common::{T, all, apr2, gguf, mag, notes, oinf, options, safetensors, tensor, try_convert};

/// The format in which metadata starts.
#[derive(Clone, Debug)]
enum Source {
    Json(Object),
    Strings(Vec<(String, String)>),
    Numbers(Vec<(String, Number)>),
    Typed(Vec<(String, Typed)>, Vec<(String, u64)>),
    /// AERO with features that only AERO has.
    Rich,
    Gguf(Vec<(String, String)>),
}

#[derive(Clone, Debug)]
enum Number {
    Int(i64),
    Float(u64),
}

#[derive(Clone, Debug)]
enum Typed {
    Text(String),
    U8(u8),
    U64(u64),
    F16(u16),
    F32(u32),
    F64(u64),
    Bits(Vec<bool>),
    Array(Vec<i16>, bool),
    Floats(Vec<u32>),
}

/// Returns keys that have a meaning in some format, and other keys.
fn keys() -> BoxedStrategy<String> {
    const KNOWN: [&str; 13] = [
        "hidden_size",
        "n_embd",
        "model_name",
        "architecture",
        "model_type",
        "apr_version",
        "format",
        "modelfmt.x",
        "general.name",
        "total_size",
        "sizevars.D",
        "manifest.x",
        "quantization",
    ];
    prop_oneof![
        3 => proptest::sample::select(&KNOWN[..]).prop_map(str::to_owned),
        3 => "[a-d]{1,2}",
        1 => "[a-z .é\"]{1,6}",
    ]
    .boxed()
}

fn leaf() -> BoxedStrategy<Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i128>().prop_map(Value::from),
        (-3i64..3).prop_map(Value::from),
        (-3i8..3).prop_map(|n| Value::Float(f64::from(n) / 2.0)),
        "[a-z]{0,3}".prop_map(Value::from),
        Just(Value::from("unknown")),
        Just(Value::from("2.0.0")),
        Just(Value::from("m")),
        ".{0,4}".prop_map(Value::from),
    ]
    .boxed()
}

fn trees() -> BoxedStrategy<Value> {
    let inner = |inner: BoxedStrategy<Value>| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec(("[a-c]", inner.clone()), 0..3)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
            // An object that looks like a value with its type.
            ("[a-c]|value", proptest::sample::select(&["str", "u8", "f32", "llama"][..]), inner).prop_map(
                |(key, name, value)| {
                    Value::Object(Object::from_iter([("type".to_owned(), Value::from(name)), (key, value)]))
                }
            ),
        ]
    };
    leaf().prop_recursive(3, 12, 4, inner).boxed()
}

fn typed() -> BoxedStrategy<Typed> {
    prop_oneof![
        "[A-Za-z0-9._-]{1,4}".prop_map(Typed::Text),
        any::<u8>().prop_map(Typed::U8),
        any::<u64>().prop_map(Typed::U64),
        any::<u16>().prop_map(Typed::F16),
        any::<u32>().prop_map(Typed::F32),
        any::<u64>().prop_map(Typed::F64),
        proptest::collection::vec(any::<bool>(), 1..9).prop_map(Typed::Bits),
        (proptest::collection::vec(any::<i16>(), 0..5), any::<bool>())
            .prop_map(|(all, flat)| Typed::Array(all, flat)),
        proptest::collection::vec(any::<u32>(), 0..4).prop_map(Typed::Floats),
    ]
    .boxed()
}

fn plain_keys() -> BoxedStrategy<String> {
    const KNOWN: [&str; 5] = ["model_name", "architecture", "model_type", "apr_version", "sizevars.D"];
    prop_oneof![1 => proptest::sample::select(&KNOWN[..]).prop_map(str::to_owned), 2 => "[a-d]{1,2}"].boxed()
}

fn sources() -> BoxedStrategy<Source> {
    let entries = |size| proptest::collection::vec((keys(), trees()), size);
    let number = prop_oneof![any::<i64>().prop_map(Number::Int), any::<u64>().prop_map(Number::Float)];
    prop_oneof![
        4 => entries(0..6).prop_map(|entries| Source::Json(entries.into_iter().collect())),
        2 => proptest::collection::vec((keys(), ".{0,4}"), 0..6).prop_map(Source::Strings),
        2 => proptest::collection::vec((keys(), number), 0..5).prop_map(Source::Numbers),
        3 => (
            proptest::collection::vec((plain_keys(), typed()), 0..5),
            proptest::collection::vec(("[D-F]", any::<u64>()), 0..3),
        ).prop_map(|(values, sizevars)| Source::Typed(values, sizevars)),
        1 => Just(Source::Rich),
        1 => proptest::collection::vec((keys(), ".{0,4}"), 0..5).prop_map(Source::Gguf),
    ]
    .boxed()
}

fn unique<V>(entries: &[(String, V)]) -> impl Iterator<Item = &(String, V)> {
    let mut seen = BTreeSet::new();
    entries.iter().filter(move |(key, _)| seen.insert(key.clone()))
}

fn model(source: &Source) -> Model {
    let tensors: [T; 1] = [tensor("w", DType::F32, &[2])];
    match source {
        Source::Json(object) => {
            let mut object = object.clone();
            let is_good = |value: &Value| matches!(value, Value::Object(_) | Value::String(_));
            if !object.get("architecture").is_some_and(is_good) {
                object.insert("architecture", "unknown");
            }
            for key in ["model_type", "apr_version"] {
                if object.get(key).is_none_or(|value| value.as_str().is_none()) {
                    object.insert(key, "t");
                }
            }
            apr2(&tensors, &modelfmt_core::value::json::to_string(&object).unwrap())
        }
        Source::Strings(entries) => {
            let object: Object =
                entries.iter().map(|(key, text)| (key.as_str(), Value::from(text.as_str()))).collect();
            safetensors(&tensors, &modelfmt_core::value::json::to_string(&object).unwrap())
        }
        Source::Numbers(entries) => {
            let number = |number: &Number| match *number {
                Number::Int(n) => Value::from(n),
                Number::Float(bits) => Value::from(f64::from_bits(bits)),
            };
            let entries: Vec<_> = unique(entries).map(|(key, n)| (key.as_str(), number(n))).collect();
            mag(&tensors, &entries)
        }
        Source::Typed(entries, sizevars) => {
            let mut metadata = oinf::Metadata::new();
            for (key, value) in unique(entries) {
                metadata.values.push((key.clone().into(), typed_value(value)));
            }
            for (key, value) in unique(sizevars) {
                metadata.sizevars.push((key.clone().into(), *value));
            }
            oinf(&tensors, &metadata)
        }
        Source::Rich => super::aeros::rich(),
        Source::Gguf(entries) => {
            let entries: Vec<_> = unique(entries).map(|(key, text)| (key.as_str(), text.as_str())).collect();
            gguf(&tensors, &entries)
        }
    }
}

fn typed_value(value: &Typed) -> oinf::MetaValue<'static> {
    use oinf::MetaValue;
    let array =
        |dtype, shape, bytes: Vec<u8>| MetaValue::Ndarray(oinf::NdArray::new(dtype, shape, bytes).unwrap());
    match value {
        Typed::Text(text) => MetaValue::Str(text.clone().into()),
        Typed::U8(n) => MetaValue::U8(*n),
        Typed::U64(n) => MetaValue::U64(*n),
        Typed::F16(bits) => MetaValue::F16(modelfmt_core::f16::from_bits(*bits)),
        Typed::F32(bits) => MetaValue::F32(f32::from_bits(*bits)),
        Typed::F64(bits) => MetaValue::F64(f64::from_bits(*bits)),
        Typed::Bits(bits) => MetaValue::Bitset(oinf::Bitset::from_bits(bits.iter().copied()).unwrap()),
        Typed::Array(numbers, flat) => {
            let count = numbers.len() as u64;
            let shape = if *flat { vec![count] } else { vec![1, count] };
            array(DType::I16, shape, numbers.iter().flat_map(|n| n.to_le_bytes()).collect())
        }
        Typed::Floats(bits) => {
            let bytes = bits.iter().flat_map(|bits| bits.to_le_bytes()).collect();
            array(DType::F32, vec![bits.len() as u64], bytes)
        }
    }
}

/// Returns a value in the form in which it is compared: arrays as plain lists, because an array without
/// elements has a shape that a list cannot express.
fn normal(value: &Value) -> Value {
    match value {
        // JSON and f64 do not always keep the bits of a NaN.
        Value::Float(x) if x.is_nan() => Value::from("NaN"),
        Value::Array(items) => items.iter().map(|item| normal(&item)).collect(),
        other => other.clone(),
    }
}

/// Returns what a step reported: every item that it listed or noted.
fn report_of(done: &Converted) -> Vec<String> {
    let dropped =
        done.dropped.iter().map(|item| format!("{} {}", item.name.as_deref().unwrap_or(""), item.why));
    dropped.chain(notes(done)).collect()
}

/// Checks whether a report names this key, with its value if only a note names it.
fn is_listed(key: &str, report: &[String]) -> bool {
    let own = key.strip_prefix("modelfmt.").unwrap_or(key);
    // The prefix occurs more than once if a key of the metadata begins with it too.
    let bare = own.trim_start_matches("sizevars.").trim_start_matches("manifest.");
    report.iter().any(|text| [key, own, bare].iter().any(|key| text.starts_with(&format!("{key} "))))
}

/// A step: the target, and the metadata that the user gives with `--metadata`.
type Step = (Format, Option<Object>);

fn steps() -> BoxedStrategy<Vec<Step>> {
    let targets: Vec<Format> = Format::ALL.iter().copied().filter(|format| format.is_writable()).collect();
    let value = prop_oneof!["[a-z]{1,3}".prop_map(Value::from), (0i64..9).prop_map(Value::from)];
    let given = proptest::collection::vec((keys(), value), 1..4);
    let given = given.prop_map(|entries| entries.into_iter().collect::<Object>());
    let step = (proptest::sample::select(targets), proptest::option::weighted(0.2, given));
    proptest::collection::vec(step, 1..=4).boxed()
}

fn check(source: &Source, chain: &[Step]) -> Result<(), TestCaseError> {
    let mut here = model(source);
    let mut path = here.format().to_string();
    // The file name, "m", if the model states no name.
    let says_name = modelfmt::diff::flat_metadata(&here).unwrap().contains_key("model_name");
    let is_stem = |key: &str, value: &Value| key == "model_name" && *value == Value::from("m") && !says_name;
    for (target, given) in chain {
        let target = *target;
        path = format!("{path} to {target}");
        let lossy = options(|o| {
            o.metadata.lossy = true;
            if here.tensors().any(|tensor| tensor.dtype.is_quantized()) {
                o.types.rules.push(TypeRule::dequantize(DType::F32));
            }
            o.metadata.set.clone_from(given);
        });
        // Without --lossy, the conversion fails if something would be lost, and otherwise nothing is lost.
        let mut strictly = lossy.clone();
        strictly.metadata.lossy = false;
        let strict = try_convert(&here, target, &strictly);
        let (next, done) = match try_convert(&here, target, &lossy) {
            Ok(found) => found,
            // The user may give something that the target never accepts.
            Err(error) if given.is_some() && all(&error).contains("APR2 requires") => return Ok(()),
            Err(error) if given.is_some() && all(&error).contains("APR requires") => return Ok(()),
            Err(error) => return Err(TestCaseError::fail(format!("{path}: {}", all(&error)))),
        };
        match &strict {
            Ok(_) => prop_assert!(done.dropped.is_empty(), "{path}: dropped without being asked"),
            Err(error) => prop_assert!(matches!(error, Error::Unsupported { .. }), "{path}: {error}"),
        }
        let report = report_of(&done);
        let (before, after) =
            (modelfmt::diff::flat_metadata(&here).unwrap(), modelfmt::diff::flat_metadata(&next).unwrap());
        let is_given = |key: &str| {
            let bare = key.strip_prefix("modelfmt.").unwrap_or(key);
            given.as_ref().is_some_and(|given| given.contains_key(bare) || given.contains_key(key))
        };
        for (key, value) in given.iter().flatten() {
            let arrived = after.get(key).is_some_and(|found| found == value);
            prop_assert!(
                arrived || is_listed(key, &report),
                "{path}: {key} was given as {value:?}; said {report:?}"
            );
        }
        for (key, value) in before.iter().filter(|(key, _)| !is_given(key)) {
            // An item that was stored under the reserved key, because its own key was taken, has its own key
            // again.
            let bare = key.strip_prefix("modelfmt.").unwrap_or(key);
            let found = [after.get(key), after.get(bare)];
            let arrived = found.iter().flatten().any(|found| normal(found) == normal(value));
            prop_assert!(
                arrived || is_listed(key, &report) || is_filler(key, value, &before) || is_stem(key, value),
                "{path}: {key} was {value:?} and is {:?}; said {report:?}",
                after.get(key)
            );
        }
        if here.format() == Format::Aero || here.format() == Format::AeroSet {
            let kept = extras(&next);
            for (what, value) in extras(&here).into_iter().filter(|(what, _)| !what.ends_with("params")) {
                let is_nothing =
                    value == Value::from(0) || value == Value::from(Object::new()) || value.is_null();
                let is_kept = kept.contains(&(what.clone(), value));
                let is_aero = matches!(target, Format::Aero | Format::AeroSet);
                let name = what.split(' ').next().unwrap();
                let is_listed = report.iter().any(|text| match name {
                    "top" => text.starts_with("generator "),
                    "extra" => text.contains("XTRA") || text.contains("only AERO has chunks"),
                    name => text.starts_with(&format!("{name} ")),
                });
                prop_assert!(
                    is_nothing || is_kept || (is_listed && !is_aero),
                    "{path}: {what}; said {report:?}"
                );
            }
        }
        if strict.is_ok() && given.is_none() {
            let differing =
                modelfmt::diff::diff(&here, &next, &modelfmt::Execution::default()).unwrap().metadata;
            let noted = |key: &str| key.starts_with("modelfmt.") || is_listed(key, &report);
            let nan = |entry: &modelfmt::convert::MetadataDiff| {
                entry.a.as_ref().map(normal) == entry.b.as_ref().map(normal)
            };
            // A value that a format has put in place of a value that it does not accept is not a statement of
            // the model.
            let filler = |entry: &modelfmt::convert::MetadataDiff| {
                entry.a.as_ref().is_some_and(|value| is_filler(&entry.key, value, &before))
            };
            let is_new = |entry: &&modelfmt::convert::MetadataDiff| {
                !is_given(&entry.key) && !noted(&entry.key) && !nan(entry) && !filler(entry)
            };
            let new: Vec<_> = differing.iter().filter(is_new).collect();
            prop_assert!(new.is_empty(), "{path}: diff says {new:?}; said {report:?}");
        }
        here = next;
    }
    Ok(())
}

/// Checks whether a format on the way has filled in a required key: with a default, or with the value of
/// another key.
fn is_filler(key: &str, value: &Value, before: &Object) -> bool {
    match key {
        "apr_version" => *value == Value::from("2.0.0"),
        "architecture" | "model_type" | "model_name" => {
            [Value::from("unknown"), Value::from("m"), Value::from("model"), Object::new().into()]
                .contains(value)
                || before.iter().any(|(other, known)| other != key && known == value)
        }
        _ => false,
    }
}

#[test]
fn nothing_is_lost_without_a_word_on_any_way() {
    let cases = std::env::var("MODELFMT_CHAIN_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(600);
    let seed = if cases == 600 { RngSeed::Fixed(12) } else { RngSeed::Random };
    let config = Config { cases, rng_seed: seed, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new(config);
    let result = runner.run(&(sources(), steps()), |(source, chain)| check(&source, &chain));
    if let Err(error) = result {
        panic!("{error}");
    }
}
