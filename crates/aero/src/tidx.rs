//! The tensor index (TIDX): its entries, decoded without an allocation for each, and encoded.

use tensor_core::value::{Object, Value};
use tensor_core::{DType, Extent, Fault as Common, Limits, NewTensor, Part, TensorTable};

use crate::chunks::{Chunk, ChunkTable, malformed};
use crate::error::{Error, Fault, Hex, Result};
use crate::manifest::Descriptors;
use crate::msgpack::{self, Walker, Why, put_array, put_map, put_str, put_uint};
use crate::wire::dtype_of;

/// What an entry of the tensor index says beyond name, dtype and shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The shard that holds the values: the chunk `weights.shard{N}`.
    pub shard_id: u64,
    /// Where they begin in the shard.
    pub data_off: u64,
    /// How many bytes they have.
    pub data_len: u64,
    /// The entry's flags, which version 0.1 writes as 0.
    pub flags: u64,
    /// Index into `quant_descriptors` of the manifest.
    pub quant_id: Option<u64>,
    /// BLAKE3-256 of the values.
    pub hash_b3: Option<[u8; 32]>,
}

/// The tensors of the index: a flat table, and what is rare beside it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tensors {
    /// Offsets are `data_off`.
    pub(crate) table: TensorTable,
    shards: Vec<u64>,
    /// Empty if no tensor has one; else one for each, zero where `hash_states` says so.
    hashes: Vec<[u8; 32]>,
    hash_states: Vec<HashState>,
    /// For the tensors that have any, in order.
    notes: Vec<Note>,
    /// The bytes that notes refer to.
    note_bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HashState {
    Absent,
    Good,
    /// There is one that is not 64 lower-case hex digits.
    Malformed,
}

/// What few tensors have. Ranges are of `note_bytes`.
#[derive(Clone, Copy, Debug, Default)]
struct Note {
    position: u32,
    flags: u64,
    quant_id: Option<u64>,
    quant_params: (u32, u32),
    /// Pairs under keys that the specification does not have, one after the other.
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
            data_len: self.table.info(position)?.nbytes,
            flags: note.flags,
            quant_id: note.quant_id,
            hash_b3: self.hash(position).ok().flatten(),
        })
    }

    /// The `hash_b3` of a tensor; an error if there is one that is not a hash.
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

    /// The `quant_params` of a tensor.
    pub(crate) fn quant_params(&self, position: usize) -> Option<Value> {
        let note = self.note(position)?;
        let bytes = self.bytes(note.quant_params);
        // It was decoded when the file was opened.
        if bytes.is_empty() { None } else { msgpack::decode(bytes, DEPTH, u64::MAX).ok() }
    }

    /// What stands under keys that the specification does not have.
    pub(crate) fn unknown(&self, position: usize) -> Result<Object, String> {
        let Some(note) = self.note(position) else { return Ok(Object::new()) };
        let mut map = Vec::new();
        put_map(&mut map, note.unknown_pairs);
        map.extend(self.bytes(note.unknown));
        match msgpack::decode(&map, DEPTH, u64::MAX)? {
            Value::Object(object) => Ok(object),
            _ => Ok(Object::new()),
        }
    }

    pub(crate) fn heap_size(&self) -> usize {
        self.table.heap_size()
            + self.shards.capacity() * size_of::<u64>()
            + self.hashes.capacity() * 32
            + self.hash_states.capacity()
            + self.notes.capacity() * size_of::<Note>()
            + self.note_bytes.capacity()
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

    /// Keeps bytes for a note. A TIDX has at most 2^31, so their position fits.
    fn keep(&mut self, bytes: &[u8]) -> (u32, u32) {
        let start = u32::try_from(self.note_bytes.len()).unwrap_or(u32::MAX);
        self.note_bytes.extend(bytes);
        (start, u32::try_from(bytes.len()).unwrap_or(u32::MAX))
    }
}

