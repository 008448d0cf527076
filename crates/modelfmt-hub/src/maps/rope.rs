//! Scaled rotations: keys for llama.cpp, and tensors of factors.

use modelfmt_value::{Object, Value};
use tensor_program::Program;

use super::Map;
use super::apply::{MadeTensor, Mapped};
use super::file::RopeScaling;
use crate::number::rounded;
use crate::{Config, Key, MapError};

/// The type that configs state for no scaling.
const NONE: &str = "default";

impl Map {
    /// Fails for a config that contradicts itself about rotations, or says something that is not understood.
    pub(super) fn check_rope(config: &Config) -> Result<(), MapError> {
        const THETA: &str = "rope_theta";
        for path in [THETA, "rope_local_base_freq"] {
            if config.get(path).is_some() {
                number(config, path)?;
            }
        }
        let written = config.written();
        let newer = written.get("rope_parameters").unwrap_or(&Value::Null);
        let newer = newer.get("full_attention").unwrap_or(newer).get(THETA).filter(|theta| !theta.is_null());
        let older = written.get(THETA).filter(|theta| !theta.is_null());
        if let (Some(older), Some(newer)) = (older, newer)
            && older.as_f64() != newer.as_f64()
        {
            let text = |value| modelfmt_value::json::to_string(value).unwrap_or_default();
            return Err(MapError::Unsupported {
                path: THETA.to_owned(),
                found: text(older),
                why: format!(
                    "`rope_parameters.{THETA}` is {}; which of them holds is not known",
                    text(newer)
                ),
            });
        }
        for path in ["rope_parameters", "rope_scaling"] {
            let Some(value) = config.get(path) else { continue };
            let Value::Object(scaling) = value else { return Err(wrong(path, value, "an object")) };
            check_kind(path, scaling)?;
        }
        Ok(())
    }

    /// Adds the keys and tensors of the config's rope scaling.
    pub(super) fn scale_rope(&self, config: &Config, mapped: &mut Mapped) -> Result<(), MapError> {
        let path = if config.get("rope_scaling.rope_type").is_some() {
            "rope_scaling.rope_type"
        } else {
            "rope_scaling.type"
        };
        let found = match config.get(path) {
            None => return Ok(()),
            Some(Value::String(found)) => found.as_str(),
            Some(other) => return Err(wrong(path, other, "a text")),
        };
        if found == NONE {
            return Ok(());
        }
        let known = RopeScaling::from_name(found);
        let Some(kind) = known.filter(|kind| self.file.rope_scaling.contains(kind)) else {
            return Err(MapError::Unsupported {
                path: path.to_owned(),
                found: format!("{found:?}"),
                why: format!("the map {} has no counterpart of it", self.name()),
            });
        };
        let mut key =
            |key: &str, value: Key| mapped.keys.push((format!("{}.{key}", self.architecture()), value));
        match kind {
            RopeScaling::Linear => {
                key("rope.scaling.type", Key::Text("linear".to_owned()));
                key("rope.scaling.factor", Key::F32(rounded(number(config, "rope_scaling.factor")?)));
            }
            RopeScaling::Yarn => yarn(config, key)?,
            RopeScaling::Llama3 => mapped.tensors.push(made("rope_freqs.weight", llama3(config)?)),
            RopeScaling::LongRope => {
                key("rope.scaling.attn_factor", Key::F32(attention_factor(config)?));
                for (name, path) in [
                    ("rope_factors_long.weight", "rope_scaling.long_factor"),
                    ("rope_factors_short.weight", "rope_scaling.short_factor"),
                ] {
                    mapped.tensors.push(made(name, numbers(config, path)?));
                }
            }
        }
        Ok(())
    }
}

fn made(name: &str, values: Vec<f32>) -> MadeTensor {
    MadeTensor { name: name.to_owned(), program: Program::constant(values), is_f32: true }
}

fn wrong(path: &str, value: &Value, wants: &'static str) -> MapError {
    MapError::Wrong { path: path.to_owned(), found: value.kind(), wants }
}

