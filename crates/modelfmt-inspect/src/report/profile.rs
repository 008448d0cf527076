//! What a report shows about a tensor's values: their distribution, and their magnitudes across the tensor.
//! It is computed in the pass of [`check`](crate::check), piece by piece; the pieces are joined in order.

use modelfmt_core::{AnyError, TensorInfo};
use modelfmt_model::error::Result;
use modelfmt_model::values::{is_numeric, numbers_of};

use super::bins::Bins;
use super::grid::{Grid, Shape, sum};
use crate::check::Piece;

/// The number of bytes that are decoded at once: a multiple of every block size, and small enough that the
/// numbers stay in the cache.
const AT_ONCE: usize = 1 << 15;

/// Statistics of the values of a tensor, or of a piece of a tensor.
#[derive(Clone, Debug)]
pub(super) struct Profile {
    /// The number of finite values.
    pub(super) count: u64,
    pub(super) min: f64,
    pub(super) max: f64,
    sum: f64,
    /// The sum of the squares.
    pub(super) squares: f64,
    pub(super) bins: Bins,
    pub(super) grid: Grid,
}

impl Profile {
    fn new(grid: Grid) -> Self {
        let (min, max) = (f64::INFINITY, f64::NEG_INFINITY);
        Self { count: 0, min, max, sum: 0.0, squares: 0.0, bins: Bins::default(), grid }
    }

    /// Returns the profile of a piece; `None` if its values are not numbers.
    pub(super) fn of(piece: &Piece<'_>, side: usize) -> Result<Option<Self>> {
        let info = piece.model.info(piece.position)?;
        if !is_numeric(info.dtype) || !piece.is_numeric {
            return Ok(None);
        }
        let shape = Shape::of(info.shape, side);
        let mut profile = Self::new(Grid::new(shape, piece.first, piece.count));
        let mut at = piece.first;
        let unit =
            piece.dtype.block().map_or((1, 1), |block| (u64::from(block.elements), block.nbytes as usize));
        let len = AT_ONCE / unit.1 * unit.1;
        let mut left = piece.count;
        for bytes in piece.bytes.chunks(len) {
            let numbers = numbers_of(piece.dtype, bytes, left).map_err(|error| {
                let source = std::io::Error::new(std::io::ErrorKind::InvalidData, error);
                piece.model.failed(AnyError::Io { at, len: bytes.len() as u64, source })
            })?;
            profile.add(at, &numbers);
            at = at.saturating_add(numbers.len() as u64);
            left = left.saturating_sub(numbers.len() as u64);
        }
        Ok(Some(profile))
    }

    fn add(&mut self, first: u64, numbers: &[f64]) {
        let (mut is_finite, mut min, mut max) = (true, f64::INFINITY, f64::NEG_INFINITY);
        for &number in numbers {
            is_finite &= number.is_finite();
            min = if number < min { number } else { min };
            max = if number > max { number } else { max };
        }
        let finite: Vec<f64>;
        let counted = match is_finite {
            true => numbers,
            false => {
                finite = numbers.iter().copied().filter(|number| number.is_finite()).collect();
                min = finite.iter().copied().fold(f64::INFINITY, f64::min);
                max = finite.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                &finite
            }
        };
        let (sum, squares) = (sum(counted, |number| number), sum(counted, |number| number * number));
        self.count = self.count.saturating_add(counted.len() as u64);
        (self.min, self.max) = (self.min.min(min), self.max.max(max));
        (self.sum, self.squares) = (self.sum + sum, self.squares + squares);
        self.bins.add(counted, min.abs().max(max.abs()));
        self.grid.add(first, numbers);
    }

    /// Adds the next piece.
    pub(super) fn then(&mut self, next: &Self) {
        self.count = self.count.saturating_add(next.count);
        (self.min, self.max) = (self.min.min(next.min), self.max.max(next.max));
        (self.sum, self.squares) = (self.sum + next.sum, self.squares + next.squares);
        self.bins.merge(&next.bins);
        self.grid.merge(&next.grid);
    }

    /// Returns an empty profile of a whole tensor.
    pub(super) fn whole(info: &TensorInfo<'_>, side: usize) -> Self {
        Self::new(Grid::new(Shape::of(info.shape, side), 0, info.elements()))
    }

    /// Returns the mean and the population standard deviation.
    #[expect(clippy::cast_precision_loss, reason = "a few digits are shown")]
    pub(super) fn moments(&self) -> (f64, f64) {
        let count = self.count as f64;
        let mean = self.sum / count;
        (mean, mean.mul_add(-mean, self.squares / count).max(0.0).sqrt())
    }
}
