//! Edits a model of several files. Each file is edited like a single file, and the index is updated to match.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use modelfmt_core::Execution;
use modelfmt_core::source::{BoxSource, FileVersion, Files, Folder, folder_of, shared_files};
use modelfmt_core::value::{Object, Value, json};
use modelfmt_write::edit::{FileChange, NewFile, Preview, is_through_link};

use super::fault::{self, failed, interruptible};
use super::requested::RequestedMetadata;
use super::signing::Signing;
use super::{EditMethod, check};
use modelfmt_model::error::{Error, Result};
use modelfmt_model::formats::capabilities::Metadata;
use modelfmt_model::formats::change::{Change, EditFault, NewValue};
use modelfmt_model::formats::entry::{AnyReader, DigestOf, EditFile, EditSet, ToOpen};
use modelfmt_model::formats::open_any::OpenAny;
use modelfmt_model::formats::set_index_edit::{EditIndex, IndexChange, IndexedFiles, edited};
use modelfmt_model::model::Model;
use modelfmt_model::open::OpenOptions;
use modelfmt_rules::wording::Note;

/// The changes to the files of a set.
#[derive(Clone, Debug)]
pub(super) struct SetEdit {
    /// The path of the index. The journal is in the same folder.
    index: PathBuf,
    /// The files that change, by their paths, without the index.
    files: Vec<FileChange>,
    listing: Option<Listing>,
    /// Whether all kept bytes keep their places.
    pub(super) is_in_place: bool,
    /// Notes for the user.
    pub(super) notes: Vec<String>,
    /// The changed files that are links.
    links: Vec<String>,
}

/// The index of a set, and the changes to it.
#[derive(Clone, Debug)]
struct Listing {
    name: String,
    text: Vec<u8>,
    /// The version of the index file that has this text.
    version: FileVersion,
    set: Vec<(String, NewValue)>,
    unset: Vec<String>,
    names: HashMap<String, String>,
    before: Object,
    edit: EditIndex,
    digest: Option<DigestOf>,
}

impl Listing {
    fn edited(&self, files: &HashMap<String, IndexedFiles>) -> Result<Vec<u8>, EditFault> {
        let none = BTreeMap::new();
        let given = self.set.iter().map(|(key, value)| (key.as_str(), value));
        let change = Change::new(given, self.unset.iter().map(String::as_str), &none);
        let index = IndexChange { change: &change, names: &self.names, files, before: &self.before };
        edited(&self.text, |object| (self.edit)(object, &index))
    }
}

impl SetEdit {
    /// Plans the changes to the files of a set. `names` are the new names of tensors, by position. If the set
    /// is signed before or after the edit, and one of its files changes, all of its files change.
    pub(super) fn new(
        model: &Model,
        (path, version): (&Path, FileVersion),
        (set, edit): (&EditSet, EditFile),
        names: &BTreeMap<usize, String>,
        given: RequestedMetadata,
        signing: Option<&Signing>,
    ) -> Result<Self> {
        let folder = folder_of(path);
        let before = super::requested::json_of(model)?;
        let renamed = model.tensors().enumerate().filter_map(|(position, info)| {
            names.get(&position).map(|new| (info.name.to_owned(), new.clone()))
        });
        let renamed: HashMap<String, String> = renamed.collect();
        let paths = model.container().file_paths();
        let first = paths.first().filter(|_| set.first_has_metadata).cloned();
        let (mut files, mut is_in_place, mut unedited) = (Vec::new(), true, Vec::new());
        let mut notes = Vec::new();
        for name in paths {
            let is_home = first.as_ref() == Some(&name);
            let file = File { set, path: folder.join(&name), model: path };
            let before = fault::version(&file.path)?;
            if let Some((new, stays, retyped)) = file.edited(edit, &renamed, &given, is_home)? {
                is_in_place &= stays && !is_through_link(folder, &name);
                notes.extend(retyped);
                files.push(FileChange { name, new, before });
            } else {
                unedited.push((name, before));
            }
        }
        if let Some(strip) = super::signing::signature_stripper(model, signing).filter(|_| !files.is_empty())
        {
            for (name, before) in unedited {
                let new = strip(&folder.join(&name))?;
                files.push(FileChange { name, new, before });
            }
        }
        let index = match (&set.index, &first) {
            (None, Some(first)) => folder.join(first),
            _ => path.to_owned(),
        };
        let read =
            |path: &Path| std::fs::read(path).map_err(|source| Error::Open { path: path.to_owned(), source });
        let listing = match set.index {
            Some(edit) => Some(Listing {
                name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                text: read(path)?,
                version,
                set: given.set,
                unset: given.unset,
                names: renamed,
                before,
                edit,
                digest: set.digest,
            }),
            None => None,
        };
        let changing = files.iter().map(|file| &file.name).chain(listing.iter().map(|listing| &listing.name));
        let links = changing.filter(|name| folder.join(name).is_symlink()).cloned().collect();
        let edit = Self { index, files, listing, is_in_place, notes, links };
        edit.check(model, names).map_err(|fault| fault.at(path))?;
        Ok(edit)
    }

