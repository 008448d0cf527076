//! Embeddings that are also the output of a model: the only tensors that may be in DERIVED under two names and in BASE under one.

use modelfmt_core::value::{Object, Value};
use modelfmt_metadata::flattened::flat_metadata;
use modelfmt_model::model::Model;

/// How the names of embeddings and of outputs end.
const EMBEDDINGS: [&str; 4] = ["embed_tokens.weight", "token_embd.weight", "wte.weight", "embed_in.weight"];
const OUTPUTS: [&str; 3] = ["lm_head.weight", "output.weight", "embed_out.weight"];

/// The key by which a configuration says whether they are tied.
const KEY: &str = "tie_word_embeddings";

/// Whether the embeddings of BASE are its output.
pub(super) struct Ties {
    are_tied: bool,
}

impl Ties {
    /// They are if its configuration says so, and, if there is none, where it has no output.
    pub(super) fn of(base: &Model) -> Self {
        let said = flat_metadata(base).ok().as_ref().and_then(said).or_else(|| of_config(base));
        let has_output = || base.tensors().any(|info| is_output(info.name));
        Self { are_tied: said.unwrap_or_else(|| !has_output()) }
    }

    /// Whether a tensor of this name may be made of tensors that another is made of.
    pub(super) fn allow(&self, name: &str, of: &[String]) -> bool {
        let is_embedding = |name: &String| EMBEDDINGS.iter().any(|end| name.ends_with(end));
        self.are_tied && is_output(name) && of.iter().all(is_embedding)
    }
}

/// Layers have outputs, too.
fn is_output(name: &str) -> bool {
    OUTPUTS.iter().any(|end| name.ends_with(end)) && !name.contains("layer") && !name.contains("blk.")
}

/// What a configuration says; that of its text model counts.
fn said(config: &Object) -> Option<bool> {
    let text = config.get("text_config").and_then(Value::as_object);
    [text, Some(config)].into_iter().flatten().find_map(|config| config.get(KEY)?.as_bool())
}

#[cfg(not(target_arch = "wasm32"))]
fn of_config(base: &Model) -> Option<bool> {
    const MAX_LEN: u64 = 32 << 20;
    let text = modelfmt_metadata::config::file(base.sidecars(), "config.json", MAX_LEN).ok()??;
    said(&modelfmt_core::value::json::parse_object(&text).ok()?)
}

/// Nothing: there are no files.
#[cfg(target_arch = "wasm32")]
const fn of_config(_: &Model) -> Option<bool> {
    None
}
