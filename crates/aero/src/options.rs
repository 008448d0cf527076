//! The options for writing a file.

use std::collections::BTreeMap;
use std::sync::Arc;

use modelfmt_core::value::Object;
use modelfmt_core::{CommonFault, Part};

use crate::chunk_writer::{DEFAULT_LEVEL, NewChunk};
use crate::error::WriteError;
use crate::msgpack;
use crate::tidx::{EntryExtra, Pairs};

/// The default limit on the length of a shard.
pub const DEFAULT_SHARD_SIZE: u64 = 2 << 30;

/// The default limit on the number of shards in a part of a set.
#[cfg(feature = "set")]
const DEFAULT_SHARDS_PER_PART: u64 = 4;

/// Options for writing a file.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    pub(crate) shard_size: u64,
    #[cfg(feature = "set")]
    pub(crate) part_size: Option<u64>,
    #[cfg(feature = "set")]
    pub(crate) shards_per_part: u64,
    pub(crate) reserve: u64,
    pub(crate) control_hash: bool,
    pub(crate) page_hashes: Option<u64>,
    pub(crate) tensor_hashes: bool,
    pub(crate) uuid: Option<[u8; 16]>,
    pub(crate) zstd: Option<i32>,
    pub(crate) chunks: Vec<(NewChunk, Vec<u8>)>,
    pub(crate) model: Option<(String, String)>,
    /// The MessagePack of each tensor's parameters, by the tensor's name.
    pub(crate) quant_params: Arc<BTreeMap<String, Vec<u8>>>,
    pub(crate) extras: Extras,
    /// For each tensor that shares the bytes of another: its name, and the name of the other tensor.
    pub(crate) ties: Arc<BTreeMap<String, String>>,
}

/// The caller's additions to the keys of the specification.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extras {
    /// Additions to index entries, by tensor name.
    pub(crate) tensors: Arc<BTreeMap<String, EntryExtra>>,
    /// Keys at the top of the tensor index.
    pub(crate) index: Pairs,
    /// Keys in the manifest.
    pub(crate) manifest: Object,
    /// Keys at the end of the index of a set.
    #[cfg(feature = "set")]
    pub(crate) set: Object,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            shard_size: DEFAULT_SHARD_SIZE,
            #[cfg(feature = "set")]
            part_size: None,
            #[cfg(feature = "set")]
            shards_per_part: DEFAULT_SHARDS_PER_PART,
            reserve: 0,
            control_hash: false,
            page_hashes: None,
            tensor_hashes: false,
            uuid: None,
            zstd: Some(DEFAULT_LEVEL),
            chunks: Vec::new(),
            model: None,
            quant_params: Arc::default(),
            extras: Extras::default(),
            ties: Arc::default(),
        }
    }
}

impl WriteOptions {
    /// Creates the default options: shards of at most 2 GiB, index and manifest compressed at level 3, a
    /// random identity, and only the hashes that every file has (one per chunk).
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Limits the length of a shard in bytes. A larger tensor gets its own shard.
    #[must_use]
    pub const fn shard_size(mut self, nbytes: u64) -> Self {
        self.shard_size = nbytes;
        self
    }

    /// For a set: limits the bytes of weights in a part, and thereby the length of its shards. A larger
    /// tensor gets its own part. Without this, only [`shards_per_part`](Self::shards_per_part) limits a part.
    #[cfg(feature = "set")]
    #[must_use]
    pub const fn part_size(mut self, nbytes: u64) -> Self {
        self.part_size = Some(nbytes);
        self
    }

    /// For a set: limits the number of shards in a part; 4 by default.
    #[cfg(feature = "set")]
    #[must_use]
    pub const fn shards_per_part(mut self, shards: u64) -> Self {
        self.shards_per_part = shards;
        self
    }

    /// Leaves this many bytes before the first shard of each file, for edits in place
    /// ([`Index::edit`](crate::Index::edit)).
    #[must_use]
    pub const fn reserve(mut self, nbytes: u64) -> Self {
        self.reserve = nbytes;
        self
    }

    /// Sets whether to write a hash of the header, the TOC and the names (IHSH).
    #[must_use]
    pub const fn control_hash(mut self, write: bool) -> Self {
        self.control_hash = write;
        self
    }

    /// Sets the page length in bytes for hashes of the pages of each shard (PHSH), or `None` to write none.
    /// [`DEFAULT_PAGE_SIZE`](crate::DEFAULT_PAGE_SIZE) is usual.
    #[must_use]
    pub const fn page_hashes(mut self, page_size: Option<u64>) -> Self {
        self.page_hashes = page_size;
        self
    }

    /// Sets whether to write a hash of each tensor (`hash_b3`).
    #[must_use]
    pub const fn tensor_hashes(mut self, write: bool) -> Self {
        self.tensor_hashes = write;
        self
    }

    /// Sets the file's UUID; random by default. The same input with the same identity gives the same bytes
    /// (docs/formats/aero.md#identity).
    #[must_use]
    pub const fn uuid(mut self, uuid: [u8; 16]) -> Self {
        self.uuid = Some(uuid);
        self
    }

