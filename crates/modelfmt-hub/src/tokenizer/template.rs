//! The tokens that a post-processor puts around a text.

use modelfmt_value::{List, Value};

use super::sequence::flat;
use crate::MapError;

/// The special tokens before and after a text, by their texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Template {
    pub(super) before: Vec<String>,
    pub(super) after: Vec<String>,
}

/// Reads the template of the post-processor in a `tokenizer.json`. Without a post-processor, it has no
/// tokens.
pub(super) fn template(file: &str, value: Option<&Value>) -> Result<Template, MapError> {
    let mut template = Template::default();
    for processor in flat(file, value, "processors")? {
        match processor.get("type").and_then(Value::as_str).unwrap_or_default() {
            "TemplateProcessing" => {
                if let Some(single) = processor.get("single").and_then(Value::as_array) {
                    template = of_single(single);
                }
            }
            "RobertaProcessing" | "BertProcessing" => {
                let token = |key: &str| Some(processor.get(key)?.as_array()?.get(0)?.as_str()?.to_owned());
                template = Template {
                    before: token("cls").into_iter().collect(),
                    after: token("sep").into_iter().collect(),
                };
            }
            _ => {}
        }
    }
    Ok(template)
}

fn of_single(single: &List) -> Template {
    let mut template = Template::default();
    let mut is_after = false;
    for part in single {
        match part.get("SpecialToken").and_then(|token| token.get("id")).and_then(Value::as_str) {
            Some(token) if is_after => template.after.push(token.to_owned()),
            Some(token) => template.before.push(token.to_owned()),
            None => is_after = true,
        }
    }
    template
}
