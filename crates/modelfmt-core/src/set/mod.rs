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

/// What the index of a set says: which files there are, which tensors, and which file has each. [`OpenSet`] opens the files and does the
/// reading.
///
/// The provided methods fit an index that names tensors and no more, and whose files list what they have.
pub trait ShardMap: Sized {
    /// The index of each of its files.
    type Index: FileIndex;

    /// The metadata of the model, typed: what the writer of sets takes too.
    type Metadata<'a>
    where
        Self: 'a;

    /// What the format calls one of its files, in errors.
    const SHARD: &'static str;

    /// Whether a file of another size than the index states is refused when it is opened. Where it is not, the sizes are
    /// compared before values are read that have to be checked.
    const SIZES_BIND: bool = true;

    /// The path of the index, where a user may name the folder that it is in.
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

    /// Reads the index, the file `name` of `files`, which is `source`. A format whose sets have no text of their own looks at
    /// the other files for what it would say.
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

    /// How a file is opened, where the index says more of it than the settings of the set.
    fn shard_settings(&self, number: usize, settings: OpenSettings) -> OpenSettings {
        let _ = number;
        settings
    }

    /// Whether the index says which content each file must have, so that no file is taken for another by its identity.
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

    /// The index of a file, if reading that of the set has parsed it already, and these settings demand nothing else of it.
    fn shard_index(&self, number: usize, settings: &OpenSettings) -> Option<Arc<Self::Index>> {
        let _ = (number, settings);
        None
    }

    /// A file, as errors name it.
    fn part(&self, number: usize) -> Part {
        Part::entry(Self::SHARD, number as u64).with_name(self.path(number).unwrap_or_default())
    }

    /// The file that lists the tensors of all files. It is opened with the set, and [`set_head`](Self::set_head) takes what
    /// it says. Without it, the text of the index lists them.
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

    /// The position of the tensor of that name.
    fn find(&self, name: &str) -> Option<usize>;

    /// The tensor at a position, if the index says its dtype and shape; else the tensor's file has to be opened for that.
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
    /// If the file does not have it, or has another of the same name.
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

    /// What [`Container::version`](crate::Container::version) says.
    fn version_text(&self) -> Option<String>;

    /// The metadata of the model, as the format has it.
    ///
    /// # Errors
    /// If it is in a file that cannot be opened, or does not decode.
    fn metadata<F: FetchFiles>(
        set: &OpenSet<Self, F>,
    ) -> impl Future<Output = Result<Self::Metadata<'_>, MapError<Self>>>;

    /// The file whose metadata and details are also the model's; without it, [`metadata_tree`](Self::metadata_tree) has
    /// them.
    fn described_by(&self) -> Option<usize> {
        None
    }

    /// The metadata in the text of the index, as [`Container::metadata`](crate::Container::metadata) says it.
    fn metadata_tree(&self) -> Value {
        Value::Null
    }

    /// The flat metadata of the model, made from the metadata of the file or text that describes it.
    fn flatten(&self, keys: Object) -> Object {
        keys
    }

    /// What [`Container::details`](crate::Container::details) says beside the list of files.
    fn details(&self) -> Object {
        Object::new()
    }

    /// Makes the details of the file that [describes](Self::described_by) the set those of the set: unless a format knows better, by putting
    /// [`details`](Self::details) in.
    fn describe(&self, details: &mut Object) {
        for (key, value) in &self.details() {
            details.insert(key, value.clone());
        }
    }

    /// Whether the details of the set say something of each file that it has: then all are opened for them.
    const HAS_DETAILS_OF_FILES: bool = false;

    /// Adds to the details of the set what one of its files has, if [`HAS_DETAILS_OF_FILES`](Self::HAS_DETAILS_OF_FILES) says so.
    fn describe_file(_: &Self::Index, _: &mut Object) {}

    /// Adds what is stated of the bytes that are read of one file for these tensors: of what the file lists, what the
    /// file says.
    ///
    /// # Errors
    /// If what is stated cannot be read.
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

    /// Checks the head, and notes what is not checked of the files that have these tensors.
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

    /// Checks the index and every file of `set`, which was opened by this index, and reports every finding.
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

/// The error of a set's format.
pub type MapError<M> = Error<<<M as ShardMap>::Index as FileIndex>::Fault>;