    /// Opens the set as it will be, before any of its files is written. Its index states the digests of the
    /// new files.
    pub(super) fn preview(&self, path: &Path, work: &Execution<'_>) -> Result<Model> {
        let unread = |source| Error::Write { path: path.to_owned(), source };
        let listing = self.listing.iter().map(|listing| (&listing.name, &listing.version));
        for (name, before) in self.files.iter().map(|file| (&file.name, &file.before)).chain(listing) {
            let path = folder_of(&self.index).join(name);
            if fault::version(&path)? != *before {
                return Err(Error::EditConflict { path });
            }
        }
        let listed = match &self.listing {
            Some(listing) => self.digests(listing, work).map_err(unread)?,
            None => self.lengths(),
        };
        self.previewed(&listed).map_err(|fault| fault.at(path))
    }

    /// Returns the changed files with their new lengths, and without their digests, which are not known yet.
    fn lengths(&self) -> HashMap<String, IndexedFiles> {
        let listed = |new: &NewFile| IndexedFiles { nbytes: new.len(), digests: None };
        self.files.iter().map(|file| (file.name.clone(), listed(&file.new))).collect()
    }

    /// Returns notes about links that were replaced by files. Call this after the files were written.
    pub(super) fn replaced_link_notes(&self) -> impl Iterator<Item = Note> {
        let folder = folder_of(&self.index);
        let gone = self.links.iter().filter(|name| !folder.join(name).is_symlink());
        gone.map(|name| {
            format!("{name} was a link and is a file of its own now; the file that it led to is as it was")
                .into()
        })
    }

    /// Checks whether any file besides the index changes.
    pub(super) const fn changes_files(&self) -> bool {
        !self.files.is_empty()
    }

    /// Checks whether the file with this name changes.
    #[cfg_attr(not(feature = "seal"), allow(dead_code, reason = "only signatures are looked for by file"))]
    pub(super) fn changes_file(&self, name: &str) -> bool {
        self.files.iter().any(|file| file.name == name)
    }

    /// Returns the total length in bytes of the files that change.
    pub(super) fn nbytes(&self) -> u64 {
        self.files.iter().map(|file| file.new.len()).sum()
    }

    /// Returns the total length in bytes of the changed files, after they were written.
    pub(super) fn written_nbytes(&self) -> u64 {
        let folder = folder_of(&self.index);
        let len = |file: &FileChange| {
            std::fs::metadata(folder.join(&file.name)).map_or(file.new.len(), |file| file.len())
        };
        self.files.iter().map(len).sum()
    }

    /// Checks whether neither a file nor the index changes.
    pub(super) fn is_unchanged(&self) -> bool {
        let is_index =
            |listing: &Listing| listing.edited(&self.lengths()).is_ok_and(|text| text == listing.text);
        self.files.is_empty() && self.listing.as_ref().is_none_or(is_index)
    }

