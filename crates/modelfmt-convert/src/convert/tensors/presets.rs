//! The dtypes that quantization presets choose for the tensors that are written.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use modelfmt_core::DType;

use modelfmt_model::formats::capabilities::Capabilities;
use modelfmt_rules::options::rules::{Quantization, TypeChange};
use modelfmt_rules::presets::{About, Preset};
use modelfmt_rules::wording::Choice;
use modelfmt_rules::wording::Remedy;
use modelfmt_rules::wording::unsupported::Unsupported;

/// The presets in the rules, and the dtypes that they choose for tensors.
pub(super) struct Presets<'a> {
    /// The dtypes for each preset, by tensor name.
    types: BTreeMap<Preset, HashMap<&'a str, DType>>,
    target: &'static Capabilities,
    /// The chosen dtypes that the target lacks.
    lacking: BTreeSet<(Preset, DType)>,
}

impl<'a> Presets<'a> {
    pub(super) fn new(asked: impl Iterator<Item = Quantization>, target: &'static Capabilities) -> Self {
        let presets = asked.filter_map(|to| match to {
            Quantization::Preset(preset) => Some((preset, HashMap::new())),
            Quantization::Type(_) => None,
        });
        Self { types: presets.collect(), target, lacking: BTreeSet::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.types.is_empty()
    }

    /// Asks the presets for the dtypes of these tensors. Returns an item for each preset that cannot choose them.
    pub(super) fn plan(&mut self, about: About<'_>, tensors: &[(&'a str, &'a [u64])]) -> Vec<Unsupported> {
        let mut unsupported = Vec::new();
        for (preset, types) in &mut self.types {
            match preset.types(about, tensors.iter().copied()) {
                Ok(found) => *types = found,
                Err(unknown) => {
                    let (why, helps) = (unknown.to_string(), Some(Remedy::Quantize(preset.base())));
                    unsupported.push(Unsupported::choice(Choice::Quantize, preset, why, helps));
                }
            }
        }
        unsupported
    }

    /// Returns the dtype that a preset chooses for a tensor; `None` if the tensor stays as it is.
    pub(super) fn dtype(&self, preset: Preset, name: &str) -> Option<DType> {
        self.types.get(&preset)?.get(name).copied()
    }

    /// Checks whether one of the presets gives a tensor this dtype only if the importance of its columns is
    /// known.
    #[cfg(not(target_arch = "wasm32"))]
    pub(super) fn needs_importance(&self, name: &str, dtype: DType) -> bool {
        let mut chosen = self.types.iter().filter(|(_, types)| types.get(name) == Some(&dtype));
        chosen.any(|(preset, _)| preset.needs_importance(name, dtype))
    }

    /// Records the dtype that a preset gave a tensor, if the target lacks it.
    pub(super) fn note(&mut self, change: TypeChange, dtype: DType) {
        if let TypeChange::Quantize(Quantization::Preset(preset)) = change
            && !self.target.has(dtype)
        {
            self.lacking.insert((preset, dtype));
        }
    }

    /// Returns an item for each chosen dtype that the target lacks.
    pub(super) fn unsupported(&self) -> impl Iterator<Item = Unsupported> {
        self.lacking.iter().map(|(preset, dtype)| {
            let why = format!("{} has no {dtype}, which the preset gives some tensors", self.target.format);
            Unsupported::choice(Choice::Quantize, preset, why, None)
        })
    }
}
