use modelfmt_core::CommonFault;
use modelfmt_core::value::{Object, Value};

use super::*;

fn object<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::Object(entries.into_iter().collect::<Object>())
}

fn list<T: Into<Value>>(items: impl IntoIterator<Item = T>) -> Value {
    items.into_iter().map(Into::into).collect()
}

#[track_caller]
fn both_ways(value: &MetaValue<'static>, tree: &Value) {
    assert_eq!(&value.to_value(), tree);
    assert_eq!(&MetaValue::from_value(tree).unwrap(), value);
    assert_eq!(&MetaValue::from_value(&value.to_value_exact()).unwrap(), value);
}

#[test]
fn values_are_trees_with_their_type() {
    let scalar = |name: &str, value: Value| object([("type", name.into()), ("value", value)]);
    both_ways(&MetaValue::U8(5), &scalar("u8", 5.into()));
    both_ways(&MetaValue::I64(i64::MIN), &scalar("i64", i64::MIN.into()));
    both_ways(&MetaValue::U64(u64::MAX), &scalar("u64", u64::MAX.into()));
    both_ways(&MetaValue::F16(f16::from_f32(0.5)), &scalar("f16", 0.5.into()));
    both_ways(&MetaValue::F32(0.1), &scalar("f32", f64::from(0.1f32).into()));
    both_ways(&MetaValue::F64(-0.0), &scalar("f64", (-0.0).into()));
    both_ways(&MetaValue::Bool(true), &scalar("bool", true.into()));
    both_ways(&MetaValue::from("clamp_up"), &scalar("str", "clamp_up".into()));
    let bits = [true, false, false, true, true, false, false, false, true];
    let bitset = Bitset::from_bits(bits).unwrap();
    assert_eq!((bitset.len(), bitset.bytes()), (9, &[0x19, 1][..]));
    both_ways(&bitset.into(), &scalar("bitset", list(bits)));
    let array = NdArray::new(DType::I16, vec![2, 1], vec![1, 0, 0xff, 0xff]).unwrap();
    let tree = object([
        ("type", "ndarray".into()),
        ("dtype", "i16".into()),
        ("shape", list([2, 1])),
        ("value", list([1, -1])),
    ]);
    both_ways(&array.into(), &tree);
}

#[test]
fn floats_that_json_lacks_keep_their_bits() {
    for bits in [0x7f80_0000u32, 0xff80_0000, 0x7fc0_0000, 0x7f80_0001, 0xffaa_5555] {
        let value = MetaValue::F32(f32::from_bits(bits));
        let exact = object([("type", "f32".into()), ("bits", format!("{bits:08x}").into())]);
        assert_eq!(value.to_value_exact(), exact);
        assert_eq!(MetaValue::from_value(&exact).unwrap(), value);
        assert_eq!(MetaValue::from_value(&value.to_value()).unwrap(), value, "{bits:x} in memory");
    }
    for bits in [0x7c00u16, 0x7e00, 0xfc01] {
        let value = MetaValue::F16(f16::from_bits(bits));
        let exact = object([("type", "f16".into()), ("bits", format!("{bits:04x}").into())]);
        assert_eq!(value.to_value_exact(), exact);
        assert_eq!(MetaValue::from_value(&exact).unwrap(), value);
        assert_eq!(MetaValue::from_value(&value.to_value()).unwrap(), value, "{bits:x} in memory");
    }
    let array =
        NdArray::new(DType::F64, vec![2], [1.0f64.to_le_bytes(), [1, 0, 0, 0, 0, 0, 0xf0, 0x7f]].concat());
    let array = MetaValue::from(array.unwrap());
    let nan = object([("type", "f64".into()), ("bits", "7ff0000000000001".into())]);
    assert_eq!(array.to_value_exact().get("value"), Some(&Value::from(vec![1.0.into(), nan])));
    assert_eq!(MetaValue::from_value(&array.to_value_exact()).unwrap(), array);
}

