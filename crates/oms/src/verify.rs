//! Verifies models by their signatures.

use std::path::{Path, PathBuf};

use modelfmt_core::Execution;
use modelfmt_keys::PublicKey;

use crate::bundle::Bundle;
use crate::compare::{compare, signed, unlisted_defaults};
use crate::error::{Error, Result};
use crate::hash::{self, Record};
use crate::names::{DEFAULT_IGNORED, Ignored};
use crate::place::{signature_path, within};
use crate::signed::{Pages, SignedFiles};
use crate::statement::Statement;
use crate::verified::{Verified, signer};
use crate::walk::{self, Found};

/// Options for verifying a model.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct VerifyOptions {
    allow_symlinks: bool,
    signature: Option<PathBuf>,
}

impl VerifyOptions {
    /// Returns the default options: the signature is at [`signature_path`], and symbolic links are not
    /// followed.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Follows symbolic links to files, and accepts statements whose signer did the same.
    #[must_use]
    pub const fn allow_symlinks(mut self, allow: bool) -> Self {
        self.allow_symlinks = allow;
        self
    }

    /// Sets the path of the signature.
    #[must_use]
    pub fn signature(mut self, path: impl Into<PathBuf>) -> Self {
        self.signature = Some(path.into());
        self
    }
}

/// Verifies a file or folder by its signature and the trusted keys. Each file is read once, in pieces, several files at once.
///
/// # Errors
/// If the signature is not valid: [`Error::Missing`], [`Error::Bundle`], [`Error::UntrustedKey`],
/// [`Error::BadSignature`], [`Error::WrongKey`]. If the model cannot be compared: [`Error::Read`],
/// [`Error::Unsignable`], [`Error::Changed`], [`Error::Stopped`]. Files that differ are not an error: the
/// result reports them.
pub fn verify(
    model: &Path,
    keys: &[PublicKey],
    options: &VerifyOptions,
    work: &Execution<'_>,
) -> Result<Verified> {
    Ok(compared(model, keys, options, Record::Nothing, work)?.0)
}

/// Verifies a file or folder as [`verify()`] does. If all files are unchanged, also returns [`SignedFiles`],
/// through which only the bytes that were hashed here can be read, even if someone changes or replaces files
/// later.
///
/// # Errors
/// The errors of [`verify()`]. Files that differ are not an error: the result reports them.
pub fn verify_to_read(
    model: &Path,
    keys: &[PublicKey],
    options: &VerifyOptions,
    work: &Execution<'_>,
) -> Result<(Verified, Option<SignedFiles>)> {
    let (verified, pages) = compared(model, keys, options, Record::Pages, work)?;
    let files = verified.is_ok().then(|| SignedFiles::new(model, &verified, pages));
    Ok((verified, files))
}

/// Compares the files with the statement. Also returns the page digests that were recorded for each file.
fn compared(
    model: &Path,
    keys: &[PublicKey],
    options: &VerifyOptions,
    record: Record,
    work: &Execution<'_>,
) -> Result<(Verified, Pages)> {
    let path = options.signature.clone().unwrap_or_else(|| signature_path(model));
    let bundle = Bundle::read(&path)?;
    let key_id = signer(&path, &bundle, keys)?;
    let bad = |fault| Error::Bundle { path: path.clone(), fault };
    let statement = Statement::parse(bundle.payload()).map_err(bad)?;
    if statement.allow_symlinks && !options.allow_symlinks {
        let why = "was signed through symbolic links, which are followed only where you allow it";
        return Err(Error::Unsignable { path: model.to_owned(), why });
    }
    let own = within(model, &path).filter(|_| model.is_dir());
    let signed = signed(&statement).map_err(bad)?;
    let found = found(model, &statement, own.as_deref(), options)?;
    let mut comparison = compare(&signed, &found, statement.shard_size.is_some());
    let hashed = hash::digests(model, &comparison.jobs, statement.algorithm, (record, None), work)?;
    comparison.take(&hashed);
    let is_usual = |name: &String| DEFAULT_IGNORED.contains(&&**name) || own.as_ref() == Some(name);
    let pages = comparison.pages(hashed);
    let verified = Verified {
        key_id,
        name: statement.name.clone(),
        files: signed.len(),
        missing: comparison.missing,
        extra: comparison.extra,
        changed: comparison.changed,
        empty: comparison.empty,
        ignored: statement.ignored.iter().filter(|name| !is_usual(name)).cloned().collect(),
        path: path.clone(),
    };
    Ok((verified, pages))
}

/// Returns the files that exist.
fn found(
    model: &Path,
    statement: &Statement,
    own: Option<&str>,
    options: &VerifyOptions,
) -> Result<Vec<Found>> {
    if model.is_dir() {
        let listed = statement.ignored.iter().cloned();
        let own = own.map(str::to_owned);
        let ignored = Ignored::new(unlisted_defaults(&statement.resources).chain(listed).chain(own));
        return walk::folder(model, &ignored, options.allow_symlinks);
    }
    // The specification uses the file's own name for a single file; the Python tool uses `.`.
    let by_tool =
        statement.resources.iter().any(|resource| resource.name == "." || resource.name.starts_with(".:"));
    let name = model.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(vec![walk::file(model, if by_tool { "." } else { &name }, options.allow_symlinks)?])
}
