//! Finds the scale of each element of a quantized weight whose scales are in another tensor.

use std::sync::Arc;

use tensor_core::DisplayShape;

/// The block size if the model does not state one. Most checkpoints with a scale for each block use it.
const USUAL_BLOCK: u64 = 128;

/// How an element is combined with its scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScaleOp {
    /// The element times the scale.
    Times,
    /// The element minus the scale.
    Minus,
    /// The element divided by the scale.
    Over,
}

/// Says which elements of a weight each scale is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scaling {
    /// The dimensions of the weight, slowest first, without those of length 1. Empty if there is one scale.
    dims: Vec<Dim>,
    /// For a matrix whose columns are not in blocks: for each column, the number of its scale within a row of
    /// scales.
    columns: Option<Arc<[u32]>>,
}

/// A dimension of a weight, divided into blocks with one scale each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Dim {
    len: u64,
    /// The number of elements in a block; the last block may have fewer.
    block: u64,
    scales: u64,
}

impl Scaling {
    /// Finds which elements of a weight each scale is for: one scale for the whole weight, one for each row,
    /// or one for each block. `stated` is the block size that the model states, if it does.
    ///
    /// # Errors
    /// A text that says why the shapes do not determine this.
    pub fn new(weight: &[u64], scales: &[u64], stated: Option<&[u64]>) -> Result<Self, String> {
        if scales.iter().all(|&n| n == 1) {
            return Ok(Self { dims: Vec::new(), columns: None });
        }
        let unclear = |why: &str| {
            format!(
                "scales of shape {} do not fit its shape {}{why}",
                DisplayShape(scales),
                DisplayShape(weight)
            )
        };
        let aligned = aligned(weight, scales).ok_or_else(|| unclear(""))?;
        // The stated block size is for the last dimensions; any dimensions before them stack matrices.
        let stated = stated.filter(|_| !is_by_row(weight, &aligned));
        let first_stated = weight.len().saturating_sub(stated.map_or(0, <[u64]>::len));
        let mut dims = Vec::new();
        for (place, (&len, &scales)) in weight.iter().zip(&aligned).enumerate() {
            let stated = stated.and_then(|blocks| blocks.get(place.checked_sub(first_stated)?)).copied();
            let block = block(len, scales, stated).ok_or_else(|| match stated {
                Some(block) => unclear(&format!(" in blocks of {block}, which the model states")),
                None => unclear(""),
            })?;
            if len > 1 {
                dims.push(Dim { len, block, scales });
            }
        }
        Ok(Self { dims, columns: None })
    }

    /// Returns the scaling of a matrix with `rows` rows. Each row has `groups` scales, and `columns` has the
    /// number of the scale for each column.
    ///
    /// # Errors
    /// A text that says which column has a number that is not below `groups`, or that there are too many
    /// groups.
    pub fn by_column(rows: u64, groups: u64, columns: Arc<[u32]>) -> Result<Self, String> {
        if let Some((column, number)) =
            columns.iter().enumerate().find(|(_, number)| u64::from(**number) >= groups)
        {
            return Err(format!("column {column} is in group {number} of {groups}"));
        }
        let len = columns.len() as u64;
        if groups > len || rows.checked_mul(len).is_none() {
            return Err(format!("{groups} groups are more than {len} columns"));
        }
        // Where columns are numbered, nothing uses the block sizes.
        let dims = [Dim { len: rows, block: 1, scales: rows }, Dim { len, block: 1, scales: groups }];
        Ok(Self { dims: dims.into(), columns: Some(columns) })
    }

    /// Checks whether each column of a matrix says which scale of the row is for it.
    #[must_use]
    pub const fn is_by_column(&self) -> bool {
        self.columns.is_some()
    }

    /// Checks whether a scale is for a block, rather than for a row, a column or the whole tensor. Only then
    /// does the block size matter.
    #[must_use]
    pub fn is_in_blocks(&self) -> bool {
        self.dims.iter().any(|dim| dim.scales != 1 && dim.scales != dim.len)
    }

