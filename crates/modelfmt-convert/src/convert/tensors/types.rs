//! Applies the type rules to each tensor: the last rule that matches it decides.

use std::collections::{BTreeMap, BTreeSet};

use modelfmt_core::{DType, Kind, author::Shortened};

use super::presets::Presets;
use super::scaled_dtype;
use super::scales::Scaled;
use crate::convert::warnings::Warning;
use modelfmt_model::error::{Error, Result};
use modelfmt_model::formats::capabilities::{Capabilities, holds_every_value};
use modelfmt_model::model::Model;
use modelfmt_model::values::is_number;
use modelfmt_rules::globs::Globs;
use modelfmt_rules::options::rules::{Quantization, TypeChange, TypeRule};
use modelfmt_rules::wording::Remedy;
use modelfmt_rules::wording::unsupported::{Examples, Unsupported};

/// A tensor of the source, as the rules see it.
#[derive(Clone, Copy)]
pub(in crate::convert) struct Candidate<'t> {
    pub(in crate::convert) name: &'t str,
    /// The names that globs match: those of the tensors that this one is computed from, or its own.
    pub(in crate::convert) origins: &'t [&'t str],
    /// Whether it keeps its dtype unless the glob of a rule matches its name.
    pub(in crate::convert) keeps_dtype: bool,
    pub(in crate::convert) dtype: DType,
    pub(in crate::convert) shape: &'t [u64],
    pub(in crate::convert) scaled: &'t Scaled,
}

/// What happens to a tensor.
pub(super) enum Decision {
    /// No rule changes it.
    Stays,
    /// It gets this dtype, by this kind of rule.
    Becomes(DType, TypeChange),
    /// A rule matches it but cannot be applied.
    Refused(Unsupported),
}

/// What a rule does with a tensor.
enum Verdict {
    /// The rule does not match it.
    Misses,
    /// The rule would match it, but its numbers mean nothing without their scales.
    LacksScales,
    /// The rule leaves it as it is.
    Leaves,
    /// The rule gives it this dtype.
    Takes(DType),
    /// The rule matches its name, but cannot change it.
    Refuses(String, Option<Remedy>),
}

/// What is known about a rule after it has been tried on all tensors.
#[derive(Clone, Default)]
struct Tally {
    /// Whether its glob has matched a name.
    has_matched: bool,
    /// Whether it found a tensor to change.
    has_acted: bool,
    /// Whether it matches some tensor that no other rule matches.
    is_alone: bool,
    /// The number of tensors that it matches, and the number of tensors for which it decides.
    matches: u64,
    decides: u64,
}

/// The rules, in their order.
pub(in crate::convert) struct TypeRules<'a> {
    rules: &'a [TypeRule],
    /// The globs of the rules that have one.
    globs: Globs,
    /// For each glob, the number of its rule.
    named: Vec<usize>,
    presets: Presets<'a>,
    tallies: Vec<Tally>,
    /// The sets of rules that match the same tensor, as bits, each set once. Empty if there are more than 64
    /// rules.
    together: BTreeSet<u64>,
    /// Floats that stay as they are although a rule quantizes every tensor that it can.
    left: BTreeMap<Quantization, Vec<String>>,
}

impl<'a> TypeRules<'a> {
    pub(in crate::convert) fn new(rules: &'a [TypeRule], target: &'static Capabilities) -> Result<Self> {
        let globs = |rule: &'a TypeRule| rule.glob.as_deref();
        for rule in rules {
            // Compile each glob alone, so that the error names the malformed one.
            Globs::new(globs(rule)).map_err(|error| Error::usage(rule.choice(), error.to_string()))?;
        }
        let all = Globs::new(rules.iter().filter_map(globs)).map_err(|error| {
            let choice = rules.first().map_or(modelfmt_rules::wording::Choice::Cast, TypeRule::choice);
            Error::usage(choice, error.to_string())
        });
        let named = rules.iter().enumerate().filter(|(_, rule)| rule.glob.is_some());
        Ok(Self {
            rules,
            globs: all?,
            named: named.map(|(number, _)| number).collect(),
            presets: Presets::new(rules.iter().filter_map(TypeRule::blocks), target),
            tallies: vec![Tally::default(); rules.len()],
            together: BTreeSet::new(),
            left: BTreeMap::new(),
        })
    }

