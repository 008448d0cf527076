//! Compares the values of two tensors in one pass.

use modelfmt_core::{DType, Execution, TensorInfo};

use super::{DiffOptions, Norms, ValueDiff};
use modelfmt_model::error::Result;
use modelfmt_model::model::Model;
use modelfmt_model::values::{Numbers, Pieces, is_numeric};

/// How the values of two tensors differ, if they do, and their norms if the options ask for them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Compared {
    pub(super) values: Option<ValueDiff>,
    pub(super) norms: Option<Norms>,
}

type Side<'a> = (&'a Model, usize);

/// The number of elements that are compared at once: a multiple of every block size.
const ELEMENTS: u64 = 1 << 19;

/// Compares two tensors by their positions.
pub(super) fn compare(
    a: Side<'_>,
    b: Side<'_>,
    options: &DiffOptions,
    work: &Execution<'_>,
) -> Result<Compared> {
    let (Some(of_a), Some(of_b)) = (a.0.container().info(a.1), b.0.container().info(b.1)) else {
        return Ok(Compared::default());
    };
    let norms = options.norms.then(Norms::default);
    let differs = Compared { values: Some(ValueDiff::default()), norms };
    match (of_a.has_data, of_b.has_data) {
        (true, true) => {}
        (false, false) => return Ok(Compared { values: None, norms }),
        _ => return Ok(differs),
    }
    let is_same_type = of_a.dtype == of_b.dtype;
    if !is_numeric(of_a.dtype) || !is_numeric(of_b.dtype) || of_a.elements() != of_b.elements() {
        let is_same = is_same_type && of_a.nbytes == of_b.nbytes && same_bytes(a, b, work)?;
        return Ok(if is_same { Compared { values: None, norms } } else { differs });
    }
    let compared = numbers(a, b, is_same_type && of_a.nbytes == of_b.nbytes, options, work)?;
    Ok(compared.result(&of_a, is_same_type, options))
}

/// The results of the pieces so far.
struct Sums {
    is_same_bytes: bool,
    max_abs: f64,
    max_rel: f64,
    /// The sums of the squares of a, of b, and of a − b. `products` is the sum of the products a · b.
    squares: [f64; 3],
    products: f64,
}

fn numbers(
    a: Side<'_>,
    b: Side<'_>,
    can_be_same: bool,
    options: &DiffOptions,
    work: &Execution<'_>,
) -> Result<Sums> {
    let mut sums =
        Sums { is_same_bytes: can_be_same, max_abs: 0.0, max_rel: 0.0, squares: [0.0; 3], products: 0.0 };
    let no_progress = |_| work.advance(0); // the bytes of one of them are counted
    let quiet = Execution { progress: Some(&no_progress), ..*work };
    let mut left = Pieces::of_elements(a.0, a.1, ELEMENTS)?;
    let mut right = Pieces::of_elements(b.0, b.1, ELEMENTS)?;
    if can_be_same && !left.is_uneven() && !right.is_uneven() {
        // Compare pieces as bytes first, and number by number only if they differ.
        while left.next(work)?.is_some() && right.next(&quiet)?.is_some() {
            let is_same = left.bytes() == right.bytes();
            sums.is_same_bytes &= is_same;
            if !is_same {
                sums.add(&left.numbers()?, &right.numbers()?, options.norms);
            } else if options.norms {
                sums.add_same(&left.numbers()?);
            }
        }
        return Ok(sums);
    }
    // The dtypes differ, or the elements are not in proportion to the bytes.
    sums.is_same_bytes = can_be_same && same_bytes(a, b, &quiet)?;
    if sums.is_same_bytes && !options.norms {
        return Ok(sums);
    }
    while let (Some(x), Some(y)) = (left.next_numbers(work)?, right.next_numbers(&quiet)?) {
        sums.add(&x, &y, options.norms);
    }
    Ok(sums)
}

impl Sums {
    fn add(&mut self, x: &Numbers, y: &Numbers, norms: bool) {
        for (place, (&a, &b)) in x.floats.iter().zip(&y.floats).enumerate() {
            let exact = |numbers: &Numbers, float| numbers.integers.get(place).copied().or(integer(float));
            let (abs, rel) = match (exact(x, a), exact(y, b)) {
                (Some(i), Some(j)) if i != j => {
                    let abs = i.abs_diff(j) as f64;
                    (abs, abs / a.abs().max(b.abs()))
                }
                _ => difference(a, b),
            };
            self.max_abs = larger(self.max_abs, abs);
            self.max_rel = larger(self.max_rel, rel);
            if norms {
                // `abs` has the exact difference of large integers. The difference from a NaN is a NaN.
                let apart = if a.is_finite() && b.is_finite() { abs } else { f64::NAN };
                let [of_a, of_b, of_both] = &mut self.squares;
                (*of_a, *of_b) = (a.mul_add(a, *of_a), b.mul_add(b, *of_b));
                *of_both = apart.mul_add(apart, *of_both);
                self.products = a.mul_add(b, self.products);
            }
        }
    }

