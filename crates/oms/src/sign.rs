//! Signs models.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use modelfmt_core::Execution;
use modelfmt_core::source::BoxSource;
use modelfmt_keys::{KeyId, PrivateKey};
use modelfmt_write::edit::{JOURNAL_SUFFIX, interrupted_by};
use modelfmt_write::{AtomicFile, Output as _, Overwrite, Sink as _};

use crate::bundle::{Bundle, MAX_BUNDLE};
use crate::error::{Error, Fault, Result};
use crate::hash::{self, Algorithm, Job, ReadPolicy, Record};
use crate::names::{self, DEFAULT_IGNORED, Ignored};
use crate::place::{name_of, signature_path, within};
use crate::statement::{Resource, Statement};
use crate::walk::{self, Found, Stamp, nanoseconds};

/// A file's modification time is noted only if it is older than this, in nanoseconds. File systems count time
/// in steps, so a second write within the same step would go unnoticed.
const SETTLED: i128 = 2_000_000_000;

/// Options for signing a model.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SignOptions {
    overwrite: Overwrite,
    allow_symlinks: bool,
    trust_mtime: bool,
    ignore: Vec<String>,
    read_policy: Option<ReadPolicy>,
}

impl SignOptions {
    /// Calls a function for every file that is signed, after it was opened. The function returns a source
    /// through which the file is read, or an error that says why it must not be read.
    #[must_use]
    pub fn read_policy(
        mut self,
        policy: impl Fn(&Path, BoxSource) -> io::Result<BoxSource> + Send + Sync + 'static,
    ) -> Self {
        self.read_policy = Some(ReadPolicy(Arc::new(policy)));
        self
    }

    /// Returns the default options: an existing signature is not replaced, symbolic links are not followed,
    /// every file is hashed, and all files except those of git are signed.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether an existing signature may be replaced.
    #[must_use]
    pub const fn overwrite(mut self, overwrite: Overwrite) -> Self {
        self.overwrite = overwrite;
        self
    }

    /// Follows symbolic links to files, whose bytes are signed under the name of the link. The statement
    /// records this, and verifiers have to allow it too.
    #[must_use]
    pub const fn allow_symlinks(mut self, allow: bool) -> Self {
        self.allow_symlinks = allow;
        self
    }

    /// Notes each file's size and modification time in the statement. If the same key has made a signature
    /// with this option before, a file with unchanged size and time is not read again: its digest is taken
    /// from that signature, which is then replaced. Anyone who can set the time of a file can have any
    /// content signed this way, so use this only for models that nobody else can write to. Any other signature
    /// is replaced only if [`overwrite`](Self::overwrite) says so.
    #[must_use]
    pub const fn trust_mtime(mut self, trust: bool) -> Self {
        self.trust_mtime = trust;
        self
    }

    /// Leaves out these files and folders, by their names relative to the folder. The statement lists them.
    #[must_use]
    pub fn ignore(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.ignore.extend(names);
        self
    }
}

/// A signature that has been made.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Signed {
    /// The path of the signature.
    pub path: PathBuf,
    /// The id of the key that made it.
    pub key_id: KeyId,
    /// The number of files that it covers.
    pub files: usize,
    /// The total size of these files in bytes.
    pub nbytes: u64,
    /// The number of files that were not read, because they had not changed since the previous signature.
    pub reused: usize,
}

