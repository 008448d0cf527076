//! Plans a file from the descriptions of its tensors: every offset and length. Checks everything and writes
//! nothing.
//! writes nothing.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use modelfmt_core::value::{Object, json};
use modelfmt_core::{
    CommonFault, DType, Part, TensorTable,
    author::{NewTensor, align_up},
};
use modelfmt_write::TensorSpec;

use crate::chunk_writer::{DEFAULT_LEVEL, Layout, NewChunk, Stored};
use crate::error::{Fault, WriteError};
use crate::manifest::{ListedShard, manifest};
use crate::msgpack;
use crate::options::{Extras, WriteOptions, unfit_metadata};
use crate::origin::{SOURCE_FORMAT, is_from_gguf};
use crate::pages::PageHashes;
use crate::tidx::{NewEntry, put_head};
use crate::tied_tensors::Ties;
use crate::wire::{ChunkFlags, FourCC, MAX_METADATA_ULEN, WEIGHT_ALIGNMENT, can_hold, code_of, shard_name};

/// A file to write. Everything is known except the values and their hashes.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The tensors, with offsets within their shards.
    pub(crate) tensors: TensorTable,
    pub(crate) shards: Vec<Shard>,
    /// The position, in the whole model, of the first tensor. Values are requested by positions in the model.
    pub(crate) first_tensor: usize,
    pub(crate) ties: Ties,
    /// The places of all chunks, except for a tensor index that has hashes.
    pub(crate) layout: Layout,
    /// The payloads that are already known, by chunk.
    pub(crate) payloads: Vec<(usize, Stored)>,
    /// The chunk of the tensor index, if its payload is not known yet.
    pub(crate) hashed_tidx: Option<usize>,
    quants: Vec<DType>,
    quant_params: Arc<BTreeMap<String, Vec<u8>>>,
    extras: Extras,
    pub(crate) page_size: Option<u64>,
    pub(crate) level: i32,
    uuid: [u8; 16],
    /// Whether the tensor index is compressed.
    compressed: bool,
    /// Whether the shards are in this file.
    pub(crate) holds_shards: bool,
}

/// A shard to write.
#[derive(Clone, Debug)]
pub(crate) struct Shard {
    pub(crate) id: u64,
    pub(crate) tensors: Range<usize>,
    pub(crate) len: u64,
    /// The chunk of the shard, and the chunk of its page hashes.
    pub(crate) chunk: usize,
    pub(crate) pages: Option<usize>,
}

/// The input of a plan for one file of a set.
pub(crate) struct Parts<'a> {
    pub(crate) tensors: TensorTable,
    pub(crate) shards: Vec<Shard>,
    pub(crate) first_tensor: usize,
    pub(crate) json: Option<&'a Object>,
    pub(crate) model: (&'a str, &'a str),
    /// Whether the shards are in this file.
    pub(crate) holds_shards: bool,
    /// The hashes of the tensors, if they are known.
    pub(crate) hashes: Option<&'a [[u8; 32]]>,
}

