//! The header of a file: a length, then JSON.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::{DType, author::align_up};

/// The size in bytes of the length field at the start of the file.
pub(crate) const LEN_SIZE: u64 = 8;

/// The longest header that the reference implementation reads (docs/formats/safetensors.md#header-length).
pub const MAX_HEADER_LEN: u64 = 100_000_000;

/// The key of the metadata. A tensor cannot have this name.
pub(crate) const METADATA: &str = "__metadata__";

/// The format's names of dtypes. Types that are missing here (ggml's blocks, packed bytes) have no
/// counterpart.
const DTYPES: &[(&str, DType)] = &[
    ("F32", DType::F32),
    ("F16", DType::F16),
    ("BF16", DType::BF16),
    ("F64", DType::F64),
    ("I64", DType::I64),
    ("I32", DType::I32),
    ("I16", DType::I16),
    ("I8", DType::I8),
    ("U8", DType::U8),
    ("U16", DType::U16),
    ("U32", DType::U32),
    ("U64", DType::U64),
    ("BOOL", DType::Bool),
    ("F8_E4M3", DType::F8E4M3),
    ("F8_E5M2", DType::F8E5M2),
    ("F8_E8M0", DType::F8E8M0),
    ("F8_E4M3FNUZ", DType::F8E4M3Fnuz),
    ("F8_E5M2FNUZ", DType::F8E5M2Fnuz),
    ("F6_E2M3", DType::F6E2M3),
    ("F6_E3M2", DType::F6E3M2),
    ("F4", DType::F4),
    ("C64", DType::C64),
];

/// Returns the length of a header of `json_len` bytes after padding it with spaces, so that the data begin at
/// a multiple of 8 (docs/formats/safetensors.md#alignment).
pub(crate) fn padded_len(json_len: u64) -> Option<u64> {
    align_up(json_len, 8)
}

/// Returns the format's name of a dtype, or `None` if it has none.
pub(crate) fn dtype_name(dtype: DType) -> Option<&'static str> {
    DTYPES.iter().find(|(_, d)| *d == dtype).map(|(name, _)| *name)
}

/// Returns the dtype with this name.
pub(crate) fn dtype_of(name: &str) -> Option<DType> {
    DTYPES.iter().find(|(n, _)| *n == name).map(|(_, dtype)| *dtype)
}

/// Appends `text` as a JSON string. Escapes only what JSON requires, as the reference implementation does.
pub(crate) fn push_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut plain = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape: &[u8] = match byte {
            b'"' => b"\\\"",
            b'\\' => b"\\\\",
            0x08 => b"\\b",
            0x09 => b"\\t",
            0x0a => b"\\n",
            0x0c => b"\\f",
            0x0d => b"\\r",
            0x00..=0x1f => b"\\u00",
            _ => continue,
        };
        out.extend_from_slice(text.as_bytes().get(plain..at).unwrap_or_default());
        out.extend_from_slice(escape);
        if escape == b"\\u00" {
            // The byte is below 0x20, so the first digit is 0 or 1.
            let digit = |n: u8| b"0123456789abcdef".get(usize::from(n)).copied().unwrap_or(b'0');
            out.extend_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
        }
        plain = at.saturating_add(1);
    }
    out.extend_from_slice(text.as_bytes().get(plain..).unwrap_or_default());
    out.push(b'"');
}

/// Appends the entry of a tensor: its name, its dtype, its shape, and where it begins and ends in the data.
pub(crate) fn push_entry(out: &mut Vec<u8>, name: &str, dtype: &str, shape: &[u64], begin: u64, end: u64) {
    push_string(out, name);
    out.extend_from_slice(b":{\"dtype\":\"");
    out.extend_from_slice(dtype.as_bytes());
    out.extend_from_slice(b"\",\"shape\":[");
    for (i, &dim) in shape.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        push_number(out, dim);
    }
    out.extend_from_slice(b"],\"data_offsets\":[");
    push_number(out, begin);
    out.push(b',');
    push_number(out, end);
    out.extend_from_slice(b"]}");
}

fn push_number(out: &mut Vec<u8>, mut number: u64) {
    let start = out.len();
    loop {
        out.push(b'0'.saturating_add(u8::try_from(number % 10).unwrap_or(0))); // a digit
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.get_mut(start..).unwrap_or_default().reverse();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_types_are_unique_and_complete() {
        for (name, dtype) in DTYPES {
            assert_eq!((dtype_of(name), dtype_name(*dtype)), (Some(*dtype), Some(*name)));
        }
        assert_eq!(dtype_of("f32"), None);
        assert_eq!(dtype_name(DType::Q8_0), None);
    }

    #[test]
    fn strings_are_escaped_as_serde_json_does() {
        let all: String = (0..0x300).filter_map(char::from_u32).chain(['\u{2028}', '重', '😀']).collect();
        for text in ["", "a", "\"", "x\\y", "\u{1}\u{1f}\u{7f}é", &all] {
            let mut out = Vec::new();
            push_string(&mut out, text);
            assert_eq!(String::from_utf8(out).unwrap(), serde_json::to_string(text).unwrap());
        }
    }

    #[test]
    fn an_entry_is_compact_json() {
        let mut out = Vec::new();
        push_entry(&mut out, "a\n", "F32", &[0, u64::MAX, 10], 0, 1200);
        let expected = r#""a\n":{"dtype":"F32","shape":[0,18446744073709551615,10],"data_offsets":[0,1200]}"#;
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
