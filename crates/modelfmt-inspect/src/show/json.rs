//! Values, statistics and histogram of tensors as JSON.

use modelfmt_core::TensorInfo;
use modelfmt_core::value::{Object, Value};
use tensor_stats::{Histogram, Stats};

use super::preview;
use super::values::Values;
use modelfmt_model::error::Result;
use modelfmt_model::values::is_numeric;

/// The maximum number of values of a part that is listed in full.
const MOST: u64 = 10_000;

/// Returns the object for a tensor. `values` are the values to show, and `stats` computes their statistics.
pub(super) fn object(
    info: &TensorInfo<'_>,
    values: &Values<'_>,
    slice: Option<String>,
    has_values: bool,
    stats: impl FnOnce() -> Result<Stats>,
) -> Result<Object> {
    let mut object = Object::new();
    let shape = |shape: &[u64]| shape.iter().copied().collect::<Value>();
    object.insert("name", info.name);
    object.insert("dtype", info.dtype.name());
    object.insert("shape", shape(info.shape));
    object.insert("has_data", info.has_data);
    let is_slice = slice.is_some();
    if let Some(slice) = slice {
        object.insert("slice", slice.as_str());
        object.insert("slice_shape", shape(values.info.shape));
    }
    let is_shown = info.has_data && values.info.elements() > 0 && is_numeric(info.dtype);
    if has_values {
        let (first, last) = if is_shown { preview::exact_ends(values)? } else { (Vec::new(), Vec::new()) };
        object.insert("first", first.into_iter().collect::<Value>());
        object.insert("last", last.into_iter().collect::<Value>());
    }
    if has_values && is_slice {
        let all = if is_shown { preview::all_of_few(values, MOST)? } else { Some(Vec::new()) };
        let is_truncated = all.is_none();
        object.insert("values", all.map(|all| all.into_iter().collect::<Value>()));
        object.insert("truncated", is_truncated);
    }
    object.insert("stats", if is_shown { of_stats(&stats()?) } else { Value::Null });
    Ok(object)
}

fn of_stats(stats: &Stats) -> Value {
    // Without finite values there is no minimum.
    let number = |number: f64| if stats.count == 0 { Value::Null } else { Value::from(number) };
    let (min, max) = match stats.exact {
        Some((min, max)) => (Value::from(min), Value::from(max)),
        None => (number(stats.min), number(stats.max)),
    };
    Value::Object(Object::from_iter([
        ("count", Value::from(stats.count)),
        ("min", min),
        ("max", max),
        ("mean", number(stats.mean)),
        ("median", number(stats.median)),
        ("std", number(stats.std)),
        ("nan", Value::from(stats.non_finite.nan)),
        ("pos_inf", Value::from(stats.non_finite.pos_inf)),
        ("neg_inf", Value::from(stats.non_finite.neg_inf)),
        ("histogram", of_histogram(&stats.histogram)),
    ]))
}

fn of_histogram(histogram: &Histogram) -> Value {
    let counted =
        |value: Value, count: u64| Object::from_iter([("value", value), ("count", Value::from(count))]);
    let bin = |(edge, &count): (&[f64], &u64)| {
        let [from, to] =
            [edge.first(), edge.last()].map(|edge| Value::from(edge.copied().unwrap_or(f64::NAN)));
        Object::from_iter([("from", from), ("to", to), ("count", Value::from(count))])
    };
    let rows: Vec<Object> = match histogram {
        Histogram::Bins { edges, counts } => edges.windows(2).zip(counts).map(bin).collect(),
        Histogram::Constant { value, count } => vec![counted(Value::from(*value), *count)],
        Histogram::Values(values) => {
            values.iter().map(|&(value, count)| counted(Value::from(value), count)).collect()
        }
        Histogram::Bools { zeros, ones } => {
            vec![counted(Value::from(false), *zeros), counted(Value::from(true), *ones)]
        }
        Histogram::Empty => Vec::new(),
    };
    rows.into_iter().map(Value::Object).collect()
}
