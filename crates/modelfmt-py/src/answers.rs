//! Converts levels, patterns and statistics between Python's objects and the library's.

use std::fmt::Display;

use modelfmt::VerifyLevel;
use modelfmt::model::Globs;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tensor_stats::{Histogram, Stats};

use crate::errors::refuse;

/// Returns JSON text, or raises the error.
pub(crate) fn json_of(text: Result<String, impl Display>) -> PyResult<String> {
    text.map_err(|error| PyValueError::new_err(error.to_string()))
}

pub(crate) fn level(py: Python<'_>, name: &str) -> PyResult<VerifyLevel> {
    let levels = [VerifyLevel::Header, VerifyLevel::Control, VerifyLevel::Full];
    let found = levels.into_iter().find(|level| level.name() == name);
    found.ok_or_else(|| {
        refuse(py, "usage", &format!("{name:?} is no level; there are header, control and full"))
    })
}

pub(crate) fn globs(py: Python<'_>, patterns: &[String]) -> PyResult<Globs> {
    Globs::new(patterns.iter().cloned()).map_err(|error| refuse(py, "usage", &error.to_string()))
}

/// Returns statistics as keys and values.
pub(crate) fn stats<'py>(py: Python<'py>, stats: &Stats) -> PyResult<Bound<'py, PyDict>> {
    let result = PyDict::new(py);
    result.set_item("count", stats.count)?;
    match stats.exact {
        Some((min, max)) => {
            result.set_item("min", min)?;
            result.set_item("max", max)?;
        }
        None => {
            result.set_item("min", stats.min)?;
            result.set_item("max", stats.max)?;
        }
    }
    result.set_item("mean", stats.mean)?;
    result.set_item("median", stats.median)?;
    result.set_item("std", stats.std)?;
    result.set_item("nan", stats.non_finite.nan)?;
    result.set_item("pos_inf", stats.non_finite.pos_inf)?;
    result.set_item("neg_inf", stats.non_finite.neg_inf)?;
    let bins: Vec<(f64, f64, u64)> = match &stats.histogram {
        Histogram::Bins { edges, counts } => {
            let pairs = edges.iter().zip(edges.iter().skip(1)).zip(counts);
            pairs.map(|((from, to), count)| (*from, *to, *count)).collect()
        }
        Histogram::Constant { value, count } => vec![(*value, *value, *count)],
        #[expect(clippy::cast_precision_loss, reason = "the edges of bins, which are shown")]
        Histogram::Values(values) => {
            values.iter().map(|(value, count)| (*value as f64, *value as f64, *count)).collect()
        }
        Histogram::Bools { zeros, ones } => vec![(0.0, 0.0, *zeros), (1.0, 1.0, *ones)],
        Histogram::Empty => Vec::new(),
    };
    result.set_item("histogram", bins)?;
    Ok(result)
}
