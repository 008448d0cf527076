//! `-` in place of a path, and who has read standard input: it is read once.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether standard input had a secret, and so no model.
static HAD_SECRET: AtomicBool = AtomicBool::new(false);

/// Whether a path stands for standard input or output.
pub(crate) fn is_dash(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Notes that a key or a passphrase is read from standard input.
pub(crate) fn has_secret() {
    HAD_SECRET.store(true, Ordering::Relaxed);
}

/// Whether a key or a passphrase was read from standard input.
pub(crate) fn had_secret() -> bool {
    HAD_SECRET.load(Ordering::Relaxed)
}
