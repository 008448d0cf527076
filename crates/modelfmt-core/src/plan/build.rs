//! Builds a plan from ranges in any order.

use super::runs::Runs;
use super::{PlanOptions, PlannedRange, ReadPlan};

/// Collects ranges, which may come in any order and overlap.
#[derive(Clone, Debug)]
pub struct PlanBuilder {
    options: PlanOptions,
    ranges: Vec<PlannedRange>,
}

impl PlanBuilder {
    pub(super) const fn new(options: PlanOptions) -> Self {
        Self { options, ranges: Vec::new() }
    }

    /// Returns how ranges become requests.
    #[must_use]
    pub const fn options(&self) -> PlanOptions {
        self.options
    }

    /// Adds wanted bytes of the file with this number.
    pub fn add(&mut self, file: usize, runs: Runs) {
        let wanted = runs.nbytes();
        if wanted == 0 {
            return;
        }
        let runs = runs.joined(self.options.gap);
        // Ranges often come in the order of the file, each directly after the last.
        if let Some(last) = self.ranges.last_mut()
            && last.file == file
            && let (Some(before), Some(range)) = (last.runs.as_range(), runs.as_range())
            && before.end == range.start
            && last.wanted == last.runs.len()
            && wanted == runs.len()
        {
            last.wanted += wanted;
            last.runs = Runs::contiguous(before.start..range.end);
            return;
        }
        self.ranges.push(PlannedRange { file, runs, wanted });
    }

    /// Adds several parts of a file, each like [`add`](Self::add).
    pub fn extend(&mut self, file: usize, runs: impl IntoIterator<Item = Runs>) {
        runs.into_iter().for_each(|runs| self.add(file, runs));
    }

    /// Builds the plan, over files with these names.
    #[must_use]
    pub fn finish(self, files: Vec<Option<String>>) -> ReadPlan {
        let Self { options, mut ranges } = self;
        ranges.sort_by(|a, b| {
            let key = |range: &PlannedRange| (range.file, range.runs.offset(), range.runs.hull().end);
            key(a).cmp(&key(b))
        });
        let mut sweep = Sweep { gap: options.gap, done: Vec::new(), current: None, covered: 0 };
        ranges.into_iter().for_each(|range| sweep.take(range));
        let mut ranges = sweep.finish();
        ranges.sort_by_key(|range| (range.file, range.runs.offset()));
        ReadPlan { files, ranges, proofs: Vec::new(), options }
    }
}

/// Goes through ranges in the order of their starts, and merges those that are close.
struct Sweep {
    gap: u64,
    done: Vec<PlannedRange>,
    /// The contiguous range that is being extended.
    current: Option<PlannedRange>,
    /// The end of the values that are already counted as wanted.
    covered: u64,
}

impl Sweep {
    fn take(&mut self, next: PlannedRange) {
        let hull = next.runs.hull();
        let current = self.current.as_ref().filter(|current| current.file == next.file);
        let reach = current.map_or(0, |current| current.runs.hull().end);
        if next.runs.as_range().is_none() {
            // A range of several runs is not merged. It is dropped if the current range contains it or the
            // plan already has it.
            let is_read = current.is_some() && hull.end <= reach;
            if !is_read && self.done.last() != Some(&next) {
                self.done.push(next);
            }
            return;
        }
        let is_near = current.is_some() && hull.start <= reach.saturating_add(self.gap);
        match self.current.as_mut().filter(|_| is_near) {
            Some(current) => {
                // Bytes that several tensors share count as wanted only once.
                let again = self.covered.saturating_sub(hull.start).min(next.wanted);
                current.runs = Runs::contiguous(current.runs.offset()..reach.max(hull.end));
                current.wanted = (current.wanted + next.wanted - again).min(current.runs.len());
                self.covered = self.covered.max(hull.end);
            }
            None => {
                self.done.extend(self.current.replace(next));
                self.covered = hull.end;
            }
        }
    }

    fn finish(mut self) -> Vec<PlannedRange> {
        self.done.extend(self.current.take());
        self.done
    }
}
