//! Policies: which files may be read, and what they have to prove.
//!
//! A [`Policy`] is read from a TOML file and given to [`OpenOptions::policy`](crate::OpenOptions::policy). Every file of a model is
//! then judged where it is opened: the file that is named, the other files of a set, and files beside it such as config.json.
//! A [`Model`](crate::Model) keeps its policy, and what is opened because of it (an adapter, a base) is judged too.
//!
//! The rules are in that file; [`Policy::read`] has an example.

mod files;
mod gate;
mod parse;
mod place;
mod rules;

use std::collections::HashMap;
use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use modelfmt_core::Execution;
use modelfmt_oms::{SignedFiles, VerifyOptions};

use self::place::Place;
use self::rules::Rule;
use crate::error::{Error, Result};

pub(crate) use self::gate::{open, refuse_async};

/// The longest policy, in bytes.
const MAX_LEN: u64 = 1 << 20;

/// What may be read, by rules over absolute paths and URLs.
pub struct Policy {
    path: PathBuf,
    /// Whether what no rule matches is allowed.
    allows: bool,
    rules: Vec<Rule>,
    /// What signatures cover, by the rule and the signed file or folder, so that a folder is hashed once.
    signed: Mutex<HashMap<(usize, PathBuf), Arc<SignedFiles>>>,
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Policy({}, {} rules)", self.path.display(), self.rules.len())
    }
}

/// What a policy says about a place.
#[derive(Clone, Copy)]
pub(crate) enum Verdict<'p> {
    /// No rule matches, and the default allows it.
    Free,
    /// The first rule that matches.
    By(&'p Rule),
}

impl Policy {
    /// Reads a policy, and the keys that it names.
    ///
    /// ```
    /// use modelfmt::policy::Policy;
    /// use modelfmt::OpenOptions;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let place = folder.path().canonicalize()?;
    /// # let path = place.join("policy.toml");
    /// std::fs::write(&path, r#"
    ///     default = "refuse"
    ///     [[rule]]
    ///     match = ["/srv/models/**", "https://example.org/models/**"]
    ///     formats = ["safetensors"]
    /// "#)?;
    /// let options = OpenOptions::new().policy(Policy::read(&path)?);
    /// # std::fs::write(place.join("m.safetensors"), b"")?;
    /// let refused = options.open(place.join("m.safetensors")).unwrap_err();
    /// assert_eq!(refused.code(), "policy");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Open`] if the file cannot be read, [`Error::Policy`] if it has an unknown key, a wrong value or a key file that
    /// cannot be read.
    pub fn read(path: impl AsRef<Path>) -> Result<Arc<Self>> {
        let path = path.as_ref();
        let mut text = String::new();
        let read = std::fs::File::open(path).and_then(|file| file.take(MAX_LEN + 1).read_to_string(&mut text));
        read.map_err(|source| Error::Open { path: path.to_owned(), source })?;
        let failed = |why| Error::Policy { path: path.to_owned(), why: format!("the policy cannot be used: {why}") };
        if text.len() as u64 > MAX_LEN {
            return Err(failed("it is longer than 1 MiB".to_owned()));
        }
        let folder = modelfmt_core::source::folder_of(path);
        let (allows, rules) = parse::parse(&text, folder).map_err(failed)?;
        Ok(Arc::new(Self { path: path.to_owned(), allows, rules, signed: Mutex::default() }))
    }

    /// The file that it was read from.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The first rule that matches a place, or the default. The error says that there is none and the default refuses.
    fn judge(&self, place: &Place) -> Result<Verdict<'_>, String> {
        match self.rules.iter().find(|rule| rule.matches(place)) {
            Some(rule) => Ok(Verdict::By(rule)),
            None if self.allows => Ok(Verdict::Free),
            None => Err(format!(
                "refused by the policy {}: no rule matches {place}, and its default is to refuse",
                self.path.display()
            )),
        }
    }

    /// The text of an error: which rule refuses, and why.
    fn refusal(&self, rule: &Rule, why: impl fmt::Display) -> String {
        format!("refused by {} of the policy {}: {why}", rule.title(), self.path.display())
    }

    /// The files that a signature beside a file covers, which is by one of the keys of the rule. All of them are hashed, once.
    fn signed(&self, rule: &Rule, file: &Path) -> Result<Arc<SignedFiles>, String> {
        let keys: Vec<_> = rule.keys.iter().filter(|key| key.key_type().is_nist()).cloned().collect();
        if keys.is_empty() {
            return Err("a signature is demanded, and none of its keys can make one beside a file".to_owned());
        }
        if rule.threshold > 1 {
            let why = "are demanded, and a signature beside a file is by one key; only a sealed APR2 has several";
            return Err(format!("signatures by {} keys {why}", rule.threshold));
        }
        let of = crate::signed::DetachedSignature::find(file).map(|found| found.of);
        let of = of.ok_or("a signature is demanded, and there is none beside it")?;
        let key = (rule.number, of.canonicalize().unwrap_or(of));
        let mut known = self.signed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(files) = known.get(&key).filter(|files| files.covers(file)) {
            return Ok(Arc::clone(files));
        }
        let files = crate::signed::signed_files(file, &keys, &VerifyOptions::new(), &Execution::default());
        let files = files.map_err(|error| error.to_string())?;
        known.insert(key, Arc::clone(&files));
        Ok(files)
    }
}

impl Policy {
    /// Whether a file that is no model, or is not read as one, may be read: an importance matrix, a file that is signed or
    /// hashed. The rule's `match`, pins by BLAKE3 and `formats` count; `keys` demand a signature beside it that covers it.
    ///
    /// # Errors
    /// [`Error::Policy`] if it may not be read.
    pub fn check_file(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let source = modelfmt_core::source::FileSource::open(path);
        let source = source.map_err(|source| Error::Open { path: path.to_owned(), source })?;
        let allowed = self.allow_bytes(path, Box::new(source));
        allowed.map(drop).map_err(|why| Error::Policy { path: path.to_owned(), why })
    }

    /// Fails for a URL from which nothing may be read, and returns the pin that the rule has for it. What is fetched is not read
    /// as a model, so that a rule with demands on models refuses it.
    ///
    /// # Errors
    /// [`Error::Policy`] if it may not be fetched.
    pub fn check_fetch(&self, url: &str) -> Result<Option<crate::Pin>> {
        self.fetchable(url).map_err(|why| Error::Policy { path: url.into(), why })
    }
}
