//! Parses bytes into an [`Index`], without I/O, piece by piece. The file does not state the length of its
//! header. So the header is read in windows that end at its earliest possible end, and each byte is parsed
//! once.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;

use modelfmt_core::value::MAX_DEPTH;
use modelfmt_core::{
    CommonError, DType, Limits, Part, TensorTable,
    author::{Cursor, NewTensor, Parser},
};

use crate::error::{Error, Fault, Result};
use crate::index::{Index, Listing};
use crate::metadata::Metadata;
use crate::wire::{self, ValueType};

/// The number of bytes that may be read beyond the shortest possible end of the header.
const SLACK: u64 = 64 << 10;

/// The maximum number of tensors to reserve memory for, because a sparse file can have the bytes for any
/// number of tensors.
const MAX_RESERVED: usize = 1 << 20;

/// Parses an [`Index`] from the byte ranges that it asks for.
///
/// In total, it asks for at most the header and 64 KiB, each byte once.
#[derive(Debug)]
pub struct IndexParser {
    file_len: u64,
    limits: Limits,
    state: State,
    /// The offset in the file of the next token.
    pos: u64,
    /// Bytes from `pos` on that have been fed but do not form a whole token.
    rest: Vec<u8>,
    /// The earliest possible end of the token at `pos`.
    token_end: u64,
    version: u32,
    is_big_endian: bool,
    /// The offset of the alignment key, if the file has it.
    alignment_at: u64,
    /// The offsets of the keys of a split, if the file has them.
    split_at: [u64; 3],
    entries_left: u64,
    tensors_left: u64,
    /// The arrays that are being read, the innermost last.
    arrays: Vec<OpenArray>,
    metadata: Metadata,
    tensors: TensorTable,
    dims: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Header,
    Metadata,
    Tensors,
    Done,
}

#[derive(Clone, Copy, Debug)]
struct OpenArray {
    kind: ValueType,
    left: u64,
}

impl IndexParser {
    /// Creates a parser for a file of `file_len` bytes.
    #[must_use]
    pub fn new(file_len: u64, limits: Limits) -> Self {
        Self {
            file_len,
            limits,
            state: State::Header,
            pos: 0,
            rest: Vec::new(),
            token_end: 0,
            version: 0,
            is_big_endian: false,
            alignment_at: 0,
            split_at: [0; 3],
            entries_left: 0,
            tensors_left: 0,
            arrays: Vec::new(),
            metadata: Metadata::default(),
            tensors: TensorTable::default(),
            dims: Vec::new(),
        }
    }

    /// Returns the minimum number of header bytes that remain from `pos` on.
    fn min_left(&self) -> u64 {
        let open = self.arrays.iter().map(|array| array.left.saturating_mul(array.kind.min_len()));
        let entries = self.entries_left.saturating_mul(wire::MIN_ENTRY_LEN);
        let tensors = self.tensors_left.saturating_mul(wire::MIN_TENSOR_LEN);
        open.fold(entries, u64::saturating_add).saturating_add(tensors)
    }

