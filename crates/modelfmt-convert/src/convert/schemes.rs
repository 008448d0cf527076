//! Decodes quantized checkpoints: each weight that is stored as several tensors becomes one tensor, if a rule
//! dequantizes it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use modelfmt_core::{DType, TensorInfo};
use modelfmt_derived::Takes;
use modelfmt_metadata::schemes::{self, Failure, Replacements, Schemes, StoredWeight, is_weight, scale_name};
use modelfmt_model::error::{Error, Result};
use modelfmt_model::formats::Format;
use modelfmt_model::formats::capabilities::Capabilities;
use modelfmt_model::model::Model;
use modelfmt_model::model::mapped::{Computed, Program};
use modelfmt_rules::options::ConvertOptions;
use modelfmt_rules::wording::unsupported::Unsupported;
use modelfmt_rules::wording::{Choice, Note, Remedy};

use super::tensors::scales::{Scaled, Scales};
use super::tensors::types::{Candidate, TypeRules};

/// Decodes the weights that a rule dequantizes. Returns the new model, or the model itself if nothing is
/// decoded, and notes. Pass `takes` if a map comes next. A map cannot use scales in separate tensors, so
/// weights in small floats are then decoded too.
pub(crate) fn decoded<'m>(
    model: &'m Model,
    target: Format,
    capabilities: &'static Capabilities,
    options: &ConvertOptions,
    takes: Option<&Takes>,
) -> Result<(Cow<'m, Model>, Vec<Note>)> {
    let rules = TypeRules::new(&options.types.rules, capabilities)?;
    // GGUF has its own block types for some schemes.
    let keeps = capabilities.has(DType::Nvfp4) && !model.format().capabilities().has(DType::Nvfp4);
    if !rules.has_dequantize() && !keeps {
        return Ok((Cow::Borrowed(model), Vec::new()));
    }
    model.open_all()?;
    let mut decoder = Decoder {
        keeps,
        scales: Vec::new(),
        model,
        rules,
        replacements: Replacements::default(),
        refused: Vec::new(),
    };
    let mut notes = Vec::new();
    decoder.schemes(&mut notes)?;
    if let Some(takes) = takes {
        decoder.zero_biases(takes, &mut notes)?;
        decoder.scaled(options)?;
    }
    if !decoder.refused.is_empty() {
        let path = model.path().to_owned();
        return Err(Error::Unsupported { path, target, unsupported: decoder.refused });
    }
    if decoder.replacements.weights().next().is_none() {
        return Ok((Cow::Borrowed(model), Vec::new()));
    }
    let mut tensors = decoder.replacements.tensors(model);
    // A map does not see the scales of kept blocks.
    tensors.append(&mut decoder.scales);
    Ok((Cow::Owned(model.decoded(tensors)?), notes))
}

/// The weights that are decoded.
struct Decoder<'a> {
    model: &'a Model,
    rules: TypeRules<'a>,
    /// Whether weights that no rule dequantizes are kept in block types of GGUF, if there are any for them.
    keeps: bool,
    /// The scales of whole weights that are kept as blocks.
    scales: Vec<Computed>,
    replacements: Replacements,
    refused: Vec<Unsupported>,
}

