//! The input of a writer: descriptions first, values later and in pieces.

use modelfmt_core::BoxError;
use std::borrow::Cow;
use std::ops::Range;

use tensor_core::DType;
use tensor_core::TensorInfo;

/// The description of a tensor to write.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TensorSpec<'a> {
    /// The name.
    pub name: Cow<'a, str>,
    /// The dtype of the elements.
    pub dtype: DType,
    /// The dimensions in elements, slowest first; empty for a scalar.
    pub shape: Cow<'a, [u64]>,
    /// Whether the tensor has values. Only OINF can hold a tensor without values.
    pub has_data: bool,
    /// The length in bytes of a [`DType::Packed`] tensor. For other dtypes it follows from dtype and shape.
    pub packed_nbytes: u64,
}

impl<'a> TensorSpec<'a> {
    /// Describes a tensor with values.
    pub fn new(name: impl Into<Cow<'a, str>>, dtype: DType, shape: impl Into<Cow<'a, [u64]>>) -> Self {
        Self { name: name.into(), dtype, shape: shape.into(), has_data: true, packed_nbytes: 0 }
    }

    /// Describes a tensor that is declared without values.
    pub fn declared(name: impl Into<Cow<'a, str>>, dtype: DType, shape: impl Into<Cow<'a, [u64]>>) -> Self {
        Self { has_data: false, ..Self::new(name, dtype, shape) }
    }

    /// Describes a tensor of `nbytes` bytes that are encoded by a codec unknown to this library.
    pub fn packed(name: impl Into<Cow<'a, str>>, shape: impl Into<Cow<'a, [u64]>>, nbytes: u64) -> Self {
        Self { packed_nbytes: nbytes, ..Self::new(name, DType::Packed, shape) }
    }
}

impl<'a> From<TensorInfo<'a>> for TensorSpec<'a> {
    fn from(info: TensorInfo<'a>) -> Self {
        let packed_nbytes = if info.dtype == DType::Packed { info.nbytes } else { 0 };
        Self { has_data: info.has_data, packed_nbytes, ..Self::new(info.name, info.dtype, info.shape) }
    }
}

/// The values of the tensors that are being written.
///
/// Tensors are numbered in the order of their descriptions. Writers request pieces from several threads,
/// mostly in order and mostly once. A piece that is requested again must have the same bytes.
pub trait TensorData: Sync {
    /// Fills `out` with the bytes of a tensor from `offset` on, little-endian and row-major.
    ///
    /// # Errors
    /// Any error. The writer stops, leaves nothing behind, and returns it as the source of its own error.
    fn read(&self, tensor: usize, offset: u64, out: &mut [u8]) -> Result<(), BoxError>;

    /// Returns the bytes of a range of the tensor without a copy, if they are in memory.
    fn borrow(&self, tensor: usize, range: Range<u64>) -> Option<&[u8]> {
        let _ = (tensor, range);
        None
    }
}

impl<B: AsRef<[u8]> + Sync> TensorData for [B] {
    fn read(&self, tensor: usize, offset: u64, out: &mut [u8]) -> Result<(), BoxError> {
        let end = offset.saturating_add(out.len() as u64);
        let Some(bytes) = self.borrow(tensor, offset..end) else {
            let have = self.get(tensor).map_or(0, |bytes| bytes.as_ref().len());
            return Err(format!(
                "bytes {offset}..{end} were asked for, but the values given have {have} bytes"
            )
            .into());
        };
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn borrow(&self, tensor: usize, range: Range<u64>) -> Option<&[u8]> {
        let range = usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?;
        self.get(tensor)?.as_ref().get(range)
    }
}

macro_rules! by_slice {
    ($([$($generics:tt)*] $type:ty;)*) => { $(
        impl<$($generics)* B: AsRef<[u8]> + Sync> TensorData for $type {
            fn read(&self, tensor: usize, offset: u64, out: &mut [u8]) -> Result<(), BoxError> {
                self[..].read(tensor, offset, out)
            }
            fn borrow(&self, tensor: usize, range: Range<u64>) -> Option<&[u8]> {
                self[..].borrow(tensor, range)
            }
        }
    )* };
}
by_slice! {
    [] Vec<B>;
    [const N: usize,] [B; N];
}

/// The values of a model's tensors from a given number on, for a file that holds only those.
pub struct DataFrom<'a> {
    /// The values of the whole model.
    pub data: &'a dyn TensorData,
    /// The number in the model of the file's first tensor.
    pub first: usize,
}

impl TensorData for DataFrom<'_> {
    fn read(&self, tensor: usize, offset: u64, out: &mut [u8]) -> Result<(), BoxError> {
        self.data.read(self.first + tensor, offset, out)
    }

    fn borrow(&self, tensor: usize, range: Range<u64>) -> Option<&[u8]> {
        self.data.borrow(self.first + tensor, range)
    }
}
