//! Integers of compressed-tensors: value = scale × (number − zero point).

use modelfmt_core::DType;
use modelfmt_model::model::Model;
use tensor_program::{Packing, Program, Scaling};

use super::groups::by_index;
use super::quantization_config::QuantizationConfig;
use super::{Failure, Layout, StoredWeight, floats_of, matrix, numbers_of};

/// The maximum number of columns of a weight whose groups are read.
const MAX_COLUMNS: u64 = 1 << 22;

/// Returns the shape and the width of packed numbers. The shape is in a tensor, and the width is the one that
/// fits the number of words.
pub(super) fn packed(
    stored: &StoredWeight,
    model: &Model,
    config: &QuantizationConfig,
    reads: bool,
) -> Result<Layout, Failure> {
    let (_, words) = stored.require_part(model, ".weight_packed")?;
    let (rows, in_row) = matrix(&words)?;
    let columns = match stored.optional_part(model, ".weight_shape") {
        Some(_) if !reads => return Ok(Layout::default()),
        Some(part) => match numbers_of(model, part, 2)?[..] {
            [own, columns] if u64::try_from(own) == Ok(rows) => {
                u64::try_from(columns).ok().filter(|n| *n > 0)
            }
            ref other => {
                return Err(format!("\".weight_shape\" is {other:?}, and there are {rows} rows").into());
            }
        },
        None => None,
    };
    let fits = |bits: u64| columns.is_none_or(|columns| columns.div_ceil(32 / bits) == in_row);
    let said = config.of_groups("num_bits");
    let widths: Vec<u64> = match said[..] {
        [] if columns.is_some() => [8, 4, 2].into_iter().filter(|bits| fits(*bits)).collect(),
        _ => said.into_iter().filter(|bits| matches!(bits, 1 | 2 | 4 | 8) && fits(*bits)).collect(),
    };
    let &[bits] = &widths[..] else {
        return Err(format!(
            "{in_row} words in a row are not clearly numbers of 1, 2, 4 or 8 bits (num_bits of quantization_config)"
        )
        .into());
    };
    let columns = match columns {
        Some(columns) => columns,
        None => in_row.checked_mul(32 / bits).ok_or_else(|| "it is too large".to_owned())?,
    };
    let scales = stored.require_part(model, ".weight_scale")?.1.shape;
    let groups = scales.last().copied().unwrap_or(1);
    let group = group(config, columns, if scales.len() == 2 { groups } else { 1 });
    let shape = Some(vec![rows, columns]);
    Ok(Layout { shape, bits: u32::try_from(bits).ok(), group, ..Layout::default() })
}

/// Returns the size of a group that is stated and fits, or else the one that divides the columns.
fn group(config: &QuantizationConfig, columns: u64, groups: u64) -> Option<u64> {
    if groups <= 1 {
        return None;
    }
    let fits = |size: &u64| *size > 0 && columns.div_ceil(*size) == groups;
    let said: Vec<u64> = config.of_groups("group_size").into_iter().filter(fits).collect();
    match said[..] {
        [size] => Some(size),
        _ => Some(columns / groups).filter(|_| columns.is_multiple_of(groups)),
    }
}

pub(super) fn packed_program(
    stored: &StoredWeight,
    model: &Model,
    layout: &Layout,
) -> Result<Program, Failure> {
    let (Some(bits), Some(&[rows, columns])) = (layout.bits, layout.shape.as_deref()) else {
        return Err("its shape was not read".to_owned().into());
    };
    let packing = Packing::of_bits(bits).ok_or_else(|| format!("{bits} bits are not packed"))?;
    let (position, info) = stored.require_part(model, ".weight_packed")?;
    let words = Program::tensor(position, &info);
    let numbers = unpacked(words, packing)?.sliced(1, 0, columns)?.cast(DType::F32)?;
    let scales = floats_of(stored.require_part(model, ".weight_scale")?)?;
    let scaling = scaling(stored, model, numbers.shape(), (scales.shape(), layout.group))?;
    // Numbers and packed zero points are stored with half of the range added. That cancels out in their
    // difference.
    let half = f32::from(1_u8 << bits.saturating_sub(1).min(7));
    let numbers = match stored.optional_part(model, ".weight_zero_point") {
        None => numbers.plus(-half)?,
        Some((position, info)) if info.dtype == DType::I32 => {
            let words = Program::tensor(position, &info);
            let zeros = unpacked(words.transposed()?, packing)?.sliced(1, 0, rows)?.transposed()?;
            numbers.minus(zeros.cast(DType::F32)?, scaling.clone())?
        }
        Some((position, info)) => {
            let zeros = Program::tensor(position, &info).cast(DType::F32)?;
            numbers.plus(-half)?.minus(zeros, scaling.clone())?
        }
    };
    Ok(numbers.scaled(scales, scaling)?)
}

fn unpacked(words: Program, packing: Packing) -> Result<Program, Failure> {
    let bytes = match *words.shape() {
        [rows, columns] => columns.checked_mul(4).map(|columns| [rows, columns]),
        _ => None,
    };
    let bytes = bytes.ok_or_else(|| "a matrix of words is needed".to_owned())?;
    Ok(words.retyped(DType::U8, &bytes)?.unpacked(packing)?)
}

/// Assigns scales to numbers: by `weight_g_idx`, or by groups of one size.
fn scaling(
    stored: &StoredWeight,
    model: &Model,
    shape: &[u64],
    (scales, group): (&[u64], Option<u64>),
) -> Result<Scaling, Failure> {
    if let Some(index) = stored.optional_part(model, ".weight_g_idx") {
        let name = index.1.name;
        let numbers = numbers_of(model, index, MAX_COLUMNS)?;
        // -1 says that the groups are in order.
        if !numbers.contains(&-1) {
            return by_index(shape, scales, group, &numbers)
                .map_err(|why| Failure::Why(format!("{name:?}: {why}")));
        }
    }
    Ok(Scaling::new(shape, scales, group.map(|size| vec![1, size]).as_deref())?)
}

/// Returns the layout of numbers of 8 bits.
pub(super) fn layout(stored: &StoredWeight, model: &Model) -> Result<Layout, Failure> {
    let (_, info) = stored.require_part(model, ".weight")?;
    let (_, scales) = stored.require_part(model, ".weight_scale")?;
    let group = match (info.shape, scales.shape) {
        (&[_, columns], &[_, groups]) if groups > 1 && columns.is_multiple_of(groups) => {
            Some(columns / groups)
        }
        _ => None,
    };
    Ok(Layout { shape: Some(info.shape.to_vec()), bits: Some(8), group, ..Layout::default() })
}

pub(super) fn program(stored: &StoredWeight, model: &Model) -> Result<Program, Failure> {
    let (position, info) = stored.require_part(model, ".weight")?;
    let scales = floats_of(stored.require_part(model, ".weight_scale")?)?;
    let group = match (info.shape, scales.shape()) {
        (&[_, columns], &[_, groups]) if groups > 1 && columns.is_multiple_of(groups) => {
            Some(vec![1, columns / groups])
        }
        _ => None,
    };
    let scaling = Scaling::new(info.shape, scales.shape(), group.as_deref())?;
    let mut numbers = Program::tensor(position, &info).cast(DType::F32)?;
    if let Some((position, info)) = stored.optional_part(model, ".weight_zero_point") {
        numbers = numbers.minus(Program::tensor(position, &info).cast(DType::F32)?, scaling.clone())?;
    }
    Ok(numbers.scaled(scales, scaling)?)
}
