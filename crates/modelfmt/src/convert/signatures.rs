//! Signatures inside the source, which cover that file and no other.

use modelfmt_core::value::Value;

use crate::formats::Format;
use crate::model::Model;
use crate::wording::Choice;
use crate::wording::Note;

/// That they are left out.
pub(super) fn note(model: &Model, target: Format) -> Option<Note> {
    let is_signed = |model: &Model| {
        let details = model.container().details();
        details.is_ok_and(|details| {
            details.get("signatures").and_then(Value::as_array).is_some_and(|list| !list.is_empty())
        })
    };
    if !model.members().any(is_signed) {
        return None;
    }
    let text = "the signatures inside the input cover that file alone, and are left out";
    Some(match target {
        Format::Apr2 | Format::Apr2Sharded => Note::of(&[Choice::Sign], format!("signs the output; {text}")),
        _ => Note::from(text.to_owned()),
    })
}
