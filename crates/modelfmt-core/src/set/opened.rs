//! Reads a set: finds the file of a tensor, and reads that file like [`OpenFile`].
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::borrow::Cow;
use std::ops::Range;

use tensor_core::{Bytes, TensorInfo};

use super::open::Known;
use super::{MapError, OpenSet, Placed, ShardMap};
use crate::claims::{Claims, ObservedSource, WantedRange};
use crate::error::{AnyError, Error};
use crate::execution::Execution;
use crate::extent::Extent;
use crate::fetch::{Fetch, FetchFiles, now};
use crate::file_index::FileIndex;
use crate::plan::gathered;
use crate::read::{CheckedRead, Opened, OpenedNow, Reading, Which};
use crate::report::{Report, VerifyLevel};
use crate::source::{Files, Source};
use crate::table::{Location, Place, Stored};
use crate::value::{Object, Value};

impl<M: ShardMap, F: FetchFiles> OpenSet<M, F> {
    /// Returns the values of a tensor that its file does not list; the index of the set states its place.
    async fn plain_bytes<'s>(
        &'s self,
        known: &Known<'s, M::Index, F::File>,
        extent: Extent,
        position: usize,
        which: Which<'_>,
    ) -> Result<Bytes<'s>, MapError<M>> {
        let source = known.shard.source();
        let within = match which {
            Which::Whole => extent,
            Which::Range(range) => {
                let info = self.info_in(known, position)?;
                let len = range.end.checked_sub(range.start).unwrap_or(u64::MAX);
                extent.part(range.start, len).map_err(|_| Error::out_of_range(&info, range.start, len))?
            }
            Which::Runs(runs) => {
                let (at, len) = (runs.offset(), runs.nbytes());
                let read =
                    async |at: u64, out: &mut [u8]| self.read_from(source, known, position, at, out).await;
                let failed = |source| Error::Io { at, len, source };
                return gathered(runs, read, failed).await.map(Bytes::Owned);
            }
        };
        let (at, len) = (within.offset(), within.len());
        source.fetch(within.range()).await.map_err(|source| Error::Io { at, len, source })
    }

    /// Returns values, checked against the digests in their file and in the index of the set.
    async fn checked<'s>(
        &self,
        known: &Known<'s, M::Index, F::File>,
        info: TensorInfo<'s>,
        position: usize,
        which: Which<'_>,
    ) -> Result<Bytes<'s>, MapError<M>> {
        let &Known { shard, place, number } = known;
        which.check(&info)?;
        self.check_size(number, shard.source().size())?;
        let mut claims = Claims::new();
        let mut out = claims.for_set_file(number, self.map.part(number));
        let placed = which.wanted(position).into_iter().map(|wanted| Placed { wanted, place });
        let placed: Vec<Placed> = placed.collect();
        let found = self.map.claims(shard.index(), shard.source(), &placed, &mut out).await;
        found.map_err(|error| self.within(number, error))?;
        let (index, source, claims) = (&**shard.index(), shard.source(), &claims);
        let read = CheckedRead { index, source, info, place, file: number, claims };
        read.bytes(which).await.map_err(|error| self.once_within(number, error))
    }

    /// Adds the file of the set in which an error occurred, unless the error already names it.
    fn once_within(&self, number: usize, error: MapError<M>) -> MapError<M> {
        let part = self.map.part(number);
        match &error {
            Error::Malformed { part: says, .. } if *says == part => error,
            _ => error.in_file(&part),
        }
    }

    /// Fills `out` with values of `source`, which is the tensor's file or an observer of it.
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
}

impl<M: ShardMap, F: FetchFiles> Opened for OpenSet<M, F> {
    type Fault = <M::Index as FileIndex>::Fault;
    type Metadata<'a>
        = M::Metadata<'a>
    where
        Self: 'a;

    fn version_text(&self) -> Option<String> {
        self.map.version_text()
    }

    fn tensor_count(&self) -> usize {
        self.map.tensor_count()
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.map.find(name)
    }

