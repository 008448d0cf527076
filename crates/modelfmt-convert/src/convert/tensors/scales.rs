//! Finds the scales of weights, by the names that tools use or as the user says
//! (docs/formats/conversion.md#scales).

use modelfmt_core::value::{Value, json};
use modelfmt_core::{Kind, TensorInfo, author::Shortened};

use modelfmt_metadata::schemes::is_weight;
#[cfg(not(target_arch = "wasm32"))]
use modelfmt_metadata::{config, names::FROM_CONFIG};
use modelfmt_model::error::{Error, Result};
use modelfmt_model::job::tensors::ScaleTensor;
use modelfmt_model::model::Model;
use modelfmt_model::quant::Quant;
use modelfmt_rules::options::ScaleRule;
use modelfmt_rules::wording::Choice;
use tensor_program::Scaling;

/// Suffixes that are appended to the name of a weight: `q_proj.weight_scale_inv`, `gate_up_proj_scale`.
const SUFFIXES: [&str; 2] = ["_scale_inv", "_scale"];
/// Suffixes that replace `.weight`: in checkpoints for ComfyUI, by Mistral, and of DeepSeek's own code.
const IN_PLACE: [&str; 3] = [".scale_weight", ".qscale_weight", ".scale"];
/// Suffixes of tensors that show that a weight is not just the product of numbers and one scale.
const MORE: [&str; 3] = ["_scale_2", "_global_scale", "_zero_point"];

/// Returns the name of the scales of a weight, if the rule matches the weight.
fn scale_of(rule: &ScaleRule, name: &str) -> Option<String> {
    let Some((head, tail)) = rule.weight.split_once('*') else {
        return (rule.weight == name).then(|| rule.scale.clone());
    };
    let middle = name.strip_prefix(head)?.strip_suffix(tail)?;
    Some(rule.scale.replacen('*', middle, 1))
}

/// What is known about the scales of a tensor.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Scaled {
    /// There are no scales: the numbers are the values.
    #[default]
    No,
    /// The scales are another tensor.
    By(ScaleTensor),
    /// The file has scales and zero points for the tensor.
    Quant(Quant),
    /// The weight is stored in this scheme, and is decoded when it is read.
    Stored(String),
    /// There are scales, but it is unclear how to apply them, for this reason.
    Unclear(String),
}

/// Finds scales.
pub(crate) struct Scales<'a> {
    model: &'a Model,
    rules: &'a [ScaleRule],
    /// The rules that have matched a tensor.
    matched: Vec<bool>,
    /// The block size that the model states.
    block: Option<Vec<u64>>,
    /// The block sizes in a config.json next to each model, for models that do not state them.
    #[cfg(not(target_arch = "wasm32"))]
    configs: Vec<(&'a Model, ConfigBlocks)>,
}

/// What a config.json says about the block size.
#[cfg(not(target_arch = "wasm32"))]
enum ConfigBlocks {
    States(Vec<u64>),
    Silent,
    /// The file is ignored, because the pin or the signature of the model does not cover it.
    NotCovered,
}

impl<'a> Scales<'a> {
    pub(crate) fn new(model: &'a Model, rules: &'a [ScaleRule]) -> Result<Self> {
        let block = stated_block(&model.metadata()?);
        Ok(Self {
            model,
            rules,
            matched: vec![false; rules.len()],
            #[cfg(not(target_arch = "wasm32"))]
            configs: if block.is_none() { model.members().map(config_of).collect() } else { Vec::new() },
            block,
        })
    }

    /// Returns the stated block size for the weight at a position.
    #[cfg(not(target_arch = "wasm32"))]
    fn block(&self, position: usize) -> Option<&[u64]> {
        let stated = match self.config(position) {
            Some(ConfigBlocks::States(block)) => Some(block),
            _ => self.block.as_ref(),
        };
        stated.map(Vec::as_slice)
    }

