//! 4-bit floats (E2M1), with scales for 16 numbers that have a scale themselves, or with powers of two for 32
//! numbers.

use modelfmt_core::DType;
use modelfmt_model::model::Model;
use tensor_program::{Packing, Program, Scaling};

use super::table::Kind;
use super::{Failure, Layout, StoredWeight, floats_of};

/// Returns the names of the tensors with numbers and scales, and how many numbers have the same scale.
const fn names(kind: Kind) -> (&'static str, &'static str, u64) {
    match kind {
        Kind::Nvfp4 => (".weight", ".weight_scale", 16),
        Kind::Nvfp4Divided => (".weight_packed", ".weight_scale", 16),
        Kind::Mxfp4Blocks => ("_blocks", "_scales", 32),
        _ => (".weight_packed", ".weight_scale", 32),
    }
}

/// Returns the shape in numbers of a tensor that stores two numbers in a byte, with its dimensions in stored
/// order.
fn stored_shape(stored: &StoredWeight, model: &Model) -> Result<Vec<u64>, Failure> {
    let (numbers, _, group) = names(stored.kind);
    let (_, info) = stored.require_part(model, numbers)?;
    let mut shape = info.shape.to_vec();
    let unclear = || Failure::Why(format!("{:?} has the shape {:?}", info.name, info.shape));
    if stored.kind == Kind::Mxfp4Blocks {
        // The last dimension is the bytes of a block.
        let (Some(16), Some(blocks)) = (shape.pop(), shape.last_mut()) else { return Err(unclear()) };
        *blocks = blocks.checked_mul(group).ok_or_else(unclear)?;
    } else {
        let last = shape.last_mut().ok_or_else(unclear)?;
        *last = last.checked_mul(2).ok_or_else(unclear)?;
    }
    if shape.len() < 2 || shape.contains(&0) {
        return Err(unclear());
    }
    Ok(shape)
}

/// Returns the shape, and fails if the scales do not fit it.
pub(super) fn layout(stored: &StoredWeight, model: &Model) -> Result<Layout, Failure> {
    let (_, scales, group) = names(stored.kind);
    let mut shape = stored_shape(stored, model)?;
    let (_, info) = stored.require_part(model, scales)?;
    let dtype_fits = match stored.kind {
        Kind::Nvfp4 | Kind::Nvfp4Divided => info.dtype == DType::F8E4M3,
        _ => matches!(info.dtype, DType::U8 | DType::F8E8M0),
    };
    if !dtype_fits {
        return Err(
            format!("its scales, {:?}, are {}, which this scheme has not", info.name, info.dtype).into()
        );
    }
    let mut expected = shape.clone();
    if let Some(last) = expected.last_mut() {
        *last = last.div_ceil(group);
    }
    if info.shape != expected {
        return Err(misfit(info.name, info.shape, &expected).into());
    }
    if stored.kind == Kind::Mxfp4Blocks {
        let last = shape.len().saturating_sub(1);
        shape.swap(last.saturating_sub(1), last);
    }
    Ok(Layout {
        shape: Some(shape),
        bits: Some(4),
        numbers: Some("f4"),
        group: Some(group),
        ..Layout::default()
    })
}

/// Returns why scales do not fit. Kernels expect scales of whole tiles of 128 × 4, in an order of their own.
fn misfit(name: &str, found: &[u64], expected: &[u64]) -> String {
    let padded = |expected: &[u64]| match *expected {
        [ref before @ .., rows, columns] => {
            let tail = [rows.checked_next_multiple_of(128)?, columns.checked_next_multiple_of(4)?];
            Some(before.iter().copied().chain(tail).collect::<Vec<u64>>())
        }
        _ => None,
    };
    let count = |shape: &[u64]| modelfmt_core::element_count(shape);
    if padded(expected).is_some_and(|padded| count(&padded) == count(found)) {
        return format!(
            "its scales, {name:?}, have the shape {found:?} and are swizzled: those of {expected:?} in tiles of 128 × 4, which are not decoded"
        );
    }
    format!("its scales, {name:?}, have the shape {found:?}, and {expected:?} is needed")
}

