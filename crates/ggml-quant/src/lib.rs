//! Converts blocks to `f32` and back, for ggml's block quantization and aprender's two types.
//!
//! All types can be decoded, and some can be encoded ([`can_encode`]). Results equal those of ggml's plain C
//! and of the Python package `gguf` 0.19 (`gguf.quants`), bit for bit except for the payload and sign of a
//! NaN, which no processor guarantees. The two differ in the sign of a zero that is the scale or the minimum
//! of a block; there, this crate follows C. All functions use one thread. Blocks do not depend on each other,
//! so you can give each thread a run of whole blocks.
//!
//! ```
//! use ggml_quant::DType;
//!
//! let values: Vec<f32> = (0..64_u8).map(f32::from).collect();
//! let mut blocks = [0; 2 * 34];
//! ggml_quant::encode(DType::Q8_0, &values, &mut blocks)?;
//!
//! let mut back = [0.0; 64];
//! ggml_quant::decode(DType::Q8_0, &blocks, &mut back)?;
//! assert!(values.iter().zip(back).all(|(a, b)| (a - b).abs() < 0.3));
//! # Ok::<(), ggml_quant::QuantError>(())
//! ```
//!
//! [`to_f32`] returns the values of any [`TensorView`], quantized or not.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod apr;
mod bits;
mod fp4;
mod grids;
mod iq;
mod k;
mod lanes;
mod legacy;
mod search;
#[cfg(test)]
mod tests;

use bytemuck::{AnyBitPattern, NoUninit};
use half::f16;

pub use tensor_core::DType;
use tensor_core::{Block, TensorError, TensorView};

/// The README's example, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Decodes whole blocks of `dtype` to `f32`.
///
/// Any bytes are valid blocks. A scale that is infinite or NaN gives values that are infinite or NaN.
///
/// # Errors
///
/// [`QuantError::NoDecoder`] if [`can_decode`] returns false, [`QuantError::Length`] if `blocks` is not a
/// number of whole blocks or `out` does not have exactly as many elements as they hold.
pub fn decode(dtype: DType, blocks: &[u8], out: &mut [f32]) -> Result<(), QuantError> {
    match dtype {
        DType::Q4_0 => decode_blocks::<legacy::Q4_0, _>(dtype, blocks, out),
        DType::Q4_1 => decode_blocks::<legacy::Q4_1, _>(dtype, blocks, out),
        DType::Q5_0 => decode_blocks::<legacy::Q5_0, _>(dtype, blocks, out),
        DType::Q5_1 => decode_blocks::<legacy::Q5_1, _>(dtype, blocks, out),
        DType::Q8_0 => decode_blocks::<legacy::Q8_0, _>(dtype, blocks, out),
        DType::Q8_1 => decode_blocks::<legacy::Q8_1, _>(dtype, blocks, out),
        DType::Q2K => decode_blocks::<k::Q2K, _>(dtype, blocks, out),
        DType::Q3K => decode_blocks::<k::Q3K, _>(dtype, blocks, out),
        DType::Q4K => decode_blocks::<k::Q4K, _>(dtype, blocks, out),
        DType::Q5K => decode_blocks::<k::Q5K, _>(dtype, blocks, out),
        DType::Q6K => decode_blocks::<k::Q6K, _>(dtype, blocks, out),
        DType::Q8K => decode_blocks::<k::Q8K, _>(dtype, blocks, out),
        DType::Iq2Xxs => decode_blocks::<iq::Iq2Xxs, _>(dtype, blocks, out),
        DType::Iq2Xs => decode_blocks::<iq::Iq2Xs, _>(dtype, blocks, out),
        DType::Iq3Xxs => decode_blocks::<iq::Iq3Xxs, _>(dtype, blocks, out),
        DType::Iq1S => decode_blocks::<iq::Iq1S, _>(dtype, blocks, out),
        DType::Iq4Nl => decode_blocks::<iq::Iq4Nl, _>(dtype, blocks, out),
        DType::Iq3S => decode_blocks::<iq::Iq3S, _>(dtype, blocks, out),
        DType::Iq2S => decode_blocks::<iq::Iq2S, _>(dtype, blocks, out),
        DType::Iq4Xs => decode_blocks::<iq::Iq4Xs, _>(dtype, blocks, out),
        DType::Iq1M => decode_blocks::<iq::Iq1M, _>(dtype, blocks, out),
        DType::Tq1_0 => decode_blocks::<bits::Tq1_0, _>(dtype, blocks, out),
        DType::Tq2_0 => decode_blocks::<bits::Tq2_0, _>(dtype, blocks, out),
        DType::Mxfp4 => decode_blocks::<fp4::Mxfp4, _>(dtype, blocks, out),
        DType::Nvfp4 => decode_blocks::<fp4::Nvfp4, _>(dtype, blocks, out),
        DType::Q1_0 => decode_blocks::<bits::Q1_0, _>(dtype, blocks, out),
        DType::Q2_0 => decode_blocks::<bits::Q2_0, _>(dtype, blocks, out),
        DType::AprQ4 | DType::AprQ8 => apr::decode(dtype, blocks, out),
        _ => Err(QuantError::NoDecoder { dtype }),
    }
}

