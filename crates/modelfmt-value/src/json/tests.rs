//! Tests of JSON text: what is read, what is written, and the positions of errors.

use proptest::prelude::*;

use super::super::tests::{all_keys, config, trees};
use super::*;

fn refused(text: &[u8]) -> JsonError {
    parse(text).unwrap_err()
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn text_round_trips(tree in trees(false)) {
        let mut keys = Vec::new();
        all_keys(&tree, &mut keys);
        for text in [to_string(&tree).unwrap(), to_string_pretty(&tree).unwrap()] {
            let back = parse(text.as_bytes()).unwrap();
            prop_assert_eq!(&back, &tree);
            let mut again = Vec::new();
            all_keys(&back, &mut again);
            prop_assert_eq!(&again, &keys);
        }
        let sorted = to_string_sorted(&tree).unwrap();
        prop_assert_eq!(&sorted, &to_string(&tree.clone().sorted()).unwrap());
        prop_assert_eq!(parse(sorted.as_bytes()).unwrap(), tree);
    }

    #[test]
    fn any_text_is_a_tree_or_an_error_inside_it(text in r#"[\[\]{},:" 0-9aeu.\\\n-]{0,40}"#) {
        if let Err(error) = parse(text.as_bytes()) {
            prop_assert!(error.offset().is_some_and(|at| at <= text.len()), "{}", error);
        }
    }

    #[test]
    fn floats_come_back_to_the_bit(bits in any::<u64>()) {
        let float = f64::from_bits(bits);
        prop_assume!(float.is_finite());
        let text = to_string(&Value::Float(float)).unwrap();
        prop_assert_eq!(parse(text.as_bytes()), Ok(Value::Float(float)));
        prop_assert_eq!(text.parse::<f64>().unwrap().to_bits(), bits);
    }
}