    /// Opens the set as it would be, with an index that states these lengths and digests.
    fn previewed(&self, listed: &HashMap<String, IndexedFiles>) -> Result<Model, CheckFault> {
        let news = self.files.iter().map(|file| (file.name.clone(), file.new.clone()));
        let mut news: HashMap<String, NewFile> = news.collect();
        let name = self.index.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(listing) = &self.listing {
            let mut text = NewFile::new();
            text.push(listing.edited(listed).map_err(CheckFault::Fault)?);
            news.insert(listing.name.clone(), text);
        }
        let why = |error: &dyn std::fmt::Display| {
            CheckFault::Why(format!("after the edit it could not be read: {error}"))
        };
        let files = shared_files(Previewed { folder: Folder::containing(&self.index), news });
        let source = files.open(&name).map_err(|error| why(&error))?;
        let after = OpenOptions::new().open_source(&self.index.to_string_lossy(), source, Some(files));
        after.and_then(|after| after.open_all().map(|()| after)).map_err(|error| why(&error))
    }

    /// Checks that the set would have the same tensors in the same files, under their new names.
    fn check(&self, model: &Model, names: &BTreeMap<usize, String>) -> Result<(), CheckFault> {
        let after = self.previewed(&self.lengths())?;
        let is_same = |(position, info): (usize, modelfmt_core::TensorInfo<'_>)| {
            let name = names.get(&position).map_or(info.name, String::as_str);
            let other = after.container().find(name).and_then(|found| {
                let file = after.container().location(found).ok()?.file;
                Some((after.container().info(found)?, file))
            });
            let file = model.container().location(position).ok().and_then(|location| location.file);
            other.is_some_and(|(other, in_file)| {
                let of = |info: &modelfmt_core::TensorInfo<'_>| (info.dtype, info.nbytes, info.has_data);
                of(&other) == of(&info) && other.shape == info.shape && in_file == file
            })
        };
        let same = after.format() == model.format() && after.tensor_count() == model.tensor_count();
        match same && model.tensors().enumerate().all(is_same) {
            true => Ok(()),
            false => Err(CheckFault::Why("after the edit it would not have the same tensors".to_owned())),
        }
    }

    /// Returns the files as they will be. The index is the last file, and states their digests. `sign`
    /// receives the other files and the text of the index, and returns the new index.
    pub(super) fn changes(
        &self,
        path: &Path,
        work: &Execution<'_>,
        sign: impl FnOnce(&mut [FileChange], Vec<u8>) -> Result<NewFile>,
    ) -> Result<Vec<FileChange>> {
        let mut files = self.files.clone();
        if let Some(listing) = &self.listing {
            let listed = self.digests(listing, work);
            let listed = listed.map_err(|source| Error::Write { path: path.to_owned(), source })?;
            let text = listing.edited(&listed).map_err(|fault| failed(path, fault))?;
            let new = sign(&mut files, text)?;
            files.push(FileChange { name: listing.name.clone(), new, before: listing.version.clone() });
        }
        Ok(files)
    }

    /// Makes all of these changes, or none, and returns the number of bytes that were written.
    pub(super) fn write(&self, path: &Path, changes: &[FileChange], work: &Execution<'_>) -> Result<u64> {
        interruptible(path, work, |go_on| modelfmt_write::edit::change_several(&self.index, changes, go_on))
    }

    /// Returns the lengths and digests of the changed files for the index.
    fn digests(
        &self,
        listing: &Listing,
        work: &Execution<'_>,
    ) -> std::io::Result<HashMap<String, IndexedFiles>> {
        let mut listed = self.lengths();
        let Some(digest) = listing.digest else { return Ok(listed) };
        let folder = Folder::containing(&self.index);
        for FileChange { name, new, .. } in &self.files {
            let preview = Preview::new(new.clone(), folder.open(name)?);
            let old = folder.open(name)?;
            let (before, after) = work.join(|| digest(&old, work), || digest(&preview, work));
            let digests = Some((before?, after?));
            listed.insert(name.clone(), IndexedFiles { nbytes: new.len(), digests });
        }
        Ok(listed)
    }
}

enum CheckFault {
    Fault(EditFault),
    Why(String),
}

impl CheckFault {
    fn at(self, path: &Path) -> Error {
        match self {
            Self::Fault(fault) => failed(path, fault),
            Self::Why(why) => Error::NotEditable { path: path.to_owned(), why },
        }
    }
}

