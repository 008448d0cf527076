//! Finds tensors of the source that share their bytes, and decides whether they can share them in the target.

use std::collections::{BTreeMap, HashMap};

use modelfmt_model::job::tensors::{Origin, OutputTensors, ScaledBy};
use modelfmt_rules::options::ConvertOptions;
use modelfmt_rules::wording::unsupported::Unsupported;

use modelfmt_model::error::Result;
use modelfmt_model::formats::Format;
use modelfmt_model::model::Model;
use modelfmt_model::tied_weights::{MAX_TIMES, Ties};

/// The tensors of a conversion that share bytes with an earlier one.
pub(crate) struct Tied {
    /// The tensors that also share bytes in the target: the number of the item, and that of the first item of its group.
    pub(crate) kept: BTreeMap<usize, usize>,
    /// The number of tensors that share bytes in the source and are written separately.
    split: usize,
    /// The length in bytes, in the source, of all tensors that are written, each counted separately.
    written: u64,
    /// The size of the source in bytes.
    size: u64,
}

impl Tied {
    /// Finds the tied tensors. Readers of most formats refuse shared offsets; readers of AERO do not. In
    /// AERO, tensors that share bytes in the source share them again if they are converted in the same way
    /// (docs/formats/conversion.md#tied-tensors).
    pub(crate) fn of(model: &Model, tensors: &OutputTensors, target: Format) -> Result<Self> {
        let mut items = Vec::new();
        for (number, item) in tensors.items.iter().enumerate() {
            let Origin::Model(position) = item.origin else { continue };
            let info = model.container().info(position);
            if let Some(info) = info.filter(|info| info.has_data && info.nbytes > 0) {
                items.push((number, item, position, info.shape));
            }
        }
        let ties = Ties::of(model, items.iter().map(|&(_, _, position, _)| position))?;
        let (mut kept, mut written) = (BTreeMap::new(), 0u64);
        let mut firsts = HashMap::new();
        for (&(number, item, position, shape), &group) in items.iter().zip(&ties.groups) {
            // A conversion may depend on the shape.
            let scales = item.scaling.and_then(|number| Some((number, tensors.scalings.get(number)?)));
            let scales = scales.map(|(number, scales)| match scales {
                ScaledBy::Tensor(scales) => (None, Some(scales)),
                ScaledBy::Quant(_) => (Some(number), None),
            });
            // Quantized blocks depend on the importance, and two tensors hardly ever have the same.
            let importance = tensors.importance.contains_key(&position).then_some(position);
            let made = (group, item.to, (!item.is_copied()).then_some(shape), scales, importance);
            let first = *firsts.entry(made).or_insert(number);
            if first != number && target.properties().shared_values {
                kept.insert(number, first);
            } else {
                written = written.saturating_add(ties.stored(group));
            }
        }
        let split = ties.tied().saturating_sub(kept.len());
        Ok(Self { kept, split, written, size: ties.size(model) })
    }

    /// Returns an item if a small source would become a large output because of its ties
    /// (docs/formats/conversion.md#tied-tensors).
    pub(crate) fn unsupported(&self, options: &ConvertOptions) -> Option<Unsupported> {
        let Self { written, size, .. } = *self;
        (!options.tensors.allow_ties && written > size.saturating_mul(MAX_TIMES)).then(|| {
            Unsupported::ties(format!(
                "they would take {written} bytes of a source that has {size}: more than {MAX_TIMES} times as many"
            ))
        })
    }

    pub(crate) fn notes(&self) -> impl Iterator<Item = String> {
        let common = |count: usize| match count {
            1 => "1 tensor has its bytes in common with another".to_owned(),
            n => format!("{n} tensors have their bytes in common with others"),
        };
        let once =
            (!self.kept.is_empty()).then(|| format!("{}; they are written once", common(self.kept.len())));
        let split = (self.split > 0).then(|| format!("{}; each is written by itself", common(self.split)));
        once.into_iter().chain(split)
    }
}
