//! Facts about a model: its family, its size, and its purpose.
//!
//! They come from the metadata of the file, otherwise from a config.json or adapter_config.json next to the
//! file, otherwise from the names of tensors.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use modelfmt_core::value::{Object, Value};
use modelfmt_core::{DType, TensorInfo};
use modelfmt_metadata::schemes::{self, Schemes};
use modelfmt_model::formats::capabilities::Metadata as MetadataKind;
use modelfmt_model::model::Model;
use serde::ser::{Serialize, SerializeMap, Serializer};

/// Facts about a model, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelFacts {
    /// The family, as the file or its config.json names it, such as `qwen3`.
    pub family: Option<String>,
    /// The number of floats and of elements of blocks. `None` if most of a model are integers, because an
    /// integer may hold several weights.
    pub parameters: Option<u64>,
    /// The number of layers.
    pub layers: Option<u64>,
    /// The size of the hidden state.
    pub hidden: Option<u64>,
    /// The number of tokens in the vocabulary.
    pub vocabulary: Option<u64>,
    /// Whether there is a tokenizer, in the file or next to it.
    has_tokenizer: bool,
    /// Whether the output shares its weights with the embeddings.
    pub tied: Option<bool>,
    /// The purpose of the model.
    pub kind: ModelKind,
    /// The scheme of most parameters, if most parameters are in weights that are stored as several tensors.
    pub scheme: Option<String>,
    /// The dtype of most parameters.
    pub dtype: Option<DType>,
    /// The family as people usually write it.
    title: Option<String>,
    /// The rank of an adapter, and the model that the adapter is for.
    adapter: (Option<u64>, Option<String>),
}

/// The purpose of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelKind {
    /// A model of a known family.
    Model,
    /// An addition to the weights of another model, such as LoRA.
    Adapter,
    /// A model that turns texts into vectors.
    Embedding,
    /// Something else, or unknown.
    #[default]
    Other,
}

impl ModelKind {
    /// Returns the name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Adapter => "adapter",
            Self::Embedding => "embedding",
            Self::Other => "other",
        }
    }
}

/// Families of models that turn texts into vectors.
const EMBEDDING: [&str; 10] = [
    "bert",
    "distilbert",
    "jina-bert-v2",
    "modernbert",
    "mpnet",
    "new",
    "nomic-bert",
    "nomic_bert",
    "roberta",
    "xlm-roberta",
];
const LAYERS: [&str; 5] = ["num_hidden_layers", "num_layers", "n_layer", "n_layers", "block_count"];
const HIDDEN: [&str; 5] = ["hidden_size", "n_embd", "d_model", "hidden_dim", "embedding_length"];
const VOCABULARY: [&str; 2] = ["vocab_size", "n_vocab"];
/// The files of a tokenizer, each with a vocabulary.
const TOKENIZER: [&str; 5] = ["tokenizer.json", "tokenizer.model", "spiece.model", "vocab.json", "vocab.txt"];
/// Objects in metadata that describe the model.
const NESTED: [&str; 5] = ["architecture", "text_config", "llm_config", "model_config", "config"];
/// Parts of the names of an adapter's tensors.
const ADAPTER: [&str; 5] = [".lora_A.", ".lora_B.", ".lora_a", ".lora_b", "lora_down."];

/// Returns false: in WebAssembly, files next to the model are unknown.
#[cfg(target_arch = "wasm32")]
const fn is_beside(_: &Model, _: &str) -> bool {
    false
}

/// Checks whether a file is next to the model.
#[cfg(not(target_arch = "wasm32"))]
fn is_beside(model: &Model, name: &str) -> bool {
    !model.sidecars().ignores(name) && model.sidecars().open(name).is_ok_and(|file| file.is_some())
}

impl ModelFacts {
    /// Collects the facts about a model. No values are read.
    #[must_use]
    pub fn of(model: &Model) -> Self {
        Self::with(model, &Schemes::find(model, false).unwrap_or_default())
    }

