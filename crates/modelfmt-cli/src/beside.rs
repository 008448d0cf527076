//! The signature beside a model that is about to be read, for formats that hold none themselves.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use modelfmt::modelfmt_core::author::with_causes;
use modelfmt::modelfmt_core::source::folder_of;
use modelfmt::oms::{self, VerifyOptions, signature_path};
use modelfmt::{DetachedSignature, Execution, Format, Model, SignatureScope, detached_signature};

use crate::args::OpenArgs;
use crate::dash::is_dash;
use crate::failure::{Failure, Result};
use crate::progress::Progress;

/// Whether the signature of a file or folder is beside it, and not inside: only APR2 files contain their own. Only a path can have one beside it.
pub(crate) fn is_signed_beside(path: &Path) -> bool {
    let holds_its_own = |format| matches!(format, Format::Apr2 | Format::Apr2Sharded);
    path.is_dir() || modelfmt::probe(path).is_ok_and(|found| !found.format.is_some_and(holds_its_own))
}

/// Signatures of folders that were verified before in this run: the other files of a folder are hashed once, however many of its models are read.
static VERIFIED: Mutex<Option<HashSet<PathBuf>>> = Mutex::new(None);

/// Whether the named keys must have made a signature beside a model.
pub(crate) fn is_demanded(path: &Path, open: &OpenArgs) -> bool {
    !open.signers.key.is_empty() && !is_dash(path) && is_signed_beside(path)
}

/// Refuses a model without a good signature beside it. Its files are hashed as they are open: what is read from them later is what was signed.
pub(crate) fn expect(model: &Model, open: &OpenArgs) -> Result {
    let keys = open.keys_beside()?;
    let options = VerifyOptions::new();
    let none = || Failure::Input(format!("{}: there is no signature beside it", model.path().display()));
    let work = Execution::default();
    let found = detached_signature(model, &[], &options, SignatureScope::Model, &work).ok_or_else(none)?;
    let mut before = VERIFIED.lock().unwrap_or_else(PoisonError::into_inner);
    let before = before.get_or_insert_default();
    let scope = if before.contains(&found.of) { SignatureScope::Model } else { SignatureScope::All };
    let bar = Progress::new("hashing", 0, true);
    match bar.run(|work| detached_signature(model, &keys, &options, scope, work)) {
        Some(DetachedSignature { is_trusted: Some(true), of, .. }) => {
            before.insert(of);
            Ok(())
        }
        Some(DetachedSignature { problem: Some(problem), .. }) => Err(Failure::Input(problem)),
        _ => Err(none()),
    }
}

/// Why a model cannot be opened that has to have a signature beside it: what was changed after it was signed, if that is so.
pub(crate) fn explained(path: &Path, open: &OpenArgs, failure: Failure) -> Failure {
    let Ok(keys) = open.keys_beside() else { return failure };
    let signed = [path, folder_of(path)].into_iter().find(|of| signature_path(of).is_file());
    let Some(of) = signed else { return failure };
    let bar = Progress::new("hashing", 0, true);
    match bar.run(|work| oms::verify(of, &keys, &VerifyOptions::new(), work)) {
        Ok(verified) => verified.findings().into_iter().next().map_or(failure, Failure::Input),
        Err(error) => Failure::Input(with_causes(&error)),
    }
}