    pub(super) fn presets(&mut self) -> &mut Presets<'a> {
        &mut self.presets
    }

    /// Checks whether one of the rules dequantizes.
    pub(in crate::convert) fn has_dequantize(&self) -> bool {
        self.rules.iter().any(|rule| matches!(rule.change, TypeChange::Dequantize(_)))
    }

    /// Checks whether a tensor is decoded or multiplied by its scales. Does not count the tensor.
    pub(in crate::convert) fn decodes(&self, tensor: Candidate<'_>) -> bool {
        let verdicts = self.verdicts(tensor, &self.named_for(tensor.origins));
        let last = verdicts.into_iter().rfind(|(_, verdict)| !matches!(verdict, Verdict::LacksScales));
        last.is_some_and(|(number, verdict)| {
            matches!(self.rules.get(number).map(TypeRule::effective), Some(TypeChange::Dequantize(_)))
                && matches!(verdict, Verdict::Takes(_))
        })
    }

    /// Decides what happens to a tensor that will be written.
    pub(super) fn decide(&mut self, tensor: Candidate<'_>) -> Decision {
        let by_name = self.named_for(tensor.origins);
        if let Some(other) = tensor.origins.iter().find(|other| self.named_for(&[other]) != by_name) {
            let why = format!(
                "{:?} is a part of it, and does not match the same rules as its other parts",
                Shortened(other)
            );
            return Decision::Refused(Unsupported::tensor(tensor.name, why, None));
        }
        for &number in &by_name {
            self.tallies.get_mut(number).into_iter().for_each(|tally| tally.has_matched = true);
        }
        let mut verdicts = self.verdicts(tensor, &by_name);
        let all = verdicts.len();
        verdicts.retain(|(_, verdict)| !matches!(verdict, Verdict::LacksScales));
        self.count(&verdicts);
        match verdicts.pop() {
            Some((number, Verdict::Takes(dtype))) => {
                let change = self.rules.get(number).map_or(TypeChange::Cast(dtype), TypeRule::effective);
                self.presets.note(change, dtype);
                Decision::Becomes(dtype, change)
            }
            Some((_, Verdict::Refuses(why, remedy))) => {
                Decision::Refused(Unsupported::tensor(tensor.name, why, remedy))
            }
            None if all > 0 => {
                let (why, remedy) = lacks_scales(tensor);
                Decision::Refused(Unsupported::tensor(tensor.name, why, Some(remedy)))
            }
            Some(_) => Decision::Stays,
            None => {
                self.note_left(tensor);
                Decision::Stays
            }
        }
    }

    /// Returns the numbers of the rules whose globs match one of the names, ascending.
    fn named_for(&self, names: &[&str]) -> Vec<usize> {
        if self.named.is_empty() {
            return Vec::new();
        }
        let matches = |name: &&str| self.globs.matches(name);
        let found: BTreeSet<usize> = names.iter().flat_map(matches).collect();
        found.into_iter().filter_map(|at| self.named.get(at).copied()).collect()
    }

    /// Returns the verdicts of the rules on a tensor.
    fn verdicts(&self, tensor: Candidate<'_>, by_name: &[usize]) -> Vec<(usize, Verdict)> {
        let rules = self.rules.iter().enumerate();
        let for_it = rules.filter(|(number, rule)| match rule.glob {
            None => !tensor.keeps_dtype,
            Some(_) => by_name.binary_search(number).is_ok(),
        });
        let verdict = for_it.map(|(number, rule)| (number, self.verdict(rule, tensor)));
        verdict.filter(|(_, verdict)| !matches!(verdict, Verdict::Misses)).collect()
    }

    fn verdict(&self, rule: &TypeRule, tensor: Candidate<'_>) -> Verdict {
        match rule.effective() {
            TypeChange::Cast(to) => cast(rule, to, tensor),
            TypeChange::Dequantize(to) => dequantize(rule, to, tensor),
            TypeChange::Quantize(to) => {
                let dtype = match to {
                    Quantization::Type(blocks) => has_whole_blocks(blocks, tensor.shape).then_some(blocks),
                    Quantization::Preset(preset) => self.presets.dtype(preset, tensor.name),
                };
                quantize(rule, to, dtype, tensor)
            }
        }
    }

    fn count(&mut self, verdicts: &[(usize, Verdict)]) {
        let mut bits = 0u64;
        for (place, (number, verdict)) in verdicts.iter().enumerate() {
            let Some(tally) = self.tallies.get_mut(*number) else { continue };
            tally.matches = tally.matches.saturating_add(1);
            tally.decides = tally.decides.saturating_add(u64::from(place + 1 == verdicts.len()));
            tally.has_acted |= !matches!(verdict, Verdict::Leaves);
            tally.is_alone |= verdicts.len() == 1;
            bits |= u32::try_from(*number).ok().and_then(|number| 1u64.checked_shl(number)).unwrap_or(0);
        }
        if verdicts.len() > 1 && self.rules.len() <= 64 {
            self.together.insert(bits);
        }
    }

    fn note_left(&mut self, tensor: Candidate<'_>) {
        let rules = self.rules.iter().rev().filter(|rule| rule.glob.is_none());
        if let Some(to) = rules.filter_map(TypeRule::blocks).next()
            && tensor.dtype.kind() == Kind::Float
        {
            self.left.entry(to).or_default().push(tensor.name.to_owned());
        }
    }

    /// Fails for a glob that matched no name.
    pub(super) fn check_names(&self, model: &Model) -> Result<()> {
        let is_unmatched = |(rule, tally): &(&TypeRule, &Tally)| rule.glob.is_some() && !tally.has_matched;
        match self.rules.iter().zip(&self.tallies).find(is_unmatched) {
            None => Ok(()),
            Some((rule, _)) => Err(Error::NoMatch {
                path: model.path().to_owned(),
                choice: rule.choice(),
                pattern: rule.glob.clone().unwrap_or_default(),
            }),
        }
    }

    /// Fails for a rule that changes no tensor. `packed` describes tensors that `dequantize` leaves as they
    /// are.
    pub(super) fn check_acts(&self, model: &Model, packed: impl FnOnce() -> Option<String>) -> Result<()> {
        match self.rules.iter().zip(&self.tallies).find(|(_, tally)| !tally.has_acted) {
            None => Ok(()),
            Some((rule, _)) => Err(Error::IdleRule {
                path: model.path().to_owned(),
                rule: Box::new(rule.clone()),
                why: match rule.change {
                    TypeChange::Dequantize(_) => {
                        packed().map_or_else(|| self.idle(rule), |packed| format!("it {packed}"))
                    }
                    _ => self.idle(rule),
                },
            }),
        }
    }

    /// Says why a rule changes no tensor.
    fn idle(&self, rule: &TypeRule) -> String {
        let is_named = rule.glob.is_some();
        let why = match rule.effective() {
            TypeChange::Cast(_) => "no tensor has floats, and without a glob it casts only these".to_owned(),
            TypeChange::Dequantize(_) if is_named => {
                "none of the tensors that it names is quantized".to_owned()
            }
            TypeChange::Dequantize(_) => "no tensor is quantized".to_owned(),
            TypeChange::Quantize(Quantization::Type(blocks)) => {
                format!("no tensor of floats has rank 2 or more and rows of whole blocks of {blocks}")
            }
            TypeChange::Quantize(Quantization::Preset(_)) => {
                "the preset leaves every tensor as it is".to_owned()
            }
        };
        let is_after = !matches!(rule.effective(), TypeChange::Dequantize(_)) && self.has_dequantize();
        let twice = if is_after {
            "; rules see the types in the source, so convert the output once more to change tensors that are dequantized here"
        } else {
            ""
        };
        format!("{why}{twice}")
    }

    /// Returns warnings about rules that have no effect because later rules decide each of their tensors.
    pub(super) fn warnings(&self) -> Vec<Warning> {
        let overridden = |tally: &Tally| tally.matches > 0 && tally.decides == 0;
        if !self.tallies.iter().any(overridden) {
            return Vec::new();
        }
        let order = self.working_order();
        let rules = self.rules.iter().zip(&self.tallies).filter(|(_, tally)| overridden(tally));
        rules
            .map(|(rule, tally)| Warning::Overridden {
                rule: rule.clone(),
                tensors: tally.matches,
                order: order.clone(),
            })
            .collect()
    }

    /// Returns the rules in an order in which each decides at least one tensor, if there is one: general
    /// rules first.
    fn working_order(&self) -> Option<Vec<TypeRule>> {
        let mut order: Vec<usize> = (0..self.rules.len()).collect();
        order.sort_by_key(|number| {
            let is_named = self.rules.get(*number).is_some_and(|rule| rule.glob.is_some());
            let matches = self.tallies.get(*number).map_or(0, |tally| tally.matches);
            (std::cmp::Reverse(matches), is_named)
        });
        let mut decides: Vec<bool> = self.tallies.iter().map(|tally| tally.is_alone).collect();
        let is_in = |bits: u64, number: usize| {
            u32::try_from(number).ok().and_then(|number| bits.checked_shr(number)).unwrap_or(0) & 1 == 1
        };
        for &bits in &self.together {
            let last = order.iter().rev().find(|&&number| is_in(bits, number));
            last.and_then(|&number| decides.get_mut(number)).into_iter().for_each(|decides| *decides = true);
        }
        let works = decides.iter().all(|&decides| decides);
        let rules = || order.iter().filter_map(|&number| self.rules.get(number).cloned()).collect();
        (works && self.rules.len() <= 64).then(rules)
    }

    /// Returns notes about floats that stay as they are although a rule quantizes every tensor that it can.
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

