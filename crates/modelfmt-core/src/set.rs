//! One reader for all sharded models: a map of names to files, and files that are opened when a tensor is asked for.

use std::borrow::Cow;
#[cfg(not(target_arch = "wasm32"))]
use std::path::Path;
use std::sync::Arc;

use crate::claims::{Claims, Watched};
use crate::container::Container;
use crate::error::{AnyError, CommonFault, Error, Part};
use crate::execution::Execution;
use crate::fetch::now;
use crate::file_index::FileIndex;
use crate::limits::Limits;
use crate::names::NameTable;
use crate::options::OpenOptions;
use crate::parts::Parts;
use crate::reader::Reader;
use crate::report::{Report, VerifyLevel};
#[cfg(not(target_arch = "wasm32"))]
use crate::source::{FileSource, Folder};
use crate::source::{Files, Source};
use crate::table::Location;
use crate::value::{Object, Value};
use tensor_core::Bytes;
use tensor_core::TensorInfo;
use tensor_core::TensorView;

/// What the index of a sharded model says: which tensors there are, and which file has each. [`SetReader`] adds the files.
pub trait ShardMap: Sized {
    /// The index of each of its files.
    type Index: FileIndex;

    /// What the format calls one of its files, in errors.
    const SHARD: &'static str;

    /// Parses the text of the index.
    ///
    /// # Errors
    /// The first rule that it breaks.
    fn parse(text: &[u8], limits: &Limits) -> Result<Self, MapError<Self>>;

    /// The length of the text in bytes.
    fn text_len(&self) -> u64;

    /// The names of the tensors, in order.
    fn names(&self) -> &NameTable;

    /// The number of the file that has the tensor at a position.
    fn home(&self, position: usize) -> Option<usize>;

    /// The number of files.
    fn shard_count(&self) -> usize;

    /// The path of a file, as the index names it.
    fn path(&self, number: usize) -> Option<&str>;

    /// The size of a file in bytes, if the index states it.
    fn size(&self, number: usize) -> Option<u64>;

    /// What [`Container::version`] says.
    fn version_text(&self) -> Option<String>;

    /// What [`Container::metadata`] says.
    ///
    /// # Errors
    /// If it stands in a file that cannot be opened.
    fn metadata_tree<F: Files>(set: &SetReader<Self, F>) -> Result<Value, MapError<Self>>;

    /// What [`Container::details`] says; the list of files is added to it.
    ///
    /// # Errors
    /// As [`metadata_tree`](Self::metadata_tree).
    fn details<F: Files>(set: &SetReader<Self, F>) -> Result<Object, MapError<Self>>;

    /// Checks the index and every file, and reports every finding.
    fn verify<F: Files>(set: &SetReader<Self, F>, level: VerifyLevel, work: &Execution<'_>) -> Report;
}

/// The files of a set.
type Shards<I, S> = Parts<Reader<I, S>, I, <I as FileIndex>::Fault>;

/// The error of a set's format.
pub type MapError<M> = Error<<<M as ShardMap>::Index as FileIndex>::Fault>;

fn default_options<M: ShardMap>() -> OpenOptions {
    OpenOptions::new(M::Index::default_limits())
}

/// An open sharded model. Each format crate has it under its own name, with its own map.
///
/// The index of a set says neither dtypes nor shapes: those of a tensor are known once its file has been opened, which
/// happens when one of its tensors is asked for. [`open_all`](Self::open_all) opens them all.
#[derive(Debug)]
pub struct SetReader<M: ShardMap, F: Files> {
    map: Arc<M>,
    files: F,
    options: OpenOptions,
    shards: Shards<M::Index, F::Source>,
    /// What errors call the index.
    name: Option<String>,
}

#[cfg(not(target_arch = "wasm32"))]
impl<M: ShardMap> SetReader<M, Folder> {
    /// Opens the set whose index stands at `path`; its files stand in the same folder.
    ///
    /// # Errors
    /// If the index cannot be read or breaks a rule.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, MapError<M>> {
        Self::open_with(path, &default_options::<M>())
    }

