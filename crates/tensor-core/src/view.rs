//! Views of one tensor's values: typed slices without a copy, and copies that always work.

use std::borrow::Cow;

use half::{bf16, f16};

use crate::buffer::Bytes;
use crate::dtype::DType;
use crate::error::TensorError;
use crate::info::TensorInfo;
use crate::small::SmallType;

mod sealed {
    pub trait Sealed {}
}

/// A Rust type for the elements of a tensor.
pub trait Element: bytemuck::Pod + sealed::Sealed {
    /// The dtype of a tensor with these elements.
    const DTYPE: DType;
    /// Converts the element from little-endian to the byte order of the machine.
    #[must_use]
    fn to_native(self) -> Self;
}

macro_rules! elements {
    ($($type:ty, $dtype:ident, |$x:ident| $from_le:expr;)*) => { $(
        impl sealed::Sealed for $type {}
        impl Element for $type {
            const DTYPE: DType = DType::$dtype;
            fn to_native(self) -> Self { let $x = self; $from_le }
        }
    )* };
}
elements! {
    i8, I8, |x| x;
    u8, U8, |x| x;
    i16, I16, |x| Self::from_le(x);
    u16, U16, |x| Self::from_le(x);
    i32, I32, |x| Self::from_le(x);
    u32, U32, |x| Self::from_le(x);
    i64, I64, |x| Self::from_le(x);
    u64, U64, |x| Self::from_le(x);
    f16, F16, |x| Self::from_bits(u16::from_le(x.to_bits()));
    bf16, BF16, |x| Self::from_bits(u16::from_le(x.to_bits()));
    f32, F32, |x| Self::from_bits(u32::from_le(x.to_bits()));
    f64, F64, |x| Self::from_bits(u64::from_le(x.to_bits()));
}

/// A tensor with its values.
#[derive(Clone, Debug)]
pub struct TensorView<'a> {
    info: TensorInfo<'a>,
    bytes: Bytes<'a>,
}

impl<'a> TensorView<'a> {
    /// Creates a view from a description and the bytes, which are little-endian and row-major.
    ///
    /// # Errors
    /// [`TensorError::Length`] if there are not `info.nbytes` bytes.
    pub fn new(info: TensorInfo<'a>, bytes: Bytes<'a>) -> Result<Self, TensorError> {
        let found = bytes.len() as u64;
        if found != info.nbytes {
            return Err(TensorError::Length { found, expected: info.nbytes });
        }
        Ok(Self { info, bytes })
    }

