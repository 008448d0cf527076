//! Changes the metadata of a file and the names of its tensors, without touching the values.
//!
//! [`Edit::new`] plans and checks the whole edit without writing anything. [`Edit::write`] changes the file:
//!
//! - in place, if the values can stay where they are. A change that needs more than one page write is guarded
//!   by a journal next to the file, `NAME.modelfmt-undo`. If the edit is interrupted, the next edit undoes
//!   it, and until then the file cannot be opened ([`Error::Interrupted`]).
//! - by writing a new file otherwise. The system copies the values into it, and it replaces the old file when
//!   it is complete.
//!
//! In a model of several files, the index and all affected files change together, or none does. A journal
//! next to the index holds their new content, so the next edit can complete an edit that was interrupted.
//!
//! Even after a crash, the file is either the old or the new one. Its checksums and hashes are right after
//! the edit. If values were damaged before, the checksums still show the damage.
//!
//! ```
//! use modelfmt::edit::{EditOptions, NewValue};
//! use modelfmt::{Execution, Model, Object, View};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("model.safetensors");
//! let w = View::new(&[1.0f32, 2.0], [2])?;
//! modelfmt::save(&path, [("w", w)], &Object::from_iter([("license", "MIT")]))?;
//!
//! let mut options = EditOptions::default();
//! options.set.push(("author".to_owned(), NewValue::Text("me".to_owned())));
//! options.unset.push("license".to_owned());
//! options.rename.push("w=weight".parse()?);
//! let edited = modelfmt::edit(&path, &options, &Execution::default())?;
//! assert!(edited.renamed == 1);
//! assert_eq!(Model::open(&path)?.tensor("weight")?.to_vec::<f32>()?, [1.0, 2.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod check;
mod dropped;
pub(crate) mod fault;
mod plan;
mod requested;
#[cfg(feature = "seal")]
pub(crate) mod sealing;
mod set;
#[cfg_attr(not(feature = "seal"), path = "unsigned.rs")]
mod signing;

use std::path::{Path, PathBuf};

use modelfmt_core::source::{FileVersion, folder_of};
use modelfmt_core::value::Object;
use modelfmt_core::{Execution, Source};
use modelfmt_write::Overwrite;
pub use modelfmt_write::edit::Recovered;
use modelfmt_write::edit::{FileChange, NewFile};

pub use modelfmt_model::formats::change::NewValue;

use self::fault::{Versions, interruptible, unchanged};
use self::set::SetEdit;
use self::signing::Signing;
use modelfmt_convert::convert::RenameRule;
use modelfmt_model::error::{Error, Result};
use modelfmt_model::formats::Format;
use modelfmt_model::open::OpenOptions;
use modelfmt_rules::wording::Note;

/// What an edit changes. The default changes nothing.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct EditOptions {
    /// Metadata to set: each top-level key replaces the same key of the file, as in
    /// [`MetadataOptions::set`](modelfmt_convert::convert::MetadataOptions::set).
    pub metadata: Option<Object>,
    /// Metadata keys and their values. They take precedence over `metadata`. If a key occurs twice, the last
    /// value counts.
    pub set: Vec<(String, NewValue)>,
    /// Metadata keys to remove, or [patterns](modelfmt_model::model::Globs) of keys. If the file has a key
    /// with this exact text, the text is not used as a pattern.
    pub unset: Vec<String>,
    /// New names of tensors. If several rules match a tensor, the last one counts.
    pub rename: Vec<RenameRule>,
    /// Patterns for the names of tensors to remove. The file is then rewritten: values are checked against
    /// its hashes and checksums, and new hashes and checksums are written.
    pub drop: Vec<String>,
    /// The keys that sign the changed APR2 file or set. Old signatures are removed, because they do not cover the change. The whole
    /// model is verified first, because a signature vouches for all of its content.
    #[cfg(feature = "seal")]
    #[cfg_attr(docsrs, doc(cfg(feature = "seal")))]
    pub sign: Vec<modelfmt_model::apr2::seal::SigningKey>,
    /// The revision to sign. By default the revision stays as it is.
    #[cfg(feature = "seal")]
    #[cfg_attr(docsrs, doc(cfg(feature = "seal")))]
    pub revision: Option<u64>,
    /// How the model is opened. If it has a policy, the policy judges every file of the model first.
    pub open: OpenOptions,
}

