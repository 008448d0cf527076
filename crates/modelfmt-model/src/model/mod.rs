//! An open model, and what its methods take and return.
//!
//! [`Model`] is one type for all formats. [`CheckedModel`] has the same reads, each checked against the digests in the file.
//! [`Globs`] select tensors by their names, and a [`Quant`] is the scales and zero points that a file has for a tensor.

mod files;
mod joined;
pub mod mapped;
mod pin;
pub(crate) mod pinned;

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use modelfmt_core::plan::{Slice, TensorSlice};
use modelfmt_core::read::{Reading, Which};
use modelfmt_core::source::{BoxSource, SharedFiles, shared_files};
#[cfg(not(target_arch = "wasm32"))]
use modelfmt_core::source::{FileSource, Folder, folder_of};
use modelfmt_core::value::{Object, Value};
use modelfmt_core::{
    Bytes, Container, Encoding, Location, Source as _, TensorInfo, TensorKey, TensorView, author::Extent,
};

use crate::error::{Error, Result};
use crate::formats::Format;
use crate::formats::capabilities::Access;
use crate::formats::common_metadata::CommonMetadata;
use crate::formats::entry::{AnyReader, Sealing, ToOpen, reader_of};
use crate::formats::mapped::Mapped;
use crate::formats::open_any::OpenAny;
use crate::model::pinned::Pinned;
use crate::open::{ALONE, NoFiles, OpenOptions};
pub use crate::quant::Quant;
#[cfg(not(target_arch = "wasm32"))]
use crate::sidecars::Sidecars;
use crate::unrecognized::{self, Unrecognized};
pub use files::ModelFile;
#[cfg(not(target_arch = "wasm32"))]
pub use files::read_with;
pub use modelfmt_rules::globs::Globs;
use modelfmt_rules::pin::Pin;
use modelfmt_rules::wording::Choice;

