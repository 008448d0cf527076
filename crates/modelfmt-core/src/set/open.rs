//! An open set: its index, and files that are opened when a tensor is read.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::borrow::Cow;
use std::io;
use std::sync::Arc;

use tensor_core::TensorInfo;

use super::{MapError, ShardMap};
use crate::error::{CommonFault, Error};
use crate::fetch::{Fetch, FetchFiles};
use crate::file_index::FileIndex;
use crate::parse::{parse_fetched, require_len};
use crate::parts::Parts;
use crate::read::{OpenFile, Opened as _, Reader};
use crate::settings::OpenSettings;
use crate::table::{Encoding, Location, Place};

/// The files of a set, by number.
type Shards<M, S> = Parts<Shard<M, S>, <M as ShardMap>::Index, <<M as ShardMap>::Index as FileIndex>::Fault>;

/// An open file of a set.
pub type Shard<M, S> = Reader<OpenFile<<M as ShardMap>::Index, S>>;

/// An open set: its index and its files. Each file is opened once, when it is needed.
///
/// [`Reader`] and [`AsyncReader`](crate::AsyncReader) drive it, and [`ShardMap::verify`] verifies it.
pub struct OpenSet<M: ShardMap, F: FetchFiles> {
    pub(super) map: Arc<M>,
    files: F,
    /// The folder of the index within `files`, with the final `/`.
    prefix: String,
    settings: OpenSettings,
    pub(super) shards: Shards<M, F::File>,
    /// The name of the index in errors.
    pub(super) name: Option<String>,
}

impl<M: ShardMap, F: FetchFiles> std::fmt::Debug for OpenSet<M, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (tensors, files) = (self.map.tensor_count(), self.shards.len());
        write!(f, "OpenSet {{ tensors: {tensors}, files: {files} }}")
    }
}

/// A tensor of a set whose file is open.
pub(super) struct Known<'a, I, S> {
    pub(super) shard: &'a OpenFile<I, S>,
    pub(super) place: Place,
    /// The number of the file.
    pub(super) number: usize,
}

impl<M: ShardMap, F: FetchFiles> OpenSet<M, F> {
    /// Opens the set whose index is the file `index` of `files`.
    ///
    /// # Errors
    /// If the index cannot be read or breaks a rule.
    pub async fn from_files(files: F, index: &str, settings: &OpenSettings) -> Result<Self, MapError<M>> {
        let failed = |source| Error::Open { path: index.to_owned(), source };
        let source = files.fetch_file(index).await.map_err(failed)?;
        Self::of_index(&source, index, files, settings).await
    }

    /// Opens the set whose index is the file `index` of `files`, already opened as `source`.
    ///
    /// # Errors
    /// If the index cannot be read or breaks a rule.
    pub async fn of_index(
        source: &(impl Fetch + ?Sized),
        index: &str,
        files: F,
        settings: &OpenSettings,
    ) -> Result<Self, MapError<M>> {
        let name = source.label().map(Cow::into_owned);
        let in_index = |error: MapError<M>| error.in_source(name.as_deref().map(Cow::Borrowed));
        let map = M::read(source, index, &files, settings).await.map_err(in_index)?;
        let prefix = index.rfind('/').and_then(|at| index.get(..=at)).unwrap_or_default().to_owned();
        let set = Self::with_index(Arc::new(map), files, settings.clone());
        Self { name, prefix, ..set }.with_head().await
    }

    /// Opens a set with a known index. Nothing is read.
    #[must_use]
    pub fn with_index(map: Arc<M>, files: F, settings: OpenSettings) -> Self {
        let shards = Parts::new(map.shard_count());
        Self { map, files, prefix: String::new(), settings, shards, name: None }
    }

    /// Opens the head, if the set has one.
    async fn with_head(mut self) -> Result<Self, MapError<M>> {
        let Some(head) = self.map.head() else { return Ok(self) };
        let opened = self.open(head).await.map_err(|error| self.named(error))?;
        if let Some(map) = Arc::get_mut(&mut self.map) {
            map.set_head(Arc::clone(opened.index()));
        }
        self.shards.get(head, || Ok(opened))?;
        Ok(self)
    }

    /// Returns the index of the set.
    #[must_use]
    pub const fn index(&self) -> &Arc<M> {
        &self.map
    }

    /// Returns the files.
    #[must_use]
    pub const fn files(&self) -> &F {
        &self.files
    }

    /// Returns a file of the set, counted from 0. Opens it if necessary; opening is tried only once.
    ///
    /// # Errors
    /// If there is no such file, it cannot be opened, its size is not the one that the index states, or it
    /// breaks a rule.
    pub async fn shard(&self, number: usize) -> Result<&Shard<M, F::File>, MapError<M>> {
        if number < self.shards.len()
            && let Some(known) = self.shards.known(number)?
        {
            return Ok(known);
        }
        let opened = self.open(number).await;
        if number < self.shards.len() {
            self.shards.get(number, || opened)
        } else {
            Err(self.no_such_shard(number))
        }
    }

    fn no_such_shard(&self, number: usize) -> MapError<M> {
        Error::NotFound { name: format!("{} number {number}", M::SHARD) }
    }

