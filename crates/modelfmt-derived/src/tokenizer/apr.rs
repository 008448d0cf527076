//! Converts the tokenizer beside a model to keys of APR.

use modelfmt_core::value::Value;
use modelfmt_hub::{Config, Vocabulary};
use modelfmt_model::model::Model;

use super::files::files;

/// Returns the keys that aprender's programs need; none if there is no tokenizer.
///
/// # Errors
/// The reason why the tokenizer cannot be converted.
pub fn keys(model: &Model) -> Result<Vec<(String, Value)>, String> {
    let config = Config::parse(b"{}").map_err(|error| error.to_string())?;
    let found = Vocabulary::read(&files(model)?, &config).map_err(|error| error.to_string())?;
    let Some(found) = found else { return Ok(Vec::new()) };
    let name = |key: &str| format!("tokenizer.{key}");
    let mut keys = vec![
        (name("model_type"), found.kind.into()),
        (name("vocab_size"), (found.tokens.len() as u64).into()),
        (name("vocabulary"), found.tokens.into_iter().collect()),
    ];
    if !found.merges.is_empty() {
        keys.push((name("merges"), found.merges.into_iter().collect()));
    }
    Ok(keys)
}
