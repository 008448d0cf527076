//! One tensor that is written by itself, as it is or in another type.

use modelfmt_core::{DType, TensorInfo};

use super::affine::Affine;
use super::cast::is_number;
use super::chosen::{self, Item, Origin, Shape, Tensors};
use super::fit::Unsupported;
use super::options::{ConvertOptions, ScaleRule, TypeRule};
use super::quants;
use super::scales::{Scaled, Scales, is_weight};
use super::source::Content;
use super::tensors::scaled_dtype;
use crate::choice::Choice;
use crate::error::Result;
use crate::formats::capabilities::holds_every_value;
use crate::model::Model;
use crate::words::{Note, Remedy};

/// What becomes of a tensor that is written by itself.
pub(crate) struct Single {
    /// The tensor alone.
    pub(crate) tensors: Tensors,
    /// The type that it gets.
    pub(crate) dtype: DType,
    pub(crate) notes: Vec<Note>,
}

impl Single {
    /// Chooses the type by the rules of `cast` and `dequantize`, which need no name here. What cannot be done is said inside.
    pub(crate) fn new(
        model: &Model,
        position: usize,
        options: &ConvertOptions,
    ) -> Result<Result<Self, Unsupported>> {
        options.check_values()?;
        let info = model.info(position)?;
        let asked = |rules: &[TypeRule]| rules.last().map(|rule| rule.dtype);
        let (cast, decoded) = (asked(&options.cast), asked(&options.dequantize));
        if cast.is_none() && decoded.is_none() {
            return Ok(Ok(Self::of(position, info.dtype, info.dtype, None)));
        }
        let scaled = scaled(model, position, &info, &options.scales)?;
        Ok(Self::converted(position, &info, cast, decoded, scaled))
    }

    fn of(position: usize, from: DType, to: DType, scales: Option<chosen::Scales>) -> Self {
        let scaling = scales.is_some().then_some(0);
        let item = Item { origin: Origin::Model(position), from, to, shape: Shape::Same, scaling };
        let scalings = scales.into_iter().collect();
        let tensors = Tensors { items: vec![item], scalings, ..Tensors::default() };
        Self { tensors, dtype: to, notes: Vec::new() }
    }

    fn converted(
        position: usize,
        info: &TensorInfo<'_>,
        cast: Option<DType>,
        decoded: Option<DType>,
        scaled: Scaled,
    ) -> Result<Self, Unsupported> {
        let from = info.dtype;
        let refused = |why: String, remedy| Err(Unsupported::tensor(info.name, why, remedy));
        let is_blocks = from.is_quantized() && ggml_quant::can_decode(from);
        if !is_blocks && !is_number(from) {
            return refused(format!("{from} cannot be read as numbers"), None);
        }
        let float = match scaled_dtype(from, decoded, &scaled) {
            Ok(_) if is_blocks => decoded.unwrap_or(from),
            Ok(dtype) => dtype,
            Err(why) => return refused(why, Some(Remedy::Scales)),
        };
        let to = cast.unwrap_or(float);
        if to.nbytes(info.shape).is_none() {
            return refused(format!("it would be too large as {to}"), None);
        }
        let has_scales = scaled != Scaled::No;
        let scales = match scaled {
            _ if decoded.is_none() => None,
            Scaled::By(scaling) => Some(chosen::Scales::Tensor(scaling)),
            Scaled::Quant(quant) => Some(chosen::Scales::Quant(Affine::new(quant, info.shape))),
            Scaled::No | Scaled::Unclear(_) => None,
        };
        let is_dequantized = is_blocks || scales.is_some();
        let mut single = Self::of(position, from, to, scales);
        if decoded.is_some() && !is_dequantized {
            single
                .notes
                .push(Note::of(&[Choice::Dequantize], "has nothing to do: the tensor is not quantized"));
        }
        if decoded.is_none() && has_scales {
            let why = format!("its {from} values mean nothing without the scales beside it");
            if !holds_every_value(to, from) {
                return refused(
                    format!("{why}; extract them as they are"),
                    Some(Remedy::Dequantize(DType::F32)),
                );
            }
            single.notes.push(Note::from(format!("{why}, which are not applied")));
        }
        Ok(single)
    }
}

/// What is known of the scales of a tensor.
fn scaled(model: &Model, position: usize, info: &TensorInfo<'_>, rules: &[ScaleRule]) -> Result<Scaled> {
    let content = Content::read(model)?;
    let stated = content.reserved.map(|reserved| reserved.quants).unwrap_or_default();
    let quant = quants::find(model, &stated).of_tensors.remove(&position);
    let mut scaled = Scaled::No;
    if is_weight(info.dtype) || !rules.is_empty() {
        let mut scales = Scales::new(model, rules)?;
        scaled = scales.of(info);
        scales.check()?;
    }
    Ok(match (quant, scaled) {
        (Some(_), Scaled::By(_) | Scaled::Unclear(_)) => Scaled::Unclear(quants::TWICE.to_owned()),
        (Some(quant), _) => Scaled::Quant(quant),
        (None, scaled) => scaled,
    })
}
