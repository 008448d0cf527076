//! Checkpoints that come quantized: weights that are stored as several tensors become one tensor each, where a rule dequantizes them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use modelfmt_core::{DType, TensorInfo};
use modelfmt_derived::Takes;
use modelfmt_metadata::schemes::{self, Failure, Placed, Schemes, Stored, is_weight, scale_name};
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

/// A model whose weights are decoded that a rule dequantizes, or the model itself, and notes about that. `takes` is there if a map
/// comes next, which takes no scales beside weights.
pub(crate) fn decoded<'m>(
    model: &'m Model,
    target: Format,
    capabilities: &'static Capabilities,
    options: &ConvertOptions,
    takes: Option<&Takes>,
) -> Result<(Cow<'m, Model>, Vec<Note>)> {
    let rules = TypeRules::new(&options.types.rules, capabilities)?;
    // GGUF has blocks of its own for some schemes.
    let keeps = capabilities.has(DType::Nvfp4) && !model.format().capabilities().has(DType::Nvfp4);
    if !rules.has_dequantize() && !keeps {
        return Ok((Cow::Borrowed(model), Vec::new()));
    }
    model.open_all()?;
    let mut made =
        Made { keeps, scales: Vec::new(), model, rules, placed: Placed::default(), refused: Vec::new() };
    let mut notes = Vec::new();
    made.schemes(&mut notes)?;
    if let Some(takes) = takes {
        made.zero_biases(takes, &mut notes)?;
        made.scaled(options)?;
    }
    if !made.refused.is_empty() {
        let path = model.path().to_owned();
        return Err(Error::Unsupported { path, target, unsupported: made.refused });
    }
    if made.placed.weights().next().is_none() {
        return Ok((Cow::Borrowed(model), Vec::new()));
    }
    let mut tensors = made.placed.tensors(model);
    // A map sees all tensors but these.
    tensors.append(&mut made.scales);
    Ok((Cow::Owned(model.decoded(tensors)?), notes))
}

/// The weights that are decoded.
struct Made<'a> {
    model: &'a Model,
    rules: TypeRules<'a>,
    /// Whether weights that no rule dequantizes become blocks of GGUF, if it has those.
    keeps: bool,
    /// The scales of all values of weights that are kept as blocks.
    scales: Vec<Computed>,
    placed: Placed,
    refused: Vec<Unsupported>,
}

impl Made<'_> {
    /// Whether a rule dequantizes the weight.
    fn is_decoded(&self, name: &str, shape: &[u64], scaled: &Scaled, dtype: DType) -> bool {
        self.rules.decodes(Candidate { name, origins: &[name], is_fixed: false, dtype, shape, scaled })
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
                    self.placed.add(&weight, program, Some(scheme.clone()));
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

    /// Keeps a weight in the blocks of GGUF, if that has them. Returns whether it does.
    fn keep(&mut self, weight: &Stored) -> Result<bool> {
        let (blocks, scale) = match weight.blocks(self.model) {
            Ok(kept) => kept,
            Err(Failure::Read(error)) => return Err(error),
            Err(Failure::Why(_)) => return Ok(false),
        };
        self.placed.add(weight, blocks, None);
        if let Some(scale) = scale {
            let origins = vec![weight.name.clone()];
            let name = scale_name(&weight.name);
            self.scales.push(Computed { origins, ..Computed::new(name, scale).fixed(true) });
        }
        Ok(true)
    }

    /// Leaves out the biases that AutoGPTQ gave all modules that it quantized, where the model has none.
    fn zero_biases(&mut self, takes: &Takes, notes: &mut Vec<Note>) -> Result<()> {
        let mut zeros = Vec::new();
        for weight in self.placed.weights() {
            let is_gptq = weight.scheme.as_deref().is_some_and(|scheme| scheme.starts_with("gptq"));
            let stem = weight.name.strip_suffix(".weight").filter(|_| is_gptq);
            let name = stem.map(|stem| format!("{stem}.bias")).filter(|name| !takes(name));
            let Some(position) = name.and_then(|name| self.model.container().find(&name)) else { continue };
            if is_zero(self.model, position)? {
                zeros.push(position);
            }
        }
        let count = zeros.len();
        self.placed.leave_out(zeros);
        if count > 0 {
            let biases = if count == 1 { "bias" } else { "biases" };
            notes.push(Note::from(format!("{count} {biases} of zeros beside GPTQ weights left out")));
        }
        Ok(())
    }

    /// Decodes small floats with scales in another tensor.
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
                    self.placed.insert(position, computed);
                    let stem = info.name.strip_suffix(".weight").unwrap_or(info.name);
                    self.placed.leave_out([by.position].into_iter().chain(schemes::beside(model, stem)));
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

/// Whether all values of a short row of floats are zeros.
fn is_zero(model: &Model, position: usize) -> Result<bool> {
    const MAX_LEN: u64 = 1 << 24;
    let info = model.container().info(position);
    let is_row = |info: &TensorInfo<'_>| info.shape.len() == 1 && info.dtype.is_float() && info.has_data;
    let Some(info) = info.filter(|info| is_row(info) && info.nbytes <= MAX_LEN) else { return Ok(false) };
    let mut bytes = vec![0; usize::try_from(info.nbytes).unwrap_or_default()];
    model.read_into(position, 0, &mut bytes)?;
    Ok(bytes.iter().all(|byte| *byte == 0))
}
