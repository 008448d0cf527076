//! Metadata values: numbers, booleans, strings, bitsets and arrays.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod entries;
mod json;
mod small;

use std::borrow::Cow;

use modelfmt_core::{
    Bytes, DType, Kind, Limits, Part, TensorError, TensorInfo, TensorView,
    author::{Cursor, align_up},
    bf16, f16, implied_nbytes,
};

use crate::error::{Error, Fault, Result};
use crate::wire::{self, ValueType, malformed};

pub(crate) use entries::{Entries, Entry};
pub use small::SmallNumber;
pub(crate) use small::{packed_fault, stray_fault, ternaries, ternary_fault};

/// The content of a file except its tensors, for a [`Plan`](crate::Plan): size variables and metadata, in any
/// order.
///
/// [`Index::to_metadata`](crate::Index::to_metadata) returns the metadata of an open file in this form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata<'a> {
    /// The names and values of the size variables.
    pub sizevars: Vec<(Cow<'a, str>, u64)>,
    /// The keys and values of the metadata.
    pub values: Vec<(Cow<'a, str>, MetaValue<'a>)>,
}

impl<'a> Metadata<'a> {
    /// Creates metadata without any entries.
    #[must_use]
    pub const fn new() -> Self {
        Self { sizevars: Vec::new(), values: Vec::new() }
    }

    /// Returns the value with this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&MetaValue<'a>> {
        self.values.iter().find(|(known, _)| known == key).map(|(_, value)| value)
    }

    /// Adds a size variable.
    #[must_use]
    pub fn sizevar(mut self, name: impl Into<Cow<'a, str>>, value: u64) -> Self {
        self.sizevars.push((name.into(), value));
        self
    }

    /// Adds a value.
    #[must_use]
    pub fn value(mut self, key: impl Into<Cow<'a, str>>, value: impl Into<MetaValue<'a>>) -> Self {
        self.values.push((key.into(), value.into()));
        self
    }
}

macro_rules! values {
    ($($variant:ident $type:ty;)*) => {
        /// A metadata value. Two values are equal if their types and bits are equal, so a NaN equals its copy.
        #[derive(Clone, Debug)]
        pub enum MetaValue<'a> {
            $(#[doc = concat!("A scalar of type `", stringify!($type), "`.")] $variant($type),)*
            /// A number of 8 bits or fewer for which Rust has no type.
            Small(SmallNumber),
            /// A boolean.
            Bool(bool),
            /// A set of bits.
            Bitset(Bitset<'a>),
            /// Text of at least one character from `[A-Za-z0-9._-]`.
            Str(Cow<'a, str>),
            /// An array.
            Ndarray(NdArray<'a>),
        }

        impl MetaValue<'_> {
            /// Returns the type of the value.
            #[must_use]
            pub const fn value_type(&self) -> ValueType {
                match self {
                    $(Self::$variant(_) => ValueType::$variant,)*
                    Self::Small(x) => x.value_type(),
                    Self::Bool(_) => ValueType::Bool,
                    Self::Bitset(_) => ValueType::Bitset,
                    Self::Str(_) => ValueType::Str,
                    Self::Ndarray(_) => ValueType::Ndarray,
                }
            }

            /// Returns the little-endian bytes of a scalar, or `None` for any other value.
            fn scalar_bytes(&self) -> Option<Scalar> {
                Some(match self {
                    $(Self::$variant(x) => Scalar::new(&x.to_le_bytes()),)*
                    Self::Small(x) => Scalar::new(&[x.code()]),
                    Self::Bool(b) => Scalar::new(&[u8::from(*b)]),
                    Self::Bitset(_) | Self::Str(_) | Self::Ndarray(_) => return None,
                })
            }

            /// Makes a scalar of this type from its little-endian bytes. Returns `None` if the type is not a
            /// scalar or has another length.
            #[must_use]
            pub fn from_scalar(value_type: ValueType, bytes: &[u8]) -> Option<Self> {
                Some(match value_type {
                    $(ValueType::$variant => Self::$variant(<$type>::from_le_bytes(bytes.try_into().ok()?)),)*
                    // `verify` reports bytes of a BOOL other than 0 and 1 (docs/formats/oinf.md#values).
                    ValueType::Bool => Self::Bool(<[u8; 1]>::try_from(bytes).ok()? != [0]),
                    ValueType::Bitset | ValueType::Str | ValueType::Ndarray => return None,
                    small => {
                        let [code] = <[u8; 1]>::try_from(bytes).ok()?;
                        Self::Small(SmallNumber::stored(small, code))
                    }
                })
            }
        }

        $(impl From<$type> for MetaValue<'_> {
            fn from(x: $type) -> Self {
                Self::$variant(x)
            }
        })*
    };
}

values! {
    I8 i8;
    I16 i16;
    I32 i32;
    I64 i64;
    U8 u8;
    U16 u16;
    U32 u32;
    U64 u64;
    F16 f16;
    F32 f32;
    F64 f64;
    Bf16 bf16;
}

macro_rules! from {
    ($($from:ty => $variant:ident;)*) => { $(
        impl<'a> From<$from> for MetaValue<'a> {
            fn from(value: $from) -> Self {
                Self::$variant(value.into())
            }
        }
    )* };
}
from! {
    bool => Bool;
    &'a str => Str;
    String => Str;
    SmallNumber => Small;
    Bitset<'a> => Bitset;
    NdArray<'a> => Ndarray;
}

/// Up to 8 little-endian bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Scalar {
    bytes: [u8; 8],
    len: usize,
}

