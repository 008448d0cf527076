//! Maps: which tensor of a family becomes which, and which key of its config becomes which key of the
//! metadata.
//!
//! A map is a TOML file:
//!
//! ```toml
//! architecture = "llama"                  # general.architecture, and the prefix of the keys below
//! families = ["llama", "mistral"]         # model_type of config.json
//! class = "LlamaForCausalLM"              # architectures, if config.json is made of a GGUF
//! layers = "num_hidden_layers"            # the key that counts {i}
//! experts = "num_experts"                 # the key that counts {e}, if there are experts
//! rope_scaling = ["linear", "llama3"]     # the kinds that llama.cpp computes for this architecture
//! full_attention_each = 6                 # the last of so many layers sees all tokens, the others a window
//! ignores_window = true                   # llama.cpp computes it without a window, and a note says so
//! pools = true                            # it embeds texts, so 1_Pooling/config.json says how
//! prefixes = ["transformer.", ""]         # beginnings that names may have
//! leave_out = ["h.{i}.attn.bias"]         # tensors that are not written
//!
//! [aliases]                               # names that keys have in other files
//! num_attention_heads = "n_head"
//!
//! [defaults]                              # what the hub's library takes where config.json is silent
//! rope_theta = 10000.0
//!
//! [require]                               # what llama.cpp computes, whatever the config says
//! norm_topk_prob = true                   # this value
//! hidden_act = ["gelu_new", "gelu_fast"]  # one of these
//! attention_bias = false                  # false, null, an empty list, or not there
//! query_pre_attn_scalar = { key = "head_dim", with_layers = 46, then = "hidden_per_head" }
//! use_qk_norm = { from_layers = 64 }      # true in models of so many layers and more, and nothing in others
//! num_decoder_layers = { at_most = "num_layers" }
//!
//! [tensors]                               # {i} is a layer, {e} an expert; experts are stacked
//! "model.embed_tokens.weight" = "token_embd.weight"
//! "lm_head.weight" = { to = "output.weight", unless = "tie_word_embeddings" }
//! "model.layers.{i}.mlp.experts.{e}.up_proj.weight" = "blk.{i}.ffn_up_exps.weight"
//! "h.{i}.attn.c_attn.weight" = { to = "blk.{i}.attn_qkv.weight", steps = ["transpose"] }
//! "h.{i}.attn.c_attn.bias" = { to = "blk.{i}.attn_qkv.bias", optional = true }
//! "model.layers.{i}.self_attn.q_proj.bias" = { to = "blk.{i}.attn_q.bias", when = "attention_bias" }
//!
//! [shapes]                                # by the ends of names above: sums of products of counts; ? is any size
//! "*.q_proj.weight" = "num_attention_heads*head_dim, hidden_size"
//! "*.gate_up_proj.weight" = "2*intermediate_size, hidden_size"
//!
//! [metadata]                              # the type, and the key of config.json
//! block_count = { u32 = "num_hidden_layers" }
//! feed_forward_length = { u32 = "n_inner", or = "n_embd", times = 4 }
//! "attention.sliding_window" = { u32 = "sliding_window", else = 0 }
//! "attention.clamp_kqv" = { f32 = "clip_qkv", optional = true }
//! use_parallel_residual = { bool = "use_parallel_residual" }
//! "attention.causal" = { is = false }
//! "tokenizer.ggml.token_type_count" = { u32 = "type_vocab_size" }
//! ```
//!
//! A tensor that is not `optional` must exist in each layer. With `unless`, it is neither needed nor written
//! if that key is true. With `when`, it is needed if that key is true, and optional otherwise. `layers` and
//! `count` name other keys that count its `{i}` and `{e}`. Of several patterns in `[shapes]` that fit, the
//! longest counts. Names of keys belong to the architecture, unless they begin with `general.` or
//! `tokenizer.`.
//!
//! Steps are `transpose`; `flatten`; `add N`, in `f32`; `f32`; `pair KEY`, which interleaves the two halves
//! of each of the heads that KEY counts, for an architecture that rotates neighbours; and `gather KEY N`,
//! which takes the groups that KEY counts, each of N parts, and puts the first parts of all groups first,
//! then the second ones, and so on. A tensor with one dimension afterwards is written in `f32`.

mod adapted;
pub mod apply;
pub(crate) mod file;
mod help;
mod metadata;
pub(crate) mod pattern;
pub(crate) mod rope;
mod shape;
pub(crate) mod steps;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::HashMap;

use crate::MapError;
use file::MapFile;
pub use help::help;
use pattern::Pattern;

/// The built-in maps, with their names.
const BUILT_IN: &[(&str, &str)] = &[
    ("arcee", include_str!("../../maps/arcee.toml")),
    ("bert", include_str!("../../maps/bert.toml")),
    ("bloom", include_str!("../../maps/bloom.toml")),
    ("cohere", include_str!("../../maps/cohere.toml")),
    ("cohere2", include_str!("../../maps/cohere2.toml")),
    ("ernie4_5", include_str!("../../maps/ernie4_5.toml")),
    ("falcon", include_str!("../../maps/falcon.toml")),
    ("gemma", include_str!("../../maps/gemma.toml")),
    ("gemma2", include_str!("../../maps/gemma2.toml")),
    ("gemma3", include_str!("../../maps/gemma3.toml")),
    ("glm4", include_str!("../../maps/glm4.toml")),
    ("gpt2", include_str!("../../maps/gpt2.toml")),
    ("gpt_bigcode", include_str!("../../maps/gpt_bigcode.toml")),
    ("gpt_neox", include_str!("../../maps/gpt_neox.toml")),
    ("granite", include_str!("../../maps/granite.toml")),
    ("llama", include_str!("../../maps/llama.toml")),
    ("mixtral", include_str!("../../maps/mixtral.toml")),
    ("nomic_bert", include_str!("../../maps/nomic_bert.toml")),
    ("olmo", include_str!("../../maps/olmo.toml")),
    ("olmo2", include_str!("../../maps/olmo2.toml")),
    ("olmoe", include_str!("../../maps/olmoe.toml")),
    ("phi", include_str!("../../maps/phi.toml")),
    ("phi3", include_str!("../../maps/phi3.toml")),
    ("qwen2", include_str!("../../maps/qwen2.toml")),
    ("qwen2_moe", include_str!("../../maps/qwen2_moe.toml")),
    ("qwen3", include_str!("../../maps/qwen3.toml")),
    ("qwen3_moe", include_str!("../../maps/qwen3_moe.toml")),
    ("seed_oss", include_str!("../../maps/seed_oss.toml")),
    ("stablelm", include_str!("../../maps/stablelm.toml")),
    ("starcoder2", include_str!("../../maps/starcoder2.toml")),
    ("t5", include_str!("../../maps/t5.toml")),
];

