//! Shapes: dimensions as `u64`, slowest first.

use std::fmt;

/// Returns the number of elements of a tensor: the product of its dimensions, 1 for a scalar.
///
/// Returns `None` if the product does not fit `u64`. If a dimension is 0, the result is 0, however large the
/// others are.
#[must_use]
#[inline]
pub fn element_count(shape: &[u64]) -> Option<u64> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim))
}

/// Prints a shape as `[2, 3]`.
#[derive(Clone, Copy, Debug)]
pub struct DisplayShape<'a>(pub &'a [u64]);

impl fmt::Display for DisplayShape<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, dim) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{dim}")?;
        }
        f.write_str("]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_checked() {
        assert_eq!(element_count(&[]), Some(1));
        assert_eq!(element_count(&[2, 3]), Some(6));
        assert_eq!(element_count(&[u64::MAX, 2]), None);
        assert_eq!(element_count(&[u64::MAX, u64::MAX, 0]), Some(0));
        assert_eq!(DisplayShape(&[2, 3]).to_string(), "[2, 3]");
        assert_eq!(DisplayShape(&[]).to_string(), "[]");
    }
}