    /// Reads all tokens that `window`, which begins at `pos`, contains. Returns the number of bytes that they
    /// take.
    fn run(&mut self, window: &[u8]) -> Result<usize> {
        let mut cursor = Cursor::new(window, self.pos);
        cursor.big_endian(self.is_big_endian);
        while self.state != State::Done {
            let before = cursor.clone();
            match self.token(window, &mut cursor) {
                Ok(()) => {}
                Err(Error::Truncated { at, need, part, .. }) => {
                    cursor = before;
                    let end = at.saturating_add(need);
                    if end > self.file_len {
                        let have = self.file_len.saturating_sub(at);
                        return Err(Error::Truncated { part, at, need, have });
                    }
                    self.token_end = end;
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        let len = cursor.offset();
        Limits::check("the length of the header", len, self.limits.index_len)?;
        self.pos = len;
        Ok(cursor.consumed())
    }

    /// Reads one token. If it ends beyond the window, leaves the state unchanged.
    fn token(&mut self, window: &[u8], cursor: &mut Cursor<'_>) -> Result<()> {
        match self.state {
            State::Header => self.header(cursor),
            State::Metadata => match self.arrays.last().copied() {
                Some(array) => {
                    cursor.record("metadata", Some((self.metadata.len() as u64).saturating_sub(1)));
                    let read = self.members(array, window, cursor);
                    read.map_err(|error| with_name(error, self.metadata.last_key()))
                }
                None if self.entries_left > 0 => self.entry(window, cursor),
                None => {
                    self.metadata.shrink_to_fit();
                    self.state = State::Tensors;
                    Ok(())
                }
            },
            State::Tensors if self.tensors_left > 0 => self.tensor(cursor),
            State::Tensors => {
                let at = cursor.offset();
                self.tensors.compare_names().map_err(|(position, name, fault)| Error::Malformed {
                    part: Part::entry("tensor", position as u64).with_name(&name),
                    at,
                    fault: fault.into(),
                })?;
                self.tensors.shrink_to_fit();
                self.state = State::Done;
                Ok(())
            }
            State::Done => Ok(()),
        }
    }

    fn header(&mut self, cursor: &mut Cursor<'_>) -> Result<()> {
        cursor.record("header", None);
        let malformed = |field, at, fault| {
            Err(Error::Malformed { part: Part::new("header").with_field(field), at, fault })
        };
        if cursor.bytes(4, "magic")? != wire::MAGIC {
            return malformed("magic", 0, Fault::Magic);
        }
        let found = cursor.u32("version")?;
        // The magic is the same in both byte orders. Versions are small, so the half of the word that is zero
        // shows the byte order (docs/formats/gguf.md#byte-order).
        let is_big_endian = found & 0xffff == 0;
        let version = if is_big_endian { found.swap_bytes() } else { found };
        match version {
            2 | 3 => {}
            1 => return malformed("version", 4, Fault::Version1),
            _ => return malformed("version", 4, Fault::Version(version)),
        }
        cursor.big_endian(is_big_endian);
        let (tensors, entries) =
            (cursor.u64("number of tensors")?, cursor.u64("number of metadata entries")?);
        Limits::check("the number of tensors", tensors, self.limits.tensors)?;
        Limits::check("the number of metadata entries", entries, self.limits.entries)?;
        let (at, have) = (cursor.offset(), self.file_len.saturating_sub(cursor.offset()));
        Limits::fits(Part::new("metadata"), at, entries, wire::MIN_ENTRY_LEN, have)?;
        Limits::fits(Part::new("tensor records"), at, tensors, wire::MIN_TENSOR_LEN, have)?;
        let reserved = usize::try_from(tensors).unwrap_or(usize::MAX).min(MAX_RESERVED);
        self.tensors = TensorTable::comparing_later(reserved);
        (self.version, self.is_big_endian) = (version, is_big_endian);
        (self.tensors_left, self.entries_left) = (tensors, entries);
        self.state = State::Metadata;
        Ok(())
    }

    /// Reads the key and the value of a metadata entry. For an array, reads only its type and number of
    /// elements.
    fn entry(&mut self, window: &[u8], cursor: &mut Cursor<'_>) -> Result<()> {
        let number = self.metadata.len() as u64;
        cursor.record("metadata", Some(number));
        let key_at = cursor.offset();
        let key = self.name(cursor, "key", "the length of a metadata key")?;
        let named = |error| with_name(error, Some(key));
        let kind = value_type(cursor, "type").map_err(named)?;
        let start = cursor.consumed();
        let array = match kind {
            ValueType::Array => Some(self.array_head(cursor).map_err(named)?),
            kind => {
                self.value(kind, cursor).map_err(named)?;
                None
            }
        };
        self.metadata.push_key(key, kind).map_err(|fault| Error::Malformed {
            part: Part::entry("metadata", number).with_name(key),
            at: key_at,
            fault: fault.into(),
        })?;
        if key == wire::ALIGNMENT {
            self.alignment_at = key_at;
        }
        let split = self.split_at.iter_mut().zip(wire::SPLIT).find(|(_, name)| *name == key);
        split.into_iter().for_each(|(at, _)| *at = key_at);
        self.entries_left = self.entries_left.saturating_sub(1);
        self.arrays.extend(array);
        self.keep(kind, window, start, cursor)
    }

    /// Reads elements of the innermost array: all that the window contains if they are numbers, else one.
    fn members(&mut self, array: OpenArray, window: &[u8], cursor: &mut Cursor<'_>) -> Result<()> {
        let start = cursor.consumed();
        let mut inner = None;
        let taken = match array.kind {
            _ if array.left == 0 => {
                self.arrays.pop();
                return Ok(());
            }
            ValueType::Array => {
                inner = Some(self.array_head(cursor)?);
                1
            }
            kind => match kind.size() {
                Some(size) => {
                    let at_hand = (cursor.remaining() as u64)
                        .checked_div(size)
                        .unwrap_or_default()
                        .clamp(1, array.left);
                    cursor.bytes(at_hand.saturating_mul(size), "members")?;
                    at_hand
                }
                None => {
                    self.value(kind, cursor)?;
                    1
                }
            },
        };
        if let Some(open) = self.arrays.last_mut() {
            open.left = open.left.saturating_sub(taken);
        }
        self.arrays.extend(inner);
        self.keep(array.kind, window, start, cursor)
    }

    /// Reads the type and the number of an array's elements.
    fn array_head(&self, cursor: &mut Cursor<'_>) -> Result<OpenArray> {
        // The depth is the depth of the resulting tree, whose first level is the object of all keys.
        let depth = (self.arrays.len() as u64).saturating_add(2);
        Limits::check("the depth of metadata", depth, self.limits.depth.min(u64::from(MAX_DEPTH)))?;
        let kind = value_type(cursor, "type of members")?;
        let left = cursor.u64("number of members")?;
        let (at, have) = (cursor.offset(), self.file_len.saturating_sub(cursor.offset()));
        Limits::fits(cursor.part("members"), at, left, kind.min_len(), have)?;
        Ok(OpenArray { kind, left })
    }

    /// Checks a value that is not an array.
    fn value(&self, kind: ValueType, cursor: &mut Cursor<'_>) -> Result<()> {
        match kind.size() {
            Some(size) => cursor.bytes(size, "value").map(|_| ())?,
            None => {
                let len =
                    self.text_len(cursor, "text", "the length of metadata", self.limits.metadata_len)?;
                cursor.bytes(len, "text")?;
            }
        }
        Ok(())
    }

    /// Keeps the bytes of `window` from `start` to the cursor: numbers of one type, a string, or the head of an array.
    fn keep(&mut self, kind: ValueType, window: &[u8], start: usize, cursor: &Cursor<'_>) -> Result<()> {
        let bytes = window.get(start..cursor.consumed()).unwrap_or_default();
        match kind {
            ValueType::String => self.metadata.extend_text(bytes.get(8..).unwrap_or_default()),
            kind => self.metadata.extend(bytes, self.is_big_endian.then_some(kind)),
        }
        Limits::check("the length of metadata", self.metadata.nbytes(), self.limits.metadata_len)?;
        Ok(())
    }

    /// Reads a name: a length, and this many bytes of UTF-8.
    fn name<'a>(&self, cursor: &mut Cursor<'a>, field: &'static str, what: &'static str) -> Result<&'a str> {
        let len = self.text_len(cursor, field, what, self.limits.name_len)?;
        Ok(cursor.str(len, field)?)
    }

    /// Reads the length of a string, which must fit in the rest of the file.
    fn text_len(
        &self,
        cursor: &mut Cursor<'_>,
        field: &'static str,
        what: &'static str,
        max: u64,
    ) -> Result<u64> {
        let len = cursor.u64(field)?;
        if len > self.file_len.saturating_sub(cursor.offset()) {
            // This check comes before the limit: if the file is cut short, an error about a limit would
            // mislead.
            cursor.bytes(len, field)?;
        }
        Limits::check(what, len, max)?;
        Ok(len)
    }

    fn tensor(&mut self, cursor: &mut Cursor<'_>) -> Result<()> {
        let number = self.tensors.len() as u64;
        let at = cursor.offset();
        cursor.record("tensor", Some(number));
        let name = self.name(cursor, "name", "the length of a name")?;
        let named = |error: CommonError| with_name(error.into(), Some(name));
        let rank = u64::from(cursor.u32("rank").map_err(named)?);
        Limits::check("the rank", rank, self.limits.rank)?;
        self.dims.clear();
        self.dims.extend(cursor.u64s(rank, "dimensions").map_err(named)?);
        // ggml lists the fastest dimension first (docs/formats/gguf.md#dimensions).
        self.dims.reverse();
        let number_of_type = cursor.u32("type").map_err(named)?;
        let offset = cursor.u64("offset").map_err(named)?;
        let malformed = |field, fault| Error::Malformed {
            part: Part { field, ..Part::entry("tensor", number).with_name(name) },
            at,
            fault,
        };
        let dtype = DType::from_ggml_type(number_of_type)
            .ok_or_else(|| malformed(Some("type"), wire::unknown_type(number_of_type)))?;
        if self.is_big_endian && dtype.is_quantized() {
            return Err(malformed(Some("type"), Fault::BigEndianBlocks(dtype)));
        }
        self.check_rows(dtype).map_err(|fault| malformed(Some("dimensions"), fault))?;
        // The offset is relative until the start of the data is known.
        let tensor = NewTensor { name, dtype, offset: Some(offset), packed_nbytes: 0 };
        let pushed = self.tensors.push(tensor, self.dims.iter().copied());
        pushed.map_err(|fault| malformed(None, fault.into()))?;
        self.tensors_left = self.tensors_left.saturating_sub(1);
        Ok(())
    }

    fn check_rows(&self, dtype: DType) -> Result<(), Fault> {
        let elements = dtype.block().map_or(1, |block| u64::from(block.elements));
        match self.dims.last() {
            Some(&row) if !row.is_multiple_of(elements) => Err(Fault::PartialRow { dtype, row }),
            _ => Ok(()), // a scalar of a block type is refused by its size
        }
    }
}

fn value_type(cursor: &mut Cursor<'_>, field: &'static str) -> Result<ValueType> {
    let at = cursor.offset();
    ValueType::try_from(cursor.u32(field)?).map_err(|fault| Error::Malformed {
        part: cursor.part(field),
        at,
        fault,
    })
}

/// Adds the name of the record to the error.
fn with_name(error: Error, name: Option<&str>) -> Error {
    let name = name.map(Box::from);
    match error {
        Error::Malformed { part, at, fault } => Error::Malformed { part: Part { name, ..part }, at, fault },
        Error::Truncated { part, at, need, have } => {
            Error::Truncated { part: Part { name, ..part }, at, need, have }
        }
        other => other,
    }
}

impl Parser for IndexParser {
    type Index = Index;
    type Fault = Fault;