    /// Returns the description of the tensor.
    #[must_use]
    pub const fn info(&self) -> TensorInfo<'a> {
        self.info
    }

    /// Returns the name.
    #[must_use]
    pub const fn name(&self) -> &'a str {
        self.info.name
    }

    /// Returns the dtype of the elements.
    #[must_use]
    pub const fn dtype(&self) -> DType {
        self.info.dtype
    }

    /// Returns the dimensions in elements, slowest first.
    #[must_use]
    pub const fn shape(&self) -> &'a [u64] {
        self.info.shape
    }

    /// Returns the values as bytes, little-endian and row-major.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the values as bytes and drops the description.
    #[must_use]
    pub fn into_bytes(self) -> Bytes<'a> {
        self.bytes
    }

    /// Returns the values as a typed slice, without a copy.
    ///
    /// # Errors
    /// [`TensorError::DType`] if the tensor has another dtype, [`TensorError::Unaligned`] if the bytes are
    /// not aligned for the type, [`TensorError::Endianness`] on a big-endian machine. In the last two cases,
    /// use [`to_vec`](Self::to_vec).
    pub fn as_slice<T: Element>(&self) -> Result<&[T], TensorError> {
        self.require::<T>()?;
        if cfg!(target_endian = "big") && size_of::<T>() > 1 {
            return Err(TensorError::Endianness);
        }
        bytemuck::try_cast_slice(&self.bytes)
            .map_err(|_| TensorError::Unaligned { alignment: align_of::<T>() })
    }

    /// Copies the values. This works for any alignment and on every machine.
    ///
    /// # Errors
    /// [`TensorError::DType`] if the tensor has another dtype.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, TensorError> {
        self.require::<T>()?;
        let chunks = self.bytes.chunks_exact(size_of::<T>());
        Ok(chunks.map(|chunk| bytemuck::pod_read_unaligned::<T>(chunk).to_native()).collect())
    }

    fn require<T: Element>(&self) -> Result<(), TensorError> {
        if self.info.dtype == T::DTYPE {
            return Ok(());
        }
        Err(TensorError::DType { found: self.info.dtype, wanted: T::DTYPE })
    }

    /// Converts the values to `f32`: numbers are rounded to the nearest, booleans become 0 and 1.
    ///
    /// # Errors
    /// [`TensorError::Blocks`] for ggml's block types, [`TensorError::NotNumeric`] for other types that are
    /// not numbers.
    #[expect(clippy::cast_possible_truncation, reason = "rounding to the nearest f32 is what is asked for")]
    pub fn to_f32(&self) -> Result<Vec<f32>, TensorError> {
        Ok(self.numbers()?.map(|x| x as f32).collect())
    }

    /// Converts the values to `f64`: exactly, except for 64-bit integers beyond 2^53.
    ///
    /// # Errors
    /// [`TensorError::Blocks`] for ggml's block types, [`TensorError::NotNumeric`] for other types that are
    /// not numbers.
    pub fn to_f64(&self) -> Result<Vec<f64>, TensorError> {
        Ok(self.numbers()?.collect())
    }

    fn small_numbers(&self, small: SmallType) -> Box<dyn Iterator<Item = f64> + '_> {
        let elements = usize::try_from(self.info.elements()).unwrap_or(usize::MAX);
        let (elements_at_once, nbytes) = small.group();
        let numbers = self.bytes.chunks(nbytes).flat_map(move |bytes| {
            let mut numbers = [0.0; 8];
            small.decode(bytes, &mut numbers);
            numbers.into_iter().take(elements_at_once)
        });
        Box::new(numbers.take(elements).map(f64::from))
    }

    fn numbers(&self) -> Result<Box<dyn Iterator<Item = f64> + '_>, TensorError> {
        fn each<'b, T: Element>(bytes: &'b [u8], to_f64: fn(T) -> f64) -> Box<dyn Iterator<Item = f64> + 'b> {
            let read = |chunk: &[u8]| bytemuck::pod_read_unaligned::<T>(chunk).to_native();
            Box::new(bytes.chunks_exact(size_of::<T>()).map(move |chunk| to_f64(read(chunk))))
        }
        let bytes = &*self.bytes;
        Ok(match self.info.dtype {
            DType::Bool => each::<u8>(bytes, |x| f64::from(x != 0)),
            DType::I8 => each::<i8>(bytes, f64::from),
            DType::U8 => each::<u8>(bytes, f64::from),
            DType::I16 => each::<i16>(bytes, f64::from),
            DType::U16 => each::<u16>(bytes, f64::from),
            DType::I32 => each::<i32>(bytes, f64::from),
            DType::U32 => each::<u32>(bytes, f64::from),
            DType::I64 => each::<i64>(bytes, |x| x as f64),
            DType::U64 => each::<u64>(bytes, |x| x as f64),
            DType::F16 => each::<f16>(bytes, f64::from),
            DType::BF16 => each::<bf16>(bytes, f64::from),
            DType::F32 => each::<f32>(bytes, f64::from),
            DType::F64 => each::<f64>(bytes, |x| x),
            small if let Some(small) = SmallType::from_dtype(small) => self.small_numbers(small),
            other if other.is_quantized() => return Err(TensorError::Blocks(other)),
            other => return Err(TensorError::NotNumeric(other)),
        })
    }
}

/// Values in memory with their shape, to be written. The dtype comes from the type of the slice.
///
/// ```
/// use tensor_core::{DType, View, bf16};
///
/// let w = View::new(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?;
/// assert_eq!((w.dtype(), w.shape(), w.bytes().len()), (DType::F32, &[2, 2][..], 16));
/// let scale = View::new(&[bf16::ONE], [])?; // a scalar
/// assert_eq!(scale.dtype(), DType::BF16);
/// # Ok::<(), tensor_core::TensorError>(())
/// ```
#[derive(Clone, Debug)]
pub struct View<'a> {
    dtype: DType,
    shape: Vec<u64>,
    bytes: Cow<'a, [u8]>,
}

impl<'a> View<'a> {
    /// Creates a view of values of a Rust type, row-major. They are copied only on a big-endian machine.
    ///
    /// # Errors
    /// [`TensorError::Length`] if the number of values is not the number of elements of the shape.
    pub fn new<T: Element>(values: &'a [T], shape: impl Into<Vec<u64>>) -> Result<Self, TensorError> {
        let bytes = if cfg!(target_endian = "big") && size_of::<T>() > 1 {
            let swapped: Vec<T> = values.iter().map(|value| value.to_native()).collect();
            Cow::Owned(bytemuck::cast_slice(&swapped).to_vec())
        } else {
            Cow::Borrowed(bytemuck::cast_slice(values))
        };
        Self::from_bytes(T::DTYPE, bytes, shape)
    }