/// Returns the values of a tensor as `f32`: blocks are decoded, numbers rounded to the nearest, booleans
/// converted to 0 and 1.
///
/// # Errors
///
/// [`QuantError::NoDecoder`] for a block type without a decoder, [`QuantError::View`] for a type whose
/// elements are not numbers.
pub fn to_f32(tensor: &TensorView<'_>) -> Result<Vec<f32>, QuantError> {
    let dtype = tensor.dtype();
    if !dtype.is_quantized() {
        return Ok(tensor.to_f32()?);
    }
    let nbytes = tensor.bytes().len();
    let too_many = |_| QuantError::Length { dtype, elements: usize::MAX, nbytes };
    let mut out = vec![0.0; usize::try_from(tensor.info().elements()).map_err(too_many)?];
    match tensor.shape() {
        // There are more blocks than the elements need: each row of a matrix is padded (APR's q4_k).
        &[_, columns] if dtype.nbytes(tensor.shape()) != Some(nbytes as u64) => {
            decode_rows(dtype, tensor.bytes(), usize::try_from(columns).map_err(too_many)?, &mut out)?;
        }
        _ => decode(dtype, tensor.bytes(), &mut out)?,
    }
    Ok(out)
}

/// Decodes the rows of a matrix in which each row is padded to whole blocks, without the padding.
///
/// # Errors
///
/// [`QuantError::NoDecoder`] for a block type without a decoder, [`QuantError::Length`] if `blocks` and `out`
/// do not have the lengths of such a matrix.
pub fn decode_rows(dtype: DType, blocks: &[u8], columns: usize, out: &mut [f32]) -> Result<(), QuantError> {
    let mismatch = QuantError::Length { dtype, elements: out.len(), nbytes: blocks.len() };
    let size = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
    let Some(Block { elements, nbytes }) = dtype.block() else { return Err(mismatch) };
    if columns == 0 || out.is_empty() {
        return if out.is_empty() && blocks.is_empty() { Ok(()) } else { Err(mismatch) };
    }
    let per_row = columns.div_ceil(size(elements));
    let row_len = per_row.checked_mul(size(nbytes)).filter(|&len| len > 0);
    let Some(row_len) = row_len.filter(|len| Some(blocks.len()) == (out.len() / columns).checked_mul(*len))
    else {
        return Err(mismatch);
    };
    if !out.len().is_multiple_of(columns) {
        return Err(mismatch);
    }
    let mut row = vec![0.0; per_row.saturating_mul(size(elements))];
    for (blocks, out) in blocks.chunks_exact(row_len).zip(out.chunks_exact_mut(columns)) {
        decode(dtype, blocks, &mut row)?;
        out.copy_from_slice(row.get(..columns).unwrap_or_default());
    }
    Ok(())
}

/// Returns the values of a tensor as `f64`, exact except for 64-bit integers beyond 2^53.
///
/// # Errors
///
/// [`QuantError::NoDecoder`] for a block type without a decoder, [`QuantError::View`] for a type whose
/// elements are not numbers.
pub fn to_f64(tensor: &TensorView<'_>) -> Result<Vec<f64>, QuantError> {
    if tensor.dtype().is_quantized() {
        return Ok(to_f32(tensor)?.into_iter().map(f64::from).collect());
    }
    Ok(tensor.to_f64()?)
}

