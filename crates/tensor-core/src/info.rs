//! Descriptions of tensors: name, dtype, shape and length.

use crate::dtype::DType;
use crate::error::TensorError;
use crate::shape::{DisplayShape, element_count};

/// The description of a tensor: name, dtype, shape and the length of its values, but not where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TensorInfo<'a> {
    /// The name.
    pub name: &'a str,
    /// The dtype of the elements.
    pub dtype: DType,
    /// The dimensions in elements, slowest first; empty for a scalar.
    pub shape: &'a [u64],
    /// The length of the values in bytes, as dtype and shape imply it. A file may store them differently.
    pub nbytes: u64,
    /// Whether the tensor has values. Some formats can declare a tensor without values.
    pub has_data: bool,
}

impl<'a> TensorInfo<'a> {
    /// Describes a tensor with values. The length follows from dtype and shape; for [`DType::Packed`] it is
    /// 0.
    ///
    /// # Errors
    /// [`TensorError`] if dtype and shape do not imply a length.
    pub fn new(name: &'a str, dtype: DType, shape: &'a [u64]) -> Result<Self, TensorError> {
        Ok(Self { name, dtype, shape, nbytes: implied_nbytes(dtype, shape)?, has_data: true })
    }

    /// Describes a tensor whose length is already known: from a checked index, or from a file that states the
    /// length of a [`DType::Packed`] tensor.
    #[inline]
    #[must_use]
    pub const fn with_nbytes(
        name: &'a str,
        dtype: DType,
        shape: &'a [u64],
        nbytes: u64,
        has_data: bool,
    ) -> Self {
        Self { name, dtype, shape, nbytes, has_data }
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn elements(&self) -> u64 {
        element_count(self.shape).unwrap_or(0) // checked by `new` or by the index
    }
}

/// Returns the number of bytes that values of a dtype and shape take; 0 for [`DType::Packed`], whose length
/// is only known from the file.
///
/// # Errors
/// [`TensorError`] if it is more than 2^63 − 1, or if the shape does not divide into whole blocks.
#[inline]
pub fn implied_nbytes(dtype: DType, shape: &[u64]) -> Result<u64, TensorError> {
    if dtype == DType::Packed {
        return Ok(0);
    }
    match dtype.nbytes(shape) {
        // File systems count offsets in signed 64-bit numbers, so no file is longer.
        Some(nbytes) if i64::try_from(nbytes).is_ok() => Ok(nbytes),
        _ => Err(shape_error(dtype, shape)),
    }
}

#[cold]
fn shape_error(dtype: DType, shape: &[u64]) -> TensorError {
    let text = DisplayShape(shape).to_string();
    let elements = dtype.block().map_or(1, |block| u64::from(block.elements));
    match element_count(shape) {
        Some(count) if count % elements != 0 => TensorError::PartialBlock { dtype, shape: text },
        _ => TensorError::TooManyElements { shape: text },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_follow_from_dtype_and_shape() {
        let info = TensorInfo::new("w", DType::F32, &[2, 3]).unwrap();
        assert_eq!((info.nbytes, info.elements(), info.has_data), (24, 6, true));
        assert_eq!(TensorInfo::new("w", DType::Packed, &[9]).unwrap().nbytes, 0);
        let huge = TensorInfo::new("w", DType::F32, &[1 << 62, 2]).unwrap_err();
        assert_eq!(
            huge.to_string(),
            "the shape [4611686018427387904, 2] has more elements than a file can hold"
        );
        let partial = TensorInfo::new("w", DType::Q8_0, &[33]).unwrap_err();
        assert_eq!(partial.to_string(), "the shape [33] does not divide into whole blocks of q8_0");
    }

    #[test]
    fn no_tensor_is_longer_than_a_file_may_be() {
        let longest = i64::MAX.cast_unsigned();
        assert_eq!(implied_nbytes(DType::U8, &[longest]), Ok(longest));
        let too_long = implied_nbytes(DType::U8, &[longest + 1]).unwrap_err();
        assert!(matches!(too_long, TensorError::TooManyElements { .. }), "{too_long}");
    }
}
