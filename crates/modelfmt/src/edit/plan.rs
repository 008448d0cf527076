//! What becomes of a file, worked out.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use modelfmt_core::source::FileSource;
use modelfmt_core::value::{List, Object, Value};

use super::{Edit, EditMethod, EditOptions, check};
use crate::choice::Choice;
use crate::convert::rename::Renamed;
use crate::convert::reserved;
use crate::error::{Error, Result};
use crate::formats::capabilities::Metadata;
use crate::formats::change::{Change, EditFault, NewValue};
use crate::globs::Globs;
use crate::model::Model;

impl Edit {
    /// Works out how the file at `path` will change. An edit of it that was interrupted is undone first, which is noted.
    ///
    /// # Errors
    /// Of a file that cannot be opened as [`Model::open`]; [`Error::NotEditable`] for a set, and a format that is only read;
    /// [`Error::NoMatch`] and [`Error::SameName`] for the names of tensors, [`Error::NoSuchKey`] for a key that is to go;
    /// [`Error::Refused`] for what does not fit the format.
    pub fn new(path: impl AsRef<Path>, options: &EditOptions) -> Result<Self> {
        let path = path.as_ref();
        let path = if path.is_dir() { crate::folder::model_in(path)? } else { path.to_owned() };
        let mut notes = Vec::new();
        if super::recover(&path)? {
            notes.push("an edit that was interrupted has been undone".to_owned().into());
        }
        let model = Model::open(&path)?;
        let not_editable = |why: String| Error::NotEditable { path: path.clone(), why };
        if is_sealed(&model) {
            return Err(not_editable(SEALED.to_owned()));
        }
        model.expect_tensors()?;
        let format = model.format();
        if format.is_set() {
            let why = format!(
                "{format} is several files that know of each other, which are not edited; convert it with other metadata instead"
            );
            return Err(not_editable(why));
        }
        if let Some(index) = crate::folder::index_of(&path) {
            let why = format!(
                "it is a file of the model that {} lists, and what that says of it would be wrong afterwards; convert that with other metadata instead",
                index.display()
            );
            return Err(not_editable(why));
        }
        let editor = format.driver().and_then(|driver| driver.edit);
        let Some(editor) = editor else {
            return Err(not_editable(format!("{format} is only read; convert it, to edit what comes of it")));
        };
        let dropped = Dropped::new(&model, &options.drop)?;
        let names = names(&model, options, &dropped)?;
        let given = Given::new(&model, options, &names)?;
        let change =
            Change::new(given.set.iter().map(|(key, value)| (key.as_str(), value)), given.unset(), &names);
        let new = editor(model.opened(), &change).map_err(|fault| failed(&path, fault))?;
        check::same_values(&model, &path, &new, &names)?;
        let old = FileSource::open(&path).map_err(|source| Error::Open { path: path.clone(), source })?;
        let patches = new.patches(&old).map_err(|source| Error::Open { path: path.clone(), source })?;
        let method = match patches {
            _ if !dropped.positions.is_empty() => EditMethod::Written,
            Some(patches) if patches.is_empty() && new.len() == modelfmt_core::Source::len(&old) => {
                EditMethod::Unchanged
            }
            Some(_) => EditMethod::InPlace,
            None => EditMethod::NewFile,
        };
        let drop = dropped.names(&model, &names);
        let set = options.set.iter().map(|(key, _)| key.as_str());
        let set: HashSet<&str> = set.chain(options.metadata.iter().flat_map(Object::keys)).collect();
        Ok(Self {
            format,
            new,
            method,
            drop,
            set: set.len(),
            unset: options.unset.len(),
            renamed: names.keys().filter(|position| !dropped.has(**position)).count(),
            notes,
            path,
        })
    }
}

/// Why a sealed file is not edited.
const SEALED: &str = "it is signed or encrypted, and what vouches for it covers names and metadata; convert it with other ones into a \
                      new file, and have that signed or sealed";

