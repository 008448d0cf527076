//! A conversion of a model into its own format keeps the layout of the source, unless the caller chooses otherwise.

use std::borrow::Cow;

#[cfg(feature = "apr")]
use modelfmt_core::source::BoxSource;

use modelfmt_model::formats::Format;
#[cfg(feature = "apr")]
use modelfmt_model::formats::entry::reader_of;
use modelfmt_model::model::Model;
use modelfmt_rules::options::ConvertOptions;
use modelfmt_rules::wording::Choice;
use modelfmt_rules::wording::Note;

/// Returns the options that would store a model as it is stored now; `None` if the target is another format.
fn stored(model: &Model, target: Format) -> Option<ConvertOptions> {
    if model.is_merged() || model.format().unsharded() != target.unsharded() {
        return None;
    }
    let mut stored = ConvertOptions::default();
    let same = model.format().fns()?.same?;
    same(model.opened(), &mut stored);
    Some(stored)
}

/// Fills in the source's alignment, compression and kind of checksum where the options do not set them.
/// Properties that are new in each file (the UUID), or that have to be requested (a version, hashes, the size
/// of shards), are not taken from the source.
pub(super) fn completed<'a>(
    model: &Model,
    target: Format,
    mut options: Cow<'a, ConvertOptions>,
) -> Cow<'a, ConvertOptions> {
    let Some(stored) = stored(model, target) else { return options };
    let (align, compress, checksum) = (
        options.output.align.or(stored.output.align),
        options.apr2.compress.or(stored.apr2.compress),
        options.mag.checksum.or(stored.mag.checksum),
    );
    if (align, compress, checksum) != (options.output.align, options.apr2.compress, options.mag.checksum) {
        let options = options.to_mut();
        (options.output.align, options.apr2.compress, options.mag.checksum) = (align, compress, checksum);
    }
    options
}

/// Returns notes about hashes in the source that the target will not have, because the options do not request
/// them.
pub(super) fn notes(model: &Model, target: Format, options: &ConvertOptions) -> Vec<Note> {
    let mut notes = Vec::new();
    if let Some(stored) = stored(model, target) {
        let hashes = [
            (Choice::ControlHash, stored.aero.control_hash && !options.aero.control_hash),
            (Choice::PageHashes, stored.aero.page_hashes.is_some() && options.aero.page_hashes.is_none()),
            (Choice::TensorHashes, stored.aero.tensor_hashes && !options.aero.tensor_hashes),
        ];
        let missing: Vec<Choice> =
            hashes.into_iter().filter(|(_, is_missing)| *is_missing).map(|(choice, _)| choice).collect();
        if !missing.is_empty() {
            notes.push(Note::of(&missing, "would write such hashes, which the source has"));
        }
    }
    #[cfg(feature = "apr")]
    for reader in model.members().filter_map(|model| reader_of::<apr::Reader<BoxSource>>(model.opened())) {
        let names = reader.index().flags().names();
        let unknown: Vec<_> = names.filter(|name| name.starts_with("0x")).collect();
        if !unknown.is_empty() {
            notes.push(
                format!("flags of the header that are not known are not written: {}", unknown.join(", "))
                    .into(),
            );
        }
    }
    notes
}