    /// Checks whether this is for a weight and scales of these shapes.
    pub(crate) fn fits(&self, weight: &[u64], scales: &[u64]) -> bool {
        let lens = weight.iter().filter(|&&len| len > 1 || self.columns.is_some());
        let count = self.dims.iter().try_fold(1u64, |count, dim| count.checked_mul(dim.scales));
        // A single scale fits a weight of any shape.
        let is_same_shape = self.dims.is_empty() || lens.eq(self.dims.iter().map(|dim| &dim.len));
        weight.contains(&0) || is_same_shape && count.is_some() && tensor_core::element_count(scales) == count
    }

    /// Returns how many elements of each dimension have the same scale, without dimensions of length 1. Empty
    /// if there is a single scale.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = u64> {
        self.dims.iter().map(|dim| dim.block)
    }

    /// Multiplies `values`, the weight's elements from `first` on, by their scales, or combines them as `op`
    /// says. `read(first, count)` reads `count` scales. It is called for at most as many scales as there are
    /// values, or as one row of a matrix has.
    pub(crate) fn apply<E>(
        &self,
        op: ScaleOp,
        first: u64,
        values: &mut [f32],
        mut read: impl FnMut(u64, u64) -> Result<Vec<f32>, E>,
    ) -> Result<(), E> {
        let Some((columns, rows)) = self.dims.split_last() else {
            let scale = read(0, 1)?;
            update(op, values, scale.first().copied().unwrap_or(f32::NAN));
            return Ok(());
        };
        if let Some(numbers) = &self.columns {
            return apply_by_column(op, numbers, columns.scales, (first, values), read);
        }
        let (mut at, mut rest) = (first, values);
        while !rest.is_empty() {
            let (row, column) = (at / columns.len, at % columns.len);
            let left = columns.len - column;
            // The scales of the rows of one matrix are consecutive.
            let together = rows.last().map_or(1, |dim| dim.len - row % dim.len);
            let whole_rows = (rest.len() as u64 / columns.len).min(together);
            let count = if column > 0 || whole_rows == 0 { left } else { whole_rows * columns.len };
            let (piece, tail) =
                rest.split_at_mut(usize::try_from(count).unwrap_or(usize::MAX).min(rest.len()));
            let len = piece.len() as u64;
            if len <= left {
                let (begin, end) = (column / columns.block, (column + len - 1) / columns.block + 1);
                let scales = read(scale_row(rows, row) * columns.scales + begin, end - begin)?;
                update_row(op, piece, column, columns.block, &scales);
            } else {
                let last = scale_row(rows, row + (len - 1) / columns.len);
                let begin = scale_row(rows, row);
                let scales = read(begin * columns.scales, (last + 1 - begin) * columns.scales)?;
                let (width, in_row) = (size(columns.len), size(columns.scales));
                for (number, values) in (row..).zip(piece.chunks_mut(width)) {
                    let own = size(scale_row(rows, number) - begin) * in_row;
                    update_row(op, values, 0, columns.block, scales.get(own..).unwrap_or_default());
                }
            }
            (at, rest) = (at + len, tail);
        }
        Ok(())
    }
}

/// Returns the shape of the scales with as many dimensions as the weight. Missing dimensions at the end are
/// 1, so that `[rows]` has the scales of rows. A dimension of 1 may follow each dimension of blocks, as in
/// `[rows, 1, columns, 1]`.
fn aligned(weight: &[u64], scales: &[u64]) -> Option<Vec<u64>> {
    let mut aligned = scales.to_vec();
    if scales.len() == 2 * weight.len() && scales.as_chunks::<2>().0.iter().all(|pair| pair[1] == 1) {
        aligned = scales.iter().copied().step_by(2).collect();
    }
    let missing = weight.len().checked_sub(aligned.len())?;
    // With fewer dimensions, the scales are for whole rows or matrices, not for blocks.
    if missing > 0 && !weight.starts_with(&aligned) {
        return None;
    }
    aligned.resize(weight.len(), 1);
    Some(aligned)
}

/// Checks whether each dimension has one scale in total, or one for each index.
fn is_by_row(weight: &[u64], scales: &[u64]) -> bool {
    weight.iter().zip(scales).all(|(len, scales)| *scales == 1 || scales == len)
}