impl OpenOptions {
    /// Opens a file of any format with positioned reads, or a set by its index. For a folder, opens the one index or model file in
    /// it.
    ///
    /// # Errors
    /// If the file cannot be read, has no known format, or breaks a rule of its format; [`Error::NoModel`] for a folder with no
    /// model or several.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Model> {
        let path = path.as_ref();
        let (mut index, mut folder_note) = (path.to_owned(), None);
        if path.is_dir() {
            let found = crate::folder::models_in(path, self)?;
            folder_note = found.note();
            index = found.only(path)?;
        }
        let failed = |source| Error::Open { path: path.to_owned(), source };
        if let Some(journal) = modelfmt_write::edit::interrupted_by(&index) {
            return Err(Error::Interrupted { path: path.to_owned(), journal });
        }
        let source = Box::new(FileSource::open(&index).map_err(failed)?);
        Ok(Model { folder_note, ..self.open_file(path, index, source)? })
    }

    /// Opens a file that is not a model but is read because of one, such as an importance matrix. Only the
    /// policy of these options applies to it.
    ///
    /// # Errors
    /// [`Error::Open`]; [`Error::Policy`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open_other(&self, path: &Path) -> Result<BoxSource> {
        let source =
            FileSource::open(path).map_err(|source| Error::Open { path: path.to_owned(), source })?;
        self.judged(path, Box::new(source))
    }

    /// Returns the source unchanged: without the feature, there is no policy.
    #[cfg(not(any(feature = "policy", target_arch = "wasm32")))]
    #[allow(clippy::unnecessary_wraps, clippy::unused_self, reason = "as with the feature")]
    fn judged(&self, _: &Path, source: BoxSource) -> Result<BoxSource> {
        Ok(source)
    }

    /// Opens `source`, which is the file `index`. Errors name `path`.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open_file(&self, path: &Path, index: PathBuf, source: BoxSource) -> Result<Model> {
        let files = shared_files(crate::edit_guard::UneditedFiles(Folder::containing(&index)));
        let outboard = if self.has_hash() { pinned::outboard_of(&index)? } else { None };
        let path = path.to_owned();
        let opening = Opening { path, index: &index, on_disk: true, source, files: Some(files), outboard };
        let model = self.open_as(opening)?;
        let sidecars = Sidecars::of(self, &index);
        Ok(Model { on_disk: Some(index), sidecars, ..model })
    }

    /// Opens a source of any format. Errors name it `name`. The index of a set needs `files`, which opens the other files.
    ///
    /// # Errors
    /// If the source cannot be read, has no known format, or breaks a rule of its format.
    pub fn open_source(&self, name: &str, source: BoxSource, files: Option<SharedFiles>) -> Result<Model> {
        let outboard = match &files {
            Some(files) if self.has_hash() => pinned::outboard_among(files, name)?,
            _ => None,
        };
        let (path, index) = (PathBuf::from(name), Path::new(name));
        self.open_as(Opening { path, index, on_disk: false, source, files, outboard })
    }

    /// Checks whether an outboard would be useful, because the pin is the hash of the whole file.
    const fn has_hash(&self) -> bool {
        matches!(self.pin, Some(Pin::B3(_)))
    }

    /// Opens a model. Every way to open one goes through here, so that a policy judges the file first.
    fn open_as(&self, opening: Opening<'_>) -> Result<Model> {
        #[cfg(all(feature = "policy", not(target_arch = "wasm32")))]
        if self.policy.is_some() {
            let model = self.open_judged(opening)?;
            return Ok(Model { policy: self.policy.clone(), ..model });
        }
        self.open_allowed(opening)
    }

    /// Opens a file that was judged, or that no policy has to judge.
    pub(crate) fn open_allowed(&self, opening: Opening<'_>) -> Result<Model> {
        let Opening { path, index, source, files, outboard, .. } = opening;
        #[cfg(feature = "sign")]
        let (source, files) = crate::signed_source::checked(self, index, source, files)?;
        let (source, pinned) = match self.pin {
            Some(Pin::B3(hash)) => {
                let (source, pinned) = pinned::by_hash(index, source, hash, outboard)?;
                (source, Some(pinned))
            }
            Some(pin) => (source, Some(Pinned { pin, outboard: None })),
            None => (source, None),
        };
        let failed = |source| pinned::unproved(&path, source);
        let format = Format::detect(&source).map_err(failed)?;
        let Some(format) = format else {
            let Unrecognized { hint, is_model } = unrecognized::look(&source).map_err(failed)?;
            return Err(Error::UnknownFormat { path, hint, is_model });
        };
        let Some(fns) = format.fns() else {
            return Err(Error::NotEnabled { path, format, feature: format.feature() });
        };
        let is_pinnable = |format| self.pin.map_or(Ok(()), |pin| pinned::check(&path, format, pin));
        is_pinnable(format)?;
        #[cfg(feature = "seal")]
        self.check_sealable(index, format)?;
        let name = index.file_name().unwrap_or(index.as_os_str()).to_string_lossy().into_owned();
        let mut index_file = None;
        let source =
            if format.is_set() { Box::new(index_file.insert(Arc::new(source)).clone()) } else { source };
        let files = match files {
            Some(files) => files,
            None if format.is_set() => {
                return Err(Error::UnknownFormat { path, hint: ALONE, is_model: false });
            }
            None => shared_files(NoFiles),
        };
        let to_open = ToOpen { source, name: name.clone(), files, options: self };
        let opened = match fns.open_override {
            Some(open) => open(to_open),
            None => OpenAny::open_now(format, to_open),
        };
        let opened = opened.map_err(|error| Error::file(index.to_owned(), error))?;
        // Only now is it known whether the file is part of a split.
        let format = opened.format();
        let opened = opened.into_reader();
        is_pinnable(format)?;
        Ok(Model {
            path,
            format,
            pinned,
            index_file: index_file.map(|file| (name, file)),
            #[cfg(not(target_arch = "wasm32"))]
            on_disk: None,
            #[cfg(not(target_arch = "wasm32"))]
            sidecars: Sidecars::Nothing,
            #[cfg(all(feature = "sign", not(target_arch = "wasm32")))]
            signed: self.signed.clone(),
            #[cfg(all(feature = "policy", not(target_arch = "wasm32")))]
            policy: None,
            opened: opened.into(),
            members: Vec::new(),
            folder_note: None,
        })
    }
}

/// A file that is about to be opened as a model.
pub(crate) struct Opening<'a> {
    /// The path that errors name.
    pub(crate) path: PathBuf,
    /// The file, or its name.
    pub(crate) index: &'a Path,
    /// Whether `index` is a path of this machine.
    #[cfg_attr(
        not(all(feature = "policy", not(target_arch = "wasm32"))),
        allow(dead_code, reason = "only a policy asks")
    )]
    pub(crate) on_disk: bool,
    pub(crate) source: BoxSource,
    /// The files beside it.
    pub(crate) files: Option<SharedFiles>,
    /// Its outboard, if its pin needs one.
    pub(crate) outboard: Option<BoxSource>,
}