    fn name(&self) -> Option<Cow<'_, str>> {
        self.name.as_deref().map(Cow::Borrowed)
    }

    fn file_paths(&self) -> Vec<String> {
        (0..self.map.shard_count()).filter_map(|number| self.map.path(number)).map(str::to_owned).collect()
    }

    async fn file_size(&self) -> u64 {
        let mut sum = self.map.text_len();
        for number in 0..self.shards.len() {
            sum = sum.saturating_add(self.size(number).await.unwrap_or(0));
        }
        sum
    }

    async fn info(&self, position: usize) -> Result<TensorInfo<'_>, MapError<M>> {
        if let Some(info) = self.map.info(position) {
            return Ok(info);
        }
        let known = self.known(position).await?;
        self.info_in(&known, position)
    }

    async fn location(&self, position: usize) -> Result<Location, MapError<M>> {
        let known = self.known(position).await?;
        let location = Self::location_of(&known).ok_or_else(|| Error::no_such_position(position))?;
        Ok(Location { file: Some(self.path(known.number).to_owned()), ..location })
    }

    async fn stored(&self, position: usize) -> Result<Stored, MapError<M>> {
        let known = self.known(position).await?;
        let location = Self::location_of(&known).ok_or_else(|| Error::no_such_position(position))?;
        Ok(Stored::of(self.one_number(known.number, known.shard), &location))
    }

    async fn stored_range(&self, position: usize, values: Range<u64>) -> Result<Range<u64>, MapError<M>> {
        let known = self.known(position).await?;
        let found = match known.place {
            Place::Listed(there) => {
                known.shard.index().stored_range(known.shard.source(), there, values).await
            }
            Place::Bytes(extent) => {
                let info = self.info_in(&known, position)?;
                let len = values.end.saturating_sub(values.start);
                let part = extent.part(values.start, len);
                part.map(Extent::range).map_err(|_| Error::out_of_range(&info, values.start, len))
            }
        };
        found.map_err(|error| self.within(known.number, error))
    }

    async fn values<'a>(
        &'a self,
        position: usize,
        which: Which<'_>,
        reading: Reading<'_>,
    ) -> Result<Bytes<'a>, MapError<M>> {
        let known = self.known(position).await?;
        if reading.is_checked {
            let info = self.info_in(&known, position)?;
            return self.checked(&known, info, position, which).await;
        }
        let read = match known.place {
            Place::Listed(there) => known.shard.values(there, which, reading).await,
            Place::Bytes(extent) => self.plain_bytes(&known, extent, position, which).await,
        };
        read.map_err(|error| self.within(known.number, error))
    }

    async fn values_into(
        &self,
        position: usize,
        at: u64,
        out: &mut [u8],
        claims: Option<&Claims>,
    ) -> Result<(), MapError<M>> {
        let known = self.known(position).await?;
        let source = known.shard.source();
        let Some(claims) = claims else { return self.read_from(source, &known, position, at, out).await };
        let file = self.one_number(known.number, known.shard);
        self.read_from(&ObservedSource::new(source, file, claims), &known, position, at, out).await
    }

    async fn bytes(&self, file: usize, range: Range<u64>) -> Result<Bytes<'_>, MapError<M>> {
        let (at, len) = (range.start, range.end.saturating_sub(range.start));
        let bytes = self.shard(file).await?.source().fetch(range).await;
        bytes.map_err(|source| self.within(file, Error::Io { at, len, source }))
    }

    async fn bytes_into(&self, file: usize, at: u64, out: &mut [u8]) -> Result<(), MapError<M>> {
        let len = out.len() as u64;
        let read = self.shard(file).await?.source().fetch_into(at, out).await;
        read.map_err(|source| self.within(file, Error::Io { at, len, source }))
    }

    /// Adds the claims of a file only once, even if several paths lead to it.
    async fn claims(&self, wanted: &[WantedRange]) -> Result<Claims, MapError<M>> {
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
            let shard = self.shard(number).await?;
            let mut out = claims.for_set_file(number, self.map.part(number));
            let found = async {
                shard.index().check_index(shard.source(), &mut out).await?;
                self.map.claims(shard.index(), shard.source(), &of_file, &mut out).await
            };
            found.await.map_err(|error| self.within(number, error))?;
        }
        if let Some(number) = self.map.head() {
            let head = self.shard(number).await?;
            self.check_size(number, head.source().size())?;
            let checked = self.map.check_head(head, wanted, &mut claims).await;
            checked.map_err(|error| self.within(number, error))?;
        }
        Ok(claims)
    }

    async fn metadata(&self) -> Result<M::Metadata<'_>, MapError<M>> {
        M::metadata(self).await
    }

    async fn metadata_tree(&self) -> Result<Value, MapError<M>> {
        let Some(number) = self.map.described_by() else { return Ok(self.map.metadata_tree()) };
        let shard = self.shard(number).await?;
        let tree = shard.index().metadata_tree(shard.source()).await;
        tree.map_err(|error| self.within(number, error))
    }

    async fn flat_metadata(&self) -> Result<Object, MapError<M>> {
        let Some(number) = self.map.described_by() else {
            return Ok(self.map.flatten(self.map.metadata_tree().into_object()));
        };
        let shard = self.shard(number).await?;
        let keys = shard.index().flat_metadata(shard.source()).await;
        keys.map(|keys| self.map.flatten(keys)).map_err(|error| self.within(number, error))
    }

    /// Returns the format's own details, and `files`: the path and size of each. The size is null for a file
    /// that cannot be opened.
    async fn details(&self) -> Result<Object, MapError<M>> {
        let mut details = match self.map.described_by() {
            Some(number) => self.shard(number).await?.index().details(),
            None => Object::new(),
        };
        let mut files = Vec::with_capacity(self.shards.len());
        for number in 0..self.shards.len() {
            let size = self.size(number).await;
            files.push(Object::from_iter([("path", Value::from(self.path(number))), ("size", size.into())]));
        }
        details.insert("files", files.into_iter().collect::<Value>());
        for number in (0..self.shards.len()).filter(|_| M::HAS_DETAILS_OF_FILES) {
            if let Ok(shard) = self.shard(number).await {
                M::describe_file(shard.index(), &mut details);
            }
        }
        self.map.describe(&mut details);
        Ok(details)
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for number in 0..self.shards.len() {
            if let Ok(Some(shard)) = self.shards.known(number) {
                let path = self.path(number);
                warnings.extend(shard.index().warnings().into_iter().map(|text| format!("{path}: {text}")));
            }
        }
        warnings
    }

    async fn verify(&self, level: VerifyLevel, work: &Execution<'_>) -> Report {
        self.map.verify(self, level, work).await
    }
}

impl<M: ShardMap, F: Files> OpenedNow for OpenSet<M, F> {
    fn prepare(&self, position: usize) {
        if let Ok(number) = self.map.shard_of(position) {
            let _ = self.shard_now(number);
        }
    }

    fn info_now(&self, position: usize) -> Result<TensorInfo<'_>, MapError<M>> {
        if let Some(info) = self.map.info(position) {
            return Ok(info);
        }
        self.prepare(position);
        now(self.info(position))
    }

    fn as_slice(&self) -> Option<&[u8]> {
        None
    }

    fn source_of(&self, file: usize) -> Result<&dyn Source, AnyError> {
        let shard = self.shard_now(file).map_err(|error| AnyError::from(self.named(error)))?;
        Ok(shard.source())
    }
}

impl<M: ShardMap, F: Files> OpenSet<M, F> {
    /// Returns a file of the set, opened if necessary. Threads that need the same file wait for the one that
    /// opens it.
    pub(super) fn shard_now(&self, number: usize) -> Result<&super::Shard<M, F::Source>, MapError<M>> {
        if number < self.shards.len() {
            return self.shards.get(number, || now(self.open(number)));
        }
        now(self.shard(number))
    }
}
