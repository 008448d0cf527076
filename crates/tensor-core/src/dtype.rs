//! The dtypes of tensors, and their sizes.

use std::fmt;
use std::str::FromStr;

/// How the elements of a tensor are stored: `elements` elements share `nbytes` bytes.
///
/// Scalar types have blocks of one element, ggml's quantized types have blocks of 32 to 256. Elements
/// narrower than a byte share bytes; their block is the smallest group that fills whole bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// Elements in one block.
    pub elements: u32,
    /// Bytes that one block takes.
    pub nbytes: u32,
}

/// What kind of value a [`DType`] holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// One byte an element, 0 or 1.
    Bool,
    /// A signed integer in two's complement, or −1 and +1.
    Int,
    /// An unsigned integer.
    UInt,
    /// A binary floating-point number of 4 to 64 bits.
    Float,
    /// Quantized values with their scales: ggml's block types, and aprender's two.
    Quantized,
    /// Values that are copied but not interpreted.
    Opaque,
}

macro_rules! dtypes {
    ($($variant:ident $name:literal $kind:ident $elements:literal $nbytes:literal $ggml:expr, $doc:literal;)*) => {
        /// The element type of a tensor.
        ///
        /// All values are little-endian. [`Display`](fmt::Display) prints lower-case names: `f32`, `bf16`,
        /// `q4_0`. [`FromStr`] accepts these and the names of other tools, in any case: `F16`, `float16`,
        /// `half`, `Q8_0`. [`DType::from_name`] accepts only the printed names.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        #[repr(u8)]
        pub enum DType {
            $(#[doc = $doc] $variant,)*
        }

        impl DType {
            /// All dtypes, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the lower-case name, such as `f32` or `q4_k`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Returns the kind of value that this dtype holds.
            #[must_use]
            #[inline]
            pub const fn kind(self) -> Kind {
                match self { $(Self::$variant => Kind::$kind,)* }
            }

            /// Returns how many elements share how many bytes. `None` for [`DType::AprQ8`], whose tensors are
            /// one block each, and for [`DType::Packed`], whose size is only known from the file.
            #[must_use]
            #[inline]
            pub const fn block(self) -> Option<Block> {
                let (elements, nbytes) = match self { $(Self::$variant => ($elements, $nbytes),)* };
                if elements == 0 { None } else { Some(Block { elements, nbytes }) }
            }

            /// Returns ggml's number for this dtype, if it has one.
            #[must_use]
            pub const fn ggml_type(self) -> Option<u32> {
                match self { $(Self::$variant => $ggml,)* }
            }

            /// Returns the dtype with this ggml number.
            #[must_use]
            #[inline]
            pub fn from_ggml_type(number: u32) -> Option<Self> {
                $(if $ggml == Some(number) { return Some(Self::$variant); })*
                None
            }
        }
    };
}

dtypes! {
    Bool "bool" Bool 1 1 None, "One byte, 0 or 1.";
    I8 "i8" Int 1 1 Some(24), "Signed, 8 bits.";
    U8 "u8" UInt 1 1 None, "Unsigned, 8 bits.";
    I16 "i16" Int 1 2 Some(25), "Signed, 16 bits.";
    U16 "u16" UInt 1 2 None, "Unsigned, 16 bits.";
    I32 "i32" Int 1 4 Some(26), "Signed, 32 bits.";
    U32 "u32" UInt 1 4 None, "Unsigned, 32 bits.";
    I64 "i64" Int 1 8 Some(27), "Signed, 64 bits.";
    U64 "u64" UInt 1 8 None, "Unsigned, 64 bits.";
    F16 "f16" Float 1 2 Some(1), "IEEE 754 binary16.";
    BF16 "bf16" Float 1 2 Some(30), "The upper half of a binary32.";
    F32 "f32" Float 1 4 Some(0), "IEEE 754 binary32.";
    F64 "f64" Float 1 8 Some(28), "IEEE 754 binary64.";
    Q4_0 "q4_0" Quantized 32 18 Some(2), "4 bits, scale in f16.";
    Q4_1 "q4_1" Quantized 32 20 Some(3), "4 bits, scale and minimum in f16.";
    Q5_0 "q5_0" Quantized 32 22 Some(6), "5 bits, scale in f16.";
    Q5_1 "q5_1" Quantized 32 24 Some(7), "5 bits, scale and minimum in f16.";
    Q8_0 "q8_0" Quantized 32 34 Some(8), "8 bits, scale in f16.";
    Q8_1 "q8_1" Quantized 32 36 Some(9), "8 bits, scale and sum in f16: ggml's struct has 36 bytes (gguf-py counts 40).";
    Q2K "q2_k" Quantized 256 84 Some(10), "2-bit K-quant.";
    Q3K "q3_k" Quantized 256 110 Some(11), "3-bit K-quant.";
    Q4K "q4_k" Quantized 256 144 Some(12), "4-bit K-quant.";
    Q5K "q5_k" Quantized 256 176 Some(13), "5-bit K-quant.";
    Q6K "q6_k" Quantized 256 210 Some(14), "6-bit K-quant.";
    Q8K "q8_k" Quantized 256 292 Some(15), "8-bit K-quant.";
    Iq2Xxs "iq2_xxs" Quantized 256 66 Some(16), "2.06-bit importance quant.";
    Iq2Xs "iq2_xs" Quantized 256 74 Some(17), "2.31-bit importance quant.";
    Iq3Xxs "iq3_xxs" Quantized 256 98 Some(18), "3.06-bit importance quant.";
    Iq1S "iq1_s" Quantized 256 50 Some(19), "1.56-bit importance quant.";
    Iq4Nl "iq4_nl" Quantized 32 18 Some(20), "4-bit, non-linear.";
    Iq3S "iq3_s" Quantized 256 110 Some(21), "3.44-bit importance quant.";
    Iq2S "iq2_s" Quantized 256 82 Some(22), "2.56-bit importance quant.";
    Iq4Xs "iq4_xs" Quantized 256 136 Some(23), "4.25-bit importance quant.";
    Iq1M "iq1_m" Quantized 256 56 Some(29), "1.75-bit importance quant.";
    Tq1_0 "tq1_0" Quantized 256 54 Some(34), "Ternary, 1.69 bits.";
    Tq2_0 "tq2_0" Quantized 256 66 Some(35), "Ternary, 2.06 bits.";
    Mxfp4 "mxfp4" Quantized 32 17 Some(39), "4-bit floats with a shared exponent.";
    Nvfp4 "nvfp4" Quantized 64 36 Some(40), "4-bit floats with scales of 8 bits.";
    Q1_0 "q1_0" Quantized 128 18 Some(41), "1 bit, scale in f16.";
    Q2_0 "q2_0" Quantized 64 18 Some(42), "2 bits, scale in f16.";
    AprQ4 "apr_q4" Quantized 32 18 None, "aprender's 4 bits, scale in f16; the last block of a tensor may have fewer elements.";
    AprQ8 "apr_q8" Quantized 0 0 None, "aprender's 8 bits: one scale in f32 before all values of a tensor.";
    F8E4M3 "f8_e4m3" Float 1 1 None, "8 bits, 4 of exponent and 3 of mantissa, no infinities: OCP's E4M3.";
    F8E5M2 "f8_e5m2" Float 1 1 None, "8 bits, 5 of exponent and 2 of mantissa: OCP's E5M2.";
    F8E8M0 "f8_e8m0" Float 1 1 None, "8 bits of exponent: powers of two, as scales of blocks.";
    F8E4M3Fnuz "f8_e4m3fnuz" Float 1 1 None, "8 bits, 4 of exponent and 3 of mantissa, no infinities and no negative zero.";
    F8E5M2Fnuz "f8_e5m2fnuz" Float 1 1 None, "8 bits, 5 of exponent and 2 of mantissa, no infinities and no negative zero.";
    F6E2M3 "f6_e2m3" Float 4 3 None, "6 bits, 2 of exponent and 3 of mantissa; four share three bytes.";
    F6E3M2 "f6_e3m2" Float 4 3 None, "6 bits, 3 of exponent and 2 of mantissa; four share three bytes.";
    F4 "f4" Float 2 1 None, "4 bits, 2 of exponent and 1 of mantissa; two share a byte.";
    I4 "i4" Int 2 1 None, "Signed, 4 bits.";
    I2 "i2" Int 4 1 None, "Signed, 2 bits.";
    I1 "i1" Int 8 1 None, "Signed, 1 bit: 0 or −1.";
    U4 "u4" UInt 2 1 None, "Unsigned, 4 bits.";
    U2 "u2" UInt 4 1 None, "Unsigned, 2 bits.";
    U1 "u1" UInt 8 1 None, "Unsigned, 1 bit.";
    T2 "t2" Int 4 1 None, "Ternary: −1, 0 and 1, in 2 bits of two's complement.";
    T1 "t1" Int 8 1 None, "A sign: −1 and +1, in 1 bit.";
    C64 "c64" Opaque 1 8 None, "Complex of two f32, from safetensors.";
    Packed "packed" Opaque 0 0 None, "Bytes of a codec that this library does not know; the file states their length.";
}

impl DType {
    /// Returns the number of bytes of one element. `None` for quantized types, elements narrower than a byte
    /// and [`DType::Packed`].
    #[must_use]
    #[inline]
    pub const fn size(self) -> Option<u32> {
        match self.block() {
            Some(Block { elements: 1, nbytes }) => Some(nbytes),
            _ => None,
        }
    }

    /// Returns whether the elements are floating-point numbers, of any width.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self.kind(), Kind::Float)
    }

    /// Returns whether the values are quantized: one of ggml's block types, or of aprender's two.
    #[must_use]
    pub const fn is_quantized(self) -> bool {
        matches!(self.kind(), Kind::Quantized)
    }

    /// Returns the number of bytes that a tensor of this dtype and `shape` takes.
    ///
    /// Integers narrower than a byte and [`DType::AprQ4`] may leave the last block partly filled. Returns
    /// `None` if a product overflows `u64`, if the number of elements of any other dtype is not a multiple of
    /// its block, or for [`DType::Packed`], whose length is only known from the file.
    #[must_use]
    #[inline]
    pub fn nbytes(self, shape: &[u64]) -> Option<u64> {
        let count = crate::shape::element_count(shape)?;
        // Most dtypes have one element per block. An index can ask for a million tensors, and a division is
        // slow.
        match self.size() {
            Some(size) => count.checked_mul(u64::from(size)),
            None => self.blocks_nbytes(count),
        }
    }

    /// Implements [`nbytes`](Self::nbytes) for dtypes whose blocks are not single elements.
    fn blocks_nbytes(self, count: u64) -> Option<u64> {
        if self == Self::AprQ8 {
            const SCALE: u64 = 4;
            return if count == 0 { Some(0) } else { count.checked_add(SCALE) };
        }
        let Block { elements, nbytes } = self.block()?;
        let elements = u64::from(elements);
        let fills_up = matches!(self.kind(), Kind::Int | Kind::UInt) || self == Self::AprQ4;
        if !count.is_multiple_of(elements) && !fills_up {
            return None;
        }
        count.div_ceil(elements).checked_mul(u64::from(nbytes))
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Names that other tools use, in lower case.
const ALIASES: &[(&str, DType)] = &[
    ("boolean", DType::Bool),
    ("int8", DType::I8),
    ("uint8", DType::U8),
    ("int16", DType::I16),
    ("uint16", DType::U16),
    ("int32", DType::I32),
    ("uint32", DType::U32),
    ("int64", DType::I64),
    ("uint64", DType::U64),
    ("fp16", DType::F16),
    ("float16", DType::F16),
    ("half", DType::F16),
    ("bfloat16", DType::BF16),
    ("fp32", DType::F32),
    ("float32", DType::F32),
    ("float", DType::F32),
    ("single", DType::F32),
    ("fp64", DType::F64),
    ("float64", DType::F64),
    ("double", DType::F64),
    ("f8_e4m3fn", DType::F8E4M3),
    ("fp8_e4m3", DType::F8E4M3),
    ("fp8_e4m3fn", DType::F8E4M3),
    ("float8_e4m3", DType::F8E4M3),
    ("float8_e4m3fn", DType::F8E4M3),
    ("fp8_e5m2", DType::F8E5M2),
    ("float8_e5m2", DType::F8E5M2),
    ("float8_e4m3fnuz", DType::F8E4M3Fnuz),
    ("float8_e5m2fnuz", DType::F8E5M2Fnuz),
    ("float8_e8m0fnu", DType::F8E8M0),
    ("float6_e2m3fn", DType::F6E2M3),
    ("float6_e3m2fn", DType::F6E3M2),
    ("float4_e2m1fn", DType::F4),
    ("f4_e2m1", DType::F4),
    ("int4", DType::I4),
    ("int2", DType::I2),
    ("int1", DType::I1),
    ("uint4", DType::U4),
    ("uint2", DType::U2),
    ("uint1", DType::U1),
    ("complex64", DType::C64),
];

impl DType {
    /// Returns the dtype with exactly this [`name`](Self::name). Files use these names, one for each dtype.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|dtype| dtype.name() == name)
    }
}

/// The error for a name that no dtype has.
#[derive(Clone, PartialEq, Eq)]
pub struct UnknownDType(pub String);

crate::debug_as_sentence!(UnknownDType);

impl std::error::Error for UnknownDType {}

impl fmt::Display for UnknownDType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no dtype is named {:?}; ", self.0)?;
        match self.0.to_ascii_lowercase().as_str() {
            "fp8" | "f8" | "float8" => f.write_str("there are two of 8 bits, f8_e4m3 and f8_e5m2"),
            "int" | "uint" | "integer" => f.write_str("say how many bits it has, such as i32"),
            _ => f.write_str("there are names such as f32, bf16, i64 and q8_0"),
        }
    }
}