impl Plan {
    /// Lays out a file with the tensors in the given order and `metadata` as its MJSN.
    ///
    /// `metadata` must have the strings `model_name` and `architecture`, which the manifest needs, unless
    /// [`WriteOptions::model`] provides them. ggml's block types become packed tensors with their
    /// `ggml_type`.
    ///
    /// # Errors
    /// [`WriteError::Unsupported`] for what AERO cannot hold: a dtype without a code, a tensor without data,
    /// a duplicate name, more metadata than the limits allow. Also for a shard or page size of 0, and if this
    /// build cannot make a random identity or use zstd and one of them is needed.
    pub fn new<'a>(
        specs: impl IntoIterator<Item = TensorSpec<'a>>,
        metadata: &Object,
        options: &WriteOptions,
    ) -> Result<Self, WriteError> {
        let model = model_of(metadata, options)?;
        let mut tensors = table_of(specs)?;
        let ties = Ties::of(&tensors, &options.ties)?;
        let shards = tied_shards_of(&mut tensors, &ties, options.shard_size, 0)?;
        let parts = Parts {
            tensors,
            shards,
            first_tensor: 0,
            json: Some(metadata),
            model,
            holds_shards: true,
            hashes: None,
        };
        Self::of_tied_parts(parts, ties, options)
    }

    #[cfg(feature = "set")]
    pub(crate) fn of_parts(parts: Parts<'_>, options: &WriteOptions) -> Result<Self, WriteError> {
        Self::of_tied_parts(parts, Ties::default(), options)
    }

    fn of_tied_parts(parts: Parts<'_>, ties: Ties, options: &WriteOptions) -> Result<Self, WriteError> {
        if options.page_hashes == Some(0) {
            return Err(WriteError::Unsupported { part: Part::new("page size"), fault: Fault::Zero });
        }
        let quants = quants_of(&parts.tensors);
        let uuid = options.identity()?;
        let mut chunks = ChunkList::new(&parts, options);
        let mut plan = Self {
            layout: Layout::new(uuid, std::mem::take(&mut chunks.list))?,
            tensors: parts.tensors,
            shards: chunks.shards,
            first_tensor: parts.first_tensor,
            ties,
            payloads: Vec::new(),
            hashed_tidx: None,
            quants,
            quant_params: Arc::clone(&options.quant_params),
            extras: options.extras.clone(),
            page_size: options.page_hashes,
            level: options.zstd.unwrap_or(DEFAULT_LEVEL),
            uuid,
            compressed: options.zstd.is_some(),
            holds_shards: parts.holds_shards,
        };
        if let Some((json, chunk)) = parts.json.zip(chunks.mjsn) {
            plan.put(chunk, json_bytes(json)?)?;
        }
        plan.put(chunks.mmsg, plan.manifest_bytes(&chunks.roles, parts.model, parts.holds_shards)?)?;
        if options.tensor_hashes && parts.holds_shards {
            plan.check_index_len(chunks.tidx)?;
            plan.hashed_tidx = Some(chunks.tidx);
        } else {
            plan.put(chunks.tidx, plan.index_bytes(parts.hashes))?;
        }
        if parts.holds_shards {
            plan.layout.skip(options.reserve);
            plan.place_shards()?;
        }
        for (chunk, (_, content)) in (chunks.first_own..).zip(&options.chunks) {
            plan.put(chunk, content.clone())?;
        }
        Ok(plan)
    }

    fn put(&mut self, chunk: usize, content: Vec<u8>) -> Result<(), WriteError> {
        let stored = Stored::new(self.layout.chunk(chunk)?, content, self.level)?;
        self.layout.place(chunk, stored.bytes.len() as u64, stored.ulen)?;
        self.payloads.push((chunk, stored));
        Ok(())
    }

    fn place_shards(&mut self) -> Result<(), WriteError> {
        for shard in &self.shards {
            self.layout.place(shard.chunk, shard.len, shard.len)?;
        }
        let Some(page_size) = self.page_size else { return Ok(()) };
        for shard in &self.shards {
            let Some(chunk) = shard.pages else { continue };
            let pages = shard.len.div_ceil(page_size);
            let len = PageHashes::encoded_len(&shard_name(shard.id), page_size, pages);
            self.layout.place(chunk, len, len)?;
        }
        Ok(())
    }

    fn manifest_bytes(
        &self,
        roles: &[(&str, &str, u64)],
        (name, architecture): (&str, &str),
        holds_shards: bool,
    ) -> Result<Vec<u8>, WriteError> {
        let mut shards: Vec<_> = self
            .shards
            .iter()
            .filter(|_| holds_shards)
            .map(|shard| ListedShard {
                shard_id: shard.id,
                toc_index: shard.chunk as u64,
                size_bytes: shard.len,
                tensor_count: 0,
            })
            .collect();
        for position in 0..self.tensors.len() {
            shards.get_mut(self.shard_of(position)).into_iter().for_each(|shard| shard.tensor_count += 1);
        }
        let quants: Vec<_> =
            self.quants.iter().map(|dtype| (dtype.ggml_type().unwrap_or_default(), dtype.name())).collect();
        let mut tree = manifest(name, architecture, roles, &shards, &quants);
        tree.extend(self.extras.manifest.clone());
        msgpack::encode(&tree).map_err(|text| unfit_metadata("manifest", text))
    }

    /// Returns the position of the shard that has a tensor's bytes.
    fn shard_of(&self, position: usize) -> usize {
        let position = self.ties.tied_to(position).unwrap_or(position);
        self.shards.partition_point(|shard| shard.tensors.end <= position)
    }

    /// Encodes the tensor index, with these hashes if given.
    pub(crate) fn index_bytes(&self, hashes: Option<&[[u8; 32]]>) -> Vec<u8> {
        let mut out = Vec::new();
        // The table holds at most 2^32 − 1 tensors.
        put_head(&mut out, u32::try_from(self.tensors.len()).unwrap_or(u32::MAX), &self.extras.index);
        for listed in &self.shards {
            for position in listed.tensors.clone() {
                let shard = self.shards.get(self.shard_of(position)).unwrap_or(listed);
                let Some(info) = self.tensors.info(position) else { continue };
                let quant = self.quants.iter().position(|&dtype| dtype == info.dtype);
                let entry = NewEntry {
                    name: info.name,
                    dtype: code_of(info.dtype).unwrap_or_default(),
                    shape: info.shape,
                    shard_id: shard.id,
                    data_off: self.tensors.offset(position).unwrap_or_default(),
                    data_len: info.nbytes,
                    quant: quant.and_then(|id| Some((id as u64, info.dtype.ggml_type()?))),
                    quant_params: self.quant_params.get(info.name).map(Vec::as_slice),
                    extra: self.extras.tensors.get(info.name),
                    hash_b3: hashes.and_then(|hashes| hashes.get(position).copied()),
                };
                entry.put(&mut out);
            }
        }
        out
    }

    /// Checks, before the values are written, that the index will not be too long.
    fn check_index_len(&self, chunk: usize) -> Result<(), WriteError> {
        // The key hash_b3 and 64 digits.
        const HASH_LEN: u64 = 1 + 7 + 2 + 64;
        let found = self.index_bytes(None).len() as u64 + HASH_LEN * self.tensors.len() as u64;
        if found <= MAX_METADATA_ULEN {
            return Ok(());
        }
        let part = Part::named("chunk", &self.layout.chunk(chunk)?.name);
        Err(WriteError::Unsupported { part, fault: Fault::TooMuch { found, max: MAX_METADATA_ULEN } })
    }

    /// Returns the tensors in the order in which they will be written.
    #[must_use]
    pub const fn tensors(&self) -> &TensorTable {
        &self.tensors
    }

    /// Returns the file's identity.
    #[must_use]
    pub const fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// Returns the length of the file in bytes. Returns `None` if the length depends on how well an index
    /// with hashes of the values compresses.
    #[must_use]
    pub fn file_len(&self) -> Option<u64> {
        match self.hashed_tidx {
            None => Some(self.layout.end()),
            Some(_) if self.compressed => None,
            Some(chunk) => {
                let placeholder = vec![[0; 32]; self.tensors.len()];
                let len = self.index_bytes(Some(&placeholder)).len() as u64;
                let mut layout = self.layout.clone();
                layout.place(chunk, len, len).ok()?;
                Some(layout.end())
            }
        }
    }
}