    #[cfg(target_arch = "wasm32")]
    fn block(&self, _: usize) -> Option<&[u64]> {
        self.block.as_deref()
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn config(&self, position: usize) -> Option<&ConfigBlocks> {
        let (model, _) = self.model.member_at(position);
        let found = self.configs.iter().find(|(own, _)| std::ptr::eq(*own, model));
        found.map(|(_, config)| config)
    }

    /// Returns a note about the block size of a weight that is multiplied by its scales: it was taken from a
    /// config.json, or a config.json was ignored.
    pub(crate) fn note(&self, position: usize, scales: &ScaleTensor) -> Option<String> {
        #[cfg(not(target_arch = "wasm32"))]
        if scales.scaling.is_in_blocks() {
            return match self.config(position)? {
                ConfigBlocks::States(block) => {
                    let block: Vec<String> = block.iter().map(u64::to_string).collect();
                    Some(format!("weights are scaled in blocks of {}, {FROM_CONFIG}", block.join(" × ")))
                }
                ConfigBlocks::NotCovered => Some(
                    "the shapes say how large the blocks are that weights are scaled in: the pin or the signature does not cover the \
                     config.json beside the file"
                        .to_owned(),
                ),
                ConfigBlocks::Silent => None,
            };
        }
        let _ = (position, scales);
        None
    }

    /// Finds what is known about the scales of a tensor.
    pub(crate) fn of(&mut self, info: &TensorInfo<'_>) -> Scaled {
        let has_scales = is_weight(info.dtype) && info.has_data;
        let mut given = None;
        for (rule, matched) in self.rules.iter().zip(&mut self.matched) {
            // A pattern matches only weights.
            if !has_scales && rule.weight.contains('*') {
                continue;
            }
            if let Some(scale) = scale_of(rule, info.name) {
                given = Some(scale);
                *matched = true;
            }
        }
        if !has_scales {
            return match given {
                Some(_) => Scaled::Unclear(format!("{} has no scales", info.dtype)),
                None => Scaled::No,
            };
        }
        match given.map_or_else(|| self.known(info.name), |name| self.named(&name)) {
            Ok(None) => Scaled::No,
            Ok(Some(position)) => self.fitted(info, position),
            Err(why) => Scaled::Unclear(why),
        }
    }

    /// Fails for the first rule that has matched nothing.
    pub(crate) fn check(&self) -> Result<()> {
        match self.rules.iter().zip(&self.matched).find(|(_, matched)| !**matched) {
            None => Ok(()),
            Some((rule, _)) => Err(Error::NoMatch {
                path: self.model.path().to_owned(),
                choice: Choice::Scales,
                pattern: rule.weight.clone(),
            }),
        }
    }

    fn named(&self, name: &str) -> Result<Option<usize>, String> {
        let found = self.model.container().find(name);
        found.map(Some).ok_or_else(|| format!("its scales, tensor {:?}, are not there", Shortened(name)))
    }

    /// Finds the tensor with one of the usual names for the scales of a weight.
    fn known(&self, name: &str) -> Result<Option<usize>, String> {
        let appended = SUFFIXES.iter().map(|suffix| format!("{name}{suffix}"));
        let stem = name.strip_suffix(".weight");
        let in_place =
            stem.into_iter().flat_map(|stem| IN_PLACE.iter().map(move |end| format!("{stem}{end}")));
        let container = self.model.container();
        let names: Vec<String> =
            appended.chain(in_place).filter(|name| container.find(name).is_some()).collect();
        let more =
            MORE.iter().map(|suffix| format!("{name}{suffix}")).find(|name| container.find(name).is_some());
        match (&names[..], more) {
            (_, Some(more)) => {
                Err(format!("with {:?} beside it, it is not just weight times scale", Shortened(&more)))
            }
            ([], _) => Ok(None),
            ([one], _) => Ok(container.find(one)),
            ([one, other, ..], _) => {
                Err(format!("{:?} and {:?} may both be its scales", Shortened(one), Shortened(other)))
            }
        }
    }

    fn fitted(&self, weight: &TensorInfo<'_>, position: usize) -> Scaled {
        let Some(scales) = self.model.container().info(position) else { return Scaled::No };
        let unclear =
            |why: String| Scaled::Unclear(format!("its scales, tensor {:?}, {why}", Shortened(scales.name)));
        if scales.dtype.kind() != Kind::Float || scales.dtype.size().is_none_or(|size| size > 4) {
            return unclear(format!("are {}, a type that scales do not have", scales.dtype));
        }
        if !scales.has_data {
            return unclear("have no values".to_owned());
        }
        let block = self.model.container().find(weight.name).and_then(|position| self.block(position));
        match Scaling::new(weight.shape, scales.shape, block) {
            Ok(scaling) => Scaled::By(ScaleTensor { position, scaling }),
            Err(why) => Scaled::Unclear(why),
        }
    }
}

/// Reads the block size from a config.json next to a model.
#[cfg(not(target_arch = "wasm32"))]
fn config_of(model: &Model) -> (&Model, ConfigBlocks) {
    // A note about a broken file is made elsewhere, where names are read from it.
    let stated = config::read(model, &mut Vec::new()).as_ref().and_then(stated_block);
    let blocks = match stated {
        Some(block) => ConfigBlocks::States(block),
        None if config::is_ignored(model) => ConfigBlocks::NotCovered,
        None => ConfigBlocks::Silent,
    };
    (model, blocks)
}

/// Reads `weight_block_size`, at the top level or in Hugging Face's `quantization_config`. If metadata holds
/// only strings, the value is JSON text.
fn stated_block(metadata: &Value) -> Option<Vec<u64>> {
    const MAX_TEXT: usize = 1 << 20;
    let parsed = |value: &Value| match value.as_str() {
        Some(text) if text.len() > MAX_TEXT => None,
        Some(text) => json::parse(text.as_bytes()).ok(),
        None => Some(value.clone()),
    };
    let config = metadata.get("quantization_config").and_then(parsed);
    let stated = metadata.get("weight_block_size");
    let value = stated.or_else(|| config.as_ref()?.get("weight_block_size")).and_then(parsed)?;
    value.as_array()?.iter().map(|item| item.as_u64()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_put_what_a_star_is_into_the_other_name() {
        let rule: ScaleRule = "*.weight=scales.*".parse().unwrap();
        assert_eq!(scale_of(&rule, "a.b.weight").as_deref(), Some("scales.a.b"));
        assert_eq!(scale_of(&rule, "a.b.bias"), None);
        let rule: ScaleRule = "w=s".parse().unwrap();
        assert_eq!((scale_of(&rule, "w").as_deref(), scale_of(&rule, "v")), (Some("s"), None));
        // The parts before and after the star do not overlap.
        let rule: ScaleRule = "a*a=s*".parse().unwrap();
        assert_eq!((scale_of(&rule, "a"), scale_of(&rule, "aa").as_deref()), (None, Some("s")));
        for bad in ["w", "=s", "w=", "*=s", "w=*", "*.*=*.*", ""] {
            assert!(bad.parse::<ScaleRule>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_block_is_stated_in_several_places() {
        let block = |text: &str| stated_block(&json::parse(text.as_bytes()).unwrap());
        assert_eq!(block(r#"{"weight_block_size": [128, 64]}"#), Some(vec![128, 64]));
        assert_eq!(block(r#"{"weight_block_size": "[32, 32]"}"#), Some(vec![32, 32]));
        assert_eq!(block(r#"{"quantization_config": {"weight_block_size": [1, 2]}}"#), Some(vec![1, 2]));
        assert_eq!(block(r#"{"quantization_config": "{\"weight_block_size\": [1, 2]}"}"#), Some(vec![1, 2]));
        for none in [
            "{}",
            "[1]",
            r#"{"weight_block_size": null}"#,
            r#"{"weight_block_size": "none"}"#,
            r#"{"weight_block_size": [128, -1]}"#,
            r#"{"weight_block_size": [128, "a"]}"#,
        ] {
            assert_eq!(block(none), None, "{none}");
        }
    }
}
