//! Quantization presets: the dtype that llama.cpp gives each tensor of a model.
//!
//! The rules are those of `llama-quantize`, from `src/llama-quant.cpp` of llama.cpp in the package
//! `llama-cpp-python` 0.3.36. docs/PRESETS.md has them as tables.

mod family;
mod names;
mod rules;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use modelfmt_core::DType;

use family::Family;
use names::Canonical;
use rules::Rules;

use crate::wording::ParseError;

/// A choice of dtypes for all tensors of a model, with the name that llama.cpp uses.
///
/// ```
/// use modelfmt::convert::Preset;
///
/// assert_eq!("Q4_K_M".parse(), Ok(Preset::Q4KM));
/// assert_eq!(Preset::Q8_0.to_string(), "mostly_q8_0");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Preset {
    /// Mostly q4_0.
    Q4_0,
    /// Mostly q4_1.
    Q4_1,
    /// Mostly q5_0.
    Q5_0,
    /// Mostly q5_1.
    Q5_1,
    /// Mostly q8_0.
    Q8_0,
    /// q4_k, with q5_k in the first layers.
    Q4KS,
    /// q4_k, with q6_k for half of the most sensitive tensors.
    Q4KM,
    /// q5_k.
    Q5KS,
    /// q5_k, with q6_k for half of the most sensitive tensors.
    Q5KM,
    /// q6_k.
    Q6K,
    /// q2_k, with q3_k and q4_k for the more sensitive tensors.
    Q2K,
    /// q2_k, with q4_k for few tensors. It needs an importance matrix.
    Q2KS,
    /// q3_k.
    Q3KS,
    /// q3_k, with q4_k and q5_k for the more sensitive tensors.
    Q3KM,
    /// q3_k, with q5_k for the more sensitive tensors.
    Q3KL,
    /// iq4_nl, with q5_k for few tensors.
    Iq4Nl,
    /// iq4_xs, with q5_k for few tensors.
    Iq4Xs,
}

impl Preset {
    /// All presets.
    pub const ALL: &[Self] = &[
        Self::Q2KS,
        Self::Q3KS,
        Self::Q3KM,
        Self::Q3KL,
        Self::Q4KS,
        Self::Q4KM,
        Self::Q5KS,
        Self::Q5KM,
        Self::Q6K,
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q5_1,
        Self::Q8_0,
        Self::Q2K,
        Self::Iq4Nl,
        Self::Iq4Xs,
    ];

    /// Returns the name of the preset. If llama.cpp's name is also the name of a dtype, the preset has the
    /// prefix `mostly_`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Q4_0 => "mostly_q4_0",
            Self::Q4_1 => "mostly_q4_1",
            Self::Q5_0 => "mostly_q5_0",
            Self::Q5_1 => "mostly_q5_1",
            Self::Q8_0 => "mostly_q8_0",
            Self::Q4KS => "q4_k_s",
            Self::Q4KM => "q4_k_m",
            Self::Q5KS => "q5_k_s",
            Self::Q5KM => "q5_k_m",
            Self::Q6K => "mostly_q6_k",
            Self::Q2K => "mostly_q2_k",
            Self::Q2KS => "q2_k_s",
            Self::Q3KS => "q3_k_s",
            Self::Q3KM => "q3_k_m",
            Self::Q3KL => "q3_k_l",
            Self::Iq4Nl => "mostly_iq4_nl",
            Self::Iq4Xs => "mostly_iq4_xs",
        }
    }

    /// Returns the dtype that most tensors get.
    #[must_use]
    pub const fn base(self) -> DType {
        match self {
            Self::Q4_0 => DType::Q4_0,
            Self::Q4_1 => DType::Q4_1,
            Self::Q5_0 => DType::Q5_0,
            Self::Q5_1 => DType::Q5_1,
            Self::Q8_0 => DType::Q8_0,
            Self::Q4KS | Self::Q4KM => DType::Q4K,
            Self::Q5KS | Self::Q5KM => DType::Q5K,
            Self::Q6K => DType::Q6K,
            Self::Q2K | Self::Q2KS => DType::Q2K,
            Self::Q3KS | Self::Q3KM | Self::Q3KL => DType::Q3K,
            Self::Iq4Nl => DType::Iq4Nl,
            Self::Iq4Xs => DType::Iq4Xs,
        }
    }

    /// Returns llama.cpp's number of the preset (`llama_ftype`), which GGUF stores in `general.file_type`.
    #[must_use]
    pub const fn file_type(self) -> u32 {
        match self {
            Self::Q4_0 => 2,
            Self::Q4_1 => 3,
            Self::Q8_0 => 7,
            Self::Q5_0 => 8,
            Self::Q5_1 => 9,
            Self::Q4KS => 14,
            Self::Q4KM => 15,
            Self::Q5KS => 16,
            Self::Q5KM => 17,
            Self::Q6K => 18,
            Self::Q2K => 10,
            Self::Q3KS => 11,
            Self::Q3KM => 12,
            Self::Q3KL => 13,
            Self::Q2KS => 21,
            Self::Iq4Nl => 25,
            Self::Iq4Xs => 30,
        }
    }

    /// Returns the dtypes of the tensors that the preset quantizes, by name. Tensors that are not in the map
    /// stay as they are.
    ///
    /// `tensors` are the names and shapes of all tensors of the model: the dtype of one tensor depends on the others.
    pub fn types<'a>(
        self,
        about: About<'_>,
        tensors: impl Iterator<Item = (&'a str, &'a [u64])>,
    ) -> Result<HashMap<&'a str, DType>, Unknown> {
        let family = Family::of(about.architecture);
        if family == Family::Glm5Next {
            return Err(Unknown::Architecture);
        }
        let mut tensors: Vec<Tensor<'a>> =
            tensors.map(|(name, shape)| Tensor { name, shape, canonical: Canonical::of(name) }).collect();
        if !tensors.iter().any(|tensor| rules::is_known(&tensor.canonical.name)) {
            return Err(Unknown::Names);
        }
        // Some rules count the tensors that came before, in llama.cpp's order.
        tensors.sort_by(|a, b| a.canonical.order().cmp(&b.canonical.order()));
        let mut rules = Rules::new(self, family, about, &tensors);
        Ok(tensors.iter().filter_map(|tensor| Some((tensor.name, rules.dtype(tensor)?))).collect())
    }
}