    /// Creates a view of booleans, row-major.
    ///
    /// # Errors
    /// [`TensorError::Length`] if the number of values is not the number of elements of the shape.
    pub fn from_bools(values: &'a [bool], shape: impl Into<Vec<u64>>) -> Result<Self, TensorError> {
        Self::from_bytes(DType::Bool, bytemuck::cast_slice(values), shape)
    }

    /// Creates a view of bytes of any dtype, blocks included: little-endian and row-major.
    ///
    /// # Errors
    /// [`TensorError::Length`] if the number of bytes is not the one that dtype and shape imply.
    pub fn from_bytes(
        dtype: DType,
        bytes: impl Into<Cow<'a, [u8]>>,
        shape: impl Into<Vec<u64>>,
    ) -> Result<Self, TensorError> {
        let (bytes, shape) = (bytes.into(), shape.into());
        let found = bytes.len() as u64;
        match dtype.nbytes(&shape) {
            Some(expected) if expected == found => Ok(Self { dtype, shape, bytes }),
            expected => Err(TensorError::Length { found, expected: expected.unwrap_or(u64::MAX) }),
        }
    }

    /// Returns the dtype of the elements.
    #[must_use]
    pub const fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the dimensions in elements, slowest first; empty for a scalar.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Returns the values as bytes, little-endian and row-major.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::AlignedBuf;

    fn view<'a>(dtype: DType, shape: &'a [u64], bytes: Bytes<'a>) -> TensorView<'a> {
        TensorView::new(TensorInfo::new("t", dtype, shape).unwrap(), bytes).unwrap()
    }

    #[test]
    fn aligned_values_are_slices_and_others_say_why_not() {
        let mut buffer = AlignedBuf::zeroed(12).unwrap();
        buffer[1..9].copy_from_slice(bytemuck::bytes_of(&[1.5f32, -2.0].map(f32::to_bits).map(u32::to_le)));
        let unaligned = view(DType::F32, &[2], Bytes::Borrowed(&buffer[1..9]));
        let why = match cfg!(target_endian = "little") {
            true => TensorError::Unaligned { alignment: 4 },
            false => TensorError::Endianness,
        };
        assert_eq!(unaligned.as_slice::<f32>(), Err(why));
        assert_eq!(unaligned.to_vec::<f32>().unwrap(), [1.5, -2.0]);
        let wrong = TensorError::DType { found: DType::F32, wanted: DType::I32 };
        assert_eq!(unaligned.as_slice::<i32>(), Err(wrong));
        let aligned =
            view(DType::F32, &[2], Bytes::Owned(AlignedBuf::copy_from_slice(&buffer[1..9]).unwrap()));
        if cfg!(target_endian = "little") {
            assert_eq!(aligned.as_slice::<f32>().unwrap(), [1.5, -2.0]);
        } else {
            assert_eq!(aligned.as_slice::<f32>(), Err(TensorError::Endianness));
        }
        // A byte is the same on every machine.
        let bytes = view(DType::I8, &[3], Bytes::Borrowed(&[1, 0xff, 3]));
        assert_eq!(bytes.as_slice::<i8>().unwrap(), [1, -1, 3]);
        assert_eq!(bytes.to_vec::<u8>(), Err(TensorError::DType { found: DType::I8, wanted: DType::U8 }));
    }

    #[test]
    fn a_view_gives_what_it_was_made_of() {
        let info = TensorInfo::new("w", DType::U8, &[2, 1]).unwrap();
        let view = TensorView::new(info, Bytes::Borrowed(&[7, 9])).unwrap();
        assert_eq!(
            (view.info(), view.name(), view.dtype(), view.shape()),
            (info, "w", DType::U8, &[2, 1][..])
        );
        assert_eq!((view.bytes(), &*view.clone().into_bytes()), (&[7, 9][..], &[7, 9][..]));
    }

