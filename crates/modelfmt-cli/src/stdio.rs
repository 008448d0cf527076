//! `-` instead of a path, and a record of whether standard input has been read, because it can be read only
//! once.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a secret was read from standard input, so that a model cannot be read from it.
static HAD_SECRET: AtomicBool = AtomicBool::new(false);

/// Checks whether a path stands for standard input or output.
pub(crate) fn is_dash(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Records that a key or a passphrase is read from standard input.
pub(crate) fn has_secret() {
    HAD_SECRET.store(true, Ordering::Relaxed);
}

/// Checks whether a key or a passphrase was read from standard input.
pub(crate) fn had_secret() -> bool {
    HAD_SECRET.load(Ordering::Relaxed)
}