/// Returns the number at a path, which must be above 0, also as an `f32`.
fn number(config: &Config, path: &str) -> Result<f64, MapError> {
    let value = config.get(path).ok_or_else(|| MapError::Missing { path: path.to_owned() })?;
    let number = value.as_f64().ok_or_else(|| wrong(path, value, "a number"))?;
    if is_positive(rounded(number)) { Ok(number) } else { Err(not_positive(path, number)) }
}

fn is_positive(number: f32) -> bool {
    number.is_finite() && number > 0.0
}

fn not_positive(path: &str, number: f64) -> MapError {
    MapError::Unsupported {
        path: path.to_owned(),
        found: number.to_string(),
        why: "rotations need a number above 0 that fits in f32".to_owned(),
    }
}

/// Rounds a factor that is computed from values of `rope_scaling`, and fails if it is not above 0.
fn computed(path: &str, number: f64) -> Result<f32, MapError> {
    let found = rounded(number);
    if is_positive(found) { Ok(found) } else { Err(not_positive(path, number)) }
}

/// Fails for a scaling without a type.
fn check_kind(path: &str, scaling: &Object) -> Result<(), MapError> {
    /// Keys that are not about scaling, and the names of kinds of layers.
    const OTHERS: [&str; 5] = [
        "rope_theta",
        "partial_rotary_factor",
        "original_max_position_embeddings",
        "full_attention",
        "sliding_attention",
    ];
    let has = |key: &str| scaling.get(key).is_some_and(|value| !value.is_null());
    let other = scaling.keys().find(|key| has(key) && !OTHERS.contains(key));
    match other {
        Some(other) if !has("rope_type") && !has("type") => Err(MapError::Unsupported {
            path: format!("{path}.{other}"),
            found: scaling
                .get(other)
                .and_then(|value| modelfmt_value::json::to_string(value).ok())
                .unwrap_or_default(),
            why: format!("`{path}` has no `rope_type`, which says what is computed"),
        }),
        _ => Ok(()),
    }
}

/// Adds the keys of YaRN. llama.cpp reads some of its values for some architectures only, so they must be
/// llama.cpp's own.
fn yarn(config: &Config, mut key: impl FnMut(&str, Key)) -> Result<(), MapError> {
    for (path, taken) in [("rope_scaling.beta_fast", 32.0), ("rope_scaling.beta_slow", 1.0)] {
        if config.get(path).is_some() && number(config, path)? != taken {
            return Err(MapError::Unsupported {
                path: path.to_owned(),
                found: number(config, path)?.to_string(),
                why: format!("llama.cpp computes with {taken} only"),
            });
        }
    }
    let path = "rope_scaling.truncate";
    if config.get(path).and_then(Value::as_bool) == Some(false) {
        return Err(MapError::Unsupported {
            path: path.to_owned(),
            found: "false".to_owned(),
            why: "llama.cpp computes with true only".to_owned(),
        });
    }
    let factor = number(config, "rope_scaling.factor")?;
    let path = "rope_scaling.original_max_position_embeddings";
    let path = if config.get(path).is_some() { path } else { "max_position_embeddings" };
    let before = config.count(path)?;
    let before = u32::try_from(before).map_err(|_| MapError::Unsupported {
        path: path.to_owned(),
        found: before.to_string(),
        why: "GGUF holds a count below 2^32".to_owned(),
    })?;
    key("rope.scaling.type", Key::Text("yarn".to_owned()));
    key("rope.scaling.factor", Key::F32(rounded(factor)));
    key("rope.scaling.original_context_length", Key::U32(before));
    let strength = |by: f64| if factor > 1.0 { 0.1 * by * libm::log(factor) + 1.0 } else { 1.0 };
    // 0 counts as no value.
    let at = |name: &str| {
        let path = format!("rope_scaling.{name}");
        match config.get(&path).filter(|by| by.as_f64() != Some(0.0)) {
            None => Ok(None),
            Some(_) => number(config, &path).map(Some),
        }
    };
    let own = match (at("attention_factor")?, at("mscale")?, at("mscale_all_dim")?) {
        (Some(own), ..) => own,
        (None, Some(by), Some(all)) => strength(by) / strength(all),
        _ => return Ok(()),
    };
    // llama.cpp multiplies its own factor by this one.
    key(
        "rope.scaling.attn_factor",
        Key::F32(computed("rope_scaling.attention_factor", own / strength(1.0))?),
    );
    Ok(())
}