#[test]
fn inspects_strings_for_floats_are_read() {
    let float = |dtype: &str, text: &str| object([("type", dtype.into()), ("value", text.into())]);
    let read = |tree: &Value| MetaValue::from_value(tree).unwrap();
    assert_eq!(read(&float("f32", "NaN")), MetaValue::F32(f32::from_bits(0x7fc0_0000)));
    assert_eq!(read(&float("f16", "NaN")), MetaValue::F16(f16::from_bits(0x7e00)));
    assert_eq!(read(&float("f64", "-Infinity")), MetaValue::F64(f64::NEG_INFINITY));
    assert_eq!(read(&float("f16", "Infinity")), MetaValue::F16(f16::INFINITY));
    assert!(MetaValue::from_value(&float("f64", "nan")).is_err());
    assert!(MetaValue::from_value(&float("u8", "NaN")).is_err());
}

#[test]
fn plain_json_gets_a_type() {
    let plain = |tree: Value| MetaValue::from_value(&tree).unwrap();
    let array = |dtype, len, bytes: Vec<u8>| MetaValue::from(NdArray::new(dtype, vec![len], bytes).unwrap());
    assert_eq!(plain(true.into()), MetaValue::Bool(true));
    assert_eq!(plain(5.into()), MetaValue::I64(5));
    assert_eq!(plain(u64::MAX.into()), MetaValue::U64(u64::MAX));
    assert_eq!(plain(5.0.into()), MetaValue::F64(5.0));
    assert_eq!(plain("NaN".into()), MetaValue::from("NaN"));
    assert_eq!(plain(list([true, false])), array(DType::Bool, 2, vec![1, 0]));
    assert_eq!(
        plain(list([-1, 2])),
        array(DType::I64, 2, [(-1i64).to_le_bytes(), 2i64.to_le_bytes()].concat())
    );
    assert_eq!(
        plain(list([u64::MAX, 2])),
        array(DType::U64, 2, [u64::MAX.to_le_bytes(), 2u64.to_le_bytes()].concat())
    );
    let mixed = Value::from(vec![1.into(), 0.5.into()]);
    assert_eq!(MetaValue::from_value(&mixed), Err(Fault::MixedList));
    let wide = Value::from(vec![(-1).into(), u64::MAX.into()]);
    assert!(MetaValue::from_value(&wide).unwrap_err().to_string().contains("neither i64 nor u64"));
    let large = Value::from(1i128 << 64);
    assert!(matches!(MetaValue::from_value(&large), Err(Fault::NumberRange { .. })));
    // An integer that is given for a float type must be exact in that type.
    assert!(
        MetaValue::from_value(&object([("type", "f64".into()), ("value", ((1u64 << 53) + 1).into())]))
            .is_err()
    );
    let beside = object([("type", "str".into()), ("value", "x".into()), ("note", "y".into())]);
    assert_eq!(MetaValue::from_value(&beside), Err(Fault::Member("note".to_owned())));
    assert_eq!(plain(Value::from(vec![])), array(DType::F64, 0, vec![]));
}

