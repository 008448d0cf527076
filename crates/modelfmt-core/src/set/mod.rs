//! Models of several files: an index that says which file has which tensor, and files that are opened when a tensor is
//! asked for.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod open;
mod opened;
mod reader;

use std::borrow::Cow;
use std::future::{Future, ready};
use std::io;
use std::path::Path;
use std::sync::Arc;

use tensor_core::TensorInfo;

pub use self::open::{OpenSet, Shard};
use crate::claims::{Claims, FileClaims, Wanted};
use crate::error::{CommonFault, Error, Part};
use crate::execution::Execution;
use crate::fetch::{Fetch, FetchFiles};
use crate::file_index::FileIndex;
use crate::limits::Limits;
use crate::read::OpenFile;
use crate::report::{Report, VerifyLevel};
use crate::settings::OpenSettings;
use crate::table::Place;
use crate::value::{Object, Value};

/// The index of a set: which files and tensors there are, and which file has which tensor. [`OpenSet`] opens the files and does
/// the reading.
///
/// The provided methods fit an index that has only the names of tensors, and whose files list their tensors.
pub trait ShardMap: Sized {
    /// The index of each of its files.
    type Index: FileIndex;

    /// The model's metadata type, which the writer of sets takes too.
    type Metadata<'a>
    where
        Self: 'a;

    /// The word for one of its files, in errors.
    const SHARD: &'static str;

    /// Whether a file whose size differs from the one that the index states is refused when it is opened. If not, the sizes are
    /// compared before a checked read.
    const SIZES_BIND: bool = true;