    /// Collects the facts about a model in which `weights` are stored as several tensors.
    pub(super) fn with(model: &Model, weights: &Schemes) -> Self {
        let (own, architecture) = keys(model);
        let stated = Statements { own, config: config(model, CONFIG) };
        let adapter = config(model, ADAPTER_CONFIG);
        let mut facts = Self {
            family: stated.family(architecture.as_deref()),
            layers: stated.count(&LAYERS),
            hidden: stated.count(&HIDDEN),
            vocabulary: stated.count(&VOCABULARY).or_else(|| stated.tokens()),
            tied: stated.flag("tie_word_embeddings"),
            has_tokenizer: stated.tokens().is_some() || TOKENIZER.iter().any(|name| is_beside(model, name)),
            ..Self::default()
        };
        facts.title = facts.family.as_deref().map(|family| stated.title(family));
        let names = Names::of(schemes::tensors(model), weights);
        facts.parameters = names.parameters();
        facts.dtype = names.dtype();
        facts.scheme = names.scheme(weights);
        let is_adapter = adapter.is_some() || stated.is_adapter() || names.are_of_adapter();
        let is_embedding = || facts.family.as_deref().is_some_and(|family| EMBEDDING.contains(&family));
        facts.kind = match facts.family {
            _ if is_adapter => ModelKind::Adapter,
            _ if is_embedding() || stated.pools() => ModelKind::Embedding,
            Some(_) => ModelKind::Model,
            None => ModelKind::Other,
        };
        if facts.kind == ModelKind::Model && facts.layers.is_some() {
            facts.tied = facts.tied.or_else(|| names.are_tied());
        }
        if let Some(adapter) = adapter {
            let base = adapter.get("base_model_name_or_path").and_then(Value::as_str);
            facts.adapter = (adapter.get("r").and_then(Value::as_u64), base.map(str::to_owned));
        }
        facts
    }

    /// Checks whether the family and something else are known, or the model is an adapter.
    #[must_use]
    pub fn is_known(&self) -> bool {
        let is_more = self.parameters.is_some() || self.layers.is_some();
        self.title.is_some() && is_more || self.kind == ModelKind::Adapter
    }

    /// Returns the first words: the family, or what an adapter is for.
    fn what(&self) -> Option<String> {
        if self.kind != ModelKind::Adapter {
            return self.title.clone();
        }
        let (rank, base) = &self.adapter;
        let rank = rank.map_or_else(String::new, |rank| format!(" r={rank}"));
        let base = base.as_ref().or(self.title.as_ref());
        Some(format!("LoRA{rank}{}", base.map_or_else(String::new, |base| format!(" for {base}"))))
    }
}

/// Prints what is known, such as `Qwen3 · 0.6B parameters · bf16 · 28 layers · tied embeddings · tokenizer of 151,936`.
impl fmt::Display for ModelFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parameters = self.parameters.map(|count| format!("{} parameters", short(count)));
        let layers = self.layers.map(|count| format!("{count} layer{}", if count == 1 { "" } else { "s" }));
        let tied = (self.tied == Some(true)).then(|| "tied embeddings".to_owned());
        let vocabulary = self.vocabulary.map(|count| {
            format!("{} of {}", if self.has_tokenizer { "tokenizer" } else { "vocabulary" }, grouped(count))
        });
        let dtype = self.scheme.clone().or_else(|| self.dtype.map(|dtype| dtype.to_string()));
        let dtype = dtype.filter(|_| self.parameters.is_some());
        let parts = [self.what(), parameters, dtype, layers, tied, vocabulary];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(" · "))
    }
}

/// Serializes the object `model` of `inspect --json`.
impl Serialize for ModelFacts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("family", &self.family)?;
        map.serialize_entry("parameters", &self.parameters)?;
        map.serialize_entry("layers", &self.layers)?;
        map.serialize_entry("hidden", &self.hidden)?;
        map.serialize_entry("vocabulary", &self.vocabulary)?;
        map.serialize_entry("tied", &self.tied)?;
        map.serialize_entry("kind", self.kind.name())?;
        if let Some(scheme) = &self.scheme {
            map.serialize_entry("scheme", scheme)?;
        }
        map.end()
    }
}

/// Formats a count as a short word: `0.6B`, `135M`, `12,288`.
fn short(count: u64) -> String {
    const MILLION: u64 = 1_000_000;
    const TENTHS: u64 = 100_000;
    /// The count from which billions are used.
    const BILLIONS: u64 = 500 * MILLION;
    let tenths = |unit: u64, letter: char| {
        let tenths = count.saturating_add(unit / 20) / (unit / 10);
        match (tenths / 10, tenths % 10) {
            (100.., _) => format!("{}{letter}", count.saturating_add(unit / 2) / unit),
            (whole, 0) => format!("{whole}{letter}"),
            (whole, tenth) => format!("{whole}.{tenth}{letter}"),
        }
    };
    match count {
        BILLIONS.. => tenths(1000 * MILLION, 'B'),
        TENTHS.. => tenths(MILLION, 'M'),
        _ => grouped(count),
    }
}