/// Returns the factors of a list, as many as half the dimensions that are rotated.
fn numbers(config: &Config, path: &str) -> Result<Vec<f32>, MapError> {
    let value = config.get(path).ok_or_else(|| MapError::Missing { path: path.to_owned() })?;
    let wrong = || MapError::Wrong {
        path: path.to_owned(),
        found: value.kind(),
        wants: "a list of a number for each two dimensions that are rotated",
    };
    let items = value.as_array().ok_or_else(wrong)?;
    let count = config.count("rope_dim")? / 2;
    let found: Option<Vec<f32>> = items.iter().map(|item| Value::as_f64(&item).map(rounded)).collect();
    let found = found.filter(|found| found.len() as u64 == count).ok_or_else(wrong)?;
    match found.iter().find(|factor| !is_positive(**factor)) {
        None => Ok(found),
        Some(factor) => Err(not_positive(path, f64::from(*factor))),
    }
}

/// Returns the factor by which each frequency is divided, as in Llama 3.1 and later.
fn llama3(config: &Config) -> Result<Vec<f32>, MapError> {
    const MAX_DIM: u64 = 1 << 16;
    let at = |name: &str| number(config, &format!("rope_scaling.{name}"));
    let (factor, low, high) = (at("factor")?, at("low_freq_factor")?, at("high_freq_factor")?);
    // The context length that the factors are for. Some configs have it beside the scaling.
    let before = at("original_max_position_embeddings")?;
    let (base, dim) = (number(config, "rope_theta")?, config.count("rope_dim")?);
    if dim > MAX_DIM {
        return Err(MapError::Unsupported {
            path: "head_dim".to_owned(),
            found: dim.to_string(),
            why: format!("heads have at most {MAX_DIM} dimensions"),
        });
    }
    let factors = factors_of_llama3(factor, low, high, before, base, dim);
    match factors.iter().find(|factor| !is_positive(**factor)) {
        None => Ok(factors),
        Some(factor) => Err(not_positive("rope_scaling.factor", f64::from(*factor))),
    }
}

/// Computes the factors of `dim` dimensions that are rotated. `before` is the original context length.
pub(crate) fn factors_of_llama3(
    factor: f64,
    low: f64,
    high: f64,
    before: f64,
    base: f64,
    dim: u64,
) -> Vec<f32> {
    let factor_of = |pair: u64| {
        let wavelength = 2.0 * std::f64::consts::PI * libm::pow(base, 2.0 * pair as f64 / dim as f64);
        if wavelength < before / high {
            1.0
        } else if wavelength > before / low {
            factor
        } else {
            let smooth = (before / wavelength - low) / (high - low);
            1.0 / ((1.0 - smooth) / factor + smooth)
        }
    };
    (0..dim / 2).map(|pair| rounded(factor_of(pair))).collect()
}

/// Returns by how much longrope strengthens the attention of long contexts.
fn attention_factor(config: &Config) -> Result<f32, MapError> {
    if config.get("rope_scaling.attention_factor").is_some() {
        return Ok(rounded(number(config, "rope_scaling.attention_factor")?));
    }
    let before = config.count("original_max_position_embeddings")? as f64;
    let scale = match config.get("rope_scaling.factor") {
        Some(_) => number(config, "rope_scaling.factor")?,
        None => config.count("max_position_embeddings")? as f64 / before,
    };
    let factor = if scale <= 1.0 { 1.0 } else { (1.0 + libm::log(scale) / libm::log(before)).sqrt() };
    computed("original_max_position_embeddings", factor)
}
