//! Plans an edit.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use modelfmt_core::source::{FileSource, FileVersion, folder_of};
use modelfmt_core::value::Object;

use super::fault::{Versions, failed, opened, version};
use super::requested::{RequestedMetadata, missed_by_llama_cpp, misspelled};
use super::set::SetEdit;
use super::signing::{self, Signing};
use super::{Edit, EditMethod, EditOptions, Target, check};
use modelfmt_model::error::{Error, Result};
use modelfmt_model::folder::FOLDERS_OF_INDEX;
use modelfmt_model::formats::Format;
use modelfmt_model::formats::capabilities::Metadata as MetadataKind;
use modelfmt_model::formats::entry::{EditFile, EditSet};
use modelfmt_model::model::Model;
use modelfmt_rules::globs::Globs;
use modelfmt_rules::options::renamed::Renamed;
use modelfmt_rules::wording::Choice;
use modelfmt_rules::wording::Note;

impl Edit {
    /// Undoes an interrupted edit of the model, or completes it if it was an edit of several files, and then
    /// plans the new edit. A note says what was done.
    ///
    /// # Errors
    /// If the interrupted edit cannot be undone or completed, or the file cannot be opened or changed in this
    /// way.
    pub fn after_recovery(path: impl AsRef<Path>, options: &EditOptions) -> Result<Self> {
        let path = file_at(path.as_ref(), options)?;
        #[cfg(feature = "policy")]
        options.open.judge_place(&path)?;
        let note = super::recovered(&path)?;
        let mut edit = Self::at(path, options)?;
        edit.notes.splice(0..0, note);
        Ok(edit)
    }

    /// Plans an edit of the model at `path`: a file, or several files, given by their index or folder.
    /// Nothing is written.
    ///
    /// # Errors
    /// The errors of [`Model::open`] if the file cannot be opened, including [`Error::Interrupted`] if its
    /// last edit was interrupted. [`Error::EditConflict`] if a file is changed meanwhile.
    /// [`Error::NotEditable`] for an encrypted file, a file that an index lists, a format that is only read,
    /// signing in another format than APR2, and a change that would alter the tensors. [`Error::NoMatch`] and
    /// [`Error::SameName`] for the names of tensors, [`Error::NoSuchKey`] for a key to remove that does not
    /// exist, [`Error::Usage`] for options that contradict each other, [`Error::Refused`] for metadata and
    /// names that do not fit the format.
    pub fn new(path: impl AsRef<Path>, options: &EditOptions) -> Result<Self> {
        let path = file_at(path.as_ref(), options)?;
        if let Some(journal) = modelfmt_write::edit::interrupted_by(&path) {
            return Err(Error::Interrupted { path, journal });
        }
        Self::at(path, options)
    }

    /// Plans the edit of a file without a journal.
    fn at(path: PathBuf, options: &EditOptions) -> Result<Self> {
        // The file is opened once, and everything below refers to this version. By the time of writing,
        // another file may have the same path.
        let old = opened(&path)?;
        let mut versions = Versions::default();
        versions.add(path.clone(), old.version().clone());
        let planned = Self::planned(path, old, options, &mut versions);
        let edit = versions.or_conflict(planned)?;
        Ok(Self { versions, ..edit })
    }

