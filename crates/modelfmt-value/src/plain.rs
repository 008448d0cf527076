//! Removes types from values of the form `{"type": …, "value": …}`. The metadata of OINF has this form, and
//! so have floats that JSON lacks.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use tensor_core::{DType, Kind, SmallType, bf16, f16};

use super::{List, Value};

impl Value {
    /// Returns the value without its type, if this is an object that states one: `{"type": "u8", "value": 5}`
    /// becomes 5. The elements of an array (`{"type": "ndarray", "dtype", "shape", "value"}`) become lists
    /// nested by its shape. `None` if this is not such an object, or has a member that would be lost.
    #[must_use]
    pub fn without_type(&self) -> Option<Self> {
        without_type(self)
    }

    /// Returns the value without its type if it is an object that states one; otherwise a copy of the value.
    #[must_use]
    pub fn to_plain(&self) -> Self {
        without_type(self).unwrap_or_else(|| self.clone())
    }
}

fn without_type(value: &Value) -> Option<Value> {
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

fn scalar(dtype: DType, value: &Value) -> Option<Value> {
    match (dtype.kind(), value) {
        (Kind::Bool, Value::Bool(_))
        | (Kind::Int | Kind::UInt, Value::Int(_))
        | (Kind::Float, Value::Float(_)) => Some(value.clone()),
        (Kind::Float, Value::Int(_)) => value.as_f64().map(Value::Float),
        // JSON text uses these names for the floats that it lacks.
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

/// Returns the float of `{"type": "f32", "bits": "7fc00000"}`, with the same bits as far as f64 has them.
fn float_of_bits(dtype: DType, value: &Value) -> Option<f64> {
    let object = value.as_object().filter(|object| object.len() == 2)?;
    let digits = object.get("bits")?.as_str()?;
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let bits = u64::from_str_radix(digits, 16).ok().filter(|_| is_hex)?;
    if object.get("type")?.as_str()? != dtype.name() {
        return None;
    }
    let is_whole = dtype.size().and_then(|size| size.checked_mul(2)) == u32::try_from(digits.len()).ok();
    is_whole.then(|| float_from_bits(dtype, bits))?
}

/// Returns the number with these bits in a float type. A NaN keeps its sign and payload; conversion by
/// hardware does not ensure that. `None` for a type that is not supported, and for bits beyond its width.
#[must_use]
pub fn float_from_bits(dtype: DType, bits: u64) -> Option<f64> {
    let small = |code: u8| SmallType::from_dtype(dtype).map(|small| small.to_f32(code).into());
    let (x, sign_bit, mantissa): (f64, u32, u32) = match dtype {
        DType::F64 => return Some(f64::from_bits(bits)),
        DType::F32 => (f32::from_bits(u32::try_from(bits).ok()?).into(), 31, 23),
        DType::F16 => (f16::from_bits(u16::try_from(bits).ok()?).into(), 15, 10),
        DType::BF16 => (bf16::from_bits(u16::try_from(bits).ok()?).into(), 15, 7),
        DType::F8E5M2 => (small(u8::try_from(bits).ok()?)?, 7, 2),
        _ => return None,
    };
    if !x.is_nan() {
        return Some(x);
    }
    let (sign, payload) = (bits >> sign_bit, bits & !(u64::MAX << mantissa));
    Some(f64::from_bits(sign << 63 | 0x7ff << 52 | payload << 52_u32.saturating_sub(mantissa)))
}

/// Nests elements in lists according to a shape. Returns a flat list if the shape has too many dimensions for
/// a tree.
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
    // Without elements, the rows would be empty lists, possibly very many.
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

#[cfg(all(test, feature = "json"))]
mod tests {
    use super::*;
    use crate::json;

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
            (r#"{"type":"bf16","bits":"3f80"}"#, Some("1.0")),
            (r#"{"type":"f8_e5m2","bits":"3c"}"#, Some("1.0")),
            (r#"{"type":"f32","bits":"3f80"}"#, None),
            (r#"{"type":"i32","bits":"00000001"}"#, None),
            (r#"{"type":"f32","bits":"+fc00000"}"#, None),
            (r#"{"type":"llama"}"#, None),
            (r#"{"value":1}"#, None),
        ] {
            let found = json::parse(typed.as_bytes()).unwrap().without_type();
            let found = found.map(|value| json::to_string(&value).unwrap());
            assert_eq!(found.as_deref(), expected, "{typed}");
        }
    }

    #[test]
    fn nans_keep_sign_and_payload() {
        for (dtype, bits, expected) in [
            (DType::F32, 0xff80_0001, 0xfff0_0000_2000_0000),
            (DType::F32, 0x7fc0_0000, 0x7ff8_0000_0000_0000),
            (DType::F16, 0xfc01, 0xfff0_0400_0000_0000),
            (DType::BF16, 0x7f81, 0x7ff0_2000_0000_0000),
            (DType::F8E5M2, 0xfd, 0xfff4_0000_0000_0000),
            (DType::F64, 0x7ff0_0000_0000_0001, 0x7ff0_0000_0000_0001),
        ] {
            let found = float_from_bits(dtype, bits).map(f64::to_bits);
            assert_eq!(found, Some(expected), "{dtype} {bits:x}");
        }
        assert_eq!(float_from_bits(DType::F16, 0xfc00), Some(f64::NEG_INFINITY));
        assert_eq!(float_from_bits(DType::F16, 0x1_0000), None);
        assert_eq!(float_from_bits(DType::U8, 1), None);
    }
}