    /// Sets the zstd level of the index and the manifest. `None` leaves them uncompressed.
    #[must_use]
    pub const fn zstd(mut self, level: Option<i32>) -> Self {
        self.zstd = level;
        self
    }

    /// Adds a chunk of your own, at the end of the TOC.
    #[must_use]
    pub fn chunk(mut self, chunk: NewChunk, content: impl Into<Vec<u8>>) -> Self {
        self.chunks.push((chunk, content.into()));
        self
    }

    /// Sets the name and architecture for the manifest, for metadata that have no strings under `model_name`
    /// or `architecture`. In metadata from another format, these can be objects.
    #[must_use]
    pub fn model(mut self, name: impl Into<String>, architecture: impl Into<String>) -> Self {
        self.model = Some((name.into(), architecture.into()));
        self
    }

    /// Sets the `quant_params` of a tensor. For [`DType::Packed`](crate::DType::Packed), they are what its
    /// codec needs to know. ggml's block types have default parameters; yours replace them, and must have the
    /// same `ggml_type`.
    ///
    /// # Errors
    /// [`WriteError::Unsupported`] if MessagePack cannot hold them, because they nest deeper than 127 levels.
    pub fn quant_params(mut self, tensor: &str, params: &Object) -> Result<Self, WriteError> {
        let part = || Part::named("tensor", tensor).with_field("quant_params");
        let unfit =
            |text| WriteError::Unsupported { part: part(), fault: CommonFault::Metadata(text).into() };
        let bytes = msgpack::encode(params).map_err(unfit)?;
        Arc::make_mut(&mut self.quant_params).insert(tensor.to_owned(), bytes);
        Ok(self)
    }

    /// Adds to a tensor's index entry: sets its `flags`, which version 0.1 writes as 0, and adds keys of your
    /// own.
    ///
    /// # Errors
    /// [`WriteError::Unsupported`] if MessagePack cannot hold the values, or a key belongs to the
    /// specification.
    pub fn tensor_keys(mut self, tensor: &str, flags: u64, keys: &Object) -> Result<Self, WriteError> {
        let part = || Part::named("tensor", tensor);
        let unfit =
            |text| WriteError::Unsupported { part: part(), fault: CommonFault::Metadata(text).into() };
        if let Some(known) = keys.keys().find(|key| crate::tidx::KEYS.contains(key)) {
            return Err(unfit(format!("the key {known:?} is written without this")));
        }
        let pairs = Pairs::of(keys).map_err(unfit)?;
        Arc::make_mut(&mut self.extras.tensors).insert(tensor.to_owned(), EntryExtra { flags, pairs });
        Ok(self)
    }

    /// Adds keys of your own to the top of the tensor index, and to the manifest.
    ///
    /// # Errors
    /// [`WriteError::Unsupported`] if MessagePack cannot hold the values, or a key belongs to the
    /// specification.
    pub fn own_keys(mut self, index: &Object, manifest: Object) -> Result<Self, WriteError> {
        let known = index.keys().filter(|key| *key == "tensors");
        let known = known.chain(manifest.keys().filter(|key| crate::manifest::KEYS.contains(key)));
        let taken = known.map(|key| format!("the key {key:?} is written without this")).next();
        let unfit = |text| unfit_metadata("tensor index", text);
        taken.map_or(Ok(()), |text| Err(unfit(text)))?;
        self.extras.index = Pairs::of(index).map_err(unfit)?;
        self.extras.manifest = manifest;
        Ok(self)
    }

    /// Returns the options for a part of a set, without the caller's chunks and keys. Those go into the file
    /// that lists all tensors.
    #[cfg(feature = "set")]
    pub(crate) fn of_part(&self) -> Self {
        let tensors = Arc::clone(&self.extras.tensors);
        Self { chunks: Vec::new(), extras: Extras { tensors, ..Extras::default() }, ..self.clone() }
    }

    pub(crate) fn identity(&self) -> Result<[u8; 16], WriteError> {
        self.uuid.map_or_else(random_uuid, Ok)
    }

    /// Makes the tensor `tensor` share the bytes of the tensor `of`, which must come before it and have the
    /// same length. The bytes are stored once: both index entries have the same shard, offset and length, and
    /// only the values of `of` are requested.
    ///
    /// In a set, this has no effect, because the bytes of each tensor must be in a file that lists it.
    #[must_use]
    pub fn tie(mut self, tensor: impl Into<String>, of: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.ties).insert(tensor.into(), of.into());
        self
    }
}

#[cfg(all(feature = "uuid", not(target_arch = "wasm32")))]
#[allow(clippy::unnecessary_wraps, reason = "without the feature there is none")]
fn random_uuid() -> Result<[u8; 16], WriteError> {
    Ok(uuid::Uuid::new_v4().into_bytes())
}

#[cfg(not(all(feature = "uuid", not(target_arch = "wasm32"))))]
const fn random_uuid() -> Result<[u8; 16], WriteError> {
    Err(WriteError::Unsupported { part: Part::new("identity (UUID)"), fault: crate::error::Fault::NoUuid })
}

pub(crate) fn unfit_metadata(what: &'static str, text: String) -> WriteError {
    WriteError::Unsupported { part: Part::new(what), fault: CommonFault::Metadata(text).into() }
}
