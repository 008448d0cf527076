//! The policy of the run, which decides about every file that any command reads.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use modelfmt::OpenOptions;
use modelfmt::policy::Policy;

use crate::failure::{Failure, Result};

/// The variable that names a policy.
const VARIABLE: &str = "MODELFMT_POLICY";

static POLICY: OnceLock<(Arc<Policy>, PathBuf)> = OnceLock::new();

/// Reads the policy that the option names, or else the variable. A policy that cannot be used is an error,
/// and never ignored.
pub(crate) fn read(option: Option<&Path>) -> Result {
    let variable = std::env::var_os(VARIABLE);
    let (path, what) = match (option, &variable) {
        (Some(path), _) => (path.as_os_str(), "--policy"),
        (None, Some(path)) => (path.as_os_str(), VARIABLE),
        (None, None) => return Ok(()),
    };
    if path == OsStr::new("") {
        return Err(Failure::Input(format!(
            "{what}: it is empty; name the file of a policy, or leave it out"
        )));
    }
    let policy = Policy::read(Path::new(path))?;
    POLICY.get_or_init(|| (policy, path.into()));
    Ok(())
}

/// Returns the policy of the run.
pub(crate) fn get() -> Option<&'static Arc<Policy>> {
    POLICY.get().map(|(policy, _)| policy)
}

/// Returns the path of the policy's file, which no output may replace.
pub(crate) fn path() -> Option<PathBuf> {
    POLICY.get().map(|(_, path)| path.clone())
}

/// Returns the options for opening any file.
pub(crate) fn open_options() -> OpenOptions {
    let options = OpenOptions::new();
    match get() {
        Some(policy) => options.policy(Arc::clone(policy)),
        None => options,
    }
}

/// Returns the fingerprint of the policy, for lists of what was done under it.
pub(crate) fn fingerprint() -> String {
    get().map(|policy| policy.fingerprint()).unwrap_or_default()
}