/// An open model of any format.
///
/// A tensor has a position, counted from 0 in file order. Features of one format are in its own reader, such as
/// [`as_mag`](Self::as_mag). Clones share the open files.
#[derive(Clone)]
pub struct Model {
    path: PathBuf,
    format: Format,
    /// The pin, if the model was opened with one.
    pinned: Option<Pinned>,
    /// For a set, the name of the index and its source.
    pub(crate) index_file: Option<(String, Arc<BoxSource>)>,
    /// The file that was opened by path: the model, or its index.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) on_disk: Option<PathBuf>,
    /// The files beside the model that are read too.
    #[cfg(not(target_arch = "wasm32"))]
    sidecars: Sidecars,
    /// The signed files that the model is read through, if it was opened with them.
    #[cfg(all(feature = "sign", not(target_arch = "wasm32")))]
    pub(crate) signed: Option<Arc<modelfmt_oms::SignedFiles>>,
    /// The policy under which it was opened.
    #[cfg(all(feature = "policy", not(target_arch = "wasm32")))]
    policy: Option<crate::open::PolicyHandle>,
    opened: Arc<dyn AnyReader>,
    /// The models that were merged into this one, each with the position of its first tensor; empty if it was not merged.
    members: Vec<(usize, Model)>,
    /// A note about models of the folder that are ignored, if a folder was opened.
    folder_note: Option<String>,
}

/// The tensors of a [`Model`], in file order.
#[derive(Clone)]
pub struct Tensors<'a> {
    container: &'a dyn Container,
    positions: Range<usize>,
}

impl fmt::Debug for Tensors<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}

impl<'a> Iterator for Tensors<'a> {
    type Item = TensorInfo<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let container = self.container;
        self.positions.find_map(|position| container.info(position))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.positions.len()))
    }
}

impl DoubleEndedIterator for Tensors<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let container = self.container;
        self.positions.by_ref().rev().find_map(|position| container.info(position))
    }
}

impl<'a> IntoIterator for &'a Model {
    type Item = TensorInfo<'a>;
    type IntoIter = Tensors<'a>;

    /// Returns the tensors in file order; for a set, only those whose files are present.
    fn into_iter(self) -> Tensors<'a> {
        self.tensors()
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Model({} {}, {} tensors)", self.format, self.path.display(), self.tensor_count())
    }
}

