//! The model that is written instead of another: adapters are merged into it, and a map computes other
//! tensors from it.

use std::borrow::Cow;
use std::collections::BTreeSet;

use modelfmt_model::error::Result;
use modelfmt_model::formats::Format;
use modelfmt_model::model::Model;
use modelfmt_rules::options::ConvertOptions;
use modelfmt_rules::wording::Note;

#[cfg(all(feature = "gguf", not(target_arch = "wasm32")))]
use crate::lora::Stage::{AfterMap, BeforeMap};
#[cfg(not(target_arch = "wasm32"))]
use crate::lora::{Maps, Merged, Stage, merged};
#[cfg(all(feature = "gguf", not(target_arch = "wasm32")))]
use crate::mapping::is_gguf;
use crate::mapping::{Restored, Takes};
#[cfg(all(feature = "gguf", not(target_arch = "wasm32")))]
use crate::{gguf_of_adapter, gguf_of_hub, hub_of_gguf, hub_of_hub};

/// A model that is written instead of another.
#[derive(Debug)]
pub struct Derived<'m> {
    /// The model itself, if nothing had to be computed.
    pub model: Cow<'m, Model>,
    /// Whether a map has computed it.
    pub is_mapped: bool,
    /// The names, as they are in the files, of the tensors that an adapter changes.
    pub changed: BTreeSet<String>,
    /// What was done, for the user.
    pub notes: Vec<Note>,
}

impl<'m> Derived<'m> {
    /// Returns the model without a change.
    const fn same(model: Cow<'m, Model>) -> Self {
        Self { model, is_mapped: false, changed: BTreeSet::new(), notes: Vec::new() }
    }
}

/// Returns a function that says whether the map of a model takes a tensor of a given name. `None` if a
/// conversion to `target` does not map the model. If [`derived`] will fail, the function accepts all names.
#[must_use]
#[cfg_attr(
    not(all(feature = "gguf", not(target_arch = "wasm32"))),
    allow(unused_variables, reason = "there are no maps")
)]
pub fn takes(model: &Model, target: Format, options: &ConvertOptions) -> Option<Box<Takes>> {
    #[cfg(all(feature = "gguf", not(target_arch = "wasm32")))]
    return gguf_of_hub::takes(model, target, options);
    #[cfg(not(all(feature = "gguf", not(target_arch = "wasm32"))))]
    None
}

/// Returns the model to write instead of `model`: the adapters of the options are merged, and a hub folder or
/// an adapter that becomes a GGUF is mapped. `will_map` says whether [`takes`] found a map.
///
/// # Errors
/// [`Error::Unmapped`](modelfmt_model::Error::Unmapped) if a map or an adapter does not fit the model;
/// [`Error::Usage`](modelfmt_model::Error::Usage) for options that do not fit it; errors of the files beside
/// it.
#[cfg(all(feature = "gguf", not(target_arch = "wasm32")))]
pub fn derived<'m>(
    model: Cow<'m, Model>,
    target: Format,
    will_map: bool,
    options: &ConvertOptions,
) -> Result<Derived<'m>> {
    let maps = Maps {
        named: &|base: &Model, adapter: &Model| gguf_of_adapter::named_as_in(base, adapter, options),
        made: &|base: &Model| gguf_of_hub::made(base, options),
        has_input_rows: &|base: &Model| gguf_of_hub::has_input_rows(base, options),
    };
    let stage = if will_map { BeforeMap } else { Stage::Only };
    let Merged { model, names, notes } = merged(model, stage, options, maps)?;
    let changed = changed(&model, options, false);
    let mut derived = Derived { changed, notes, ..Derived::same(model) };
    let (mapped, notes) = gguf_of_hub::map(&derived.model, target, options, &names)?;
    derived.notes.extend(notes);
    if let Cow::Owned(mapped) = mapped {
        let Merged { model: mapped, notes, .. } = merged(Cow::Owned(mapped), AfterMap, options, maps)?;
        if !notes.is_empty() {
            derived.changed.extend(self::changed(&mapped, options, true));
        }
        derived.notes.extend(notes);
        (derived.model, derived.is_mapped) = (Cow::Owned(mapped.into_owned()), true);
    }
    Ok(derived)
}