/// The files of a set as they would be after the edit.
struct Previewed {
    folder: Folder,
    news: HashMap<String, NewFile>,
}

impl Files for Previewed {
    type Source = BoxSource;

    fn open(&self, path: &str) -> std::io::Result<BoxSource> {
        let source = self.folder.open(path)?;
        Ok(match self.news.get(path) {
            Some(new) => Box::new(Preview::new(new.clone(), source)),
            None => Box::new(source),
        })
    }
}

/// A file of a set.
struct File<'a> {
    set: &'a EditSet,
    path: PathBuf,
    /// The path of the whole model.
    model: &'a Path,
}

impl File<'_> {
    fn open(&self, source: BoxSource) -> Result<Box<dyn AnyReader>> {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (files, options) = (shared_files(Folder::containing(&self.path)), OpenOptions::new());
        let to_open = ToOpen { source, name, files, options: &options };
        let opened = OpenAny::open_alone(self.set.file, to_open);
        opened.map(OpenAny::into_reader).map_err(|error| Error::file(self.path.clone(), error))
    }

    /// Returns the new file, whether its values keep their places, and notes; `None` if the file does not
    /// change.
    fn edited(
        &self,
        edit: EditFile,
        renamed: &HashMap<String, String>,
        given: &RequestedMetadata,
        is_home: bool,
    ) -> Result<Option<(NewFile, bool, Vec<String>)>> {
        let opened = self.open(Box::new(fault::opened(&self.path)?))?;
        let names = renamed.iter().filter_map(|(old, new)| Some((opened.find(old)?, new.clone())));
        let names: BTreeMap<usize, String> = names.collect();
        let own = if is_home { given.clone() } else { self.known(&*opened, given)? };
        if names.is_empty() && own.is_empty() {
            return Ok(None);
        }
        let set = own.set.iter().map(|(key, value)| (key.as_str(), value));
        let change = Change::new(set, own.unset.iter().map(String::as_str), &names);
        let new = edit(&*opened, &change).map_err(|fault| match fault {
            fault @ EditFault::NoKey(..) => failed(self.model, fault),
            fault => failed(&self.path, fault),
        })?;
        let old = fault::opened(&self.path)?;
        let method = EditMethod::of(&new, &old);
        let method = method.map_err(|source| Error::Open { path: self.path.clone(), source })?;
        if method == EditMethod::Unchanged {
            return Ok(None);
        }
        let after = self.open(Box::new(Preview::new(new.clone(), old)))?;
        check::is_same(&*opened, &*after, &new, &names)
            .map_err(|why| Error::NotEditable { path: self.path.clone(), why })?;
        let retyped = self.set.file.fns().and_then(|fns| fns.retyped);
        let notes = retyped.map_or_else(Vec::new, |retyped| retyped(&*opened, &*after));
        Ok(Some((new, method == EditMethod::InPlace, notes)))
    }

    /// Returns the metadata changes for a file other than the first: only changes of keys that the file
    /// already has.
    fn known(&self, opened: &dyn AnyReader, given: &RequestedMetadata) -> Result<RequestedMetadata> {
        let metadata = opened.metadata().map_err(|error| Error::file(self.path.clone(), error))?;
        let keys = self.set.file.keys_of(&metadata);
        let has = |key: &str| keys.is_some_and(|keys| keys.get(key).is_some());
        let is_text = self.set.file.capabilities().metadata == Metadata::Strings;
        let held = |value: &NewValue| match value {
            NewValue::Value(value) if is_text && value.as_str().is_none() => NewValue::Text(json_text(value)),
            other => other.clone(),
        };
        let set = given.set.iter().filter(|(key, _)| has(key));
        Ok(RequestedMetadata {
            removed: 0,
            set: set.map(|(key, value)| (key.clone(), held(value))).collect(),
            unset: given.unset.iter().filter(|key| has(key)).cloned().collect(),
        })
    }
}

fn json_text(value: &Value) -> String {
    json::to_string(value).unwrap_or_default()
}