/// DECISIONS, "For every format": levels that MessagePack may nest.
const DEPTH: u64 = 127;

/// The least bytes of an entry: the map and its six required keys with the shortest values.
const MIN_ENTRY: u64 = 1 + (1 + 4 + 1) + (1 + 5 + 1) + (1 + 5 + 1) + 3 * (1 + 8 + 1);

/// What is needed to make sense of a TIDX.
pub(crate) struct Context<'a> {
    pub(crate) chunk: Chunk<'a>,
    pub(crate) chunks: &'a ChunkTable,
    pub(crate) limits: &'a Limits,
    /// The manifest's `quant_descriptors`; `None` if it has not been read.
    pub(crate) descriptors: Option<&'a Descriptors>,
}

/// What came of parsing.
pub(crate) enum Parsed {
    Done(Box<Tensors>),
    /// A packed tensor names a descriptor, so the manifest is needed first.
    NeedsManifest,
}

/// Parses the content of a TIDX, verified and decompressed.
pub(crate) fn parse(content: &[u8], context: &Context<'_>) -> Result<Parsed> {
    let mut walker = Walker::new(content);
    let mut parser = EntryParser { context, tensors: Tensors::default(), dims: Vec::new(), last_shard: None };
    let mut seen = Vec::new();
    let mut found = false;
    let top = |why: Why, walker: &Walker<'_>| {
        malformed(context.chunk.part(), context.at(walker), Fault::MessagePack(why))
    };
    let pairs = walker.map().map_err(|why| top(why, &walker))?;
    for _ in 0..pairs {
        let key = walker.text().map_err(|why| top(why, &walker))?;
        seen.push(key);
        if key == b"tensors" && !found {
            found = true;
            let count = walker.array().map_err(|why| top(why, &walker))?;
            if !parser.entries(&mut walker, count)? {
                return Ok(Parsed::NeedsManifest);
            }
        } else {
            let depth = context.limits.depth.min(DEPTH).saturating_sub(1);
            walker.skip(depth).map_err(|why| top(why, &walker))?;
        }
    }
    if let Some(key) = duplicate(&mut seen) {
        return Err(context.chunk.malformed(Common::Duplicate(key)));
    }
    if walker.remaining() > 0 {
        return Err(top(msgpack::TRAILING, &walker));
    }
    if !found {
        return Err(context.chunk.malformed(Fault::MissingKey("tensors")));
    }
    let mut tensors = parser.tensors;
    tensors.table.shrink_to_fit();
    tensors.notes.shrink_to_fit();
    tensors.note_bytes.shrink_to_fit();
    Ok(Parsed::Done(Box::new(tensors)))
}

impl Context<'_> {
    /// Where in the file the walker stands; in a compressed chunk, where that begins.
    fn at(&self, walker: &Walker<'_>) -> u64 {
        let within = if self.chunk.flags.is_compressed() { 0 } else { walker.position() as u64 };
        self.chunk.offset.saturating_add(within)
    }
}

/// A key that is there twice.
fn duplicate(keys: &mut [&[u8]]) -> Option<String> {
    keys.sort_unstable();
    let twin = keys.iter().zip(keys.iter().skip(1)).find(|(a, b)| a == b);
    twin.map(|(key, _)| String::from_utf8_lossy(key).into_owned())
}

struct EntryParser<'a> {
    context: &'a Context<'a>,
    tensors: Tensors,
    /// The dimensions of the entry that is being read.
    dims: Vec<u64>,
    /// The shard of the entry before, and the bytes that it has if it is there.
    last_shard: Option<(u64, Option<u64>)>,
}

/// The fields of one entry.
#[derive(Default)]
struct Fields<'a> {
    seen: u16,
    name: &'a str,
    dtype: u64,
    shard_id: u64,
    data_off: u64,
    data_len: u64,
    flags: u64,
    quant_id: Option<u64>,
    quant_params: Option<&'a [u8]>,
    hash: Option<&'a [u8]>,
}