impl Model {
    /// Opens a file of any format with positioned reads, or a set by its index.
    ///
    /// # Errors
    /// If the file cannot be read, has no known format, or breaks a rule of its format.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        OpenOptions::new().open(path)
    }

    /// Opens a source of any single-file format. Errors name it `name`.
    ///
    /// # Errors
    /// If the source cannot be read, has no known format, or breaks a rule of its format.
    pub fn from_source(
        name: &str,
        source: impl modelfmt_core::Source + Send + Sync + 'static,
    ) -> Result<Self> {
        OpenOptions::new().open_source(name, Box::new(source), None)
    }

    /// Returns the models that were [merged](Self::merged) into this one, or only this one.
    pub fn members(&self) -> impl Iterator<Item = &Self> {
        let own = self.members.is_empty().then_some(self);
        own.into_iter().chain(self.members.iter().map(|(_, model)| model))
    }

    /// Checks whether the model was merged from several.
    pub fn is_merged(&self) -> bool {
        !self.members.is_empty()
    }

    /// Returns the model that has the tensor at a position, and its position there.
    pub fn member_at(&self, position: usize) -> (&Self, usize) {
        let next = self.members.partition_point(|(first, _)| *first <= position);
        match next.checked_sub(1).and_then(|number| self.members.get(number)) {
            Some((first, model)) => (model, position.saturating_sub(*first)),
            None => (self, position),
        }
    }

    /// Returns the path, as it was given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the paths of all files of the model, if it was opened by its path; otherwise empty.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn input_paths(&self) -> impl Iterator<Item = PathBuf> {
        self.members().flat_map(|model| {
            let index = model.on_disk.as_deref();
            let others = index.map(|index| {
                let folder = folder_of(index);
                model.opened.file_paths().into_iter().map(move |file| folder.join(file))
            });
            index.map(Path::to_owned).into_iter().chain(others.into_iter().flatten())
        })
    }

    /// Returns the files beside the model that are read too.
    #[cfg(not(target_arch = "wasm32"))]
    pub const fn sidecars(&self) -> &Sidecars {
        &self.sidecars
    }

    /// Returns the format.
    #[must_use]
    pub const fn format(&self) -> Format {
        self.format
    }

    /// Returns the pin, if the model was [opened with one](OpenOptions::pin). Everything that is read is
    /// checked against it. Without a pin, only the reads of [`checked`](Self::checked) are checked, against
    /// the digests in the file.
    #[must_use]
    pub fn pin(&self) -> Option<Pin> {
        self.pinned.as_ref().map(|pinned| pinned.pin)
    }

    pub(crate) const fn pinned(&self) -> Option<&Pinned> {
        self.pinned.as_ref()
    }

    /// Returns the reader of the format, through the trait that all readers implement.
    #[must_use]
    pub fn container(&self) -> &(dyn Container + Send + Sync) {
        &*self.opened
    }

    /// Returns the reader of the format, which can be downcast to its own type.
    pub fn opened(&self) -> &dyn AnyReader {
        &*self.opened
    }

    /// Returns the size variables, for a format that has them.
    pub fn sizevars(&self) -> Object {
        let sizevars = self.format.fns().and_then(|fns| fns.sizevars);
        sizevars.map(|sizevars| sizevars(self.opened())).unwrap_or_default()
    }

    /// Returns whether the file, or the first file of a set, is encrypted and signed. For a merged model, ask
    /// each of its members.
    pub fn sealing(&self) -> Sealing {
        let sealing = self.format.fns().and_then(|fns| fns.sealing);
        sealing.map(|sealing| sealing(self.opened())).unwrap_or_default()
    }

    /// Returns the reader of the format, if it has the type `R`. Use this for formats that have no method of
    /// their own here.
    ///
    /// ```
    /// # #[cfg(feature = "mag")] {
    /// use modelfmt::modelfmt_core::source::BoxSource;
    /// use modelfmt::{Model, mag};
    ///
    /// # let bytes = std::fs::read("../../testdata/mag/types.mag").unwrap_or_default();
    /// # let Ok(model) = Model::from_source("m.mag", bytes) else { return };
    /// let reader: Option<&mag::Reader<BoxSource>> = model.reader();
    /// assert!(reader.is_some());
    /// # }
    /// ```
    #[must_use]
    pub fn reader<R: Any>(&self) -> Option<&R> {
        reader_of(&*self.opened)
    }

    /// Borrows bytes of a tensor's values, and returns them with their offset in the file. `None` unless the
    /// file is in memory and stores the values uncompressed.
    pub fn borrow(&self, position: usize, range: Range<u64>) -> Option<(u64, &[u8])> {
        let file = self.opened.as_slice()?;
        let location = self.container().location(position).ok()?;
        let is_raw = location.encoding == Encoding::Raw && location.file.is_none();
        let values = Extent::new(location.offset?, location.stored_nbytes, file.len() as u64).ok()?;
        let part = values.part(range.start, range.end.checked_sub(range.start)?).ok().filter(|_| is_raw)?;
        let bytes = file.get(usize::try_from(part.offset()).ok()?..usize::try_from(part.end()).ok()?)?;
        Some((part.offset(), bytes))
    }

    /// Returns the tensors in file order; for a set, only those whose files are present: see
    /// [`open_all`](Self::open_all).
    #[must_use]
    pub fn tensors(&self) -> Tensors<'_> {
        Tensors { container: self.container(), positions: 0..self.tensor_count() }
    }

    /// Fails for a model whose tensors cannot be listed, so that it does not look like a model without tensors.
    pub fn expect_tensors(&self) -> Result<()> {
        match self.format().capabilities().access {
            Access::NoTensors(why) => Err(Error::NoTensors { path: self.path.clone(), why }),
            Access::ReadWrite | Access::ReadOnly(_) => self.expect_names(),
        }
    }

    #[cfg(not(feature = "seal"))]
    #[allow(clippy::unnecessary_wraps, clippy::unused_self, reason = "the same with the feature")]
    fn expect_names(&self) -> Result<()> {
        Ok(())
    }

    /// Makes sure that every tensor can be listed. The index of a sharded model may have only the names of tensors. Their
    /// descriptions are in the shards, which are opened when they are needed, so a missing shard is found only then.
    ///
    /// # Errors
    /// [`Error::File`] for the first tensor whose file is missing or broken.
    pub fn open_all(&self) -> Result<()> {
        let container = self.container();
        for position in (0..container.tensor_count()).filter(|&position| container.info(position).is_none()) {
            self.location(position)?;
        }
        Ok(())
    }

    /// Returns the number of tensors.
    #[must_use]
    pub fn tensor_count(&self) -> usize {
        self.container().tensor_count()
    }

    /// Returns the position of the tensor with that name.
    ///
    /// # Errors
    /// [`Error::NoSuchTensor`], which names the most similar tensor.
    pub fn find(&self, name: &str) -> Result<usize> {
        self.container().find(name).ok_or_else(|| Error::NoSuchTensor {
            path: self.path.clone(),
            name: name.to_owned(),
            nearest: self.nearest(name),
        })
    }

    fn nearest(&self, name: &str) -> Option<String> {
        // The limits keep the search fast, also with names that were chosen to slow it down.
        const MAX_NAMES: usize = 20_000;
        const MAX_LEN: usize = 256;
        const MAX_STEPS: usize = 1 << 25; // the product of two lengths for each pair
        let mut steps = 0;
        let similar = |other: &str| {
            let longest = name.chars().count().max(other.chars().count()).max(1);
            (strsim::damerau_levenshtein(name, other), longest)
        };
        let names = self.tensors().take(MAX_NAMES).map(|tensor| tensor.name);
        let near = names
            .filter(|other| other.len() <= MAX_LEN && name.len() <= MAX_LEN)
            .take_while(|other| {
                steps += other.len() * name.len();
                steps <= MAX_STEPS
            })
            .map(|other| (similar(other), other));
        let ((distance, longest), nearest) = near.min_by_key(|&((distance, _), _)| distance)?;
        (distance * 2 <= longest).then(|| nearest.to_owned())
    }

    /// Returns the position of a tensor from its name or position.
    pub(crate) fn position(&self, key: impl TensorKey) -> Result<usize> {
        match key.position(|name| self.container().find(name)) {
            Ok(position) => Ok(position),
            Err(name) => self.find(name), // its error names a similar tensor
        }
    }

    /// Returns a tensor with its values, decompressed. The values are borrowed if they are in memory, or else
    /// read. The key is the tensor's name, or its position in file order.
    ///
    /// # Errors
    /// [`Error::NoSuchTensor`]; [`Error::File`] if there is no tensor at that position, it has no data, or cannot be read or
    /// decompressed.
    pub fn tensor(&self, key: impl TensorKey) -> Result<TensorView<'_>> {
        let position = self.position(key)?;
        self.container().tensor(position, Reading::PLAIN).map_err(|error| self.failed(error))
    }

    /// Returns a range of the bytes of a tensor's values, without reading the rest. The bytes are borrowed if
    /// they are in memory, or else read. If the tensor is compressed, the blocks that contain the range are
    /// read and decompressed.
    ///
    /// # Errors
    /// [`Error::NoSuchTensor`]; [`Error::File`] if the tensor has fewer bytes, has no data, or cannot be read or decompressed.
    pub fn read_range(&self, key: impl TensorKey, range: Range<u64>) -> Result<Bytes<'_>> {
        let position = self.position(key)?;
        let bytes = self.container().values(position, Which::Range(range), Reading::PLAIN);
        bytes.map_err(|error| self.failed(error))
    }

    /// Returns a part of a tensor, selected by a slice of each dimension. The values are borrowed if they are
    /// contiguous in memory, or else read. Pieces that are near each other are read at once. If the tensor is
    /// compressed, the blocks that contain parts of the slice are read and decompressed.
    ///
    /// ```
    /// use modelfmt::modelfmt_core::plan::Slice;
    /// use modelfmt::{Model, View};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.safetensors");
    /// let values: Vec<u8> = (0..12).collect();
    /// modelfmt::save(&path, [("w", View::new(&values, [3, 4])?)], &Default::default())?;
    /// let model = Model::open(&path)?;
    /// let last_two_rows = model.slice("w", &Slice::rows(-2..))?;
    /// assert_eq!((last_two_rows.shape(), last_two_rows.bytes()), (&[2, 4][..], &[4, 5, 6, 7, 8, 9, 10, 11][..]));
    /// let column = model.slice("w", &"::2, 1".parse()?)?;
    /// assert_eq!((column.shape(), column.bytes()), (&[2][..], &[1, 9][..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoSuchTensor`]; [`Error::File`] if the slice does not fit the tensor, it has no data, or cannot be read or
    /// decompressed.
    pub fn slice(&self, key: impl TensorKey, slice: &Slice) -> Result<TensorSlice<'_>> {
        let position = self.position(key)?;
        self.container().slice(position, slice, Reading::PLAIN).map_err(|error| self.failed(error))
    }

    /// Returns the same reads, with each checked against the digests in the file: see [`CheckedModel`].
    #[must_use]
    pub const fn checked(&self) -> CheckedModel<'_> {
        CheckedModel(self)
    }

    /// Fills `out` with a tensor's values from byte `offset` on.
    ///
    /// # Errors
    /// [`Error::NoSuchTensor`]; [`Error::File`] if the tensor has fewer bytes, has no data, or cannot be read or decompressed.
    pub fn read_into(&self, key: impl TensorKey, offset: u64, out: &mut [u8]) -> Result<()> {
        let position = self.position(key)?;
        self.container().values_into(position, offset, out, None).map_err(|error| self.failed(error))
    }

    /// Returns the location of a tensor's values in its file.
    ///
    /// # Errors
    /// [`Error::File`] if there is no such tensor, or its file in a set is missing or broken.
    pub fn location(&self, position: usize) -> Result<Location> {
        self.container().location(position).map_err(|error| self.failed(error))
    }

    /// Returns the format's own metadata, as the tree that `inspect --json` prints.
    ///
    /// # Errors
    /// [`Error::File`] if the metadata does not decode.
    pub fn metadata(&self) -> Result<Value> {
        self.container().metadata().map_err(|error| self.failed(error))
    }

    /// Returns the features that only this format has, as `inspect --json` prints them under `details`.
    ///
    /// # Errors
    /// [`Error::File`] if they cannot be read or do not decode.
    pub fn details(&self) -> Result<Value> {
        let mut details = self.container().details().map_err(|error| self.failed(error))?;
        if let (Some((name, index)), Value::Object(details)) = (&self.index_file, &mut details) {
            list_index(details, name, index.len());
        }
        Ok(details)
    }

    /// Returns warnings about what was ignored on opening, such as unknown parts of a pickle. For a set of
    /// checkpoints, this opens all files.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        #[cfg(feature = "pytorch")]
        if let Some(set) = self.as_pytorch_sharded() {
            (0..set.index().files().len()).for_each(|number| {
                let _ = set.shard(number); // a shard that cannot be opened is an error where it is read
            });
        }
        self.container().warnings()
    }

    /// Returns notes about the model, such as that several parts of a checkpoint contain tensors (see
    /// [`OpenOptions::root`]), or which models of its folder are ignored.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = self.folder_note.iter().cloned().collect();
        #[cfg(feature = "pytorch")]
        notes.extend(self.as_pytorch().into_iter().flat_map(|reader| reader.index().notes().to_vec()));
        notes.extend(self.members.iter().flat_map(|(_, member)| member.notes()));
        notes
    }

    /// Returns the description of the tensor at a position. If a set cannot describe it, the error names the
    /// file that is missing or broken.
    pub fn info(&self, position: usize) -> Result<TensorInfo<'_>> {
        if let Some(info) = self.container().info(position) {
            return Ok(info);
        }
        self.location(position)?;
        Err(self.failed(modelfmt_core::AnyError::no_such_position(position)))
    }

    /// Returns the error if a selection leaves no tensor.
    pub fn nothing_selected(&self, choices: &[Choice], pattern: Option<String>) -> Error {
        let (path, tensors) = (self.path.clone(), self.tensor_count());
        Error::NothingSelected { path, choices: choices.to_vec(), pattern, tensors }
    }

    /// Returns the metadata of the model in terms that all formats share.
    ///
    /// # Errors
    /// If the metadata does not decode, or a file of a set is missing.
    pub fn common_metadata(&self) -> Result<CommonMetadata> {
        let fns = self.format.fns();
        let read = fns.and_then(|fns| fns.common_metadata).unwrap_or(CommonMetadata::keys_of);
        let opened = reader_of::<Mapped>(self.opened()).map_or(self.opened(), |mapped| &**mapped.head());
        read(opened).map_err(|error| self.failed(error))
    }

    /// Adds the path of the file to an error of the format's reader.
    pub fn failed(&self, error: impl Into<modelfmt_core::AnyError>) -> Error {
        let error = error.into();
        Error::file(self.path_of(&error), error)
    }

    /// Returns the file that an error concerns; for a merged model, the file that the error names.
    pub(crate) fn path_of(&self, error: &modelfmt_core::AnyError) -> PathBuf {
        error.path().filter(|_| self.is_merged()).map_or_else(|| self.path.clone(), PathBuf::from)
    }
}