impl Preset {
    /// Checks whether llama.cpp refuses to give a tensor this dtype if the importance of its columns is not
    /// known.
    #[must_use]
    pub fn needs_importance(self, name: &str, dtype: DType) -> bool {
        let name = Canonical::of(name).name;
        self == Self::Q2KS && dtype == DType::Q2K && !matches!(&*name, "token_embd.weight" | "output.weight")
    }
}

/// Facts about a model that the rules use, besides its tensors.
#[derive(Clone, Copy, Debug, Default)]
pub struct About<'a> {
    /// The architecture, under its name in GGUF or Hugging Face.
    pub architecture: Option<&'a str>,
    /// The number of query heads that share each key head in the first layer, if the metadata states it.
    /// Otherwise it is derived from the tensors.
    pub heads_per_key: Option<u64>,
    /// Whether the importance of columns is known.
    pub has_importance: bool,
}

/// Returns GGUF's name of a tensor, and the number of the expert if GGUF has one tensor for all experts.
#[must_use]
pub fn gguf_name(name: &str) -> (std::borrow::Cow<'_, str>, Option<u64>) {
    let Canonical { name, expert } = Canonical::of(name);
    (name, expert)
}

/// Checks whether llama.cpp has another name for the tensor with this Hugging Face name.
pub fn has_other_name(name: &str) -> bool {
    Canonical::of(name).name != name
}

/// A tensor as the rules see it.
struct Tensor<'a> {
    name: &'a str,
    shape: &'a [u64],
    canonical: Canonical<'a>,
}

/// Why a preset cannot choose dtypes for a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// No tensor has a name that the rules know.
    Names,
    /// The architecture has rules of its own that this crate does not implement.
    Architecture,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Names => {
                "it chooses types by the names of tensors, and no tensor has a name that it knows, such as \"blk.0.attn_v.weight\" or \
                 \"model.layers.0.self_attn.v_proj.weight\""
            }
            Self::Architecture => "llama.cpp chooses by other rules for glm5-next, which are not known here",
        })
    }
}

/// The names of presets, as errors list them.
pub(crate) const PRESETS: &str = "q2_k_s q3_k_s q3_k_m q3_k_l q4_k_s q4_k_m q5_k_s q5_k_m, and with mostly_ before it q4_0 q4_1 q5_0 q5_1 q8_0 q2_k q6_k iq4_nl iq4_xs";

impl FromStr for Preset {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let text = text.to_ascii_lowercase();
        let is_named = |preset: &&Self| {
            let name = preset.name();
            // GGUF's own list of file types has the prefix `mostly_` before each of them.
            name == text || text.strip_prefix("mostly_").is_some_and(|rest| rest == name)
        };
        let unknown = || ParseError::new(format!("no such preset; there are {PRESETS}"));
        Self::ALL.iter().find(is_named).copied().ok_or_else(unknown)
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