/// The keys of an entry in the order that we write; the first six are required.
const KEYS: [&str; 10] = [
    "name",
    "dtype",
    "shape",
    "shard_id",
    "data_off",
    "data_len",
    "flags",
    "quant_id",
    "quant_params",
    "hash_b3",
];
const REQUIRED: u16 = 0b11_1111;

impl<'a> EntryParser<'a> {
    /// Reads all entries; false if the manifest is needed first.
    fn entries(&mut self, walker: &mut Walker<'_>, count: u32) -> Result<bool> {
        let context = self.context;
        Limits::check("the number of tensors", u64::from(count), context.limits.tensors)?;
        let part = context.chunk.part().with_field("tensors");
        let have = walker.remaining() as u64;
        let capacity = Limits::fits(part, context.at(walker), u64::from(count), MIN_ENTRY, have)?;
        self.tensors.table = TensorTable::with_capacity(capacity);
        self.tensors.shards = Vec::with_capacity(capacity);
        let mut unknown = Vec::new();
        for number in 0..count {
            let at = context.at(walker);
            let mut fields = Fields::default();
            self.fields(walker, &mut fields, &mut unknown).map_err(|fault| {
                malformed(entry_part(number, fields.name, None), context.at(walker), fault)
            })?;
            Limits::check("the length of a tensor name", fields.name.len() as u64, context.limits.name_len)?;
            Limits::check("the rank of a tensor", self.dims.len() as u64, context.limits.rank)?;
            let listed = self
                .list(number, capacity, &fields, &unknown)
                .map_err(|(field, fault)| malformed(entry_part(number, fields.name, field), at, fault))?;
            if !listed {
                return Ok(false);
            }
        }
        Ok(true)
    }

