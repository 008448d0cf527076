//! Values of GGUF's metadata, with their types.

/// A value of GGUF's metadata. llama.cpp requires exact types: a count is a `u32` and nothing else.
#[derive(Clone, Debug, PartialEq)]
pub enum Key {
    /// A string.
    Text(String),
    /// A `uint32`.
    U32(u32),
    /// A `float32`.
    F32(f32),
    /// A `bool`.
    Bool(bool),
    /// An array of strings.
    Texts(Vec<String>),
    /// An array of `float32`.
    F32s(Vec<f32>),
    /// An array of `int32`.
    I32s(Vec<i32>),
    /// An array of `uint8`.
    Bytes(Vec<u8>),
}
