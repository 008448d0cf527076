//! Restores the scaled rotations of a config from the keys and tensors of a GGUF.

use modelfmt_value::{List, Object, Value};

use super::Gguf;
use super::number::shortest;
use crate::maps::Map;
use crate::maps::file::RopeScaling;
use crate::number::{cut, rounded};

/// The tensors that are made from a config's rope scaling.
pub const FACTORS: [&str; 3] = ["rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"];

/// Adds the rope scaling that keys and tensors show exactly.
pub(crate) fn insert_scaling(map: &Map, gguf: &Gguf<'_>, config: &mut Object) {
    let key = |name: &str| gguf.keys.get(&format!("{}.rope.scaling.{name}", map.architecture()));
    let has = |kind| map.file.rope_scaling.contains(&kind);
    let numbers = |name: &str| -> Option<List> {
        Some(gguf.factors.get(name)?.iter().map(|x| Value::Float(shortest(*x))).collect())
    };
    let mut scaling = Object::new();
    if let (Some(long), Some(short)) =
        (numbers("rope_factors_long.weight"), numbers("rope_factors_short.weight"))
        && has(RopeScaling::LongRope)
    {
        scaling.insert("rope_type", "longrope");
        scaling.insert("long_factor", Value::Array(long));
        scaling.insert("short_factor", Value::Array(short));
    } else if let Some(kind) = key("type").and_then(Value::as_str)
        && let known @ Some(RopeScaling::Linear | RopeScaling::Yarn) = RopeScaling::from_name(kind)
        && known.is_some_and(has)
    {
        scaling.insert("rope_type", kind);
        if let Some(factor) = key("factor").and_then(Value::as_f64) {
            scaling.insert("factor", Value::Float(shortest(rounded(factor))));
        }
        if let Some(before) = key("original_context_length").filter(|_| known == Some(RopeScaling::Yarn)) {
            scaling.insert("original_max_position_embeddings", before.clone());
        }
    }
    if !scaling.is_empty() {
        config.insert("rope_scaling", scaling);
    }
}

/// Returns the parameters of Llama 3's scaling that give these factors, if the low one is 1 as in all
/// published models. `base` is `rope_theta`. There is a factor for each two dimensions that are rotated.
pub(crate) fn solve_llama3(factors: &[f32], base: f64) -> Option<Object> {
    let factor = f64::from(*factors.iter().max_by(|a, b| a.total_cmp(b))?);
    if factors.iter().any(|x| !(1.0..1e6).contains(x)) || factor <= 1.0 || !(base > 1.0 && base.is_finite()) {
        return None;
    }
    // Between the two limits, a linear function of the frequency smooths from `factor` to 1.
    let smooth = |factor_of: f64| (1.0 / factor_of - 1.0 / factor) / (1.0 - 1.0 / factor);
    let frequency = |pair: usize| {
        libm::pow(base, -2.0 * pair as f64 / (2.0 * factors.len() as f64)) / (2.0 * std::f64::consts::PI)
    };
    let between: Vec<(f64, f64)> = factors
        .iter()
        .enumerate()
        .filter(|(_, x)| **x > 1.0 && f64::from(**x) < factor)
        .map(|(pair, x)| (frequency(pair), smooth(f64::from(*x))))
        .collect();
    let (first, last) = (between.first()?, between.last()?);
    let slope = (first.1 - last.1) / (first.0 - last.0);
    let offset = first.1 - slope * first.0;
    let width = -1.0 / offset;
    let (high, before) = ((1.0 + width).round(), (slope * width).round());
    if !(high > 1.0 && high < 1e6 && (1.0..1e9).contains(&before)) {
        return None;
    }
    Some(Object::from_iter([
        ("rope_type", Value::from("llama3")),
        ("factor", Value::Float(shortest(rounded(factor)))),
        ("low_freq_factor", Value::Float(1.0)),
        ("high_freq_factor", Value::Float(high)),
        ("original_max_position_embeddings", Value::from(cut(1, before))),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::rope::factors_of_llama3;

    #[test]
    fn published_parameters_are_found() {
        for (factor, high, before, base, pairs) in [
            (8.0, 4.0, 8192.0, 500_000.0, 64),
            (32.0, 4.0, 8192.0, 500_000.0, 32),
            (8.0, 4.0, 8192.0, 500_000.0, 64),
        ] {
            let factors = factors_of_llama3(factor, 1.0, high, before, base, pairs * 2);
            let solved = solve_llama3(&factors, base).unwrap();
            let at = |key: &str| solved.get(key).and_then(Value::as_f64).unwrap();
            assert_eq!(
                [at("factor"), at("high_freq_factor"), at("original_max_position_embeddings")],
                [factor, high, before]
            );
        }
    }

    #[test]
    fn factors_of_others_are_not_solved() {
        for factors in
            [&[][..], &[1.0, 1.0], &[f32::NAN, 2.0], &[1.0, 8.0], &[0.5, 3.0, 8.0], &[1.0, f32::INFINITY]]
        {
            assert_eq!(solve_llama3(factors, 1e4), None, "{factors:?}");
        }
        assert_eq!(solve_llama3(&[1.0, 2.0, 8.0], f64::NAN), None);
    }
}
