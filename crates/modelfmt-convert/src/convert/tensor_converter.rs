//! Converts tensors that are written one by one, unchanged or in another dtype.

use std::collections::BTreeMap;

use modelfmt_core::{DType, TensorInfo};

use super::check;
use super::tensors::scaled_dtype;
use super::tensors::scales::{Scaled, Scales};
use modelfmt_metadata::quants;
use modelfmt_metadata::schemes::is_weight;
use modelfmt_metadata::source::Content;
use modelfmt_model::error::Result;
use modelfmt_model::formats::capabilities::holds_every_value;
use modelfmt_model::job::tensors::{Item, Origin, OutputTensors, ScaledBy, Shape};
use modelfmt_model::model::Model;
use modelfmt_model::quant::Quant;
use modelfmt_model::values::is_number;
use modelfmt_rules::options::rules::TypeChange;
use modelfmt_rules::options::{ConvertOptions, ScaleRule};
use modelfmt_rules::wording::Choice;
use modelfmt_rules::wording::unsupported::Unsupported;
use modelfmt_rules::wording::{Note, Remedy};

/// A tensor that is written by itself.
pub(crate) struct ConvertedTensor {
    /// The tensor alone.
    pub(crate) tensors: OutputTensors,
    /// The dtype in the output.
    pub(crate) dtype: DType,
    pub(crate) notes: Vec<Note>,
}

/// Converts tensors that are written by themselves, by the `cast` and `dequantize` rules. The rules need no
/// glob here: they apply to the given tensors.
pub(crate) struct TensorConverter<'a> {
    model: &'a Model,
    cast: Option<DType>,
    decoded: Option<DType>,
    /// What is known about scales; `None` if no dtype changes.
    scales: Option<KnownScales<'a>>,
}

struct KnownScales<'a> {
    of_tensors: BTreeMap<usize, Quant>,
    beside: Scales<'a>,
    rules: &'a [ScaleRule],
}

impl<'a> TensorConverter<'a> {
    pub(crate) fn new(model: &'a Model, options: &'a ConvertOptions) -> Result<Self> {
        check::check_values(options)?;
        let rules = || options.types.rules.iter().rev().map(|rule| rule.change);
        let cast = rules().find_map(|change| if let TypeChange::Cast(to) = change { Some(to) } else { None });
        let decoded =
            rules().find_map(|change| if let TypeChange::Dequantize(to) = change { Some(to) } else { None });
        let scales = match (cast, decoded) {
            (None, None) => None,
            _ => Some(KnownScales::new(model, &options.types.scales)?),
        };
        Ok(Self { model, cast, decoded, scales })
    }

    /// Converts the tensor at a position. The inner result says why the tensor cannot be converted. With
    /// several tensors, only floats and blocks are cast.
    pub(crate) fn convert(
        &mut self,
        position: usize,
        is_one_of_several: bool,
    ) -> Result<Result<ConvertedTensor, Unsupported>> {
        let info = self.model.info(position)?;
        let is_cast = !is_one_of_several || info.dtype.is_float() || info.dtype.is_quantized();
        let (cast, decoded) = (self.cast.filter(|_| is_cast), self.decoded);
        let is_left = is_one_of_several && !is_number(info.dtype) && !info.dtype.is_quantized();
        let (Some(scales), false) = (&mut self.scales, is_left) else {
            return Ok(Ok(ConvertedTensor::new(position, info.dtype, info.dtype, None)));
        };
        let scaled = match self.model.scheme(position) {
            Some(scheme) => Scaled::Stored(scheme.to_owned()),
            None => scales.of(position, &info),
        };
        let note = match &scaled {
            Scaled::By(scaling) if decoded.is_some() => scales.beside.note(position, scaling),
            _ => None,
        };
        let mut converted = ConvertedTensor::convert(position, &info, cast, decoded, scaled);
        if let Ok(converted) = &mut converted {
            converted.notes.extend(note.map(Note::from));
        }
        if let Ok(converted) = converted.as_mut().map_err(|_| ())
            && is_one_of_several
        {
            // With several tensors, it is normal that some are not quantized.
            converted.notes.retain(|note| note.choices != [Choice::Dequantize]);
        }
        Ok(converted)
    }

    /// Fails if a scale rule has matched none of the tensors.
    ///
    /// # Errors
    /// [`Error::NoMatch`](modelfmt_model::Error::NoMatch) for the first such rule.
    pub(crate) fn check(&self) -> Result<()> {
        self.scales.as_ref().map_or(Ok(()), |scales| scales.beside.check())
    }
}

impl<'a> KnownScales<'a> {
    fn new(model: &'a Model, rules: &'a [ScaleRule]) -> Result<Self> {
        let content = Content::read(model)?;
        let stated = content.reserved.map(|reserved| reserved.quants).unwrap_or_default();
        let of_tensors = quants::find(model, &stated).of_tensors;
        Ok(Self { of_tensors, beside: Scales::new(model, rules)?, rules })
    }

    /// Returns what is known about the scales of a tensor.
    fn of(&mut self, position: usize, info: &TensorInfo<'_>) -> Scaled {
        let asks = is_weight(info.dtype) || !self.rules.is_empty();
        let beside = if asks { self.beside.of(info) } else { Scaled::No };
        match (self.of_tensors.get(&position), beside) {
            (Some(_), Scaled::By(_) | Scaled::Unclear(_)) => Scaled::Unclear(quants::TWICE.to_owned()),
            (Some(quant), _) => Scaled::Quant(quant.clone()),
            (None, scaled) => scaled,
        }
    }
}

impl ConvertedTensor {
    fn new(position: usize, from: DType, to: DType, scales: Option<ScaledBy>) -> Self {
        let scaling = scales.is_some().then_some(0);
        let item = Item { origin: Origin::Model(position), from, to, shape: Shape::Same, scaling };
        let scalings = scales.into_iter().collect();
        let tensors = OutputTensors { items: vec![item], scalings, ..OutputTensors::default() };
        Self { tensors, dtype: to, notes: Vec::new() }
    }

    fn convert(
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
        let (has_scales, is_stored) = (scaled != Scaled::No, matches!(scaled, Scaled::Stored(_)));
        let scales = match scaled {
            _ if decoded.is_none() => None,
            Scaled::By(scaling) => Some(ScaledBy::Tensor(scaling)),
            Scaled::Quant(quant) => Some(ScaledBy::Quant(quant.affine(info.shape))),
            Scaled::No | Scaled::Unclear(_) | Scaled::Stored(_) => None,
        };
        let is_dequantized = is_blocks || scales.is_some() || is_stored;
        let mut converted = Self::new(position, from, to, scales);
        if decoded.is_some() && !is_dequantized {
            converted
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
            converted.notes.push(Note::from(format!("{why}, which are not applied")));
        }
        Ok(converted)
    }
}