/// Encodes finite values into whole blocks of `dtype`.
///
/// # Errors
///
/// [`QuantError::NoEncoder`] if [`can_encode`] returns false, [`QuantError::Length`] if `values` do not fill
/// whole blocks or `out` is not exactly as long as those, [`QuantError::NotFinite`] and
/// [`QuantError::ScaleOverflow`] for the first block that cannot represent its values. After an error, the
/// content of `out` is unspecified.
pub fn encode(dtype: DType, values: &[f32], out: &mut [u8]) -> Result<(), QuantError> {
    match dtype {
        DType::Q4_0 => encode_blocks::<legacy::Q4_0, _>(dtype, values, out),
        DType::Q4_1 => encode_blocks::<legacy::Q4_1, _>(dtype, values, out),
        DType::Q5_0 => encode_blocks::<legacy::Q5_0, _>(dtype, values, out),
        DType::Q5_1 => encode_blocks::<legacy::Q5_1, _>(dtype, values, out),
        DType::Q8_0 => encode_blocks::<legacy::Q8_0, _>(dtype, values, out),
        DType::Q2K => encode_blocks::<k::Q2K, _>(dtype, values, out),
        DType::Q3K => encode_blocks::<k::Q3K, _>(dtype, values, out),
        DType::Q4K => encode_blocks::<k::Q4K, _>(dtype, values, out),
        DType::Q5K => encode_blocks::<k::Q5K, _>(dtype, values, out),
        DType::Q6K => encode_blocks::<k::Q6K, _>(dtype, values, out),
        DType::Iq4Nl => encode_row::<iq::Iq4Nl, _>(dtype, values, None, out),
        DType::Iq4Xs => encode_blocks::<iq::Iq4Xs, _>(dtype, values, out),
        DType::AprQ4 | DType::AprQ8 => apr::encode(dtype, values, out),
        _ => Err(QuantError::NoEncoder { dtype }),
    }
}

/// Encodes finite values into whole blocks of `dtype` like ggml's C where the compiler contracts `a * b + c`
/// to one operation that rounds once: GCC with `-O3 -mavx2 -mfma`, as llama.cpp is built for x86-64. A few
/// percent of the blocks differ from those of [`encode`].
///
/// # Errors
///
/// [`QuantError::NoEncoder`] if [`can_encode_contracted`] returns false; otherwise the errors of [`encode`].
pub fn encode_contracted(dtype: DType, values: &[f32], out: &mut [u8]) -> Result<(), QuantError> {
    match dtype {
        DType::Q2K => each_block(dtype, values, out, k::Q2K::contracted),
        DType::Q4K => each_block(dtype, values, out, k::Q4K::contracted),
        DType::Q5K => each_block(dtype, values, out, k::Q5K::contracted),
        DType::Q6K => each_block(dtype, values, out, k::Q6K::contracted),
        _ => Err(QuantError::NoEncoder { dtype }),
    }
}

/// Checks whether [`encode_contracted`] supports this type. Blocks of the other types hardly ever differ, or
/// it is not known how.
#[must_use]
pub const fn can_encode_contracted(dtype: DType) -> bool {
    matches!(dtype, DType::Q2K | DType::Q4K | DType::Q5K | DType::Q6K)
}