impl EditOptions {
    /// Checks whether the options change nothing. A signature does not count as a change:
    /// [`seal::sign`](crate::seal::sign) signs a file as it is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { metadata, set, unset, rename, drop, .. } = self;
        metadata.as_ref().is_none_or(Object::is_empty)
            && set.is_empty()
            && unset.is_empty()
            && rename.is_empty()
            && drop.is_empty()
    }
}

/// How a file is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EditMethod {
    /// The file has all changes already.
    Unchanged,
    /// In place: no value moves.
    InPlace,
    /// By writing a new file. The system copies the values into it.
    NewFile,
    /// By writing a new file. All values are read and written.
    Written,
}

impl EditMethod {
    /// Finds the method that turns `old` into `new`.
    pub(crate) fn of(new: &NewFile, old: &impl Source) -> std::io::Result<Self> {
        Ok(match new.patches(old)? {
            Some(patches) if patches.is_empty() && new.len() == old.len() => Self::Unchanged,
            Some(_) => Self::InPlace,
            None => Self::NewFile,
        })
    }
}

/// The result of an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Edited {
    /// The file that was written or changed.
    pub path: PathBuf,
    /// How it was changed.
    pub method: EditMethod,
    /// Its length in bytes.
    pub nbytes: u64,
    /// The number of bytes that were written, not counting values that were only copied.
    pub changed_nbytes: u64,
    /// The number of metadata keys that were set.
    pub set: usize,
    /// The number of keys that were removed.
    pub unset: usize,
    /// The number of tensors that were renamed.
    pub renamed: usize,
    /// The number of tensors that were removed.
    pub dropped: usize,
    /// Notes for the user, for standard error.
    pub notes: Vec<Note>,
}

/// Changes the metadata and the tensor names of a model. If the last edit of the model was interrupted, it is
/// first undone, or completed if it was an edit of several files.
///
/// # Errors
/// If the file cannot be opened or changed in this way, or the format cannot hold the change;
/// [`Error::Write`] if the file cannot be written.
pub fn edit(path: impl AsRef<Path>, options: &EditOptions, work: &Execution<'_>) -> Result<Edited> {
    Edit::after_recovery(path, options)?.write(work)
}

/// Calls [`recover`], and returns a note about what was done.
pub(crate) fn recovered(path: &Path) -> Result<Option<Note>> {
    let done = match recover(path)? {
        Recovered::Nothing => return Ok(None),
        Recovered::Completed => "has been completed",
        Recovered::Undone => "has been undone",
        Recovered::NotBegun => "had changed nothing, and what it had prepared has been removed",
    };
    Ok(Some(format!("an edit that was interrupted {done}").into()))
}

/// Undoes an interrupted edit, or completes it if it was an edit of several files. Returns what was done.
///
/// # Errors
/// [`Error::Write`] if this fails.
pub fn recover(path: impl AsRef<Path>) -> Result<Recovered> {
    let path = path.as_ref();
    let recovered = modelfmt_write::edit::recover(path);
    recovered.map_err(|source| Error::Write { path: path.to_owned(), source })
}

/// An edit that is ready to write: everything is checked, and nothing is written yet.
#[derive(Debug)]
pub struct Edit {
    path: PathBuf,
    format: Format,
    target: Target,
    method: EditMethod,
    /// The tensors that are removed, by their names after renaming.
    drop: Vec<String>,
    /// Their positions in the present file, in ascending order.
    dropped: Vec<usize>,
    /// How the present file is opened, if the change removes its seal section and no new one is made. Only its digests say whether
    /// values are damaged.
    loses_seal: Option<OpenOptions>,
    set: usize,
    unset: usize,
    renamed: usize,
    signing: Option<Signing>,
    notes: Vec<Note>,
    /// The versions of the files when the edit was prepared.
    versions: Versions,
}

