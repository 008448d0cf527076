//! The scales and zero points that a format can have for a tensor.

use std::fmt;
use std::sync::Arc;

use modelfmt_core::value::{Object, Value};

use tensor_program::Affine;

use modelfmt_rules::wording::format_g::G6;

/// How the numbers of a tensor become values: value = scale × (number − zero point). This is the quant payload of a tensor in OINF 2.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Quant {
    /// The dimension with one scale for each index; `None` if one scale is for the whole tensor.
    pub axis: Option<u64>,
    /// The scales: one, or as many as the length of the dimension.
    pub scales: Vec<f32>,
    /// The zero points, as many as there are scales; `None` if the scheme is symmetric.
    pub zero_points: Option<Vec<i32>>,
}

impl Quant {
    /// Makes the scales and zero points for a dimension, or for the whole tensor.
    pub fn new(axis: Option<u64>, scales: Vec<f32>, zero_points: Option<Vec<i32>>) -> Self {
        Self { axis, scales, zero_points }
    }

    /// Checks whether a tensor with this shape can have these scales.
    pub fn fits(&self, shape: &[u64]) -> bool {
        let expected = match self.axis {
            None => Some(1),
            Some(axis) => usize::try_from(axis).ok().and_then(|axis| shape.get(axis)).copied(),
        };
        let is_expected = |count: usize| expected == Some(count as u64);
        let zeros = self.zero_points.as_ref();
        is_expected(self.scales.len()) && zeros.is_none_or(|zeros| is_expected(zeros.len()))
    }

    /// Makes the parameters of a tensor of this shape, which these scales and zero points must fit.
    pub fn affine(self, shape: &[u64]) -> Arc<Affine> {
        Arc::new(Affine::new(self.axis, self.scales, self.zero_points, shape))
    }

    /// Returns the name of the scheme, `symmetric` or `asymmetric`.
    pub const fn scheme(&self) -> &'static str {
        if self.zero_points.is_some() { "asymmetric" } else { "symmetric" }
    }

    /// Returns the object that `inspect --json` prints: `{"scheme", "axis", "scales", "zero_points"}`.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let zero_points = self.zero_points.as_ref().map(|zeros| zeros.iter().copied().collect::<Value>());
        Object::from_iter([
            ("scheme", Value::from(self.scheme())),
            ("axis", self.axis.into()),
            ("scales", self.scales.iter().map(|&scale| Value::Float(scale.into())).collect()),
            ("zero_points", zero_points.into()),
        ])
        .into()
    }
}

/// Writes text such as `asymmetric, axis 0, scales { 0.5, 0.25 }, zero points { -1, 3 }`. Of more than ten
/// values, it shows the first five and the last five.
impl fmt::Display for Quant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.scheme())?;
        if let Some(axis) = self.axis {
            write!(f, ", axis {axis}")?;
        }
        write!(f, ", scales {}", Ends(&self.scales, |&scale: &f32| G6(scale.into())))?;
        match &self.zero_points {
            Some(zeros) => write!(f, ", zero points {}", Ends(zeros, |&zero: &i32| zero)),
            None => Ok(()),
        }
    }
}

/// Displays the first and last items of a list, in braces.
struct Ends<'a, T, F>(&'a [T], F);

impl<T, D: fmt::Display, F: Fn(&T) -> D> fmt::Display for Ends<'_, T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const END: usize = 5;
        let Self(items, shown) = self;
        let is_long = items.len() > 2 * END;
        let first = if is_long { END } else { items.len() };
        f.write_str("{ ")?;
        for (number, item) in items.iter().take(first).enumerate() {
            write!(f, "{}{}", if number > 0 { ", " } else { "" }, shown(item))?;
        }
        if is_long {
            f.write_str(", ...")?;
            for item in items.iter().skip(items.len() - END) {
                write!(f, ", {}", shown(item))?;
            }
        }
        f.write_str(" }")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_cut() {
        let quant = Quant { axis: Some(1), scales: vec![0.5, -2.0], zero_points: Some(vec![-1, 300]) };
        assert_eq!(quant.to_string(), "asymmetric, axis 1, scales { 0.5, -2 }, zero points { -1, 300 }");
        let scales = (0..11).map(|n| n as f32 / 4.0).collect();
        let quant = Quant { axis: None, scales, zero_points: None };
        assert_eq!(
            quant.to_string(),
            "symmetric, scales { 0, 0.25, 0.5, 0.75, 1, ..., 1.5, 1.75, 2, 2.25, 2.5 }"
        );
        let ten = Quant { scales: vec![1.0; 10], ..quant };
        assert!(!ten.to_string().contains("..."), "{ten}");
    }
}
