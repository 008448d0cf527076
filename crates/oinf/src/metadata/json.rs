//! Converts metadata values to and from the tree that all formats share.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::borrow::Cow;

use modelfmt_core::value::{List, Object, Value, float_from_bits};
use modelfmt_core::{DType, SmallType, bf16, f16};

use super::{Bitset, MetaValue, NdArray};
use crate::error::Fault;
use crate::wire::ValueType;

/// The form of a float that JSON has no number for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NonFinite {
    /// A float of the tree, which JSON text shows as "NaN", "Infinity" or "-Infinity".
    Float,
    /// `{"type", "bits"}`, which keeps every bit.
    Bits,
}

impl MetaValue<'_> {
    /// Returns the value as `inspect --json` prints it: `{"type": "u8", "value": 5}`. The value of a bitset
    /// is a list of booleans. An array has `dtype`, `shape`, and its elements in a flat list.
    #[must_use]
    pub fn to_value(&self) -> Value {
        self.tree(NonFinite::Float).into()
    }

    /// Returns the value as a tree. Unlike in [`to_value`](Self::to_value), a NaN or an infinity is `{"type":
    /// "f32", "bits": "7fc00000"}`, so that all its bits survive JSON.
    #[must_use]
    pub fn to_value_exact(&self) -> Value {
        self.tree(NonFinite::Bits).into()
    }

    fn tree(&self, non_finite: NonFinite) -> Object {
        let mut object = Object::new();
        object.insert("type", self.value_type().name());
        match self {
            Self::Str(text) => _ = object.insert("value", &**text),
            Self::Bitset(bitset) => _ = object.insert("value", bitset.iter().collect::<Value>()),
            Self::Ndarray(array) => {
                object.insert("dtype", array.dtype().name());
                object.insert("shape", array.shape().iter().copied().collect::<Value>());
                object.insert("value", elements(array, non_finite));
            }
            scalar => {
                let dtype = scalar.value_type().dtype().unwrap_or(DType::Bool);
                let bytes = scalar.scalar_bytes();
                let bytes = bytes.as_ref().map_or(&[][..], |s| s.as_slice());
                match element(dtype, bytes, non_finite) {
                    Value::Object(bits) => return bits,
                    number => _ = object.insert("value", number),
                }
            }
        }
        object
    }
}

/// Returns the elements of an array.
fn elements(array: &NdArray<'_>, non_finite: NonFinite) -> Value {
    let dtype = array.dtype();
    if let Some(small) = SmallType::from_dtype(dtype) {
        // The array has bytes for all its elements, so this length fits memory.
        let mut codes = vec![0u8; usize::try_from(array.elements()).unwrap_or_default()];
        small.unpack(array.bytes(), &mut codes, |code| code);
        return codes.into_iter().map(|code| element(dtype, &[code], non_finite)).collect();
    }
    let size = dtype.size().and_then(|size| usize::try_from(size).ok()).unwrap_or(1);
    let elements = array.bytes().chunks_exact(size.max(1));
    elements.map(|bytes| element(dtype, bytes, non_finite)).collect()
}

/// Converts a number or boolean from its little-endian bytes.
fn element(dtype: DType, le: &[u8], non_finite: NonFinite) -> Value {
    macro_rules! read {
        ($type:ty) => {
            <$type>::from_le_bytes(le.try_into().unwrap_or_default())
        };
    }
    let float = |x: f64| {
        if x.is_finite() || non_finite == NonFinite::Float {
            return Value::Float(x);
        }
        let digits = le.iter().rev().map(|byte| format!("{byte:02x}")).collect::<String>();
        Value::Object([("type", dtype.name()), ("bits", &digits)].into_iter().collect())
    };
    match dtype {
        DType::I8 => read!(i8).into(),
        DType::I16 => read!(i16).into(),
        DType::I32 => read!(i32).into(),
        DType::I64 => read!(i64).into(),
        DType::U8 => read!(u8).into(),
        DType::U16 => read!(u16).into(),
        DType::U32 => read!(u32).into(),
        DType::U64 => read!(u64).into(),
        DType::F16 | DType::BF16 => float(float_from_bits(dtype, read!(u16).into()).unwrap_or_default()),
        DType::F32 => float(float_from_bits(dtype, read!(u32).into()).unwrap_or_default()),
        DType::F64 => float(read!(f64)),
        DType::F8E5M2 => float(float_from_bits(dtype, read!(u8).into()).unwrap_or_default()),
        #[expect(clippy::cast_possible_truncation, reason = "these numbers are integers")]
        small if SmallType::from_dtype(small).is_some() => {
            SmallType::from_dtype(small).map_or(0, |small| small.to_f32(read!(u8)) as i8).into()
        }
        _ => Value::Bool(le != [0]),
    }
}