/// Encodes finite values into whole blocks of `dtype`, like [`encode`], weighted by the importance of each
/// column.
///
/// `values` are whole rows. `importance` has a number for each column, not below 0: the mean square of the
/// activations that the column is multiplied by, as in an importance matrix. The blocks equal those of ggml's
/// `ggml_quantize_chunk`, bit for bit. [`DType::Q8_0`] ignores importance.
///
/// # Errors
///
/// [`QuantError::NoEncoder`] if [`can_encode_weighted`] returns false, [`QuantError::Length`] if `values` are
/// not whole rows, rows are not whole blocks or `out` is not exactly as long as those,
/// [`QuantError::Importance`] for an importance that is not from 0 to 10^18, and the other errors of
/// [`encode`]. After an error, the content of `out` is unspecified.
pub fn encode_weighted(
    dtype: DType,
    values: &[f32],
    importance: &[f32],
    out: &mut [u8],
) -> Result<(), QuantError> {
    // With larger numbers, sums would exceed the range of `f32`.
    let is_sound = |number: &f32| (0.0..=1e18).contains(number);
    if let Some(column) = importance.iter().position(|number| !is_sound(number)) {
        return Err(QuantError::Importance { column });
    }
    let length = QuantError::Length { dtype, elements: values.len(), nbytes: out.len() };
    let columns = importance.len();
    if columns == 0 || !values.len().is_multiple_of(columns) {
        return if values.is_empty() && out.is_empty() { Ok(()) } else { Err(length) };
    }
    let rows = values.len() / columns;
    let Some(row) =
        out.len().checked_div(rows).filter(|row| row.checked_mul(rows) == Some(out.len()) && *row > 0)
    else {
        return if values.is_empty() && out.is_empty() { Ok(()) } else { Err(length) };
    };
    for (number, (values, out)) in values.chunks_exact(columns).zip(out.chunks_exact_mut(row)).enumerate() {
        encode_one_row(dtype, values, importance, out).map_err(|error| error.after(number * columns))?;
    }
    Ok(())
}

fn encode_one_row(
    dtype: DType,
    values: &[f32],
    importance: &[f32],
    out: &mut [u8],
) -> Result<(), QuantError> {
    let importance = Some(importance);
    match dtype {
        DType::Q4_0 => encode_row::<legacy::Q4_0, _>(dtype, values, importance, out),
        DType::Q4_1 => encode_row::<legacy::Q4_1, _>(dtype, values, importance, out),
        DType::Q5_0 => encode_row::<legacy::Q5_0, _>(dtype, values, importance, out),
        DType::Q5_1 => encode_row::<legacy::Q5_1, _>(dtype, values, importance, out),
        DType::Q8_0 => encode(dtype, values, out),
        DType::Q2K => encode_row::<k::Q2K, _>(dtype, values, importance, out),
        DType::Q3K => encode_row::<k::Q3K, _>(dtype, values, importance, out),
        DType::Q4K => encode_row::<k::Q4K, _>(dtype, values, importance, out),
        DType::Q5K => encode_row::<k::Q5K, _>(dtype, values, importance, out),
        DType::Q6K => encode_row::<k::Q6K, _>(dtype, values, importance, out),
        DType::Iq4Nl => encode_row::<iq::Iq4Nl, _>(dtype, values, importance, out),
        DType::Iq4Xs => encode_row::<iq::Iq4Xs, _>(dtype, values, importance, out),
        _ => Err(QuantError::NoEncoder { dtype }),
    }
}

/// Checks whether [`encode_weighted`] supports this type.
#[must_use]
pub const fn can_encode_weighted(dtype: DType) -> bool {
    can_encode(dtype) && !apr::is_apr(dtype)
}

/// Checks whether [`decode`] supports this type.
#[must_use]
pub const fn can_decode(dtype: DType) -> bool {
    dtype.is_quantized()
}

/// Checks whether [`encode`] supports this type.
#[must_use]
pub const fn can_encode(dtype: DType) -> bool {
    use DType::{Iq4Nl, Iq4Xs, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0};
    matches!(dtype, Q4_0 | Q4_1 | Q5_0 | Q5_1 | Q8_0 | Q2K | Q3K | Q4K | Q5K | Q6K | Iq4Nl | Iq4Xs)
        || apr::is_apr(dtype)
}