/// Says why numbers that need scales cannot be changed alone, and returns the remedy.
pub(super) fn lacks_scales(tensor: Candidate<'_>) -> (String, Remedy) {
    let why = match tensor.scaled {
        Scaled::Stored(scheme) => format!("it is stored as {scheme}, and only decoded values can be changed"),
        _ => format!("its {} values mean nothing without the scales beside it", tensor.dtype),
    };
    (why, Remedy::Dequantize(DType::BF16))
}

/// Returns the text of a rule without its option name.
fn text(rule: &TypeRule) -> String {
    let text = rule.to_string();
    let argument = text.split_once(' ').map_or(&*text, |(_, argument)| argument);
    format!("{argument:?}")
}

fn cast(rule: &TypeRule, to: DType, tensor: Candidate<'_>) -> Verdict {
    let Candidate { dtype, scaled, .. } = tensor;
    let is_named = rule.glob.is_some();
    if !(if is_named { is_number(dtype) } else { dtype.kind() == Kind::Float }) {
        return match is_named {
            true if dtype.is_quantized() => {
                let why = format!("{} is a cast, which does not take blocks of {dtype}", text(rule));
                Verdict::Refuses(why, Some(Remedy::Dequantize(DType::F32)))
            }
            true => Verdict::Refuses(format!("{} is a cast, which does not take {dtype}", text(rule)), None),
            false => Verdict::Misses,
        };
    }
    // Scales and zero points that the file has for a tensor are kept, and stay valid for the same numbers in
    // a wider dtype.
    let keeps = to == dtype || matches!(scaled, Scaled::Quant(_)) && holds_every_value(to, dtype);
    match scaled {
        Scaled::No => Verdict::Takes(to),
        _ if keeps => Verdict::Takes(to),
        _ if is_named => {
            let (why, remedy) = lacks_scales(tensor);
            Verdict::Refuses(why, Some(remedy))
        }
        _ => Verdict::LacksScales,
    }
}

