//! Judges the files that a model is read from in addition to the named one: the other files of a set, and
//! files beside it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use modelfmt_core::Source as _;
use modelfmt_core::proof::VerifiedSource;
use modelfmt_core::source::{BoxSource, FileId, Files, SharedFiles};
use modelfmt_oms::SignedFiles;
use modelfmt_policy::{Place, Rule, Verdict};

use super::Policy;
use crate::formats::Format;
use crate::model::pinned;
use modelfmt_rules::pin::Pin;

/// How the named file satisfied its rule.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamedFileProof {
    /// The number of its rule.
    pub(crate) rule: Option<usize>,
    /// The files that the signature beside it covers.
    pub(crate) signed: Option<Arc<SignedFiles>>,
    /// Whether the signatures inside it count. Signatures in the manifest of a set cover all its files.
    pub(crate) is_sealed: bool,
}

/// The files of a set. Each is judged by its own place when it is opened.
pub(crate) struct JudgedFiles {
    pub(crate) policy: Arc<Policy>,
    pub(crate) files: SharedFiles,
    /// The named file, as the caller named it. The other files are beside it, even if it is a link.
    pub(crate) named: Place,
    pub(crate) proof: NamedFileProof,
}

impl Files for JudgedFiles {
    type Source = BoxSource;

    fn open(&self, name: &str) -> io::Result<BoxSource> {
        // A missing file has an error kind of its own, which some formats expect.
        let source = self.files.open(name)?;
        let refused = |why| io::Error::new(io::ErrorKind::PermissionDenied, why);
        let place = self.named.beside(name).map_err(refused)?;
        let path = match &self.named {
            Place::File(named) => Some(modelfmt_core::source::folder_of(named).join(name)),
            _ => None,
        };
        let outboard = || match &path {
            Some(path) => pinned::outboard_of(path),
            None => pinned::outboard_among(&self.files, name),
        };
        let file = File { place: &place, path: path.as_deref(), asked: last(name), is_model: true };
        self.policy.allow(&file, source, &self.proof, outboard).map_err(refused)
    }
}

fn last(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// A file that is judged by itself.
struct File<'a> {
    place: &'a Place,
    /// Its path as it was requested, if it is on this machine.
    path: Option<&'a Path>,
    /// Its name as it was requested.
    asked: &'a str,
    /// Whether it has to be a file of a model. Other files have no format and no revision.
    is_model: bool,
}

impl Policy {
    /// Judges a file that is not a model by itself, and returns its bytes, which are checked when they are
    /// read.
    pub(crate) fn allow_bytes(&self, path: &Path, source: BoxSource) -> Result<BoxSource, String> {
        let place = Place::of_file(path).map_err(|why| self.rules.unknown(why))?;
        let asked = path.file_name().unwrap_or_default().to_string_lossy();
        let file = File { place: &place, path: Some(path), asked: &asked, is_model: false };
        self.allow(&file, source, &NamedFileProof::default(), || pinned::outboard_of(path))
    }

    fn allow(
        &self,
        file: &File<'_>,
        mut source: BoxSource,
        proof: &NamedFileProof,
        outboard: impl FnOnce() -> crate::Result<Option<BoxSource>>,
    ) -> Result<BoxSource, String> {
        self.expect_same(file.place, &source)?;
        let Verdict::By(rule) = self.rules.judge(file.place)? else { return Ok(source) };
        let refused = |why: String| self.rules.refusal(rule, format_args!("{}: {why}", file.asked));
        let is_same_rule = proof.rule == Some(rule.number);
        let format = Format::detect(&source).map_err(|error| refused(error.to_string()))?;
        if file.is_model || format.is_some() {
            rule.check_family(format.map(Format::family)).map_err(refused)?;
            if rule.min_revision.is_some() && !is_same_rule {
                return Err(refused("it has no revision that is known here".to_owned()));
            }
        }
        if let Some(hash) = hash_of(rule, file).map_err(refused)? {
            source = by_hash(file, source, hash, outboard).map_err(refused)?;
        }
        if rule.keys.is_empty() || (is_same_rule && proof.is_sealed) {
            return Ok(source);
        }
        let path = file.path.ok_or_else(|| refused(NOT_LOCAL.to_owned()))?;
        let of_named = proof.signed.as_ref().filter(|signed| is_same_rule && signed.covers(path));
        let signed = match of_named {
            Some(signed) => Arc::clone(signed),
            None => self.signed(rule, path).map_err(refused)?,
        };
        let checked = signed.source(path, source).map_err(|error| refused(error.to_string()))?;
        Ok(Box::new(checked))
    }

    /// Fails if the open file is not the file at its place, because the path was changed in between.
    pub(crate) fn expect_same(&self, place: &Place, source: &BoxSource) -> Result<(), String> {
        let (Place::File(real), Some(id)) = (place, source.id()) else { return Ok(()) };
        let found =
            std::fs::symlink_metadata(real).ok().and_then(|metadata| FileId::from_metadata(&metadata));
        if found == Some(id) {
            return Ok(());
        }
        Err(self.rules.unknown("the file was replaced while it was opened"))
    }
}

/// Why a signature beside a file of another machine does not count.
pub(crate) const NOT_LOCAL: &str = "the rule requires a signature, and only that of a local file can be checked; fetch the file and its signature first";

/// Returns the BLAKE3 that the rule has for a file, or an error for a pin of another kind.
fn hash_of(rule: &Rule, file: &File<'_>) -> Result<Option<[u8; 32]>, String> {
    let mut hash = None;
    for pin in rule.pins_of(file.asked, file.place) {
        match (pin, hash) {
            (Pin::B3(found), None) => hash = Some(found),
            (Pin::B3(_), Some(_)) => return Err("its two names have different pins".to_owned()),
            _ => {
                return Err(format!(
                    "the pin {pin} is checked where the file is opened by itself; pin it by b3:"
                ));
            }
        }
    }
    Ok(hash)
}

fn by_hash(
    file: &File<'_>,
    source: BoxSource,
    hash: [u8; 32],
    outboard: impl FnOnce() -> crate::Result<Option<BoxSource>>,
) -> Result<BoxSource, String> {
    let outboard = outboard().map_err(|error| error.to_string())?;
    let checked: BoxSource = match outboard {
        Some(_) => {
            let path = PathBuf::from(file.asked);
            pinned::by_hash(&path, source, hash, outboard).map_err(|error| error.to_string())?.0
        }
        None if file.path.is_none() => return Err(NO_OUTBOARD.to_owned()),
        None => Box::new(VerifiedSource::by_hash(source, hash)),
    };
    // Without an outboard, this hashes the whole file, so that the error says which rule refuses it.
    checked.read(0..checked.len().min(1)).map_err(|error| error.to_string())?;
    Ok(checked)
}

/// Why a pin of a file on another machine cannot be checked.
pub(crate) const NO_OUTBOARD: &str =
    "its pin cannot be checked by ranges, because there is no outboard beside it";
