//! Parses the bytes of a TIDX into its tensors.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::{
    CommonFault, DType, Limits, Part, TensorTable,
    author::{Extent, NewTensor},
};

use super::fields::{Bounds, Fields, Keys};
use super::{HashState, Note, Tensors};
use crate::chunks::{Chunk, ChunkTable, malformed};
use crate::error::{Fault, Result};
use crate::hex::from_hex;
use crate::manifest::Descriptors;
use crate::msgpack::{self, DEPTH, MessagePackFault, Walker};
use crate::origin::Origin;
use crate::wire::dtype_of;

/// The fewest bytes of an entry: the map, and its six required keys with the shortest values.
const MIN_ENTRY: u64 = 1 + (1 + 4 + 1) + (1 + 5 + 1) + (1 + 5 + 1) + 3 * (1 + 8 + 1);

/// The assumed end of shards that are not in the file.
const UNKNOWN_SHARD_END: u64 = i64::MAX as u64;

/// The input of the TIDX parser, apart from the bytes.
pub(crate) struct Context<'a> {
    pub(crate) chunk: Chunk<'a>,
    pub(crate) chunks: &'a ChunkTable,
    pub(crate) limits: &'a Limits,
    /// The format that the file was converted from. Shapes and lengths depend on it.
    pub(crate) origin: &'a Origin,
    /// The `quant_descriptors`, or `None` if the manifest has not been read.
    pub(crate) descriptors: Option<&'a Descriptors>,
}

/// The result of parsing.
pub(crate) enum Parsed {
    Done(Box<Tensors>),
    /// A packed tensor names a descriptor, so the manifest must be read first.
    NeedsManifest,
}

/// Parses the content of a TIDX, which must be verified and decompressed.
pub(crate) fn parse(content: &[u8], context: &Context<'_>) -> Result<Parsed> {
    let mut walker = Walker::new(content);
    let mut parser =
        EntryParser { context, content, tensors: Tensors::default(), dims: Vec::new(), last_shard: None };
    let mut seen = Keys::default();
    let mut found = false;
    let top =
        |why: MessagePackFault, walker: &Walker<'_>| malformed(context.chunk.part(), context.at(walker), why);
    let pairs = walker.map().map_err(|why| top(why, &walker))?;
    for pair in 0..pairs {
        seen.push(&walker, pairs.saturating_sub(pair));
        let begin = walker.position();
        let key = walker.text().map_err(|why| top(why, &walker))?;
        if key == b"tensors" && !found {
            found = true;
            let count = walker.array().map_err(|why| top(why, &walker))?;
            if !parser.entries(&mut walker, count)? {
                return Ok(Parsed::NeedsManifest);
            }
        } else {
            let depth = context.limits.depth.min(DEPTH).saturating_sub(1);
            walker.skip(depth).map_err(|why| top(why, &walker))?;
            parser.tensors.keep_top(content.get(begin..walker.position()).unwrap_or_default());
        }
    }
    if let Some(key) = seen.duplicate(content) {
        return Err(context.chunk.malformed(CommonFault::Duplicate(key)));
    }
    if walker.remaining() > 0 {
        return Err(top(msgpack::TRAILING, &walker));
    }
    if !found {
        return Err(context.chunk.malformed(Fault::MissingKey("tensors")));
    }
    let mut tensors = parser.tensors;
    tensors.table.shrink_to_fit();
    tensors.padded.shrink_to_fit();
    tensors.notes.shrink_to_fit();
    tensors.note_bytes.shrink_to_fit();
    tensors.top.shrink_to_fit();
    Ok(Parsed::Done(Box::new(tensors)))
}

impl Context<'_> {
    /// Returns the walker's offset in the file. In a compressed chunk this is the offset of the chunk.
    fn at(&self, walker: &Walker<'_>) -> u64 {
        let within = if self.chunk.flags.is_compressed() { 0 } else { walker.position() as u64 };
        self.chunk.offset.saturating_add(within)
    }
}

struct EntryParser<'a> {
    context: &'a Context<'a>,
    /// The content of the whole TIDX.
    content: &'a [u8],
    tensors: Tensors,
    /// The dimensions of the entry that is being read.
    dims: Vec<u64>,
    /// The shard of the previous entry, with its length if the file has it.
    last_shard: Option<(u64, Option<u64>)>,
}

