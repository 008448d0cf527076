//! Computes the product of a tall matrix and a wide one.

use multiversion::multiversion;
use tensor_core::DType;

use crate::Program;
use crate::cast::{Lost, add_halves};
use crate::number::Number;
use crate::program::Step;

/// The most numbers of the wide matrix that are in the cache at once, and the fewest of its columns.
const BLOCK: u64 = 1 << 13;
const COLUMNS: u64 = 1 << 4;
/// The most rows of the wide matrix in memory.
const RANKS: u64 = 1 << 12;
/// The most numbers of the tall matrix in memory.
const AT_ONCE: u64 = 1 << 18;

/// Fills a buffer with elements of a program, from the given element on.
type Floats<'f, E> = &'f mut dyn FnMut(&Program, u64, &mut [f32]) -> Result<(), E>;

/// The matrices, of shapes `[rows, rank]` and `[rank, columns]`, and the number by which the product is
/// multiplied.
#[derive(Clone, Copy)]
pub(crate) struct Product<'p> {
    pub(crate) tall: &'p Program,
    pub(crate) wide: &'p Program,
    pub(crate) number: f32,
}

impl<'p> Product<'p> {
    /// Returns the product that the program's last step computes, if that is one.
    pub(crate) const fn of(program: &'p Program) -> Option<Self> {
        match &program.step {
            Step::LowRank { tall, wide, number } => Some(Self { tall, wide, number: *number }),
            _ => None,
        }
    }

    /// Replaces `out` by elements of the product, from the element `first` on. Each product of two numbers is
    /// rounded and added in the order of the rank, so the bits do not depend on how the work is cut into
    /// pieces.
    pub(crate) fn replace<N: Number, E>(
        &self,
        first: u64,
        out: &mut [N],
        floats: Floats<'_, E>,
    ) -> Result<(), E> {
        self.each(first, out, floats, &mut |out, sums| {
            out.iter_mut().zip(sums).for_each(|(out, sum)| *out = N::of(sum * self.number));
        })
    }

    /// Adds elements of the product to `out`.
    pub(crate) fn add<N: Number, E>(
        &self,
        first: u64,
        out: &mut [N],
        floats: Floats<'_, E>,
    ) -> Result<(), E> {
        self.each(first, out, floats, &mut |out, sums| {
            out.iter_mut().zip(sums).for_each(|(out, sum)| *out = N::of(out.float() + sum * self.number));
        })
    }

    /// Adds elements of the product to floats of 16 bits, in f32, and rounds once. This gives the same as
    /// casts to f32 and back, without writing the f32 values to bytes in between.
    pub(crate) fn add_to_halves<E>(
        &self,
        dtype: DType,
        first: u64,
        out: &mut [u8],
        floats: Floats<'_, E>,
    ) -> Result<Lost, E> {
        let mut lost = Lost::default();
        self.each(first, out.as_chunks_mut::<2>().0, floats, &mut |out, sums| {
            lost.add(add_halves(dtype, out.as_flattened_mut(), sums, self.number));
        })?;
        Ok(lost)
    }

    /// Computes the sums of products for each piece of `out` and lets `finish` merge them into it.
    fn each<N: Copy, E>(
        &self,
        first: u64,
        out: &mut [N],
        floats: Floats<'_, E>,
        finish: &mut impl FnMut(&mut [N], &[f32]),
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
            rows.multiply(self.wide, piece, floats, finish)?;
            (at, rest) = (at.saturating_add(piece.len() as u64), tail);
        }
        Ok(())
    }
}

/// Rows of the result, or a part of one row: the rows of the tall matrix, the first column and the number of
/// columns.
struct Rows<'f> {
    factors: &'f [f32],
    rank: u64,
    column: u64,
    width: u64,
}

impl Rows<'_> {
    fn multiply<N: Copy, E>(
        &self,
        wide: &Program,
        out: &mut [N],
        floats: Floats<'_, E>,
        finish: &mut impl FnMut(&mut [N], &[f32]),
    ) -> Result<(), E> {
        if self.rank <= RANKS {
            return self.sum_up((wide, 0, self.rank), out, floats, |_, sums| sums.fill(0.0), finish);
        }
        // The sums wait here until the rest of the rank is added.
        let mut waiting = vec![0.0; out.len()];
        let mut k = 0;
        while k < self.rank {
            let count = self.rank.saturating_sub(k).min(RANKS);
            let begin = |waiting: &[f32], sums: &mut [f32]| sums.copy_from_slice(waiting);
            self.sum_up(
                (wide, k, count),
                &mut waiting,
                floats,
                begin,
                &mut |waiting: &mut [f32], sums: &[f32]| {
                    waiting.copy_from_slice(sums);
                },
            )?;
            k = k.saturating_add(count);
        }
        finish(out, &waiting);
        Ok(())
    }

    /// Adds up the products for `count` rows of the wide matrix, from `k` on. `begin` computes the first sums
    /// from the numbers in `out`, and `finish` merges the final sums into it.
    fn sum_up<N: Copy, E>(
        &self,
        (wide, k, count): (&Program, u64, u64),
        out: &mut [N],
        floats: Floats<'_, E>,
        begin: impl Fn(&[N], &mut [f32]),
        finish: &mut impl FnMut(&mut [N], &[f32]),
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
                let row = row.get_mut(..size(part)).unwrap_or_default();
                let sums = sums.get_mut(..row.len()).unwrap_or_default();
                begin(row, sums);
                add_products(sums, &block, factors);
                finish(row, sums);
            }
            column = column.saturating_add(part);
        }
        Ok(())
    }
}

/// Multiplies each row of the wide matrix by its factor and adds it to the sums, one row after the other.
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

/// Converts a length to `usize`, saturating.
fn size(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}