/// The chunks of a model, in TOC order.
struct ChunkList {
    list: Vec<NewChunk>,
    mjsn: Option<usize>,
    mmsg: usize,
    tidx: usize,
    shards: Vec<Shard>,
    /// The position of the first chunk that the caller has added.
    first_own: usize,
    /// The metadata chunks for the manifest: role, type, position in the TOC.
    roles: Vec<(&'static str, &'static str, u64)>,
}

impl ChunkList {
    fn new(parts: &Parts<'_>, options: &WriteOptions) -> Self {
        let zstd = if options.zstd.is_some() { ChunkFlags::COMPRESSED_ZSTD } else { ChunkFlags::default() };
        let mut list = Vec::new();
        let mut add = |fourcc, name: &str, flags| {
            list.push(NewChunk::new(fourcc, name).with_flags(flags));
            list.len() - 1
        };
        let mut roles = Vec::new();
        if options.control_hash {
            add(FourCC::IHSH, "ihsh", ChunkFlags::CHUNK_IS_OPTIONAL);
        }
        let mjsn = parts.json.map(|_| add(FourCC::MJSN, "meta.json", ChunkFlags::default()));
        roles.extend(mjsn.map(|chunk| ("json", "MJSN", chunk as u64)));
        let mmsg = add(FourCC::MMSG, "manifest", zstd);
        roles.push(("manifest", "MMSG", mmsg as u64));
        let tidx = add(FourCC::TIDX, "tensors", zstd.with(ChunkFlags::CHUNK_IS_INDEX));
        roles.push(("tensors", "TIDX", tidx as u64));
        let mut shards = parts.shards.clone();
        if parts.holds_shards {
            for shard in &mut shards {
                shard.chunk = add(FourCC::WTSH, &shard_name(shard.id), ChunkFlags::CHUNK_IS_MMAP_CRITICAL);
            }
            // An empty shard has no page, and aerotensor refuses page hashes without one.
            let has_pages = |shard: &&mut Shard| options.page_hashes.is_some() && shard.len > 0;
            for shard in shards.iter_mut().filter(has_pages) {
                let name = PageHashes::chunk_name(&shard_name(shard.id));
                shard.pages = Some(add(FourCC::PHSH, &name, ChunkFlags::CHUNK_IS_OPTIONAL));
            }
        }
        let first_own = list.len();
        list.extend(options.chunks.iter().map(|(chunk, _)| chunk.clone()));
        Self { list, mjsn, mmsg, tidx, shards, first_own, roles }
    }
}

/// Returns `model_name` and `architecture`, which the manifest needs.
pub(crate) fn model_of<'a>(
    metadata: &'a Object,
    options: &'a WriteOptions,
) -> Result<(&'a str, &'a str), WriteError> {
    let text = |key: &'static str, given: Option<&'a String>| {
        let part = Part::new("metadata").with_field(key);
        let found = metadata.required_str(key).ok().or_else(|| given.map(String::as_str));
        found.ok_or(WriteError::Unsupported { part, fault: Fault::NoModelKey })
    };
    let (name, architecture) =
        options.model.as_ref().map(|(name, architecture)| (name, architecture)).unzip();
    Ok((text("model_name", name)?, text("architecture", architecture)?))
}