/// An error that occurs when blocks are decoded or values are encoded.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuantError {
    /// There is no decoder for this type.
    #[error("no decoder for {dtype}, which is no type of blocks")]
    NoDecoder {
        /// The requested type.
        dtype: DType,
    },
    /// There is no encoder for this type.
    #[error("no encoder for {dtype}; there are encoders for {}", Known(can_encode))]
    NoEncoder {
        /// The requested type.
        dtype: DType,
    },
    /// The elements of the tensor are neither blocks nor numbers.
    #[error(transparent)]
    View(#[from] TensorError),
    /// The lengths of bytes and elements do not belong to the same number of whole blocks.
    #[error("{elements} elements do not take {nbytes} bytes of {dtype}{}", Sizes(*dtype))]
    Length {
        /// The type of the blocks.
        dtype: DType,
        /// The number of values.
        elements: usize,
        /// The length of the blocks in bytes.
        nbytes: usize,
    },
    /// A value to encode is a NaN or an infinity.
    #[error("element {element} is not finite, and blocks of quantized values cannot say so")]
    NotFinite {
        /// The index of the value.
        element: usize,
    },
    /// The values of a block are too large or too far apart: its scale or minimum is beyond what `f16` can hold.
    #[error("the block at element {element} needs a scale or minimum beyond 65504, the largest f16")]
    ScaleOverflow {
        /// The index of the block's first element among the values.
        element: usize,
    },
    /// The importance of a column is not a number from 0 to 10^18.
    #[error("the importance of column {column} is not from 0 to 1e18")]
    Importance {
        /// The index of the column.
        column: usize,
    },
}

impl QuantError {
    /// Shifts the error's indices by this many elements.
    fn after(self, elements: usize) -> Self {
        match self {
            Self::NotFinite { element } => Self::NotFinite { element: elements.saturating_add(element) },
            Self::ScaleOverflow { element } => {
                Self::ScaleOverflow { element: elements.saturating_add(element) }
            }
            other => other,
        }
    }
}

tensor_core::debug_as_sentence!(QuantError);

/// Reads a scale in f16.
#[inline]
fn wide(bytes: [u8; 2]) -> f32 {
    f16::from_le_bytes(bytes).to_f32()
}

/// Rounds a scale to `f16`, ties to even.
#[inline]
fn narrow(scale: f32) -> Result<[u8; 2], BlockError> {
    let scale = f16::from_f32(scale);
    if scale.is_finite() { Ok(scale.to_le_bytes()) } else { Err(BlockError::ScaleOverflow) }
}

/// Refuses values that are not finite, which no block can hold.
#[inline]
fn check_finite(values: &[f32]) -> Result<(), BlockError> {
    if values.iter().fold(true, |finite, value| finite & value.is_finite()) {
        return Ok(());
    }
    Err(BlockError::NotFinite(values.iter().position(|value| !value.is_finite()).unwrap_or(0)))
}

/// Returns an entry of a table that has one for every index: the index is masked to the table's length.
#[inline]
fn pick<T, const N: usize>(table: &[T; N], index: usize) -> &T {
    const { assert!(N.is_power_of_two(), "every index that is masked is in the table") };
    #[expect(clippy::indexing_slicing, reason = "the mask is below N, a power of two")]
    &table[index & (N - 1)]
}

/// Writes `d * level` for the nibbles of some bytes: first the low nibbles, then the high ones.
#[inline]
fn by_nibble(d: f32, levels: &[f32; 16], qs: &[u8], out: &mut [f32]) {
    let (low, high) = out.split_at_mut(qs.len());
    for ((low, high), &q) in low.iter_mut().zip(high).zip(qs) {
        *low = d * pick(levels, (q & 0xf).into());
        *high = d * pick(levels, (q >> 4).into());
    }
}

/// A block of `N` elements, as it is laid out in memory.
trait Decode<const N: usize>: AnyBitPattern {
    fn decode(&self, out: &mut [f32; N]);
}

/// A block that can be encoded from `N` elements.
trait Encode<const N: usize>: AnyBitPattern + NoUninit {
    fn encode(&mut self, values: &[f32; N]) -> Result<(), BlockError>;
}

/// Blocks that can be encoded from a row whose elements differ in importance.
trait EncodeWeighted<const N: usize>: AnyBitPattern + NoUninit {
    /// Encodes a row. `importance` has an entry for each block, or is empty, which makes all elements equally
    /// important.
    fn encode_row(
        out: &mut [Self],
        values: &[[f32; N]],
        importance: &[[f32; N]],
    ) -> Result<(), (usize, BlockError)>;
}

