//! Embeddings that are also the output of a model: the only tensors that may have two names in DERIVED and
//! one name in BASE.

use modelfmt_core::value::{Object, Value};
use modelfmt_metadata::flattened::flat_metadata;
use modelfmt_model::model::Model;

/// The last parts of the names of embeddings and of outputs.
const EMBEDDINGS: [&str; 4] = ["embed_tokens.weight", "token_embd.weight", "wte.weight", "embed_in.weight"];
const OUTPUTS: [&str; 3] = ["lm_head.weight", "output.weight", "embed_out.weight"];

/// The key with which a configuration says whether they are tied.
const KEY: &str = "tie_word_embeddings";

/// Whether the embeddings of BASE are its output.
pub(super) struct Ties {
    are_tied: bool,
}

impl Ties {
    /// Finds out whether they are tied: if the configuration of BASE says so or, if it says nothing, if BASE
    /// has no output tensor.
    pub(super) fn of(base: &Model) -> Self {
        let stated = flat_metadata(base).ok().as_ref().and_then(stated_tie).or_else(|| of_config(base));
        let has_output = || base.tensors().any(|info| is_output(info.name));
        Self { are_tied: stated.unwrap_or_else(|| !has_output()) }
    }

    /// Checks whether a tensor of this name may be made from tensors that another tensor is made from.
    pub(super) fn allow(&self, name: &str, of: &[String]) -> bool {
        let is_embedding = |name: &String| EMBEDDINGS.iter().any(|end| name.ends_with(end));
        self.are_tied && is_output(name) && of.iter().all(is_embedding)
    }
}

/// Checks whether this is the name of the model's output. Names of layers are excluded, because they can end
/// in the same way.
fn is_output(name: &str) -> bool {
    OUTPUTS.iter().any(|end| name.ends_with(end)) && !name.contains("layer") && !name.contains("blk.")
}

/// Returns what a configuration says. The configuration of its text model takes precedence.
fn stated_tie(config: &Object) -> Option<bool> {
    let text = config.get("text_config").and_then(Value::as_object);
    [text, Some(config)].into_iter().flatten().find_map(|config| config.get(KEY)?.as_bool())
}

#[cfg(not(target_arch = "wasm32"))]
fn of_config(base: &Model) -> Option<bool> {
    const MAX_LEN: u64 = 32 << 20;
    let text = modelfmt_metadata::config::file(base.sidecars(), "config.json", MAX_LEN).ok()??;
    stated_tie(&modelfmt_core::value::json::parse_object(&text).ok()?)
}

/// Returns nothing: there are no files here.
#[cfg(target_arch = "wasm32")]
const fn of_config(_: &Model) -> Option<bool> {
    None
}
