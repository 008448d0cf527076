//! The types of values.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::fmt;

use modelfmt_core::DType;

macro_rules! value_types {
    ($($variant:ident = $code:literal, $name:literal, $dtype:expr;)*) => {
        /// The type of a metadata value or of a tensor's elements (OINF 1, "ValueType Tags"; 16 to 25 came later).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum ValueType {
            $(#[doc = concat!("`", $name, "`, number ", $code, ".")] $variant = $code,)*
        }

        impl ValueType {
            /// Every type, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the name as the document prints it: `u8`, `f16`, `bool`, `bitset`, `str`, `ndarray`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Returns the type's code in a file.
            #[must_use]
            pub const fn code(self) -> u32 {
                self as u32
            }

            /// Returns the dtype for numbers and booleans, or `None` for other types.
            #[must_use]
            pub const fn dtype(self) -> Option<DType> {
                match self { $(Self::$variant => $dtype,)* }
            }
        }

        impl ValueType {
            /// Returns the type with this code.
            #[must_use]
            pub const fn from_code(code: u32) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

value_types! {
    I8 = 1, "i8", Some(DType::I8);
    I16 = 2, "i16", Some(DType::I16);
    I32 = 3, "i32", Some(DType::I32);
    I64 = 4, "i64", Some(DType::I64);
    U8 = 5, "u8", Some(DType::U8);
    U16 = 6, "u16", Some(DType::U16);
    U32 = 7, "u32", Some(DType::U32);
    U64 = 8, "u64", Some(DType::U64);
    F16 = 9, "f16", Some(DType::F16);
    F32 = 10, "f32", Some(DType::F32);
    F64 = 11, "f64", Some(DType::F64);
    Bool = 12, "bool", Some(DType::Bool);
    Bitset = 13, "bitset", None;
    Str = 14, "str", None;
    Ndarray = 15, "ndarray", None;
    Bf16 = 16, "bf16", Some(DType::BF16);
    F8E5M2 = 17, "f8_e5m2", Some(DType::F8E5M2);
    I4 = 18, "i4", Some(DType::I4);
    I2 = 19, "i2", Some(DType::I2);
    I1 = 20, "i1", Some(DType::I1);
    U4 = 21, "u4", Some(DType::U4);
    U2 = 22, "u2", Some(DType::U2);
    U1 = 23, "u1", Some(DType::U1);
    T2 = 24, "t2", Some(DType::T2);
    T1 = 25, "t1", Some(DType::T1);
}

impl ValueType {
    /// Returns whether version 1 has the type only as an extension: the published package writes the types 16
    /// to 25, but the document of version 1 lacks them (docs/formats/oinf.md#types-16-to-25).
    #[must_use]
    pub const fn is_extended(self) -> bool {
        self.code() > Self::Ndarray.code()
    }

    /// Returns the type for elements of this dtype, or `None` if OINF lacks it.
    #[must_use]
    pub fn from_dtype(dtype: DType) -> Option<Self> {
        Self::ALL.iter().copied().find(|t| t.dtype() == Some(dtype))
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
