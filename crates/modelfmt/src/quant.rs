//! Scales and zero points of a tensor, which a format may have beside its values.

use modelfmt_core::value::{Object, Value};

/// What makes values of a tensor's numbers: value = scale × (number − zero point). OINF 2 has it, as the quant payload of a tensor.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Quant {
    /// The dimension that has a scale for each of its elements; `None` where one scale is for the whole tensor.
    pub axis: Option<u64>,
    /// One, or as many as the dimension has elements.
    pub scales: Vec<f32>,
    /// As many as there are scales; `None` where the scheme is symmetric.
    pub zero_points: Option<Vec<i32>>,
}

impl Quant {
    /// As `inspect --json` prints it: `{"scheme", "axis", "scales", "zero_points"}`.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let scheme = if self.zero_points.is_some() { "asymmetric" } else { "symmetric" };
        let zero_points = self.zero_points.as_ref().map(|zeros| zeros.iter().copied().collect::<Value>());
        Object::from_iter([
            ("scheme", Value::from(scheme)),
            ("axis", self.axis.into()),
            ("scales", self.scales.iter().map(|&scale| Value::Float(scale.into())).collect()),
            ("zero_points", zero_points.into()),
        ])
        .into()
    }
}
