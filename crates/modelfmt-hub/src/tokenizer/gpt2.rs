//! `vocab.json` and `merges.txt`, the files of GPT-2.

use super::error::{fault, quoted};
use super::files::Files;
use super::hub_json::of_object;
use super::merges;
use super::parts::{Model, Parts};
use super::template::Template;
use crate::MapError;

const VOCABULARY: &str = "vocab.json";
const MERGES: &str = "merges.txt";

/// llama.cpp's names for the pre-tokenizers of the hub's classes that have these files.
const CLASSES: &[(&str, &str)] = &[
    ("CodeGenTokenizer", "gpt-2"),
    ("GPT2Tokenizer", "gpt-2"),
    ("Qwen2Tokenizer", "qwen2"),
    ("RobertaTokenizer", "gpt-2"),
];

/// Reads both files, if they exist. `class` is the tokenizer's class in `tokenizer_config.json`, and `pre` is
/// the name of the pre-tokenizer, if the caller states it.
pub(super) fn read(files: &Files, class: Option<&str>, pre: Option<&str>) -> Result<Option<Parts>, MapError> {
    let Some(vocab) = files.object(VOCABULARY)? else { return Ok(None) };
    let text = files.text(MERGES)?;
    let text = text.ok_or_else(|| fault(VOCABULARY, format!("there is no {MERGES} beside it")))?;
    let vocabulary = of_object(VOCABULARY, &vocab)?;
    if vocabulary.is_empty() {
        return Err(fault(VOCABULARY, "it has no tokens"));
    }
    let merges = merges::of_text(MERGES, text)?;
    merges::check(MERGES, &merges, &vocabulary)?;
    let mut parts = Parts::new(VOCABULARY, Model::Gpt2, vocabulary);
    parts.merges = merges::lines(MERGES, merges)?;
    let class = class.unwrap_or_default();
    let name = CLASSES.iter().find(|(known, _)| class.strip_suffix("Fast").unwrap_or(class) == *known);
    let unknown =
        || MapError::UnknownPreTokenizer { what: format!("the class {} of a tokenizer", quoted(class)) };
    pre.or(name.map(|(_, name)| *name)).ok_or_else(unknown)?.clone_into(&mut parts.pre);
    if class.starts_with("Roberta") {
        let around = |text: &str| vec![text.to_owned()];
        parts.template = Some(Template { before: around("<s>"), after: around("</s>") });
    }
    Ok(Some(parts))
}
