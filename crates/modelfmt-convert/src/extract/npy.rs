//! numpy's file format, version 1.0.

use std::io;

use modelfmt_core::{DType, Kind, SmallType};

use modelfmt_rules::wording::Remedy;

/// Returns the remedy for a dtype that numpy lacks.
pub(super) fn remedy(dtype: DType) -> Option<Remedy> {
    let cast = |to| Some(Remedy::Cast { to, by_name: false });
    match dtype.kind() {
        Kind::Quantized if ggml_quant::can_decode(dtype) => Some(Remedy::Dequantize(DType::F32)),
        Kind::Float => cast(DType::F32),
        Kind::Int if SmallType::from_dtype(dtype).is_some() => cast(DType::I8),
        Kind::UInt if SmallType::from_dtype(dtype).is_some() => cast(DType::U8),
        _ => None,
    }
}

/// Returns numpy's name for a dtype, little-endian.
pub(super) const fn type_code(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::Bool => "|b1",
        DType::I8 => "|i1",
        DType::U8 => "|u1",
        DType::I16 => "<i2",
        DType::U16 => "<u2",
        DType::I32 => "<i4",
        DType::U32 => "<u4",
        DType::I64 => "<i8",
        DType::U64 => "<u8",
        DType::F16 => "<f2",
        DType::F32 => "<f4",
        DType::F64 => "<f8",
        DType::C64 => "<c8",
        _ => return None,
    })
}

pub(super) fn header(code: &str, shape: &[u64]) -> io::Result<Vec<u8>> {
    use npyz::{DType, WriteOptions, WriterBuilder};
    let invalid = |error: npyz::ParseTypeStrError| io::Error::new(io::ErrorKind::InvalidData, error);
    let mut header = Vec::new();
    let options = WriteOptions::new_header_only().dtype(DType::Plain(code.parse().map_err(invalid)?));
    options.shape(shape).writer(&mut header).write_header_only()?;
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_what_numpy_reads() {
        let header = |code, shape| header(code, shape).unwrap();
        let two = header("<f4", &[2, 3]);
        assert!(two.starts_with(b"\x93NUMPY\x01\x00"), "{two:?}");
        assert_eq!(two.len() % 16, 0);
        let text = String::from_utf8_lossy(&two[10..]);
        assert!(text.contains("'descr': '<f4'") && text.contains("'shape': (2, 3"), "{text}");
        assert!(!header("<f8", &[]).is_empty());
    }
}