impl Decoder<'_> {
    /// Checks whether a rule dequantizes the weight.
    fn is_decoded(&self, name: &str, shape: &[u64], scaled: &Scaled, dtype: DType) -> bool {
        self.rules.decodes(Candidate { name, origins: &[name], keeps_dtype: false, dtype, shape, scaled })
    }

    /// Decodes weights that are stored as several tensors.
    fn schemes(&mut self, notes: &mut Vec<Note>) -> Result<()> {
        let mut kinds: BTreeMap<(&str, String), u64> = BTreeMap::new();
        for weight in Schemes::find(self.model, true)?.weights {
            let scheme = weight.text();
            let shape = weight.shape.clone().unwrap_or_default();
            if !self.is_decoded(&weight.name, &shape, &Scaled::Stored(scheme.clone()), DType::F32) {
                if self.keeps && self.keep(&weight)? {
                    let count = kinds.entry(("kept in the blocks of GGUF", scheme)).or_default();
                    *count = count.saturating_add(1);
                }
                continue;
            }
            match weight.program(self.model) {
                Ok(program) => {
                    self.replacements.add(&weight, program, Some(scheme.clone()));
                    let count = kinds.entry(("decoded", scheme)).or_default();
                    *count = count.saturating_add(1);
                }
                Err(Failure::Read(error)) => return Err(error),
                Err(Failure::Why(why)) => {
                    let why = format!("it is stored as {scheme}: {why}");
                    self.refused.push(Unsupported::tensor(&weight.name, why, Some(Remedy::Exclude)));
                }
            }
        }
        for ((what, scheme), count) in kinds {
            let weights = if count == 1 { "weight is" } else { "weights are" };
            let text = format!("{count} {weights} {what}, of the scheme {scheme}");
            let choices: &[Choice] = if what == "decoded" { &[Choice::Dequantize] } else { &[] };
            notes.push(Note::of(choices, text));
        }
        Ok(())
    }

    /// Keeps a weight in a block type of GGUF, if GGUF has one for it. Returns whether it was kept.
    fn keep(&mut self, weight: &StoredWeight) -> Result<bool> {
        let (blocks, scale) = match weight.blocks(self.model) {
            Ok(kept) => kept,
            Err(Failure::Read(error)) => return Err(error),
            Err(Failure::Why(_)) => return Ok(false),
        };
        self.replacements.add(weight, blocks, None);
        if let Some(scale) = scale {
            let origins = vec![weight.name.clone()];
            let name = scale_name(&weight.name);
            self.scales.push(Computed { origins, ..Computed::new(name, scale).keep_dtype(true) });
        }
        Ok(true)
    }

    /// Leaves out the zero biases that AutoGPTQ added to every module that it quantized, where the map takes
    /// no bias.
    fn zero_biases(&mut self, takes: &Takes, notes: &mut Vec<Note>) -> Result<()> {
        let mut zeros = Vec::new();
        for weight in self.replacements.weights() {
            let is_gptq = weight.scheme.as_deref().is_some_and(|scheme| scheme.starts_with("gptq"));
            let stem = weight.name.strip_suffix(".weight").filter(|_| is_gptq);
            let name = stem.map(|stem| format!("{stem}.bias")).filter(|name| !takes(name));
            let Some(position) = name.and_then(|name| self.model.container().find(&name)) else { continue };
            if is_zero(self.model, position)? {
                zeros.push(position);
            }
        }
        let count = zeros.len();
        self.replacements.leave_out(zeros);
        if count > 0 {
            let biases = if count == 1 { "bias" } else { "biases" };
            notes.push(Note::from(format!("{count} {biases} of zeros beside GPTQ weights left out")));
        }
        Ok(())
    }

    /// Decodes small floats whose scales are in another tensor.
    fn scaled(&mut self, options: &ConvertOptions) -> Result<()> {
        let model = self.model;
        if !model.tensors().any(|info| is_weight(info.dtype)) {
            return Ok(());
        }
        let mut scales = Scales::new(model, &options.types.scales)?;
        for (position, info) in schemes::tensors(model) {
            let scaled = scales.of(&info);
            if !is_weight(info.dtype) || !self.is_decoded(info.name, info.shape, &scaled, info.dtype) {
                continue;
            }
            let Scaled::By(by) = scaled else { continue };
            let Some(of) = model.container().info(by.position) else { continue };
            let numbers = Program::tensor(position, &info).cast(DType::F32);
            let factors = Program::tensor(by.position, &of).cast(DType::F32);
            let program = numbers.and_then(|numbers| numbers.scaled(factors?, by.scaling));
            match program {
                Ok(program) => {
                    let scheme = Some(format!("{} with scales", info.dtype));
                    let origins = vec![info.name.to_owned()];
                    let computed =
                        Computed { origins, scheme, ..Computed::new(info.name.to_owned(), program) };
                    self.replacements.insert(position, computed);
                    let stem = info.name.strip_suffix(".weight").unwrap_or(info.name);
                    self.replacements
                        .leave_out([by.position].into_iter().chain(schemes::activation_tensors(model, stem)));
                }
                Err(error) => {
                    let why = error.to_string();
                    self.refused.push(Unsupported::tensor(info.name, why, Some(Remedy::Exclude)));
                }
            }
        }
        Ok(())
    }
}

/// Checks whether all values of a vector of floats are zero. Vectors over 16 MiB are not read, and count as
/// not zero.
fn is_zero(model: &Model, position: usize) -> Result<bool> {
    const MAX_LEN: u64 = 1 << 24;
    let info = model.container().info(position);
    let is_row = |info: &TensorInfo<'_>| info.shape.len() == 1 && info.dtype.is_float() && info.has_data;
    let Some(info) = info.filter(|info| is_row(info) && info.nbytes <= MAX_LEN) else { return Ok(false) };
    let mut bytes = vec![0; usize::try_from(info.nbytes).unwrap_or_default()];
    model.read_into(position, 0, &mut bytes)?;
    Ok(bytes.iter().all(|byte| *byte == 0))
}