    fn need(&self) -> Option<Range<u64>> {
        if self.state == State::Done {
            return None;
        }
        let start = self.pos.saturating_add(self.rest.len() as u64);
        let end = self.pos.saturating_add(self.min_left()).saturating_add(SLACK);
        let end = end.max(self.token_end).min(self.file_len);
        (start < end).then_some(start..end)
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(range) = self.need() else { return Ok(()) };
        if self.rest.is_empty() {
            let taken = self.run(bytes)?;
            if self.state != State::Done {
                let wanted = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
                let bytes = bytes.get(..wanted.max(taken)).unwrap_or(bytes);
                self.rest.extend_from_slice(bytes.get(taken..).unwrap_or_default());
            }
            return Ok(());
        }
        let wanted = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
        let mut window = std::mem::take(&mut self.rest);
        window.extend_from_slice(bytes.get(..wanted).unwrap_or(bytes));
        let taken = self.run(&window)?;
        window.drain(..taken);
        self.rest = window;
        Ok(())
    }

    fn finish(mut self) -> Result<Index> {
        if self.state != State::Done {
            let rest = std::mem::take(&mut self.rest);
            self.run(&rest)?;
        }
        if self.state != State::Done {
            let (part, at) = (Part::new("header"), self.pos);
            let need = self.token_end.saturating_sub(at);
            return Err(Error::Truncated { part, at, need, have: self.rest.len() as u64 });
        }
        let Self { file_len, pos, version, is_big_endian, alignment_at, split_at, metadata, tensors, .. } =
            self;
        let end = pos;
        Index::new(Listing {
            file_len,
            version,
            is_big_endian,
            metadata,
            alignment_at,
            split_at,
            tensors,
            end,
        })
    }
}