impl Scalar {
    fn new(le: &[u8]) -> Self {
        let mut bytes = [0; 8];
        bytes.iter_mut().zip(le).for_each(|(to, from)| *to = *from);
        Self { bytes, len: le.len().min(8) }
    }

    fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl PartialEq for MetaValue<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Bitset(a), Self::Bitset(b)) => a == b,
            (Self::Str(a), Self::Str(b)) => a == b,
            (Self::Ndarray(a), Self::Ndarray(b)) => a == b,
            _ => {
                let bytes = self.scalar_bytes();
                self.value_type() == other.value_type() && bytes.is_some() && bytes == other.scalar_bytes()
            }
        }
    }
}

impl Eq for MetaValue<'_> {}

impl<'a> MetaValue<'a> {
    /// Returns the same value with its own copy of the bytes.
    #[must_use]
    pub fn into_owned(self) -> MetaValue<'static> {
        match self {
            Self::I8(x) => MetaValue::I8(x),
            Self::I16(x) => MetaValue::I16(x),
            Self::I32(x) => MetaValue::I32(x),
            Self::I64(x) => MetaValue::I64(x),
            Self::U8(x) => MetaValue::U8(x),
            Self::U16(x) => MetaValue::U16(x),
            Self::U32(x) => MetaValue::U32(x),
            Self::U64(x) => MetaValue::U64(x),
            Self::F16(x) => MetaValue::F16(x),
            Self::F32(x) => MetaValue::F32(x),
            Self::F64(x) => MetaValue::F64(x),
            Self::Bf16(x) => MetaValue::Bf16(x),
            Self::Small(x) => MetaValue::Small(x),
            Self::Bool(x) => MetaValue::Bool(x),
            Self::Str(text) => MetaValue::Str(Cow::Owned(text.into_owned())),
            Self::Bitset(Bitset { bits, bytes }) => {
                MetaValue::Bitset(Bitset { bits, bytes: Cow::Owned(bytes.into_owned()) })
            }
            Self::Ndarray(NdArray { dtype, shape, bytes }) => MetaValue::Ndarray(NdArray {
                dtype,
                shape: Cow::Owned(shape.into_owned()),
                bytes: Cow::Owned(bytes.into_owned()),
            }),
        }
    }

    /// Returns the text, or `None` if the value is not a string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        if let Self::Str(text) = self { Some(text) } else { None }
    }

    /// Returns the boolean, or `None` if the value is not a boolean.
    #[must_use]
    pub const fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(b) = self { Some(*b) } else { None }
    }

    /// Returns the integer, of any width, or `None` if the value is not an integer. Every integer of OINF
    /// fits in i128.
    #[must_use]
    pub fn as_integer(&self) -> Option<i128> {
        Some(match *self {
            Self::I8(x) => x.into(),
            Self::I16(x) => x.into(),
            Self::I32(x) => x.into(),
            Self::I64(x) => x.into(),
            Self::U8(x) => x.into(),
            Self::U16(x) => x.into(),
            Self::U32(x) => x.into(),
            Self::U64(x) => x.into(),
            #[expect(clippy::cast_possible_truncation, reason = "the number is an integer")]
            Self::Small(x) if x.dtype().kind() != Kind::Float => x.to_f32() as i128,
            _ => return None,
        })
    }

    /// Returns the float, of any width, or `None` if the value is not a float.
    #[must_use]
    pub fn as_float(&self) -> Option<f64> {
        match *self {
            Self::F16(x) => Some(x.into()),
            Self::F32(x) => Some(x.into()),
            Self::F64(x) => Some(x),
            Self::Bf16(x) => Some(x.into()),
            Self::Small(x) if x.dtype().kind() == Kind::Float => Some(x.to_f32().into()),
            _ => None,
        }
    }

    /// Returns the types that a file must support to hold the value: its own type and, for an array, the type
    /// of its elements.
    pub fn types(&self) -> impl Iterator<Item = ValueType> {
        let elements =
            if let Self::Ndarray(array) = self { ValueType::from_dtype(array.dtype) } else { None };
        [self.value_type()].into_iter().chain(elements)
    }

    /// Decodes a payload, which must be all of `c` (OINF 1, "Metadata Payloads").
    pub(crate) fn decode(value_type: ValueType, c: &mut Cursor<'a>, limits: &Limits) -> Result<Payload<'a>> {
        let (start, found) = (c.offset(), c.remaining() as u64);
        let wrong = |expected| {
            let part = Part::new("metadata value").with_field("value_nbytes");
            malformed(part, start, Fault::PayloadLen { value_type, found, expected })
        };
        // A scalar takes whole bytes.
        let size = value_type.dtype().and_then(|dtype| dtype.nbytes(&[]));
        let decoded = match (value_type, size) {
            (_, Some(size)) => Self::decode_scalar(value_type, size, c),
            (ValueType::Str, _) => Self::decode_str(c, limits),
            (ValueType::Bitset, _) => Bitset::decode(c).map(|(x, padding)| (Self::Bitset(x), padding)),
            _ => NdArray::decode(c, limits).map(|(x, padding)| (Self::Ndarray(x), padding)),
        };
        match decoded {
            Ok((value, (padding_at, padding))) if c.remaining() == 0 => {
                Ok(Payload { value, padding_at, padding })
            }
            Ok(_) => Err(wrong(c.offset().saturating_sub(start))),
            Err(Error::Truncated { at, need, .. }) => {
                let expected = at.saturating_sub(start).saturating_add(need);
                Err(wrong(align_up(expected, wire::ALIGNMENT).unwrap_or(expected)))
            }
            Err(error) => Err(error),
        }
    }

    fn decode_scalar(value_type: ValueType, size: u64, c: &mut Cursor<'a>) -> Result<(Self, Padding<'a>)> {
        let bytes = c.bytes(size, "value")?;
        // `bytes` is as long as the type, so the fallback is never used.
        Ok((Self::from_scalar(value_type, bytes).unwrap_or(Self::Bool(false)), (c.offset(), &[])))
    }

    fn decode_str(c: &mut Cursor<'a>, limits: &Limits) -> Result<(Self, Padding<'a>)> {
        let wire::Text { text, padding_at, padding } = wire::Text::decode(c, "value", limits.metadata_len)?;
        Ok((Self::Str(Cow::Borrowed(text)), (padding_at, padding)))
    }

    /// Appends the payload, without the padding to a multiple of 8 that may follow it.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> Result<(), Fault> {
        match self {
            Self::Str(text) => wire::encode_text(text, out)?,
            Self::Bitset(bitset) => bitset.encode(out)?,
            Self::Ndarray(array) => array.encode(out)?,
            scalar => out.extend(scalar.scalar_bytes().iter().flat_map(|s| s.as_slice())),
        }
        Ok(())
    }
}

