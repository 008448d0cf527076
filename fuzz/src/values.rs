//! Trees of values and their text, and what users write: patterns of names, types and formats.

use arbitrary::{Arbitrary, Result, Unstructured};
use modelfmt::convert::TypeRule;
use modelfmt::model::Globs;
use modelfmt::{DType, Format};
use modelfmt_core::value::{List, Value, json};

use super::drill::Depth;
use super::model::value;

/// A list that keeps its members encoded is equivalent to one that does not.
pub fn list(bytes: &[u8], _: Depth) {
    let _ = lists(&mut Unstructured::new(bytes));
}

fn lists(u: &mut Unstructured<'_>) -> Result<()> {
    let (mut list, mut plain) = (List::new(), Vec::<Value>::new());
    for _ in 0..u.int_in_range(0..=24)? {
        match u.int_in_range(0..=7)? {
            0 => {
                let value = any_value(u)?;
                list.push_front(value.clone());
                plain.insert(0, value);
            }
            1 => {
                // A list that shares its bytes with the outer one becomes independent of it when it grows.
                let Some(Value::Array(mut inner)) = list.get(u.int_in_range(0..=7)?) else { continue };
                let before = list.clone();
                inner.push(any_value(u)?);
                assert_eq!(list, before, "the outer list is as it was");
                plain.push(Value::Array(inner.clone()));
                list.push(inner);
            }
            2 => list = list.iter().collect(),
            3 => list.shrink_to_fit(),
            4 => {
                let texts = list.texts().map(|texts| texts.len());
                assert_eq!(texts, plain.iter().all(|value| value.as_str().is_some()).then_some(plain.len()));
            }
            _ => {
                let value = any_value(u)?;
                list.push(value.clone());
                plain.push(value);
            }
        }
        check(&list, &plain);
    }
    Ok(())
}

fn check(list: &List, plain: &[Value]) {
    assert_eq!((list.len(), list.is_empty()), (plain.len(), plain.is_empty()));
    assert_eq!(format!("{list:?}"), format!("{plain:?}"));
    assert!(list.iter().eq(plain.iter().cloned()));
    assert_eq!(list.get(plain.len()), None);
    let sorted = Value::Array(list.clone()).sorted();
    assert!(sorted == Value::Array(plain.iter().cloned().map(Value::sorted).collect()));
    let tree = Value::Array(list.clone());
    if let Ok(text) = json::to_string(&tree) {
        let parsed = json::parse(text.as_bytes()).expect("what is written is read");
        assert_eq!(json::to_string(&parsed).ok(), Some(text));
    }
}

fn any_value(u: &mut Unstructured<'_>) -> Result<Value> {
    Ok(match u.int_in_range(0..=9)? {
        0 => Value::Bytes(<Vec<u8>>::arbitrary(u)?),
        1 => Value::Int((u64::arbitrary(u)? >> u.int_in_range(0..=63)?).into()),
        2 => Value::Int((i64::arbitrary(u)? >> u.int_in_range(0..=63)?).into()),
        3 => Value::Int(((i128::arbitrary(u)?) >> u.int_in_range(0..=127)?).into()),
        // No text is parsed to NaN.
        4 => Value::Float(Some(f64::arbitrary(u)?).filter(|x| !x.is_nan()).unwrap_or_default()),
        5 => "x".repeat(u.int_in_range(0..=200)?).into(),
        _ => value(u, 3)?,
    })
}

/// Text of users: if it is accepted, it is accepted again as it is printed.
pub fn text(bytes: &[u8], _: Depth) {
    if let Ok(parsed) = json::parse(bytes) {
        let text = json::to_string(&parsed).expect("what was read is written");
        let again = json::parse(text.as_bytes()).expect("what is written is read");
        assert_eq!(parsed, again);
        assert_eq!(json::to_string(&again).ok().as_ref(), Some(&text));
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(dtype) = text.parse::<DType>() {
        assert_eq!(dtype.name().parse(), Ok(dtype));
    }
    if let Ok(format) = text.parse::<Format>() {
        assert_eq!(format.to_string().parse::<Format>().ok(), Some(format));
    }
    let _ = text.parse::<TypeRule>();
    let _ = TypeRule::parse_cast(text);
    let _ = TypeRule::parse_quantize(text);
    let mut lines = text.lines();
    let name = lines.next().unwrap_or_default();
    if let Ok(globs) = Globs::new(lines) {
        let _ = globs.is_match(name);
    }
}
