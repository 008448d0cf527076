//! Scales and zero points of a tensor: value = scale × (number − zero point).

use std::collections::BTreeMap;

use modelfmt_core::value::{Object, Value};

use modelfmt_model::error::Result;
use modelfmt_model::model::Model;
use modelfmt_model::quant::Quant;
use modelfmt_model::values::is_number;

/// Makes the value under the reserved key: what `inspect --json` prints, and the bits of scales that JSON
/// cannot hold.
pub(crate) fn to_value(quant: &Quant) -> Value {
    let mut value = quant.to_value();
    let exact = |&scale: &f32| {
        if scale.is_finite() {
            return Value::Float(scale.into());
        }
        let bits = format!("{:08x}", scale.to_bits());
        Object::from_iter([("type", Value::from("f32")), ("bits", bits.into())]).into()
    };
    if let Value::Object(object) = &mut value {
        object.insert("scales", quant.scales.iter().map(exact).collect::<Value>());
    }
    value
}

/// Reads a result of [`to_value`]; `None` if the value is anything else.
pub(crate) fn parse(value: &Value) -> Option<Quant> {
    let object = value.as_object().filter(|object| object.len() == 4)?;
    let axis = match object.get("axis")? {
        Value::Null => None,
        axis => Some(axis.as_u64()?),
    };
    let scales =
        object.get("scales")?.as_array()?.iter().map(|scale| scale_of(&scale)).collect::<Option<_>>()?;
    let zero_points = match object.get("zero_points")? {
        Value::Null => None,
        zeros => {
            let zero = |zero: Value| i32::try_from(zero.as_i64()?).ok();
            Some(zeros.as_array()?.iter().map(zero).collect::<Option<_>>()?)
        }
    };
    let quant = Quant::new(axis, scales, zero_points);
    (object.get("scheme")?.as_str()? == quant.scheme()).then_some(quant)
}

#[expect(clippy::cast_possible_truncation, reason = "only what is an f32 is taken")]
fn scale_of(value: &Value) -> Option<f32> {
    let number = value.to_plain().as_f64()?;
    let scale = number as f32;
    (scale.is_nan() || f64::from(scale) == number).then_some(scale)
}

/// The subject of the loss of scales and zero points.
pub const SUBJECT: &str = "quant payload";

/// The reason why it is ambiguous which scales belong to a tensor.
pub const TWICE: &str = "its file has scales of its own for it, and there are others beside it";

/// The scales and zero points of a model.
#[derive(Default)]
pub struct Found {
    /// The scales and zero points of tensors with values, by the position of the tensor.
    pub of_tensors: BTreeMap<usize, Quant>,
    /// The other scales and zero points, which belong to no tensor with values, by name.
    pub others: Vec<(String, Quant)>,
}

/// Reads the scales and zero points in the file of a model.
pub(crate) fn read(model: &Model) -> Result<Vec<(String, Quant)>> {
    let mut quants = Vec::new();
    for (position, info) in model.tensors().enumerate() {
        if let Some(quant) = model.quant(position)? {
            quants.push((info.name.to_owned(), quant));
        }
    }
    Ok(quants)
}

/// Finds the tensors of the scales and zero points that a file, or its reserved key, lists by name.
pub fn find(model: &Model, stated: &[(String, Quant)]) -> Found {
    let mut found = Found::default();
    let container = model.container();
    for (name, quant) in stated {
        let position = container.find(name).filter(|&position| {
            container.info(position).is_some_and(|info| is_number(info.dtype) && quant.fits(info.shape))
        });
        match position {
            Some(position) => _ = found.of_tensors.insert(position, quant.clone()),
            None => found.others.push((name.clone(), quant.clone())),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use modelfmt_core::value::json;

    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        let scales = vec![0.1, -0.0, f32::MIN_POSITIVE / 2.0, 3.0, f32::INFINITY];
        let zeros = Some(vec![i32::MIN, -1, 0, 1, i32::MAX]);
        for quant in [
            Quant::new(Some(1), scales.clone(), zeros),
            Quant::new(Some(0), scales, None),
            Quant::new(None, vec![0.5], Some(vec![-7])),
            Quant::new(Some(0), Vec::new(), None),
        ] {
            let text = json::to_string(&to_value(&quant)).unwrap();
            let again = parse(&json::parse(text.as_bytes()).unwrap()).unwrap();
            assert_eq!(again, quant);
            let bits = |quant: &Quant| quant.scales.iter().map(|scale| scale.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&again), bits(&quant));
        }
        let nan = Quant::new(None, vec![f32::from_bits(0x7fc0_1234)], None);
        let text = json::to_string(&to_value(&nan)).unwrap();
        assert!(text.contains(r#"[{"type":"f32","bits":"7fc01234"}]"#), "{text}");
        assert!(parse(&json::parse(text.as_bytes()).unwrap()).unwrap().scales[0].is_nan());
    }

    #[test]
    fn what_no_conversion_writes_is_not_read() {
        let good = r#"{"scheme":"asymmetric","axis":null,"scales":[1.0],"zero_points":[1]}"#;
        assert!(parse(&json::parse(good.as_bytes()).unwrap()).is_some());
        for (from, to) in [
            ("asymmetric", "symmetric"),
            ("asymmetric", "other"),
            ("null", "-1"),
            ("null", "1.5"),
            ("[1.0]", "1.0"),
            ("[1.0]", "[0.1]"), // not an f32
            ("[1.0]", r#"["NaN"]"#),
            ("[1]", "[2147483648]"),
            ("[1]", "[0.5]"),
            ("[1]", "null"),
            (r#""axis""#, r#""axes""#),
            ("}", r#","more":1}"#),
        ] {
            let text = good.replace(from, to);
            assert!(parse(&json::parse(text.as_bytes()).unwrap()).is_none(), "{text}");
        }
    }
}