    /// The path of the index, if a user may name the folder that holds it instead.
    ///
    /// # Errors
    /// If the folder cannot be listed, or has no index or several.
    fn index_path(path: &Path) -> io::Result<Cow<'_, Path>> {
        Ok(Cow::Borrowed(path))
    }

    /// Parses the text of the index.
    ///
    /// # Errors
    /// The first rule that it breaks.
    fn parse(text: &[u8], limits: &Limits) -> Result<Self, MapError<Self>>;

    /// Reads the index from `source`, which is the file `name` of `files`. A format whose sets have no index file of their own
    /// looks at the other files instead.
    ///
    /// # Errors
    /// If it cannot be read; the first rule that it breaks.
    fn read<F: FetchFiles>(
        source: &(impl Fetch + ?Sized),
        name: &str,
        files: &F,
        settings: &OpenSettings,
    ) -> impl Future<Output = Result<Self, MapError<Self>>> {
        let _ = (name, files);
        let (len, limits) = (source.size(), settings.limits_ref());
        async move {
            Limits::check("the length of the index of the set", len, limits.index_len)?;
            let text = source.fetch(0..len).await.map_err(|source| Error::Io { at: 0, len, source })?;
            Self::parse(&text, limits)
        }
    }

    /// The settings for one file, if the index adds something to those of the set.
    fn shard_settings(&self, number: usize, settings: OpenSettings) -> OpenSettings {
        let _ = number;
        settings
    }

    /// Whether the index says which content each file must have. Then two files never share one index, even if they are the same
    /// file on disk.
    fn binds_content(&self) -> bool {
        false
    }

    /// The length of the text in bytes.
    fn text_len(&self) -> u64;

    /// The number of files.
    fn shard_count(&self) -> usize;

    /// The path of a file, as the index names it.
    fn path(&self, number: usize) -> Option<&str>;

    /// The size of a file in bytes, if the index states it.
    fn stated_size(&self, number: usize) -> Option<u64>;

    /// The index of a file, if reading the set's index has parsed it already and it satisfies these settings.
    fn shard_index(&self, number: usize, settings: &OpenSettings) -> Option<Arc<Self::Index>> {
        let _ = (number, settings);
        None
    }

    /// The part of the set that a file is, for errors.
    fn part(&self, number: usize) -> Part {
        Part::entry(Self::SHARD, number as u64).with_name(self.path(number).unwrap_or_default())
    }

    /// The head: a file that lists the tensors of all files. It is opened with the set, and its index is passed to
    /// [`set_head`](Self::set_head). Without a head, the text of the index lists the tensors.
    fn head(&self) -> Option<usize> {
        None
    }

    /// Takes the index of the [`head`](Self::head).
    fn set_head(&mut self, index: Arc<Self::Index>) {
        let _ = index;
    }

    /// The number of tensors.
    fn tensor_count(&self) -> usize;

    /// The name of the tensor at a position.
    fn name(&self, position: usize) -> Option<&str>;

    /// The position of the tensor with that name.
    fn find(&self, name: &str) -> Option<usize>;

    /// The tensor at a position, if the index has its dtype and shape. If not, the tensor's file has to be opened.
    fn info(&self, position: usize) -> Option<TensorInfo<'_>> {
        let _ = position;
        None
    }

    /// The number of the file that has the tensor at a position.
    ///
    /// # Errors
    /// If there is no tensor at that position, or no file has it.
    fn shard_of(&self, position: usize) -> Result<usize, MapError<Self>>;

    /// Where the tensor at a position is in its file, whose index is `shard`.
    ///
    /// # Errors
    /// If the file does not have it, or has a different tensor of the same name.
    fn place(&self, position: usize, shard: &Self::Index) -> Result<Place, MapError<Self>> {
        let number = self.shard_of(position)?;
        let name = self.name(position).ok_or_else(|| Error::no_such_position(position))?;
        match shard.tensors().find(name) {
            Some(there) => Ok(Place::Listed(there)),
            None => {
                let fault = CommonFault::NotInShard(name.to_owned()).into();
                Err(Error::Malformed { part: self.part(number), at: 0, fault })
            }
        }
    }

    /// The version, as [`Container::version`](crate::Container::version) returns it.
    fn version_text(&self) -> Option<String>;

    /// The metadata of the model, as the format has it.
    ///
    /// # Errors
    /// If it is in a file that cannot be opened, or does not decode.
    fn metadata<F: FetchFiles>(
        set: &OpenSet<Self, F>,
    ) -> impl Future<Output = Result<Self::Metadata<'_>, MapError<Self>>>;

    /// The file whose metadata and details are also the model's. If there is none, [`metadata_tree`](Self::metadata_tree) has
    /// them.
    fn described_by(&self) -> Option<usize> {
        None
    }

    /// The metadata in the text of the index, as [`Container::metadata`](crate::Container::metadata) returns it.
    fn metadata_tree(&self) -> Value {
        Value::Null
    }

    /// The flat metadata of the model, made from the metadata of the file or text that describes it.
    fn flatten(&self, keys: Object) -> Object {
        keys
    }

    /// The details of the set other than the list of files, as [`Container::details`](crate::Container::details) returns them.
    fn details(&self) -> Object {
        Object::new()
    }

    /// Turns the details of the file that [describes](Self::described_by) the set into those of the set. By default, inserts
    /// [`details`](Self::details).
    fn describe(&self, details: &mut Object) {
        for (key, value) in &self.details() {
            details.insert(key, value.clone());
        }
    }

    /// Whether the details of the set include something of each file. Then all files are opened for them.
    const HAS_DETAILS_OF_FILES: bool = false;

    /// Adds to the details of the set those of one file, if [`HAS_DETAILS_OF_FILES`](Self::HAS_DETAILS_OF_FILES) is true.
    fn describe_file(_: &Self::Index, _: &mut Object) {}

    /// Adds the digests that cover the bytes that are read of one file for these tensors. By default, these are the digests in
    /// that file, for the tensors that it lists.
    ///
    /// # Errors
    /// If the digests cannot be read.
    fn claims<S: Fetch>(
        &self,
        shard: &Arc<Self::Index>,
        source: &S,
        placed: &[Placed],
        out: &mut FileClaims<'_>,
    ) -> impl Future<Output = Result<(), MapError<Self>>> {
        let listed = |placed: &Placed| match placed.place {
            Place::Listed(there) => Some(Wanted { position: there, ..placed.wanted.clone() }),
            Place::Bytes(_) => None,
        };
        let wanted: Vec<Wanted> = placed.iter().filter_map(listed).collect();
        async move { Self::Index::claims(shard, source, &wanted, out).await }
    }

    /// Checks the head, and notes what is not checked in the files that have these tensors.
    ///
    /// # Errors
    /// If the head is damaged, or belongs to another version of the model.
    fn check_head<S: Fetch>(
        &self,
        head: &OpenFile<Self::Index, S>,
        wanted: &[Wanted],
        claims: &mut Claims,
    ) -> impl Future<Output = Result<(), MapError<Self>>> {
        let _ = (head, wanted, claims);
        ready(Ok(()))
    }

    /// Checks the index and every file of `set`, which was opened with this index, and reports every finding.
    fn verify<F: FetchFiles>(
        &self,
        set: &OpenSet<Self, F>,
        level: VerifyLevel,
        work: &Execution<'_>,
    ) -> impl Future<Output = Report>;
}

/// A tensor that is going to be read, and where it is in its file.
#[derive(Clone, Debug)]
pub struct Placed {
    /// The tensor, by its position in the set.
    pub wanted: Wanted,
    /// Where it is.
    pub place: Place,
}

/// The error type of a set's format.
pub type MapError<M> = Error<<<M as ShardMap>::Index as FileIndex>::Fault>;