/// Returns the model to write instead of `model`: the adapters of the options are merged. This build has no
/// maps.
///
/// # Errors
/// [`Error::Unmapped`](modelfmt_model::Error::Unmapped) if an adapter does not fit the model; errors of the files beside it.
#[cfg(all(not(feature = "gguf"), not(target_arch = "wasm32")))]
pub fn derived<'m>(
    model: Cow<'m, Model>,
    _: Format,
    _: bool,
    options: &ConvertOptions,
) -> Result<Derived<'m>> {
    let Merged { model, notes, .. } = merged(model, Stage::Only, options, Maps::NONE)?;
    let changed = changed(&model, options, false);
    Ok(Derived { changed, notes, ..Derived::same(model) })
}

/// Returns the model itself, because adapters and folders need files.
///
/// # Errors
/// Never.
#[cfg(target_arch = "wasm32")]
#[allow(clippy::unnecessary_wraps, reason = "as with files")]
pub const fn derived<'m>(
    model: Cow<'m, Model>,
    _: Format,
    _: bool,
    _: &ConvertOptions,
) -> Result<Derived<'m>> {
    Ok(Derived::same(model))
}

/// Returns the names of the tensors that an adapter changes. With `by_sums`, only the names of those that are
/// sums.
#[cfg(not(target_arch = "wasm32"))]
fn changed(model: &Model, options: &ConvertOptions, by_sums: bool) -> BTreeSet<String> {
    if options.tensors.lora.is_empty() {
        return BTreeSet::new();
    }
    let positions = (0..model.tensor_count()).filter(|&position| {
        let Some(program) = model.program(position) else { return false };
        model.scheme(position).is_none()
            && program.copied().is_none()
            && (!by_sums || program.inputs().len() > 1)
    });
    positions.flat_map(|position| model.origins(position)).map(str::to_owned).collect()
}

/// Returns the weights of the hub folder that a GGUF or another hub folder becomes, with the adapters of the
/// options merged, and the rest of the folder.
///
/// # Errors
/// [`Error::NoHubFolder`](modelfmt_model::Error::NoHubFolder) if the GGUF does not say what the folder needs;
/// [`Error::Usage`](modelfmt_model::Error::Usage) for another model, and in a build without maps.
#[cfg(all(feature = "gguf", not(target_arch = "wasm32")))]
pub fn restored<'m>(model: &'m Model, options: &ConvertOptions) -> Result<(Cow<'m, Model>, Restored)> {
    let maps = Maps {
        named: &|base: &Model, adapter: &Model| gguf_of_adapter::named_as_in(base, adapter, options),
        has_input_rows: &|base: &Model| gguf_of_hub::has_input_rows(base, options),
        ..Maps::NONE // the base has the names that it is written with
    };
    let merged = merged(Cow::Borrowed(model), Stage::Only, options, maps)?;
    let Merged { model: mut weights, names, mut notes } = merged;
    let beside = if is_gguf(model.format()) { None } else { hub_of_hub::restore(model, options, &names)? };
    let mut restored = match beside {
        Some(restored) => restored,
        None => hub_of_gguf::restore(&mut weights, options)?,
    };
    notes.append(&mut restored.notes);
    Ok((weights, Restored { notes, ..restored }))
}

/// Fails, because this build cannot make a hub folder.
///
/// # Errors
/// [`Error::Usage`](modelfmt_model::Error::Usage).
#[cfg(not(all(feature = "gguf", not(target_arch = "wasm32"))))]
pub fn restored<'m>(_: &'m Model, _: &ConvertOptions) -> Result<(Cow<'m, Model>, Restored)> {
    let why = "this build cannot make a folder of the hub: it has no GGUF, or no files";
    Err(modelfmt_model::Error::usage(modelfmt_rules::wording::Choice::Target, why))
}