/// Encodes a row block by block.
fn each_weighted<B, const N: usize>(
    out: &mut [B],
    values: &[[f32; N]],
    importance: &[[f32; N]],
    encode: impl Fn(&mut B, &[f32; N], &[f32; N]) -> Result<(), BlockError>,
) -> Result<(), (usize, BlockError)> {
    for (index, (out, (values, importance))) in out.iter_mut().zip(values.iter().zip(importance)).enumerate()
    {
        encode(out, values, importance).map_err(|error| (index, error))?;
    }
    Ok(())
}

/// The reason why a block cannot be encoded.
#[derive(Clone, Copy, Debug)]
enum BlockError {
    /// The index within the block.
    NotFinite(usize),
    ScaleOverflow,
}

impl BlockError {
    /// Returns the error for a block whose first element has this index.
    fn at(self, first: usize) -> QuantError {
        match self {
            Self::NotFinite(within) => QuantError::NotFinite { element: first + within },
            Self::ScaleOverflow => QuantError::ScaleOverflow { element: first },
        }
    }
}

fn decode_blocks<B: Decode<N>, const N: usize>(
    dtype: DType,
    blocks: &[u8],
    out: &mut [f32],
) -> Result<(), QuantError> {
    let mismatch = QuantError::Length { dtype, elements: out.len(), nbytes: blocks.len() };
    // Block types have alignment 1, so only the length can be wrong.
    let Ok(blocks) = bytemuck::try_cast_slice::<u8, B>(blocks) else { return Err(mismatch) };
    let (out, rest) = out.as_chunks_mut::<N>();
    if !rest.is_empty() || out.len() != blocks.len() {
        return Err(mismatch);
    }
    for (block, out) in blocks.iter().zip(out) {
        block.decode(out);
    }
    Ok(())
}

fn encode_blocks<B: Encode<N>, const N: usize>(
    dtype: DType,
    values: &[f32],
    out: &mut [u8],
) -> Result<(), QuantError> {
    each_block(dtype, values, out, B::encode)
}

fn each_block<B: AnyBitPattern + NoUninit, const N: usize>(
    dtype: DType,
    values: &[f32],
    out: &mut [u8],
    encode: impl Fn(&mut B, &[f32; N]) -> Result<(), BlockError>,
) -> Result<(), QuantError> {
    let mismatch = QuantError::Length { dtype, elements: values.len(), nbytes: out.len() };
    let Ok(out) = bytemuck::try_cast_slice_mut::<u8, B>(out) else { return Err(mismatch) };
    let (values, rest) = values.as_chunks::<N>();
    if !rest.is_empty() || out.len() != values.len() {
        return Err(mismatch);
    }
    for (index, (values, out)) in values.iter().zip(out).enumerate() {
        encode(out, values).map_err(|error| error.at(index * N))?;
    }
    Ok(())
}

fn encode_row<B: EncodeWeighted<N>, const N: usize>(
    dtype: DType,
    values: &[f32],
    importance: Option<&[f32]>,
    out: &mut [u8],
) -> Result<(), QuantError> {
    let mismatch = QuantError::Length { dtype, elements: values.len(), nbytes: out.len() };
    let Ok(out) = bytemuck::try_cast_slice_mut::<u8, B>(out) else { return Err(mismatch) };
    let (values, rest) = values.as_chunks::<N>();
    let (importance, _) = importance.unwrap_or_default().as_chunks::<N>();
    if !rest.is_empty() || out.len() != values.len() {
        return Err(mismatch);
    }
    B::encode_row(out, values, importance).map_err(|(index, error)| error.at(index * N))
}

/// Prints the types that a predicate allows.
struct Known(fn(DType) -> bool);

impl std::fmt::Display for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (n, dtype) in DType::ALL.iter().filter(|&&dtype| (self.0)(dtype)).enumerate() {
            write!(f, "{}{dtype}", if n == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// Prints the block size of a type.
struct Sizes(DType);

impl std::fmt::Display for Sizes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.block() {
            Some(Block { elements, nbytes }) => {
                write!(f, ", whose blocks hold {elements} elements in {nbytes} bytes")
            }
            None => Ok(()),
        }
    }
}
