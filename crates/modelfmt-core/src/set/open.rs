//! An open set without a driver: `async` functions that both readers of sets run.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::borrow::Cow;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use tensor_core::{Bytes, TensorInfo, TensorView};

use super::{MapError, Placed, ShardMap};
use crate::checked::{Checked, Which};
use crate::claims::{Claims, ObservedSource, Wanted};
use crate::error::{CommonFault, Error};
use crate::execution::Execution;
use crate::extent::Extent;
use crate::fetch::{Fetch, FetchFiles};
use crate::file_index::FileIndex;
use crate::options::OpenOptions;
use crate::parse::{parse_fetched, require_len};
use crate::parts::Parts;
use crate::reader::{Reader, view_of_source};
use crate::report::{Report, VerifyLevel};
use crate::table::{Encoding, Location, Place, Stored};
use crate::value::{Object, Value};

/// The files of a set, by number.
type Shards<M, S> =
    Parts<<M as ShardMap>::Reader<S>, <M as ShardMap>::Index, <<M as ShardMap>::Index as FileIndex>::Fault>;

/// An open set: what its index says, and its files, each of which is opened once, when it is asked for.
///
/// [`SetReader`](super::SetReader) and [`AsyncSetReader`](super::AsyncSetReader) drive it, and [`ShardMap::verify`] is
/// given it.
pub struct OpenSet<M: ShardMap, F: FetchFiles> {
    map: Arc<M>,
    files: F,
    /// The folder of the index within `files`, with its `/`.
    prefix: String,
    options: OpenOptions,
    shards: Shards<M, F::File>,
    /// What errors call the index.
    name: Option<String>,
}

impl<M: ShardMap, F: FetchFiles> std::fmt::Debug for OpenSet<M, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (tensors, files) = (self.map.tensor_count(), self.shards.len());
        write!(f, "OpenSet {{ tensors: {tensors}, files: {files} }}")
    }
}

/// A tensor of a set, its file open.
pub(super) struct Known<'a, I, S> {
    pub(super) shard: &'a Reader<I, S>,
    place: Place,
    /// The number of the file.
    number: usize,
}

impl<M: ShardMap, F: FetchFiles> OpenSet<M, F> {
    /// Opens the set whose index is the file `index` of `files`.
    pub(super) async fn from_files(
        files: F,
        index: &str,
        options: &OpenOptions,
    ) -> Result<Self, MapError<M>> {
        let failed = |source| Error::Open { path: index.to_owned(), source };
        let source = files.fetch_file(index).await.map_err(failed)?;
        let prefix = index.rfind('/').and_then(|at| index.get(..=at)).unwrap_or_default();
        let map = M::read(&source, index, &files, options).await?;
        let set = Self::with_index(Arc::new(map), files, options.clone());
        Self { prefix: prefix.to_owned(), ..set }.with_head().await
    }

    /// Opens the set whose index is what `source` holds, which errors call `name`. Its head is not open yet.
    pub(super) async fn from_source(
        source: &(impl Fetch + ?Sized),
        name: Option<String>,
        files: F,
        options: &OpenOptions,
    ) -> Result<Self, MapError<M>> {
        let in_index = |error: MapError<M>| error.in_source(name.as_deref().map(Cow::Borrowed));
        // The files are in the folder of the index.
        let file_name = name
            .as_deref()
            .map_or("", |path| path.rsplit(['/', std::path::MAIN_SEPARATOR]).next().unwrap_or(path));
        let map = M::read(source, file_name, &files, options).await.map_err(in_index)?;
        Ok(Self { name, ..Self::with_index(Arc::new(map), files, options.clone()) })
    }

    /// A set whose index is known; reads nothing.
    pub(super) fn with_index(map: Arc<M>, files: F, options: OpenOptions) -> Self {
        let shards = Parts::new(map.shard_count());
        Self { map, files, prefix: String::new(), options, shards, name: None }
    }

    /// Opens the head, if there is one.
    pub(super) async fn with_head(mut self) -> Result<Self, MapError<M>> {
        let Some(head) = self.map.head() else { return Ok(self) };
        let opened = self.open(head).await.map_err(|error| self.named(error))?;
        if let Some(map) = Arc::get_mut(&mut self.map) {
            map.set_head(Arc::clone(opened.as_ref().index()));
        }
        self.shards.get(head, || Ok(opened))?;
        Ok(self)
    }

    /// What the index of the set says.
    #[must_use]
    pub const fn index(&self) -> &Arc<M> {
        &self.map
    }

