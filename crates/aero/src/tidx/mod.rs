//! The tensor index (TIDX). Decodes its entries without an allocation for each, and encodes them.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod fields;
mod parse;
mod write;

use modelfmt_core::value::{Object, Value};
use modelfmt_core::{CommonFault, TensorTable};

use crate::chunks::Chunk;
use crate::error::{Error, Fault, Result};
use crate::msgpack::{self, DEPTH, put_map};

pub(crate) use fields::KEYS;
pub(crate) use parse::{Context, Parsed, parse};
pub(crate) use write::{EntryExtra, NewEntry, Pairs, put_head};

/// The rest of an entry of the tensor index: everything except name, dtype and shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The shard that holds the values: the chunk `weights.shard{N}`.
    pub shard_id: u64,
    /// The offset of the values in the shard.
    pub data_off: u64,
    /// The number of bytes of the values, including the padding after them in a file that was converted from
    /// GGUF.
    pub data_len: u64,
    /// The entry's flags, which version 0.1 writes as 0.
    pub flags: u64,
    /// The index into the manifest's `quant_descriptors`.
    pub quant_id: Option<u64>,
    /// BLAKE3-256 of the values.
    pub hash_b3: Option<[u8; 32]>,
}

/// The tensors of the index: a flat table, and separate lists for fields that only few tensors have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tensors {
    /// The tensors; their offsets are `data_off`.
    pub(crate) table: TensorTable,
    shards: Vec<u64>,
    /// Position and `data_len` of the tensors that have padding after their values, in order.
    padded: Vec<(u32, u64)>,
    /// The hash of each tensor, zero if `hash_states` says that there is none. Empty if no tensor has one.
    hashes: Vec<[u8; 32]>,
    hash_states: Vec<HashState>,
    /// The rare fields of the tensors that have any, in order.
    notes: Vec<Note>,
    /// The bytes that the notes refer to.
    note_bytes: Vec<u8>,
    /// The pairs other than `tensors` at the top of the index, one after another.
    top: Vec<u8>,
    top_pairs: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HashState {
    Absent,
    Good,
    /// The hash is not 64 lower-case hex digits.
    Malformed,
}

/// The rare fields of a tensor. Ranges are within `note_bytes`.
#[derive(Clone, Copy, Debug, Default)]
struct Note {
    position: u32,
    flags: u64,
    quant_id: Option<u64>,
    quant_params: (u32, u32),
    /// The pairs under keys that the specification does not define, one after another.
    unknown: (u32, u32),
    unknown_pairs: u32,
}

impl Tensors {
    #[inline]
    pub(crate) fn shard_id(&self, position: usize) -> Option<u64> {
        self.shards.get(position).copied()
    }

    pub(crate) fn entry(&self, position: usize) -> Option<Entry> {
        let note = self.note(position).unwrap_or_default();
        Some(Entry {
            shard_id: self.shard_id(position)?,
            data_off: self.table.offset(position)?,
            data_len: self.data_len(position)?,
            flags: note.flags,
            quant_id: note.quant_id,
            hash_b3: self.hash(position).ok().flatten(),
        })
    }

    /// Returns the number of bytes of a tensor, including the padding after its values.
    fn data_len(&self, position: usize) -> Option<u64> {
        let number = u32::try_from(position).ok()?;
        match self.padded.binary_search_by_key(&number, |&(number, _)| number) {
            Ok(found) => self.padded.get(found).map(|&(_, data_len)| data_len),
            Err(_) => Some(self.table.info(position)?.nbytes),
        }
    }

    /// Returns the `hash_b3` of a tensor. Fails if it is not a valid hash.
    pub(crate) fn hash(&self, position: usize) -> Result<Option<[u8; 32]>, Fault> {
        match self.hash_states.get(position) {
            Some(HashState::Good) => Ok(self.hashes.get(position).copied()),
            Some(HashState::Malformed) => Err(Fault::HashText),
            Some(HashState::Absent) | None => Ok(None),
        }
    }

    pub(crate) fn has_hashes(&self) -> bool {
        !self.hash_states.is_empty()
    }

    /// Returns the `quant_params` of a tensor.
    pub(crate) fn quant_params(&self, position: usize) -> Option<Value> {
        let note = self.note(position)?;
        let bytes = self.bytes(note.quant_params);
        // The bytes were checked when the file was opened.
        if bytes.is_empty() { None } else { msgpack::decode(bytes, DEPTH, u64::MAX).ok() }
    }

    /// Returns the values under keys that the specification does not define.
    pub(crate) fn unknown(&self, position: usize) -> Result<Object, String> {
        let Some(note) = self.note(position) else { return Ok(Object::new()) };
        object_of(note.unknown_pairs, self.bytes(note.unknown))
    }

    /// Returns the values other than `tensors` at the top of the index.
    pub(crate) fn top(&self) -> Result<Object, String> {
        object_of(self.top_pairs, &self.top)
    }

    /// Keeps a pair at the top of the index other than `tensors`.
    fn keep_top(&mut self, pair: &[u8]) {
        self.top.extend(pair);
        self.top_pairs = self.top_pairs.saturating_add(1);
    }

    pub(crate) fn heap_size(&self) -> usize {
        self.table
            .heap_size()
            .saturating_add(self.shards.capacity().saturating_mul(size_of::<u64>()))
            .saturating_add(self.padded.capacity().saturating_mul(size_of::<(u32, u64)>()))
            .saturating_add(self.hashes.capacity().saturating_mul(32))
            .saturating_add(self.hash_states.capacity())
            .saturating_add(self.notes.capacity().saturating_mul(size_of::<Note>()))
            .saturating_add(self.note_bytes.capacity())
            .saturating_add(self.top.capacity())
    }

    fn note(&self, position: usize) -> Option<Note> {
        let position = u32::try_from(position).ok()?;
        let found = self.notes.binary_search_by_key(&position, |note| note.position).ok()?;
        self.notes.get(found).copied()
    }

    fn bytes(&self, (start, len): (u32, u32)) -> &[u8] {
        let rest = self.note_bytes.get(start as usize..);
        rest.and_then(|rest| rest.get(..len as usize)).unwrap_or_default()
    }

    /// Keeps bytes that a note refers to. A TIDX has at most 2^31 bytes, so their offset fits.
    fn keep(&mut self, bytes: &[u8]) -> (u32, u32) {
        let start = u32::try_from(self.note_bytes.len()).unwrap_or(u32::MAX);
        self.note_bytes.extend(bytes);
        (start, u32::try_from(bytes.len()).unwrap_or(u32::MAX))
    }
}

/// Decodes a map from its `pairs` concatenated pairs.
fn object_of(pairs: u32, bytes: &[u8]) -> Result<Object, String> {
    let mut map = Vec::new();
    put_map(&mut map, pairs);
    map.extend(bytes);
    match msgpack::decode(&map, DEPTH, u64::MAX)? {
        Value::Object(object) => Ok(object),
        _ => Ok(Object::new()),
    }
}

/// Converts an error without an offset into an error of the chunk.
pub(crate) fn metadata_error(chunk: &Chunk<'_>, text: String) -> Error {
    chunk.malformed(CommonFault::Metadata(text))
}
