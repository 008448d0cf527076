//! Plain values: what `{"type": …, "value": …}` says, as the metadata of OINF and the floats that JSON lacks are written.

use modelfmt_core::value::{List, Value};
use modelfmt_core::{DType, Kind};

/// The plain value of `{"type", "value"}` or `{"type", "bits"}`, and of an array that of its elements, in lists of its shape.
/// `None` if it is not of that form, or has a member that would be lost.
pub(super) fn plain(value: &Value) -> Option<Value> {
    let object = value.as_object()?;
    let has_only = |members: &[&str]| object.keys().all(|key| members.contains(&key));
    let inner = object.get("value");
    match object.get("type")?.as_str()? {
        "str" if has_only(&["type", "value"]) => inner.filter(|text| text.as_str().is_some()).cloned(),
        "bitset" if has_only(&["type", "value"]) => {
            let is_list = |bits: &List| bits.iter().all(|bit| bit.as_bool().is_some());
            inner.filter(|bits| bits.as_array().is_some_and(is_list)).cloned()
        }
        "ndarray" if has_only(&["type", "dtype", "shape", "value"]) => {
            let dtype = DType::from_name(object.get("dtype")?.as_str()?)?;
            let dim = |dim: Value| usize::try_from(dim.as_u64()?).ok();
            let shape: Vec<usize> =
                object.get("shape")?.as_array()?.iter().map(dim).collect::<Option<_>>()?;
            let elements = inner?.as_array()?.iter().map(|element| scalar(dtype, &element));
            nested(elements.collect::<Option<_>>()?, &shape)
        }
        name => {
            let dtype = DType::from_name(name)?;
            match inner {
                Some(inner) if has_only(&["type", "value"]) => scalar(dtype, inner),
                None => scalar(dtype, value),
                Some(_) => None,
            }
        }
    }
}

/// The plain value of what may be one with its type.
pub(super) fn unwrapped(value: &Value) -> Value {
    plain(value).unwrap_or_else(|| value.clone())
}

/// What kind of value it is, for messages: the type that it names, or its kind in JSON.
pub(super) fn kind(value: &Value) -> String {
    match value.get("type").and_then(Value::as_str).filter(|_| plain(value).is_some()) {
        Some(name) => format!("a {name}"),
        None => value.kind().to_owned(),
    }
}

/// Whether JSON has every number in a value.
pub(super) fn is_json(value: &Value) -> bool {
    match value {
        Value::Float(x) => x.is_finite(),
        Value::Array(items) => items.iter().all(|item| is_json(&item)),
        Value::Object(object) => object.values().all(is_json),
        _ => true,
    }
}

fn scalar(dtype: DType, value: &Value) -> Option<Value> {
    match (dtype.kind(), value) {
        (Kind::Bool, Value::Bool(_))
        | (Kind::Int | Kind::UInt, Value::Int(_))
        | (Kind::Float, Value::Float(_)) => Some(value.clone()),
        (Kind::Float, Value::Int(_)) => value.as_f64().map(Value::Float),
        // JSON gets the floats that it lacks by these names.
        (Kind::Float, Value::String(text)) => match text.as_str() {
            "NaN" => Some(f64::NAN.into()),
            "Infinity" => Some(f64::INFINITY.into()),
            "-Infinity" => Some(f64::NEG_INFINITY.into()),
            _ => None,
        },
        (Kind::Float, Value::Object(_)) => float_of_bits(dtype, value).map(Value::Float),
        _ => None,
    }
}

/// The float of `{"type": "f32", "bits": "7fc00000"}`, with its bits where f64 has the same.
fn float_of_bits(dtype: DType, value: &Value) -> Option<f64> {
    let object = value.as_object().filter(|object| object.len() == 2)?;
    let digits = object.get("bits")?.as_str()?;
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let bits = u64::from_str_radix(digits, 16).ok().filter(|_| is_hex)?;
    if object.get("type")?.as_str()? != dtype.name() {
        return None;
    }
    match (dtype, digits.len()) {
        (DType::F64, 16) => Some(f64::from_bits(bits)),
        (DType::F32, 8) => Some(f32::from_bits(u32::try_from(bits).ok()?).into()),
        (DType::F16, 4) => Some(modelfmt_core::f16::from_bits(u16::try_from(bits).ok()?).into()),
        _ => None,
    }
}

/// Elements in lists of a shape; a flat list where that is too deep for a tree.
fn nested(elements: List, shape: &[usize]) -> Option<Value> {
    const MAX_RANK: usize = 32;
    let count = shape.iter().try_fold(1usize, |count, &dim| count.checked_mul(dim))?;
    if count != elements.len() {
        return None;
    }
    if shape.is_empty() {
        return elements.get(0);
    }
    let mut level = elements;
    // Without elements there is nothing to put into lists, and rows could be many.
    if shape.len() <= MAX_RANK && count > 0 {
        for &dim in shape.iter().skip(1).rev() {
            let mut rows = List::new();
            let mut items = level.iter();
            loop {
                let row: List = items.by_ref().take(dim).collect();
                if row.is_empty() {
                    break;
                }
                rows.push(row);
            }
            level = rows;
        }
    }
    Some(Value::Array(level))
}

#[cfg(test)]
mod tests {
    use super::*;
    use modelfmt_core::value::json;

    #[test]
    fn typed_values_are_what_they_say() {
        for (typed, expected) in [
            (r#"{"type":"u8","value":5}"#, Some("5")),
            (r#"{"type":"f32","value":1}"#, Some("1.0")),
            (r#"{"type":"f64","bits":"3ff0000000000000"}"#, Some("1.0")),
            (r#"{"type":"f64","value":"-Infinity"}"#, Some(r#""-Infinity""#)),
            (r#"{"type":"str","value":"pt"}"#, Some(r#""pt""#)),
            (r#"{"type":"bool","value":true}"#, Some("true")),
            (r#"{"type":"bitset","value":[true,false]}"#, Some("[true,false]")),
            (r#"{"type":"ndarray","dtype":"i8","shape":[2,2],"value":[1,2,3,4]}"#, Some("[[1,2],[3,4]]")),
            (r#"{"type":"ndarray","dtype":"i8","shape":[],"value":[1]}"#, Some("1")),
            (r#"{"type":"ndarray","dtype":"i8","shape":[1,4],"value":[1,2,3,4]}"#, Some("[[1,2,3,4]]")),
            (r#"{"type":"ndarray","dtype":"i8","shape":[1000000000,0],"value":[]}"#, Some("[]")),
            (
                r#"{"type":"ndarray","dtype":"f16","shape":[1],"value":[{"type":"f16","bits":"3c00"}]}"#,
                Some("[1.0]"),
            ),
            (r#"{"type":"ndarray","dtype":"i8","shape":[3],"value":[1]}"#, None),
            (r#"{"type":"str","value":"pt","note":1}"#, None),
            (r#"{"type":"u8","value":1,"bits":"01"}"#, None),
            (r#"{"type":"u8","value":"1"}"#, None),
            (r#"{"type":"f32","bits":"+fc00000"}"#, None),
            (r#"{"type":"llama"}"#, None),
            (r#"{"value":1}"#, None),
        ] {
            let found = plain(&json::parse(typed.as_bytes()).unwrap());
            let found = found.map(|value| json::to_string(&value).unwrap());
            assert_eq!(found.as_deref(), expected, "{typed}");
        }
    }
}