    #[inline]
    fn fields<'b>(
        &mut self,
        walker: &mut Walker<'b>,
        fields: &mut Fields<'b>,
        unknown: &mut Vec<(&'b [u8], &'b [u8])>,
    ) -> Result<(), Fault> {
        unknown.clear();
        let pairs = walker.map().map_err(Fault::MessagePack)?;
        for _ in 0..pairs {
            let start = walker.position();
            let key = walker.text().map_err(Fault::MessagePack)?;
            let Some(field) = field_of(key) else {
                let depth = self.context.limits.depth.min(DEPTH).saturating_sub(3);
                walker.skip(depth).map_err(Fault::MessagePack)?;
                unknown.push((key, walker.since(start)));
                continue;
            };
            if fields.seen & (1 << field) != 0 {
                let key = String::from_utf8_lossy(key).into_owned();
                return Err(Common::Duplicate(key).into());
            }
            fields.seen |= 1 << field;
            self.field(field, walker, fields).map_err(Fault::MessagePack)?;
        }
        Ok(())
    }

    #[inline]
    fn field<'b>(&mut self, field: u16, walker: &mut Walker<'b>, fields: &mut Fields<'b>) -> Result<(), Why> {
        match field {
            0 => fields.name = walker.str()?,
            1 => fields.dtype = walker.uint()?,
            2 => {
                self.dims.clear();
                for _ in 0..walker.array()? {
                    self.dims.push(walker.uint()?);
                }
            }
            3 => fields.shard_id = walker.uint()?,
            4 => fields.data_off = walker.uint()?,
            5 => fields.data_len = walker.uint()?,
            // Optional fields may be nil.
            _ if walker.nil() => {}
            6 => fields.flags = walker.uint()?,
            7 => fields.quant_id = Some(walker.uint()?),
            8 => {
                let start = walker.position();
                walker.skip(self.context.limits.depth.min(DEPTH).saturating_sub(3))?;
                fields.quant_params = Some(walker.since(start));
            }
            _ => fields.hash = Some(walker.text()?),
        }
        Ok(())
    }

    /// Lists a tensor; false if the manifest is needed to know its type.
    #[inline]
    fn list(
        &mut self,
        number: u32,
        capacity: usize,
        fields: &Fields<'_>,
        unknown: &[(&[u8], &[u8])],
    ) -> Result<bool, (Option<&'static str>, Fault)> {
        if fields.seen & REQUIRED != REQUIRED {
            let missing = (0u16..).zip(KEYS).find(|(bit, _)| fields.seen & (1 << bit) == 0);
            return Err((None, Fault::MissingKey(missing.map_or("name", |(_, key)| key))));
        }
        let dtype = match dtype_of(fields.dtype) {
            Some(DType::Packed) => match self.codec(fields)? {
                Some(dtype) => dtype,
                None => return Ok(false),
            },
            Some(dtype) => dtype,
            None => return Err((Some("dtype"), Fault::DTypeCode(fields.dtype))),
        };
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
        if nbytes != fields.data_len {
            let fault = Common::Nbytes { found: fields.data_len, expected: nbytes };
            return Err((Some("data_len"), fault.into()));
        }
        let end = self.shard_end(fields.shard_id);
        Extent::new(fields.data_off, fields.data_len, end)
            .map_err(|fault| (Some("data_off"), fault.into()))?;
        self.tensors.shards.push(fields.shard_id);
        if fields.hash.is_some() || self.tensors.has_hashes() {
            self.hash(number, capacity, fields.hash);
        }
        let noted = fields.flags != 0 || fields.quant_id.is_some() || fields.quant_params.is_some();
        if noted || !unknown.is_empty() {
            self.note(number, fields, unknown)?;
        }
        Ok(true)
    }

    /// Where the values of a shard end; of one that is not in the file (a set's index), where no file can go on.
    #[inline]
    fn shard_end(&mut self, shard: u64) -> u64 {
        const NO_FILE_IS_LONGER: u64 = i64::MAX as u64;
        let len = match self.last_shard {
            Some((last, len)) if last == shard => len,
            _ => {
                let chunks = self.context.chunks;
                let len = chunks.shard(shard).and_then(|position| chunks.chunk(position)).map(|c| c.ulen);
                self.last_shard = Some((shard, len));
                len
            }
        };
        len.unwrap_or(NO_FILE_IS_LONGER).min(NO_FILE_IS_LONGER)
    }

    /// The dtype of a packed tensor: that of its ggml blocks, or packed; `None` if the manifest is needed to know.
    fn codec(&self, fields: &Fields<'_>) -> Result<Option<DType>, (Option<&'static str>, Fault)> {
        let known = |number: Option<u64>| {
            let dtype = number.and_then(|number| DType::from_ggml_type(u32::try_from(number).ok()?));
            Ok(Some(dtype.unwrap_or(DType::Packed)))
        };
        // DECISIONS, AERO: quant_params decides, a descriptor only where it is absent.
        if let Some(bytes) = fields.quant_params {
            let params = decode_params(bytes)?;
            return known(params.get("ggml_type").and_then(Value::as_u64));
        }
        match (fields.quant_id, self.context.descriptors) {
            (Some(id), Some(descriptors)) => known(descriptors.ggml_type(id)),
            (Some(_), None) => Ok(None),
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
        fields: &Fields<'_>,
        unknown: &[(&[u8], &[u8])],
    ) -> Result<(), (Option<&'static str>, Fault)> {
        let mut keys: Vec<&[u8]> = unknown.iter().map(|(key, _)| *key).collect();
        if let Some(key) = duplicate(&mut keys) {
            return Err((None, Common::Duplicate(key).into()));
        }
        if let Some(bytes) = fields.quant_params {
            decode_params(bytes)?;
        }
        let quant_params = self.tensors.keep(fields.quant_params.unwrap_or_default());
        let start = self.tensors.keep(&[]).0;
        let len = unknown.iter().map(|(_, pair)| self.tensors.keep(pair).1).sum();
        self.tensors.notes.push(Note {
            position: number,
            flags: fields.flags,
            quant_id: fields.quant_id,
            quant_params,
            unknown: (start, len),
            unknown_pairs: u32::try_from(unknown.len()).unwrap_or(u32::MAX),
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

#[inline]
fn field_of(key: &[u8]) -> Option<u16> {
    Some(match key {
        b"name" => 0,
        b"dtype" => 1,
        b"shape" => 2,
        b"shard_id" => 3,
        b"data_off" => 4,
        b"data_len" => 5,
        b"flags" => 6,
        b"quant_id" => 7,
        b"quant_params" => 8,
        b"hash_b3" => 9,
        _ => return None,
    })
}

fn decode_params(bytes: &[u8]) -> Result<Object, (Option<&'static str>, Fault)> {
    let fault = |text: String| (Some("quant_params"), Common::Metadata(text).into());
    match msgpack::decode(bytes, DEPTH, u64::MAX) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(other) => Err(fault(format!("is {} and not a map", other.kind()))),
        Err(error) => Err(fault(error)),
    }
}

/// DECISIONS, AERO: 64 lower-case hex digits.
fn from_hex(text: &[u8]) -> Option<[u8; 32]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let text: &[u8; 64] = text.try_into().ok()?;
    let mut hash = [0; 32];
    for (byte, &[high, low]) in hash.iter_mut().zip(text.as_chunks().0) {
        *byte = digit(high)? << 4 | digit(low)?;
    }
    Some(hash)
}

/// An entry to be written.
pub(crate) struct NewEntry<'a> {
    pub(crate) name: &'a str,
    pub(crate) dtype: u64,
    pub(crate) shape: &'a [u64],
    pub(crate) shard_id: u64,
    pub(crate) data_off: u64,
    pub(crate) data_len: u64,
    /// `quant_id` and `ggml_type`.
    pub(crate) quant: Option<(u64, u32)>,
    /// `quant_params` of a codec that is not known, as MessagePack.
    pub(crate) quant_params: Option<&'a [u8]>,
    pub(crate) hash_b3: Option<[u8; 32]>,
}

/// Writes the head of a TIDX for so many entries.
pub(crate) fn put_head(out: &mut Vec<u8>, entries: u32) {
    put_map(out, 1);
    put_str(out, "tensors");
    put_array(out, entries);
}

impl NewEntry<'_> {
    /// DECISIONS, AERO, "TIDX entry that we write".
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let params = u32::from(self.quant_params.is_some());
        put_map(out, 7 + 2 * u32::from(self.quant.is_some()) + params + u32::from(self.hash_b3.is_some()));
        put_str(out, "name");
        put_str(out, self.name);
        put_str(out, "dtype");
        put_uint(out, self.dtype);
        put_str(out, "shape");
        put_array(out, u32::try_from(self.shape.len()).unwrap_or(u32::MAX));
        for &dim in self.shape {
            put_uint(out, dim);
        }
        for (key, number) in [
            ("shard_id", self.shard_id),
            ("data_off", self.data_off),
            ("data_len", self.data_len),
            ("flags", 0),
        ] {
            put_str(out, key);
            put_uint(out, number);
        }
        if let Some((id, ggml_type)) = self.quant {
            put_str(out, "quant_id");
            put_uint(out, id);
            put_str(out, "quant_params");
            put_map(out, 1);
            put_str(out, "ggml_type");
            put_uint(out, u64::from(ggml_type));
        }
        if let Some(params) = self.quant_params {
            put_str(out, "quant_params");
            out.extend_from_slice(params);
        }
        if let Some(hash) = self.hash_b3 {
            put_str(out, "hash_b3");
            put_str(out, &Hex::new(hash).to_string());
        }
    }
}

/// Errors that carry no position become errors of the chunk.
pub(crate) fn metadata_error(chunk: &Chunk<'_>, text: String) -> Error {
    chunk.malformed(Common::Metadata(text))
}