    /// Plans the edit of the open file, and adds the other files of the model to `versions`.
    fn planned(
        path: PathBuf,
        old: Arc<FileSource>,
        options: &EditOptions,
        versions: &mut Versions,
    ) -> Result<Self> {
        let mut notes = Vec::new();
        let before = old.version().clone();
        let model = options.open.open_file(&path, path.clone(), Box::new(Arc::clone(&old)))?;
        let not_editable = |why: String| Error::NotEditable { path: path.clone(), why };
        if is_encrypted(&model) {
            return Err(not_editable(ENCRYPTED.to_owned()));
        }
        model.expect_tensors()?;
        let format = model.format();
        if let Some(index) = modelfmt_model::folder::index_of(&path, folders_of_index(format, options)) {
            let why = format!(
                "it is a file of the model that {} lists, and would no longer match that index; edit the index instead",
                index.display()
            );
            return Err(not_editable(why));
        }
        if format.is_set() {
            for name in model.container().file_paths() {
                let file = folder_of(&path).join(name);
                versions.add(file.clone(), version(&file)?);
            }
            model.open_all()?;
        }
        let dropped = Dropped::new(&model, &options.drop)?;
        let names = names(&model, options, &dropped)?;
        let given = RequestedMetadata::new(&model, options, &names)?;
        notes.extend(misspelled(&model, options)?);
        notes.extend(missed_by_llama_cpp(&model, &given.unset)?);
        notes.extend(of_hub_folder(&model, options));
        let unset = given.removed;
        let signing = Signing::new(&model, options)?;
        let (target, method) = match format.fns().and_then(|fns| fns.edit_set.as_ref()) {
            Some(set) => several(&model, (&path, before), set, &names, given, signing.as_ref(), &mut notes)?,
            None => one(&model, (&path, old), &names, &given, &mut notes)?,
        };
        let loses_seal = method != EditMethod::Unchanged && signing.is_none() && signing::is_sealed(&model);
        let loses_seal = loses_seal.then(|| options.open.clone());
        let method = if dropped.positions.is_empty() { method } else { EditMethod::Written };
        notes.extend(signing::note(&model, &target, method, signing.as_ref()));
        let is_only_signed = method == EditMethod::Unchanged && signing.is_some();
        let method = if is_only_signed { EditMethod::InPlace } else { method };
        let drop = dropped.names(&model, &names);
        let set = options.set.iter().map(|(key, _)| key.as_str());
        let set: HashSet<&str> = set.chain(options.metadata.iter().flat_map(Object::keys)).collect();
        Ok(Self {
            format,
            target,
            method,
            drop,
            set: set.len(),
            unset,
            renamed: names.keys().filter(|position| !dropped.has(**position)).count(),
            dropped: dropped.positions,
            loses_seal,
            signing,
            notes,
            versions: Versions::default(),
            path,
        })
    }
}

/// Returns a note if keys are set in the weights of a hub folder.
fn of_hub_folder(model: &Model, options: &EditOptions) -> Option<Note> {
    let is_weights = model.format().capabilities().metadata == MetadataKind::Strings;
    let has_config = || model.sidecars().open("config.json").is_ok_and(|found| found.is_some());
    (is_weights && !options.set.is_empty() && has_config()).then(|| {
        Note::from("the keys are set in the file of the weights; what programs read of a folder of the hub is in config.json, tokenizer_config.json and the files beside them".to_owned())
    })
}

/// Returns the file that opens a model. For a folder, this is its index or its only model file.
fn file_at(path: &Path, options: &EditOptions) -> Result<PathBuf> {
    if path.is_dir() { options.open.model_in(path) } else { Ok(path.to_owned()) }
}

/// Returns the number of folders, from the folder of the file upward, in which to search for an index that an
/// edit of this file would invalidate.
fn folders_of_index(format: Format, options: &EditOptions) -> usize {
    let sets = Format::ALL.iter().filter_map(|format| format.fns()?.edit_set.as_ref());
    let Some(set) = sets.into_iter().find(|set| set.file == format && set.index.is_some()) else { return 0 };
    // An index without digests repeats only the names of tensors, so it stays valid. But an index in the same
    // folder has the metadata of the model, and the caller means to edit that.
    let keeps_tensors = options.rename.is_empty() && options.drop.is_empty();
    if set.digest.is_none() && keeps_tensors { 1 } else { FOLDERS_OF_INDEX }
}

/// Why an encrypted file cannot be edited.
const ENCRYPTED: &str = "it is encrypted: the key of each tensor depends on its name, and nothing is encrypted twice with one key; \
                         seal it into a new file, with the names and metadata that it is to have";

/// Checks whether a file, or the first file of a set, is encrypted.
fn is_encrypted(model: &Model) -> bool {
    model.sealing().is_encrypted
}

/// Plans the edit of a single file.
fn one(
    model: &Model,
    (path, old): (&Path, Arc<FileSource>),
    names: &BTreeMap<usize, String>,
    given: &RequestedMetadata,
    notes: &mut Vec<Note>,
) -> Result<(Target, EditMethod)> {
    let new = editor(path, model.format())?(model.opened(), &given.change(names));
    let new = new.map_err(|fault| failed(path, fault))?;
    let after = check::same_values(model, (path, Arc::clone(&old)), &new, names)?;
    let retyped = model.format().fns().and_then(|fns| fns.retyped);
    let retyped = retyped.map(|retyped| retyped(model.opened(), after.opened()));
    notes.extend(retyped.into_iter().flatten().map(Note::from));
    let method = EditMethod::of(&new, &old);
    let method = method.map_err(|source| Error::Open { path: path.to_owned(), source })?;
    Ok((Target::File(new, old.version().clone()), method))
}

