//! Models of several files: an index that maps tensors to files, and the files, which are opened when a
//! tensor is read.
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
use crate::claims::{Claims, FileClaims, WantedRange};
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

/// The index of a set: the files, the tensors, and which file has which tensor. [`OpenSet`] opens the files
/// and implements all reads.
///
/// The provided methods are for an index that has only the names of tensors, and whose files list their
/// tensors.
pub trait ShardMap: Sized {
    /// The type of the index of each file.
    type Index: FileIndex;

    /// The model's metadata type, which the writer of sets also takes.
    type Metadata<'a>
    where
        Self: 'a;

    /// The term for one of the files, in errors.
    const SHARD: &'static str;

    /// Whether a file is refused on opening if its size differs from the one that the index states. If not,
    /// the sizes are compared before a checked read.
    const SIZES_BIND: bool = true;

    /// Returns the path of the index. A user may name the folder that contains it instead.
    ///
    /// # Errors
    /// If the folder cannot be listed, or has no index or several.
    fn index_path(path: &Path) -> io::Result<Cow<'_, Path>> {
        Ok(Cow::Borrowed(path))
    }

    /// Parses the text of the index.
    ///
    /// # Errors
    /// The first rule that the text breaks.
    fn parse(text: &[u8], limits: &Limits) -> Result<Self, MapError<Self>>;

    /// Reads the index from `source`, which is the file `name` of `files`. A format whose sets have no
    /// separate index file reads the other files instead.
    ///
    /// # Errors
    /// If the index cannot be read; the first rule that it breaks.
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

    /// Returns the settings for one file, if the index adds something to those of the set.
    fn shard_settings(&self, number: usize, settings: OpenSettings) -> OpenSettings {
        let _ = number;
        settings
    }

    /// Returns whether the index specifies the content of each file. Then two files never share one parsed
    /// index, even if they are the same file on disk.
    fn binds_content(&self) -> bool {
        false
    }

    /// Returns the length of the index text in bytes.
    fn text_len(&self) -> u64;

    /// Returns the number of files.
    fn shard_count(&self) -> usize;

    /// Returns the path of a file, as the index names it.
    fn path(&self, number: usize) -> Option<&str>;

    /// Returns the size of a file in bytes, if the index states it.
    fn stated_size(&self, number: usize) -> Option<u64>;

    /// Returns the index of a file, if reading the set's index has already parsed it and it satisfies these
    /// settings.
    fn shard_index(&self, number: usize, settings: &OpenSettings) -> Option<Arc<Self::Index>> {
        let _ = (number, settings);
        None
    }

    /// Returns the part that names a file of the set in errors.
    fn part(&self, number: usize) -> Part {
        Part::entry(Self::SHARD, number as u64).with_name(self.path(number).unwrap_or_default())
    }

    /// Returns the number of the head: a file that lists the tensors of all files. It is opened with the set,
    /// and its index is passed to [`set_head`](Self::set_head). Without a head, the text of the index lists
    /// the tensors.
    fn head(&self) -> Option<usize> {
        None
    }

    /// Stores the index of the [`head`](Self::head).
    fn set_head(&mut self, index: Arc<Self::Index>) {
        let _ = index;
    }

    /// Returns the number of tensors.
    fn tensor_count(&self) -> usize;

    /// Returns the name of the tensor at a position.
    fn name(&self, position: usize) -> Option<&str>;

    /// Returns the position of the tensor with this name.
    fn find(&self, name: &str) -> Option<usize>;

    /// Returns the tensor at a position, if the index has its dtype and shape. If not, the tensor's file must
    /// be opened.
    fn info(&self, position: usize) -> Option<TensorInfo<'_>> {
        let _ = position;
        None
    }

    /// Returns the number of the file that has the tensor at a position.
    ///
    /// # Errors
    /// If there is no tensor at that position, or no file has it.
    fn shard_of(&self, position: usize) -> Result<usize, MapError<Self>>;

    /// Returns the place of the tensor at a position in its file, whose index is `shard`.
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

    /// Returns the version: see [`Container::version`](crate::Container::version).
    fn version_text(&self) -> Option<String>;

    /// Returns the metadata of the model in the type of the format.
    ///
    /// # Errors
    /// If the metadata is in a file that cannot be opened, or does not decode.
    fn metadata<F: FetchFiles>(
        set: &OpenSet<Self, F>,
    ) -> impl Future<Output = Result<Self::Metadata<'_>, MapError<Self>>>;

    /// Returns the file whose metadata and details are also the model's. If there is none,
    /// [`metadata_tree`](Self::metadata_tree) returns them.
    fn described_by(&self) -> Option<usize> {
        None
    }

    /// Returns the metadata in the text of the index: see
    /// [`Container::metadata`](crate::Container::metadata).
    fn metadata_tree(&self) -> Value {
        Value::Null
    }

    /// Returns the flat metadata of the model, computed from the metadata of the file or text that describes
    /// it.
    fn flatten(&self, keys: Object) -> Object {
        keys
    }

    /// Returns the details of the set other than the list of files: see
    /// [`Container::details`](crate::Container::details).
    fn details(&self) -> Object {
        Object::new()
    }

    /// Converts the details of the file that [describes](Self::described_by) the set to those of the set. By
    /// default, inserts [`details`](Self::details).
    fn describe(&self, details: &mut Object) {
        for (key, value) in &self.details() {
            details.insert(key, value.clone());
        }
    }

    /// Whether the details of the set include details of each file. Then all files are opened for them.
    const HAS_DETAILS_OF_FILES: bool = false;

    /// Adds the details of one file to those of the set, if
    /// [`HAS_DETAILS_OF_FILES`](Self::HAS_DETAILS_OF_FILES) is true.
    fn describe_file(_: &Self::Index, _: &mut Object) {}

    /// Adds the digests that cover the bytes of one file that are read for these tensors. By default, these
    /// are the digests in that file, for the tensors that it lists.
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
            Place::Listed(there) => Some(WantedRange { position: there, ..placed.wanted.clone() }),
            Place::Bytes(_) => None,
        };
        let wanted: Vec<WantedRange> = placed.iter().filter_map(listed).collect();
        async move { Self::Index::claims(shard, source, &wanted, out).await }
    }

    /// Checks the head, and adds notes on what is not checked in the files that have these tensors.
    ///
    /// # Errors
    /// If the head is damaged, or belongs to another version of the model.
    fn check_head<S: Fetch>(
        &self,
        head: &OpenFile<Self::Index, S>,
        wanted: &[WantedRange],
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
    pub wanted: WantedRange,
    /// The place in the file.
    pub place: Place,
}

/// The error type of a set's format.
pub type MapError<M> = Error<<<M as ShardMap>::Index as FileIndex>::Fault>;
