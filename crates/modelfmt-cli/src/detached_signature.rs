//! Verifies the signature next to a model before the model is read, for formats without signatures inside.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use modelfmt::Format;
use modelfmt::oms::{SignedFiles, VerifyOptions};
use modelfmt::signed::{DetachedSignature, signed_files};

use crate::args::OpenArgs;
use crate::failure::Result;
use crate::policy;
use crate::progress::Progress;
use crate::stdio::is_dash;

/// Checks whether the signature of a file or folder is next to it, not inside: only APR2 files contain their
/// own.
pub(crate) fn is_signed_beside(path: &Path) -> bool {
    let holds_its_own = |format: Format| format.properties().embedded_signatures;
    path.is_dir()
        || policy::open_options().probe(path).is_ok_and(|found| !found.format.is_some_and(holds_its_own))
}

/// The signed files and folders that were already verified in this run. The files of a folder are thus hashed
/// only once, however many of its models are read.
static VERIFIED: Mutex<Option<HashMap<PathBuf, Arc<SignedFiles>>>> = Mutex::new(None);

/// Checks whether the model needs a signature next to it by one of the given keys.
pub(crate) fn is_demanded(path: &Path, open: &OpenArgs) -> bool {
    !open.signers.key.is_empty() && !is_dash(path) && is_signed_beside(path)
}

/// Verifies the signature next to a model, and returns the files that it covers, all of which were hashed.
/// The model is read through them.
pub(crate) fn signed(
    path: &Path,
    open: &OpenArgs,
    options: &VerifyOptions,
    quiet: bool,
) -> Result<Arc<SignedFiles>> {
    let keys = open.keys_beside()?;
    policy::open_options().judge_place(path)?;
    let mut before = VERIFIED.lock().unwrap_or_else(PoisonError::into_inner);
    let before = before.get_or_insert_default();
    let of = DetachedSignature::find(path).map(|found| found.of);
    if let Some(known) = of.as_ref().and_then(|of| before.get(of)) {
        return Ok(Arc::clone(known));
    }
    let bar = Progress::new("hashing", 0, quiet);
    let files = bar.run(|work| signed_files(path, &keys, options, work))?;
    before.insert(files.of().to_owned(), Arc::clone(&files));
    Ok(files)
}