pub(super) fn program(
    stored: &StoredWeight,
    model: &Model,
    kind: Kind,
    layout: &Layout,
) -> Result<Program, Failure> {
    let (numbers, scales, group) = names(kind);
    let shape = stored_shape(stored, model)?;
    let (position, info) = stored.require_part(model, numbers)?;
    let numbers = Program::tensor(position, &info).retyped(DType::F4, &shape)?.cast(DType::F32)?;
    let (position, info) = stored.require_part(model, scales)?;
    let scales = match info.dtype {
        DType::U8 => Program::tensor(position, &info).retyped(DType::F8E8M0, info.shape)?,
        _ => Program::tensor(position, &info),
    };
    let mut scales = scales.cast(DType::F32)?;
    let whole = match kind {
        Kind::Nvfp4 => Some(".weight_scale_2"),
        Kind::Nvfp4Divided => Some(".weight_global_scale"),
        _ => None,
    };
    if let Some(end) = whole {
        let of_all = floats_of(stored.require_part(model, end)?)?;
        let scaling = Scaling::new(scales.shape(), of_all.shape(), None)?;
        scales = match kind {
            Kind::Nvfp4Divided => scales.divided(of_all, scaling)?,
            _ => scales.scaled(of_all, scaling)?,
        };
    }
    let scaling = Scaling::new(&shape, scales.shape(), Some(&[1, group]))?;
    let values = numbers.scaled(scales, scaling)?;
    if kind != Kind::Mxfp4Blocks {
        return Ok(values);
    }
    // The matrix of each expert is stored in the order in which it is multiplied. The weight is its
    // transpose.
    let rank = layout.shape.as_ref().map_or(0, Vec::len);
    let mut axes: Vec<usize> = (0..rank).collect();
    axes.swap(rank.saturating_sub(2), rank.saturating_sub(1));
    Ok(values.permuted(&axes)?)
}

/// Returns the weight as blocks of GGUF, and the scale of all of its values. A block has the scales of its
/// numbers. Then, for each scale, bytes have the first half of its numbers in the low bits and the second
/// half in the high bits.
pub(super) fn blocks(
    stored: &StoredWeight,
    model: &Model,
    layout: &Layout,
) -> Result<(Program, Option<Program>), Failure> {
    let (numbers, scales, group) = names(stored.kind);
    // The number of scales in a block, and the largest byte of a scale in GGUF, which has no NaN and no sign.
    let (dtype, in_block, most) = match stored.kind {
        Kind::Mxfp4 => (DType::Mxfp4, 1, 0xfe),
        _ => (DType::Nvfp4, 4, 0x7e),
    };
    let elements = group.saturating_mul(in_block);
    let Some(shape @ &[rows, columns]) = layout.shape.as_deref() else {
        return Err("a matrix is needed".to_owned().into());
    };
    if !columns.is_multiple_of(elements) {
        return Err(format!("rows of {columns} are no whole blocks of {elements}").into());
    }
    let (blocks, half) = (columns / elements, group / 2);
    let packing = Packing::of_bits(4).ok_or_else(|| "4 bits are not packed".to_owned())?;
    let (position, info) = stored.require_part(model, numbers)?;
    let numbers = Program::tensor(position, &info).unpacked(packing)?;
    let numbers =
        numbers.reshaped(&[rows, blocks, in_block, 2, half])?.permuted(&[0, 1, 2, 4, 3])?.packed()?;
    let numbers = numbers.reshaped(&[rows, blocks, elements / 2])?;
    let (position, info) = stored.require_part(model, scales)?;
    let scales = Program::tensor(position, &info).retyped(DType::U8, info.shape)?.at_most(most)?;
    let scales = scales.reshaped(&[rows, blocks, in_block])?;
    let values = Program::concatenated(vec![scales, numbers], 2)?.retyped(dtype, shape)?;
    let of_all = match stored.kind {
        Kind::Nvfp4 => Some(floats_of(stored.require_part(model, ".weight_scale_2")?)?.reshaped(&[1])?),
        Kind::Nvfp4Divided => Some(reciprocal(stored, model)?),
        _ => None,
    };
    Ok((values, of_all))
}

/// Returns the reciprocal of the number that scales are divided by. Fails unless multiplying by it gives the
/// same values.
fn reciprocal(stored: &StoredWeight, model: &Model) -> Result<Program, Failure> {
    let (position, info) = stored.require_part(model, ".weight_global_scale")?;
    let mut bytes = [0; 4];
    if info.dtype != DType::F32 || info.nbytes != 4 {
        return Err(format!("{:?} is not one f32", info.name).into());
    }
    model.read_into(position, 0, &mut bytes)?;
    let number = f32::from_le_bytes(bytes);
    // A power of two has the mantissa 0, and its reciprocal is exact.
    if !number.is_normal()
        || number <= 0.0
        || number.to_bits() & 0x007f_ffff != 0
        || !(1.0 / number).is_normal()
    {
        return Err(format!("values would be multiplied by 1 / {number}, which is rounded").into());
    }
    Ok(Program::constant(vec![1.0])
        .divided(floats_of((position, info))?.reshaped(&[1])?, Scaling::new(&[1], &[1], None)?)?)
}
