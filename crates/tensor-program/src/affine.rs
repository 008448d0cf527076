//! Applies scales and zero points: value = scale × (number − zero point).

/// Scales and zero points that are part of the program: one for the whole tensor, or one for each index of a
/// dimension.
#[derive(Clone, Debug, PartialEq)]
pub struct Affine {
    scales: Vec<f32>,
    zero_points: Vec<i32>,
    /// The number of consecutive elements with the same scale.
    stride: u64,
}

impl Affine {
    /// Returns the scales and zero points of a tensor of this shape. `axis` is the dimension with one scale
    /// for each index, or `None` if there is one scale for the whole tensor. Zero points are 0 unless they
    /// are given. An element whose scale is missing becomes a NaN.
    #[must_use]
    pub fn new(axis: Option<u64>, scales: Vec<f32>, zero_points: Option<Vec<i32>>, shape: &[u64]) -> Self {
        let inner = axis.and_then(|axis| shape.get(usize::try_from(axis).ok()?.checked_add(1)?..));
        let stride = inner.map_or(u64::MAX, |dims| dims.iter().copied().fold(1, u64::saturating_mul));
        Self { scales, zero_points: zero_points.unwrap_or_default(), stride: stride.max(1) }
    }

    /// Replaces `numbers`, the tensor's elements from `first` on, by their values.
    pub(crate) fn apply(&self, first: u64, numbers: &mut [f64]) {
        // The channel of an element is its index / stride % channels.
        let channels = (self.scales.len() as u64).max(1);
        let (mut at, mut rest) = (first, numbers);
        while !rest.is_empty() {
            let left = self.stride - at % self.stride;
            let run = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
            let channel = usize::try_from(at / self.stride % channels).unwrap_or(usize::MAX);
            let scale = self.scales.get(channel).map_or(f64::NAN, |&scale| scale.into());
            let zero = self.zero_points.get(channel).map_or(0.0, |&zero| zero.into());
            let (head, tail) = rest.split_at_mut(run);
            head.iter_mut().for_each(|number| *number = scale * (*number - zero));
            (at, rest) = (at + run as u64, tail);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares every element with the formula, in pieces of any length.
    #[test]
    fn every_element_has_the_scale_of_its_channel() {
        for (shape, axis) in [
            (&[][..], None),
            (&[7], None),
            (&[7], Some(0)),
            (&[3, 5], Some(0)),
            (&[3, 5], Some(1)),
            (&[2, 3, 4], Some(1)),
            (&[2, 3, 1, 5], Some(2)),
            (&[4, 1, 1], Some(0)),
            (&[1, 2, 300], Some(1)),
        ] {
            let count: u64 = shape.iter().product();
            let channels = axis.map_or(1, |axis: usize| shape[axis]);
            for has_zeros in [false, true] {
                let scale = |channel: u64| (channel as f32 + 1.3) * -0.7;
                let zero = |channel: u64| if has_zeros { i32::try_from(channel).unwrap() * 3 - 4 } else { 0 };
                let zeros = has_zeros.then(|| (0..channels).map(zero).collect());
                let affine = Affine::new(
                    axis.map(|axis| axis as u64),
                    (0..channels).map(scale).collect(),
                    zeros,
                    shape,
                );
                let channel_of = |element: u64| match axis {
                    None => 0,
                    Some(axis) => {
                        let mut rest = element;
                        shape[axis + 1..].iter().rev().for_each(|dim| rest /= dim);
                        rest % shape[axis]
                    }
                };
                for piece in [1, 2, 7, 64, count] {
                    let mut first = 0;
                    while first < count {
                        let len = piece.min(count - first);
                        let mut numbers: Vec<f64> = (first..first + len).map(|n| n as f64 - 9.0).collect();
                        affine.apply(first, &mut numbers);
                        for (element, found) in (first..).zip(numbers) {
                            let channel = channel_of(element);
                            let number = element as f64 - 9.0;
                            let expected = f64::from(scale(channel)) * (number - f64::from(zero(channel)));
                            assert_eq!(found, expected, "{shape:?} axis {axis:?}, element {element}");
                        }
                        first += len;
                    }
                }
            }
        }
    }
}