#[test]
fn numbers_keep_value_and_type() {
    let same = [
        "0",
        "1",
        "-1",
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
        "18446744073709551615",
        "1.0",
        "-0.0",
        "0.0",
        "0.1",
        "100000.0",
        "1.5e300",
        "5e-324",
        "1.7976931348623157e+308",
    ];
    for text in same {
        let tree = parse(text.as_bytes()).unwrap();
        assert_eq!(matches!(tree, Value::Float(_)), text.contains(['.', 'e']), "{text}");
        let again = to_string(&tree).unwrap();
        assert_eq!(again.replace("e+", "e"), text.replace("e+", "e"));
    }
    for integral in [1e15, 1e16, 1e17, 1e20, 1e21, 1e22, 9007199254740993.0, 18446744073709551616.0] {
        for float in [integral, -integral] {
            let text = to_string(&Value::Float(float)).unwrap();
            assert_eq!(parse(text.as_bytes()), Ok(Value::Float(float)), "{text}");
        }
    }
    assert_eq!(parse(b"-0"), Ok(Value::Float(-0.0)));
    for large in ["18446744073709551616", "-9223372036854775809", "1000000000000000019884624838656"] {
        let tree = format!("[0.5,{large},-1,{{\"k\":{large}}},{large}.0]");
        let value = parse(tree.as_bytes()).unwrap();
        let member = |at: usize| value.as_array().unwrap().get(at).unwrap();
        assert_eq!(member(1), Value::Int(large.parse::<i128>().unwrap().into()));
        assert_eq!(member(4), Value::Float(large.parse().unwrap()));
        assert_eq!(to_string(&value).unwrap().matches(large).count(), 2);
        assert_eq!(parse(to_string(&value).unwrap().as_bytes()), Ok(value));
        assert!(has_large_integer(tree.as_bytes()));
    }
    let text = br#"{"a":[1,18446744073709551617],"m":{"k":18446744073709551618},"z":0}"#;
    let member = parse_member(text, "m").unwrap().unwrap();
    assert_eq!(member.get("k"), Some(&Value::from((1i128 << 64) + 2)));
    assert_eq!(parse_member(text, "x"), Ok(None));
    let beyond = refused(format!("[1, {}0]", i128::MAX).as_bytes());
    assert!(beyond.message().contains("more than 128 bits") && beyond.offset() == Some(4), "{beyond}");
    assert_eq!(parse(b"1e-400"), Ok(Value::Float(0.0)));
    for text in ["1e400", "-1e400", "[1e309]", "1e99999999999999999999"] {
        assert!(refused(text.as_bytes()).message().contains("out of range"), "{text}");
    }
    for text in ["01", "+1", ".5", "1.", "1e", "NaN", "Infinity", "-", "0x10", "1_000"] {
        assert!(parse(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn what_json_lacks_becomes_text() {
    let tree: Value = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY].into_iter().collect();
    assert_eq!(to_string(&tree).unwrap(), r#"["NaN","Infinity","-Infinity"]"#);
    assert_eq!(to_string(&Value::Bytes(vec![0x0a, 0xff])).unwrap(), r#""0aff""#);
}

#[test]
fn order_is_kept_or_sorted_by_bytes() {
    let text = r#"{"b":{"z":1,"a":[{"y":2,"x":"é\n\u0001"}]},"a b":null,"é":1.0,"Z":"/","":true}"#;
    let tree = parse_object(text.as_bytes()).unwrap();
    assert_eq!(to_string(&tree).unwrap(), text);
    assert_eq!(
        to_string_sorted(&tree).unwrap(),
        r#"{"":true,"Z":"/","a b":null,"b":{"a":[{"x":"é\n\u0001","y":2}],"z":1},"é":1.0}"#
    );
    assert_eq!(to_string_sorted(&Value::from(tree)).unwrap().len(), text.len());
}

#[test]
fn pretty_text_has_two_spaces_a_level() {
    let tree = parse(br#"{"a":[1,{"b":[]}],"c":{}}"#).unwrap();
    let pretty = "{\n  \"a\": [\n    1,\n    {\n      \"b\": []\n    }\n  ],\n  \"c\": {}\n}";
    assert_eq!(to_string_pretty(&tree).unwrap(), pretty);
}

#[test]
fn text_must_be_utf8_and_end_with_the_value() {
    let error = refused(b"{\"a\":\n \"\xff\"}");
    assert_eq!(
        (error.message(), error.offset(), error.line_and_column()),
        ("not UTF-8", Some(8), Some((2, 3)))
    );
    let error = refused(b"{} {}");
    assert_eq!((error.message(), error.offset()), ("trailing characters", Some(3)));
    assert_eq!(refused(b"1\0").offset(), Some(1));
    assert!(parse(b" {}\r\n\t ").is_ok());
    assert!(parse(b"\xef\xbb\xbf{}").is_err(), "a byte order mark");
    assert!(parse(b"").is_err());
    assert!(parse(br#""\ud800""#).is_err(), "half a surrogate pair");
    assert!(parse(b"\"a\nb\"").is_err(), "a control character");
}

#[test]
fn errors_say_what_and_where() {
    let error = refused(b"{\"a\": 1,\n \"a\": 2}");
    assert_eq!(error.message(), r#"duplicate key "a""#);
    assert_eq!(error.line_and_column().map(|(line, _)| line), Some(2));
    assert!(error.to_string().starts_with(r#"duplicate key "a" (line 2, column "#), "{error}");
    assert_eq!(refused(b"[1,\n\n?]").offset(), Some(5));
    assert_eq!(refused(b"[1,").offset(), Some(2), "the last byte");

    let error = parse_object(b" [1]").unwrap_err();
    assert_eq!(error.to_string(), "expected an object, found an array (line 1, column 2)");
    assert_eq!(error.offset(), Some(1));
    let error = parse_object(b"\n\n  7").unwrap_err();
    assert_eq!((error.line_and_column(), error.offset()), (Some((3, 3)), Some(4)));
}

#[test]
fn depth_is_limited_both_ways() {
    let text = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    let tree = parse(text(127).as_bytes()).unwrap();
    assert_eq!(to_string(&tree).unwrap(), text(127));
    for levels in [128, 129, 100_000] {
        assert_eq!(refused(text(levels).as_bytes()).message(), "nested deeper than 127 levels");
    }
    let deeper = Value::from(vec![tree]);
    for error in [to_string(&deeper), to_string_pretty(&deeper), to_string_sorted(&deeper)] {
        assert_eq!(error.unwrap_err().to_string(), "nested deeper than 127 levels");
    }
    let options = ParseOptions::new().with_max_depth(2).with_max_nodes(3);
    assert!(parse_with(b"[[1]]", options).is_ok());
    assert_eq!(parse_with(b"[[[]]]", options).unwrap_err().message(), "nested deeper than 2 levels");
    assert_eq!(parse_with(b"[1,2,3]", options).unwrap_err().message(), "more than 3 values");
}

#[test]
fn a_million_keys_are_read() {
    let mut text = String::from("{");
    for n in 0..1_000_000 {
        text.push_str(&format!("\"{n:x}\":{n},"));
    }
    text.push_str("\"last\":[]}");
    let tree = parse_object(text.as_bytes()).unwrap();
    assert_eq!(tree.len(), 1_000_001);
    assert_eq!(tree.get("f423f"), Some(&Value::from(999_999)));
    assert_eq!(to_string(&tree).unwrap(), text);
}

#[test]
fn the_start_of_a_tree_is_that_of_its_text() {
    let text = r#"{"a":[1,2.5,null,true],"重み":"é\n\u0001","o":{"k":[[],{}]}}"#;
    let tree = parse(text.as_bytes()).unwrap();
    let whole = to_string(&tree).unwrap();
    let len = whole.chars().count();
    for max in 0..len + 3 {
        assert_eq!(start(&tree, max), whole.chars().take(max).collect::<String>(), "{max}");
    }
}
