//! The dtypes of versions 0.1 to 0.3.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::DType;

/// The dtypes in the order of their codes, with magnetron's names. Version 0.1.0 has no float8
/// (docs/formats/mag.md#version-03).
const DTYPES: [(DType, &str); 13] = [
    (DType::F32, "float32"),
    (DType::F16, "float16"),
    (DType::BF16, "bfloat16"),
    (DType::F8E4M3, "float8_e4m3fn"),
    (DType::Bool, "boolean"),
    (DType::U8, "uint8"),
    (DType::I8, "int8"),
    (DType::U16, "uint16"),
    (DType::I16, "int16"),
    (DType::U32, "uint32"),
    (DType::I32, "int32"),
    (DType::U64, "uint64"),
    (DType::I64, "int64"),
];

/// Returns the dtype of a code in versions 0.2 and 0.3.
pub(crate) fn dtype_of(code: u64) -> Option<DType> {
    DTYPES.get(usize::try_from(code).ok()?).map(|(dtype, _)| *dtype)
}

/// Returns the dtype of a code in version 0.1.
pub(crate) fn dtype_of_0_1(code: u8) -> Option<DType> {
    let float8 = 3;
    dtype_of(u64::from(if code < float8 { code } else { code.checked_add(1)? }))
}

/// Returns the code and the name of a dtype, if it has one.
pub(crate) fn code_of(dtype: DType) -> Option<(usize, &'static str)> {
    let position = DTYPES.iter().position(|(other, _)| *other == dtype)?;
    DTYPES.get(position).map(|(_, name)| (position, *name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_read_back_and_0_1_has_no_float8() {
        for (code, (dtype, name)) in DTYPES.iter().enumerate() {
            assert_eq!((dtype_of(code as u64), code_of(*dtype)), (Some(*dtype), Some((code, *name))));
        }
        assert_eq!((dtype_of(13), dtype_of(u64::MAX), code_of(DType::F64)), (None, None, None));
        let of_0_1: Vec<_> = (0..12).filter_map(dtype_of_0_1).collect();
        let all = DTYPES.map(|(dtype, _)| dtype);
        assert!(of_0_1.iter().eq(all.iter().filter(|&&dtype| dtype != DType::F8E4M3)));
        assert_eq!((dtype_of_0_1(12), dtype_of_0_1(255)), (None, None));
    }
}