/// The new content of the file or set.
#[derive(Debug)]
enum Target {
    /// A file, and the version of it that the edit was prepared for.
    File(NewFile, FileVersion),
    Set(Box<SetEdit>),
}

impl Edit {
    /// Returns how the file will be changed.
    #[must_use]
    pub const fn method(&self) -> EditMethod {
        self.method
    }

    /// Returns the format of the file.
    #[must_use]
    pub const fn format(&self) -> Format {
        self.format
    }

    /// Returns the file that will be changed.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the total for a progress bar, in bytes.
    #[must_use]
    pub fn nbytes(&self) -> u64 {
        let times = match self.signing {
            Some(_) => 3, // a model is verified and hashed before it is signed
            None if self.loses_seal.is_some() && !self.drop.is_empty() => 2,
            None => 1,
        };
        self.len().saturating_mul(times)
    }

    /// Returns the length of the edited files in bytes, without new signatures.
    fn len(&self) -> u64 {
        match &self.target {
            Target::File(new, _) => new.len(),
            Target::Set(edit) => edit.nbytes(),
        }
    }

    /// Returns the number of tensors that will be renamed.
    #[must_use]
    pub const fn renamed(&self) -> usize {
        self.renamed
    }

    /// Returns the number of tensors that will be removed.
    #[must_use]
    pub const fn dropped(&self) -> usize {
        self.drop.len()
    }

    /// Fails if [`write`](Self::write), or [`write_to`](Self::write_to) with an output, would fail before it reads anything.
    /// [`dry_run`](Self::dry_run) checks more.
    ///
    /// # Errors
    /// [`Error::NotEditable`] if tensors of a model of several files would be removed without an output; [`Error::Usage`] for an
    /// output that is the file itself, [`Error::Exists`] for one that may not be replaced, [`Error::Write`] for one whose folder
    /// does not exist, or that an index in this folder names.
    pub fn check(&self, out: Option<&Path>, overwrite: Overwrite) -> Result<()> {
        let Some(out) = out else {
            return match &self.target {
                Target::Set(_) if !self.drop.is_empty() => {
                    let why = "edit removes tensors from a model of several files only into a new one; name an output";
                    Err(Error::NotEditable { path: self.path.clone(), why: why.to_owned() })
                }
                _ => Ok(()),
            };
        };
        if modelfmt_write::InputFiles::new([&self.path]).contains(out) {
            let why = "it is the file that is edited; leave the output out to change it";
            return Err(Error::usage(modelfmt_rules::wording::Choice::Output, why));
        }
        let beside = modelfmt_model::model::read_with(std::slice::from_ref(&self.path));
        let beside = modelfmt_write::InputFiles::new(beside);
        if beside.contains(out) {
            let why =
                "it is read with the file that is edited, and must not be overwritten; choose another name";
            let source = std::io::Error::new(std::io::ErrorKind::InvalidInput, why);
            return Err(Error::Write { path: out.to_owned(), source });
        }
        if overwrite == Overwrite::Refuse && std::fs::symlink_metadata(out).is_ok() {
            return Err(Error::Exists { path: out.to_owned() });
        }
        let refused = |source| Error::Write { path: out.to_owned(), source };
        if !folder_of(out).is_dir() {
            return Err(refused(std::io::ErrorKind::NotFound.into()));
        }
        match &self.target {
            Target::File(..) => {
                modelfmt_convert::convert::check_output(out, overwrite, beside).map_err(refused)
            }
            Target::Set(_) => Ok(()), // the conversion checks all files of the new set
        }
    }

