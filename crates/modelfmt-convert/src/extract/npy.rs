//! What to do about tensors that numpy cannot have.

use modelfmt_core::{DType, Kind, SmallType};
use modelfmt_rules::wording::Remedy;

/// Returns the remedy for a dtype that numpy lacks.
pub(super) fn remedy(dtype: DType) -> Option<Remedy> {
    let cast = |to| Some(Remedy::Cast { to, by_name: false });
    match dtype.kind() {
        Kind::Quantized if ggml_quant::can_decode(dtype) => Some(Remedy::Dequantize(DType::F32)),
        Kind::Float => cast(DType::F32),
        Kind::Int if SmallType::from_dtype(dtype).is_some() => cast(DType::I8),
        Kind::UInt if SmallType::from_dtype(dtype).is_some() => cast(DType::U8),
        _ => None,
    }
}
