//! Finds the file size at which a set has a given number of files.

use modelfmt_model::formats::entry::JobError;
use modelfmt_model::formats::set_plan::SetPlan;

use super::output::write;
use super::{ConversionPlan, nbytes_of};
use modelfmt_model::error::Result;

impl ConversionPlan<'_> {
    /// Chooses the maximum size of a file from the requested number of files, if one was requested: the
    /// smallest size that gives no more files. A file also holds other data than values, and how much depends
    /// on the format, so the set is planned to find out.
    pub(super) fn choose_shard_size(&mut self) -> Result<()> {
        let Some(count) = self.options.output.shards else { return Ok(()) };
        let sizes: Vec<u64> = self.job().specs().map(|spec| nbytes_of(&spec)).collect();
        let least = least_size(&sizes, u64::from(count.get()));
        let name = format!(
            "model{}",
            self.target.extension().or_else(|| self.target.unsharded().extension()).unwrap_or("")
        );
        let mut more = 0_u64;
        loop {
            let size = least.saturating_add(more).max(1);
            self.options.to_mut().output.shard_size = Some(size);
            let planned = super::output::index_name(self.target, &name).and_then(|name| {
                write::plan(self, &name).map_err(|error| match error {
                    JobError::Read(error) => self.model.failed(error),
                    JobError::Write(error) => write::failed(name.as_ref(), error),
                })
            })?;
            if files(&*planned) <= u64::from(count.get()) || size == u64::MAX {
                return Ok(());
            }
            more = more.saturating_mul(2).max(512);
        }
    }
}

/// Returns the number of files with tensors.
fn files(plan: &dyn SetPlan) -> u64 {
    plan.parts().len() as u64 + u64::from(!plan.last().is_empty())
}

/// Returns the smallest size such that consecutive sizes can be grouped into at most `count` sums of that
/// size or less.
fn least_size(sizes: &[u64], count: u64) -> u64 {
    let sums = |most: u64| {
        let (mut sums, mut sum) = (1_u64, 0_u64);
        for &size in sizes {
            if sum > 0 && sum.saturating_add(size) > most {
                (sums, sum) = (sums.saturating_add(1), 0);
            }
            sum = sum.saturating_add(size);
        }
        sums
    };
    let mut low = sizes.iter().copied().max().unwrap_or(0);
    let mut high = sizes.iter().copied().fold(0, u64::saturating_add);
    while low < high {
        let middle = low + (high - low) / 2;
        if sums(middle) <= count { high = middle } else { low = middle + 1 }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_as_equal_as_order_allows() {
        for (sizes, count, least) in [
            (&[1, 1, 1, 1][..], 2, 2),
            (&[5, 1, 1, 1], 2, 5),
            (&[1, 2, 3, 4, 5], 3, 6),
            (&[1, 2, 3], 1, 6),
            (&[1, 2, 3], 9, 3),
            (&[0, 0], 2, 0),
            (&[], 2, 0),
            (&[u64::MAX, u64::MAX], 2, u64::MAX),
        ] {
            assert_eq!(least_size(sizes, count), least, "{sizes:?} in {count}");
        }
    }
}