    #[test]
    fn every_plain_type_is_read_little_endian() {
        let bytes = [0x01, 0x80, 0, 0, 0, 0, 0, 0x80];
        for (dtype, first) in [
            (DType::Bool, 1.0),
            (DType::I8, 1.0),
            (DType::U8, 1.0),
            (DType::I16, -32_767.0),
            (DType::U16, 32_769.0),
            (DType::I32, 32_769.0),
            (DType::U32, 32_769.0),
            (DType::I64, -9_223_372_036_854_743_040.0),
            (DType::U64, 9_223_372_036_854_808_576.0),
            (DType::F16, -f64::from(f16::MIN_POSITIVE_SUBNORMAL)),
            (DType::BF16, -f64::from(bf16::from_bits(1))),
            (DType::F32, f64::from(f32::from_bits(0x8001))),
            (DType::F64, f64::from_bits(0x8000_0000_0000_8001)),
        ] {
            let elements = bytes.len() as u64 / u64::from(dtype.size().unwrap());
            let shape = [elements];
            let values = view(dtype, &shape, Bytes::Borrowed(&bytes)).to_f64().unwrap();
            assert_eq!((values.len() as u64, values[0]), (elements, first), "{dtype}");
        }
    }

    #[test]
    fn numbers_convert() {
        let halves = [f16::from_f32(0.5), f16::INFINITY].map(|x| x.to_bits().to_le());
        let halves = view(DType::F16, &[2], Bytes::Borrowed(bytemuck::cast_slice(&halves)));
        assert_eq!(halves.to_f64().unwrap(), [0.5, f64::INFINITY]);
        assert_eq!(view(DType::Bool, &[3], Bytes::Borrowed(&[0, 1, 2])).to_f32().unwrap(), [0.0, 1.0, 1.0]);
        let opaque = view(DType::C64, &[1], Bytes::Borrowed(&[0; 8]));
        assert_eq!(opaque.to_f32(), Err(TensorError::NotNumeric(DType::C64)));
        let short = TensorView::new(TensorInfo::new("t", DType::F32, &[2]).unwrap(), Bytes::Borrowed(&[0]));
        assert_eq!(short.unwrap_err(), TensorError::Length { found: 1, expected: 8 });
    }

    #[test]
    fn small_numbers_convert() {
        let bytes = [0x38, 0xb8, 0x7e, 0x01];
        let f8 = view(DType::F8E4M3, &[2, 2], Bytes::Borrowed(&bytes));
        assert_eq!(f8.to_f32().unwrap(), [1.0, -1.0, 448.0, 1.0 / 512.0]);
        let f4 = view(DType::F4, &[4], Bytes::Borrowed(&[0x21, 0xf7]));
        assert_eq!(f4.to_f64().unwrap(), [0.5, 1.0, 6.0, -6.0]);
        // 6 bits each, the lowest first: 001000 is 1, 100001 is -0.125, 011111 is 7.5, 000000 is 0.
        let f6 = view(DType::F6E2M3, &[4], Bytes::Borrowed(&[0b0100_1000, 0b1111_1000, 0b0000_0001]));
        assert_eq!(f6.to_f32().unwrap(), [1.0, -0.125, 7.5, 0.0]);
        // The last byte is not full.
        let i4 = view(DType::I4, &[3], Bytes::Borrowed(&[0x7f, 0x08]));
        assert_eq!(i4.to_f32().unwrap(), [-1.0, 7.0, -8.0]);
        let t1 = view(DType::T1, &[3, 3], Bytes::Borrowed(&[0b1000_0001, 1]));
        assert_eq!(t1.to_f32().unwrap(), [1.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0, 1.0, 1.0]);
    }

    #[test]
    fn blocks_are_not_numbers_here() {
        let blocks = view(DType::Q8_0, &[32], Bytes::Borrowed(&[0; 34]));
        assert_eq!(blocks.to_f32(), Err(TensorError::Blocks(DType::Q8_0)));
        assert_eq!(blocks.to_f64(), Err(TensorError::Blocks(DType::Q8_0)));
    }

    #[test]
    fn views_to_be_written_know_their_type() {
        let values = [1.5f32, -2.0];
        let written = View::new(&values, [1, 2]).unwrap();
        assert_eq!(written.bytes(), [1.5f32.to_le_bytes(), (-2.0f32).to_le_bytes()].concat());
        let wrong = View::new(&values, [3]).unwrap_err();
        assert_eq!(wrong, TensorError::Length { found: 8, expected: 12 });
        assert_eq!(View::from_bools(&[true, false], [2]).unwrap().bytes(), [1, 0]);
        let blocks = View::from_bytes(DType::Q8_0, vec![0; 34], [32]).unwrap();
        assert_eq!((blocks.dtype(), blocks.shape()), (DType::Q8_0, &[32][..]));
        assert!(View::from_bytes(DType::Q8_0, vec![0; 34], [33]).is_err());
    }
}
