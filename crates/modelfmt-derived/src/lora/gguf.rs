//! Adapters of llama.cpp: GGUF with `NAME.lora_a` and `NAME.lora_b`.

use modelfmt_core::author::Shortened;
use modelfmt_model::error::Result;
use modelfmt_model::model::Model;

use super::{Change, Delta, EMBEDDING, Kind, Orientation, Pairs, f64_of, failed, rank};

/// Returns the changes of the adapter; `None` if the model is not a GGUF.
///
/// # Errors
/// If it is a GGUF and not an adapter, or an adapter that is not understood.
pub(super) fn changes(model: &Model) -> Result<Option<Vec<Change>>> {
    let keys = model.common_metadata()?.keys;
    let text = |key: &str| keys.get(key).and_then(|value| value.as_str());
    if text("general.architecture").is_none() {
        return Ok(None);
    }
    for (key, expected) in [("general.type", "adapter"), ("adapter.type", "lora")] {
        if text(key) != Some(expected) {
            let found = text(key).map_or_else(|| "missing".to_owned(), |found| format!("{found:?}"));
            return Err(failed(model, format!("`{key}` is {found}, not {expected:?}")));
        }
    }
    let alpha = keys.get("adapter.lora.alpha").and_then(|alpha| alpha.as_f64());
    let Some(alpha) = alpha.filter(|alpha| alpha.is_finite()) else {
        return Err(failed(model, "`adapter.lora.alpha` is no finite number".to_owned()));
    };
    let mut pairs = Pairs::default();
    for (number, info) in model.tensors().enumerate() {
        let sides = [info.name.strip_suffix(".lora_a"), info.name.strip_suffix(".lora_b")];
        let found = sides.into_iter().enumerate().find_map(|(side, name)| Some((side, name?)));
        let Some((side, name)) = found else {
            return Err(failed(model, format!("tensor {:?} is none of an adapter", Shortened(info.name))));
        };
        pairs.add(name, side, number);
    }
    let mut changes = Vec::new();
    for (base, a, b) in pairs.complete(model)? {
        let (rank, orientation) = if base == EMBEDDING {
            let (of_a, of_b) = (model.info(a)?, model.info(b)?);
            let rank = of_a.shape.last().copied().filter(|rank| of_b.shape.last() == Some(rank) && *rank > 0);
            let why = || failed(model, format!("{base:?}: A and B have no ranks that are the same"));
            (rank.ok_or_else(why)?, Orientation::Embedding)
        } else {
            (rank(model, &base, (a, b))?, Orientation::Plain)
        };
        // llama.cpp takes the rank instead of an alpha of 0.
        let number = if alpha == 0.0 { 1.0 } else { alpha / f64_of(rank) };
        changes.push(Change { base, kind: Kind::Delta(Delta { a, b, number, orientation }) });
    }
    Ok(Some(changes))
}
