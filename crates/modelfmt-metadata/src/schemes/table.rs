//! The names of the tensors that weights are stored as, for each scheme.

use modelfmt_core::{DType, TensorInfo};
use modelfmt_model::model::Model;

/// How the values of a weight are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// GPTQ and AWQ: packed numbers, zero points and scales of groups, transposed.
    Groups,
    /// Packed numbers with scales.
    Packed,
    /// Numbers of 8 bits with scales.
    Int8,
    /// 4-bit floats with scales, which have a scale themselves.
    Nvfp4,
    /// Like `Nvfp4`, but the scales are divided by their scale.
    Nvfp4Divided,
    /// 4-bit floats with powers of two as scales.
    Mxfp4,
    /// Like `Mxfp4`, but in blocks of 32, transposed.
    Mxfp4Blocks,
    /// Indices into a table of 16 values, with scales.
    FourBits,
    /// Numbers of 8 bits with the largest magnitude of each row.
    Int8Rows,
}

/// The tensors of a weight. Their names are the name of a module and one of these suffixes.
pub(super) struct Names {
    pub(super) kind: Kind,
    pub(super) scheme: &'static str,
    /// The letter before the number of bits in the name of the numbers' type.
    pub(super) sign: &'static str,
    /// The suffix of the weight's own name.
    pub(super) weight: &'static str,
    /// The tensor with the numbers, and its dtype.
    pub(super) first: &'static str,
    dtype: DType,
    /// The other tensors: those that must exist, and those that may.
    pub(super) required: &'static [&'static str],
    pub(super) optional: &'static [&'static str],
}

/// Tensors about activations and caches of a module.
pub(super) const ACTIVATION_TENSORS: &[&str] =
    &[".input_scale", ".input_global_scale", ".input_zero_point", ".output_scale", ".k_scale", ".v_scale"];

/// The table. The first entry that fits counts.
const TABLE: &[Names] = &[
    Names {
        kind: Kind::Groups,
        scheme: "gptq",
        sign: "u",
        weight: ".weight",
        first: ".qweight",
        dtype: DType::I32,
        required: &[".qzeros", ".scales"],
        optional: &[".g_idx"],
    },
    Names {
        kind: Kind::Packed,
        scheme: "pack-quantized",
        sign: "i",
        weight: ".weight",
        first: ".weight_packed",
        dtype: DType::I32,
        required: &[".weight_scale"],
        optional: &[".weight_shape", ".weight_zero_point", ".weight_g_idx"],
    },
    Names {
        kind: Kind::Nvfp4Divided,
        scheme: "nvfp4-pack-quantized",
        sign: "f",
        weight: ".weight",
        first: ".weight_packed",
        dtype: DType::U8,
        required: &[".weight_scale", ".weight_global_scale"],
        optional: &[],
    },
    Names {
        kind: Kind::Mxfp4,
        scheme: "mxfp4-pack-quantized",
        sign: "f",
        weight: ".weight",
        first: ".weight_packed",
        dtype: DType::U8,
        required: &[".weight_scale"],
        optional: &[],
    },
    Names {
        kind: Kind::Nvfp4,
        scheme: "nvfp4",
        sign: "f",
        weight: ".weight",
        first: ".weight",
        dtype: DType::U8,
        required: &[".weight_scale", ".weight_scale_2"],
        optional: &[],
    },
    Names {
        kind: Kind::Mxfp4Blocks,
        scheme: "mxfp4",
        sign: "f",
        weight: "",
        first: "_blocks",
        dtype: DType::U8,
        required: &["_scales"],
        optional: &[],
    },
    Names {
        kind: Kind::FourBits,
        scheme: "bitsandbytes",
        sign: "u",
        weight: ".weight",
        first: ".weight",
        dtype: DType::U8,
        required: &[".weight.absmax", ".weight.quant_map"],
        optional: &[
            ".weight.nested_absmax",
            ".weight.nested_quant_map",
            ".weight.quant_state.bitsandbytes__nf4",
            ".weight.quant_state.bitsandbytes__fp4",
        ],
    },
    Names {
        kind: Kind::Int8Rows,
        scheme: "bitsandbytes int8",
        sign: "i",
        weight: ".weight",
        first: ".weight",
        dtype: DType::I8,
        required: &[".SCB"],
        optional: &[".weight_format"],
    },
    Names {
        kind: Kind::Int8,
        scheme: "int-quantized",
        sign: "i",
        weight: ".weight",
        first: ".weight",
        dtype: DType::I8,
        required: &[".weight_scale"],
        optional: &[".weight_zero_point"],
    },
];

/// Returns the scheme of the weight whose numbers a tensor has, and the name of its module, if the other
/// tensors exist.
pub(super) fn of<'n>(model: &Model, info: &TensorInfo<'n>) -> Option<(&'static Names, &'n str)> {
    if !matches!(info.dtype, DType::I32 | DType::U8 | DType::I8) || !info.has_data {
        return None;
    }
    TABLE.iter().filter(|names| names.dtype == info.dtype).find_map(|names| {
        let stem = info.name.strip_suffix(names.first)?;
        let is_there = |end: &&str| model.container().find(&format!("{stem}{end}")).is_some();
        let rank_fits = names.kind != Kind::Mxfp4Blocks || info.shape.len() == 4;
        (rank_fits && names.required.iter().all(is_there)).then_some((names, stem))
    })
}