    /// As [`open`](Self::open), with options of your own.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self, MapError<M>> {
        let path = path.as_ref();
        let failed = |source| Error::Open { path: path.display().to_string(), source };
        let source = FileSource::open(path).map_err(failed)?;
        Self::from_source(&source, Folder::of(path), options)
    }
}

impl<M: ShardMap, F: Files> SetReader<M, F> {
    /// Opens the set whose index is the file `index` of `files`.
    ///
    /// # Errors
    /// If the index cannot be read or breaks a rule.
    pub fn from_files(files: F, index: &str) -> Result<Self, MapError<M>> {
        let failed = |source| Error::Open { path: index.to_owned(), source };
        let source = files.open(index).map_err(failed)?;
        Self::from_source(&source, files, &default_options::<M>())
    }

    /// Opens the set whose index is what `source` holds, and whose files `files` opens.
    ///
    /// # Errors
    /// As [`from_files`](Self::from_files).
    pub fn from_source(
        source: &(impl Source + ?Sized),
        files: F,
        options: &OpenOptions,
    ) -> Result<Self, MapError<M>> {
        let map = Self::map_of(source, options.limits_ref());
        let map = map.map_err(|error| error.in_source(source.name()))?;
        let name = source.name().map(Cow::into_owned);
        Ok(Self { name, ..Self::with_index(Arc::new(map), files, options.clone()) })
    }

    fn map_of(source: &(impl Source + ?Sized), limits: &Limits) -> Result<M, MapError<M>> {
        let len = source.len();
        Limits::check("the length of the index of the set", len, limits.index_len)?;
        let text = source.read(0..len).map_err(|source| Error::Io { at: 0, len, source })?;
        M::parse(&text, limits)
    }

    /// Opens a set whose index is known; reads nothing.
    #[must_use]
    pub fn with_index(map: Arc<M>, files: F, options: OpenOptions) -> Self {
        let shards = Parts::new(map.shard_count());
        Self { map, files, options, shards, name: None }
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

    /// A file of the set, opened if it is not yet; counted from 0. One that cannot be opened is tried once.
    ///
    /// # Errors
    /// If there is none of that number, it cannot be opened, has another size than the index says, or breaks a rule.
    pub fn shard(&self, number: usize) -> Result<&Reader<M::Index, F::Source>, MapError<M>> {
        let path = self.map.path(number);
        let path = path.ok_or_else(|| Error::NotFound { name: format!("{} number {number}", M::SHARD) })?;
        self.shards.get(number, || self.open_shard(number, path))
    }

    fn open_shard(&self, number: usize, path: &str) -> Result<Reader<M::Index, F::Source>, MapError<M>> {
        let source = self.files.open(path).map_err(|source| Error::Open { path: path.to_owned(), source })?;
        let found = source.len();
        if let Some(stated) = self.map.size(number).filter(|&stated| stated != found) {
            let fault = CommonFault::ShardSize { found, stated }.into();
            return Err(Error::Malformed { part: self.part(number), at: 0, fault });
        }
        let index = self.shards.index(&source, |source| Reader::index_of(source, &self.options));
        index.and_then(|index| Reader::with_index(index, source)).map_err(|error| self.within(number, error))
    }

    /// Opens every file and looks for every tensor.
    ///
    /// # Errors
    /// That of the first file that cannot be opened, and the first tensor that its file does not have.
    pub fn open_all(&self) -> Result<(), MapError<M>> {
        let mut files = 0..self.shards.len();
        let mut tensors = 0..self.map.names().len();
        let opened = files.try_for_each(|number| self.shard(number).map(|_| ()));
        let found = opened.and_then(|()| tensors.try_for_each(|position| self.known(position).map(|_| ())));
        found.map_err(|error| self.named(error))
    }

    /// The tensor at a position; opens its file if that is not open yet.
    ///
    /// # Errors
    /// If there is none at that position, or its file cannot be opened or does not have it.
    pub fn info(&self, position: usize) -> Result<TensorInfo<'_>, MapError<M>> {
        let (shard, there, _) = self.known(position).map_err(|error| self.named(error))?;
        shard.tensors().info(there).ok_or_else(|| Error::no_such_position(position))
    }

