//! Notes about signatures inside the source: they do not cover the converted file.

use modelfmt_model::formats::Format;
use modelfmt_model::model::Model;
use modelfmt_rules::wording::Choice;
use modelfmt_rules::wording::Note;

/// Returns a note if the source has signatures inside, because they are left out.
pub(super) fn note(model: &Model, target: Format) -> Option<Note> {
    if !model.members().any(|model| model.sealing().is_signed) {
        return None;
    }
    let text = "the signatures inside the input cover that file alone, and are left out";
    Some(if target.properties().embedded_signatures {
        Note::of(&[Choice::Sign], format!("signs the output; {text}"))
    } else {
        Note::from(text.to_owned())
    })
}
