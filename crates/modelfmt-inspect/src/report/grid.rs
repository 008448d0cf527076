//! The mean magnitude of the values in each block of a matrix, for a small number of blocks.

/// A tensor as a matrix: its first dimension, and all other dimensions together. A vector is one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    rows: u64,
    columns: u64,
    /// The numbers of blocks, vertically and horizontally.
    pub(super) down: u64,
    pub(super) across: u64,
}

impl Shape {
    /// Returns the matrix for a tensor of this shape, with at most `side` blocks in each direction.
    pub(super) fn of(shape: &[u64], side: usize) -> Self {
        let mut long = shape.iter().copied().filter(|&len| len != 1);
        let first = long.next().unwrap_or(1);
        let (rows, columns) = match long.next() {
            Some(second) => (first, long.fold(second, u64::saturating_mul)),
            None => (1, first),
        };
        let side = side as u64;
        Self { rows, columns, down: rows.min(side), across: columns.min(side) }
    }

    /// Returns the block of a row.
    fn band(&self, row: u64) -> u64 {
        share(row, self.down, self.rows)
    }

    /// Returns the first row of a block.
    fn begin(&self, band: u64) -> u64 {
        u64::try_from((u128::from(band) * u128::from(self.rows)).div_ceil(u128::from(self.down.max(1))))
            .unwrap_or(u64::MAX)
    }
}

/// Returns `at * parts / whole`.
fn share(at: u64, parts: u64, whole: u64) -> u64 {
    u64::try_from(u128::from(at) * u128::from(parts) / u128::from(whole.max(1))).unwrap_or(u64::MAX)
}

/// For each block that a piece of a tensor touches, the sum of the magnitudes and the number of values.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    pub(super) shape: Shape,
    /// The first row of blocks.
    top: u64,
    cells: Vec<(f64, u64)>,
}

impl Grid {
    /// Returns an empty grid for `count` elements, beginning at `first`.
    pub(super) fn new(shape: Shape, first: u64, count: u64) -> Self {
        let columns = shape.columns.max(1);
        let top = shape.band(first / columns);
        let last = shape.band(first.saturating_add(count.saturating_sub(1)) / columns);
        let bands = last.saturating_sub(top).saturating_add(1).min(shape.down);
        let cells = usize::try_from(bands.saturating_mul(shape.across)).unwrap_or(0);
        Self { shape, top, cells: vec![(0.0, 0); cells] }
    }

    /// Adds values, beginning at the element `first`.
    pub(super) fn add(&mut self, first: u64, values: &[f64]) {
        let Self { shape, top, cells } = self;
        let (mut row, mut column) = (first / shape.columns.max(1), first % shape.columns.max(1));
        let ends: Vec<u64> = {
            let turned = Shape { rows: shape.columns, down: shape.across, ..*shape };
            (1..=shape.across).map(|block| turned.begin(block)).collect()
        };
        let mut rest = values;
        while !rest.is_empty() {
            // The rows in one row of blocks.
            let band = shape.band(row);
            let next = shape.begin(band.saturating_add(1));
            let at =
                usize::try_from(band.saturating_sub(*top).saturating_mul(shape.across)).unwrap_or(usize::MAX);
            let cells = cells.get_mut(at..).unwrap_or_default();
            if cells.is_empty() {
                return;
            }
            while row < next && !rest.is_empty() {
                let from = ends.partition_point(|&end| end <= column);
                for (cell, &end) in cells.iter_mut().zip(&ends).skip(from) {
                    let len = usize::try_from(end.saturating_sub(column)).unwrap_or(usize::MAX);
                    let (block, others) = rest.split_at_checked(len).unwrap_or((rest, &[]));
                    add(cell, block);
                    column = column.saturating_add(block.len() as u64);
                    rest = others;
                    if rest.is_empty() {
                        break;
                    }
                }
                if column >= shape.columns {
                    (row, column) = (row.saturating_add(1), 0);
                }
            }
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        let at = other.top.saturating_sub(self.top).saturating_mul(self.shape.across);
        let cells = self.cells.get_mut(usize::try_from(at).unwrap_or(usize::MAX)..).unwrap_or_default();
        for (cell, more) in cells.iter_mut().zip(&other.cells) {
            *cell = (cell.0 + more.0, cell.1.saturating_add(more.1));
        }
    }

    /// Returns the means, row by row; `None` where no value is finite.
    #[expect(clippy::cast_precision_loss, reason = "a few levels are shown")]
    pub(super) fn means(&self) -> Vec<Option<f64>> {
        self.cells.iter().map(|&(sum, count)| (count > 0).then(|| sum / count as f64)).collect()
    }
}

/// Returns the sum of `of(value)` over all values, in a fixed order that allows vector instructions.
pub(super) fn sum(values: &[f64], of: impl Fn(f64) -> f64) -> f64 {
    const LANES: usize = 8;
    let (rows, rest) = values.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for row in rows {
        lanes.iter_mut().zip(row).for_each(|(lane, &value)| *lane += of(value));
    }
    rest.iter().fold(lanes.iter().sum(), |sum: f64, &value| sum + of(value))
}

/// Adds the finite values to a block.
fn add(cell: &mut (f64, u64), values: &[f64]) {
    let sum = sum(values, f64::abs);
    if sum.is_finite() {
        *cell = (cell.0 + sum, cell.1.saturating_add(values.len() as u64));
        return;
    }
    for value in values.iter().filter(|value| value.is_finite()) {
        *cell = (cell.0 + value.abs(), cell.1.saturating_add(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes the means element by element, from the definition.
    fn naive(shape: Shape, values: &[f64]) -> Vec<Option<f64>> {
        let mut cells = vec![(0.0, 0_u64); usize::try_from(shape.down * shape.across).unwrap()];
        for (at, value) in values.iter().enumerate() {
            let (row, column) = (at as u64 / shape.columns, at as u64 % shape.columns);
            let block = row * shape.down / shape.rows * shape.across + column * shape.across / shape.columns;
            let cell = &mut cells[usize::try_from(block).unwrap()];
            if value.is_finite() {
                *cell = (cell.0 + value.abs(), cell.1 + 1);
            }
        }
        cells.iter().map(|&(sum, count)| (count > 0).then(|| sum / count as f64)).collect()
    }

    #[test]
    fn blocks_are_those_of_the_definition() {
        for dims in [&[7, 5][..], &[100, 3], &[3, 100], &[64, 64], &[33, 1], &[2, 3, 5, 7], &[], &[1, 1000]] {
            for side in [1, 4, 32] {
                let shape = Shape::of(dims, side);
                let count = dims.iter().product::<u64>();
                let mut values: Vec<f64> = (0..count).map(|n| (n % 13) as f64 - 6.0).collect();
                values[0] = f64::NAN;
                let mut whole = Grid::new(shape, 0, count);
                for (number, piece) in values.chunks(17).enumerate() {
                    let first = number as u64 * 17;
                    let mut grid = Grid::new(shape, first, piece.len() as u64);
                    let half = piece.len() / 2;
                    grid.add(first, &piece[..half]);
                    grid.add(first + half as u64, &piece[half..]);
                    whole.merge(&grid);
                }
                assert_eq!(whole.means(), naive(shape, &values), "{dims:?} {side}");
            }
        }
    }
}
