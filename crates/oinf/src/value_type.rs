//! The types of values.

use std::fmt;

use modelfmt_core::DType;

macro_rules! value_types {
    ($($variant:ident = $code:literal, $name:literal, $dtype:expr;)*) => {
        /// The type of a metadata value or of a tensor's elements (OINF 1, "ValueType Tags").
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum ValueType {
            $(#[doc = concat!("`", $name, "`, number ", $code, ".")] $variant = $code,)*
        }

        impl ValueType {
            /// Every type, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name as the document prints it: `u8`, `f16`, `bool`, `bitset`, `str`, `ndarray`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The number that stands for it in a file.
            #[must_use]
            pub const fn code(self) -> u32 {
                self as u32
            }

            /// The element type, for numbers and booleans.
            #[must_use]
            pub const fn dtype(self) -> Option<DType> {
                match self { $(Self::$variant => $dtype,)* }
            }
        }

        impl ValueType {
            /// The type of that number.
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
}

impl ValueType {
    /// The type whose elements are of this dtype; `None` for those that OINF lacks.
    #[must_use]
    pub fn of(dtype: DType) -> Option<Self> {
        Self::ALL.iter().copied().find(|t| t.dtype() == Some(dtype))
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
