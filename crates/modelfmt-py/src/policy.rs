//! The policy that judges every file before it is read: the keyword, or else the variable MODELFMT_POLICY.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use modelfmt::OpenOptions;
use modelfmt::policy::Policy;
use pyo3::prelude::*;

use crate::errors::{raise, refuse};

/// The variable that names a policy.
const VARIABLE: &str = "MODELFMT_POLICY";

/// The policy that a keyword names, or else the variable. One that cannot be used is an error, never ignored.
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

/// The options that judge by the policy, and are at their defaults otherwise.
pub(crate) fn options(py: Python<'_>, given: Option<PathBuf>) -> PyResult<OpenOptions> {
    let options = OpenOptions::new();
    Ok(match policy(py, given)? {
        Some(policy) => options.policy(policy),
        None => options,
    })
}