/// Signs a file or folder: writes `FILE.sig` or `FOLDER/model.sig`. Each file is read once, in pieces, several at once.
///
/// # Errors
/// [`Error::WrongKey`] if the key is not on a NIST curve, [`Error::Exists`] if there is a signature that may
/// not be replaced, [`Error::Unsignable`] for links, devices and names that cannot be signed, and for a file
/// next to the journal of an edit, [`Error::Changed`] if a file is modified in the meantime, [`Error::Read`],
/// [`Error::Write`], [`Error::Stopped`].
pub fn sign(model: &Path, key: &PrivateKey, options: &SignOptions, work: &Execution<'_>) -> Result<Signed> {
    if !key.key_type().is_nist() {
        return Err(Error::WrongKey(format!("this key is {}", key.key_type())));
    }
    let path = signature_path(model);
    let own = if options.trust_mtime { own_bundle(&path, key) } else { None };
    let overwrite = if own.is_some() { Overwrite::Replace } else { options.overwrite };
    // Create the file first, so that a failure does not come after hours of hashing.
    let output = AtomicFile::create(&path, overwrite).map_err(|error| not_written(&path, error))?;
    let begun = nanoseconds(SystemTime::now());
    let (found, ignored) = files(model, &path, options)?;
    let before = own.map(|own| noted(&own)).unwrap_or_default();
    let known = |file: &Found| before.get(&*file.name).filter(|(stamp, _)| *stamp == file.stamp);
    let unknown = found.iter().filter(|file| known(file).is_none());
    let jobs: Vec<_> = unknown.map(|file| Job { file, range: None }).collect();
    let policy = options.read_policy.as_ref();
    for file in found.iter().filter(|file| policy.is_some() && known(file).is_some()) {
        let path = if model.is_dir() { walk::path_of(model, &file.name) } else { model.to_owned() };
        hash::check_allowed(policy, &path)?; // it is not read again, but vouched for
    }
    let hashed = hash::digests(model, &jobs, Algorithm::Sha256, (Record::Nothing, policy), work)?;
    let mut digests = hashed.into_iter().map(|hashed| hashed.digest);
    let reused = found.len() - jobs.len();
    let nbytes = found.iter().fold(0, |sum: u64, file| sum.saturating_add(file.stamp.len));
    let is_settled = |stamp: &Stamp| stamp.modified.is_some_and(|time| time < begun - SETTLED);
    let resources = found.iter().map(|file| Resource {
        name: file.name.clone(),
        digest: known(file).map_or_else(|| digests.next().unwrap_or_default(), |(_, digest)| digest.clone()),
        stamp: Some(file.stamp).filter(|stamp| options.trust_mtime && is_settled(stamp)),
    });
    let statement = Statement {
        name: name_of(model),
        algorithm: Algorithm::Sha256,
        shard_size: None,
        allow_symlinks: options.allow_symlinks,
        ignored: ignored.names().to_vec(),
        resources: resources.collect(),
    };
    let bundle = Bundle::sign(statement.to_json().as_bytes(), key)?;
    if bundle.len() as u64 > MAX_BUNDLE {
        let fault = Fault::TooLarge(bundle.len() as u64, MAX_BUNDLE);
        return Err(Error::Bundle { path, fault });
    }
    output.write_at(0, bundle.as_bytes()).map_err(|error| not_written(&path, error))?;
    output.commit().map_err(|error| not_written(&path, error))?;
    Ok(Signed { path, key_id: key.public().id(), files: found.len(), nbytes, reused })
}

/// Returns the files to sign, and the names that are left out.
fn files(model: &Path, signature: &Path, options: &SignOptions) -> Result<(Vec<Found>, Ignored)> {
    let defaults = DEFAULT_IGNORED.map(str::to_owned);
    if !model.is_dir() {
        if let Some(path) = interrupted_by(model) {
            return Err(Error::Unsignable { path, why: INTERRUPTED });
        }
        // The Python tool names a single file `.`. The specification requires the file's own name, but the tool does not verify
        // that.
        let found = walk::file(model, ".", options.allow_symlinks)?;
        return Ok((vec![found], Ignored::new(defaults)));
    }
    for name in &options.ignore {
        if let Some(why) = names::fault(name) {
            return Err(Error::Unsignable { path: name.into(), why });
        }
    }
    let asked = options.ignore.iter().cloned();
    let ignored = Ignored::new(defaults.into_iter().chain(asked).chain(within(model, signature)));
    let mut found = walk::folder(model, &ignored, options.allow_symlinks)?;
    // Leave out the unfinished file of this signature.
    found.retain(|file| !is_partial(&file.name));
    if found.is_empty() {
        return Err(Error::Unsignable { path: model.to_owned(), why: "holds no file to sign" });
    }
    if let Some(journal) = found.iter().find(|file| file.name.ends_with(JOURNAL_SUFFIX)) {
        return Err(Error::Unsignable { path: model.join(&journal.name), why: INTERRUPTED });
    }
    Ok((found, ignored))
}

/// Why a file next to the journal of an edit is not signed.
const INTERRUPTED: &str = "is the journal of an edit that was interrupted or is still running, so the file next to it is not signed; \
                           to undo or complete the edit, use `modelfmt edit` with that file alone, or with the index of its model";

/// Checks whether the file is the unfinished output of a writer, such as this signature before it is
/// complete. If other writers have left such files, a later `verify` reports them.
fn is_partial(name: &str) -> bool {
    name.starts_with(".modelfmt-") && name.ends_with(".partial")
}

/// Returns the existing signature if it is by this key.
fn own_bundle(path: &Path, key: &PrivateKey) -> Option<Bundle> {
    let bundle = Bundle::read(path).ok()?;
    bundle.check(std::slice::from_ref(key.public())).is_some().then_some(bundle)
}

/// Returns the digests of files that a signature states, with the sizes and times that it notes.
fn noted(bundle: &Bundle) -> HashMap<String, (Stamp, Vec<u8>)> {
    let Ok(statement) = Statement::parse(bundle.payload()) else { return HashMap::new() };
    if statement.algorithm != Algorithm::Sha256 || statement.shard_size.is_some() {
        return HashMap::new();
    }
    let noted = statement.resources.into_iter();
    noted.filter_map(|resource| Some((resource.name, (resource.stamp?, resource.digest)))).collect()
}

pub(crate) fn not_written(path: &Path, source: io::Error) -> Error {
    match source.kind() {
        io::ErrorKind::AlreadyExists => Error::Exists { path: path.to_owned() },
        _ => Error::Write { path: path.to_owned(), source },
    }
}
