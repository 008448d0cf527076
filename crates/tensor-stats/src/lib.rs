//! Computes exact statistics of a tensor's values in bounded memory: the tensor may be larger than memory.
//!
//! The values are read in pieces, two to four times. Types of 8 and 16 bits are counted value by value in one
//! pass. Wider types need one pass for their range, their sum and a first narrowing of the median, and a
//! second pass for deviations, histogram and median. 64-bit types sometimes need a third or fourth pass for
//! the median alone, and integers beyond 2^53 need two more. A thread takes about 2 MiB of memory and at most
//! 4 MiB, whatever the size of the tensor.
//!
//! The results are those that numpy computes from the values as `float64`. Sums of the wider types are added
//! in numpy's pairwise order, so that mean and standard deviation agree with numpy in every bit, whatever the
//! number of threads. Integers beyond 2^53, which `float64` would round, are added exactly instead.
//!
//! ```
//! use tensor_stats::{DType, Histogram, stats_of_bytes};
//!
//! let stats = stats_of_bytes(DType::U8, &[3, 1, 1, 5])?;
//! assert_eq!((stats.min, stats.max, stats.mean, stats.median), (1.0, 5.0, 2.5, 2.0));
//! assert_eq!(stats.histogram, Histogram::Values(vec![(1, 2), (2, 0), (3, 1), (4, 0), (5, 1)]));
//! # Ok::<(), tensor_stats::Error>(())
//! ```
//!
//! [`scan()`] finds obvious faults in one pass over values in memory: NaN, infinities, values that are all
//! zero or all the same. [`Magnitudes`] find a value far beyond the others.
//!
//! # Features
//!
//! - `parallel` (default): [`stats_parallel`] and [`stats_of_bytes_parallel`].
#![cfg_attr(docsrs, feature(doc_cfg))]

mod bins;
mod element;
mod exec;
mod focus;
mod gather;
mod logs;
mod magnitudes;
mod narrow;
mod scan;
mod small;
mod sum;
mod wide;

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::fmt;
#[cfg(feature = "parallel")]
use std::sync::Mutex;

pub use tensor_core::DType;
use tensor_core::SmallType;

use element::Element;
use exec::{Exec, PassError, Shared};

pub use magnitudes::{Magnitudes, Outlier, Powers};
pub use scan::{Scan, scan};

/// The README's example, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The number of bins in a histogram of floating-point values, or of integers with a large span.
pub const BINS: usize = 10;

/// Integers are counted value by value if max − min is not larger than this.
pub const MAX_VALUE_SPAN: u32 = 20;

/// Statistics of a tensor's values. NaN and infinities are only counted, in `non_finite`; everything else
/// ignores them.
///
/// If no value is finite, `count` is 0, the numbers are NaN and the histogram is [`Histogram::Empty`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// The number of finite values.
    pub count: u64,
    /// The smallest value; −0 is smaller than +0.
    pub min: f64,
    /// The largest value; +0 is larger than −0.
    pub max: f64,
    /// The smallest and the largest value of an integer tensor, because `f64` is not exact beyond 2^53.
    pub exact: Option<(i128, i128)>,
    /// The arithmetic mean.
    pub mean: f64,
    /// The middle value. If the number of values is even, the mean of the two in the middle.
    pub median: f64,
    /// The standard deviation of the population.
    pub std: f64,
    /// The values that are not finite.
    pub non_finite: NonFinite,
    /// How the values are distributed.
    pub histogram: Histogram,
}

impl Stats {
    fn empty(non_finite: NonFinite) -> Self {
        let nan = f64::NAN;
        Self {
            count: 0,
            min: nan,
            max: nan,
            exact: None,
            mean: nan,
            median: nan,
            std: nan,
            non_finite,
            histogram: Histogram::Empty,
        }
    }
}

/// The number of values that are not finite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NonFinite {
    /// NaN, of any sign and payload.
    pub nan: u64,
    /// Positive infinities.
    pub pos_inf: u64,
    /// Negative infinities.
    pub neg_inf: u64,
}