/// The offset of padding in the file, and its bytes.
type Padding<'a> = (u64, &'a [u8]);

/// A decoded value, and the padding after it in the file.
pub(crate) struct Payload<'a> {
    pub(crate) value: MetaValue<'a>,
    pub(crate) padding_at: u64,
    pub(crate) padding: &'a [u8],
}

/// A set of bits. The first bit is the lowest bit of the first byte.
#[derive(Clone, Debug)]
pub struct Bitset<'a> {
    bits: u32,
    /// The bytes of the set. There are exactly as many as `bits` needs.
    bytes: Cow<'a, [u8]>,
}

impl<'a> Bitset<'a> {
    /// Creates a bitset from the first `bits` bits of `bytes`.
    ///
    /// # Errors
    /// [`Fault::BitsetBytes`] if `bytes` does not have exactly the length that the bits need.
    pub fn new(bits: u32, bytes: impl Into<Cow<'a, [u8]>>) -> Result<Self, Fault> {
        let bytes = bytes.into();
        let (found, expected) = (bytes.len() as u64, u64::from(bits.div_ceil(8)));
        if found != expected {
            return Err(Fault::BitsetBytes { found, bits, expected });
        }
        Ok(Self { bits, bytes })
    }

    /// Creates a bitset from an iterator of bits.
    ///
    /// # Errors
    /// [`Fault::TooMany`] if there are 2^32 bits or more.
    pub fn from_bits(bits: impl IntoIterator<Item = bool>) -> Result<Self, Fault> {
        let (mut bytes, mut count) = (Vec::new(), 0u64);
        for bit in bits {
            if count % 8 == 0 {
                bytes.push(0);
            }
            if let Some(byte) = bytes.last_mut() {
                *byte |= u8::from(bit) << (count % 8);
            }
            count = count.saturating_add(1);
        }
        let bits = u32::try_from(count).map_err(|_| Fault::TooMany(count))?;
        Ok(Self { bits, bytes: Cow::Owned(bytes) })
    }