fn dequantize(rule: &TypeRule, to: DType, tensor: Candidate<'_>) -> Verdict {
    let Candidate { dtype, scaled, .. } = tensor;
    if dtype.is_quantized() {
        return Verdict::Takes(to);
    }
    match scaled_dtype(dtype, Some(to), scaled) {
        Err(why) => Verdict::Refuses(why, Some(Remedy::Scales)),
        Ok(_) if *scaled != Scaled::No => Verdict::Takes(to),
        Ok(_) if rule.glob.is_none() => Verdict::Misses,
        Ok(_) if dtype.kind() == Kind::Float => Verdict::Leaves,
        Ok(_) => Verdict::Refuses(
            format!("{} cannot decode it, because {dtype} is not quantized", text(rule)),
            None,
        ),
    }
}

fn quantize(rule: &TypeRule, to: Quantization, dtype: Option<DType>, tensor: Candidate<'_>) -> Verdict {
    let is_named = rule.glob.is_some();
    if tensor.dtype.kind() != Kind::Float {
        let why = || {
            format!(
                "{} cannot quantize it, because only floats can be quantized, not {}",
                text(rule),
                tensor.dtype
            )
        };
        return if is_named { Verdict::Refuses(why(), None) } else { Verdict::Misses };
    }
    match (dtype, to) {
        (Some(_), _) if *tensor.scaled != Scaled::No && is_named => {
            let (why, remedy) = lacks_scales(tensor);
            Verdict::Refuses(why, Some(remedy))
        }
        (Some(_), _) if *tensor.scaled != Scaled::No => Verdict::LacksScales,
        (Some(dtype), _) => Verdict::Takes(dtype),
        (None, Quantization::Type(blocks)) if is_named => {
            let rule = text(rule);
            let why = format!(
                "{rule} cannot quantize it, because its rank is below 2 or a row is not whole blocks of {blocks}"
            );
            Verdict::Refuses(why, None)
        }
        (None, _) => Verdict::Misses,
    }
}

/// Checks whether a float tensor can have this block dtype. As in ggml's own tools, the tensor must be a
/// matrix whose rows are whole blocks.
fn has_whole_blocks(blocks: DType, shape: &[u64]) -> bool {
    let row = shape.last().copied().unwrap_or(1);
    let block = blocks.block().map_or(1, |block| u64::from(block.elements));
    shape.len() >= 2 && row.is_multiple_of(block)
}
