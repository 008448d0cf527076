//! Slices: parts of a tensor, given by positions in each dimension.

use std::fmt;
use std::ops::{Range, RangeFrom, RangeFull, RangeTo};
use std::str::FromStr;

use tensor_core::{Block, DisplayShape, TensorInfo, element_count, implied_nbytes};

use super::runs::{Runs, Stride};
use crate::error::SliceError;

/// The positions taken of one dimension. Negative numbers count from the end. Ends beyond the dimension mean
/// its end, as in Python.
///
/// ```
/// use modelfmt_core::plan::Span;
///
/// let last_three: Span = (-3..).into();
/// let every_second = Span::from(..).step(2);
/// assert_eq!((last_three.to_string(), every_second.to_string()), ("-3:".to_owned(), "::2".to_owned()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Span {
    /// One position. The dimension is dropped from the result's shape.
    Index(i64),
    /// Every `step`-th position from `start` (or the first) up to but not including `end` (or to the last).
    Range {
        /// The first position.
        start: Option<i64>,
        /// The position after the last.
        end: Option<i64>,
        /// The distance from one position to the next: 1 or more.
        step: u64,
    },
}

impl Span {
    /// All positions.
    pub const ALL: Self = Self::Range { start: None, end: None, step: 1 };

    /// Takes only every `step`-th position of the range. An index does not change.
    #[must_use]
    pub const fn step(self, step: u64) -> Self {
        match self {
            Self::Range { start, end, .. } => Self::Range { start, end, step },
            one @ Self::Index(_) => one,
        }
    }

    /// Returns the first position, the number of positions and the step in a dimension of `size`.
    fn within(self, dim: usize, size: u64) -> Result<(u64, u64, u64), SliceError> {
        let clamped = |position: i64| match u64::try_from(position) {
            Ok(position) => position.min(size),
            Err(_) => size.saturating_sub(position.unsigned_abs()),
        };
        match self {
            Self::Index(index) => {
                let at = match u64::try_from(index) {
                    Ok(at) => Some(at).filter(|&at| at < size),
                    Err(_) => size.checked_sub(index.unsigned_abs()),
                };
                at.map(|at| (at, 1, 1)).ok_or(SliceError::Index { index, dim, size })
            }
            Self::Range { step: 0, .. } => Err(SliceError::Step { dim }),
            Self::Range { start, end, step } => {
                let (start, end) = (start.map_or(0, clamped), end.map_or(size, clamped));
                Ok((start, end.saturating_sub(start).div_ceil(step), step))
            }
        }
    }
}

impl From<i64> for Span {
    fn from(index: i64) -> Self {
        Self::Index(index)
    }
}

impl From<Range<i64>> for Span {
    fn from(range: Range<i64>) -> Self {
        Self::Range { start: Some(range.start), end: Some(range.end), step: 1 }
    }
}

impl From<RangeFrom<i64>> for Span {
    fn from(range: RangeFrom<i64>) -> Self {
        Self::Range { start: Some(range.start), end: None, step: 1 }
    }
}

impl From<RangeTo<i64>> for Span {
    fn from(range: RangeTo<i64>) -> Self {
        Self::Range { start: None, end: Some(range.end), step: 1 }
    }
}

impl From<RangeFull> for Span {
    fn from(_: RangeFull) -> Self {
        Self::ALL
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |position: Option<i64>| position.map_or_else(String::new, |position| position.to_string());
        match *self {
            Self::Index(index) => write!(f, "{index}"),
            Self::Range { start, end, step } => {
                write!(f, "{}:{}", text(start), text(end))?;
                if step == 1 { Ok(()) } else { write!(f, ":{step}") }
            }
        }
    }
}

/// A part of a tensor: a [`Span`] for each of the first dimensions, and all positions of the others. The text
/// form is that of Python: `0:4,:8`, `-1`, `::2,5`.
///
/// ```
/// use modelfmt_core::plan::{Slice, Span};
///
/// let slice: Slice = "0:4, ::2".parse()?;
/// assert_eq!(slice, Slice::new([Span::from(0..4), Span::from(..).step(2)]));
/// assert_eq!(slice.to_string(), "0:4,::2");
/// # Ok::<(), modelfmt_core::plan::SliceError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Slice {
    spans: Vec<Span>,
}

impl Slice {
    /// Creates a slice that takes these positions of the first dimensions.
    pub fn new(spans: impl IntoIterator<Item = Span>) -> Self {
        Self { spans: spans.into_iter().collect() }
    }

    /// Creates a slice that takes these rows, the positions of the first dimension.
    pub fn rows(rows: impl Into<Span>) -> Self {
        Self { spans: vec![rows.into()] }
    }

