//! The files of a tokenizer beside a model.

use modelfmt_hub::TokenizerFiles;
use modelfmt_metadata::config;
use modelfmt_model::model::Model;

/// Reads the files beside the model. The error is a sentence.
pub(super) fn files(model: &Model) -> Result<TokenizerFiles, String> {
    let mut files = TokenizerFiles::new();
    for (name, max_len) in TokenizerFiles::names() {
        if let Some(why) = model.sidecars().ignored(name) {
            return Err(why);
        }
        let content = config::file(model.sidecars(), name, max_len);
        if let Some(content) = content.map_err(|why| format!("{name}: {why}"))? {
            files.insert(name, content);
        }
    }
    Ok(files)
}
