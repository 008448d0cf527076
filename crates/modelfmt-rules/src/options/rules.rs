//! Rules that change the dtypes of tensors.

use std::fmt;
use std::str::FromStr;

use modelfmt_core::{DType, UnknownDType};

use crate::presets::{PRESETS, Preset};
use crate::wording::Choice;
use crate::wording::ParseError;
use crate::wording::{FieldNames, Words};

/// A rule of `TypeOptions::rules`: how the dtype of the tensors that it matches changes.
///
/// The text of a rule is an option of the program without its hyphens, then `[GLOB=]TYPE`.
///
/// ```
/// use modelfmt::DType;
/// use modelfmt::convert::{ConvertOptions, Preset, TypeRule};
///
/// let mut options = ConvertOptions::default();
/// options.types.rules = vec![TypeRule::quantize(Preset::Q4KM), TypeRule::cast(DType::F16).matching("*embed*")];
/// assert_eq!(options.types.rules, ["quantize q4_k_m".parse()?, "cast *embed*=float16".parse()?]);
/// # Ok::<(), modelfmt::wording::ParseError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeRule {
    /// The names of the tensors. Without it, the rule applies to all tensors that it can change.
    pub glob: Option<String>,
    /// What the rule does to them.
    pub change: TypeChange,
}

/// What a [`TypeRule`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeChange {
    /// Changes numbers to another type. "Casts" on the page of `convert` says what that does to values.
    Cast(DType),
    /// Decodes blocks to f32, f16 or bf16. Weights in small floats with scales in another tensor are multiplied by these, and the
    /// scales are left out; scales and zero points of OINF 2 are applied: see "Scales" on the page of `convert`.
    Dequantize(DType),
    /// Quantizes floats of rank 2 and more to blocks.
    Quantize(Quantization),
}

/// The target of a quantization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantization {
    /// This dtype for every tensor whose rows are whole blocks of it: blocks of 32 for q8_0, q4_0, q4_1, q5_0 and q5_1, of 256 for
    /// q2_k, q3_k, q4_k, q5_k, q6_k, iq4_nl and iq4_xs. With f32, f16 or bf16 the rule is a cast.
    Type(DType),
    /// The dtype that the preset chooses for each tensor: see "Presets" on the page of `convert`.
    Preset(Preset),
}

impl From<DType> for Quantization {
    fn from(dtype: DType) -> Self {
        Self::Type(dtype)
    }
}

impl From<Preset> for Quantization {
    fn from(preset: Preset) -> Self {
        Self::Preset(preset)
    }
}

impl fmt::Display for Quantization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Type(dtype) => dtype.fmt(f),
            Self::Preset(preset) => preset.fmt(f),
        }
    }
}

/// The block dtypes that have an encoder, as errors list them.
pub const TYPES: &str = "q8_0 q4_0 q4_1 q5_0 q5_1 q2_k q3_k q4_k q5_k q6_k iq4_nl iq4_xs";

impl TypeRule {
    /// Makes a rule that casts all floats.
    #[must_use]
    pub const fn cast(to: DType) -> Self {
        Self { glob: None, change: TypeChange::Cast(to) }
    }

    /// Makes a rule that decodes all quantized tensors.
    #[must_use]
    pub const fn dequantize(to: DType) -> Self {
        Self { glob: None, change: TypeChange::Dequantize(to) }
    }

    /// Makes a rule that quantizes all tensors that can be quantized.
    #[must_use]
    pub fn quantize(to: impl Into<Quantization>) -> Self {
        Self { glob: None, change: TypeChange::Quantize(to.into()) }
    }

    /// Limits the rule to the tensors whose names match `glob`.
    #[must_use]
    pub fn matching(self, glob: impl Into<String>) -> Self {
        Self { glob: Some(glob.into()), ..self }
    }

    /// Parses `[GLOB=]DTYPE`, a cast.
    ///
    /// # Errors
    /// [`ParseError`] if there is no such dtype.
    pub fn parse_cast(text: &str) -> Result<Self, ParseError> {
        let (glob, dtype) = split(text);
        let change = dtype.parse().map(TypeChange::Cast).map_err(|unknown| match dtype.parse() {
            Ok(preset) => preset_for_cast(preset),
            Err(_) => unknown_dtype(&unknown),
        });
        Ok(Self { glob, change: change? })
    }

    /// Parses `[GLOB=]DTYPE`, a dequantization to f32, f16 or bf16.
    ///
    /// # Errors
    /// [`ParseError`] if there is no such dtype.
    pub fn parse_dequantize(text: &str) -> Result<Self, ParseError> {
        let (glob, dtype) = split(text);
        Ok(Self {
            glob,
            change: TypeChange::Dequantize(dtype.parse().map_err(|unknown| unknown_dtype(&unknown))?),
        })
    }