    /// Adds numbers that are equal in both.
    fn add_same(&mut self, x: &Numbers) {
        let squares = x.floats.iter().fold(0.0, |sum, x| x * x + sum);
        let [of_a, of_b, of_both] = &mut self.squares;
        (*of_a, *of_b) = (*of_a + squares, *of_b + squares);
        // The difference of a NaN or an infinity from itself is a NaN, not 0.
        *of_both += if squares.is_finite() { 0.0 } else { f64::NAN };
        self.products += squares;
    }

    fn result(&self, info: &TensorInfo<'_>, is_same_type: bool, options: &DiffOptions) -> Compared {
        let (max_abs, max_rel) = (Some(self.max_abs), Some(self.max_rel));
        // The same numbers in another dtype are only a change of dtype. In the same dtype, other bits for the
        // same numbers (-0, NaN) are a change, unless the options compare values only.
        let is_same = self.is_same_bytes || ((!is_same_type || options.ignore_dtype) && self.max_abs == 0.0);
        let values = match (is_same, options.tolerance) {
            (true, _) => None,
            // The magnitude of the difference between booleans has no meaning.
            (false, _) if is_same_type && info.dtype == DType::Bool => Some(ValueDiff::default()),
            (false, Some(tolerance)) if self.max_abs <= tolerance => None,
            (false, _) => Some(ValueDiff { max_abs, max_rel }),
        };
        let norms = options.norms.then(|| self.norms(info.elements()));
        Compared { values, norms }
    }

    fn norms(&self, count: u64) -> Norms {
        let [of_a, of_b, of_both] = self.squares;
        if count == 0 {
            return Norms::default();
        }
        let (norm_a, norm_b, apart) = (of_a.sqrt(), of_b.sqrt(), of_both.sqrt());
        let is_zero = norm_a == 0.0 || norm_b == 0.0;
        // 0 / 0 counts as 0; x / 0 is infinite.
        let rel_norm = if apart == 0.0 { 0.0 } else { apart / norm_a };
        Norms {
            rmse: Some((of_both / count as f64).sqrt()),
            cosine: (!is_zero).then(|| (self.products / norm_a / norm_b).clamp(-1.0, 1.0)),
            rel_norm: Some(rel_norm),
        }
    }
}

fn same_bytes(a: Side<'_>, b: Side<'_>, work: &Execution<'_>) -> Result<bool> {
    let (mut left, mut right) = (Pieces::new(a.0, a.1)?, Pieces::new(b.0, b.1)?);
    let quiet = Execution { progress: None, ..*work };
    loop {
        match (left.next(work)?, right.next(&quiet)?) {
            (Some(x), Some(y)) if x == y => {}
            (None, None) => return Ok(true),
            _ => return Ok(false),
        }
    }
}

/// Returns the integer value of a float of 2^53 or more, where different 64-bit integers become the same
/// float.
#[expect(clippy::cast_possible_truncation, reason = "in this range every float is an integer below 2^127")]
fn integer(x: f64) -> Option<i128> {
    const FIRST: f64 = (1u64 << 53) as f64;
    const END: f64 = (1u128 << 100) as f64;
    (FIRST..END).contains(&x.abs()).then_some(x as i128)
}

/// Returns the larger of two numbers, or NaN if one of them is NaN.
fn larger(x: f64, y: f64) -> f64 {
    if x.is_nan() || y <= x { x } else { y }
}

/// Returns the absolute difference, and the difference relative to the larger magnitude.
fn difference(x: f64, y: f64) -> (f64, f64) {
    if x == y || (x.is_nan() && y.is_nan()) {
        return (0.0, 0.0);
    }
    let abs = (x - y).abs();
    if x.is_nan() || y.is_nan() {
        return (f64::NAN, f64::NAN);
    }
    if !x.is_finite() || !y.is_finite() {
        return (f64::INFINITY, f64::INFINITY);
    }
    (abs, abs / x.abs().max(y.abs()))
}