/// Plans the edit of a set.
fn several(
    model: &Model,
    (path, before): (&Path, FileVersion),
    set: &EditSet,
    names: &BTreeMap<usize, String>,
    given: RequestedMetadata,
    signing: Option<&Signing>,
    notes: &mut Vec<Note>,
) -> Result<(Target, EditMethod)> {
    let mut edit =
        SetEdit::new(model, (path, before), (set, editor(path, set.file)?), names, given, signing)?;
    notes.extend(std::mem::take(&mut edit.notes).into_iter().map(Note::from));
    let method = match edit.is_unchanged() {
        true => EditMethod::Unchanged,
        false if edit.is_in_place => EditMethod::InPlace,
        false => EditMethod::NewFile,
    };
    Ok((Target::Set(Box::new(edit)), method))
}

/// Returns the function that edits files of a format.
fn editor(path: &Path, format: Format) -> Result<EditFile> {
    let editor = format.fns().and_then(|fns| fns.edit);
    editor.ok_or_else(|| {
        let why = format!(
            "{format} is only read, so it cannot be edited; convert it to another format, and edit the result"
        );
        Error::NotEditable { path: path.to_owned(), why }
    })
}

/// The tensors that are removed.
struct Dropped {
    positions: Vec<usize>,
}

impl Dropped {
    fn new(model: &Model, globs: &[String]) -> Result<Self> {
        let compiled = Globs::new(globs.iter().cloned());
        let compiled = compiled.map_err(|error| Error::usage(Choice::Drop, error.to_string()))?;
        let mut matched = vec![globs.is_empty(); globs.len().max(1)];
        let mut positions = Vec::new();
        for (position, info) in model.tensors().enumerate().filter(|_| !globs.is_empty()) {
            let found = compiled.matches(info.name);
            if !found.is_empty() {
                positions.push(position);
            }
            for number in found {
                matched.get_mut(number).into_iter().for_each(|matched| *matched = true);
            }
        }
        match globs.iter().zip(matched).find(|(_, matched)| !matched) {
            Some((glob, _)) => Err(Error::NoMatch {
                path: model.path().to_owned(),
                choice: Choice::Drop,
                pattern: glob.clone(),
            }),
            None => Ok(Self { positions }),
        }
    }

    fn has(&self, position: usize) -> bool {
        self.positions.binary_search(&position).is_ok()
    }

    /// Returns the names of the removed tensors after renaming.
    fn names(&self, model: &Model, names: &BTreeMap<usize, String>) -> Vec<String> {
        let name = |position: &usize| match names.get(position) {
            Some(name) => Some(name.clone()),
            None => model.container().info(*position).map(|info| info.name.to_owned()),
        };
        self.positions.iter().filter_map(name).collect()
    }
}

/// Returns the new names of tensors, by position.
fn names(model: &Model, options: &EditOptions, drop: &Dropped) -> Result<BTreeMap<usize, String>> {
    let tensors = model.tensors().enumerate().map(|(position, info)| (position, info.name));
    let staying = tensors.clone().filter(|(position, _)| !drop.has(*position));
    let staying: Vec<(usize, &str)> = staying.collect();
    let mut names = Renamed::of(&options.rename, &staying)
        .map_err(|fault| Error::rename(model.path(), fault))?
        .into_names();
    // A removed tensor stays in the file until the file is rewritten. Until then its name must differ from
    // the new name of any other tensor.
    let taken: HashSet<String> = names.values().cloned().collect();
    let known: HashSet<&str> = tensors.clone().map(|(_, name)| name).collect();
    let mut number = 0u64;
    for (position, _) in tensors.filter(|(position, name)| drop.has(*position) && taken.contains(*name)) {
        let mut free = || {
            number += 1;
            format!("dropped-{number}")
        };
        let mut name = free();
        while known.contains(name.as_str()) || taken.contains(&name) {
            name = free();
        }
        names.insert(position, name);
    }
    Ok(names)
}
