//! Tests of trees in JSON and MessagePack, and of the input that is refused.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use serde::de::value::{Error as ValueError, MapAccessDeserializer, MapDeserializer};
use serde::de::{DeserializeSeed, IntoDeserializer};
use serde::{Deserialize, Serialize};

use super::*;

/// Parses text with serde_json alone, without this crate's own JSON functions.
fn from_json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

fn from_msgpack(bytes: &[u8]) -> Result<Value, String> {
    rmp_serde::from_slice(bytes).map_err(|error| error.to_string())
}

fn to_msgpack(value: &Value) -> Vec<u8> {
    rmp_serde::to_vec(value).unwrap()
}

fn object<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::Object(entries.into_iter().collect())
}

/// Collects the keys of every object in their order, which equality ignores.
pub(super) fn all_keys(value: &Value, keys: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| all_keys(&item, keys)),
        Value::Object(object) => {
            for (key, value) in object {
                keys.push(key.to_owned());
                all_keys(value, keys);
            }
            keys.push("}".to_owned());
        }
        _ => {}
    }
}

pub(super) fn config(cases: u32) -> Config {
    Config { cases, rng_seed: RngSeed::Fixed(0x7ee), failure_persistence: None, ..Config::default() }
}

/// Generates trees of up to six levels. If `binary`, they may contain values that JSON lacks.
pub(super) fn trees(binary: bool) -> BoxedStrategy<Value> {
    let float = any::<u64>().prop_map(f64::from_bits);
    let float = float.prop_filter("JSON has none", move |x| binary || x.is_finite()).prop_map(Value::Float);
    let bytes = proptest::collection::vec(any::<u8>(), 0..40).prop_map(Value::Bytes);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-200i64..300).prop_map(Value::from),
        (-100i32..100).prop_map(|n| Value::Float(n.into())),
        float,
        any::<String>().prop_map(Value::from),
        if binary { bytes.boxed() } else { Just(Value::Bool(true)).boxed() },
    ];
    let inner = |inner: BoxedStrategy<Value>| {
        let key = prop_oneof!["[a-c]{0,2}", any::<String>()];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..20).prop_map(Value::from),
            proptest::collection::vec((key, inner), 0..25)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    };
    leaf.prop_recursive(5, 100, 20, move |deeper| inner(deeper.boxed())).boxed()
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn msgpack_round_trips(tree in trees(true)) {
        let bytes = to_msgpack(&tree);
        let back = from_msgpack(&bytes).unwrap();
        prop_assert_eq!(&back, &tree);
        prop_assert_eq!(&to_msgpack(&back), &bytes, "same order, same integer widths");
        let read: Value = rmp_serde::from_read(bytes.as_slice()).unwrap();
        prop_assert_eq!(read, tree);
    }

    #[test]
    fn serde_json_agrees(tree in trees(false)) {
        let text = serde_json::to_string(&tree).unwrap();
        let back = from_json(&text).unwrap();
        prop_assert_eq!(&back, &tree);
        let theirs: serde_json::Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(serde_json::to_value(&tree).unwrap(), theirs);
        let (mut ours, mut again) = (Vec::new(), Vec::new());
        all_keys(&tree, &mut ours);
        all_keys(&back, &mut again);
        prop_assert_eq!(ours, again);
    }

    #[test]
    fn bytes_of_any_kind_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(value) = from_msgpack(&bytes) {
            prop_assert_eq!(from_msgpack(&to_msgpack(&value)), Ok(value));
        }
        let text = String::from_utf8_lossy(&bytes);
        let _ = from_json(&text);
    }
}

#[test]
fn a_value_is_small() {
    assert!(size_of::<Value>() <= 32, "{}", size_of::<Value>());
    assert!(size_of::<(String, Value)>() <= 56);
}

#[test]
fn integers_are_equal_however_made() {
    assert_eq!(from_json("5"), Ok(Value::from(5i64)));
    assert_eq!(from_msgpack(&[0xd3, 0, 0, 0, 0, 0, 0, 0, 5]), Ok(Value::from(5u8)));
    assert_ne!(Value::from(5), Value::from(5.0));
    assert_ne!(Value::from(0.0), Value::from(-0.0));
    assert_eq!(Value::from(f64::NAN), Value::from(f64::NAN));
}