/// Returns the sign (0 or 1) and the payload of a NaN in a type with a shorter mantissa. The payload is never
/// 0, which would be infinity.
fn narrowed(nan: f64, mantissa: u32) -> (u64, u64) {
    let payload = (nan.to_bits() & ((1 << 52) - 1)) >> 52_u32.saturating_sub(mantissa);
    (nan.to_bits() >> 63, if payload == 0 { 1 << mantissa.saturating_sub(1) } else { payload })
}

impl MetaValue<'static> {
    /// Makes a metadata value from a tree. The tree has the form that [`to_value`](Self::to_value) and
    /// [`to_value_exact`](Self::to_value_exact) return, or it is plain: an integer becomes i64 (u64 if it
    /// does not fit), any other number f64, and a flat list an array of bool, i64, u64 or f64.
    ///
    /// # Errors
    /// [`Fault`] if the tree has neither form, or if a number does not fit its type. Strings are checked when
    /// they are written.
    pub fn from_value(value: &Value) -> Result<Self, Fault> {
        Ok(match value {
            Value::Bool(b) => Self::Bool(*b),
            Value::Int(n) => match (n.as_i64(), n.as_u64()) {
                (Some(n), _) => Self::I64(n),
                (None, Some(n)) => Self::U64(n),
                (None, None) => {
                    return Err(Fault::NumberRange { number: n.to_string(), dtype: DType::I64 });
                }
            },
            Value::Float(x) => Self::F64(*x),
            Value::String(text) => Self::Str(Cow::Owned(text.clone())),
            Value::Array(items) => Self::Ndarray(plain_array(items)?),
            Value::Object(object) if object.contains_key("type") => typed(object)?,
            other => return Err(Fault::NoValue(other.kind())),
        })
    }
}

/// Makes a value from an object with `type` and the members that this type requires.
fn typed(object: &Object) -> Result<MetaValue<'static>, Fault> {
    let name = object.required_str("type")?;
    let unknown = || Fault::UnknownTypeName(name.to_owned());
    let value_type = ValueType::ALL.iter().copied().find(|t| t.name() == name).ok_or_else(unknown)?;
    // An unknown member would be lost silently, so it is refused.
    let has_bits = object.contains_key("bits") && value_type.dtype().is_some();
    let members: &[&str] = match value_type {
        ValueType::Ndarray => &["type", "dtype", "shape", "value"],
        _ if has_bits => &["type", "bits"],
        _ => &["type", "value"],
    };
    if let Some(other) = object.keys().find(|key| !members.contains(key)) {
        return Err(Fault::Member(other.to_owned()));
    }
    match value_type {
        ValueType::Str => Ok(MetaValue::Str(Cow::Owned(object.required_str("value")?.to_owned()))),
        ValueType::Bitset => {
            let bits = object.required_array("value")?.iter().map(|bit| {
                bit.as_bool().ok_or(Fault::WrongKind { expected: "a boolean", found: bit.kind() })
            });
            let bits = bits.collect::<Result<Vec<bool>, Fault>>()?;
            Ok(MetaValue::Bitset(Bitset::from_bits(bits)?))
        }
        ValueType::Ndarray => typed_array(object),
        scalar => {
            let dtype = scalar.dtype().ok_or_else(unknown)?;
            let mut bytes = Vec::with_capacity(8);
            if object.contains_key("bits") {
                push_bits(dtype, object, &mut bytes)?;
            } else {
                push_element(dtype, object.required("value")?, &mut bytes)?;
            }
            MetaValue::from_scalar(scalar, &bytes).ok_or_else(unknown)
        }
    }
}