    /// Returns the number of bits.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.bits
    }

    /// Returns whether the set has no bits.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bits == 0
    }

    /// Returns the bytes of the set. The first bit is the lowest bit of the first byte. Bits beyond
    /// [`len`](Self::len) are as in the file.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the bits, in order.
    pub fn iter(&self) -> impl Iterator<Item = bool> {
        // `bytes` holds at least as many bits as the set has, and there can be 2^32 − 1 of them.
        let all = self.bytes.iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 == 1));
        all.take(usize::try_from(self.bits).unwrap_or(usize::MAX))
    }

    /// Returns the bits of the last byte that are beyond the set. They are zero in a valid file.
    pub(crate) fn stray(&self) -> u8 {
        match (self.bits % 8, self.bytes.last()) {
            (used @ 1.., Some(last)) => last >> used,
            _ => 0,
        }
    }

    fn decode(c: &mut Cursor<'a>) -> Result<(Self, Padding<'a>)> {
        let (at, bits) = (c.offset(), c.u32("bit_count")?);
        let found = u64::from(c.u32("byte_count")?);
        let expected = u64::from(bits.div_ceil(8));
        if found != expected {
            let part = Part::new("metadata value").with_field("byte_count");
            return Err(malformed(part, at.saturating_add(4), Fault::BitsetBytes { found, bits, expected }));
        }
        let bytes = Cow::Borrowed(c.bytes(found, "bytes")?);
        Ok((Self { bits, bytes }, (c.offset(), c.bytes(wire::padding(8 + found), "padding")?)))
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<(), Fault> {
        let found = u32::try_from(self.bytes.len()).map_err(|_| Fault::TooLong)?;
        out.extend(self.bits.to_le_bytes());
        out.extend(found.to_le_bytes());
        out.extend(&*self.bytes);
        // Set bits beyond bit_count are an error, so they are cleared before writing (docs/formats/oinf.md#values).
        if let (used @ 1.., Some(last)) = (self.bits % 8, out.last_mut()) {
            *last &= !(u8::MAX << used);
        }
        wire::pad(out, 8 + u64::from(found));
        Ok(())
    }
}

/// Two sets are equal if their bits are equal. Bits beyond the set do not count.
impl PartialEq for Bitset<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.bits == other.bits && self.iter().eq(other.iter())
    }
}

impl Eq for Bitset<'_> {}

