//! Reads single elements from blocks.

use modelfmt_core::plan::Runs;

use modelfmt_model::error::Result;
use modelfmt_model::model::Model;
use modelfmt_model::values::read_elements;

/// The length of an f32 in bytes.
const F32: u64 = 4;

/// The number of elements that are decoded at once, so that memory is bounded.
const AT_ONCE: u64 = 1 << 18;

/// The maximum gap, in elements, between wanted elements that are decoded together. No block has more
/// elements.
const GAP: u64 = 256;

/// Fills `out` with the elements of a tensor at `runs`. These are byte ranges in the tensor as if all of it
/// were f32.
pub(super) fn read(model: &Model, position: usize, runs: &Runs, out: &mut [u8]) -> Result<()> {
    let joined = runs.clone().joined(GAP * F32);
    let mut together = joined.iter();
    // The decoded window: its first byte and its bytes.
    let (mut stretch, mut begin, mut window) = (0..0, 0, Vec::new());
    let mut rest = out;
    for run in runs.iter() {
        let mut at = run.start;
        while at < run.end {
            while stretch.end <= at {
                let Some(next) = together.next() else { return Ok(()) };
                stretch = next;
            }
            if at < begin || at - begin >= window.len() as u64 {
                let nbytes = (stretch.end - at).min(AT_ONCE * F32);
                window.resize(usize::try_from(nbytes).unwrap_or_default(), 0);
                read_elements(model, position, at / F32, &mut window)?;
                begin = at;
            }
            let from = usize::try_from(at - begin).unwrap_or(usize::MAX);
            let most = usize::try_from(run.end - at).unwrap_or(usize::MAX);
            let found = window.get(from..).unwrap_or_default();
            let found = found.get(..most).unwrap_or(found);
            let Some((out, left)) = rest.split_at_mut_checked(found.len()) else { return Ok(()) };
            out.copy_from_slice(found);
            rest = left;
            at += found.len() as u64;
        }
    }
    Ok(())
}