/// Formats a number with commas between groups of three digits.
pub(crate) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns the keys of the metadata, and the architecture if no key states it. If a key states it, as in
/// GGUF, the types of values are not inspected, because vocabularies are long.
pub(crate) fn keys(model: &Model) -> (Object, Option<String>) {
    if model.format().capabilities().metadata == MetadataKind::TypedLists {
        return (model.container().flat_metadata().unwrap_or_default(), None);
    }
    let common = model.common_metadata().unwrap_or_default();
    (common.keys, common.architecture)
}

pub(crate) const CONFIG: &str = "config.json";
pub(crate) const ADAPTER_CONFIG: &str = "adapter_config.json";

/// Reads a JSON object next to the model, if the file exists, is valid, and is covered by the pin or the
/// signature.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn config(model: &Model, name: &str) -> Option<Object> {
    const MAX_LEN: u64 = 1 << 20;
    const MAX_NODES: u64 = 1 << 18;
    use modelfmt_core::value::{ParseOptions, json};
    let text = modelfmt_metadata::config::file(model.sidecars(), name, MAX_LEN).ok()??;
    match json::parse_with(&text, ParseOptions::new().with_max_nodes(MAX_NODES)).ok()? {
        Value::Object(object) => Some(object),
        _ => None,
    }
}

#[cfg(target_arch = "wasm32")]
pub(crate) fn config(_: &Model, _: &str) -> Option<Object> {
    None
}

/// The metadata of the file, and the config.json next to it.
struct Statements {
    own: Object,
    config: Option<Object>,
}

impl Statements {
    /// Returns the objects that state something, the most trusted first.
    fn objects(&self) -> impl Iterator<Item = &Object> {
        [Some(&self.own), self.config.as_ref()].into_iter().flatten().flat_map(|object| {
            let nested = NESTED.iter().filter_map(|key| object.get(key)?.as_object());
            std::iter::once(object).chain(nested)
        })
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.objects().find_map(|object| object.get(key)?.as_str()).filter(|text| is_name(text))
    }

    fn family(&self, stated: Option<&str>) -> Option<String> {
        let is_known = |name: &&str| is_name(name) && !["none", "unknown"].contains(name);
        let first = || {
            let names = self.config.as_ref()?.get("architectures")?.as_array()?;
            Some(stem(names.get(0)?.as_str()?).to_owned())
        };
        let keys = ["general.architecture", "model_type", "architecture", "_class_name"];
        let stated = stated.filter(is_known);
        let from_keys = keys.iter().filter_map(|key| self.text(key)).find(is_known);
        stated.or(from_keys).map(str::to_owned).or_else(first)
    }

    /// Returns the family as its library writes it, otherwise with a capital first letter.
    fn title(&self, family: &str) -> String {
        let plain = |text: &str| -> String {
            text.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
        };
        let names = self.config.as_ref().and_then(|config| config.get("architectures")?.as_array());
        let written =
            names.and_then(|names| names.get(0)).and_then(|name| Some(stem(name.as_str()?).to_owned()));
        if let Some(written) = written.filter(|written| plain(written) == plain(family)) {
            return written;
        }
        let mut letters = family.chars();
        letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
    }

    fn count(&self, keys: &[&str]) -> Option<u64> {
        let own = self.text("general.architecture");
        let of_family = |key: &&str| self.own.get(&format!("{}.{key}", own?))?.as_u64();
        let found = keys.iter().find_map(of_family);
        found.or_else(|| {
            self.objects().find_map(|object| keys.iter().find_map(|key| object.get(key)?.as_u64()))
        })
    }

    fn flag(&self, key: &str) -> Option<bool> {
        self.objects().find_map(|object| object.get(key)?.as_bool())
    }

    /// Returns the number of tokens that a GGUF lists.
    fn tokens(&self) -> Option<u64> {
        Some(self.own.get("tokenizer.ggml.tokens")?.as_array()?.len() as u64)
    }

    fn is_adapter(&self) -> bool {
        self.own.get("general.type").and_then(Value::as_str) == Some("adapter")
    }

    /// Checks whether a GGUF states how the vectors of tokens are pooled into one.
    fn pools(&self) -> bool {
        let architecture = self.own.get("general.architecture").and_then(Value::as_str);
        architecture.is_some_and(|name| self.own.get(&format!("{name}.pooling_type")).is_some())
    }
}

/// Removes the purpose from the name of a transformers class: `Qwen3` from `Qwen3ForCausalLM`.
fn stem(class: &str) -> &str {
    let cut = ["For", "LMHead", "Model"].iter().filter_map(|end| class.find(end)).filter(|at| *at > 0).min();
    cut.and_then(|at| class.get(..at)).unwrap_or(class)
}

fn is_name(text: &str) -> bool {
    const MAX_LEN: usize = 64;
    !text.is_empty() && text.len() <= MAX_LEN && !text.chars().any(char::is_control)
}

