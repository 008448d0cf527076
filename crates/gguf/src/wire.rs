//! Constants of the format: its magic, its types, and the minimum lengths of its records.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use crate::error::Fault;

/// The first four bytes of a file.
pub(crate) const MAGIC: &[u8] = b"GGUF";

/// The metadata key for the alignment of tensors.
pub(crate) const ALIGNMENT: &str = "general.alignment";

/// The metadata keys of a file of a split: its number, counted from 0, the number of files, and the number of
/// tensors in all files.
pub(crate) const SPLIT: [&str; 3] = ["split.no", SPLIT_COUNT, "split.tensors.count"];

/// The metadata key for a string of spaces, which reserves room for more metadata
/// (docs/formats/gguf.md#room-for-edits).
pub const PADDING: &str = "modelfmt.padding";

/// The metadata key for the number of files of a split.
pub(crate) const SPLIT_COUNT: &str = "split.count";

/// The version that this library writes.
pub(crate) const VERSION: u32 = 3;

/// The length of the header: magic, version and two counts.
pub(crate) const HEADER_LEN: u64 = 4 + 4 + 8 + 8;

/// GGUF, `gguf_metadata_kv_t`: the longest key in bytes.
pub(crate) const MAX_KEY_LEN: usize = 65_535;

/// The greatest length of a file.
pub(crate) const MAX_FILE_LEN: u64 = i64::MAX as u64;

/// GGUF, "general.alignment": the alignment of a file without this key.
pub(crate) const DEFAULT_ALIGNMENT: u32 = 32;

/// The longest name in bytes. ggml's `GGML_MAX_NAME` is 64 and includes the zero at the end; the document
/// says 64 (docs/formats/gguf.md#names-and-keys).
pub(crate) const MAX_NAME_LEN: usize = 63;

/// ggml's `GGML_MAX_DIMS`.
pub(crate) const MAX_RANK: u64 = 4;

/// The length of the shortest metadata entry: the key's length, a type, and one byte.
pub(crate) const MIN_ENTRY_LEN: u64 = 8 + 4 + 1;

/// The length of the shortest tensor record: the name's length, the rank, a type, and an offset.
pub(crate) const MIN_TENSOR_LEN: u64 = 8 + 4 + 4 + 8;

/// Types of metadata values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ValueType {
    /// Unsigned, 8 bits.
    U8,
    /// Signed, 8 bits.
    I8,
    /// Unsigned, 16 bits.
    U16,
    /// Signed, 16 bits.
    I16,
    /// Unsigned, 32 bits.
    U32,
    /// Signed, 32 bits.
    I32,
    /// IEEE 754 binary32.
    F32,
    /// One byte, 0 or 1.
    Bool,
    /// Text in UTF-8.
    String,
    /// An array of values of one type, which may themselves be arrays.
    Array,
    /// Unsigned, 64 bits.
    U64,
    /// Signed, 64 bits.
    I64,
    /// IEEE 754 binary64.
    F64,
}

impl ValueType {
    /// GGUF, `gguf_metadata_value_type`: all types in the order of their numbers, from 0 on.
    const ALL: [Self; 13] = [
        Self::U8,
        Self::I8,
        Self::U16,
        Self::I16,
        Self::U32,
        Self::I32,
        Self::F32,
        Self::Bool,
        Self::String,
        Self::Array,
        Self::U64,
        Self::I64,
        Self::F64,
    ];

    /// Returns the name of the type, such as `u8`, `string` or `array`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::I8 => "i8",
            Self::U16 => "u16",
            Self::I16 => "i16",
            Self::U32 => "u32",
            Self::I32 => "i32",
            Self::F32 => "f32",
            Self::Bool => "bool",
            Self::String => "string",
            Self::Array => "array",
            Self::U64 => "u64",
            Self::I64 => "i64",
            Self::F64 => "f64",
        }
    }

    /// Returns the type with this name.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the number of the type in a file.
    pub(crate) const fn number(self) -> u32 {
        self as u32 // as `ALL` counts
    }

    /// Returns the size of a value in bytes, or `None` if it depends on the value.
    pub(crate) const fn size(self) -> Option<u64> {
        match self {
            Self::U8 | Self::I8 | Self::Bool => Some(1),
            Self::U16 | Self::I16 => Some(2),
            Self::U32 | Self::I32 | Self::F32 => Some(4),
            Self::U64 | Self::I64 | Self::F64 => Some(8),
            Self::String | Self::Array => None,
        }
    }

    /// Returns the length of the shortest value of this type in a file.
    pub(crate) const fn min_len(self) -> u64 {
        match self {
            Self::String => 8,    // its length
            Self::Array => 4 + 8, // type and count of its members
            _ => match self.size() {
                Some(size) => size,
                None => 1,
            },
        }
    }
}

impl TryFrom<u32> for ValueType {
    type Error = Fault;

    fn try_from(number: u32) -> Result<Self, Fault> {
        let known = usize::try_from(number).ok().and_then(|number| Self::ALL.get(number));
        known.copied().ok_or(Fault::ValueType(number))
    }
}

/// Checks that a key is ASCII and at most 65,535 bytes long (GGUF, `gguf_metadata_kv_t`).
pub(crate) fn check_key(key: &str) -> Result<(), Fault> {
    if key.is_ascii() { check_key_len(key) } else { Err(Fault::KeyNotAscii) }
}

/// Checks only the length of a key, for keys in any script.
pub(crate) fn check_key_len(key: &str) -> Result<(), Fault> {
    match key.len() {
        0..=MAX_KEY_LEN => Ok(()),
        len => Err(Fault::KeyLength(len as u64)),
    }
}

/// Returns the fault for a tensor type that has no dtype.
pub(crate) const fn unknown_type(number: u32) -> Fault {
    let name = match number {
        4 => "Q4_2",
        5 => "Q4_3",
        31 => "Q4_0_4_4",
        32 => "Q4_0_4_8",
        33 => "Q4_0_8_8",
        36 => "IQ4_NL_4_4",
        37 => "IQ4_NL_4_8",
        38 => "IQ4_NL_8_8",
        _ => return Fault::TensorType(number),
    };
    Fault::RemovedType { number, name }
}
