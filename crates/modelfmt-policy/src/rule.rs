//! One rule: which places it is for, and what it demands there.

use std::collections::BTreeMap;

use modelfmt_keys::PublicKey;
use modelfmt_rules::pin::Pin;

use crate::pattern::Pattern;
use crate::place::Place;

/// Why a file without a signature is refused, if its rule demands one.
pub const NO_SIGNATURE: &str = "a signature is demanded, and there is none beside it";

/// What a rule demands of the files that it matches.
#[derive(Debug)]
#[non_exhaustive]
pub struct Rule {
    /// Its position, from 1 on.
    pub number: usize,
    pub(crate) patterns: Vec<Pattern>,
    /// The keys that are trusted, each once. Without any, no signature is demanded.
    pub keys: Vec<PublicKey>,
    /// How many of them have to sign.
    pub threshold: usize,
    /// The families of formats that may be opened; all of them if there is no list.
    pub formats: Option<Vec<&'static str>>,
    /// The lowest revision that a signature has to state.
    pub min_revision: Option<u64>,
    /// The pins of files, by file name.
    pub pins: BTreeMap<String, Pin>,
}

impl Rule {
    /// Checks whether one of the rule's patterns matches the place.
    #[must_use]
    pub fn matches(&self, place: &Place) -> bool {
        place.as_path().is_some_and(|path| self.patterns.iter().any(|pattern| pattern.matches(&path)))
    }

    /// Returns the name of the rule in errors.
    #[must_use]
    pub fn title(&self) -> String {
        let first = self.patterns.first().map_or("", Pattern::text);
        format!("rule {} ({first:?})", self.number)
    }

    /// Fails for a family of formats that the rule does not allow. `found` is `None` for a file that is not a
    /// model.
    ///
    /// # Errors
    /// What the file is, and which families the rule allows.
    pub fn check_family(&self, found: Option<&str>) -> Result<(), String> {
        let Some(allowed) = &self.formats else { return Ok(()) };
        if found.is_some_and(|found| allowed.contains(&found)) {
            return Ok(());
        }
        let found = found.unwrap_or("of no known format");
        Err(format!("it is {found}, and the rule opens only {}", allowed.join(", ")))
    }

    /// Returns the pins for a file, by the name under which it was requested and by its real name.
    #[must_use]
    pub fn pins_of(&self, asked: &str, place: &Place) -> Vec<Pin> {
        let real = place.file_name().filter(|real| real != asked);
        let names = [Some(asked.to_owned()), real];
        let mut pins: Vec<Pin> =
            names.iter().flatten().filter_map(|name| self.pins.get(name).copied()).collect();
        pins.dedup();
        pins
    }

    /// Returns the trusted keys that can make a signature beside a file. The other keys sign inside a file.
    ///
    /// # Errors
    /// The reason why no signature beside a file can be enough for this rule.
    pub fn keys_beside(&self) -> Result<Vec<PublicKey>, String> {
        let keys: Vec<_> = self.keys.iter().filter(|key| key.key_type().is_nist()).cloned().collect();
        if keys.is_empty() {
            return Err("a signature is demanded, and none of its keys can make one beside a file".to_owned());
        }
        if self.threshold > 1 {
            let why =
                "are demanded, and a signature beside a file is by one key; only a sealed APR2 has several";
            return Err(format!("signatures by {} keys {why}", self.threshold));
        }
        Ok(keys)
    }

    /// Checks whether one of the trusted keys can sign inside a file.
    #[must_use]
    pub fn may_be_inside(&self) -> bool {
        self.keys.iter().any(|key| !key.key_type().is_nist())
    }
}
