//! The rules of a policy, and what they say about a place.

use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use modelfmt_core::source::folder_of;
use modelfmt_keys::PublicKey;
use modelfmt_rules::pin::Pin;

use crate::error::{Error, Result};
use crate::parse::{self, Families, Keys};
use crate::place::{self, Place};
use crate::rule::Rule;

/// The maximum length of a policy, in bytes.
const MAX_LEN: u64 = 1 << 20;

/// Rules over absolute paths and URLs that say what may be read.
pub struct Rules {
    path: PathBuf,
    /// Whether a place that no rule matches is allowed.
    allows: bool,
    rules: Vec<Rule>,
    fingerprint: blake3::Hash,
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} rules", self.path.display(), self.rules.len())
    }
}

/// What a policy says about a place.
#[derive(Clone, Copy, Debug)]
pub enum Verdict<'p> {
    /// No rule matches, and the default allows it.
    Allowed,
    /// The first rule that matches.
    By(&'p Rule),
}

impl Rules {
    /// Reads the file of a policy, and the keys that it names, which are relative to its folder.
    ///
    /// # Errors
    /// [`Error::Read`] if the file cannot be read, [`Error::Unusable`] if its rules cannot be used.
    pub fn read(path: &Path, families: Families<'_>) -> Result<Self> {
        let mut text = String::new();
        let read =
            std::fs::File::open(path).and_then(|file| file.take(MAX_LEN + 1).read_to_string(&mut text));
        read.map_err(|source| Error::Read { path: path.to_owned(), source })?;
        let folder = folder_of(path);
        Self::parse(path, &text, families, &|name| PublicKey::read(&folder.join(name)))
    }

    /// Reads the text of a policy. Errors and refusals name it by its path.
    ///
    /// # Errors
    /// [`Error::Unusable`] if it is longer than 1 MiB, has an unknown key or a wrong value, or names a key that cannot be read.
    pub fn parse(path: &Path, text: &str, families: Families<'_>, keys: Keys<'_>) -> Result<Self> {
        let failed = |why| {
            let why = format!("the policy cannot be used: {why}");
            Error::Unusable { path: path.to_owned(), why }
        };
        if text.len() as u64 > MAX_LEN {
            return Err(failed("it is longer than 1 MiB".to_owned()));
        }
        let (allows, rules) = parse::parse(text, families, keys).map_err(failed)?;
        let fingerprint = fingerprint(text, &rules);
        Ok(Self { path: path.to_owned(), allows, rules, fingerprint })
    }

    /// Returns the path of the file that the rules were read from.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a fingerprint of the rules and the keys that they name. It changes if one of them does.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        self.fingerprint.to_hex().to_string()
    }

    /// Returns the first rule that matches a place, or the default.
    ///
    /// # Errors
    /// A text that says that no rule matches and the default refuses.
    pub fn judge(&self, place: &Place) -> std::result::Result<Verdict<'_>, String> {
        match self.rules.iter().find(|rule| rule.matches(place)) {
            Some(rule) => Ok(Verdict::By(rule)),
            None if self.allows => Ok(Verdict::Allowed),
            None => {
                let why = format_args!("no rule matches {place}, and its default is to refuse");
                Err(self.unknown(why))
            }
        }
    }

    /// Returns the pin that the rule for a URL has for what is fetched from there. This is not read as a
    /// model, so a rule with demands on models refuses it.
    ///
    /// # Errors
    /// The reason why it may not be fetched.
    pub fn fetchable(&self, url: &str) -> std::result::Result<Option<Pin>, String> {
        let place = Place::of_url(url).map_err(|why| self.unknown(why))?;
        let Verdict::By(rule) = self.judge(&place)? else { return Ok(None) };
        let refused = |why: &str| self.refusal(rule, why);
        if !rule.keys.is_empty() || rule.min_revision.is_some() || rule.formats.is_some() {
            let why = "keys, formats and revisions are checked where a model is opened, not where it is fetched; \
                       give the URL a rule without them, and the folder one with them";
            return Err(refused(why));
        }
        let pins = rule.pins_of(&place.file_name().unwrap_or_default(), &place);
        match pins.first() {
            None => Ok(None),
            Some(pin @ Pin::B3(_)) => Ok(Some(*pin)),
            Some(pin) => Err(refused(&format!("its pin {pin} is not of the whole file; pin it by b3:"))),
        }
    }

    /// Returns the text of an error: which rule refuses, and why.
    #[must_use]
    pub fn refusal(&self, rule: &Rule, why: impl fmt::Display) -> String {
        format!("refused by {} of the policy {}: {why}", rule.title(), self.path.display())
    }

    /// Returns the text of an error about a file for which there is no rule, or whose place is not known.
    #[must_use]
    pub fn unknown(&self, why: impl fmt::Display) -> String {
        format!("refused by the policy {}: {why}", self.path.display())
    }
}

/// Returns a URL without the parts that may be secret.
#[must_use]
pub fn shown(url: &str) -> String {
    let scheme = || url.split_once("://").map_or("…", |(scheme, _)| scheme).to_owned();
    place::normalized(url).unwrap_or_else(|_| scheme())
}

fn fingerprint(text: &str, rules: &[Rule]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(text.as_bytes());
    for key in rules.iter().flat_map(|rule| &rule.keys) {
        hasher.update(key.as_bytes());
    }
    hasher.finalize()
}