/// Whether a file says that it is signed or encrypted inside.
fn is_sealed(model: &Model) -> bool {
    let is_apr2 = model.format() == crate::Format::Apr2;
    let Some(details) = model.container().details().ok().filter(|_| is_apr2) else { return false };
    let flags = details.get("flags").and_then(Value::as_array).and_then(List::texts).unwrap_or_default();
    flags.iter().any(|flag| matches!(*flag, "SIGNED" | "ENCRYPTED"))
}

/// Tensors that go.
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

    /// The names that the tensors would have.
    fn names(&self, model: &Model, names: &BTreeMap<usize, String>) -> Vec<String> {
        let name = |position: &usize| match names.get(position) {
            Some(name) => Some(name.clone()),
            None => model.container().info(*position).map(|info| info.name.to_owned()),
        };
        self.positions.iter().filter_map(name).collect()
    }
}

/// New names by position.
fn names(model: &Model, options: &EditOptions, drop: &Dropped) -> Result<BTreeMap<usize, String>> {
    let tensors = model.tensors().enumerate().map(|(position, info)| (position, info.name));
    let staying = tensors.clone().filter(|(position, _)| !drop.has(*position));
    let staying: Vec<(usize, &str)> = staying.collect();
    let mut names = Renamed::of(model.path(), &options.rename, &staying)?.into_names();
    // What goes is still there for a moment, and must not be in the way of a new name.
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

/// The metadata that are given.
struct Given {
    set: Vec<(String, NewValue)>,
    unset: Vec<String>,
}

impl Given {
    fn new(model: &Model, options: &EditOptions, names: &BTreeMap<usize, String>) -> Result<Self> {
        let metadata = options.metadata.iter().flatten();
        let metadata = metadata.map(|(key, value)| (key.to_owned(), NewValue::Value(value.clone())));
        let mut given =
            Self { set: metadata.chain(options.set.iter().cloned()).collect(), unset: options.unset.clone() };
        if model.format().capabilities().metadata == Metadata::Json {
            given.follow(model, names)?;
        }
        Ok(given)
    }

    /// Has what a conversion left to be restored follow the edit.
    fn follow(&mut self, model: &Model, names: &BTreeMap<usize, String>) -> Result<()> {
        let edited: Vec<&str> =
            self.set.iter().map(|(key, _)| key).chain(&self.unset).map(String::as_str).collect();
        if edited.contains(&reserved::KEY) || (edited.is_empty() && names.is_empty()) {
            return Ok(());
        }
        let own = model.container().metadata();
        let own = own.map_err(|error| Error::file(model.path().to_owned(), error))?;
        // AERO has a manifest beside it.
        let own = own.get("json").filter(|_| own.get("manifest").is_some()).unwrap_or(&own);
        let Some(before) = own.get(reserved::KEY).cloned() else { return Ok(()) };
        let mut keys = Object::from_iter([(reserved::KEY, before.clone())]);
        let infos: Vec<_> = model.tensors().collect();
        let renamed =
            names.iter().filter_map(|(position, new)| Some((infos.get(*position)?.name, new.as_str())));
        let renamed: HashMap<&str, &str> = renamed.collect();
        let sorts = model.format() == crate::Format::Apr;
        reserved::follow_edit(&mut keys, edited, &renamed, sorts);
        match keys.remove(reserved::KEY) {
            Some(after) if after != before => {
                self.set.push((reserved::KEY.to_owned(), NewValue::Value(after)));
            }
            Some(_) => {}
            None => self.unset.push(reserved::KEY.to_owned()),
        }
        Ok(())
    }

    fn unset(&self) -> impl Iterator<Item = &str> {
        self.unset.iter().map(String::as_str)
    }
}

pub(crate) fn failed(path: &Path, fault: EditFault) -> Error {
    let path: PathBuf = path.to_owned();
    match fault {
        EditFault::Read(error) => Error::file(path, error),
        EditFault::Write(error) => Error::Refused { path, error },
        EditFault::NoKey(key, keys) => {
            let near = keys.into_iter().map(|other| (strsim::damerau_levenshtein(&key, &other), other));
            let nearest = near.filter(|(distance, other)| distance * 2 <= other.chars().count()).min();
            Error::NoSuchKey { path, key, nearest: nearest.map(|(_, other)| other) }
        }
    }
}