#[test]
fn accessors_give_what_is_there() {
    let tree = object([
        ("a", object([("b", Value::from(7)), ("f", Value::from(1.5))])),
        ("list", ["x", "y"].into_iter().collect()),
        ("none", None::<u8>.into()),
        ("bin", Value::Bytes(vec![1, 2])),
    ]);
    assert_eq!(tree.path(["a", "b"]).and_then(Value::as_u64), Some(7));
    assert_eq!(tree.path(["a", "f"]).and_then(Value::as_f64), Some(1.5));
    assert_eq!(tree.path(["a", "b", "c"]), None);
    assert_eq!(tree.path([]), Some(&tree));
    assert_eq!(tree.get("list").and_then(Value::as_array).map(List::len), Some(2));
    assert!(tree.get("none").is_some_and(Value::is_null));
    assert_eq!(tree.get("bin").and_then(Value::as_bytes), Some(&[1u8, 2][..]));
    assert_eq!(Value::from(-1).as_u64(), None);
    assert_eq!(Value::from(u64::MAX).as_i64(), None);
    assert_eq!(Value::from(true).as_bool(), Some(true));
    assert_eq!(Value::from("1").as_f64(), None);
    assert_eq!(Value::from(i64::MIN).kind(), "a negative integer");
    let mut tree = tree;
    tree.as_object_mut().unwrap().insert("new", 1.0f32);
    assert_eq!(tree.get("new"), Some(&Value::Float(1.0)));
}

