//! Reorders programs so that elements are moved before numbers are computed, not after.

use crate::program::Step;
use crate::{Program, ProgramError};

/// A step that only moves elements.
#[derive(Clone)]
enum Move {
    Reshape(Vec<u64>),
    Permute(Vec<usize>),
    Slice { axis: usize, start: u64, len: u64 },
}

impl Move {
    /// Adds the move to a program.
    fn apply(&self, program: Program) -> Result<Program, ProgramError> {
        match self {
            Self::Reshape(shape) => program.reshaped(shape),
            Self::Permute(axes) => program.permuted(axes),
            Self::Slice { axis, start, len } => program.sliced(*axis, *start, *len),
        }
    }

    /// Returns the same move for the rows of another matrix, whose rows have the length `to` instead of
    /// `from`, or `None` if the move does not keep rows whole. `before` is the shape to which this move
    /// applies.
    fn of_rows(&self, before: &[u64], from: u64, to: u64) -> Option<Self> {
        match self {
            Self::Reshape(shape) => {
                let (last, others) = shape.split_last()?;
                let shape = others.iter().copied().chain([to]).collect();
                (*last == from).then_some(Self::Reshape(shape))
            }
            Self::Permute(axes) => (axes.last()?.checked_add(1)? == axes.len()).then(|| self.clone()),
            Self::Slice { axis, .. } => (axis.checked_add(1)? < before.len()).then(|| self.clone()),
        }
    }
}

impl Program {
    /// Returns a program for the same values that moves elements first. To move rows of a low-rank product,
    /// it moves the rows of the tall matrix. A transposed product becomes the product of both matrices,
    /// transposed.
    ///
    /// # Errors
    /// [`ProgramError::TooDeep`], and the errors of the methods that add the steps.
    pub fn with_moves_first(self) -> Result<Self, ProgramError> {
        self.moved(Vec::new())
    }

    /// Checks whether any step computes a product of matrices.
    #[must_use]
    pub fn multiplies(&self) -> bool {
        matches!(self.step, Step::LowRank { .. }) || self.before().into_iter().any(Self::multiplies)
    }

    /// Returns the program followed by these moves; the last move in the list is done first.
    fn moved(self, mut moves: Vec<Move>) -> Result<Self, ProgramError> {
        let (dtype, shape) = (self.dtype(), self.shape().to_vec());
        match self.step {
            Step::Reshape(of) => {
                moves.push(Move::Reshape(shape));
                of.moved(moves)
            }
            Step::Permute { of, axes } => {
                moves.push(Move::Permute(axes));
                of.moved(moves)
            }
            Step::Slice { of, axis, start } => {
                let len = shape.get(axis).copied().unwrap_or_default();
                moves.push(Move::Slice { axis, start, len });
                of.moved(moves)
            }
            Step::Cast(of) if of.dtype().size().is_some() && dtype.size().is_some() => {
                of.moved(moves)?.cast(dtype)
            }
            Step::Sum(a, b) => a.moved(moves.clone())?.sum(b.moved(moves)?),
            Step::Concat { parts, axis } => {
                let parts = parts.into_iter().map(Self::with_moves_first).collect::<Result<_, _>>()?;
                applied(Self::concatenated(parts, axis)?, moves)
            }
            Step::LowRank { tall, wide, number } => low_rank_moved(*tall, *wide, number, moves),
            step => applied(Self::of(step, dtype, shape)?, moves),
        }
    }
}

/// Adds moves to a program; the last move in the list is done first.
fn applied(program: Program, moves: Vec<Move>) -> Result<Program, ProgramError> {
    moves.into_iter().rev().try_fold(program, |program, own| own.apply(program))
}

/// Applies moves to a low-rank product, to its matrices where possible.
fn low_rank_moved(
    tall: Program,
    wide: Program,
    number: f32,
    mut moves: Vec<Move>,
) -> Result<Program, ProgramError> {
    if let Some(Move::Permute(axes)) = moves.last()
        && axes[..] == [1, 0]
    {
        moves.pop();
        return low_rank_moved(wide.transposed()?, tall.transposed()?, number, moves);
    }
    let (Some(&rank), Some(&columns)) = (tall.shape().last(), wide.shape().last()) else {
        return applied(tall.low_rank(wide, number)?, moves);
    };
    // The longest run of moves of whole rows after which the product is still a matrix.
    let (mut rows, mut shape) = (tall.clone(), vec![tall.shape().first().copied().unwrap_or(0), columns]);
    let (mut best, mut left) = (tall, moves.len());
    for (number, own) in moves.iter().enumerate().rev() {
        let Some(of_rows) = own.of_rows(&shape, columns, rank) else { break };
        rows = of_rows.apply(rows)?;
        shape = rows.shape().iter().take(rows.shape().len().saturating_sub(1)).copied().collect();
        shape.push(columns);
        if shape.len() == 2 {
            (best, left) = (rows.clone(), number);
        }
    }
    moves.truncate(left);
    if matches!(moves.last(), Some(Move::Permute(axes)) if axes[..] == [1, 0]) {
        return low_rank_moved(best, wide, number, moves);
    }
    applied(best.low_rank(wide, number)?, moves)
}