    /// The files.
    #[must_use]
    pub const fn files(&self) -> &F {
        &self.files
    }

    pub(super) const fn shards(&self) -> &Shards<M, F::File> {
        &self.shards
    }

    /// A file of the set, opened if it is not yet; counted from 0. One that cannot be opened is tried once.
    ///
    /// # Errors
    /// If there is none of that number, it cannot be opened, has another size than the index says, or breaks a rule.
    pub async fn shard(&self, number: usize) -> Result<&M::Reader<F::File>, MapError<M>> {
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

    /// Opens a file without looking into it.
    ///
    /// # Errors
    /// If there is none of that number, or it cannot be opened.
    pub async fn file(&self, number: usize) -> Result<F::File, MapError<M>> {
        let path = self.map.path(number).ok_or_else(|| self.no_such_shard(number))?;
        let failed = |source: io::Error| Error::Open { path: path.to_owned(), source };
        self.files.fetch_file(&format!("{}{path}", self.prefix)).await.map_err(failed)
    }

    /// Opens a file and reads its index.
    pub(super) async fn open(&self, number: usize) -> Result<M::Reader<F::File>, MapError<M>> {
        let source = self.file(number).await?;
        if M::SIZES_BIND {
            self.check_size(number, source.size())?;
        }
        // Another path to the head would be a part without values.
        let is_alone = self.map.head() == Some(number) || self.map.binds_content();
        let id = if is_alone { None } else { source.file_id() };
        let index = match self.map.shard_index(number, &self.options).or_else(|| self.shards.index(id)) {
            Some(known) => Ok(known),
            None => {
                let options = self.map.shard_options(number, self.options_of(number));
                let parser = M::Index::parser(source.size(), &options);
                parse_fetched(parser, &source).await.map(|index| self.shards.keep_index(id, Arc::new(index)))
            }
        };
        let index = index.and_then(|index| {
            require_len(source.size(), index.file_len())?;
            Ok(index)
        });
        let index = index.map_err(|error| self.within(number, error))?;
        Ok(Reader { index, source }.into())
    }

    /// What a file may make the reader do, it shares with the others that have values.
    fn options_of(&self, number: usize) -> OpenOptions {
        let head = self.map.head();
        if head == Some(number) {
            return self.options.clone();
        }
        self.options.clone().one_in(self.shards.len().saturating_sub(usize::from(head.is_some())) as u64)
    }

    fn check_size(&self, number: usize, found: u64) -> Result<(), MapError<M>> {
        match self.map.stated_size(number).filter(|&stated| stated != found) {
            Some(stated) => {
                let fault = CommonFault::ShardSize { found, stated }.into();
                Err(Error::Malformed { part: self.map.part(number), at: 0, fault })
            }
            None => Ok(()),
        }
    }

    /// Opens every file and looks for every tensor.
    pub(super) async fn open_all(&self) -> Result<(), MapError<M>> {
        for number in 0..self.shards.len() {
            self.shard(number).await.map_err(|error| self.named(error))?;
        }
        for position in 0..self.map.tensor_count() {
            self.known(position).await.map_err(|error| self.named(error))?;
        }
        Ok(())
    }

    /// The tensor at a position.
    pub(super) async fn info(&self, position: usize) -> Result<TensorInfo<'_>, MapError<M>> {
        if let Some(info) = self.map.info(position) {
            return Ok(info);
        }
        let known = self.known(position).await.map_err(|error| self.named(error))?;
        Self::info_of(&known, position)
    }