/// Returns the number of elements in a block, if blocks of that size give this number of scales.
fn block(len: u64, scales: u64, stated: Option<u64>) -> Option<u64> {
    let covers = |&block: &u64| block > 0 && len.div_ceil(block) == scales;
    match stated {
        Some(block) => Some(block).filter(covers),
        None if len == 0 => (scales == 0).then_some(1),
        None if scales == 0 => None,
        None => Some(USUAL_BLOCK)
            .filter(covers)
            .or_else(|| Some(len / scales).filter(|_| len.is_multiple_of(scales)).filter(covers)),
    }
}

/// Returns the row of scales for a row of the weight.
fn scale_row(dims: &[Dim], mut row: u64) -> u64 {
    let (mut index, mut stride) = (0, 1);
    for dim in dims.iter().rev() {
        index += row % dim.len / dim.block * stride;
        (row, stride) = (row / dim.len, stride * dim.scales);
    }
    index
}

/// Applies the scales of a matrix whose columns have numbered scales, `groups` of them for each row.
fn apply_by_column<E>(
    op: ScaleOp,
    numbers: &[u32],
    groups: u64,
    (first, values): (u64, &mut [f32]),
    mut read: impl FnMut(u64, u64) -> Result<Vec<f32>, E>,
) -> Result<(), E> {
    let width = numbers.len().max(1);
    let (mut at, mut rest) = (first, values);
    while !rest.is_empty() {
        let (row, column) = (at / width as u64, size(at % width as u64));
        // Whole rows, or a part of one row.
        let whole = if column > 0 { 0 } else { rest.len() / width };
        let count = if whole == 0 { width - column } else { whole * width };
        let (piece, tail) = rest.split_at_mut(count.min(rest.len()));
        let scales = read(row * groups, groups.saturating_mul(whole.max(1) as u64))?;
        for (values, scales) in piece.chunks_mut(width).zip(scales.chunks_exact(size(groups).max(1))) {
            for (value, &number) in values.iter_mut().zip(numbers.iter().skip(column)) {
                let scale = scales.get(number as usize).copied().unwrap_or(f32::NAN);
                update(op, std::slice::from_mut(value), scale);
            }
        }
        (at, rest) = (at + piece.len() as u64, tail);
    }
    Ok(())
}

/// Updates a part of a row that begins at `column`. The first of `scales` is the scale of this column.
fn update_row(op: ScaleOp, values: &mut [f32], column: u64, block: u64, scales: &[f32]) {
    let head = size(block - column % block).min(values.len());
    let (head, rest) = values.split_at_mut(head);
    for (values, &scale) in [head].into_iter().chain(rest.chunks_mut(size(block))).zip(scales) {
        update(op, values, scale);
    }
}

fn update(op: ScaleOp, values: &mut [f32], scale: f32) {
    match op {
        ScaleOp::Times => values.iter_mut().for_each(|value| *value *= scale),
        ScaleOp::Minus => values.iter_mut().for_each(|value| *value -= scale),
        ScaleOp::Over => values.iter_mut().for_each(|value| *value /= scale),
    }
}