/// An array of numbers or booleans, row-major.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NdArray<'a> {
    dtype: DType,
    shape: Cow<'a, [u64]>,
    bytes: Cow<'a, [u8]>,
}

impl<'a> NdArray<'a> {
    /// Creates an array from little-endian values, row-major.
    ///
    /// # Errors
    /// [`Fault::NoCode`] for a dtype that OINF lacks; [`modelfmt_core::CommonFault::TooManyElements`] or
    /// [`modelfmt_core::CommonFault::Nbytes`] if the number of bytes is not the one that the dtype and the
    /// shape imply.
    pub fn new(
        dtype: DType,
        shape: impl Into<Cow<'a, [u64]>>,
        bytes: impl Into<Cow<'a, [u8]>>,
    ) -> Result<Self, Fault> {
        let (shape, bytes) = (shape.into(), bytes.into());
        ValueType::from_dtype(dtype).ok_or(Fault::NoCode(dtype))?;
        let expected = implied_nbytes(dtype, &shape).map_err(modelfmt_core::CommonFault::from)?;
        let found = bytes.len() as u64;
        if found != expected {
            return Err(Fault::Common(modelfmt_core::CommonFault::Nbytes { found, expected }));
        }
        Ok(Self { dtype, shape, bytes })
    }

    /// Returns the type of the elements.
    #[must_use]
    pub const fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the dimensions in elements, slowest first. A single value has none.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Returns the values, little-endian and row-major.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the values as a tensor without a name, which can be read as numbers or as a slice.
    ///
    /// # Errors
    /// None in practice, because [`NdArray::new`] has made the same checks.
    pub fn view(&self) -> Result<TensorView<'_>, TensorError> {
        TensorView::new(TensorInfo::new("", self.dtype, &self.shape)?, Bytes::Borrowed(&self.bytes))
    }

    /// Returns the number of elements.
    pub(crate) fn elements(&self) -> u64 {
        modelfmt_core::element_count(&self.shape).unwrap_or_default()
    }

    fn decode(c: &mut Cursor<'a>, limits: &Limits) -> Result<(Self, Padding<'a>)> {
        let (start, code) = (c.offset(), c.u32("element_type")?);
        let part = |field| Part::new("metadata value").with_field(field);
        let dtype =
            wire::element_type(code).map_err(|fault| malformed(part("element_type"), start, fault))?;
        let ndim = u64::from(c.u32("ndim")?);
        Limits::check("the number of dimensions", ndim, limits.rank)?;
        let shape: Vec<u64> = c.u64s(ndim, "dims")?.collect();
        let nbytes = implied_nbytes(dtype, &shape).map_err(|error| {
            malformed(part("dims"), start.saturating_add(8), modelfmt_core::CommonFault::from(error))
        })?;
        let bytes = Cow::Borrowed(c.bytes(nbytes, "data")?);
        let padding = (c.offset(), c.bytes(wire::padding(nbytes), "padding")?);
        Ok((Self { dtype, shape: Cow::Owned(shape), bytes }, padding))
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<(), Fault> {
        let element_type = ValueType::from_dtype(self.dtype).ok_or(Fault::NoCode(self.dtype))?;
        let ndim = u32::try_from(self.shape.len()).map_err(|_| Fault::TooLong)?;
        let fault = match self.dtype {
            DType::Bool => bool_fault(&self.bytes),
            dtype => packed_fault(dtype, &self.bytes, self.elements()),
        };
        if let Some(fault) = fault {
            return Err(fault);
        }
        out.extend(element_type.code().to_le_bytes());
        out.extend(ndim.to_le_bytes());
        out.extend(self.shape.iter().flat_map(|dim| dim.to_le_bytes()));
        out.extend(&*self.bytes);
        wire::pad(out, self.bytes.len() as u64);
        Ok(())
    }
}

/// Returns a fault if a byte is neither 0 nor 1 (OINF 1, "TensorIndexTable" and "Metadata Payloads").
pub(crate) fn bool_fault(bytes: &[u8]) -> Option<Fault> {
    let mut bad = bytes.iter().filter(|&&b| b > 1);
    let value = *bad.next()?;
    Some(Fault::Bool { value, count: (bad.count() as u64).saturating_add(1) })
}

#[cfg(test)]
mod tests;