fn typed_array(object: &Object) -> Result<MetaValue<'static>, Fault> {
    let name = object.required_str("dtype")?;
    let dtype = DType::from_name(name).ok_or_else(|| Fault::UnknownTypeName(name.to_owned()))?;
    let dim = |dim: Value| {
        dim.as_u64().ok_or(Fault::WrongKind { expected: "an unsigned integer", found: dim.kind() })
    };
    let shape = object.required_array("shape")?.iter().map(dim).collect::<Result<Vec<u64>, Fault>>()?;
    let mut bytes = Vec::new();
    for item in object.required_array("value")? {
        push_element(dtype, &item, &mut bytes)?;
    }
    if let Some(small) = SmallType::from_dtype(dtype).filter(|small| small.bits() < 8) {
        let mut packed = vec![0; bytes.len().saturating_mul(small.bits() as usize).div_ceil(8)];
        small.pack(&bytes, &mut packed, |code| *code);
        bytes = packed;
    }
    NdArray::new(dtype, shape, bytes).map(MetaValue::Ndarray)
}

/// Makes an array from a flat list of booleans, of integers that fit i64 or u64, or of floats.
fn plain_array(items: &List) -> Result<NdArray<'static>, Fault> {
    let other = items.iter().find(|item| !matches!(item, Value::Bool(_) | Value::Int(_) | Value::Float(_)));
    if let Some(other) = other {
        return Err(Fault::NoValue(match &other {
            Value::Array(_) => "a list of lists",
            Value::String(_) => "a list of strings",
            _ => "a list of other than numbers or booleans",
        }));
    }
    let all = |f: fn(&Value) -> bool| !items.is_empty() && items.iter().all(|item| f(&item));
    let integer = items.iter().find(|item| matches!(item, Value::Int(_)));
    let dtype = if all(|x| x.as_bool().is_some()) {
        DType::Bool
    } else if all(|x| x.as_i64().is_some()) {
        DType::I64
    } else if all(|x| x.as_u64().is_some()) {
        DType::U64
    } else if integer.is_some() && items.iter().any(|item| matches!(item, Value::Float(_))) {
        return Err(Fault::MixedList);
    } else if all(|x| matches!(x, Value::Int(_))) {
        let range = "a list of integers that neither i64 nor u64 holds together";
        return Err(Fault::NoValue(range));
    } else {
        DType::F64
    };
    let mut bytes = Vec::new();
    for item in items {
        push_element(dtype, &item, &mut bytes)?;
    }
    NdArray::new(dtype, vec![items.len() as u64], bytes)
}

/// Appends a number or boolean as little-endian bytes. An element of fewer than 8 bits takes a whole byte.
fn push_element(dtype: DType, value: &Value, out: &mut Vec<u8>) -> Result<(), Fault> {
    macro_rules! integer {
        ($type:ty) => {{
            let Value::Int(n) = value else {
                return Err(Fault::WrongKind { expected: "an integer", found: value.kind() });
            };
            let fitting = <$type>::try_from(i128::from(*n));
            let fitting = fitting.map_err(|_| Fault::NumberRange { number: n.to_string(), dtype })?;
            out.extend(fitting.to_le_bytes());
        }};
    }
    match dtype {
        DType::I8 => integer!(i8),
        DType::I16 => integer!(i16),
        DType::I32 => integer!(i32),
        DType::I64 => integer!(i64),
        DType::U8 => integer!(u8),
        DType::U16 => integer!(u16),
        DType::U32 => integer!(u32),
        DType::U64 => integer!(u64),
        DType::F16 | DType::BF16 | DType::F32 | DType::F64 | DType::F8E5M2 => push_float(dtype, value, out)?,
        DType::Bool => {
            let bit = value.as_bool();
            let bit = bit.ok_or(Fault::WrongKind { expected: "a boolean", found: value.kind() })?;
            out.push(u8::from(bit));
        }
        other => match SmallType::from_dtype(other).filter(|_| ValueType::from_dtype(other).is_some()) {
            Some(small) => out.push(push_small(small, dtype, value)?),
            None => return Err(Fault::NoCode(other)),
        },
    }
    Ok(())
}