    /// Opens a file without reading its index.
    ///
    /// # Errors
    /// If there is no such file, or it cannot be opened.
    pub async fn file(&self, number: usize) -> Result<F::File, MapError<M>> {
        let path = self.map.path(number).ok_or_else(|| self.no_such_shard(number))?;
        let failed = |source: io::Error| Error::Open { path: path.to_owned(), source };
        self.files.fetch_file(&format!("{}{path}", self.prefix)).await.map_err(failed)
    }

    /// Opens a file and reads its index.
    pub(super) async fn open(&self, number: usize) -> Result<Shard<M, F::File>, MapError<M>> {
        let source = self.file(number).await?;
        if M::SIZES_BIND {
            self.check_size(number, source.size())?;
        }
        // If another path led to the head and shared its index, that would list a part without values.
        let is_alone = self.map.head() == Some(number) || self.map.binds_content();
        let id = if is_alone { None } else { source.file_id() };
        let index = match self.map.shard_index(number, &self.settings).or_else(|| self.shards.index(id)) {
            Some(known) => Ok(known),
            None => {
                let settings = self.map.shard_settings(number, self.settings_of(number));
                let parser = M::Index::parser(source.size(), &settings);
                parse_fetched(parser, &source).await.map(|index| self.shards.keep_index(id, Arc::new(index)))
            }
        };
        let index = index.and_then(|index| {
            require_len(source.size(), index.file_len())?;
            Ok(index)
        });
        let index = index.map_err(|error| self.within(number, error))?;
        Ok(Reader(OpenFile { index, source }))
    }

    /// Returns the settings of one file: the files that have values share the limits on the work that a set
    /// may cause.
    fn settings_of(&self, number: usize) -> OpenSettings {
        let head = self.map.head();
        if head == Some(number) {
            return self.settings.clone();
        }
        self.settings.clone().one_in(self.shards.len().saturating_sub(usize::from(head.is_some())) as u64)
    }

    pub(super) fn check_size(&self, number: usize, found: u64) -> Result<(), MapError<M>> {
        match self.map.stated_size(number).filter(|&stated| stated != found) {
            Some(stated) => {
                let fault = CommonFault::ShardSize { found, stated }.into();
                Err(Error::Malformed { part: self.map.part(number), at: 0, fault })
            }
            None => Ok(()),
        }
    }

    /// Opens every file and looks up every tensor.
    pub(super) async fn open_all(&self) -> Result<(), MapError<M>> {
        for number in 0..self.shards.len() {
            self.shard(number).await.map_err(|error| self.named(error))?;
        }
        for position in 0..self.map.tensor_count() {
            self.known(position).await.map_err(|error| self.named(error))?;
        }
        Ok(())
    }

    /// Returns the tensor as described by the index of its open file, or of the set.
    pub(super) fn info_in<'s>(
        &'s self,
        known: &Known<'s, M::Index, F::File>,
        position: usize,
    ) -> Result<TensorInfo<'s>, MapError<M>> {
        let listed = || match known.place {
            Place::Listed(there) => known.shard.index().tensors().info(there),
            Place::Bytes(_) => None,
        };
        self.map.info(position).or_else(listed).ok_or_else(|| Error::no_such_position(position))
    }

    pub(super) fn location_of(known: &Known<'_, M::Index, F::File>) -> Option<Location> {
        match known.place {
            Place::Listed(there) => known.shard.index().location(there),
            Place::Bytes(extent) => Some(Location {
                file: None,
                offset: Some(extent.offset()),
                stored_nbytes: extent.len(),
                encoding: Encoding::Raw,
            }),
        }
    }

    /// Returns the number of the file of the tensor at a position, and the place of the tensor there.
    ///
    /// # Errors
    /// If there is no such tensor, or its file cannot be opened or does not have it.
    pub async fn place_of(&self, position: usize) -> Result<(usize, Place), MapError<M>> {
        self.known(position).await.map(|known| (known.number, known.place))
    }

    pub(super) async fn known(&self, position: usize) -> Result<Known<'_, M::Index, F::File>, MapError<M>> {
        let number = self.map.shard_of(position)?;
        let shard: &OpenFile<_, _> = self.shard(number).await?;
        let place = self.map.place(position, shard.index())?;
        Ok(Known { shard, place, number })
    }

    /// Returns the metadata of one file of the set in the type of the format.
    ///
    /// # Errors
    /// If the file cannot be opened, or its metadata does not decode.
    pub async fn metadata_of(
        &self,
        number: usize,
    ) -> Result<<M::Index as FileIndex>::Metadata<'_>, MapError<M>> {
        let shard = self.shard(number).await?;
        shard.index().metadata(shard.source()).await.map_err(|error| self.within(number, error))
    }

    /// Returns the size of a file as the index states it, otherwise its actual size; `None` if it cannot be
    /// opened.
    pub(super) async fn size(&self, number: usize) -> Option<u64> {
        match self.map.stated_size(number) {
            Some(stated) => Some(stated),
            None => Some(self.shard(number).await.ok()?.index().file_len()),
        }
    }

    pub(super) fn path(&self, number: usize) -> &str {
        self.map.path(number).unwrap_or_default()
    }

    /// Returns the number of a file in claims, which is the same for all paths that lead to the same file.
    pub(super) fn one_number(&self, number: usize, shard: &OpenFile<M::Index, F::File>) -> usize {
        self.shards.one_number(number, shard.source().file_id())
    }

    pub(super) fn within(&self, number: usize, error: MapError<M>) -> MapError<M> {
        error.in_file(&self.map.part(number))
    }
}
