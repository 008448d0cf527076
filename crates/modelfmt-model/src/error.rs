//! The errors of this crate, each with the file that it concerns.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use modelfmt_core::proof::ProofError;
use modelfmt_core::{
    AnyError, AnyFault,
    author::{Shortened, with_causes},
};
use modelfmt_write::{AnyWriteError, BoxError};

use crate::formats::Format;
use modelfmt_rules::options::renamed::RenameFault;
use modelfmt_rules::options::rules::TypeRule;
use modelfmt_rules::pin::Pin;
use modelfmt_rules::wording::Choice;
use modelfmt_rules::wording::unsupported::Unsupported;
use modelfmt_rules::wording::{FieldNames, Remedy, Words, joined};

/// An error of this crate. `Display` is one line that names the file; `source()` carries causes. `Debug` is
/// that line followed by the causes that are not in it, because Rust prints the error that `main` returns
/// with `Debug`. All public errors of these crates do the same
/// ([`debug_as_sentence!`](modelfmt_core::author::debug_as_sentence)).
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be opened.
    #[error("{}: cannot be opened: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is broken, or could not be read.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and where.
        #[source]
        error: AnyError,
    },
    /// The model cannot be written in its format.
    #[error("{}: {error}", path.display())]
    Refused {
        /// The file that was to be written.
        path: PathBuf,
        /// What does not fit, and why.
        #[source]
        error: AnyWriteError,
    },
    /// The bytes of a file do not match the digests in the file. Nothing has been written.
    #[error("{}", self.in_words(&FieldNames))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is damaged, and where.
        #[source]
        error: Box<AnyError>,
    },
    /// The format of a file is unknown.
    #[error("{}: {}{hint}", path.display(), if *is_model { "" } else { "not a model file: " })]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// What it looks like, or what was expected.
        hint: &'static str,
        /// Whether the file is a model, or the index of one, in a format that is recognized but not read.
        is_model: bool,
    },
    /// The tensors of a model cannot be listed, so there is nothing to convert or compare.
    #[error("{}: {why}", path.display())]
    NoTensors {
        /// The file.
        path: PathBuf,
        /// Why, and what to do.
        why: &'static str,
    },
    /// A hub folder cannot be converted to a GGUF that llama.cpp loads.
    #[error("{}", self.in_words(&FieldNames))]
    Unmapped {
        /// The model.
        path: PathBuf,
        /// Why.
        why: String,
        /// The choice that helps: [`Choice::Map`] to write the model unchanged, [`Choice::Pre`] to name the
        /// pre-tokenizer, [`Choice::Base`] to name the base of an adapter, or [`Choice::Dequantize`] to
        /// decode weights.
        help: Option<Choice>,
    },
    /// An adapter cannot be merged.
    #[error("{}: the adapter cannot be merged: {why}", path.display())]
    Adapter {
        /// The adapter.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A file is not an importance matrix, or not one for this model.
    #[error("{}: the importance matrix cannot be used: {why}", path.display())]
    Imatrix {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A GGUF cannot be converted to a hub folder.
    #[error("{}: it cannot become a folder of the hub: {why}", path.display())]
    NoHubFolder {
        /// The model.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A folder does not contain exactly one model.
    #[error("{}: {why}", path.display())]
    NoModel {
        /// The folder.
        path: PathBuf,
        /// Why, and what to do.
        why: String,
    },
    /// A file cannot have a pin of this kind.
    #[error("{}: it cannot be opened with the pin {pin}: {why}", path.display())]
    Unpinnable {
        /// The file.
        path: PathBuf,
        /// The pin.
        pin: Pin,
        /// Why, and what to do.
        why: String,
    },
    /// The format is known, but this build cannot read it.
    #[error("{}: is of the format {format}, but this build has the feature `{feature}` of modelfmt switched off", path.display())]
    NotEnabled {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: Format,
        /// The feature to switch on.
        feature: &'static str,
    },
    /// A tensor does not fit the file that it is to be extracted to.
    #[error("{}", self.in_words(&FieldNames))]
    NotExtractable {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Why.
        why: String,
        /// What to do first, if that helps.
        remedy: Option<Remedy>,
    },
    /// The options of a conversion are invalid for any model.
    #[error("{}", self.in_words(&FieldNames))]
    Usage {
        /// The invalid choice.
        choice: Choice,
        /// Why it is invalid, and what would be valid.
        why: String,
        /// The remedy, if it is another choice.
        remedy: Option<Remedy>,
    },
    /// The target of a conversion cannot hold everything in the model.
    #[error("{}", self.in_words(&FieldNames))]
    Unsupported {
        /// The model.
        path: PathBuf,
        /// The target format.
        target: Format,
        /// Everything that does not fit.
        unsupported: Vec<Unsupported>,
    },
    /// The values of a tensor cannot be converted to the requested type.
    #[error("{}: tensor {:?}: {source}", path.display(), Shortened(tensor))]
    Values {
        /// The model.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Why, and at which element.
        source: BoxError,
    },
    /// No tensor matches the patterns.
    #[error("{}", self.in_words(&FieldNames))]
    NothingSelected {
        /// The model.
        path: PathBuf,
        /// The choices that select tensors.
        choices: Vec<Choice>,
        /// The patterns, if one choice has them all.
        pattern: Option<String>,
        /// The number of tensors in the model.
        tensors: usize,
    },
    /// The output file exists already.
    #[error("{}", self.in_words(&FieldNames))]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A file could not be written.
    #[error("{}: cannot be written: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Text could not be printed.
    #[error("cannot print: {source}")]
    Output {
        /// Why.
        source: io::Error,
    },
    /// There is no tensor with that name.
    #[error("{}: no tensor is named {:?}{}", path.display(), Shortened(name), suggestion(nearest.as_deref()))]
    NoSuchTensor {
        /// The file.
        path: PathBuf,
        /// The name that was requested.
        name: String,
        /// A tensor with a similar name.
        nearest: Option<String>,
    },
    /// Two models that are to be merged have a tensor with the same name.
    #[error(
        "{}: tensor {:?}{} is in {} too, and a model cannot have two tensors with one name; rename one of them",
        again.display(), Shortened(name), and_others(*others), path.display()
    )]
    NameTwice {
        /// The name.
        name: String,
        /// The model with the first tensor of that name.
        path: PathBuf,
        /// The model with another tensor of that name.
        again: PathBuf,
        /// The number of other tensors in that model whose names an earlier model has, too.
        others: usize,
    },
    /// A pattern of an option matches no tensor.
    #[error("{}", self.in_words(&FieldNames))]
    NoMatch {
        /// The file.
        path: PathBuf,
        /// The choice that has the pattern.
        choice: Choice,
        /// The pattern.
        pattern: String,
    },
    /// A type rule changes no tensor.
    #[error("{}", self.in_words(&FieldNames))]
    IdleRule {
        /// The model.
        path: PathBuf,
        /// The rule.
        rule: Box<TypeRule>,
        /// Why it changes no tensor.
        why: String,
    },
    /// The metadata does not have the key.
    #[error("{}: the metadata has no key {:?}{}", path.display(), Shortened(key), suggestion(nearest.as_deref()))]
    NoSuchKey {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// A similar key.
        nearest: Option<String>,
    },
    /// An edit of a file was interrupted, or is still running.
    #[error("{}", self.in_words(&FieldNames))]
    Interrupted {
        /// The file.
        path: PathBuf,
        /// The journal beside it.
        journal: PathBuf,
    },
    /// A file has been changed since an edit of it was prepared, by another edit or another program. The edit has changed nothing.
    #[error(
        "{}: it has been changed since the edit was prepared, by another edit or another program; this edit has changed nothing, and \
         the other change was kept; run the edit again",
        path.display()
    )]
    EditConflict {
        /// The file.
        path: PathBuf,
    },
    /// A file or a set of this format cannot be edited in this way.
    #[error("{}: {why}", path.display())]
    NotEditable {
        /// The file.
        path: PathBuf,
        /// Why, and what helps.
        why: String,
    },
    /// The caller asks for a signature or gives a decryption key, but files of this format contain neither.
    #[error(
        "{}: this is {format}, and only APR2 files can be encrypted or signed inside; leave out the key, \
         or check a local copy that has a signature file, FILE.sig",
        path.display()
    )]
    NotSealable {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: Format,
    },
    /// The signature beside a model is not valid or not trusted, or a file does not match what was signed.
    #[error("{why}")]
    Signature {
        /// The model.
        path: PathBuf,
        /// The whole message, which names the file.
        why: String,
    },
    /// A policy refuses a file, or cannot be used.
    #[error("{}: {why}", path.display())]
    Policy {
        /// The file, or the policy.
        path: PathBuf,
        /// Which rule of which policy refuses the file, and why.
        why: String,
    },
    /// Two tensors would get the same name.
    #[error("{}: tensors {:?} and {:?} would have one name, {:?}", path.display(), Shortened(first), Shortened(second), Shortened(name))]
    SameName {
        /// The file.
        path: PathBuf,
        /// The name.
        name: String,
        /// The name of the first tensor.
        first: String,
        /// The name of the other tensor.
        second: String,
    },
}

