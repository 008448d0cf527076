//! Help for people who write a map.

use std::fmt::Write as _;

use super::{BUILT_IN, Map};

/// A map that is equivalent to a built-in one, with a line for each thing that a map can say.
const FORM: &str = r#"architecture = "llama"                  # general.architecture, and the prefix of the keys below
families = ["llama", "mistral"]         # model_type of config.json
class = "LlamaForCausalLM"              # architectures, if config.json is made of a GGUF
layers = "num_hidden_layers"            # the key of config.json that counts {i}
experts = "num_experts"                 # the key that counts {e}, if there are experts
rope_scaling = ["linear", "llama3"]     # the kinds that llama.cpp computes: also yarn and longrope
full_attention_each = 6                 # the last of so many layers sees all tokens, the others a window
ignores_window = true                   # llama.cpp computes it without a window, and a note says so
pools = true                            # it embeds texts, and 1_Pooling/config.json says how
prefixes = ["transformer.", ""]         # beginnings that names may have
leave_out = ["h.{i}.attn.bias"]         # tensors that are not written

[aliases]                               # names that keys have in other files
num_attention_heads = "n_head"

[defaults]                              # what the hub's library takes where config.json is silent
rope_theta = 10000.0

[require]                               # what llama.cpp computes, whatever config.json says
hidden_act = ["gelu_new", "gelu_fast"]  # one of these
attention_bias = false                  # false, null, an empty list, or not there
query_pre_attn_scalar = { key = "head_dim", with_layers = 46, then = "hidden_per_head" }
use_qk_norm = { from_layers = 64 }      # true in models of so many layers and more, and nothing in others
num_decoder_layers = { at_most = "num_layers" }

[tensors]                               # {i} is a layer, {e} an expert; experts are stacked
"model.embed_tokens.weight" = "token_embd.weight"
"lm_head.weight" = { to = "output.weight", unless = "tie_word_embeddings" }
"model.layers.{i}.mlp.experts.{e}.up_proj.weight" = "blk.{i}.ffn_up_exps.weight"
"model.layers.{i}.q_proj.bias" = { to = "blk.{i}.attn_q.bias", when = "attention_bias" }
"h.{i}.attn.c_attn.weight" = { to = "blk.{i}.attn_qkv.weight", steps = ["transpose"] }
"h.{i}.attn.c_attn.bias" = { to = "blk.{i}.attn_qkv.bias", optional = true }

[shapes]                                # by the ends of the names above; ? is any size
"*.q_proj.bias" = "num_attention_heads*head_dim"
"*.up_proj.weight" = "intermediate_size, hidden_size"

[metadata]                              # the type, and the key of config.json
block_count = { u32 = "num_hidden_layers" }
feed_forward_length = { u32 = "n_inner", or = "n_embd", times = 4 }
"attention.sliding_window" = { u32 = "sliding_window", else = 0 }
"attention.clamp_kqv" = { f32 = "clip_qkv", optional = true }
use_parallel_residual = { bool = "use_parallel_residual" }
"attention.causal" = { is = false }
"#;

/// Returns a text that lists the families and says how to write a map, for a terminal of 100 columns.
#[must_use]
pub fn help() -> String {
    let mut text = "A map says how a model folder of the hub (Hugging Face) becomes a GGUF that llama.cpp loads: which tensor
becomes which, by which steps, and which key of config.json becomes which key of the metadata.

  modelfmt convert FOLDER OUT.gguf                    the map for the model_type of FOLDER/config.json
  modelfmt convert FOLDER OUT.gguf --map NAME|FILE    another map; FILE is one of your own
  modelfmt convert FOLDER OUT.gguf --map none         names and metadata as they are
  modelfmt convert FOLDER OUT.gguf --dry-run          what would happen to each tensor
  modelfmt inspect FOLDER --map NAME|FILE             names and metadata as they would be

Maps, and the families that each is for:
"
    .to_owned();
    for map in BUILT_IN.iter().filter_map(|(name, text)| Map::parse(name, text).ok()) {
        _ = writeln!(text, "  {:18}{}", map.name(), map.file.families.join(", ")); // text takes everything
    }
    _ = write!(
        text,
        "
A map is a TOML file such as this one:

{FORM}
Steps are transpose; flatten; add N, in f32; f32; pair KEY: each of the heads that KEY counts has its two
halves interleaved, for an architecture whose rotation takes neighbours; and gather KEY N: each of the groups
that KEY counts has N parts, and the first parts of all groups come first. What has one dimension afterwards
is written in f32. A tensor that the map does not name is an error, unless `leave_out` has it. One with `when`
must be there if that key is true. Shapes never tell how a tensor is turned: only the map does.
"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_a_map_and_every_family_is_listed() {
        Map::parse("form", FORM).unwrap();
        let text = help();
        for family in Map::families() {
            assert!(text.contains(&family), "{family}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 110));
    }
}