    /// The tensors in the order of the index; opens their files.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = Result<TensorInfo<'_>, MapError<M>>> {
        (0..self.map.names().len()).map(|position| self.info(position))
    }

    /// The position of the tensor of that name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<usize> {
        self.map.names().find(name)
    }

    /// The tensor of that name with its values: as [`Reader::tensor`].
    ///
    /// # Errors
    /// As [`tensor_at`](Self::tensor_at).
    pub fn tensor(&self, name: &str) -> Result<TensorView<'_>, MapError<M>> {
        match self.find(name) {
            Some(position) => self.tensor_at(position),
            None => Err(self.named(Error::NotFound { name: name.to_owned() })),
        }
    }

    /// The tensor at a position with its values.
    ///
    /// # Errors
    /// As [`info`](Self::info), and as [`Reader::tensor`].
    pub fn tensor_at(&self, position: usize) -> Result<TensorView<'_>, MapError<M>> {
        let read = self.known(position).and_then(|(shard, there, number)| {
            shard.tensor_at(there).map_err(|error| self.within(number, error))
        });
        read.map_err(|error| self.named(error))
    }

    /// Fills `out` with the values of the tensor at a position, from byte `offset` of them on.
    ///
    /// # Errors
    /// As [`info`](Self::info), and as [`Reader::read_into`].
    pub fn read_into(&self, position: usize, offset: u64, out: &mut [u8]) -> Result<(), MapError<M>> {
        let read = self.known(position).and_then(|(shard, there, number)| {
            shard.read_into(there, offset, out).map_err(|error| self.within(number, error))
        });
        read.map_err(|error| self.named(error))
    }

    /// Checks the index and every file, on all cores, and reports every finding.
    pub fn verify(&self, level: VerifyLevel) -> Report {
        self.verify_with(level, &Execution::default())
    }

    /// As [`verify`](Self::verify), with the work done as `work` says.
    pub fn verify_with(&self, level: VerifyLevel, work: &Execution<'_>) -> Report {
        M::verify(self, level, work)
    }

    fn path(&self, number: usize) -> &str {
        self.map.path(number).unwrap_or_default()
    }

    fn part(&self, number: usize) -> Part {
        Part::entry(M::SHARD, number as u64).with_name(self.path(number))
    }

    /// An error with the name of the index.
    fn named<E>(&self, error: Error<E>) -> Error<E> {
        error.in_source(self.name.as_deref().map(Cow::Borrowed))
    }

    fn within(&self, number: usize, error: MapError<M>) -> MapError<M> {
        error.in_file(&self.part(number))
    }

    /// The reader that has the tensor at a position, its position there, and the number of the file.
    #[allow(clippy::type_complexity, reason = "three numbers of one thing")]
    fn known(&self, position: usize) -> Result<(&Reader<M::Index, F::Source>, usize, usize), MapError<M>> {
        let found = self.map.names().name(position).zip(self.map.home(position));
        let (name, number) = found.ok_or_else(|| Error::no_such_position(position))?;
        let shard = self.shard(number)?;
        match shard.tensors().find(name) {
            Some(there) => Ok((shard, there, number)),
            None => {
                let fault = CommonFault::NotInShard(name.to_owned()).into();
                Err(Error::Malformed { part: self.part(number), at: 0, fault })
            }
        }
    }

    /// The size of a file as the index states it, else as it is; `None` if it cannot be opened.
    fn size(&self, number: usize) -> Option<u64> {
        self.map.size(number).or_else(|| Some(self.shard(number).ok()?.index().file_len()))
    }
}

impl<M: ShardMap, F: Files> Container for SetReader<M, F> {
    fn version(&self) -> Option<String> {
        self.map.version_text()
    }

