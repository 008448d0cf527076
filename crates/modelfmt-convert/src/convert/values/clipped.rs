//! Values that a cast loses because they become 0, infinite or the end of a range.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use modelfmt_core::DType;
use modelfmt_core::author::Shortened;

use modelfmt_rules::wording::unsupported::Examples;
use tensor_program::Lost;

/// The counts for a tensor, added up by several threads. A value that a writer reads twice is counted twice,
/// so only ratios are exact.
#[derive(Debug, Default)]
pub(super) struct Counts {
    values: AtomicU64,
    zero: AtomicU64,
    infinite: AtomicU64,
    nan: AtomicU64,
    saturated: AtomicU64,
}

impl Counts {
    pub(super) fn add(&self, values: u64, lost: Lost) {
        let add = |counter: &AtomicU64, count: u64| {
            if count > 0 {
                counter.fetch_add(count, Ordering::Relaxed);
            }
        };
        add(&self.values, values);
        add(&self.zero, lost.zero);
        add(&self.infinite, lost.infinite);
        add(&self.nan, lost.nan);
        add(&self.saturated, lost.saturated);
    }

    /// Returns the lost values of a tensor, if they deserve a warning.
    pub(super) fn of(&self, tensor: &str, dtype: DType) -> Option<Clipped> {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let clipped = Clipped {
            tensor: tensor.to_owned(),
            dtype,
            values: read(&self.values),
            zero: read(&self.zero),
            infinite: read(&self.infinite),
            nan: read(&self.nan),
            saturated: read(&self.saturated),
        };
        let is_beyond = clipped.infinite > 0 || clipped.nan > 0 || clipped.saturated > 0;
        // A cast to any narrower dtype turns some small values into 0, so a few of them do not deserve a
        // warning.
        (is_beyond || clipped.is_ruined()).then_some(clipped)
    }
}

/// A tensor that lost values in a cast: some became infinite or the end of the range of the dtype, or many became 0.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Clipped {
    /// The name of the tensor.
    pub tensor: String,
    /// The dtype that it was cast to.
    pub dtype: DType,
    /// The number of values that were cast. A value that is read twice is counted twice, here and below.
    pub values: u64,
    /// The number of values that were not 0 and became 0.
    pub zero: u64,
    /// The number of values that became infinite.
    pub infinite: u64,
    /// The number of values that became a NaN, in a dtype that has NaN but no infinity.
    pub nan: u64,
    /// The number of values that became the smallest or the largest number of the dtype.
    pub saturated: u64,
}

impl Clipped {
    /// Checks whether more than 1 % of the values were lost.
    #[must_use]
    pub const fn is_ruined(&self) -> bool {
        let lost =
            self.zero.saturating_add(self.infinite).saturating_add(self.nan).saturating_add(self.saturated);
        lost > self.values / 100 && lost.saturating_mul(100) > self.values
    }

    /// Returns a line for each dtype that tensors were cast to. It gives the share of lost values, and the
    /// tensors that lost more than 1 %.
    #[must_use]
    pub fn lines(clipped: &[Self]) -> Vec<String> {
        let mut dtypes: Vec<DType> = Vec::new();
        for tensor in clipped {
            if !dtypes.contains(&tensor.dtype) {
                dtypes.push(tensor.dtype);
            }
        }
        let of = |dtype: DType| line(dtype, &clipped.iter().filter(|one| one.dtype == dtype));
        dtypes.into_iter().map(of).collect()
    }
}

impl fmt::Display for Clipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&line(self.dtype, &std::iter::once(self)))
    }
}

fn line<'a>(dtype: DType, clipped: &(impl Iterator<Item = &'a Clipped> + Clone)) -> String {
    let sum = |of: fn(&Clipped) -> u64| clipped.clone().map(of).fold(0, u64::saturating_add);
    let values = sum(|one| one.values);
    let kinds = [
        (sum(|one| one.zero), "became 0"),
        (sum(|one| one.infinite), "became infinite"),
        (sum(|one| one.nan), "became NaN"),
        (sum(|one| one.saturated), "became the smallest or largest"),
    ];
    let kinds = kinds.iter().filter(|(count, _)| *count > 0);
    let kinds: Vec<String> = kinds.map(|(count, what)| format!("{} {what}", Share(*count, values))).collect();
    let names =
        |which: fn(&&Clipped) -> bool| Examples::of(clipped.clone().filter(which).map(|one| &*one.tensor));
    let (count, ruined) = (clipped.clone().count(), clipped.clone().filter(|one| one.is_ruined()).count());
    let kinds = kinds.join(", ");
    match (count, ruined) {
        (1, _) => {
            let name = clipped.clone().next().map_or("", |one| &one.tensor);
            format!("of the values of tensor {:?} as {dtype} {kinds}", Shortened(name))
        }
        (count, ruined) if ruined == 0 || ruined == count => {
            format!("of the values of {count} tensors as {dtype} {kinds}: {}", names(|_| true))
        }
        (count, ruined) => format!(
            "of the values of {count} tensors as {dtype} {kinds}; more than 1 % in {ruined}: {}",
            names(|one| one.is_ruined())
        ),
    }
}

/// A share in percent.
struct Share(u64, u64);

impl fmt::Display for Share {
    #[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0 as f64 / self.1.max(1) as f64 * 100.0).min(100.0) {
            share if share < 0.1 => f.write_str("less than 0.1 %"),
            share if (99.95..100.0).contains(&share) => f.write_str("more than 99.9 %"),
            share => write!(f, "{} %", (share * 10.0).round() / 10.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clipped(tensor: &str, dtype: DType, values: u64, zero: u64, infinite: u64) -> Clipped {
        Clipped { tensor: tensor.to_owned(), dtype, values, zero, infinite, nan: 0, saturated: 0 }
    }

    #[test]
    fn a_line_for_each_type_says_shares_and_names_what_is_ruined() {
        let many = [
            clipped("a", DType::F16, 1000, 0, 1),
            clipped("b", DType::F16, 1000, 500, 500),
            clipped("c", DType::I8, 8, 7, 0),
        ];
        assert_eq!(
            Clipped::lines(&many),
            [
                "of the values of 2 tensors as f16 25 % became 0, 25.1 % became infinite; more than 1 % in 1: \"b\"",
                "of the values of tensor \"c\" as i8 87.5 % became 0",
            ]
        );
        assert!(
            !many[0].is_ruined() && many[1].is_ruined() && !clipped("d", DType::F16, 0, 0, 0).is_ruined()
        );
        assert_eq!(Share(1, 1 << 20).to_string(), "less than 0.1 %");
        assert_eq!(Share(9999, 10000).to_string(), "more than 99.9 %");
        assert_eq!(Share(7, 7).to_string(), "100 %");
    }

    #[test]
    fn few_zeros_are_no_warning() {
        let counts = Counts::default();
        counts.add(1000, Lost { zero: 10, ..Lost::default() });
        assert_eq!(counts.of("w", DType::F16), None);
        counts.add(0, Lost { zero: 1, ..Lost::default() });
        assert!(counts.of("w", DType::F16).is_some());
        let counts = Counts::default();
        counts.add(1000, Lost { saturated: 1, ..Lost::default() });
        assert!(counts.of("w", DType::I8).is_some_and(|one| !one.is_ruined()));
    }
}
