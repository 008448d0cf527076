//! Warnings of a conversion: it succeeds, but perhaps not as intended.

use std::fmt;

use modelfmt_core::author::Shortened;
use modelfmt_core::value::Object;

use modelfmt_model::formats::Format;
use modelfmt_model::formats::capabilities::Metadata as Kind;
use modelfmt_rules::options::rules::TypeRule;
use modelfmt_rules::wording::{FieldNames, Words};

/// Something that a conversion does and that you may not want.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// A type rule has no effect, because later rules decide each of its tensors.
    Overridden {
        /// The rule.
        rule: TypeRule,
        /// The number of tensors that it matches.
        tensors: u64,
        /// All rules in an order in which each has an effect, if there is one.
        order: Option<Vec<TypeRule>>,
    },
    /// A GGUF file without a tokenizer, which llama.cpp does not load.
    NoTokenizer,
    /// A GGUF file that llama.cpp does not load.
    NotForLlama {
        /// Whether the file states the architecture of the model.
        has_architecture: bool,
        /// Whether there is a config.json next to the model.
        has_config: bool,
        /// A tensor that has its Hugging Face name instead of llama.cpp's, if there is one.
        name: Option<String>,
    },
}

impl Warning {
    /// Returns a warning if llama.cpp will not load the output, unless the source is a GGUF file.
    pub(super) fn of_gguf<'n>(
        source: Format,
        target: Format,
        mut names: impl Iterator<Item = &'n str>,
        (keys, has_config): (&Object, bool),
    ) -> Option<Self> {
        let is_gguf = |format: Format| format.capabilities().metadata == Kind::TypedLists;
        if !is_gguf(target) || is_gguf(source) {
            return None;
        }
        let name = names.find(|name| modelfmt_rules::presets::has_other_name(name)).map(str::to_owned);
        let has_architecture = keys.contains_key("general.architecture");
        (!has_architecture || name.is_some()).then_some(Self::NotForLlama {
            has_architecture,
            has_config,
            name,
        })
    }

    /// Returns the warning as one line, in the words of a program.
    #[must_use]
    pub fn in_words(&self, words: &dyn Words) -> String {
        match self {
            Self::Overridden { rule, tensors, order } => {
                let which = match tensors {
                    1 => "the 1 tensor".to_owned(),
                    count => format!("each of the {count} tensors"),
                };
                let rule = rule.in_words(words);
                let help = match order {
                    Some(order) => {
                        let separator = if rule.starts_with('-') { " " } else { ", " };
                        let rules: Vec<String> = order.iter().map(|rule| rule.in_words(words)).collect();
                        format!("the order that works, general rules first: {}", rules.join(separator))
                    }
                    None => "no order gives every rule an effect, so leave one out".to_owned(),
                };
                format!("{rule} has no effect, because a later rule decides {which} that it is for; {help}")
            }
            Self::NoTokenizer => {
                "llama.cpp will not load this GGUF file: there is no tokenizer beside the model".to_owned()
            }
            Self::NotForLlama { has_architecture, has_config, name } => {
                let name = name.as_ref().map(|name| {
                    format!("tensors have the names of Hugging Face, such as {:?}", Shortened(name))
                });
                let key = (!has_architecture).then(|| {
                    let why = match has_config {
                        true => {
                            "because the config.json beside the model has no `model_type`, or no map was used"
                        }
                        false => "which follows from `model_type` of a config.json beside the model",
                    };
                    format!("the key general.architecture is missing, {why}")
                });
                let why: Vec<String> = key.into_iter().chain(name).collect();
                let why = why.join(", and ");
                format!(
                    "llama.cpp will not load this GGUF file: {why}; names and metadata are written as they are"
                )
            }
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.in_words(&FieldNames))
    }
}