impl NonFinite {
    /// Returns the number of all of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.nan.saturating_add(self.pos_inf).saturating_add(self.neg_inf)
    }

    fn add(&mut self, more: Self) {
        self.nan += more.nan;
        self.pos_inf += more.pos_inf;
        self.neg_inf += more.neg_inf;
    }

    fn count<T: Element>(&mut self, values: &[T]) {
        if !T::FLOAT || values.iter().fold(true, |all, value| all & value.is_finite()) {
            return;
        }
        for value in values.iter().filter(|value| !value.is_finite()) {
            let counter = match value.to_f64() {
                number if number.is_nan() => &mut self.nan,
                number if number > 0.0 => &mut self.pos_inf,
                _ => &mut self.neg_inf,
            };
            *counter += 1;
        }
    }
}

/// How the values are distributed between the smallest and the largest.
#[derive(Clone, Debug, PartialEq)]
pub enum Histogram {
    /// Ten bins of equal width. Bin *i* counts the values from `edges[i]` (included) to `edges[i + 1]` (not
    /// included); the last bin includes its end. The edges are numpy's, rounding included.
    Bins {
        /// The edges from min to max, ascending.
        edges: [f64; BINS + 1],
        /// The number of values in each bin.
        counts: [u64; BINS],
    },
    /// Floating-point values that are all the same.
    Constant {
        /// The value.
        value: f64,
        /// How often it occurs.
        count: u64,
    },
    /// Integers with max − min ≤ [`MAX_VALUE_SPAN`]: each value from min to max with how often it occurs,
    /// even if that is never. A constant has one entry.
    Values(Vec<(i128, u64)>),
    /// Booleans; any byte but 0 is true.
    Bools {
        /// The number of false values.
        zeros: u64,
        /// The number of true values.
        ones: u64,
    },
    /// There is no finite value.
    Empty,
}

/// Why there are no statistics.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error<E = Infallible> {
    /// Statistics are not defined for this type, because its values are not numbers that can be read one by
    /// one.
    #[error("there are no statistics of {0} values")]
    Unsupported(DType),
    /// The bytes are not a whole number of elements.
    #[error("{len} bytes are not a whole number of {dtype} values")]
    Ragged {
        /// The type of the values.
        dtype: DType,
        /// The number of bytes.
        len: usize,
    },
    /// The caller's reader failed.
    #[error("cannot read the values")]
    Read(#[source] E),
    /// The values were different when they were read again.
    #[error("the values changed while their statistics were computed")]
    Changed,
}

/// Prints the text of `Display` and the cause, because Rust prints an error that `main` returns with `Debug`.
/// The cause may be of a type that does not implement `Error`.
impl<E: fmt::Debug> fmt::Debug for Error<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(cause) => write!(f, "{self}: {cause:?}"),
            _ => write!(f, "{self}"),
        }
    }
}

/// Computes statistics of `count` values that `read` supplies by range.
///
/// `read(first, buffer)` fills the buffer with the little-endian bytes of the elements from `first` on. Small
/// types are packed as they are in a file. `read` is called for all elements several times, in ascending
/// ranges of up to about half a MiB, and must give the same values each time. A range begins at a multiple of
/// 256 elements, ends at such a multiple or at `count`, and may overlap the range before it by fewer than 512
/// elements.
///
/// # Errors
///
/// [`Error::Unsupported`] for types other than booleans, integers and floats, [`Error::Read`] as soon as
/// `read` fails, [`Error::Changed`] if the values contradict values that were read before.
pub fn stats<E>(
    dtype: DType,
    count: u64,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
) -> Result<Stats, Error<E>> {
    let mut failure = None;
    let mut read = |first: u64, buffer: &mut [u8]| {
        read(first, buffer).map_err(|error| {
            failure = Some(error);
            PassError::Read
        })
    };
    let outcome = dispatch(dtype, count, &mut Exec::Alone(&mut read));
    outcome.map_err(|error| explain(error, dtype, failure))
}

/// Computes statistics of values in memory, little-endian and of any alignment. For elements narrower than a
/// byte, all elements that the bytes hold are counted.
///
/// # Errors
///
/// [`Error::Unsupported`] for types other than booleans, integers and floats, [`Error::Ragged`] if the bytes
/// end within an element.
pub fn stats_of_bytes(dtype: DType, bytes: &[u8]) -> Result<Stats, Error> {
    let count = count_of(dtype, bytes)?;
    let mut exec = Exec::Together(Shared::Memory(bytes), 1);
    dispatch(dtype, count, &mut exec).map_err(|error| explain(error, dtype, None))
}

