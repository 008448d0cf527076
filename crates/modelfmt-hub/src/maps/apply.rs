//! Applies a map to the tensors of a folder.

use std::collections::BTreeMap;

use modelfmt_value::Value;
use tensor_core::DType;
use tensor_program::{Program, ProgramError};

use super::Map;
use super::file::Tensor;
use super::pattern::{Numbers, Pattern, key_of};
use super::steps::Step;
use crate::{Config, Key, MapError};

/// A tensor of a folder.
#[derive(Clone, Copy, Debug)]
pub struct HubTensor<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its dtype.
    pub dtype: DType,
    /// Its shape, outermost dimension first.
    pub shape: &'a [u64],
}

/// A tensor of the output.
#[derive(Clone, Debug, PartialEq)]
pub struct MadeTensor {
    /// Its name, as llama.cpp has it.
    pub name: String,
    /// How it is computed. The inputs are numbers in the list of the folder's tensors.
    pub program: Program,
    /// Whether it is `f32` because llama.cpp accepts no other type for it.
    pub is_f32: bool,
}

/// The result of a map for a folder.
#[derive(Clone, Debug, Default)]
pub struct Mapped {
    /// The tensors, in the order of the folder.
    pub tensors: Vec<MadeTensor>,
    /// The keys of the metadata.
    pub keys: Vec<(String, Key)>,
    /// The names of tensors that are left out.
    pub left_out: Vec<String>,
    /// Notes about what llama.cpp computes differently from the model.
    pub notes: Vec<String>,
}

/// The tensors that become one output: one for each expert, or a single one.
#[derive(Default)]
struct Group {
    /// The numbers of the tensors, by the number of the expert.
    members: BTreeMap<Option<u64>, usize>,
}