/// Adds the index of a set to its files in `details`, at the front. The reader of a set does not know the file name of its index.
pub(crate) fn list_index(details: &mut Object, name: &str, len: u64) {
    if let Some(Value::Array(files)) = details.get_mut("files") {
        files.push_front(Object::from_iter([("path", Value::from(name)), ("size", Value::from(len))]));
    }
}

impl Model {
    /// Returns the options for other files that are opened because of this model, such as an adapter. The
    /// policy that judged this model judges them, too.
    #[must_use]
    pub fn related_options(&self) -> OpenOptions {
        #[cfg(all(feature = "policy", not(target_arch = "wasm32")))]
        return OpenOptions { policy: self.policy.clone(), ..OpenOptions::new() };
        #[cfg(not(all(feature = "policy", not(target_arch = "wasm32"))))]
        OpenOptions::new()
    }

    /// Reads the scales and zero points of the tensor at a position, if the file has them.
    ///
    /// # Errors
    /// [`Error::File`] if they cannot be read, or break a rule of the format.
    pub fn quant(&self, position: usize) -> Result<Option<Quant>> {
        let (model, position) = self.member_at(position);
        let Some(quant) = model.format().fns().and_then(|fns| fns.quant) else { return Ok(None) };
        quant(model.opened(), position).map_err(|error| model.failed(error))
    }
}