/// Like [`stats`], on up to `threads` threads (at most 16), with the same result. Ranges are read in no fixed
/// order.
///
/// # Errors
///
/// Those of [`stats`]; if several reads fail, the error of the lowest range that was tried.
#[cfg(feature = "parallel")]
pub fn stats_parallel<E: Send>(
    dtype: DType,
    count: u64,
    threads: usize,
    read: impl Fn(u64, &mut [u8]) -> Result<(), E> + Sync,
) -> Result<Stats, Error<E>> {
    let failure = Mutex::new(None);
    let shared = |first: u64, buffer: &mut [u8]| {
        read(first, buffer).map_err(|error| {
            let mut failure = failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if failure.as_ref().is_none_or(|&(at, _)| first < at) {
                *failure = Some((first, error));
            }
            PassError::Read
        })
    };
    let outcome = dispatch(dtype, count, &mut Exec::Together(Shared::Read(&shared), threads));
    let failure = failure.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    outcome.map_err(|error| explain(error, dtype, failure.map(|(_, error)| error)))
}

/// Like [`stats_of_bytes`], on up to `threads` threads (at most 16), with the same result.
///
/// # Errors
///
/// The errors of [`stats_of_bytes`].
#[cfg(feature = "parallel")]
pub fn stats_of_bytes_parallel(dtype: DType, bytes: &[u8], threads: usize) -> Result<Stats, Error> {
    let count = count_of(dtype, bytes)?;
    let mut exec = Exec::Together(Shared::Memory(bytes), threads);
    dispatch(dtype, count, &mut exec).map_err(|error| explain(error, dtype, None))
}

fn dispatch(dtype: DType, count: u64, exec: &mut Exec<'_>) -> Result<Stats, PassError> {
    match dtype {
        DType::Bool => narrow::bools(exec, count),
        DType::I8 => narrow::numbers::<i8>(exec, count),
        DType::U8 => narrow::numbers::<u8>(exec, count),
        DType::I16 => narrow::numbers::<i16>(exec, count),
        DType::U16 => narrow::numbers::<u16>(exec, count),
        DType::F16 => narrow::numbers::<half::f16>(exec, count),
        DType::BF16 => narrow::numbers::<half::bf16>(exec, count),
        DType::I32 => wide::numbers::<i32>(exec, count),
        DType::U32 => wide::numbers::<u32>(exec, count),
        DType::I64 => wide::numbers::<i64>(exec, count),
        DType::U64 => wide::numbers::<u64>(exec, count),
        DType::F32 => wide::numbers::<f32>(exec, count),
        DType::F64 => wide::numbers::<f64>(exec, count),
        _ => small::numbers(dtype, exec, count),
    }
}

fn explain<E>(error: PassError, dtype: DType, failure: Option<E>) -> Error<E> {
    match (error, failure) {
        (PassError::Read, Some(error)) => Error::Read(error),
        (PassError::Unsupported, _) => Error::Unsupported(dtype),
        (PassError::Read | PassError::Changed, _) => Error::Changed,
    }
}

fn count_of(dtype: DType, bytes: &[u8]) -> Result<u64, Error> {
    let block = dtype.block().ok_or(Error::Unsupported(dtype))?;
    if let Some(small) = SmallType::from_dtype(dtype) {
        let whole = (bytes.len() as u64).is_multiple_of(block.nbytes.into());
        let count = bytes.len() as u64 * 8 / u64::from(small.bits());
        return if whole { Ok(count) } else { Err(Error::Ragged { dtype, len: bytes.len() }) };
    }
    let size = dtype.size().ok_or(Error::Unsupported(dtype))? as usize;
    match (bytes.len().checked_div(size), bytes.len().checked_rem(size)) {
        (Some(count), Some(0)) => Ok(count as u64),
        _ => Err(Error::Ragged { dtype, len: bytes.len() }),
    }
}

/// Returns 2 to the power of `exponent`; zero if that is below, and infinity if that is above the range of
/// `f64`. `powi` may differ by a bit from machine to machine.
const fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(match exponent {
        ..-1074 => 0,
        -1074..-1022 => 1 << (exponent + 1074),
        -1022..1024 => ((exponent + 1023) as u64) << 52,
        1024.. => return f64::INFINITY,
    })
}

/// Returns the mean of the two values in the middle as numpy computes it, even if their sum overflows.
fn middle(lower: f64, upper: f64) -> f64 {
    let sum = lower + upper;
    // Adding +0 turns -0 into +0, as numpy's mean does.
    (if sum.is_finite() { sum / 2.0 } else { lower / 2.0 + upper / 2.0 }) + 0.0
}
