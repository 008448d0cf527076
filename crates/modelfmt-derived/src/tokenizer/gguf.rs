//! Converts the tokenizer beside a model to keys of GGUF.

use modelfmt_core::author::Shortened;
use modelfmt_hub::{Config, Key, MadeTensor, MapError, PRE_TOKENIZERS, Tokenizer, TokenizerOptions};
use modelfmt_model::error::{Error, Result};
use modelfmt_model::model::Model;
use modelfmt_rules::wording::{Choice, Note};

use super::files::files;

/// The tensor that has a row for each token.
const EMBEDDING: &str = "token_embd.weight";

/// A tokenizer as keys, and notes about it.
pub(crate) type Written = (Vec<(String, Key)>, Vec<Note>);

/// Returns the keys of the tokenizer beside the model, and notes about it. `pre` is the name of its
/// pre-tokenizer, if the caller states it, and `name` that of the model.
pub(crate) fn keys(
    model: &Model,
    config: &Config,
    tensors: &[MadeTensor],
    pre: Option<&str>,
    name: Option<&str>,
) -> Result<Written> {
    let failed = |why: String| Error::Unmapped { path: model.path().to_owned(), why, help: None };
    let files = files(model).map_err(failed)?;
    let embedding = tensors.iter().find(|tensor| tensor.name == EMBEDDING);
    let rows = embedding.and_then(|tensor| tensor.program.shape().first().copied());
    if let Some(pre) = pre.filter(|pre| !PRE_TOKENIZERS.contains(pre)) {
        let known = PRE_TOKENIZERS.join(", ");
        let why = format!("llama.cpp has no pre-tokenizer {:?}; it has {known}", Shortened(pre));
        return Err(Error::usage(Choice::Pre, why));
    }
    let options = TokenizerOptions::new().rows(rows).pre(pre).name(name);
    let read = Tokenizer::read(&files, config, &options);
    match read {
        Ok(Some(Tokenizer { keys, notes })) => Ok((keys, notes.into_iter().map(Note::from).collect())),
        Ok(None) => Ok(Written::default()), // a warning says so
        Err(error @ MapError::UnknownPreTokenizer { .. }) => {
            let (path, why) = (model.path().to_owned(), error.to_string());
            Err(Error::Unmapped { path, why, help: Some(Choice::Pre) })
        }
        Err(error) => Err(failed(error.to_string())),
    }
}

/// Checks whether a model may have this name. llama.cpp expects tokens of Phi-3 in a model that is named so,
/// and does not load it without them.
pub(crate) fn is_name(name: &str, keys: &[(String, Key)]) -> bool {
    let lower = name.to_lowercase();
    let tokens = keys.iter().find_map(|(key, value)| match value {
        Key::Texts(texts) if key == "tokenizer.ggml.tokens" => Some(texts),
        _ => None,
    });
    let Some(tokens) = tokens.filter(|_| lower.contains("phi-3") || lower.contains("phi3")) else {
        return true;
    };
    ["</s>", "<unk>", "<s>", "<|endoftext|>"].iter().all(|text| tokens.iter().any(|token| token == text))
}