/// The reads of a [`Model`], each checked against the smallest digest in the file that covers the values: of the tensor, of its
/// pages, of a section or of the whole file. Everything that the digest covers is read.
#[derive(Clone, Copy, Debug)]
pub struct CheckedModel<'a>(&'a Model);

impl<'a> CheckedModel<'a> {
    /// Returns a tensor with its values, like [`Model::tensor`].
    ///
    /// # Errors
    /// [`Error::NoSuchTensor`]; [`Error::File`] if the bytes cannot be read or do not match the digest, and with
    /// [`AnyError::NoHash`](modelfmt_core::AnyError::NoHash) if the file has no digest of them, or only one that covers so many
    /// more bytes that [`verify`](Model::verify) is the better way.
    pub fn tensor(self, key: impl TensorKey) -> Result<TensorView<'a>> {
        let position = self.0.position(key)?;
        self.0.container().tensor(position, Reading::CHECKED).map_err(|error| self.0.failed(error))
    }

    /// Returns a range of the bytes of a tensor's values. If the file has digests of pages, only the pages
    /// that the range touches are read.
    ///
    /// # Errors
    /// [`Error::NoSuchTensor`]; [`Error::File`] if the tensor has fewer bytes, the bytes do not match the digest, or the file has
    /// none for them.
    pub fn read_range(self, key: impl TensorKey, range: Range<u64>) -> Result<Bytes<'a>> {
        let position = self.0.position(key)?;
        let bytes = self.0.container().values(position, Which::Range(range), Reading::CHECKED);
        bytes.map_err(|error| self.0.failed(error))
    }

    /// Returns a part of a tensor, selected by a slice of each dimension. If the file has digests of pages,
    /// only the pages that the slice touches are read.
    ///
    /// # Errors
    /// [`Error::NoSuchTensor`]; [`Error::File`] if the slice does not fit the tensor, the bytes do not match the digest, or the
    /// file has none for them.
    pub fn slice(self, key: impl TensorKey, slice: &Slice) -> Result<TensorSlice<'a>> {
        let position = self.0.position(key)?;
        self.0.container().slice(position, slice, Reading::CHECKED).map_err(|error| self.0.failed(error))
    }
}
