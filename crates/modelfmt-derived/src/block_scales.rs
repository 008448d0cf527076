//! Scales of weights in blocks, such as NVFP4: the scale for all values of a weight is a tensor of its own.

use modelfmt_core::DType;
use modelfmt_metadata::schemes::{Schemes, is_weight, scale_name};
use modelfmt_model::error::{Error, Result};
use modelfmt_model::formats::Format;
use modelfmt_model::model::Model;
use modelfmt_model::model::mapped::{Computed, Program};
use modelfmt_rules::wording::Choice;

/// Returns the error for a model with weights that are stored in a scheme, because a map does not take such
/// weights. `None` if the model has none.
pub(crate) fn stored(model: &Model) -> Result<Option<Error>> {
    let mut kinds = Schemes::find(model, true)?.kinds();
    if kinds.is_empty() {
        let scaled = model.tensors().filter(|info| is_weight(info.dtype));
        let first = scaled.clone().next();
        kinds.extend(first.map(|info| (format!("{} with scales beside them", info.dtype), scaled.count())));
    }
    let Some((text, count)) = kinds.into_iter().max_by_key(|(_, count)| *count) else { return Ok(None) };
    let weights = if count == 1 { "weight is" } else { "weights are" };
    let why = format!("{count} {weights} stored as {text}");
    Ok(Some(Error::Unmapped { path: model.path().to_owned(), why, help: Some(Choice::Dequantize) }))
}

/// Returns the number of tensors at the end of a model that are scales of weights in blocks.
pub(crate) fn count_of_scales(model: &Model) -> usize {
    let of = |name: &str| {
        let weight = format!("{}.weight", name.strip_suffix(".scale")?);
        let position = model.container().find(&weight)?;
        model.container().info(position).filter(|info| info.dtype == DType::Nvfp4)
    };
    let names = (0..model.tensor_count()).rev().map_while(|position| model.container().info(position));
    if model.format() == Format::Gguf { 0 } else { names.take_while(|info| of(info.name).is_some()).count() }
}

/// Returns the scales of the weights in blocks that a map has computed, under llama.cpp's names for them.
///
/// # Errors
/// A text that names a tensor that is computed from weights with several scales, or has a bias where
/// llama.cpp accepts none.
pub(crate) fn mapped_scales<'t>(
    model: &Model,
    made: impl Iterator<Item = (&'t str, &'t Program)>,
) -> std::result::Result<Vec<Computed>, String> {
    let scale = |input: usize| {
        let weight = model.container().info(input)?;
        let position = model.container().find(&scale_name(weight.name))?;
        let info = model.container().info(position)?;
        Some((position, Program::tensor(position, &info)))
    };
    let made: Vec<(&str, &Program)> = made.collect();
    let mut scales = Vec::new();
    for (name, program) in made.iter().filter(|(_, program)| program.dtype() == DType::Nvfp4) {
        let inputs = program.inputs();
        let found: Vec<Program> = inputs.iter().filter_map(|&input| scale(input)).map(|(_, of)| of).collect();
        let is_stacked = program.shape().len() > 2 && program.shape().first() == Some(&(inputs.len() as u64));
        if found.is_empty() {
            continue;
        }
        if found.len() != inputs.len() || found.len() > 1 && !is_stacked {
            return Err(format!("{name:?} is made of weights with several scales"));
        }
        let bias = name.replace(".weight", ".bias");
        if name.contains(".ffn_") && made.iter().any(|(other, _)| *other == bias) {
            return Err(format!("{name:?} has a scale and a bias, which llama.cpp does not compute with"));
        }
        let all = Program::concatenated(found, 0).map_err(|error| error.to_string())?;
        scales.push(Computed::new(scale_name(name), all).keep_dtype(true));
    }
    Ok(scales)
}