    /// Parses `[GLOB=]TYPE` or `[GLOB=]PRESET`, a quantization.
    ///
    /// # Errors
    /// [`ParseError`] if there is no such dtype or preset.
    pub fn parse_quantize(text: &str) -> Result<Self, ParseError> {
        let (glob, to) = split(text);
        let dtype = to.parse().map(Quantization::Type);
        let to = dtype.or_else(|_: UnknownDType| to.parse().map(Quantization::Preset));
        let unknown = |_: ParseError| {
            let why = "no such type and no such preset; there are the types";
            ParseError::new(format!("{why} {TYPES}, and the presets {PRESETS}"))
        };
        Ok(Self { glob, change: TypeChange::Quantize(to.map_err(unknown)?) })
    }

    /// Returns the option that this rule belongs to.
    #[must_use]
    pub const fn choice(&self) -> Choice {
        match self.change {
            TypeChange::Cast(_) => Choice::Cast,
            TypeChange::Dequantize(_) => Choice::Dequantize,
            TypeChange::Quantize(_) => Choice::Quantize,
        }
    }

    /// Returns the rule as an option of a program, such as `--cast '*embed*=f16'`.
    #[must_use]
    pub fn in_words(&self, words: &dyn Words) -> String {
        let to = match self.change {
            TypeChange::Cast(dtype) | TypeChange::Dequantize(dtype) => dtype.to_string(),
            TypeChange::Quantize(to) => to.to_string(),
        };
        let choice = words.choice(self.choice());
        match &self.glob {
            None => format!("{choice} {to}"),
            Some(glob) if choice.starts_with('-') => format!("{choice} '{glob}={to}'"),
            Some(glob) => format!("{choice} {glob}={to}"),
        }
    }

    /// Returns what the rule does. Quantizing to f32, f16 or bf16 is a cast.
    pub const fn effective(&self) -> TypeChange {
        match self.change {
            TypeChange::Quantize(Quantization::Type(dtype)) if is_plain(dtype) => TypeChange::Cast(dtype),
            change => change,
        }
    }

    /// Returns the target of the quantization, if the rule quantizes to blocks.
    pub const fn blocks(&self) -> Option<Quantization> {
        match self.effective() {
            TypeChange::Quantize(to) => Some(to),
            _ => None,
        }
    }
}

/// Checks whether a dtype is one of the floats that `quantize` also accepts, like llama.cpp's own tool.
pub const fn is_plain(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::BF16)
}

/// Splits `[GLOB=]REST` at the last `=`: a name may contain `=`, a dtype does not.
fn split(text: &str) -> (Option<String>, &str) {
    match text.rsplit_once('=') {
        Some((glob, rest)) => (Some(glob.to_owned()), rest),
        None => (None, text),
    }
}

impl fmt::Display for TypeRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.in_words(&FieldNames))
    }
}

impl FromStr for TypeRule {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text.split_once(' ') {
            Some(("cast", rule)) => Self::parse_cast(rule),
            Some(("dequantize", rule)) => Self::parse_dequantize(rule),
            Some(("quantize", rule)) => Self::parse_quantize(rule),
            _ => Err(ParseError::new(
                "a rule begins with cast, dequantize or quantize, as in \"cast *.weight=f16\"",
            )),
        }
    }
}

fn unknown_dtype(unknown: &UnknownDType) -> ParseError {
    ParseError::new(unknown.to_string())
}

/// Returns the error for a cast to a preset.
fn preset_for_cast(preset: Preset) -> ParseError {
    let why = format!("{preset} is a preset of blocks, and a cast is for numbers");
    ParseError::new(why).with_instead(Choice::Quantize, preset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_text_and_back() {
        for text in
            ["cast f16", "cast *.weight=bf16", "dequantize x=y=f32", "quantize q4_k", "quantize *=q5_k_m"]
        {
            let rule: TypeRule = text.parse().unwrap();
            assert_eq!(rule.to_string(), text);
        }
        let rule: TypeRule = "cast x=y=half".parse().unwrap();
        assert_eq!((rule.glob.as_deref(), rule.change), (Some("x=y"), TypeChange::Cast(DType::F16)));
        for wrong in ["", "f16", "cast", "cast f17", "quantise q4_k", "quantize q4_k_l", "dequantize q4_k_m"]
        {
            assert!(wrong.parse::<TypeRule>().is_err(), "{wrong}");
        }
        let preset = "cast *=q4_k_m".parse::<TypeRule>().unwrap_err().to_string();
        assert!(preset.ends_with("use quantize q4_k_m"), "{preset}");
    }
}
