//! Notes about the selected tensors.

use modelfmt_core::DType;

use super::Chooser;
use modelfmt_model::job::tensors::{Item, Origin};
use modelfmt_rules::options::rules::TypeChange;
use modelfmt_rules::wording::Choice;
use modelfmt_rules::wording::Note;
use modelfmt_rules::wording::unsupported::Examples;

impl Chooser<'_> {
    /// Returns notes about the selection, the names and the dtypes.
    pub(super) fn notes(&self) -> Vec<Note> {
        let plural = |count: u64| if count == 1 { "tensor" } else { "tensors" };
        let mut notes: Vec<Note> = self.filter.notes();
        let renamed = self.chosen.renamed.count() as u64;
        if renamed > 0 {
            let text = format!("gives {renamed} {} another name", plural(renamed));
            notes.push(Note::of(&[Choice::Rename], text));
        }
        notes.extend(self.rules.notes().map(Note::from));
        #[cfg(not(target_arch = "wasm32"))]
        notes.extend(self.importance.notes());
        if !self.used_scales.is_empty() {
            let count = self.used_scales.len() as u64;
            let text =
                format!("{count} {} of scales left out: weights are multiplied by them", plural(count));
            notes.push(text.into());
        }
        notes.extend(self.from_config.iter().cloned().map(Note::from));
        if self.applied_quants > 0 {
            let count = self.applied_quants;
            let text = format!(
                "{count} {} of numbers with scales: values are scale × (number − zero point)",
                plural(count)
            );
            notes.push(text.into());
        }
        if self.rules.has_dequantize() {
            notes.extend(self.packed_weights().map(|text| Note::of(&[Choice::Dequantize], text)));
        }
        let casts = self.options.types.rules.iter().any(|rule| matches!(rule.change, TypeChange::Cast(_)));
        if casts && self.chosen.items.iter().all(Item::is_copied) {
            let why = "changes nothing: the tensors that it is for have that type";
            notes.push(Note::of(&[Choice::Cast], why));
        }
        if !self.chosen.scalars.is_empty() {
            let names = Examples::of(self.chosen.scalars.iter().map(String::as_str));
            notes.push(
                format!("{} has no scalars; written with shape [1]: {names}", self.target.format).into(),
            );
        }
        if !self.chosen.listed.is_empty() {
            let names = Examples::of(self.chosen.listed.iter().map(|(_, declared)| declared.name.as_str()));
            notes.push(
                format!(
                    "{} has no tensors without data; they are stored in its metadata, for a conversion back: {names}",
                    self.target.format
                )
                .into(),
            );
        }
        notes
    }

    /// Returns a note about integers that stay as they are although other tensors have the names of their
    /// scales: the file does not say how the integers are packed.
    pub(super) fn packed_weights(&self) -> Option<String> {
        let container = self.model.container();
        let has_scales = |name: &str| {
            let stem = name.strip_suffix("_blocks").unwrap_or(name);
            ["_scale", "_scales"].iter().any(|end| container.find(&format!("{stem}{end}")).is_some())
        };
        let is_packed =
            |item: &&Item| item.is_copied() && matches!(item.from, DType::I8 | DType::U8 | DType::I32);
        let names = self.chosen.items.iter().filter(is_packed).filter_map(|item| match item.origin {
            Origin::Model(position) => container.info(position).map(|info| info.name),
            _ => None,
        });
        let names = names.filter(|name| has_scales(name));
        let names: Vec<&str> = names.collect();
        if names.is_empty() {
            return None;
        }
        Some(format!(
            "does not change integer tensors whose scales follow no known scheme: {}",
            Examples::of(names)
        ))
    }
}