impl<'a> EntryParser<'a> {
    /// Reads all entries. Returns false if the manifest must be read first.
    fn entries(&mut self, walker: &mut Walker<'_>, count: u32) -> Result<bool> {
        let context = self.context;
        Limits::check("the number of tensors", u64::from(count), context.limits.tensors)?;
        let part = context.chunk.part().with_field("tensors");
        let have = walker.remaining() as u64;
        let capacity = Limits::fits(part, context.at(walker), u64::from(count), MIN_ENTRY, have)?;
        self.tensors.table = TensorTable::comparing_later(capacity);
        self.tensors.shards = Vec::with_capacity(capacity);
        let mut unknown = Keys::default();
        let Limits { depth, rank, .. } = *context.limits;
        let bounds = Bounds { depth: depth.min(DEPTH).saturating_sub(3), rank };
        for number in 0..count {
            let at = context.at(walker);
            let mut fields = Fields::default();
            let read = fields.read(walker, bounds, &mut self.dims, &mut unknown);
            read.map_err(|fault| {
                malformed(entry_part(number, fields.name, None), context.at(walker), fault)
            })?;
            Limits::check("the length of a tensor name", fields.name.len() as u64, context.limits.name_len)?;
            Limits::check("the rank of a tensor", u64::from(fields.rank), rank)?;
            let listed = self
                .list(number, capacity, &fields, &mut unknown, bounds)
                .map_err(|(field, fault)| malformed(entry_part(number, fields.name, field), at, fault))?;
            if !listed {
                return Ok(false);
            }
        }
        self.tensors.table.compare_names().map_err(|(position, name, fault)| {
            let number = u32::try_from(position).unwrap_or(u32::MAX); // below `count`
            malformed(entry_part(number, &name, None), context.chunk.offset, fault)
        })?;
        Ok(true)
    }

    /// Adds a tensor. Returns false if its dtype depends on the manifest.
    #[inline]
    fn list(
        &mut self,
        number: u32,
        capacity: usize,
        fields: &Fields<'_>,
        unknown: &mut Keys,
        bounds: Bounds,
    ) -> Result<bool, (Option<&'static str>, Fault)> {
        if let Some(key) = fields.missing() {
            return Err((None, Fault::MissingKey(key)));
        }
        let dtype = match dtype_of(fields.dtype) {
            Some(DType::Packed) => match self.codec(fields) {
                Some(dtype) => dtype,
                None => return Ok(false),
            },
            Some(dtype) => dtype,
            None => return Err((Some("dtype"), Fault::DTypeCode(fields.dtype))),
        };
        self.context.origin.reorder_dims(&mut self.dims);
        let tensor = NewTensor {
            name: fields.name,
            dtype,
            offset: Some(fields.data_off),
            packed_nbytes: fields.data_len,
        };
        let nbytes = self
            .tensors
            .table
            .push(tensor, self.dims.iter().copied())
            .map_err(|fault| (Some("shape"), fault.into()))?;
        let end = self.shard_end(fields.shard_id);
        if nbytes != fields.data_len && !self.keep_padding(number, nbytes, fields, end) {
            let fault = CommonFault::Nbytes { found: fields.data_len, expected: nbytes };
            return Err((Some("data_len"), fault.into()));
        }
        Extent::new(fields.data_off, fields.data_len, end)
            .map_err(|fault| (Some("data_off"), fault.into()))?;
        self.tensors.shards.push(fields.shard_id);
        if fields.hash.is_some() || self.tensors.has_hashes() {
            self.hash(number, capacity, fields.hash);
        }
        let noted = fields.flags != 0 || fields.quant_id.is_some() || fields.quant_params.is_some();
        if noted || !unknown.is_empty() {
            self.note(number, capacity, fields, unknown, bounds)?;
        }
        Ok(true)
    }

    /// Keeps the length of a tensor that has padding after its values. Returns false if the extra bytes are
    /// not padding.
    #[cold]
    fn keep_padding(&mut self, number: u32, nbytes: u64, fields: &Fields<'_>, end: u64) -> bool {
        let is_last = fields.data_off.checked_add(fields.data_len) == Some(end) && end < UNKNOWN_SHARD_END;
        let padding = fields.data_len.checked_sub(nbytes);
        let is_padding = padding.is_some_and(|len| self.context.origin.is_padding(len, is_last));
        if is_padding {
            self.tensors.padded.push((number, fields.data_len));
        }
        is_padding
    }