    /// As the index states the sizes of the files; where it does not, each is opened, and counts nothing if it cannot be.
    fn file_size(&self) -> u64 {
        let sizes = (0..self.shards.len()).filter_map(|number| self.size(number));
        sizes.fold(self.map.text_len(), u64::saturating_add)
    }

    fn tensor_count(&self) -> usize {
        self.map.names().len()
    }

    /// Opens the tensor's file; `None` also if that cannot be done ([`SetReader::open_all`] says why).
    fn info(&self, tensor: usize) -> Option<TensorInfo<'_>> {
        Self::info(self, tensor).ok()
    }

    fn find(&self, name: &str) -> Option<usize> {
        Self::find(self, name)
    }

    fn file_paths(&self) -> Vec<String> {
        (0..self.shards.len()).map(|number| self.path(number).to_owned()).collect()
    }

    fn location(&self, tensor: usize) -> Result<Location, AnyError> {
        let (shard, there, number) = self.known(tensor).map_err(Error::erase)?;
        let location = shard.index().location(there).ok_or_else(|| Error::no_such_position(tensor))?;
        Ok(Location { file: Some(self.path(number).to_owned()), ..location })
    }

    fn read(&self, tensor: usize) -> Result<Bytes<'_>, AnyError> {
        self.tensor_at(tensor).map(TensorView::into_bytes).map_err(Error::erase)
    }

    fn read_into(&self, tensor: usize, offset: u64, out: &mut [u8]) -> Result<(), AnyError> {
        Self::read_into(self, tensor, offset, out).map_err(Error::erase)
    }

    fn read_into_checked(
        &self,
        tensor: usize,
        offset: u64,
        out: &mut [u8],
        claims: &Claims,
    ) -> Result<(), AnyError> {
        let (shard, there, number) = self.known(tensor).map_err(Error::erase)?;
        let file = self.shards.one_number(number, shard.source());
        let source = Watched::new(shard.source(), file, claims);
        let read = shard.index().read_into(&source, there, offset, out);
        now(read).map_err(|error| self.within(number, error).erase())
    }

    fn read_file(&self, file: usize, at: u64, out: &mut [u8]) -> Result<(), AnyError> {
        let len = out.len() as u64;
        let shard = self.shard(file).map_err(Error::erase)?;
        let read = shard.source().read_into(at, out);
        read.map_err(|source| self.within(file, Error::Io { at, len, source }).erase())
    }

    /// Those of each file that has some of the tensors; once for a file to which several paths lead.
    fn claims(&self, tensors: &[usize]) -> Result<Claims, AnyError> {
        let mut homes = Vec::with_capacity(tensors.len());
        for &tensor in tensors {
            let (shard, there, number) = self.known(tensor).map_err(Error::erase)?;
            homes.push((self.shards.one_number(number, shard.source()), there));
        }
        homes.sort_unstable();
        let mut claims = Claims::new();
        for of_file in homes.chunk_by(|(a, _), (b, _)| a == b) {
            let Some(&(number, _)) = of_file.first() else { continue };
            let positions: Vec<usize> = of_file.iter().map(|&(_, there)| there).collect();
            let shard = self.shard(number).map_err(Error::erase)?;
            let mut of_file = claims.of_set_file(number, self.part(number));
            let found = now(M::Index::claims(shard.index(), shard.source(), &positions, &mut of_file));
            found.map_err(|error| self.within(number, error).erase())?;
        }
        Ok(claims)
    }

    fn metadata(&self) -> Result<Value, AnyError> {
        M::metadata_tree(self).map_err(Error::erase)
    }

    /// The format's own, and `files`: path and size of each; the size is null for one that cannot be opened.
    fn details(&self) -> Result<Value, AnyError> {
        let mut details = M::details(self).map_err(Error::erase)?;
        let files = (0..self.shards.len()).map(|number| {
            Object::from_iter([("path", Value::from(self.path(number))), ("size", self.size(number).into())])
        });
        details.insert("files", files.collect::<Value>());
        Ok(details.into())
    }

    fn verify(&self, level: VerifyLevel, work: &Execution<'_>) -> Report {
        self.verify_with(level, work)
    }
}
