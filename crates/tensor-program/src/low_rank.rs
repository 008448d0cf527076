//! The product of a tall matrix and a wide one.

use crate::Program;

/// The most columns, and the most rows of the wide matrix, that are in memory at once.
const COLUMNS: u64 = 1 << 11;
const RANKS: u64 = 1 << 6;
/// The most numbers of the tall matrix in memory.
const AT_ONCE: u64 = 1 << 18;
/// The rows and columns whose sums are in registers.
const ROWS: usize = 4;
const LANES: usize = 8;

/// Fills a buffer with elements of a program, from an element on.
type Floats<'f, E> = &'f mut dyn FnMut(&Program, u64, &mut [f32]) -> Result<(), E>;

/// Fills `out` with elements of the product times a number, from the element `first` on. The shapes of the matrices are
/// `[rows, rank]` and `[rank, columns]`. Each product is rounded and added in the order of the rank, so that every way to cut the
/// work into pieces gives the same bits.
pub(crate) fn multiply<E>(
    (tall, wide): (&Program, &Program),
    number: f32,
    first: u64,
    out: &mut [f32],
    floats: Floats<'_, E>,
) -> Result<(), E> {
    out.fill(0.0);
    let (Some(&rank), Some(&columns)) = (tall.shape().last(), wide.shape().last()) else { return Ok(()) };
    if rank == 0 || columns == 0 {
        return Ok(());
    }
    let most = (AT_ONCE / rank).max(1);
    let (mut at, mut rest, mut factors) = (first, &mut *out, Vec::new());
    while !rest.is_empty() {
        let (row, column) = (at / columns, at % columns);
        let there = rest.len() as u64;
        // A part of one row, or whole rows.
        let width = columns.saturating_sub(column).min(there);
        let rows = if width == columns { (there / columns).min(most) } else { 1 };
        let (piece, tail) = rest.split_at_mut(size(rows.saturating_mul(width)));
        factors.resize(size(rows.saturating_mul(rank)), 0.0);
        floats(tall, row.saturating_mul(rank), &mut factors)?;
        let factors = Factors { all: &factors, rank };
        factors.multiply(wide, column, width, piece, floats)?;
        (at, rest) = (at.saturating_add(rows.saturating_mul(width)), tail);
    }
    out.iter_mut().for_each(|sum| *sum *= number);
    Ok(())
}

/// Rows of the tall matrix.
struct Factors<'f> {
    all: &'f [f32],
    rank: u64,
}

impl Factors<'_> {
    /// Adds products to rows of `width` elements, from a column on.
    fn multiply<E>(
        &self,
        wide: &Program,
        column: u64,
        width: u64,
        out: &mut [f32],
        floats: Floats<'_, E>,
    ) -> Result<(), E> {
        let columns = wide.shape().last().copied().unwrap_or(0);
        let (mut panels, mut row) = (Vec::new(), Vec::new());
        let mut begin = 0;
        while begin < width {
            let part = width.saturating_sub(begin).min(COLUMNS);
            let mut k = 0;
            while k < self.rank {
                let count = self.rank.saturating_sub(k).min(RANKS);
                let len = part.div_ceil(LANES as u64).saturating_mul(count);
                panels.clear();
                panels.resize(size(len), [0.0; LANES]);
                row.resize(size(part), 0.0);
                for number in 0..count {
                    let first = k.saturating_add(number).saturating_mul(columns);
                    floats(wide, first.saturating_add(column).saturating_add(begin), &mut row)?;
                    let places = panels.iter_mut().skip(size(number)).step_by(size(count));
                    for (place, numbers) in places.zip(row.chunks(LANES)) {
                        place.iter_mut().zip(numbers).for_each(|(place, number)| *place = *number);
                    }
                }
                self.add(&panels, (size(k), size(count)), (size(begin), size(part), size(width)), out);
                k = k.saturating_add(count);
            }
            begin = begin.saturating_add(part);
        }
        Ok(())
    }

    /// Adds the products of `count` factors of each row, from `k` on, to `part` elements of rows of `width`, from `begin` on.
    /// `panels` holds that many numbers of each of [`LANES`] columns, one group of columns after the other.
    fn add(
        &self,
        panels: &[[f32; LANES]],
        (k, count): (usize, usize),
        (begin, part, width): (usize, usize, usize),
        out: &mut [f32],
    ) {
        let rank = size(self.rank).max(1);
        let blocks = self.all.chunks(rank.saturating_mul(ROWS));
        let mut factors = Vec::new();
        for (all, out) in blocks.zip(out.chunks_mut(width.saturating_mul(ROWS).max(1))) {
            factors.clear();
            factors.resize(count, [0.0; ROWS]);
            for (number, row) in all.chunks(rank).enumerate() {
                let own = row.iter().skip(k);
                for (place, factor) in factors.iter_mut().zip(own) {
                    place.get_mut(number).into_iter().for_each(|place| *place = *factor);
                }
            }
            let places = (0..part).step_by(LANES);
            for (panel, place) in panels.chunks_exact(count.max(1)).zip(places) {
                let len = part.saturating_sub(place).min(LANES);
                let first = begin.saturating_add(place);
                let mut sums = [[0.0; LANES]; ROWS];
                for (sums, row) in sums.iter_mut().zip(out.chunks(width)) {
                    let row = row.get(first..first.saturating_add(len)).unwrap_or_default();
                    sums.iter_mut().zip(row).for_each(|(sum, number)| *sum = *number);
                }
                let sums = summed(sums, panel, &factors);
                for (sums, row) in sums.iter().zip(out.chunks_mut(width)) {
                    let row = row.get_mut(first..first.saturating_add(len)).unwrap_or_default();
                    row.iter_mut().zip(sums).for_each(|(place, sum)| *place = *sum);
                }
            }
        }
    }
}

/// Adds products to a block of sums.
#[inline]
fn summed(
    mut sums: [[f32; LANES]; ROWS],
    panel: &[[f32; LANES]],
    factors: &[[f32; ROWS]],
) -> [[f32; LANES]; ROWS] {
    for (numbers, factors) in panel.iter().zip(factors) {
        for (sums, factor) in sums.iter_mut().zip(factors) {
            sums.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += factor * number);
        }
    }
    sums
}

/// A length in memory; one that is longer saturates.
fn size(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}
