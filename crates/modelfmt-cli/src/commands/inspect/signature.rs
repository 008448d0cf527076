//! The signature beside a file or in its folder.

use std::path::Path;

use modelfmt::{DetachedSignature, Format, Printable, detached_signature};

use super::LONGEST;
use crate::args::Inspect;
use crate::failure::{Failure, Result};
use crate::progress::Progress;

/// Looks for it. With a key it has to hold.
pub(super) fn look(
    path: &Path,
    format: Format,
    args: &Inspect,
    must_hold: bool,
    quiet: bool,
) -> Result<Option<DetachedSignature>> {
    let keys = if must_hold { args.open.keys_beside()? } else { Vec::new() };
    let total = if keys.is_empty() { 0 } else { std::fs::metadata(path).map_or(0, |file| file.len()) };
    let bar = Progress::new("hashing", total, quiet || keys.is_empty());
    let options = args.beside.options();
    let found = bar.run(|work| detached_signature(path, format, &keys, &options, work));
    match &found {
        _ if keys.is_empty() => Ok(found),
        Some(DetachedSignature { is_trusted: Some(true), .. }) => Ok(found),
        Some(DetachedSignature { problem: Some(problem), .. }) => Err(Failure::Input(problem.clone())),
        _ => Err(Failure::Input(format!("{}: there is no signature beside it", path.display()))),
    }
}

/// What is known of it, which without a key is only what it says.
pub(super) fn line(signature: &DetachedSignature) -> String {
    let path = signature.path.display().to_string();
    let key = signature.key_id.as_deref();
    let key =
        key.map_or_else(|| "a key without id".to_owned(), |id| format!("the key {}", Printable(id).cut(64)));
    let verdict = match (&signature.problem, signature.is_trusted) {
        (Some(problem), _) => Printable(problem).cut(LONGEST),
        (None, Some(true)) => format!("by {key}, which was named; every file is what was signed"),
        (None, _) => format!("says that it is by {key}; not checked, because no --key was named"),
    };
    format!("signature  {}: {verdict}", Printable(&path))
}