    /// Returns the end of a shard's values. For a shard that is not in the file, as in a set's index, this is
    /// beyond the end of any file.
    #[inline]
    fn shard_end(&mut self, shard: u64) -> u64 {
        let len = match self.last_shard {
            Some((last, len)) if last == shard => len,
            _ => {
                let chunks = self.context.chunks;
                let len = chunks.shard(shard).and_then(|position| chunks.chunk(position)).map(|c| c.ulen);
                self.last_shard = Some((shard, len));
                len
            }
        };
        len.unwrap_or(UNKNOWN_SHARD_END).min(UNKNOWN_SHARD_END)
    }

    /// Returns the dtype of a packed tensor: a ggml block type, or packed. Returns `None` if the manifest is
    /// needed.
    fn codec(&self, fields: &Fields<'_>) -> Option<DType> {
        let known = |number: Option<u64>| {
            let dtype = number.and_then(|number| DType::from_ggml_type(u32::try_from(number).ok()?));
            Some(dtype.unwrap_or(DType::Packed))
        };
        // `quant_params` takes precedence; a descriptor counts only if they are absent
        // (docs/formats/aero.md#packed-tensors).
        if let Some(bytes) = fields.quant_params {
            let number = msgpack::find(Walker::new(bytes), "ggml_type");
            return known(number.and_then(|mut number| number.uint().ok()));
        }
        match (fields.quant_id, self.context.descriptors) {
            (Some(id), Some(descriptors)) => known(descriptors.ggml_type(id)),
            (Some(_), None) => None,
            (None, _) => known(None),
        }
    }

    #[cold]
    fn hash(&mut self, number: u32, capacity: usize, text: Option<&[u8]>) {
        let tensors = &mut self.tensors;
        if !tensors.has_hashes() {
            tensors.hashes = Vec::with_capacity(capacity);
            tensors.hash_states = Vec::with_capacity(capacity);
            tensors.hashes.resize(number as usize, [0; 32]);
            tensors.hash_states.resize(number as usize, HashState::Absent);
        }
        let (hash, state) = match text {
            None => ([0; 32], HashState::Absent),
            Some(text) => match from_hex(text) {
                Some(hash) => (hash, HashState::Good),
                None => ([0; 32], HashState::Malformed),
            },
        };
        tensors.hashes.push(hash);
        tensors.hash_states.push(state);
    }

    #[cold]
    fn note(
        &mut self,
        number: u32,
        capacity: usize,
        fields: &Fields<'_>,
        unknown: &mut Keys,
        bounds: Bounds,
    ) -> Result<(), (Option<&'static str>, Fault)> {
        if self.tensors.notes.is_empty() {
            // Reserves the most that can be needed, because growing step by step could take a multiple of
            // that.
            self.tensors.notes.reserve_exact(capacity.saturating_sub(number as usize));
            self.tensors.note_bytes.reserve_exact(self.content.len());
        }
        let pairs = unknown.count();
        // The pairs are kept first, because the search for duplicates sorts the keys.
        let start = self.tensors.keep(&[]).0;
        let mut len = 0_u32;
        for pair in unknown.pairs(self.content, bounds.depth) {
            len = len.saturating_add(self.tensors.keep(pair).1);
        }
        if let Some(key) = unknown.duplicate(self.content) {
            return Err((None, CommonFault::Duplicate(key).into()));
        }
        if let Some(bytes) = fields.quant_params {
            check_params(bytes)?;
        }
        let quant_params = self.tensors.keep(fields.quant_params.unwrap_or_default());
        self.tensors.notes.push(Note {
            position: number,
            flags: fields.flags,
            quant_id: fields.quant_id,
            quant_params,
            unknown: (start, len),
            unknown_pairs: pairs,
        });
        Ok(())
    }
}

fn entry_part(number: u32, name: &str, field: Option<&'static str>) -> Part {
    let part = Part::entry("TIDX entry", u64::from(number));
    let part = if name.is_empty() { part } else { part.with_name(name) };
    match field {
        Some(field) => part.with_field(field),
        None => part,
    }
}

/// Checks `quant_params` without building a tree, because a byte of the file could become 32 bytes of a tree.
fn check_params(bytes: &[u8]) -> Result<(), (Option<&'static str>, Fault)> {
    let fault = |text: String| (Some("quant_params"), CommonFault::Metadata(text).into());
    match msgpack::check(bytes, DEPTH) {
        Ok("an object") => Ok(()),
        Ok(other) => Err(fault(format!("is {other} and not a map"))),
        Err(error) => Err(fault(error)),
    }
}