/// Returns the code of a number of a [`SmallType`].
fn push_small(small: SmallType, dtype: DType, value: &Value) -> Result<u8, Fault> {
    let Value::Int(n) = value else {
        return Err(Fault::WrongKind { expected: "an integer", found: value.kind() });
    };
    let outside = || Fault::NumberRange { number: n.to_string(), dtype };
    // f32 holds all integers of 8 bits exactly.
    let number = i8::try_from(i128::from(*n)).map_err(|_| outside())?;
    let (code, fits) = small.rounded(number.into());
    if fits { Ok(code) } else { Err(outside()) }
}

fn push_float(dtype: DType, value: &Value, out: &mut Vec<u8>) -> Result<(), Fault> {
    let x = match value {
        Value::Object(bits) => return push_bits(dtype, bits, out),
        Value::Float(x) => *x,
        Value::Int(n) => n.as_f64().ok_or_else(|| Fault::NumberRange { number: n.to_string(), dtype })?,
        // CLI.md, inspect: NaN and infinities as strings.
        Value::String(text) if text == "NaN" => f64::NAN,
        Value::String(text) if text == "Infinity" => f64::INFINITY,
        Value::String(text) if text == "-Infinity" => f64::NEG_INFINITY,
        other => return Err(Fault::WrongKind { expected: "a number", found: other.kind() }),
    };
    let (size, rounded, bits) = match dtype {
        DType::F16 if x.is_nan() => {
            let (sign, payload) = narrowed(x, 10);
            (2, x, sign << 15 | 0x1f << 10 | payload)
        }
        DType::F32 if x.is_nan() => {
            let (sign, payload) = narrowed(x, 23);
            (4, x, sign << 31 | 0xff << 23 | payload)
        }
        DType::BF16 if x.is_nan() => {
            let (sign, payload) = narrowed(x, 7);
            (2, x, sign << 15 | 0xff << 7 | payload)
        }
        DType::F8E5M2 if x.is_nan() => {
            let (sign, payload) = narrowed(x, 2);
            (1, x, sign << 7 | 0x1f << 2 | payload)
        }
        DType::F8E5M2 => {
            let small = SmallType::from_dtype(dtype);
            #[expect(clippy::cast_possible_truncation, reason = "rounding is what is asked for")]
            let code = small.map_or(0, |small| small.from_f32(x as f32));
            (1, small.map_or(f32::NAN, |small| small.to_f32(code)).into(), code.into())
        }
        DType::BF16 => (2, bf16::from_f64(x).into(), bf16::from_f64(x).to_bits().into()),
        DType::F16 => (2, f16::from_f64(x).into(), f16::from_f64(x).to_bits().into()),
        #[expect(clippy::cast_possible_truncation, reason = "rounding is what is asked for")]
        DType::F32 => (4, f64::from(x as f32), (x as f32).to_bits().into()),
        _ => (8, x, x.to_bits()),
    };
    if x.is_finite() && !rounded.is_finite() {
        return Err(Fault::NumberRange { number: x.to_string(), dtype });
    }
    out.extend(bits.to_le_bytes().iter().take(size));
    Ok(())
}

/// Appends the float in `{"type": "f32", "bits": "7fc00000"}`, which must have as many hex digits as the type
/// takes.
fn push_bits(dtype: DType, object: &Object, out: &mut Vec<u8>) -> Result<(), Fault> {
    let (name, digits) = (object.required_str("type")?, object.required_str("bits")?);
    let wrong = || Fault::FloatBits { digits: digits.to_owned(), dtype };
    let size: usize = match dtype {
        DType::F8E5M2 => 1,
        DType::F16 | DType::BF16 => 2,
        DType::F32 => 4,
        DType::F64 => 8,
        _ => return Err(wrong()),
    };
    let is_hex = digits.bytes().all(|b| b.is_ascii_hexdigit());
    if name != dtype.name() || digits.len() != size.saturating_mul(2) || !is_hex {
        return Err(wrong());
    }
    let bits = u64::from_str_radix(digits, 16).map_err(|_| wrong())?;
    out.extend(bits.to_le_bytes().iter().take(size));
    Ok(())
}
