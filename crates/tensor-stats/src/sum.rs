//! Adds numbers in numpy's order, and with compensation.

/// numpy adds up to this many elements without splitting them, in eight running sums.
const BLOCK: usize = 128;

/// A range of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) first: u64,
    pub(super) len: u64,
}

impl Span {
    /// Cuts where numpy's pairwise summation does: in the middle, rounded down to a multiple of eight.
    fn halves(self) -> (Self, Self) {
        let half = self.len / 2;
        let left = half - half % 8;
        (Self { first: self.first, len: left }, Self { first: self.first + left, len: self.len - left })
    }
}

/// Adds the results of `leaf` for pieces of `span` with at most `grain` elements, in numpy's order, left to
/// right.
///
/// `grain` must be at least [`BLOCK`], or the pieces would be cut finer than in numpy. With such a grain the
/// sum does not depend on it. The recursion is at most 64 deep, the number of bits of a length.
pub(super) fn fold<E>(
    span: Span,
    grain: u64,
    leaf: &mut dyn FnMut(Span) -> Result<f64, E>,
) -> Result<f64, E> {
    if span.len <= grain.max(BLOCK as u64) {
        return leaf(span);
    }
    let (left, right) = span.halves();
    let sum = fold(left, grain, leaf)?;
    Ok(sum + fold(right, grain, leaf)?)
}

/// Sums `term` over the values, rounded as numpy's `add.reduce` of `float64` rounds.
pub(super) fn pairwise<T: Copy>(values: &[T], term: &impl Fn(T) -> f64) -> f64 {
    if values.len() <= BLOCK {
        return straight(values, term);
    }
    let half = values.len() / 2;
    let (left, right) = values.split_at(half - half % 8);
    pairwise(left, term) + pairwise(right, term)
}

fn straight<T: Copy>(values: &[T], term: &impl Fn(T) -> f64) -> f64 {
    let (eights, rest) = values.as_chunks::<8>();
    let mut sum = match eights.split_first() {
        Some((&head, tail)) => {
            let mut sums = head.map(term);
            for group in tail {
                for (sum, &value) in sums.iter_mut().zip(group) {
                    *sum += term(value);
                }
            }
            let [a, b, c, d, e, f, g, h] = sums;
            ((a + b) + (c + d)) + ((e + f) + (g + h))
        }
        None => -0.0,
    };
    for &value in rest {
        sum += term(value);
    }
    sum
}

/// A sum that keeps track of its rounding error (Knuth's two-sum), for few terms of very different size.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Compensated {
    sum: f64,
    error: f64,
}

impl Compensated {
    pub(super) fn add(&mut self, term: f64) {
        let sum = self.sum + term;
        let part = sum - self.sum;
        self.error += (self.sum - (sum - part)) + (term - part);
        self.sum = sum;
    }

    pub(super) fn value(self) -> f64 {
        self.sum + self.error
    }
}
