//! Finds what a format cannot hold, before anything is written.

use modelfmt::DType;
use modelfmt::convert::{Access, Capabilities};
use modelfmt::modelfmt_core::Kind;
use pyo3::prelude::*;

use crate::errors::refuse;
use crate::options::target;

/// The part of a tensor that does not fit (`dtype`, `name` or `rank`), and the reason. For a dtype, also the
/// nearest one that the format has, and whether that holds every value.
type Unfit = (&'static str, String, Option<&'static str>, bool);

/// Why a format cannot hold a tensor. `None` if it can, and also for a format or version that is not written, which is an error elsewhere.
#[pyfunction]
pub(crate) fn unfit(
    py: Python<'_>,
    format: &str,
    name: &str,
    dtype: &str,
    rank: usize,
) -> PyResult<Option<Unfit>> {
    let target = target(py, format)?;
    let dtype: DType = dtype
        .parse()
        .map_err(|error: modelfmt::modelfmt_core::UnknownDType| refuse(py, "usage", &error.to_string()))?;
    let held = target.format.capabilities_of(target.version.as_deref());
    let Some(held) = held.filter(|held| held.access == Access::ReadWrite) else { return Ok(None) };
    let format = target.format;
    if let Some(why) = held.name_fault(name) {
        return Ok(Some(("name", why.into_owned(), None, true)));
    }
    if rank > held.max_rank {
        let why = format!("it has {rank} dimensions, and tensors of {format} have at most {}", held.max_rank);
        return Ok(Some(("rank", why, None, true)));
    }
    if !held.has(dtype) {
        let why = format!("{format} has no type for {dtype}");
        let to = nearest(held, dtype);
        // f32 holds every value of bf16, which numpy lacks.
        let is_wide = |wide: DType| to == Some(wide) || to == Some(DType::F32);
        let is_exact = dtype.is_quantized() || to.is_none() || held.widened(dtype).is_some_and(is_wide);
        return Ok(Some(("dtype", why, to.map(DType::name), is_exact)));
    }
    Ok(None)
}

/// Returns the nearest type that both the format and numpy have.
fn nearest(held: &Capabilities, dtype: DType) -> Option<DType> {
    let order: &[DType] = match dtype.kind() {
        Kind::Opaque => return None,
        Kind::Float | Kind::Quantized => &[DType::F32, DType::F16],
        _ => &[DType::I64, DType::I32],
    };
    let wide = held.widened(dtype).filter(|wide| *wide != DType::BF16);
    wide.or_else(|| order.iter().copied().find(|&other| held.has(other)))
}
