//! The product of a tall matrix and a wide one.

use multiversion::multiversion;

use crate::Program;
use crate::number::Number;

/// The most numbers of the wide matrix that are in the cache at once, and the fewest of its columns.
const BLOCK: u64 = 1 << 13;
const COLUMNS: u64 = 1 << 4;
/// The most rows of the wide matrix in memory.
const RANKS: u64 = 1 << 12;
/// The most numbers of the tall matrix in memory.
const AT_ONCE: u64 = 1 << 18;

/// Fills a buffer with elements of a program, from an element on.
type Floats<'f, E> = &'f mut dyn FnMut(&Program, u64, &mut [f32]) -> Result<(), E>;

/// The matrices, of shapes `[rows, rank]` and `[rank, columns]`, and the number that the product is multiplied by.
#[derive(Clone, Copy)]
pub(crate) struct Product<'p> {
    pub(crate) tall: &'p Program,
    pub(crate) wide: &'p Program,
    pub(crate) number: f32,
}

impl Product<'_> {
    /// Replaces `out` by elements of the product, from the element `first` on. Each product of two numbers is rounded and added in
    /// the order of the rank, so that every way to cut the work into pieces gives the same bits.
    pub(crate) fn replace<N: Number, E>(
        &self,
        first: u64,
        out: &mut [N],
        floats: Floats<'_, E>,
    ) -> Result<(), E> {
        let number = self.number;
        self.each(first, out, floats, |_, sum| N::of(sum * number))
    }

    /// Adds elements of the product to `out`.
    pub(crate) fn add<N: Number, E>(
        &self,
        first: u64,
        out: &mut [N],
        floats: Floats<'_, E>,
    ) -> Result<(), E> {
        let number = self.number;
        self.each(first, out, floats, |old, sum| N::of(old.float() + sum * number))
    }

    /// Makes a number of each that is there and the sum of products that belongs to it.
    fn each<N: Number, E>(
        &self,
        first: u64,
        out: &mut [N],
        floats: Floats<'_, E>,
        made: impl Fn(N, f32) -> N + Copy,
    ) -> Result<(), E> {
        let (Some(&rank), Some(&columns)) = (self.tall.shape().last(), self.wide.shape().last()) else {
            return Ok(());
        };
        if columns == 0 {
            return Ok(());
        }
        let most = (AT_ONCE / rank.max(1)).max(1);
        let (mut at, mut rest, mut factors) = (first, &mut *out, Vec::new());
        while !rest.is_empty() {
            let (row, column) = (at / columns, at % columns);
            let there = rest.len() as u64;
            // A part of one row, or whole rows.
            let width = columns.saturating_sub(column).min(there);
            let rows = if width == columns { (there / columns).min(most) } else { 1 };
            let (piece, tail) = rest.split_at_mut(size(rows.saturating_mul(width)));
            factors.resize(size(rows.saturating_mul(rank)), 0.0);
            floats(self.tall, row.saturating_mul(rank), &mut factors)?;
            let rows = Rows { factors: &factors, rank, column, width };
            rows.multiply(self.wide, piece, floats, made)?;
            (at, rest) = (at.saturating_add(piece.len() as u64), tail);
        }
        Ok(())
    }
}

/// Rows of the result, or a part of one: those of the tall matrix, and the first column and the number of columns.
struct Rows<'f> {
    factors: &'f [f32],
    rank: u64,
    column: u64,
    width: u64,
}

impl Rows<'_> {
    fn multiply<N: Number, E>(
        &self,
        wide: &Program,
        out: &mut [N],
        floats: Floats<'_, E>,
        made: impl Fn(N, f32) -> N + Copy,
    ) -> Result<(), E> {
        if self.rank <= RANKS {
            return self.sum_up((wide, 0, self.rank), out, floats, |_| 0.0, made);
        }
        // Sums wait in memory for the rest of the rank.
        let mut sums = vec![0.0; out.len()];
        let mut k = 0;
        while k < self.rank {
            let count = self.rank.saturating_sub(k).min(RANKS);
            self.sum_up((wide, k, count), &mut sums, floats, |sum| sum, |_, sum| sum)?;
            k = k.saturating_add(count);
        }
        out.iter_mut().zip(sums).for_each(|(out, sum)| *out = made(*out, sum));
        Ok(())
    }

    /// Adds up the products for `count` rows of the wide matrix, from `k` on. A sum begins with what `begin` makes of the number that is
    /// there, and `made` makes a number of both.
    fn sum_up<N: Number, E>(
        &self,
        (wide, k, count): (&Program, u64, u64),
        out: &mut [N],
        floats: Floats<'_, E>,
        begin: impl Fn(N) -> f32 + Copy,
        made: impl Fn(N, f32) -> N + Copy,
    ) -> Result<(), E> {
        let columns = wide.shape().last().copied().unwrap_or(0);
        let most = (BLOCK / count.max(1)).max(COLUMNS);
        let (rank, width) = (size(self.rank).max(1), size(self.width).max(1));
        let (mut block, mut sums, mut column) = (Vec::new(), Vec::new(), 0);
        while column < self.width {
            let part = self.width.saturating_sub(column).min(most);
            block.resize(size(part.saturating_mul(count)), 0.0);
            for (number, row) in block.chunks_mut(size(part)).enumerate() {
                let first = k.saturating_add(number as u64).saturating_mul(columns);
                floats(wide, first.saturating_add(self.column).saturating_add(column), row)?;
            }
            sums.resize(size(part), 0.0);
            for (factors, row) in self.factors.chunks(rank).zip(out.chunks_mut(width)) {
                let factors = factors.get(size(k)..).unwrap_or_default();
                let row = row.get_mut(size(column)..).unwrap_or_default();
                sums.iter_mut().zip(&*row).for_each(|(sum, place)| *sum = begin(*place));
                add_products(&mut sums, &block, factors);
                row.iter_mut().zip(&sums).for_each(|(place, sum)| *place = made(*place, *sum));
            }
            column = column.saturating_add(part);
        }
        Ok(())
    }
}

/// Adds the products of rows of the wide matrix and a factor of each, one row after the other.
#[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2"))]
fn add_products(sums: &mut [f32], rows: &[f32], factors: &[f32]) {
    let len = sums.len().max(1);
    let (fours, others) = factors.as_chunks::<4>();
    let (rows, other_rows) = rows.split_at(fours.len().saturating_mul(4).saturating_mul(len).min(rows.len()));
    for (rows, &[w, x, y, z]) in rows.chunks_exact(len.saturating_mul(4)).zip(fours) {
        let (first, second) = rows.split_at(len.saturating_mul(2));
        let ((a, b), (c, d)) = (first.split_at(len), second.split_at(len));
        for (sum, ((a, b), (c, d))) in sums.iter_mut().zip(a.iter().zip(b).zip(c.iter().zip(d))) {
            *sum = *sum + w * a + x * b + y * c + z * d;
        }
    }
    for (row, factor) in other_rows.chunks_exact(len).zip(others) {
        sums.iter_mut().zip(row).for_each(|(sum, number)| *sum += factor * number);
    }
}

/// A length in memory; one that is longer saturates.
fn size(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}