#[test]
fn what_is_no_metadata_is_refused() {
    let refused = |tree: Value| MetaValue::from_value(&tree).unwrap_err();
    let typed = |name: &str, value: Value| refused(object([("type", name.into()), ("value", value)]));
    assert_eq!(refused(Value::Null), Fault::NoValue("null"));
    assert_eq!(refused(object([("a", 1.into())])), Fault::NoValue("an object"));
    assert_eq!(refused(list([list([1])])), Fault::NoValue("a list of lists"));
    assert_eq!(refused(list(["a"])), Fault::NoValue("a list of strings"));
    assert!(matches!(refused(Value::from(vec![true.into(), 1.into()])), Fault::WrongKind { .. }));
    assert_eq!(typed("f8_e4m3", 1.into()), Fault::UnknownTypeName("f8_e4m3".to_owned()));
    assert_eq!(typed("u8", 256.into()), Fault::NumberRange { number: "256".to_owned(), dtype: DType::U8 });
    assert!(matches!(typed("u64", (-1).into()), Fault::NumberRange { .. }));
    assert!(matches!(typed("i8", 1.0.into()), Fault::WrongKind { expected: "an integer", .. }));
    assert!(matches!(typed("f16", 1e6.into()), Fault::NumberRange { .. }));
    assert!(matches!(typed("f32", 1e39.into()), Fault::NumberRange { .. }));
    assert!(matches!(typed("bool", 1.into()), Fault::WrongKind { .. }));
    assert!(matches!(typed("str", 1.into()), Fault::Common(CommonFault::Metadata(_))));
    assert!(matches!(typed("bitset", list([1])), Fault::WrongKind { .. }));
    assert!(matches!(refused(object([("type", "u8".into())])), Fault::Common(CommonFault::Metadata(_))));
    for digits in ["7fc0", "+7fc0000", "7fc0000g", "7fc000000", "éaaaaaa"] {
        let tree = object([("type", "f32".into()), ("bits", digits.into())]);
        assert!(matches!(refused(tree), Fault::FloatBits { .. }), "{digits}");
    }
    assert!(matches!(
        refused(object([("type", "u8".into()), ("bits", "ff".into())])),
        Fault::FloatBits { .. }
    ));
    let array = |dtype: &str, dims: Value| {
        refused(object([
            ("type", "ndarray".into()),
            ("dtype", dtype.into()),
            ("shape", dims),
            ("value", list([1, 2, 3])),
        ]))
    };
    assert!(matches!(array("u8", list([2])), Fault::Common(CommonFault::Nbytes { .. })));
    assert!(matches!(array("u8", list([u64::MAX, 3])), Fault::Common(CommonFault::TooManyElements(_))));
    assert!(matches!(array("u8", list([-3])), Fault::WrongKind { .. }));
    assert!(matches!(array("f8_e4m3", list([3])), Fault::NoCode(_)));
    assert!(matches!(array("str", list([3])), Fault::UnknownTypeName(_)));
}

#[test]
fn equality_is_of_bits_and_types() {
    assert_ne!(MetaValue::U8(1), MetaValue::I8(1));
    assert_ne!(MetaValue::F32(0.0), MetaValue::F32(-0.0));
    assert_eq!(MetaValue::F64(f64::NAN), MetaValue::F64(f64::NAN));
    assert_ne!(MetaValue::F32(f32::from_bits(0x7fc0_0000)), MetaValue::F32(f32::from_bits(0x7fc0_0001)));
    assert_ne!(MetaValue::Bool(true), MetaValue::U8(1));
    assert_ne!(MetaValue::from("a"), MetaValue::U8(1));
}

#[test]
fn values_of_ones_own_are_checked() {
    assert_eq!(Bitset::new(9, vec![0]).unwrap_err(), Fault::BitsetBytes { found: 1, bits: 9, expected: 2 });
    assert!(Bitset::new(0, vec![]).unwrap().is_empty());
    assert_eq!(NdArray::new(DType::C64, vec![1], vec![0; 8]), Err(Fault::NoCode(DType::C64)));
    let wrong = CommonFault::Nbytes { found: 3, expected: 4 };
    assert_eq!(NdArray::new(DType::F32, vec![], vec![0; 3]), Err(Fault::Common(wrong)));
    assert!(NdArray::new(DType::F32, vec![u64::MAX], vec![]).is_err());
}

#[test]
fn accessors_know_their_types() {
    assert_eq!(MetaValue::I8(-3).as_integer(), Some(-3));
    assert_eq!(MetaValue::U64(u64::MAX).as_integer(), Some(u64::MAX.into()));
    assert_eq!((MetaValue::F32(0.5).as_float(), MetaValue::F32(0.5).as_integer()), (Some(0.5), None));
    assert_eq!((MetaValue::from("x").as_str(), MetaValue::Bool(true).as_bool()), (Some("x"), Some(true)));
    let array =
        NdArray::new(DType::F32, vec![2], [1.5f32.to_le_bytes(), 2.5f32.to_le_bytes()].concat()).unwrap();
    assert_eq!(array.view().unwrap().to_vec::<f32>().unwrap(), [1.5, 2.5]);
    let value = MetaValue::from(array.clone());
    assert_eq!(value.clone().into_owned(), value);
}
