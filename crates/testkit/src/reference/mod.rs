//! A slow reader of each format, written only from its specification, to compare the crates with.
//!
//! It shares no code with the crates: a whole file is in memory, values are read one after the other, and
//! everything is copied. It does not say what is wrong with a file, and it accepts files that the crates
//! refuse. But if a crate opens a file, it must find the same content as the reference.

mod aero;
mod apr;
mod apr2;
mod archive;
mod compare;
mod gguf;
mod mag;
mod msgpack;
mod npy;
mod oinf;
pub mod outboard;
mod pickle;
mod pytorch;
mod safetensors;

use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde_json::Value;

pub use self::compare::{compare, compare_damaged};

/// The content of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// The tensors in the order of the file.
    pub tensors: Vec<Tensor>,
    /// The format's metadata as `modelfmt inspect --json` prints it; `None` if it cannot be decoded.
    pub metadata: Option<Value>,
    /// Whether every checksum in the file matches the bytes that it covers.
    pub checksums_hold: bool,
}

/// A tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// The name of its type, such as `f32`.
    pub dtype: String,
    /// Its dimensions, slowest first.
    pub shape: Vec<u64>,
    /// Its values, decompressed; `None` if the file has none, or they cannot be decompressed.
    pub bytes: Option<Vec<u8>>,
}

/// Reads a file of the format `aero`, `apr`, `apr2` (also APR1), `gguf`, `mag`, `npy` (also npz), `oinf`,
/// `pytorch` or `safetensors`. Returns `None` if it cannot be read.
///
/// # Panics
/// If there is no reference for the format.
#[must_use]
pub fn read(format: &str, file: &[u8]) -> Option<Model> {
    match format {
        "aero" => aero::read(file),
        "apr" => apr::read(file),
        "apr2" => apr2::read(file),
        "gguf" => gguf::read(file),
        "mag" => mag::read(file),
        "npy" => npy::read(file),
        "oinf" => oinf::read(file),
        "pytorch" => pytorch::read(file),
        "safetensors" => safetensors::read(file),
        other => panic!("no reference for {other}"),
    }
}

/// Reads values one after the other.
struct Input<'a> {
    file: &'a [u8],
    at: u64,
    /// Whether numbers have their most significant byte first.
    is_big_endian: bool,
}

macro_rules! numbers {
    ($($name:ident $type:ty),*) => {
        $(fn $name(&mut self) -> Option<$type> {
            let bytes = self.bytes(size_of::<$type>() as u64)?.try_into().ok()?;
            Some(if self.is_big_endian { <$type>::from_be_bytes(bytes) } else { <$type>::from_le_bytes(bytes) })
        })*
    };
}

impl<'a> Input<'a> {
    const fn new(file: &'a [u8], at: u64) -> Self {
        Self { file, at, is_big_endian: false }
    }

    fn bytes(&mut self, len: u64) -> Option<&'a [u8]> {
        let bytes = part(self.file, self.at, len)?;
        self.at += len;
        Some(bytes)
    }

    fn text(&mut self, len: u64) -> Option<String> {
        String::from_utf8(self.bytes(len)?.to_vec()).ok()
    }

    fn list<T>(&mut self, len: u64, mut member: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        (0..len).map(|_| member(self)).collect()
    }

    numbers!(u8 u8, i8 i8, u16 u16, i16 i16, u32 u32, i32 i32, u64 u64, i64 i64, f32 f32, f64 f64);
}

/// Returns a range of a file, if the file contains it.
fn part(file: &[u8], offset: u64, len: u64) -> Option<&[u8]> {
    let (begin, end) = (usize::try_from(offset).ok()?, usize::try_from(offset.checked_add(len)?).ok()?);
    file.get(begin..end)
}

/// Returns the length of a tensor in bytes; `elements` elements take `bytes` bytes.
fn nbytes(shape: &[u64], elements: u64, bytes: u64) -> Option<u64> {
    if shape.contains(&0) {
        return Some(0);
    }
    let count = shape.iter().try_fold(1u128, |count, &dim| count.checked_mul(dim.into()))?;
    let blocks = count / u128::from(elements);
    if blocks * u128::from(elements) != count {
        return None;
    }
    u64::try_from(blocks.checked_mul(bytes.into())?).ok()
}

/// Returns a float as a JSON number, or as text if JSON has no such number.
fn float(x: f64) -> Value {
    match serde_json::Number::from_f64(x) {
        Some(number) => number.into(),
        None if x.is_nan() => "NaN".into(),
        None if x > 0.0 => "Infinity".into(),
        None => "-Infinity".into(),
    }
}

/// Returns the members of a JSON object in the order of the text, which a `serde_json::Value` does not keep.
fn members<T: DeserializeOwned>(text: &[u8]) -> Option<Vec<(String, T)>> {
    struct Members<T>(PhantomData<T>);
    impl<'de, T: DeserializeOwned> Visitor<'de> for Members<T> {
        type Value = Vec<(String, T)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            std::iter::from_fn(|| map.next_entry().transpose()).collect()
        }
    }
    let mut json = serde_json::Deserializer::from_slice(text);
    let members = json.deserialize_map(Members(PhantomData)).ok()?;
    json.end().ok()?;
    Some(members)
}
