//! Policies: which files may be read, and what they have to prove.
//!
//! A [`Policy`] is read from a TOML file and given to [`OpenOptions::policy`](crate::OpenOptions::policy). Every file of a model is
//! then judged where it is opened: the file that is named, the other files of a set, and files beside it such as config.json.
//! A [`Model`](crate::Model) keeps its policy, and what is opened because of it (an adapter, a base) is judged too.
//!
//! See [`Policy::read`] for an example of such a file.

mod files;
mod rule_check;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use modelfmt_core::Execution;
use modelfmt_core::source::BoxSource;
use modelfmt_oms::{SignedFiles, VerifyOptions, signature_path};
use modelfmt_policy::{NO_SIGNATURE, Place, Rule, Rules, shown};

use crate::error::{Error, Result};
use crate::formats::Format;
use crate::open::{OpenOptions, PolicyHandle};

/// Rules over absolute paths and URLs that say what may be read.
pub struct Policy {
    rules: Rules,
    /// The files that signatures cover, with the number of the rule, so that a folder is hashed once.
    signed: Mutex<Vec<(usize, Arc<SignedFiles>)>>,
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Policy({:?})", self.rules)
    }
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
        let families = |name: &str| {
            Format::ALL.iter().find(|format| format.name() == name).map(|format| format.family())
        };
        let rules = Rules::read(path.as_ref(), &families).map_err(|error| match error {
            modelfmt_policy::Error::Read { path, source } => Error::Open { path, source },
            modelfmt_policy::Error::Unusable { path, why } => Error::Policy { path, why },
            _ => Error::Policy { path: path.as_ref().to_owned(), why: error.to_string() },
        })?;
        Ok(Arc::new(Self { rules, signed: Mutex::default() }))
    }

    /// Returns the path of the file that the policy was read from.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.rules.path()
    }

    /// Returns the files that a signature beside a file covers. It must be by one of the keys of the rule.
    /// All of the files are hashed, once.
    fn signed(&self, rule: &Rule, file: &Path) -> Result<Arc<SignedFiles>, String> {
        let keys = rule.keys_beside()?;
        let mut known = self.signed.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known.iter().find(|(number, files)| *number == rule.number && files.covers(file));
        if let Some((_, files)) = before {
            return Ok(Arc::clone(files));
        }
        // Anybody may put a signature beside a file, so if that one does not count, the signature of its
        // folder still may.
        let mut why = NO_SIGNATURE.to_owned();
        for (number, of) in signatures_of(file).into_iter().enumerate() {
            let files = crate::signed::signed_files(&of, &keys, &VerifyOptions::new(), &Execution::default());
            let problem = match files {
                Ok(files) if files.covers(file) => {
                    known.push((rule.number, Arc::clone(&files)));
                    return Ok(files);
                }
                Ok(files) => format!("{} does not cover it", files.signature().display()),
                Err(error) => error.to_string(),
            };
            if number == 0 {
                why = problem;
            }
        }
        Err(why)
    }
}

/// Returns the signed files and folders whose signature may cover a file, the nearest first: the file, its
/// folder, or a folder further up.
fn signatures_of(file: &Path) -> Vec<PathBuf> {
    let nearest = crate::signed::DetachedSignature::find(file).map(|found| found.of);
    let folder = modelfmt_core::source::folder_of(file).to_owned();
    let folder = Some(folder).filter(|folder| signature_path(folder).is_file());
    let mut all: Vec<PathBuf> = [nearest, folder, signed_above(file)].into_iter().flatten().collect();
    all.dedup();
    all
}

impl Policy {
    /// Returns a fingerprint of the policy and the keys that it names. It changes if one of them does.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        self.rules.fingerprint()
    }

    /// Fails for a URL from which nothing may be read.
    ///
    /// # Errors
    /// [`Error::Policy`].
    pub fn check_url(&self, url: &str) -> Result<()> {
        let place = Place::of_url(url).map_err(|why| self.rules.unknown(why));
        let judged = place.and_then(|place| self.rules.judge(&place).map(drop));
        judged.map_err(|why| Error::Policy { path: shown(url).into(), why })
    }

    /// Returns the pin that the rule has for a URL. Fails if nothing may be read from the URL, or if the rule
    /// has demands on models, because what is fetched is not read as a model.
    ///
    /// # Errors
    /// [`Error::Policy`] if it may not be fetched.
    pub fn check_fetch(&self, url: &str) -> Result<Option<crate::Pin>> {
        self.rules.fetchable(url).map_err(|why| Error::Policy { path: shown(url).into(), why })
    }
}

/// Finds a signed folder further up, such as the folder of a set whose files are in subfolders.
fn signed_above(file: &Path) -> Option<PathBuf> {
    const DEPTH: usize = 8;
    let folders = file.ancestors().skip(2).take(DEPTH).filter(|folder| !folder.as_os_str().is_empty());
    folders.map(Path::to_owned).find(|folder| signature_path(folder).is_file())
}

impl OpenOptions {
    /// Judges every file by a policy before it is read, and lets the file prove what the rule for it demands. The pin and the keys
    /// of these options have to hold as well. A source without a path is judged by [`at_url`](Self::at_url).
    #[must_use]
    pub fn policy(mut self, policy: Arc<Policy>) -> Self {
        self.policy = Some(PolicyHandle(policy));
        self
    }

