//! Verifying.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use modelfmt_core::Execution;
use modelfmt_keys::{KeyId, PublicKey};

use crate::bundle::Bundle;
use crate::compare::{compare, signed, unlisted_defaults};
use crate::error::{Error, Result};
use crate::hash;
use crate::names::{DEFAULT_IGNORED, Ignored};
use crate::open::OpenFiles;
use crate::place::{signature_path, within};
use crate::statement::Statement;
use crate::walk::{self, Found};

/// How a model is verified.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct VerifyOptions {
    allow_symlinks: bool,
    signature: Option<PathBuf>,
}

impl VerifyOptions {
    /// The defaults: the signature is where [`signature_path`] says, and no symbolic link is followed.
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

    /// The signature's file.
    #[must_use]
    pub fn signature(mut self, path: impl Into<PathBuf>) -> Self {
        self.signature = Some(path.into());
        self
    }
}

/// A signature by a trusted key, and how the files compare with what was signed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Verified {
    /// The signature's file.
    pub path: PathBuf,
    /// The key that made it.
    pub key_id: KeyId,
    /// What the signer called the model. It is only for people, and is not checked.
    pub name: String,
    /// How many files were signed.
    pub files: usize,
    /// Files that were signed and are not there.
    pub missing: Vec<String>,
    /// Files that are there and were not signed.
    pub extra: Vec<String>,
    /// Files that are not what was signed.
    pub changed: Vec<String>,
    /// Files that are open ([`OpenFiles`]) and are none of those that are signed, such as one that the signer left out.
    pub unsigned: Vec<String>,
    /// The files that the signer left out, besides git's files and the signature. They could be anything.
    pub ignored: Vec<String>,
}

impl Verified {
    /// Whether every file is what was signed, and there are no other files.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        [&self.missing, &self.extra, &self.changed, &self.unsigned].into_iter().all(Vec::is_empty)
    }

    /// What differs, a line for each file.
    #[must_use]
    pub fn findings(&self) -> Vec<String> {
        let lines = |names: &[String], what| -> Vec<String> {
            // A model that is one file has no name in its own signature.
            let quoted =
                |name: &String| if name == "." { "the file".to_owned() } else { format!("{name:?}") };
            names.iter().map(|name| format!("{} {what}", quoted(name))).collect()
        };
        [
            lines(&self.changed, "is not what was signed"),
            lines(&self.missing, "was signed and is missing"),
            lines(&self.extra, "is there and was not signed"),
            lines(&self.unsigned, "is not among the files that the signature covers"),
        ]
        .concat()
    }
}

/// Verifies a file or folder by its signature and the keys that are trusted. Each file is read once, in pieces, several at once.
///
/// # Errors
/// If the signature does not count: [`Error::Missing`], [`Error::Bundle`], [`Error::UntrustedKey`], [`Error::BadSignature`], [`Error::WrongKey`]. If the
/// model cannot be compared: [`Error::Read`], [`Error::Unsignable`], [`Error::Changed`], [`Error::Stopped`]. Files that differ are not an error: the
/// result reports them.
pub fn verify(
    model: &Path,
    keys: &[PublicKey],
    options: &VerifyOptions,
    work: &Execution<'_>,
) -> Result<Verified> {
    verify_open(model, keys, options, &OpenFiles::new(), work)
}

/// As [`verify`](verify()), for a caller that has files of the model open. These are hashed as they are open, so the result is about what
/// the caller reads, also if somebody exchanges files meanwhile. Each of them must be covered by the signature.
///
/// # Errors
/// As [`verify`](verify()).
pub fn verify_open(
    model: &Path,
    keys: &[PublicKey],
    options: &VerifyOptions,
    open: &OpenFiles<'_>,
    work: &Execution<'_>,
) -> Result<Verified> {
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
    let found = match open.are_all() && model.is_dir() {
        true => found_open(model, open, options)?,
        false => found(model, &statement, own.as_deref(), options)?,
    };
    let mut comparison = compare(&signed, &found, statement.shard_size.is_some());
    if open.are_all() {
        comparison.missing.clear();
    }
    let digests = hash::digests(model, &comparison.jobs, statement.algorithm, open, work)?;
    comparison.take(&digests);
    let unsigned = if model.is_dir() { comparison.uncovered(open.names()) } else { Vec::new() };
    let is_usual = |name: &String| DEFAULT_IGNORED.contains(&&**name) || own.as_ref() == Some(name);
    Ok(Verified {
        key_id,
        name: statement.name.clone(),
        files: signed.len(),
        missing: comparison.missing,
        extra: comparison.extra,
        changed: comparison.changed,
        unsigned,
        ignored: statement.ignored.iter().filter(|name| !is_usual(name)).cloned().collect(),
        path: path.clone(),
    })
}

pub(crate) fn signer(path: &Path, bundle: &Bundle, keys: &[PublicKey]) -> Result<KeyId> {
    let nist: Vec<_> = keys.iter().filter(|key| key.key_type().is_nist()).collect();
    if nist.is_empty() {
        let types: Vec<_> = keys.iter().map(|key| key.key_type().name()).collect();
        return Err(Error::WrongKey(match &*types {
            [] => "none was named".to_owned(),
            types => format!("the named keys are {}", types.join(", ")),
        }));
    }
    if let Some(id) = bundle.check(keys) {
        return Ok(id);
    }
    let is_named = |hint: &str| nist.iter().any(|key| key.id().to_string() == hint);
    match bundle.hint() {
        Some(hint) if !is_named(hint) => {
            Err(Error::UntrustedKey { path: path.to_owned(), hint: hint.chars().take(64).collect() })
        }
        hint => {
            let tried =
                nist.iter().map(|key| key.id()).filter(|id| hint.is_none_or(|hint| hint == id.to_string()));
            Err(Error::BadSignature { path: path.to_owned(), ids: tried.collect() })
        }
    }
}

/// The files that are open, as they are in the folder.
fn found_open(folder: &Path, open: &OpenFiles<'_>, options: &VerifyOptions) -> Result<Vec<Found>> {
    let names: BTreeSet<&str> = open.names().collect();
    let one = |name| walk::file(&walk::path_of(folder, name), name, options.allow_symlinks);
    names.into_iter().map(one).collect()
}

/// The files that are there.
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
    // The specification gives a single file its own name; the Python tool calls it `.`.
    let by_tool =
        statement.resources.iter().any(|resource| resource.name == "." || resource.name.starts_with(".:"));
    let name = model.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(vec![walk::file(model, if by_tool { "." } else { &name }, options.allow_symlinks)?])
}