    pub(super) fn info_of<'s>(
        known: &Known<'s, M::Index, F::File>,
        position: usize,
    ) -> Result<TensorInfo<'s>, MapError<M>> {
        let info = match known.place {
            Place::Listed(there) => known.shard.index().tensors().info(there),
            Place::Bytes(_) => None,
        };
        info.ok_or_else(|| Error::no_such_position(position))
    }

    /// The position of the tensor of that name.
    pub(super) fn position(&self, name: &str) -> Result<usize, MapError<M>> {
        self.map.find(name).ok_or_else(|| self.named(Error::NotFound { name: name.to_owned() }))
    }

    /// The tensor at a position with its values.
    pub(super) async fn tensor_at(&self, position: usize) -> Result<TensorView<'_>, MapError<M>> {
        let read = async {
            let known = self.known(position).await?;
            let bytes = Self::bytes(&known).await.map_err(|error| self.within(known.number, error))?;
            let info = self.map.info(position).map_or_else(|| Self::info_of(&known, position), Ok)?;
            view_of_source(info, bytes, || Self::location_of(&known).and_then(|at| at.offset).unwrap_or(0))
        };
        read.await.map_err(|error| self.named(error))
    }

    async fn bytes<'s>(known: &Known<'s, M::Index, F::File>) -> Result<Bytes<'s>, MapError<M>> {
        let shard = known.shard;
        match known.place {
            Place::Listed(there) => shard.index().read(shard.source(), there, None).await,
            Place::Bytes(extent) => {
                let (at, len) = (extent.offset(), extent.len());
                shard.source().fetch(extent.range()).await.map_err(|source| Error::Io { at, len, source })
            }
        }
    }

    /// The tensor at a position with its values, checked.
    pub(super) async fn tensor_at_checked(&self, position: usize) -> Result<TensorView<'_>, MapError<M>> {
        let read = async {
            let known = self.known(position).await?;
            let info = self.map.info(position).map_or_else(|| Self::info_of(&known, position), Ok)?;
            let bytes = self.bytes_checked(&known, info, position, Which::Whole).await?;
            view_of_source(info, bytes, || Self::location_of(&known).and_then(|at| at.offset).unwrap_or(0))
        };
        read.await.map_err(|error| self.named(error))
    }

    /// A range of the values of the tensor at a position, checked.
    pub(super) async fn read_range_checked(
        &self,
        position: usize,
        range: Range<u64>,
    ) -> Result<Bytes<'_>, MapError<M>> {
        let read = async {
            let known = self.known(position).await?;
            let info = self.map.info(position).map_or_else(|| Self::info_of(&known, position), Ok)?;
            self.bytes_checked(&known, info, position, Which::range(&info, range)?).await
        };
        read.await.map_err(|error| self.named(error))
    }

    pub(super) async fn bytes_checked<'s>(
        &self,
        known: &Known<'s, M::Index, F::File>,
        info: TensorInfo<'s>,
        position: usize,
        which: Which<'_>,
    ) -> Result<Bytes<'s>, MapError<M>> {
        let &Known { shard, place, number } = known;
        self.check_size(number, shard.source().size())?;
        let mut claims = Claims::new();
        let mut out = claims.for_set_file(number, self.map.part(number));
        let placed = which.wanted(position).into_iter().map(|wanted| Placed { wanted, place });
        let placed: Vec<Placed> = placed.collect();
        let found = self.map.claims(shard.index(), shard.source(), &placed, &mut out).await;
        found.map_err(|error| self.within(number, error))?;
        let (index, source, claims) = (&**shard.index(), shard.source(), &claims);
        let read = Checked { index, source, info, place, file: number, claims };
        read.bytes(which).await.map_err(|error| self.once_within(number, error))
    }

    /// An error within a file, unless it says already in which.
    fn once_within(&self, number: usize, error: MapError<M>) -> MapError<M> {
        let part = self.map.part(number);
        match &error {
            Error::Malformed { part: says, .. } if *says == part => error,
            _ => error.in_file(&part),
        }
    }

    /// A range of the bytes of the tensor at a position.
    pub(super) async fn read_range(
        &self,
        position: usize,
        range: Range<u64>,
    ) -> Result<Bytes<'_>, MapError<M>> {
        let read = async {
            let known = self.known(position).await?;
            let source = known.shard.source();
            let read = match known.place {
                Place::Listed(there) => known.shard.index().read_range(source, there, range).await,
                Place::Bytes(extent) => {
                    let info = self.map.info(position).map_or_else(|| Self::info_of(&known, position), Ok)?;
                    Which::range(&info, range.clone())?;
                    let len = range.end.saturating_sub(range.start);
                    let within = extent.part(range.start, len);
                    let within = within.map_err(|_| Error::out_of_range(&info, range.start, len))?;
                    let at = within.offset();
                    source.fetch(within.range()).await.map_err(|source| Error::Io { at, len, source })
                }
            };
            read.map_err(|error| self.within(known.number, error))
        };
        read.await.map_err(|error| self.named(error))
    }

    /// Fills `out` with the values of the tensor at a position, starting at byte `offset` of the values.
    pub(super) async fn read_into(
        &self,
        position: usize,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), MapError<M>> {
        let read = async {
            let known = self.known(position).await?;
            self.read_from(known.shard.source(), &known, position, offset, out).await
        };
        read.await.map_err(|error| self.named(error))
    }

    /// The same, and `claims` see what is read.
    pub(super) async fn read_into_watched(
        &self,
        position: usize,
        offset: u64,
        out: &mut [u8],
        claims: &Claims,
    ) -> Result<(), MapError<M>> {
        let read = async {
            let known = self.known(position).await?;
            let file = self.one_number(known.number, known.shard);
            let source = ObservedSource::new(known.shard.source(), file, claims);
            self.read_from(&source, &known, position, offset, out).await
        };
        read.await.map_err(|error| self.named(error))
    }

    async fn read_from<S: Fetch>(
        &self,
        source: &S,
        known: &Known<'_, M::Index, F::File>,
        position: usize,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), MapError<M>> {
        let read = match known.place {
            Place::Listed(there) => known.shard.index().read_into(source, there, offset, out).await,
            Place::Bytes(extent) => {
                let len = out.len() as u64;
                let outside = || {
                    let (name, nbytes) = (self.map.name(position).unwrap_or_default(), extent.len());
                    Error::OutOfRange { name: name.to_owned(), offset, len, nbytes }
                };
                let at = extent.part(offset, len).map_err(|_| outside())?.offset();
                source.fetch_into(at, out).await.map_err(|source| Error::Io { at, len, source })
            }
        };
        read.map_err(|error| self.within(known.number, error))
    }

    /// Fills `out` with bytes of a file as they are.
    pub(super) async fn read_file(&self, number: usize, at: u64, out: &mut [u8]) -> Result<(), MapError<M>> {
        let len = out.len() as u64;
        let shard = self.shard(number).await?.as_ref();
        let read = shard.source().fetch_into(at, out).await;
        read.map_err(|source| self.within(number, Error::Io { at, len, source }))
    }

    /// Where a tensor's values lie.
    pub(super) async fn location(&self, position: usize) -> Result<Location, MapError<M>> {
        let known = self.known(position).await?;
        let location = Self::location_of(&known).ok_or_else(|| Error::no_such_position(position))?;
        Ok(Location { file: Some(self.path(known.number).to_owned()), ..location })
    }

    /// The same, with the file as a number.
    pub(super) async fn stored(&self, position: usize) -> Result<Stored, MapError<M>> {
        let known = self.known(position).await?;
        let location = Self::location_of(&known).ok_or_else(|| Error::no_such_position(position))?;
        Ok(Stored::of(self.one_number(known.number, known.shard), &location))
    }

    /// The bytes of its file that are read for a range of a tensor's values.
    pub(super) async fn stored_range(
        &self,
        position: usize,
        values: Range<u64>,
    ) -> Result<Range<u64>, MapError<M>> {
        let known = self.known(position).await?;
        let found = match known.place {
            Place::Listed(there) => {
                known.shard.index().stored_range(known.shard.source(), there, values).await
            }
            Place::Bytes(extent) => {
                let info = self.map.info(position).map_or_else(|| Self::info_of(&known, position), Ok)?;
                let len = values.end.saturating_sub(values.start);
                let part = extent.part(values.start, len);
                part.map(Extent::range).map_err(|_| Error::out_of_range(&info, values.start, len))
            }
        };
        found.map_err(|error| self.within(known.number, error))
    }

    fn location_of(known: &Known<'_, M::Index, F::File>) -> Option<Location> {
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

    /// Where the tensor at a position is: the number of its file, and its place in that.
    ///
    /// # Errors
    /// If there is none at that position, or its file cannot be opened or does not have it.
    pub async fn find(&self, position: usize) -> Result<(usize, Place), MapError<M>> {
        self.known(position).await.map(|known| (known.number, known.place))
    }

    pub(super) async fn known(&self, position: usize) -> Result<Known<'_, M::Index, F::File>, MapError<M>> {
        let number = self.map.shard_of(position)?;
        let shard = self.shard(number).await?.as_ref();
        let place = self.map.place(position, shard.index())?;
        Ok(Known { shard, place, number })
    }

    /// What is stated of the bytes that are read for these tensors; once for a file to which several paths lead.
    pub(super) async fn claims(&self, wanted: &[Wanted]) -> Result<Claims, MapError<M>> {
        let mut all = Vec::with_capacity(wanted.len());
        for wanted in wanted {
            let Known { shard, place, number } = self.known(wanted.position).await?;
            if !M::SIZES_BIND {
                self.check_size(number, shard.source().size())?;
            }
            all.push((self.one_number(number, shard), Placed { wanted: wanted.clone(), place }));
        }
        all.sort_by_key(|&(number, _)| number);
        let mut claims = Claims::new();
        let mut all = all.into_iter().peekable();
        while let Some(&(number, _)) = all.peek() {
            let of_file = std::iter::from_fn(|| all.next_if(|&(other, _)| other == number));
            let of_file: Vec<Placed> = of_file.map(|(_, placed)| placed).collect();
            let shard = self.shard(number).await?.as_ref();
            let mut out = claims.for_set_file(number, self.map.part(number));
            let found = async {
                shard.index().check_index(shard.source(), &mut out).await?;
                self.map.claims(shard.index(), shard.source(), &of_file, &mut out).await
            };
            found.await.map_err(|error| self.within(number, error))?;
        }
        if let Some(number) = self.map.head() {
            let head = self.shard(number).await?.as_ref();
            self.check_size(number, head.source().size())?;
            let checked = self.map.check_head(head, wanted, &mut claims).await;
            checked.map_err(|error| self.within(number, error))?;
        }
        Ok(claims)
    }

    /// The model's metadata, as the format has it.
    pub(super) async fn metadata(&self) -> Result<M::Metadata<'_>, MapError<M>> {
        M::metadata(self).await.map_err(|error| self.named(error))
    }

    /// The metadata of one file of the set, as the format has it.
    ///
    /// # Errors
    /// If the file cannot be opened, or its metadata does not decode.
    pub async fn metadata_of(
        &self,
        number: usize,
    ) -> Result<<M::Index as FileIndex>::Metadata<'_>, MapError<M>> {
        let shard = self.shard(number).await?.as_ref();
        shard.index().metadata(shard.source()).await.map_err(|error| self.within(number, error))
    }

    /// The model's metadata as one tree.
    pub(super) async fn metadata_tree(&self) -> Result<Value, MapError<M>> {
        let Some(number) = self.map.described_by() else { return Ok(self.map.metadata_tree()) };
        let read = async {
            let shard = self.shard(number).await?.as_ref();
            let tree = shard.index().metadata_tree(shard.source()).await;
            tree.map_err(|error| self.within(number, error))
        };
        read.await.map_err(|error| self.named(error))
    }

    /// The model's metadata as one flat list.
    pub(super) async fn flat_metadata(&self) -> Result<Object, MapError<M>> {
        let Some(number) = self.map.described_by() else {
            return Ok(self.map.flatten(self.map.metadata_tree().into_object()));
        };
        let read = async {
            let shard = self.shard(number).await?.as_ref();
            let keys = shard.index().flat_metadata(shard.source()).await;
            keys.map(|keys| self.map.flatten(keys)).map_err(|error| self.within(number, error))
        };
        read.await.map_err(|error| self.named(error))
    }

    /// What is peculiar to the format, and `files`: path and size of each; the size is null for one that cannot be opened.
    pub(super) async fn details(&self) -> Result<Object, MapError<M>> {
        let mut details = match self.map.described_by() {
            Some(number) => self.shard(number).await?.as_ref().index().details(),
            None => Object::new(),
        };
        let mut files = Vec::with_capacity(self.shards.len());
        for number in 0..self.shards.len() {
            let size = self.size(number).await;
            files.push(Object::from_iter([("path", Value::from(self.path(number))), ("size", size.into())]));
        }
        details.insert("files", files.into_iter().collect::<Value>());
        self.map.describe(&mut details);
        Ok(details)
    }

    /// The size of all files. One that cannot be opened, and whose size the index does not state, counts nothing.
    pub(super) async fn file_size(&self) -> u64 {
        let mut sum = self.map.text_len();
        for number in 0..self.shards.len() {
            sum = sum.saturating_add(self.size(number).await.unwrap_or(0));
        }
        sum
    }

    /// The size of a file as the index states it, else as it is; `None` if it cannot be opened.
    async fn size(&self, number: usize) -> Option<u64> {
        match self.map.stated_size(number) {
            Some(stated) => Some(stated),
            None => Some(self.shard(number).await.ok()?.as_ref().index().file_len()),
        }
    }

    /// Checks the index and every file, and reports every finding.
    pub(super) async fn verify(&self, level: VerifyLevel, work: &Execution<'_>) -> Report {
        self.map.verify(self, level, work).await
    }

    fn path(&self, number: usize) -> &str {
        self.map.path(number).unwrap_or_default()
    }

    /// The number by which claims know a file.
    fn one_number(&self, number: usize, shard: &Reader<M::Index, F::File>) -> usize {
        self.shards.one_number(number, shard.source().file_id())
    }

    /// An error with the name of the index.
    pub(super) fn named(&self, error: MapError<M>) -> MapError<M> {
        error.in_source(self.name.as_deref().map(Cow::Borrowed))
    }

    fn within(&self, number: usize, error: MapError<M>) -> MapError<M> {
        error.in_file(&self.map.part(number))
    }
}