/// Facts that follow from the tensors.
#[derive(Default)]
struct Names {
    /// The number of elements for each dtype of floats and blocks.
    parameters: BTreeMap<DType, u64>,
    /// The number of elements of weights that are stored as several tensors.
    stored: u64,
    /// The number of integers.
    integers: u64,
    tensors: u64,
    of_adapter: u64,
    has_embeddings: bool,
    has_output: bool,
}

impl Names {
    fn of<'t>(tensors: impl Iterator<Item = (usize, TensorInfo<'t>)>, weights: &Schemes) -> Self {
        const EMBEDDINGS: [&str; 4] =
            ["embed_tokens.weight", "token_embd.weight", "wte.weight", "embed_in.weight"];
        const OUTPUTS: [&str; 3] = ["lm_head.weight", "output.weight", "embed_out.weight"];
        let mut found = Self::default();
        let parts: BTreeSet<usize> = weights
            .weights
            .iter()
            .flat_map(|weight| weight.parts().chain(weight.activation_tensors()))
            .collect();
        for weight in &weights.weights {
            let elements = weight.shape.as_deref().and_then(modelfmt_core::element_count);
            found.stored = found.stored.saturating_add(elements.unwrap_or(0));
        }
        for (position, info) in tensors {
            found.tensors = found.tensors.saturating_add(1);
            match info.dtype {
                _ if parts.contains(&position) => {}
                dtype if dtype.is_float() || dtype.is_quantized() => {
                    let sum = found.parameters.entry(dtype).or_default();
                    *sum = sum.saturating_add(info.elements());
                }
                _ => found.integers = found.integers.saturating_add(info.elements()),
            }
            let is_end = |end: &&str| {
                info.name.strip_suffix(*end).is_some_and(|before| before.is_empty() || before.ends_with('.'))
            };
            let ends = |ends: &[&str]| ends.iter().any(is_end);
            found.has_embeddings |= ends(&EMBEDDINGS);
            // Names of layers can end like the names of the model's output.
            found.has_output |= ends(&OUTPUTS) && !info.name.contains("layer") && !info.name.contains("blk.");
            let is_of_adapter = ADAPTER.iter().any(|part| info.name.contains(part));
            found.of_adapter = found.of_adapter.saturating_add(u64::from(is_of_adapter));
        }
        found
    }

    fn parameters(&self) -> Option<u64> {
        let sum = self.parameters.values().copied().fold(self.stored, u64::saturating_add);
        (sum > 0 && self.integers < sum).then_some(sum)
    }

    /// Returns the dtype of most parameters. If several have the same number, the first in the order of
    /// dtypes.
    fn dtype(&self) -> Option<DType> {
        let most = self.parameters.iter().rev().max_by_key(|(_, count)| **count);
        most.map(|(dtype, _)| *dtype)
    }

    /// Returns the most frequent scheme of the weights that are stored as several tensors, if they have most
    /// of the parameters.
    fn scheme(&self, weights: &Schemes) -> Option<String> {
        let others = self.parameters.values().copied().fold(0, u64::saturating_add);
        let kinds = weights.kinds().into_iter().filter(|_| self.stored > others);
        kinds.max_by_key(|(_, count)| *count).map(|(text, _)| text)
    }

    const fn are_of_adapter(&self) -> bool {
        self.of_adapter > self.tensors / 2
    }

    fn are_tied(&self) -> Option<bool> {
        self.has_embeddings.then_some(!self.has_output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_short() {
        for (count, text) in [
            (0, "0"),
            (12_288, "12,288"),
            (99_999, "99,999"),
            (134_515_008, "135M"),
            (22_713_216, "22.7M"),
            (596_049_920, "0.6B"),
            (6_738_415_616, "6.7B"),
            (69_997_000_000, "70B"),
            (405_853_388_800, "406B"),
            (u64::MAX, "18446744073B"),
        ] {
            assert_eq!(short(count), text);
        }
    }

    #[test]
    fn classes_name_their_family() {
        for (class, family) in [
            ("Qwen3ForCausalLM", "Qwen3"),
            ("GPT2LMHeadModel", "GPT2"),
            ("BertModel", "Bert"),
            ("ForX", "ForX"),
        ] {
            assert_eq!(stem(class), family);
        }
        let config =
            modelfmt_core::value::json::parse_object(br#"{"architectures": ["MiniMaxM1ForCausalLM"]}"#);
        let stated = Statements { own: Object::new(), config: config.ok() };
        assert_eq!((&*stated.title("minimax_m1"), &*stated.title("llama")), ("MiniMaxM1", "Llama"));
    }
}