#[test]
fn duplicate_keys_are_refused() {
    for text in [r#"{"a":1,"a":1}"#, r#"{"x":[{"a":1,"b":2,"\u0061":3}]}"#] {
        let error = from_json(text).unwrap_err();
        assert!(error.starts_with(r#"duplicate key "a""#), "{error}");
    }
    assert!(
        from_msgpack(&[0x82, 0xa1, b'a', 1, 0xa1, b'a', 1]).unwrap_err().contains(r#"duplicate key "a""#)
    );
    let nested = [0x91, 0x81, 0xa1, b'x', 0x82, 0xa0, 0xc0, 0xd9, 0, 0xc0];
    assert!(from_msgpack(&nested).unwrap_err().contains(r#"duplicate key """#));
    assert!(from_json(r#"{"a":{"a":{"a":1}},"b":{"a":1}}"#).is_ok(), "other objects may have the same keys");
    // Now among many keys, which are found by their hash.
    let many = |last: &str| {
        let keys: Vec<String> = (0..1000).map(|n| format!("\"{n}\":0")).collect();
        format!("{{{},\"{last}\":0}}", keys.join(","))
    };
    assert!(from_json(&many("500")).unwrap_err().starts_with("duplicate key \"500\""));
    assert_eq!(from_json(&many("1000")).unwrap().as_object().map(Object::len), Some(1001));
}

#[test]
fn messages_do_not_repeat_long_keys_or_control_characters() {
    let key = "é\u{7}".repeat(10_000);
    let mut object = Object::new();
    object.insert(key.clone(), 1);
    let text = object.try_insert(key, 2).unwrap_err().to_string();
    assert!(text.len() < 1000 && text.ends_with('…') && !text.contains('\u{7}'), "{text}");
}

#[test]
fn a_million_keys_take_a_million_steps() {
    // Without an index this would take 5 * 10^11 comparisons, and the test would never end.
    let count = 1_000_000u32;
    let mut bytes = vec![0xdf];
    bytes.extend(count.to_be_bytes());
    for n in 0..count {
        bytes.push(0xa4);
        // Four bytes of seven bits each, which are valid text.
        bytes.extend([n >> 21, n >> 14, n >> 7, n].map(|n| (n & 0x7f) as u8));
        bytes.push(0xc0);
    }
    let tree = from_msgpack(&bytes).unwrap();
    assert_eq!(tree.as_object().map(Object::len), Some(1_000_000));
    assert_eq!(tree.get("\0\0\u{1}\u{1}"), Some(&Value::Null));
    assert_eq!(tree.clone(), tree);
    assert_eq!(to_msgpack(&tree), bytes);
}

/// Nests `levels` containers, arrays and objects in turn, in JSON and MessagePack.
fn nested(levels: usize, center: &str, packed_center: u8) -> (String, Vec<u8>) {
    let (mut text, mut end, mut packed) = (String::new(), String::new(), Vec::new());
    for level in 0..levels {
        if level % 2 == 0 {
            text.push('[');
            end.insert(0, ']');
            packed.push(0x91);
        } else {
            text.push_str("{\"k\":");
            end.insert(0, '}');
            packed.extend([0x81, 0xa1, b'k']);
        }
    }
    packed.push(packed_center);
    (text + center + &end, packed)
}

#[test]
fn depth_127_is_the_last() {
    let (text, packed) = nested(127, "1", 1);
    let tree = from_json(&text).unwrap();
    assert_eq!(from_msgpack(&packed).as_ref(), Ok(&tree));
    assert_eq!(to_msgpack(&tree), packed);
    assert_eq!(serde_json::to_string(&tree).unwrap(), text);

    let (text, packed) = nested(128, "1", 1);
    assert!(from_json(&text).is_err());
    assert!(from_msgpack(&packed).unwrap_err().contains("nested deeper than 127 levels"));
    // An empty container is a level too.
    let (text, packed) = nested(127, "{}", 0x80);
    assert!(from_json(&text).is_err());
    assert!(from_msgpack(&packed).unwrap_err().contains("nested deeper than 127 levels"));

    let deeper = Value::from(vec![tree]);
    let error = rmp_serde::to_vec(&deeper).unwrap_err().to_string();
    assert!(error.contains("nested deeper than 127 levels"), "{error}");
    assert!(serde_json::to_string(&deeper).is_err());
}

#[test]
fn depth_100_000_is_refused_and_not_a_crash() {
    for levels in [1_000, 100_000] {
        assert!(from_json(&"[".repeat(levels)).is_err());
        assert!(from_json(&r#"{"":"#.repeat(levels)).is_err());
        assert!(from_msgpack(&vec![0x91; levels]).unwrap_err().contains("127 levels"));
        assert!(from_msgpack(&[0x81, 0xa0].repeat(levels)).unwrap_err().contains("127 levels"));
        let mut text = String::from("[");
        text.push_str(&"[".repeat(levels));
        text.push_str(&"]".repeat(levels + 1));
        assert!(from_json(&text).is_err());
    }
}

fn seeded(options: ParseOptions, text: &str) -> Result<Value, String> {
    let mut json = serde_json::Deserializer::from_str(text);
    ValueSeed::new(options).deserialize(&mut json).map_err(|error| error.to_string())
}

#[test]
fn options_lower_the_limits() {
    let flat = ParseOptions::new().with_max_depth(1);
    assert!(seeded(flat, r#"{"a":1,"b":2}"#).is_ok());
    assert!(seeded(flat, r#"{"a":[]}"#).unwrap_err().contains("nested deeper than 1 levels"));
    let scalar = ParseOptions::new().with_max_depth(0);
    assert_eq!(seeded(scalar, "1"), Ok(Value::from(1)));
    assert!(seeded(scalar, "{}").is_err());
    let raised = ParseOptions::new().with_max_depth(u32::MAX);
    assert_eq!(raised, ParseOptions::new(), "it cannot be raised");

    let four = ParseOptions::new().with_max_nodes(4);
    assert!(seeded(four, r#"[[],{"a":1}]"#).is_ok());
    assert!(seeded(four, r#"[[],{"a":[1]}]"#).unwrap_err().contains("more than 4 values"));
    assert!(seeded(ParseOptions::new().with_max_nodes(0), "1").is_err());
}

#[test]
fn claimed_lengths_are_not_believed() {
    // Lists, maps, text and bytes with a length of 2^32 - 1: alone, and inside 126 lists that claim the same.
    for marker in [0xdd, 0xdf, 0xdb, 0xc6] {
        let claim = [marker, 0xff, 0xff, 0xff, 0xff];
        let mut bytes = Vec::new();
        for _ in 0..126 {
            bytes.extend([0xdd, 0xff, 0xff, 0xff, 0xff]);
        }
        bytes.extend(claim);
        for bytes in [&claim[..], &bytes] {
            assert!(from_msgpack(bytes).is_err());
            assert!(rmp_serde::from_read::<_, Value>(bytes).is_err());
        }
    }
}

#[test]
fn lists_longer_than_their_first_allocation_are_read() {
    let tree: Value = (0..10_000u32).collect();
    assert_eq!(from_msgpack(&to_msgpack(&tree)), Ok(tree));
}

#[test]
fn msgpack_peculiarities() {
    let refused: [(&str, &[u8]); 7] = [
        ("integer key", &[0x81, 1, 1]),
        ("nil key", &[0x81, 0xc0, 1]),
        ("bin key", &[0x81, 0xc4, 1, b'a', 1]),
        ("key of a list", &[0x81, 0x91, 1, 1]),
        ("key that is not UTF-8", &[0x81, 0xa1, 0xff, 1]),
        ("extension key", &[0x81, 0xd4, 1, 1, 1]),
        ("reserved marker", &[0xc1]),
    ];
    for (name, bytes) in refused {
        assert!(from_msgpack(bytes).is_err(), "{name}");
    }
    assert!(from_msgpack(&[0xd4, 1, 1]).unwrap_err().contains("extension types are not supported"));
    assert!(from_msgpack(&[0xc7, 0xff, 1]).unwrap_err().contains("extension types are not supported"));
    assert_eq!(from_msgpack(&[0xca, 0x3d, 0xcc, 0xcc, 0xcd]), Ok(Value::Float(f64::from(0.1f32))));
    assert_eq!(from_msgpack(&[0xc4, 2, 0, 0xff]), Ok(Value::Bytes(vec![0, 0xff])));
    assert_eq!(from_msgpack(&[0xa1, 0xff]), Ok(Value::Bytes(vec![0xff])), "as ValueSeed says");
    assert_eq!(to_msgpack(&Value::Bytes(vec![7])), [0xc4, 1, 7]);
    assert_eq!(to_msgpack(&Value::from(127u64)), [0x7f]);
    assert_eq!(to_msgpack(&Value::from(-1)), [0xff]);
    assert_eq!(to_msgpack(&Value::Float(f64::INFINITY)), [0xcb, 0x7f, 0xf0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn people_get_names_of_what_json_lacks() {
    let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY].into_iter().collect::<Value>();
    assert_eq!(serde_json::to_string(&odd).unwrap(), r#"["NaN","Infinity","-Infinity"]"#);
    assert_eq!(serde_json::to_string(&Value::Bytes(vec![0, 0xab])).unwrap(), r#""00ab""#);
}

#[test]
fn objects_stand_in_typed_structures() {
    #[derive(Debug)]
    struct Outer {
        inner: Object,
    }
    impl<'de> Deserialize<'de> for Outer {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            Ok(Self { inner: Object::deserialize(deserializer)? })
        }
    }
    impl Serialize for Outer {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            self.inner.serialize(serializer)
        }
    }
    let text = r#"{"b":1,"a":[null]}"#;
    let outer: Outer = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&outer).unwrap(), text);
    let error = serde_json::from_str::<Outer>("[]").unwrap_err().to_string();
    assert!(error.starts_with("expected an object, found an array"), "{error}");
}

/// Reads a number in the form in which serde_json delivers it under `arbitrary_precision`.
fn precise(text: &str) -> Result<Value, String> {
    let entries = [("$serde_json::private::Number", text)];
    let map: MapDeserializer<'_, _, ValueError> = MapDeserializer::new(entries.into_iter());
    Value::deserialize(MapAccessDeserializer::new(map)).map_err(|error| error.to_string())
}

#[test]
fn arbitrary_precision_makes_no_difference() {
    for text in [
        "0",
        "-0",
        "5",
        "-1",
        "1.0",
        "-0.0",
        "1e3",
        "1E+3",
        "0.1",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775808",
        "-9223372036854775809",
        "1.7976931348623157e308",
        "5e-324",
        "1e-400",
        "2.5e-5",
        "123456789012345678901234567890",
    ] {
        assert_eq!(precise(text), from_json(text), "{text}");
        assert!(precise(text).is_ok());
    }
    for text in
        ["1e400", "-1e400", "NaN", "inf", "-inf", "Infinity", "", "-", "+1", "1_0", "0x1", " 1", "--1"]
    {
        assert!(precise(text).is_err(), "{text}");
        assert!(from_json(text.trim_start_matches(' ')).is_err() || text == " 1", "{text}");
    }
}

#[test]
fn a_precise_number_is_no_level() {
    // A tree from serde's own deserializers: 127 lists around one such number.
    struct Nest(usize);
    impl<'de> serde::Deserializer<'de> for Nest {
        type Error = ValueError;
        fn deserialize_any<V: serde::de::Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
            match self.0.checked_sub(1) {
                Some(rest) => {
                    visitor.visit_seq(serde::de::value::SeqDeserializer::new([Self(rest)].into_iter()))
                }
                None => {
                    let entries = [("$serde_json::private::Number", "7")];
                    visitor.visit_map(MapDeserializer::new(entries.into_iter()))
                }
            }
        }
        serde::forward_to_deserialize_any! {
            bool u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 f32 f64 char str string seq bytes byte_buf map struct
            option unit newtype_struct ignored_any unit_struct tuple_struct tuple enum identifier
        }
    }
    impl IntoDeserializer<'_, ValueError> for Nest {
        type Deserializer = Self;
        fn into_deserializer(self) -> Self {
            self
        }
    }
    let lists = from_json(&nested_lists(127)).unwrap();
    assert_eq!(Value::deserialize(Nest(127)), Ok(lists));
    assert!(Value::deserialize(Nest(128)).unwrap_err().to_string().contains("127 levels"));
}

fn nested_lists(levels: usize) -> String {
    "[".repeat(levels) + "7" + &"]".repeat(levels)
}

#[test]
fn the_private_key_is_an_ordinary_key_in_a_file() {
    for text in [
        r#"{"$serde_json::private::Number":"5"}"#,
        r#"{"$serde_json::private::Number":5,"x":[{"y":"1e400"}]}"#,
    ] {
        let tree = from_json(text).unwrap();
        assert!(tree.as_object().is_some());
        assert_eq!(serde_json::to_string(&tree).unwrap(), text);
        assert_eq!(from_msgpack(&to_msgpack(&tree)), Ok(tree));
    }
}

/// Reading a tree and only checking it have the same result, including the text and position of an error.
#[cfg(feature = "json")]
#[test]
fn checking_refuses_what_reading_refuses() {
    let options = ParseOptions::new().with_max_depth(3).with_max_nodes(12);
    let same = |text: &[u8]| {
        let read = json::parse_with(text, options).map(|value| value.kind());
        let checked = json::parse_seed(text, CheckSeed::new(options));
        assert_eq!(read, checked, "{}", String::from_utf8_lossy(text));
        read.is_ok()
    };
    assert!(same(br#"{"a":[1,{"b":"c"}],"b":{"b":null}}"#));
    for text in [
        r#"{"a":1,"b":{},"a":2}"#,
        r#"{"a":{"b":1,"\u0062":2}}"#,
        "[[[[]]]]",
        "[1,2,3,4,5,6,7,8,9,0,1,2]",
        "1e999",
    ] {
        assert!(!same(text.as_bytes()), "{text}");
    }
    const PIECES: [&str; 15] = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"a\"",
        "\"b\"",
        "\"\\u0061\"",
        "-1",
        "2.5",
        "1e999",
        "null",
        " ",
        "x",
    ];
    let texts = proptest::collection::vec(proptest::sample::select(&PIECES[..]), 0..24);
    let good = std::cell::Cell::new(0);
    let mut runner = proptest::test_runner::TestRunner::new(config(4000));
    runner
        .run(&texts, |pieces| {
            good.set(good.get() + usize::from(same(pieces.concat().as_bytes())));
            Ok(())
        })
        .unwrap();
    let mut runner = proptest::test_runner::TestRunner::new(config(300));
    runner
        .run(&trees(false), |tree| {
            good.set(good.get() + usize::from(same(json::to_string(&tree).unwrap().as_bytes())));
            Ok(())
        })
        .unwrap();
    assert!(good.get() > 100, "{}", good.get());
}
