//! What `quantize` gives each tensor: a type, or what a preset chooses.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use modelfmt_core::DType;

use super::rules::Rules;
use crate::choice::Choice;
use crate::convert::fit::{Examples, Unsupported};
use crate::convert::options::{Quantization, QuantizeRule};
use crate::error::Result;
use crate::formats::capabilities::Capabilities;
use crate::model::Model;
use crate::presets::Preset;
use crate::words::Remedy;

/// The rules of `quantize`.
pub(super) struct Quantizer<'a> {
    rules: Rules<'a, Quantization>,
    /// The rules again, in their order.
    asked: Vec<Quantization>,
    /// What the presets choose, by the names of tensors.
    presets: BTreeMap<Preset, HashMap<&'a str, DType>>,
    /// Float tensors that stay as they are, by what they would have become.
    left: BTreeMap<Quantization, Vec<String>>,
    target: &'static Capabilities,
    /// What presets have chosen and the target lacks.
    lacking: BTreeSet<(Preset, DType)>,
}

impl<'a> Quantizer<'a> {
    pub(super) fn new(rules: &'a [QuantizeRule], target: &'static Capabilities) -> Result<Self> {
        let named = rules.iter().map(|rule| (rule.glob.as_deref(), rule.to));
        Ok(Self {
            rules: Rules::new(Choice::Quantize, named)?,
            asked: rules.iter().map(|rule| rule.to).collect(),
            presets: BTreeMap::new(),
            left: BTreeMap::new(),
            target,
            lacking: BTreeSet::new(),
        })
    }

    /// The types that were asked for, without those that presets choose.
    pub(super) fn types(&self) -> impl Iterator<Item = DType> {
        self.asked.iter().filter_map(|to| match to {
            Quantization::Type(dtype) => Some(*dtype),
            Quantization::Preset(_) => None,
        })
    }

    pub(super) fn has_presets(&self) -> bool {
        self.asked.iter().any(|to| matches!(to, Quantization::Preset(_)))
    }

    /// Asks the presets for the types of these tensors, and returns why they do not say them.
    pub(super) fn plan(
        &mut self,
        architecture: Option<&str>,
        tensors: &[(&'a str, &'a [u64])],
    ) -> Vec<Unsupported> {
        let mut unsupported = Vec::new();
        let presets: BTreeSet<Preset> = self
            .asked
            .iter()
            .filter_map(|to| if let Quantization::Preset(preset) = to { Some(*preset) } else { None })
            .collect();
        for preset in presets {
            let types = match preset.types(architecture, tensors.iter().copied()) {
                Ok(types) => types,
                Err(unknown) => {
                    let helps = Some(Remedy::Quantize(preset.base()));
                    unsupported.push(Unsupported::choice(
                        Choice::Quantize,
                        preset,
                        unknown.to_string(),
                        helps,
                    ));
                    HashMap::new()
                }
            };
            self.presets.insert(preset, types);
        }
        unsupported
    }

    /// The type that a tensor gets, if it is one of floats and a rule takes it.
    pub(super) fn find(&mut self, name: &str, shape: &[u64], is_float: bool) -> Option<DType> {
        let to = self.rules.find(name, true).filter(|_| is_float)?;
        let dtype = match to {
            Quantization::Type(blocks) => has_whole_blocks(blocks, shape).then_some(blocks),
            Quantization::Preset(preset) => {
                self.presets.get(&preset).and_then(|types| types.get(name)).copied()
            }
        };
        match (dtype, to) {
            (None, _) => self.left.entry(to).or_default().push(name.to_owned()),
            (Some(dtype), Quantization::Preset(preset)) if !self.target.has(dtype) => {
                self.lacking.insert((preset, dtype));
            }
            _ => {}
        }
        dtype
    }

    /// What presets have chosen and the target lacks.
    pub(super) fn unsupported(&self) -> impl Iterator<Item = Unsupported> {
        self.lacking.iter().map(|(preset, dtype)| {
            let why = format!("{} has no {dtype}, which the preset gives some tensors", self.target.format);
            Unsupported::choice(Choice::Quantize, preset, why, None)
        })
    }

    /// Refuses a pattern that no tensor has.
    pub(super) fn check(&self, model: &Model) -> Result<()> {
        self.rules.check(model)
    }

    /// Which tensors of floats stay as they are.
    pub(super) fn notes(&self) -> impl Iterator<Item = String> {
        self.left.iter().map(|(to, names)| {
            let names = Examples::of(names.iter().map(String::as_str));
            match to {
                Quantization::Type(blocks) => format!(
                    "not quantized, because the rank is below 2 or a row is not whole blocks of {blocks}: {names}"
                ),
                Quantization::Preset(preset) => {
                    format!("not quantized, because {preset} leaves such tensors as they are: {names}")
                }
            }
        })
    }
}

/// Whether a tensor of floats can be of that type: matrices, as ggml's own tools do, whose rows are whole blocks.
fn has_whole_blocks(blocks: DType, shape: &[u64]) -> bool {
    let row = shape.last().copied().unwrap_or(1);
    let block = blocks.block().map_or(1, |block| u64::from(block.elements));
    shape.len() >= 2 && row.is_multiple_of(block)
}
