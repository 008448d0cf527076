//! Arrays whose elements are not contiguous: the bytes that an array needs, and how to gather them.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::Fetch;

use crate::error::Error;

/// The number of elements that are gathered at once.
const BLOCK: u64 = 128 << 10;
/// The number of bytes that are fetched at once.
const MAX_FETCH: u64 = 1 << 20;

/// Returns whether elements with these strides are contiguous, with the last dimension fastest.
pub(crate) fn is_contiguous(dims: &[u64], strides: &[u64]) -> bool {
    if dims.contains(&0) {
        return true;
    }
    let mut expected = 1_u64;
    for (&dim, &stride) in dims.iter().zip(strides).rev() {
        if dim != 1 && stride != expected {
            return false;
        }
        expected = expected.saturating_mul(dim);
    }
    true
}

/// Returns the number of elements from the first to the last, both included, or `None` if it overflows.
pub(crate) fn span(dims: &[u64], strides: &[u64]) -> Option<u64> {
    if dims.contains(&0) {
        return Some(0);
    }
    let mut last = 0_u64;
    for (&dim, &stride) in dims.iter().zip(strides) {
        last = last.checked_add(dim.saturating_sub(1).checked_mul(stride)?)?;
    }
    last.checked_add(1)
}

/// Some bytes that are contiguous both in the record and in the array.
#[derive(Clone, Copy, Debug)]
struct Run {
    from: u64,
    to: usize,
    len: usize,
}

/// Walks over the elements of an array in order, and yields their places in the record.
struct Walk<'a> {
    dims: &'a [u64],
    strides: &'a [u64],
    size: u64,
    index: Vec<u64>,
    /// The next element, counted from the start of the array.
    at: u64,
}

impl<'a> Walk<'a> {
    fn new(dims: &'a [u64], strides: &'a [u64], size: u64, first: u64) -> Self {
        let (mut index, mut left) = (vec![0; dims.len()], first);
        let mut at = 0_u64;
        for ((slot, &dim), &stride) in index.iter_mut().zip(dims).zip(strides).rev() {
            *slot = left.checked_rem(dim).unwrap_or(0);
            left = left.checked_div(dim).unwrap_or(0);
            at = at.saturating_add(slot.saturating_mul(stride));
        }
        Self { dims, strides, size, index, at }
    }

    /// Appends runs for the next `count` elements. They fill the output from its start.
    fn runs(&mut self, mut count: u64, runs: &mut Vec<Run>) {
        let mut to = 0_usize;
        while count > 0 {
            // The elements of the last dimension form a row. An array without dimensions has one element.
            let (row, stride) = match (self.dims.last(), self.strides.last(), self.index.last()) {
                (Some(&dim), Some(&stride), Some(&index)) => (dim.saturating_sub(index), stride),
                _ => (1, 1),
            };
            let taken = if stride == 1 { row.min(count).max(1) } else { 1 };
            let from = self.at.saturating_mul(self.size);
            let len = usize::try_from(taken.saturating_mul(self.size)).unwrap_or(usize::MAX);
            match runs.last_mut() {
                Some(last) if last.from.saturating_add(last.len as u64) == from => {
                    last.len = last.len.saturating_add(len);
                }
                _ => runs.push(Run { from, to, len }),
            }
            to = to.saturating_add(len);
            count = count.saturating_sub(taken);
            self.advance(taken);
        }
    }

    /// Advances by `by` elements of the last dimension, at most to the end of the row.
    fn advance(&mut self, mut by: u64) {
        for ((slot, &dim), &stride) in self.index.iter_mut().zip(self.dims).zip(self.strides).rev() {
            self.at = self.at.saturating_add(by.saturating_mul(stride));
            *slot = slot.saturating_add(by);
            if *slot < dim {
                return;
            }
            self.at = self.at.saturating_sub(dim.saturating_mul(stride));
            *slot = 0;
            by = 1;
        }
    }
}