/// Converts a count within a piece, or a block size, to `usize`. A larger block size saturates.
fn size(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scaling(weight: &[u64], scales: &[u64], stated: Option<&[u64]>) -> Result<Scaling, String> {
        Scaling::new(weight, scales, stated)
    }

    /// Checks every element against the definition: its scale is the one of the block that contains its
    /// indices.
    fn check(weight: &[u64], scales: &[u64], blocks: &[u64], stated: Option<&[u64]>) {
        let scaling = scaling(weight, scales, stated).unwrap();
        let count = weight.iter().product::<u64>();
        let scale_count = scales.iter().product::<u64>();
        let value = |i: u64| (i % 251) as f32 - 125.0;
        let scale = |i: u64| (i % 97) as f32 * 0.37 + 0.01;
        let expected = |mut at: u64| {
            let element = at;
            let (mut index, mut stride) = (0, 1);
            for (&len, &block) in weight.iter().zip(blocks).rev() {
                index += at % len / block * stride;
                (at, stride) = (at / len, stride * len.div_ceil(block));
            }
            value(element) * scale(index)
        };
        for piece in [1, 7, 64, 130, 1000, count.max(1)] {
            let mut first = 0;
            while first < count {
                let len = piece.min(count - first);
                let mut values: Vec<f32> = (first..first + len).map(value).collect();
                let read = |begin: u64, n: u64| {
                    assert!(begin + n <= scale_count, "{weight:?} {scales:?}: {begin} + {n}");
                    assert!(n <= len, "{weight:?} {scales:?}: {n} scales for {len}");
                    Ok::<_, ()>((begin..begin + n).map(scale).collect())
                };
                scaling.apply(ScaleOp::Times, first, &mut values, read).unwrap();
                let found = (first..).zip(&values).find(|&(at, value)| expected(at) != *value);
                assert_eq!(found, None, "{weight:?} {scales:?} in pieces of {piece}");
                // Skips elements for short pieces, because checking all of a large weight in short pieces is
                // slow.
                first += if piece < 64 { len + count / 50 } else { len };
            }
        }
    }

    #[test]
    fn every_element_has_the_scale_of_its_block() {
        check(&[256, 384], &[2, 3], &[128, 128], None);
        check(&[576, 200], &[5, 2], &[128, 128], None);
        check(&[130, 1], &[2, 1], &[128, 1], None);
        check(&[300, 70], &[300, 1], &[1, 70], None);
        check(&[300, 70], &[300], &[1, 70], None);
        check(&[300, 70], &[1, 70], &[300, 1], None);
        check(&[300, 70], &[1, 1], &[300, 70], None);
        check(&[33, 64], &[33, 2], &[1, 32], None);
        check(&[96, 64], &[3, 2], &[32, 32], None);
        check(&[100, 70], &[4, 3], &[32, 32], Some(&[32, 32]));
        check(&[256, 130], &[2, 1, 2, 1], &[128, 128], None);
        check(&[1000], &[8], &[128], None);
        check(&[3, 200, 140], &[3, 2, 2], &[1, 128, 128], None);
        check(&[3, 200, 140], &[3, 7, 5], &[1, 32, 32], Some(&[32, 32]));
        check(&[3, 20, 14], &[3, 1, 14], &[1, 20, 1], None);
        check(&[3, 20, 14], &[3], &[1, 20, 14], None);
        check(&[4, 6, 5], &[2, 6, 1], &[2, 1, 5], None);
        check(&[2, 1, 3, 1, 4], &[2, 1, 1, 1, 2], &[1, 1, 3, 1, 2], None);
    }

    #[test]
    fn a_single_scale_is_for_all() {
        for scales in [&[][..], &[1], &[1, 1, 1, 1]] {
            let scaling = scaling(&[3, 5], scales, Some(&[128, 128])).unwrap();
            let mut values = [1.0, f32::INFINITY, -2.0];
            scaling.apply(ScaleOp::Times, 4, &mut values, |_, _| Ok::<_, ()>(vec![0.5])).unwrap();
            assert_eq!(values, [0.5, f32::INFINITY, -1.0]);
        }
    }

    #[test]
    fn what_is_unclear_is_refused() {
        for (weight, scales, stated) in [
            (&[100, 70][..], &[3, 2][..], None), // 100 / 3
            (&[256, 256], &[4], None),           // neither rows nor blocks
            (&[256, 256], &[2], None),
            (&[256, 256], &[2, 0], None),
            (&[256, 256], &[2, 300], None),
            (&[256, 256], &[2, 2, 2], None),
            (&[256], &[2, 2], None),
            (&[576, 256], &[5, 2], Some(&[64, 128][..])),
            (&[256, 256], &[2, 2], Some(&[0, 0])),
        ] {
            let why = scaling(weight, scales, stated).unwrap_err();
            assert!(why.starts_with("scales of shape ") && why.contains("do not fit its shape"), "{why}");
        }
        let why = scaling(&[576, 256], &[5, 2], Some(&[64, 128])).unwrap_err();
        assert_eq!(
            why,
            "scales of shape [5, 2] do not fit its shape [576, 256] in blocks of 64, which the model states"
        );
        // Scales of rows do not need a block size.
        assert!(scaling(&[576, 256], &[576, 1], Some(&[128, 128])).is_ok());
        // A weight without elements has nothing to scale.
        assert!(scaling(&[0, 256], &[0, 2], None).is_ok());
    }
}