    /// Returns the spans, starting with the first dimension.
    #[must_use]
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Returns the bytes of a tensor's values that the slice takes, and the shape of the result.
    ///
    /// # Errors
    /// [`SliceError`] if the tensor has no such dimension or position, or the values there are not whole
    /// bytes.
    pub fn of(&self, tensor: &TensorInfo<'_>) -> Result<SliceLayout, SliceError> {
        let rank = tensor.shape.len();
        if self.spans.len() > rank {
            return Err(SliceError::Rank { given: self.spans.len(), rank });
        }
        let spans = self.spans.iter().copied().chain(std::iter::repeat(Span::ALL));
        let mut dims = Vec::with_capacity(rank);
        let mut shape = Vec::with_capacity(rank);
        for ((dim, &size), span) in tensor.shape.iter().enumerate().zip(spans) {
            let (first, count, step) = span.within(dim, size)?;
            dims.push(Dim { size, first, count, step });
            if !matches!(span, Span::Index(_)) {
                shape.push(count);
            }
        }
        let is_whole = dims.iter().all(|dim| dim.count == dim.size);
        let runs = match () {
            () if is_whole => Runs::contiguous(0..tensor.nbytes),
            () if dims.iter().any(|dim| dim.count == 0) => Runs::contiguous(0..0),
            () => bytes_of(tensor, &dims)?,
        };
        Ok(SliceLayout { shape, runs })
    }
}

/// The positions taken of one dimension.
struct Dim {
    size: u64,
    first: u64,
    count: u64,
    step: u64,
}

/// Returns the bytes of the values at these positions. The tensor must have elements, and at least one must
/// be taken.
fn bytes_of(tensor: &TensorInfo<'_>, dims: &[Dim]) -> Result<Runs, SliceError> {
    let dtype = tensor.dtype;
    let refused = || SliceError::Layout { dtype, shape: DisplayShape(tensor.shape).to_string() };
    let Block { elements, nbytes } = dtype.block().ok_or_else(refused)?;
    // If a format pads rows, the shape does not determine where the next row begins.
    if implied_nbytes(dtype, tensor.shape) != Ok(tensor.nbytes) {
        return Err(refused());
    }
    let total = element_count(tensor.shape).ok_or_else(refused)?;
    // Offsets count elements. No product exceeds `total`: each is the distance of two elements of the tensor.
    let (mut offset, mut inner, mut strides) = (0, 1, Vec::with_capacity(dims.len()));
    for dim in dims.iter().rev() {
        offset += dim.first * inner;
        if dim.count > 1 {
            strides.push(Stride { count: dim.count, bytes: dim.step * inner });
        }
        inner *= dim.size;
    }
    strides.reverse();
    let runs = Runs::new(offset, 1, strides).ok_or_else(refused)?;
    let elements = u64::from(elements);
    let is_tail = runs.as_range().is_some_and(|range| range.end == total);
    let cuts_block = !runs.offset().is_multiple_of(elements)
        || !(runs.len().is_multiple_of(elements) || is_tail)
        || runs.strides().iter().any(|stride| !stride.bytes.is_multiple_of(elements));
    if cuts_block {
        return Err(SliceError::PartialBlock { dtype, elements });
    }
    let bytes = |count: u64| count.div_ceil(elements) * u64::from(nbytes);
    let strides = runs.strides().iter().map(|stride| Stride { bytes: bytes(stride.bytes), ..*stride });
    Runs::new(bytes(runs.offset()), bytes(runs.len()), strides.collect::<Vec<_>>()).ok_or_else(refused)
}

/// The shape and the bytes that a [`Slice`] takes of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceLayout {
    /// The shape of the result.
    pub shape: Vec<u64>,
    /// The bytes, counted from the start of the tensor's values.
    pub runs: Runs,
}

impl FromStr for Slice {
    type Err = SliceError;

    fn from_str(text: &str) -> Result<Self, SliceError> {
        let wrong = || SliceError::Syntax(text.chars().take(64).collect());
        let number = |text: &str| match text.trim() {
            "" => Ok(None),
            text => text.parse::<i64>().map(Some).map_err(|_| wrong()),
        };
        let span = |(dim, text): (usize, &str)| {
            let mut parts = text.split(':');
            let (start, end, step) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
            let Some(end) = end else {
                return number(start)?.map(Span::Index).ok_or_else(wrong);
            };
            if parts.next().is_some() {
                return Err(wrong());
            }
            let step = match number(step.unwrap_or_default())? {
                None => 1,
                Some(step) => {
                    u64::try_from(step).ok().filter(|&step| step > 0).ok_or(SliceError::Step { dim })?
                }
            };
            Ok(Span::Range { start: number(start)?, end: number(end)?, step })
        };
        let spans: Result<_, SliceError> = text.split(',').enumerate().map(span).collect();
        Ok(Self { spans: spans? })
    }
}

impl fmt::Display for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, span) in self.spans.iter().enumerate() {
            write!(f, "{}{span}", if number == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}