/// The place from which to read the bytes of a record.
pub(crate) enum Content<'s, S> {
    /// In the file, from this offset on.
    File(&'s S, u64),
    /// In memory.
    Memory(&'s [u8]),
}

/// Fills `out` with elements of an array, from element `first` on. The array begins at byte `start` of the
/// record.
///
/// Offsets are sorted, and nearby elements are fetched together, whatever the order of the elements.
pub(crate) async fn gather<F, S: Fetch>(
    content: &Content<'_, S>,
    start: u64,
    (dims, strides): (&[u64], &[u64]),
    size: u64,
    first: u64,
    out: &mut [u8],
) -> Result<(), Error<F>> {
    let mut walk = Walk::new(dims, strides, size, first);
    let block = usize::try_from(BLOCK.saturating_mul(size)).unwrap_or(usize::MAX).max(1);
    let mut runs = Vec::new();
    for out in out.chunks_mut(block) {
        runs.clear();
        walk.runs((out.len() as u64).checked_div(size).unwrap_or(0), &mut runs);
        if !runs.is_sorted_by_key(|run| run.from) {
            runs.sort_unstable_by_key(|run| run.from);
        }
        match content {
            Content::Memory(bytes) => copy(&runs, start, bytes, out),
            Content::File(source, at) => fetch(&runs, *source, at.saturating_add(start), out).await?,
        }
    }
    Ok(())
}

/// Fetches sorted runs and copies them to `out`.
async fn fetch<F>(runs: &[Run], source: &impl Fetch, at: u64, out: &mut [u8]) -> Result<(), Error<F>> {
    // If a gap is shorter than this, reading it takes less time than another request.
    let gap: u64 = if source.near().is_some() { 4 << 10 } else { 256 << 10 };
    let mut rest = runs;
    while let Some(first) = rest.first() {
        let mut end = first.from.saturating_add(first.len as u64);
        let together = rest.iter().take_while(|run| {
            let reach = run.from.saturating_add(run.len as u64).max(end);
            let is_near = run.from <= end.saturating_add(gap);
            let fits = is_near && (reach.saturating_sub(first.from) <= MAX_FETCH || run.from == first.from);
            end = if fits { reach } else { end };
            fits
        });
        let (group, later) = rest.split_at(together.count().max(1).min(rest.len()));
        let (from, len) = (at.saturating_add(first.from), end.saturating_sub(first.from));
        let failed = |source| Error::Io { at: from, len, source };
        let bytes = source.fetch(from..from.saturating_add(len)).await.map_err(failed)?;
        for run in group {
            let within = usize::try_from(run.from.saturating_sub(first.from)).unwrap_or(usize::MAX);
            put(*run, bytes.get(within..).unwrap_or_default(), out);
        }
        rest = later;
    }
    Ok(())
}

fn copy(runs: &[Run], start: u64, bytes: &[u8], out: &mut [u8]) {
    for run in runs {
        let from = usize::try_from(start.saturating_add(run.from)).unwrap_or(usize::MAX);
        put(*run, bytes.get(from..).unwrap_or_default(), out);
    }
}

/// Copies a run. Its bytes are the first ones of `bytes`.
fn put(run: Run, bytes: &[u8], out: &mut [u8]) {
    let to = out.get_mut(run.to..run.to.saturating_add(run.len));
    if let Some((to, from)) = to.zip(bytes.get(..run.len)) {
        to.copy_from_slice(from);
    }
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "small numbers of our own")]
mod tests {
    use modelfmt_core::CommonFault;
    use modelfmt_core::author::now;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn strides_that_are_in_order_are_known() {
        assert!(
            is_contiguous(&[2, 3], &[3, 1]) && is_contiguous(&[], &[]) && is_contiguous(&[0, 9], &[5, 5])
        );
        assert!(
            is_contiguous(&[1, 3], &[77, 1])
                && !is_contiguous(&[2, 3], &[1, 2])
                && !is_contiguous(&[2], &[0])
        );
        assert_eq!((span(&[2, 3], &[3, 1]), span(&[], &[]), span(&[0], &[9])), (Some(6), Some(1), Some(0)));
        assert_eq!(span(&[u64::MAX, 2], &[2, 1]), None);
    }

    proptest! {
        #[test]
        fn elements_are_gathered_in_order(
            axes in proptest::collection::vec((0u64..5, 0u64..40), 0..4),
            start in 0u64..9,
            size in prop_oneof![Just(1u64), Just(2), Just(4)],
            cut in any::<prop::sample::Index>(),
        ) {
            let (dims, strides): (Vec<u64>, Vec<u64>) = axes.into_iter().unzip();
            let count: u64 = dims.iter().product();
            let len = (start + span(&dims, &strides).unwrap()) * size;
            let content: Vec<u8> = (0..len).map(|n| (n * 7 % 251) as u8).collect();
            // The elements, one by one.
            let mut expected: Vec<u8> = Vec::new();
            for number in 0..count {
                let (mut left, mut at) = (number, start);
                for (dim, stride) in dims.iter().zip(&strides).rev() {
                    at += left % dim * stride;
                    left /= dim;
                }
                let at = (at * size) as usize;
                expected.extend(&content[at..at + size as usize]);
            }
            let first = cut.index(count as usize + 1);
            let expected = &expected[first * size as usize..];
            for content in [Content::File(&&content[..], 0), Content::Memory(&content)] {
                let mut out = vec![0; expected.len()];
                let gathered = gather::<CommonFault, _>(
                    &content, start * size, (&dims, &strides), size, first as u64, &mut out,
                );
                now(gathered).unwrap();
                prop_assert_eq!(&out[..], expected);
            }
        }
    }
}