impl Map {
    /// Maps the tensors of a folder and its config.
    ///
    /// # Errors
    /// If the config lacks a value or asks for something that llama.cpp does not have, a tensor is unknown or
    /// missing, or a step does not fit a tensor.
    pub fn apply(&self, config: &Config, tensors: &[HubTensor<'_>]) -> Result<Mapped, MapError> {
        for tensor in tensors {
            self.check_type(config, tensor)?;
        }
        self.apply_back(config, tensors)
    }

    /// Maps tensors that are restored from a GGUF. Blocks among them are `u8`, and their last dimension
    /// counts bytes.
    pub(crate) fn apply_back(&self, config: &Config, tensors: &[HubTensor<'_>]) -> Result<Mapped, MapError> {
        let config = config.completed(&self.file.defaults, &self.file.aliases);
        self.check_required(&config)?;
        Self::check_rope(&config)?;
        let (mut groups, mut order) = (BTreeMap::<(usize, Option<u64>), Group>::new(), Vec::new());
        let mut mapped = Mapped { keys: self.keys(&config)?, ..Mapped::default() };
        for (number, tensor) in tensors.iter().enumerate() {
            let Some((entry, numbers)) = self.entry(&config, tensor.name)? else {
                mapped.left_out.push(tensor.name.to_owned());
                continue;
            };
            let group = groups.entry((entry, numbers.layer)).or_insert_with(|| {
                order.push((entry, numbers.layer));
                Group::default()
            });
            if let Some(first) = group.members.insert(numbers.expert, number) {
                return Err(MapError::Twice {
                    first: tensors.get(first).map_or("", |first| first.name).to_owned(),
                    second: tensor.name.to_owned(),
                    output: self.output(entry, numbers),
                });
            }
        }
        self.check_complete(&config, &groups)?;
        for (entry, layer) in order {
            let (Some(group), Some((_, tensor))) = (groups.get(&(entry, layer)), self.tensors.get(entry))
            else {
                continue;
            };
            let numbers = Numbers { layer, expert: None };
            mapped.tensors.push(self.made(&config, tensor, self.output(entry, numbers), group, tensors)?);
        }
        self.scale_rope(&config, &mut mapped)?;
        self.note_window(&config, &mut mapped);
        Ok(mapped)
    }

    /// Checks whether a model with this config has a tensor of that name.
    #[must_use]
    pub fn takes(&self, config: &Config, name: &str) -> bool {
        let config = config.completed(&self.file.defaults, &self.file.aliases);
        let found = self.entry(&config, name).ok().flatten();
        let tensor = found.and_then(|(entry, _)| self.tensors.get(entry));
        tensor.is_some_and(|(_, tensor)| tensor.when.as_deref().is_none_or(|key| is_true(&config, key)))
    }

    /// Checks whether the output of a model with this config is the table of embeddings.
    #[must_use]
    pub fn is_tied(&self, config: &Config) -> bool {
        is_true(&config.completed(&self.file.defaults, &self.file.aliases), "tie_word_embeddings")
    }

    /// Fails for a tensor of numbers that llama.cpp does not compute with. The dtype of a tensor that is left
    /// out does not count.
    fn check_type(&self, config: &Config, tensor: &HubTensor<'_>) -> Result<(), MapError> {
        let is_known = tensor.dtype.is_float() || tensor.dtype.is_quantized();
        let config = config.completed(&self.file.defaults, &self.file.aliases);
        if is_known || self.entry(&config, tensor.name)?.is_none() {
            return Ok(());
        }
        Err(MapError::WrongType { name: tensor.name.to_owned(), dtype: tensor.dtype })
    }

    /// Returns the number of the entry of a tensor, and the numbers in its name; `None` if the tensor is left
    /// out.
    pub(super) fn entry(&self, config: &Config, name: &str) -> Result<Option<(usize, Numbers)>, MapError> {
        let found = self.file.prefixes.iter().find_map(|prefix| {
            let (key, numbers) = key_of(name.strip_prefix(prefix.as_str())?);
            let patterns = self.by_key.get(&key)?.iter();
            patterns.filter_map(|(pattern, entry)| Some((*entry, pattern.numbers(&numbers)?))).next()
        });
        let unknown = || MapError::UnknownTensor { name: name.to_owned(), map: self.name().to_owned() };
        let (entry, numbers) = found.ok_or_else(unknown)?;
        let Some(entry) = entry else { return Ok(None) };
        let (_, tensor) = self.tensors.get(entry).ok_or_else(unknown)?;
        if tensor.unless.as_deref().is_some_and(|key| is_true(config, key)) {
            return Ok(None);
        }
        let counted = [(numbers.layer, Some(self.layers(tensor))), (numbers.expert, self.counts(tensor))];
        for (number, key) in counted {
            if let (Some(number), Some(key)) = (number, key) {
                let count = config.count(key)?;
                if number >= count {
                    return Err(MapError::BeyondCount { name: name.to_owned(), key: key.clone(), count });
                }
            }
        }
        Ok(Some((entry, numbers)))
    }

    /// Returns the config key that counts the layers with a tensor.
    pub(super) fn layers<'a>(&'a self, tensor: &'a Tensor) -> &'a String {
        tensor.layers.as_ref().unwrap_or(&self.file.layers)
    }

    /// Returns the config key that counts the parts that are stacked into a tensor.
    pub(crate) fn counts<'a>(&'a self, tensor: &'a Tensor) -> Option<&'a String> {
        tensor.counted.as_ref().or(self.file.experts.as_ref())
    }

    pub(super) fn output(&self, entry: usize, numbers: Numbers) -> String {
        let to = self.tensors.get(entry).map_or("", |(_, tensor)| &tensor.to);
        to.replace("{i}", &numbers.layer.unwrap_or_default().to_string())
    }

    /// Fails for the first tensor that is missing: of a layer, or of an expert of a layer that has others.
    fn check_complete(
        &self,
        config: &Config,
        groups: &BTreeMap<(usize, Option<u64>), Group>,
    ) -> Result<(), MapError> {
        let missing = |pattern: &Pattern, entry: usize, numbers: Numbers| {
            let prefix = self.file.prefixes.last().map_or("", String::as_str);
            let name = format!("{prefix}{}", pattern.name(numbers));
            MapError::MissingTensor { name, output: self.output(entry, numbers) }
        };
        for (entry, (pattern, tensor)) in self.tensors.iter().enumerate() {
            let holds = |key: &Option<String>| key.as_deref().is_some_and(|key| is_true(config, key));
            let may_lack = if tensor.when.is_some() { !holds(&tensor.when) } else { tensor.is_optional };
            let is_needed = !may_lack && !holds(&tensor.unless);
            let layers = if pattern.has_layers() { Some(config.count(self.layers(tensor))?) } else { None };
            // The first layer that is missing ends the loop, so it does not run longer than there are tensors.
            for layer in (0..layers.unwrap_or(1)).map(|layer| layers.map(|_| layer)) {
                let group = groups.get(&(entry, layer));
                if group.is_none() && is_needed {
                    return Err(missing(pattern, entry, Numbers { layer, expert: None }));
                }
                if group.is_none()
                    && groups.range((entry, layer)..).next().is_none_or(|((next, _), _)| *next != entry)
                {
                    break; // no later layer has it
                }
            }
        }
        for ((entry, layer), group) in groups {
            let Some((pattern, tensor)) =
                self.tensors.get(*entry).filter(|(pattern, _)| pattern.has_experts())
            else {
                continue;
            };
            let Some(key) = self.counts(tensor) else { continue };
            let known = group.members.keys().flatten().copied();
            if let Some(expert) = first_missing(known, config.count(key)?) {
                return Err(missing(pattern, *entry, Numbers { layer: *layer, expert: Some(expert) }));
            }
        }
        Ok(())
    }

    /// Makes the tensor that a group becomes.
    fn made(
        &self,
        config: &Config,
        tensor: &Tensor,
        output: String,
        group: &Group,
        tensors: &[HubTensor<'_>],
    ) -> Result<MadeTensor, MapError> {
        let mut parts = Vec::new();
        let first = group.members.values().next().and_then(|number| tensors.get(*number));
        let dtype = first.map_or(DType::F32, |source| source.dtype);
        // Blocks that are not moved need not become bytes.
        let is_blocks = dtype.is_quantized() && (group.members.len() > 1 || !tensor.steps.is_empty());
        for number in group.members.values() {
            let Some(source) = tensors.get(*number) else { continue };
            // On the way back, blocks are bytes and have another shape, which is not checked.
            if let Some(shape) = tensor.shape.as_ref().filter(|_| source.dtype != DType::U8) {
                shape.check(config, source.name, source.shape)?;
            }
            let input = Program::input(*number, source.dtype, source.shape);
            let steps = tensor.steps.iter();
            let input = if is_blocks { bytes_of_rows(input, &tensor.steps) } else { Ok(input) };
            let input = input.map_err(|error| MapError::Step { name: source.name.to_owned(), error })?;
            parts.push(
                steps.clone().try_fold(input, |program, step| step.apply(program, config, source.name))?,
            );
        }
        let failed = |error: ProgramError| MapError::Step { name: output.clone(), error };
        let is_stacked = group.members.keys().any(Option::is_some);
        let program = if is_stacked { Program::stacked(parts) } else { Program::concatenated(parts, 0) };
        let program = program.map_err(failed)?;
        let program = if is_blocks { rows_of_bytes(program, dtype) } else { Ok(program) }.map_err(failed)?;
        let makes_f32 = |step: &Step| matches!(step, Step::Add(_) | Step::F32);
        let is_f32 = program.shape().len() <= 1 || tensor.steps.iter().any(makes_f32);
        // llama.cpp computes with norms and biases in f32 only.
        let is_float = program.dtype().is_float();
        let program = if is_f32 && is_float { program.cast(DType::F32).map_err(failed)? } else { program };
        Ok(MadeTensor { name: output, program, is_f32 })
    }
}

/// Returns the bytes of blocks, so that steps can move their rows.
fn bytes_of_rows(blocks: Program, steps: &[Step]) -> Result<Program, ProgramError> {
    let moves_rows = steps.iter().all(|step| matches!(step, Step::Pair(_) | Step::Gather(..)));
    let (mut shape, nbytes) = (blocks.shape().to_vec(), blocks.nbytes().unwrap_or(0));
    match shape.split_last_mut() {
        Some((last, rows)) if moves_rows && !rows.is_empty() => {
            *last = nbytes.checked_div(rows.iter().product()).unwrap_or(0);
        }
        _ => return Err(ProgramError::NotMovable { step: "map", dtype: blocks.dtype() }),
    }
    blocks.retyped(DType::U8, &shape)
}

/// Retypes bytes as the blocks that they are.
fn rows_of_bytes(bytes: Program, dtype: DType) -> Result<Program, ProgramError> {
    let mut shape = bytes.shape().to_vec();
    if let (Some(last), Some(block)) = (shape.last_mut(), dtype.block()) {
        let blocks = last.checked_div(block.nbytes.into()).unwrap_or(0);
        *last = blocks.saturating_mul(block.elements.into());
    }
    bytes.retyped(dtype, &shape)
}

/// Returns the first number below `count` that is not in an ascending list.
fn first_missing(known: impl Iterator<Item = u64>, count: u64) -> Option<u64> {
    let mut next = 0u64;
    for number in known {
        if number != next {
            return Some(next);
        }
        next = next.saturating_add(1);
    }
    (next < count).then_some(next)
}

fn is_true(config: &Config, path: &str) -> bool {
    config.get(path).and_then(Value::as_bool) == Some(true)
}
