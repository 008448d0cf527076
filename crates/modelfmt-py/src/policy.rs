//! The policy that judges every file before it is read: that of the keyword, or else of the variable
//! MODELFMT_POLICY.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use modelfmt::OpenOptions;
use modelfmt::policy::Policy;
use pyo3::prelude::*;

use crate::errors::{raise, refuse};

/// The variable that names a policy.
const VARIABLE: &str = "MODELFMT_POLICY";

/// Reads the policy that the keyword names, or else the variable. A policy that cannot be used is an error,
/// and never ignored.
pub(crate) fn policy(py: Python<'_>, given: Option<PathBuf>) -> PyResult<Option<Arc<Policy>>> {
    let (path, what) = match given {
        Some(path) => (path, "policy"),
        None => match std::env::var_os(VARIABLE) {
            Some(path) => (path.into(), VARIABLE),
            None => return Ok(None),
        },
    };
    if path == Path::new("") {
        return Err(refuse(py, "policy", &format!("{what}: it is empty; name the file of a policy")));
    }
    Policy::read(&path).map(Some).map_err(|error| raise(py, &error))
}

/// Returns options with the policy, and defaults for everything else.
pub(crate) fn options(py: Python<'_>, given: Option<PathBuf>) -> PyResult<OpenOptions> {
    let options = OpenOptions::new();
    Ok(match policy(py, given)? {
        Some(policy) => options.policy(policy),
        None => options,
    })
}