    /// Changes the file.
    ///
    /// # Errors
    /// The errors of [`check`](Self::check); [`Error::Write`] if the file cannot be written, or another
    /// process is changing it; [`Error::EditConflict`] if the file was changed after the edit was prepared.
    /// If tensors are removed, also the errors of a [`Conversion`](modelfmt_convert::Conversion).
    pub fn write(self, work: &Execution<'_>) -> Result<Edited> {
        self.check(None, Overwrite::Replace)?;
        let path = self.path.clone();
        let failed = |source| unchanged(&path, source);
        let changed = match &self.target {
            _ if self.method == EditMethod::Unchanged => 0,
            Target::Set(edit) => self.write_several(edit, work)?,
            Target::File(new, before) if !self.drop.is_empty() => {
                let written = self.write_without(new, before, &path, Overwrite::Replace, work);
                let written = self.versions.or_conflict(written)?;
                return Ok(self.rewritten(written));
            }
            Target::File(new, before) if self.method == EditMethod::InPlace => {
                modelfmt_write::edit::patch(&path, &self.signed(new, work)?, before).map_err(failed)?
            }
            Target::File(new, before) => {
                self.copy_to(&self.signed(new, work)?, before, &path, Overwrite::Replace, work)?
            }
        };
        Ok(self.done(path, changed))
    }

    /// Does everything that [`write`](Self::write), or [`write_to`](Self::write_to) with an output, does, but
    /// writes nothing. A model that would be signed is verified, and values that would be rewritten are read
    /// and checked. It therefore fails where the other methods would fail, except for faults of the disk. In
    /// the result `changed_nbytes` is 0.
    ///
    /// # Errors
    /// If the file cannot be changed in this way, or `out` cannot be written.
    pub fn dry_run(self, out: Option<&Path>, overwrite: Overwrite, work: &Execution<'_>) -> Result<Edited> {
        self.check(out, overwrite)?;
        let versions = self.versions.clone();
        let rehearsed = versions.or_conflict(self.rehearse(out, overwrite, work))?;
        Ok(Edited { changed_nbytes: 0, ..rehearsed })
    }

    fn rehearse(mut self, out: Option<&Path>, overwrite: Overwrite, work: &Execution<'_>) -> Result<Edited> {
        let path = out.unwrap_or(&self.path).to_owned();
        let nbytes = match (&self.target, out) {
            (_, None) if self.method == EditMethod::Unchanged => self.len(),
            (Target::Set(edit), Some(out)) => {
                let written =
                    self.write_set(edit, out, overwrite, work, |conversion| conversion.dry_run(out, work))?;
                return Ok(self.rewritten(written));
            }
            (Target::Set(edit), None) => {
                self.rehearse_signatures(edit, work)?;
                edit.nbytes()
            }
            (Target::File(new, _), _) if !self.drop.is_empty() => {
                let written = self.rehearse_without(new, path, work)?;
                return Ok(self.rewritten(written));
            }
            (Target::File(new, _), _) => {
                let new = self.signed(new, work)?;
                if out.is_some() {
                    self.method = EditMethod::NewFile;
                } else if self.method == EditMethod::InPlace {
                    modelfmt_write::edit::check_patch(&path, &new)
                        .map_err(|source| Error::Write { path: path.clone(), source })?;
                }
                new.len()
            }
        };
        Ok(self.result(path, (nbytes, 0), Vec::new()))
    }

    /// Does the signing of a set without writing anything.
    fn rehearse_signatures(&self, edit: &SetEdit, work: &Execution<'_>) -> Result<()> {
        match &self.signing {
            Some(_) if edit.changes_files() => self.changes(edit, work).map(drop),
            Some(signing) => signing.expect_intact(&self.path, work),
            None => Ok(()),
        }
    }

    /// Writes the changed file to `out` and keeps the old one. For a model of several files, this writes a new set whose files are
    /// named after `out` and are about as large as the old ones.
    ///
    /// # Errors
    /// If the file cannot be changed in this way, was changed after the edit was prepared, or cannot be written.
    pub fn write_to(
        mut self,
        out: impl AsRef<Path>,
        overwrite: Overwrite,
        work: &Execution<'_>,
    ) -> Result<Edited> {
        let out = out.as_ref().to_owned();
        self.check(Some(&out), overwrite)?;
        let changed = match &self.target {
            Target::Set(edit) => {
                let written =
                    self.write_set(edit, &out, overwrite, work, |conversion| conversion.write(&out, work));
                let written = self.versions.or_conflict(written)?;
                return Ok(self.rewritten(written));
            }
            Target::File(new, before) if !self.drop.is_empty() => {
                let written = self.write_without(new, before, &out, overwrite, work);
                let written = self.versions.or_conflict(written)?;
                return Ok(self.rewritten(written));
            }
            Target::File(new, before) => {
                self.copy_to(&self.signed(new, work)?, before, &out, overwrite, work)?
            }
        };
        self.method = EditMethod::NewFile;
        Ok(self.done(out, changed))
    }