    /// Returns the policy that was set.
    #[must_use]
    pub fn get_policy(&self) -> Option<Arc<Policy>> {
        let PolicyHandle(policy) = self.policy.as_ref()?;
        Arc::clone(policy).downcast().ok()
    }

    /// Judges an open file that is not opened as a model, and returns it so that it is checked while it is
    /// read.
    ///
    /// # Errors
    /// [`Error::Policy`].
    pub fn judged(&self, path: &Path, source: BoxSource) -> Result<BoxSource> {
        let Some(policy) = self.get_policy() else { return Ok(source) };
        policy.allow_bytes(path, source).map_err(|why| Error::Policy { path: path.to_owned(), why })
    }

    /// Fails if the policy refuses a file by its place alone, whatever the file has to prove when it is
    /// opened. Call this before undoing the file's last edit, or before sending a request to its server.
    ///
    /// # Errors
    /// [`Error::Policy`].
    pub fn judge_place(&self, path: impl AsRef<Path>) -> Result<()> {
        let (path, Some(policy)) = (path.as_ref(), self.get_policy()) else { return Ok(()) };
        let place = Place::of_file(path).map_err(|why| policy.rules.unknown(why));
        let judged = place.and_then(|place| policy.rules.judge(&place).map(drop));
        judged.map_err(|why| Error::Policy { path: path.to_owned(), why })
    }

    /// Judges a file, or every file in a folder, before all of them are hashed.
    pub(crate) fn judge_tree(&self, path: &Path) -> Result<()> {
        if self.policy.is_none() {
            return Ok(());
        }
        if !path.is_dir() {
            return self.open_other(path).map(drop);
        }
        let failed = |source| Error::Open { path: path.to_owned(), source };
        for entry in std::fs::read_dir(path).map_err(failed)? {
            let entry = entry.map_err(failed)?.path();
            let is_signature = entry == signature_path(path);
            if !is_signature && (entry.is_file() || (entry.is_dir() && !entry.is_symlink())) {
                self.judge_tree(&entry)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::fs;

    use modelfmt_core::source::FileSource;

    use super::*;

    /// A folder with a model, another one, and the options with a policy of one rule that allows `good` and a URL.
    fn place() -> (tempfile::TempDir, PathBuf, OpenOptions) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let header = br#"{"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#;
        let file = [&(header.len() as u64).to_le_bytes()[..], header, &[1]].concat();
        for name in ["good.safetensors", "evil.safetensors"] {
            fs::write(root.join(name), &file).unwrap();
        }
        let pattern = root.join("good*").display().to_string();
        let text = format!("[[rule]]\nmatch = [{pattern:?}, \"https://h/good/**\"]\n");
        fs::write(root.join("policy.toml"), text).unwrap();
        let options = OpenOptions::new().policy(Policy::read(root.join("policy.toml")).unwrap());
        (folder, root, options)
    }

    fn source(path: &Path) -> BoxSource {
        Box::new(FileSource::open(path).unwrap())
    }

    #[test]
    fn a_file_that_was_replaced_after_it_was_opened_is_refused() {
        let (_folder, root, options) = place();
        let [good, evil] = ["good.safetensors", "evil.safetensors"].map(|name| root.join(name));
        // The file, or a folder above it, was replaced between opening and judging.
        let refused = options.open_file(&good, good.clone(), source(&evil)).err().unwrap();
        assert!(refused.to_string().contains("the file was replaced"), "{refused}");
        assert!(options.judged(&good, source(&evil)).is_err());
        assert!(options.judged(&good, source(&good)).is_ok());
        assert!(options.judged(&evil, source(&evil)).is_err());
        #[cfg(feature = "safetensors")]
        options.open_file(&good, good.clone(), source(&good)).unwrap();
    }

    #[test]
    fn a_name_is_no_place() {
        let (_folder, root, options) = place();
        let good = root.join("good.safetensors");
        let name = good.display().to_string();
        // The caller may give a source any name.
        let refused = options.open_source(&name, source(&good), None).err().unwrap();
        assert_eq!(refused.code(), "policy");
        for (url, is_allowed) in [("https://h/good/m", true), ("https://h/evil/m", false), ("good/m", false)]
        {
            let judged = options.clone().at_url(url).open_source(&name, source(&good), None);
            let is_refused = judged.err().is_some_and(|error| error.code() == "policy");
            assert_eq!(is_refused, !is_allowed, "{url}");
        }
    }

    #[test]
    fn what_is_refused_is_not_looked_into() {
        let (_folder, root, options) = place();
        assert!(options.probe(root.join("evil.safetensors")).unwrap().format.is_none());
        assert!(options.probe(root.join("good.safetensors")).unwrap().format.is_some());
        let report = options.verify(
            root.join("evil.safetensors"),
            modelfmt_core::VerifyLevel::Full,
            &Execution::default(),
        );
        assert!(!report.is_ok() && report.format.is_none());
    }

    #[test]
    fn an_asynchronous_model_is_judged_too() {
        let (_folder, _, options) = place();
        for (url, is_allowed) in [("https://h/good/m", true), ("https://h/evil/m", false)] {
            let options = options.clone().at_url(url);
            assert_eq!(options.refuse_async("m", Some(Format::Safetensors)).is_ok(), is_allowed);
            // The other files of a set would not be judged one by one.
            assert!(options.refuse_async("m", Some(Format::SafetensorsSharded)).is_err());
        }
        assert!(options.refuse_async("m", None).is_err());
    }
}