/// Encodes metadata as JSON, with sorted keys and no insignificant white space
/// (docs/formats/aero.md#what-we-write).
fn json_bytes(metadata: &Object) -> Result<Vec<u8>, WriteError> {
    if is_from_gguf(metadata) {
        let part = Part::new("metadata").with_field(SOURCE_FORMAT);
        return Err(WriteError::Unsupported { part, fault: Fault::SourceFormat });
    }
    let text =
        json::to_string_sorted(metadata).map_err(|error| unfit_metadata("metadata", error.to_string()))?;
    Ok(text.into_bytes())
}

/// Makes a table of the tensors, and checks each of them.
pub(crate) fn table_of<'a>(
    specs: impl IntoIterator<Item = TensorSpec<'a>>,
) -> Result<TensorTable, WriteError> {
    let mut tensors = TensorTable::default();
    for spec in specs {
        let unfit = |fault| WriteError::Unsupported { part: Part::named("tensor", &spec.name), fault };
        if !spec.has_data {
            return Err(unfit(Fault::Declared));
        }
        if !can_hold(spec.dtype) {
            return Err(unfit(Fault::NoCode(spec.dtype)));
        }
        // A tensor that readers refuse by default (modelfmt_core::Limits) is not written.
        for (found, max) in [(spec.name.len() as u64, 65_535), (spec.shape.len() as u64, 255)] {
            if found > max {
                return Err(unfit(Fault::TooMuch { found, max }));
            }
        }
        let tensor = NewTensor {
            name: &spec.name,
            dtype: spec.dtype,
            offset: Some(0),
            packed_nbytes: spec.packed_nbytes,
        };
        tensors.push(tensor, spec.shape.iter().copied()).map_err(|fault| unfit(fault.into()))?;
    }
    Ok(tensors)
}

/// Divides tensors into shards, in order. A tensor that would exceed the limit on the current shard starts a
/// new one (docs/formats/aero.md#what-we-write).
#[cfg(feature = "set")]
pub(crate) fn shards_of(
    tensors: &mut TensorTable,
    cap: u64,
    first_id: u64,
) -> Result<Vec<Shard>, WriteError> {
    tied_shards_of(tensors, &Ties::default(), cap, first_id)
}

/// Divides tensors into shards like [`shards_of`]. Tensors that share the bytes of another get no space of
/// their own.
fn tied_shards_of(
    tensors: &mut TensorTable,
    ties: &Ties,
    cap: u64,
    first_id: u64,
) -> Result<Vec<Shard>, WriteError> {
    if cap == 0 {
        return Err(WriteError::Unsupported { part: Part::new("shard size"), fault: Fault::Zero });
    }
    let mut shards: Vec<Shard> = Vec::new();
    let (mut begin, mut len) = (0, 0u64);
    let shard = |shards: &[Shard], tensors, len| {
        let id = first_id.saturating_add(shards.len() as u64);
        Shard { id, tensors, len, chunk: 0, pages: None }
    };
    for position in 0..tensors.len() {
        if let Some(offset) = ties.tied_to(position).and_then(|other| tensors.offset(other)) {
            tensors.set_offset(position, offset);
            continue;
        }
        let Some(info) = tensors.info(position) else { continue };
        let placed = align_up(len, WEIGHT_ALIGNMENT).and_then(|at| Some((at, at.checked_add(info.nbytes)?)));
        let (mut offset, mut end) = placed.unwrap_or((u64::MAX, u64::MAX));
        if position > begin && end > cap {
            shards.push(shard(&shards, begin..position, len));
            (begin, offset, end) = (position, 0, info.nbytes);
        }
        if i64::try_from(end).is_err() {
            let fault = CommonFault::OutOfBounds { offset: len, len: info.nbytes, end: i64::MAX as u64 };
            return Err(WriteError::Unsupported {
                part: Part::named("tensor", info.name),
                fault: fault.into(),
            });
        }
        tensors.set_offset(position, offset);
        len = end;
    }
    if tensors.len() > begin {
        shards.push(shard(&shards, begin..tensors.len(), len));
    }
    Ok(shards)
}

/// Returns ggml's block types among the tensors, in the order of their first use. A type's position in the
/// list is its `quant_id` (docs/formats/aero.md#packed-tensors).
fn quants_of(tensors: &TensorTable) -> Vec<DType> {
    let mut quants = Vec::new();
    for info in tensors.iter().filter(|info| info.dtype.is_quantized()) {
        if !quants.contains(&info.dtype) {
            quants.push(info.dtype);
        }
    }
    quants
}