/// A map of a family.
#[derive(Clone, Debug)]
pub struct Map {
    name: String,
    pub(crate) file: MapFile,
    /// The tensors, each with the pattern of its names.
    pub(crate) tensors: Vec<(Pattern, file::Tensor)>,
    /// The patterns by their keys, each with the number of its tensor; `None` for a tensor that is left out.
    by_key: HashMap<String, Vec<(Pattern, Option<usize>)>>,
}

impl Map {
    /// Reads a map. Errors name it `name`.
    ///
    /// # Errors
    /// [`MapError::BadMap`] if it breaks a rule of maps.
    pub fn parse(name: &str, text: &str) -> Result<Self, MapError> {
        let bad = |why: String| MapError::BadMap { map: name.to_owned(), why };
        let file = MapFile::parse(text).map_err(bad)?;
        let mut map = Self { name: name.to_owned(), tensors: Vec::new(), by_key: HashMap::new(), file };
        let mut targets = HashMap::new();
        for (from, tensor) in &map.file.tensors {
            let pattern = Pattern::parse(from, &tensor.to).map_err(bad)?;
            if let Some(other) = targets.insert(tensor.to.clone(), from) {
                return Err(bad(format!("{other:?} and {from:?} both become {:?}", tensor.to)));
            }
            if pattern.has_experts() && tensor.counted.as_ref().or(map.file.experts.as_ref()).is_none() {
                return Err(bad(format!("{from:?} has {{e}}, and `experts` does not say what counts them")));
            }
            map.tensors.push((pattern, tensor.clone()));
        }
        let entries =
            (0..).zip(&map.file.tensors).map(|(entry, (from, tensor))| (from, &tensor.to, Some(entry)));
        for (from, to, entry) in entries.chain(map.file.leave_out.iter().map(|name| (name, name, None))) {
            let pattern = Pattern::parse(from, to).map_err(bad)?;
            let known = map.by_key.entry(pattern.key()).or_default();
            if known.iter().any(|(other, _)| *other == pattern) {
                return Err(bad(format!("{from:?} is there twice")));
            }
            known.push((pattern, entry));
        }
        Ok(map)
    }

    /// Returns the map for `model_type` of a `config.json`.
    ///
    /// # Errors
    /// [`MapError::UnknownFamily`] if none is known.
    pub fn of_family(family: &str) -> Result<Self, MapError> {
        for (name, text) in BUILT_IN {
            let map = Self::parse(name, text)?;
            if map.file.families.iter().any(|known| known == family) {
                return Ok(map);
            }
        }
        let known: Vec<String> = Self::families().collect();
        Err(MapError::UnknownFamily { family: family.to_owned(), known: known.join(", ") })
    }

    /// Returns the map with this name, or for this family.
    ///
    /// # Errors
    /// [`MapError::UnknownFamily`] if there is none.
    pub fn named(name: &str) -> Result<Self, MapError> {
        match BUILT_IN.iter().find(|(own, _)| *own == name) {
            Some((name, text)) => Self::parse(name, text),
            None => Self::of_family(name),
        }
    }

    /// Returns the families that have a map, sorted.
    pub fn families() -> impl Iterator<Item = String> {
        let maps = BUILT_IN.iter().filter_map(|(name, text)| Self::parse(name, text).ok());
        let mut families: Vec<String> = maps.flat_map(|map| map.file.families).collect();
        families.sort_unstable();
        families.into_iter()
    }

    /// Returns the built-in maps that make models of an architecture.
    pub(crate) fn of_architecture(architecture: &str) -> impl Iterator<Item = Self> {
        let maps = BUILT_IN.iter().filter_map(|(name, text)| Self::parse(name, text).ok());
        maps.filter(move |map| map.file.architecture == architecture)
    }

    /// Returns the architectures that have a map, sorted.
    pub(crate) fn architectures() -> impl Iterator<Item = String> {
        let maps = BUILT_IN.iter().filter_map(|(name, text)| Self::parse(name, text).ok());
        let found: std::collections::BTreeSet<String> = maps.map(|map| map.file.architecture).collect();
        found.into_iter()
    }

    /// Returns the name of the map.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Checks whether the model embeds texts, so that [`POOLING`](crate::POOLING) counts.
    #[must_use]
    pub fn pools(&self) -> bool {
        self.file.pools
    }

    /// Returns the values of `model_type` in a `config.json` that the map is for.
    pub fn model_types(&self) -> impl Iterator<Item = &str> {
        self.file.families.iter().map(String::as_str)
    }

    /// Returns `general.architecture` of the output.
    #[must_use]
    pub fn architecture(&self) -> &str {
        &self.file.architecture
    }
}