modelfmt_core::author::debug_as_sentence!(Error);

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean {:?}?", Shortened(name)))
}

/// Checks whether a file is encrypted and no given key opens it.
#[cfg(feature = "apr2")]
fn is_locked(fault: &AnyFault) -> bool {
    matches!(fault.downcast_ref(), Some(apr2::Fault::Seal(apr2::SealFault::NoKey(_))))
}

/// Returns false: no other format has encryption.
#[cfg(not(feature = "apr2"))]
const fn is_locked(_: &AnyFault) -> bool {
    false
}

fn and_others(count: usize) -> String {
    if count == 0 { String::new() } else { format!(" (and {count} more)") }
}

/// Returns one line about what does not fit: a single item in full, or the number of items and what would
/// help.
fn summary(unsupported: &[Unsupported], words: &dyn Words) -> String {
    if let [item] = unsupported {
        return item.in_words(words);
    }
    let remedies = unsupported.iter().filter_map(|item| item.remedy);
    let remedies: BTreeSet<String> = remedies.map(|remedy| words.remedy(remedy)).collect();
    let helps = if remedies.is_empty() { "" } else { "; options that help: " };
    let remedies: Vec<String> = remedies.into_iter().collect();
    format!("{} items{helps}{}", unsupported.len(), remedies.join(", "))
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Checks whether the mistake is in the request, not in a file.
    #[must_use]
    pub const fn is_usage(&self) -> bool {
        matches!(self, Self::Usage { .. })
    }

    /// Returns the error for a file whose tensors cannot be renamed.
    pub fn rename(path: &Path, fault: RenameFault) -> Self {
        let path = path.to_owned();
        match fault {
            RenameFault::NoMatch(pattern) => Self::NoMatch { path, choice: Choice::Rename, pattern },
            RenameFault::SameName { name, first, second } => Self::SameName { path, name, first, second },
        }
    }

    /// Returns a stable name for the kind of error, for programs that read errors.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Open { .. } => "cannot-open",
            Self::File { error, .. } => match error.inner() {
                AnyError::Io { source, .. } if ProofError::within(source).is_some() => "damaged",
                AnyError::Io { .. } | AnyError::Open { .. } => "cannot-read",
                AnyError::Limit { .. } => "limit",
                AnyError::NotFound { .. } => "not-found",
                AnyError::NoData { .. } => "no-data",
                AnyError::NoHash { .. } => "no-hash",
                AnyError::OutOfRange { .. } | AnyError::Slice { .. } => "out-of-range",
                AnyError::Changed => "changed",
                AnyError::Cancelled => "cancelled",
                _ => "broken-file",
            },
            Self::Refused { .. } => "refused",
            Self::Damaged { .. } => "damaged",
            Self::UnknownFormat { .. } => "unknown-format",
            Self::NoModel { .. } => "no-model",
            Self::Unpinnable { .. } => "unpinnable",
            Self::Unmapped { .. } => "unmapped",
            Self::Adapter { .. } => "adapter",
            Self::Imatrix { .. } => "imatrix",
            Self::NoHubFolder { .. } => "no-hub-folder",
            Self::NoTensors { .. } => "no-tensors",
            Self::NotEnabled { .. } => "not-enabled",
            Self::NotExtractable { .. } => "not-extractable",
            Self::Usage { .. } => "usage",
            Self::Unsupported { .. } => "unsupported",
            Self::Values { .. } => "values",
            Self::NothingSelected { .. } => "nothing-selected",
            Self::Exists { .. } => "exists",
            Self::Write { .. } => "cannot-write",
            Self::Output { .. } => "output",
            Self::NoSuchTensor { .. } => "no-such-tensor",
            Self::NameTwice { .. } => "name-twice",
            Self::NoMatch { .. } | Self::IdleRule { .. } => "no-match",
            Self::SameName { .. } => "same-name",
            Self::NoSuchKey { .. } => "no-such-key",
            Self::Interrupted { .. } => "interrupted",
            Self::EditConflict { .. } => "changed",
            Self::NotEditable { .. } => "not-editable",
            Self::NotSealable { .. } => "not-sealable",
            Self::Signature { .. } => "signature",
            Self::Policy { .. } => "policy",
        }
    }

    /// Returns the remedy, if there is exactly one. Each item of [`Unsupported`](Self::Unsupported) has its
    /// own.
    #[must_use]
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::Exists { .. } => Some(Remedy::Overwrite),
            Self::Interrupted { .. } => Some(Remedy::Recover),
            Self::Damaged { .. } => Some(Remedy::SkipVerification),
            Self::NothingSelected { .. } | Self::NoMatch { .. } => Some(Remedy::ListNames),
            Self::NotExtractable { remedy, .. } | Self::Usage { remedy, .. } => *remedy,
            Self::File { error, .. } => match error.inner() {
                AnyError::Limit { .. } => Some(Remedy::RaiseLimit),
                AnyError::Malformed { fault, .. } if is_locked(fault) => Some(Remedy::Unlock),
                error if error.is_end_missing() => Some(Remedy::FetchAgain),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the error as one line, in the words of a program.
    #[must_use]
    pub fn in_words(&self, words: &dyn Words) -> String {
        let remedy = self.remedy().map(|remedy| words.remedy(remedy)).unwrap_or_default();
        match self {
            Self::Unmapped { path, why, help } => {
                let help = match help {
                    Some(Choice::Map) => format!("; {} none writes it as it is", words.choice(Choice::Map)),
                    Some(Choice::Dequantize) => {
                        format!("; {} f16 decodes them", words.choice(Choice::Dequantize))
                    }
                    Some(Choice::Base) => {
                        format!(
                            "; {} FOLDER names the folder of its base, which must have a config.json",
                            words.choice(Choice::Base)
                        )
                    }
                    Some(choice) => format!("; state one with {} NAME", words.choice(*choice)),
                    None => String::new(),
                };
                format!("{}: llama.cpp could not load this as GGUF: {why}{help}", path.display())
            }
            Self::Exists { path } => format!("{}: exists already; {remedy} replaces it", path.display()),
            Self::Damaged { path, error } => {
                let path = path.display();
                format!("{path}: {error}; nothing was written. {remedy} takes values as they are")
            }
            Self::NotExtractable { path, name, why, remedy: help } => {
                let first = help.map_or_else(String::new, |_| format!(", or with {remedy}"));
                let name = Shortened(name);
                format!("{}: tensor {name:?} cannot be extracted: {why}{first}", path.display())
            }
            Self::Usage { choice, why, remedy: None } => format!("{}: {why}", words.choice(*choice)),
            Self::Usage { choice, why, .. } => {
                format!("{}: {why}; use {remedy}", words.choice(*choice))
            }
            Self::IdleRule { path, rule, why } => {
                format!("{}: {}: finds nothing to act on: {why}", path.display(), rule.in_words(words))
            }
            Self::Unsupported { path, target, unsupported } => {
                format!("{}: does not fit {target}: {}", path.display(), summary(unsupported, words))
            }
            Self::NothingSelected { path, choices, pattern, tensors } => {
                let mut chosen = joined(choices, words);
                if let Some(pattern) = pattern {
                    chosen.push_str(if chosen.is_empty() { "" } else { " " });
                    chosen.push_str(pattern);
                }
                let path = path.display();
                format!(
                    "{path}: after {chosen}, none of its {tensors} tensors is left; {remedy} lists their names"
                )
            }
            Self::Interrupted { path, journal } => {
                let (path, journal) = (path.display(), journal.display());
                format!(
                    "{path}: an edit of it was interrupted or is still running; the journal {journal} can undo or complete it; use {remedy}"
                )
            }
            Self::NoMatch { path, choice, pattern } => {
                let (path, choice) = (path.display(), words.choice(*choice));
                format!("{path}: {choice} {pattern}: no tensor has a matching name; {remedy} lists the names")
            }
            Self::File { path, error } if self.remedy() == Some(Remedy::Unlock) => {
                format!("{}: {error}; use {remedy}", path.display())
            }
            Self::File { path, error } if self.remedy() == Some(Remedy::FetchAgain) => {
                format!("{}: {error}; if you downloaded it, {remedy}", path.display())
            }
            other => other.to_string(),
        }
    }

    /// Returns the error with its causes as one line, without the path of its file at the front: for reports
    /// that already show it.
    #[must_use]
    pub fn without_path(&self, path: &Path) -> String {
        let text = match self {
            Self::File { error, .. } => with_causes(error),
            other => other.to_string(),
        };
        text.strip_prefix(&format!("{}: ", path.display())).map_or(text.clone(), str::to_owned)
    }

    /// Returns the error for an invalid choice, and why it is invalid.
    pub fn usage(choice: Choice, why: impl Into<String>) -> Self {
        Self::Usage { choice, why: why.into(), remedy: None }
    }

    /// Adds the path of its file to an error of a format crate. The text then names the path once.
    pub fn file(path: PathBuf, error: impl Into<AnyError>) -> Self {
        let error = error.into().without_file(&path.to_string_lossy());
        Self::File { path, error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_main_returns_is_a_sentence() {
        let missing = crate::Model::open("no/such.mag").unwrap_err();
        let text = format!("{missing:?}");
        assert!(text.starts_with("no/such.mag: cannot be opened: ") && !text.contains("Os {"), "{text}");
        assert_eq!(text.matches("(os error").count(), missing.to_string().matches("(os error").count());
        // The line of this error does not contain its cause.
        let source = io::Error::other("the disk is gone");
        let error = Error::file("m.mag".into(), AnyError::Io { at: 5, len: 3, source });
        assert_eq!(format!("{error:?}"), "m.mag: cannot read 3 bytes at byte 5: the disk is gone");
        assert_eq!(
            format!("{:?}", "x".parse::<Pin>().unwrap_err()),
            "x".parse::<Pin>().unwrap_err().to_string()
        );
    }
}
