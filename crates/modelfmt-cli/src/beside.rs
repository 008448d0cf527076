//! The signature beside a model that is about to be read, for formats that hold none themselves.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use modelfmt::oms::VerifyOptions;
use modelfmt::{DetachedSignature, Execution, Format, detached_signature};

use crate::args::OpenArgs;
use crate::dash::is_dash;
use crate::failure::{Failure, Result};
use crate::progress::Progress;

/// Whether the signature of a file or folder is beside it, and not inside: only APR2 files contain their own. Only a path can have one beside it.
pub(crate) fn is_signed_beside(path: &Path) -> bool {
    let holds_its_own = |format| matches!(format, Format::Apr2 | Format::Apr2Sharded);
    path.is_dir() || modelfmt::probe(path).is_ok_and(|found| !found.format.is_some_and(holds_its_own))
}

/// Signatures that were verified before in this run: a folder is hashed once, however many of its models are read.
static VERIFIED: Mutex<Option<HashSet<PathBuf>>> = Mutex::new(None);

/// How to open a model once the signature beside it has been verified, if one is demanded and this is where it is.
pub(crate) fn verified<'a>(path: &Path, open: &'a OpenArgs) -> Result<Cow<'a, OpenArgs>> {
    if open.signers.key.is_empty() || is_dash(path) || !is_signed_beside(path) {
        return Ok(Cow::Borrowed(open));
    }
    let keys = open.keys_beside()?;
    // The signature of a folder covers all that is in it, whatever that is; what is of no format will not be opened.
    let format = modelfmt::probe(path).ok().and_then(|found| found.format).unwrap_or(Format::Safetensors);
    let options = VerifyOptions::new();
    let none = || Failure::Input(format!("{}: there is no signature beside it", path.display()));
    let found = detached_signature(path, format, &[], &options, &Execution::default()).ok_or_else(none)?;
    let mut before = VERIFIED.lock().unwrap_or_else(PoisonError::into_inner);
    let before = before.get_or_insert_default();
    if !before.contains(&found.of) {
        let bar = Progress::new("hashing", 0, true);
        let found = bar.run(|work| detached_signature(path, format, &keys, &options, work));
        match found {
            Some(DetachedSignature { is_trusted: Some(true), of, .. }) => before.insert(of),
            Some(DetachedSignature { problem: Some(problem), .. }) => return Err(Failure::Input(problem)),
            _ => return Err(none()),
        };
    }
    Ok(Cow::Owned(open.without_signers()))
}