    fn copy_to(
        &self,
        new: &NewFile,
        before: &FileVersion,
        out: &Path,
        overwrite: Overwrite,
        work: &Execution<'_>,
    ) -> Result<u64> {
        interruptible(out, work, |go_on| {
            modelfmt_write::edit::replace(&self.path, new, before, out, overwrite, go_on)
        })?;
        Ok(new.new_nbytes())
    }

    /// Changes the files of a set together, and returns the number of bytes that were written.
    fn write_several(&self, edit: &SetEdit, work: &Execution<'_>) -> Result<u64> {
        let edited = match edit.is_unchanged() {
            true => 0,
            false => edit.write(&self.path, &self.changes(edit, work)?, work)?,
        };
        match &self.signing {
            Some(signing) if !edit.changes_files() => {
                Ok(signing.add_to_set(&self.path, work)?.saturating_add(edited))
            }
            _ => Ok(edited),
        }
    }

    /// Returns the files of a set as they will be, signed if the options ask for it. If only the index
    /// changes, the signatures are added later.
    fn changes(&self, edit: &SetEdit, work: &Execution<'_>) -> Result<Vec<FileChange>> {
        let changes = edit.changes(&self.path, work, |shards, text| match &self.signing {
            Some(signing) if !shards.is_empty() => signing.sign_set(&self.path, shards, &text, work),
            _ => Ok(file_of(text)),
        });
        self.versions.or_conflict(changes)
    }

    /// Returns the file as it will be, signed if the options ask for it.
    fn signed(&self, new: &NewFile, work: &Execution<'_>) -> Result<NewFile> {
        match &self.signing {
            Some(signing) => self.versions.or_conflict(signing.sign_file(&self.path, new, work)),
            None => Ok(new.clone()),
        }
    }

    /// Returns the result, after the file was written.
    fn done(self, path: PathBuf, changed_nbytes: u64) -> Edited {
        let nbytes = match &self.target {
            Target::File(..) if self.signing.is_some() => {
                std::fs::metadata(&path).map_or_else(|_| self.len(), |file| file.len())
            }
            Target::File(new, _) => new.len(),
            Target::Set(edit) => edit.written_nbytes(),
        };
        let mut notes = Vec::new();
        if self.method != EditMethod::Unchanged {
            notes.extend(through_link(&path));
            if let Target::Set(edit) = &self.target {
                notes.extend(edit.replaced_link_notes());
            }
            notes.extend(modelfmt_model::stale_sidecars::notes(&path));
        }
        self.result(path, (nbytes, changed_nbytes), notes)
    }

    /// Returns the result, with `notes` after the notes of the plan.
    fn result(self, path: PathBuf, (nbytes, changed_nbytes): (u64, u64), notes: Vec<Note>) -> Edited {
        Edited {
            path,
            method: self.method,
            nbytes,
            changed_nbytes,
            set: self.set,
            unset: self.unset,
            renamed: self.renamed,
            dropped: self.drop.len(),
            notes: self.notes.into_iter().chain(notes).collect(),
        }
    }
}

/// Makes a file from these bytes.
fn file_of(text: Vec<u8>) -> NewFile {
    let mut file = NewFile::new();
    file.push(text);
    file
}

/// Returns a note if the path is a link. In a download cache, the link leads to a file that is named after
/// the hash of its content.
fn through_link(path: &Path) -> Option<Note> {
    std::fs::symlink_metadata(path).ok().filter(std::fs::Metadata::is_symlink)?;
    let target = std::fs::canonicalize(path).ok()?;
    Some(
        format!(
            "{} is a link, and the file that it leads to has changed: {}",
            path.display(),
            target.display()
        )
        .into(),
    )
}