impl FromStr for DType {
    type Err = UnknownDType;

    /// Returns the dtype with this name or alias, in any case: `f16`, `F16`, `float16` and `half` are the
    /// same dtype.
    fn from_str(name: &str) -> Result<Self, UnknownDType> {
        let lower = name.to_ascii_lowercase();
        let alias = || ALIASES.iter().find(|(alias, _)| *alias == lower).map(|&(_, dtype)| dtype);
        Self::from_name(&lower).or_else(alias).ok_or_else(|| UnknownDType(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_ggml_numbers_are_unique_and_read_back() {
        for &dtype in DType::ALL {
            assert_eq!(dtype.name().parse(), Ok(dtype));
            assert_eq!(dtype.name().to_uppercase().parse(), Ok(dtype));
            assert_eq!(DType::from_name(dtype.name()), Some(dtype));
            if let Some(number) = dtype.ggml_type() {
                assert_eq!(DType::from_ggml_type(number), Some(dtype));
            }
        }
        assert_eq!(DType::from_name("F32"), None);
        assert_eq!(DType::from_ggml_type(4), None, "Q4_2 was removed from ggml");
    }

    #[test]
    fn names_of_other_tools_are_read() {
        for (names, dtype) in [
            (&["fp16", "float16", "half", "F16", "Float16", "HALF"][..], DType::F16),
            (&["bfloat16", "BF16"], DType::BF16),
            (&["fp32", "float32", "float", "FLOAT32"], DType::F32),
            (&["int64", "Int64", "I64"], DType::I64),
            (&["Q8_0"], DType::Q8_0),
            (&["Q4_K", "q4_K"], DType::Q4K),
            (&["float8_e4m3fn", "F8_E4M3"], DType::F8E4M3),
        ] {
            for name in names {
                assert_eq!(name.parse(), Ok(dtype), "{name}");
            }
        }
        // An alias is never another type's own name, or another alias.
        for (at, (alias, _)) in ALIASES.iter().enumerate() {
            assert!(DType::from_name(alias).is_none() && alias.to_lowercase() == *alias, "{alias}");
            assert!(ALIASES.iter().skip(at + 1).all(|(other, _)| other != alias), "{alias}");
        }
        let says = |name: &str| name.parse::<DType>().unwrap_err().to_string();
        assert!(says("fp8").contains("f8_e4m3 and f8_e5m2"));
        assert!(says("int").contains("such as i32") && says("").contains("q8_0"));
    }

    #[test]
    fn types_say_what_they_hold_and_how_wide_one_element_is() {
        for (dtype, size, is_float, is_quantized) in [
            (DType::Bool, Some(1), false, false),
            (DType::I64, Some(8), false, false),
            (DType::BF16, Some(2), true, false),
            (DType::F4, None, true, false),
            (DType::Q4_0, None, false, true),
            (DType::AprQ8, None, false, true),
            (DType::C64, Some(8), false, false),
            (DType::Packed, None, false, false),
        ] {
            let found = (dtype.size(), dtype.is_float(), dtype.is_quantized());
            assert_eq!(found, (size, is_float, is_quantized), "{dtype}");
        }
    }

    #[test]
    fn sizes_follow_blocks() {
        assert_eq!(DType::F32.nbytes(&[2, 3]), Some(24));
        assert_eq!(DType::F32.nbytes(&[]), Some(4));
        assert_eq!(DType::Q4_0.nbytes(&[2, 32]), Some(36));
        assert_eq!(DType::Q8_1.nbytes(&[64]), Some(72), "ggml.h: two halves and 32 bytes");
        assert_eq!(DType::Q4_0.nbytes(&[33]), None);
        assert_eq!(DType::F4.nbytes(&[3, 2]), Some(3));
        assert_eq!(DType::F4.nbytes(&[3]), None);
        assert_eq!(DType::F6E3M2.nbytes(&[2, 4]), Some(6));
        assert_eq!(DType::I4.nbytes(&[3, 3]), Some(5));
        assert_eq!(DType::T1.nbytes(&[17]), Some(3));
        assert_eq!(DType::U2.nbytes(&[0]), Some(0));
        assert_eq!([0, 1, 32, 33].map(|n| DType::AprQ4.nbytes(&[n])), [0, 18, 18, 36].map(Some));
        assert_eq!([0, 1, 32].map(|n| DType::AprQ8.nbytes(&[n])), [0, 5, 36].map(Some));
        assert_eq!(DType::AprQ8.nbytes(&[u64::MAX]), None);
        assert_eq!(DType::Packed.nbytes(&[3]), None);
        assert_eq!(DType::F64.nbytes(&[u64::MAX / 4]), None);
        assert_eq!(DType::F64.nbytes(&[0, u64::MAX]), Some(0));
    }
}
