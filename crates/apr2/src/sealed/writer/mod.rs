//! Writes sealed files in one pass: each byte is encrypted, hashed and written once, in the order of the file.

use std::sync::{Mutex, PoisonError};

use modelfmt_core::write::{Sink, TensorData};
use modelfmt_core::{
    Execution, Part,
    author::{Crc, PIECE, align_up},
};

use crate::error::{SealFault, WriteError, unfit};
use crate::layout::{Compression, Plan};
use crate::seal::write::{Body, Cipher, Digester, FileKeys, INDEX_SEALED, SealedExtent, Trailer};
use crate::seal::{Hash, SealOptions, pages_of, statement, tail};
use crate::wire::{self, DATA_ALIGNMENT, Entry, Flags, HEADER_LEN, Header, TENSOR_COMPRESSED};
use crate::written::put;

/// What the front of a file says whose index is sealed.
const HIDDEN: &[u8] = br#"{"apr_version":"2.0.0","architecture":{},"model_type":"sealed"}"#;

const OVER_ONE_KEY: &str = "a tensor has more than 2^44 bytes, the most that is encrypted with one key";

/// A sealed file that has been written.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Written {
    /// The hash of all that is signed, by which a caller can pin the file.
    pub statement: [u8; 32],
    pub(crate) crc: Crc,
}

impl Plan {
    /// As [`write`](Self::write), sealed: signed, encrypted or both. Compressed tensors are compressed twice, so that their
    /// sizes are known before the first byte is encrypted.
    ///
    /// # Errors
    /// As [`write`](Self::write); if what the options ask for cannot be, or the system gives no randomness.
    pub fn write_sealed(
        &self,
        options: &SealOptions,
        data: &dyn TensorData,
        sink: &dyn Sink,
        work: &Execution<'_>,
    ) -> Result<Written, WriteError> {
        options.check().map_err(refused)?;
        if self.table.len() as u64 > 1 << 20 {
            return Err(refused(SealFault::Limit("a sealed file has at most 2^20 tensors".to_owned())));
        }
        let keys = options.fresh_keys().map_err(refused)?;
        let places = self.sealed_places(options, data, work)?;
        let mut writer = Writer { plan: self, options, keys, places, sink, at: 0, crc: Crc::default() };
        let front = writer.front()?;
        let (extents, pages) = writer.data(data, work)?;
        writer.section(&front, extents, &pages)
    }

    /// Where each tensor will lie: compressed where that makes it smaller.
    fn sealed_places(
        &self,
        options: &SealOptions,
        data: &dyn TensorData,
        work: &Execution<'_>,
    ) -> Result<Places, WriteError> {
        let compressed = self.compressed_lens(data, work)?;
        let header = if options.hides_index {
            HEADER_LEN + HIDDEN.len() as u64 + 8
        } else {
            HEADER_LEN + self.metadata.len() as u64 + u64::from(self.index_len)
        };
        let data_offset = header.next_multiple_of(DATA_ALIGNMENT);
        let mut places = Places { data_offset, list: Vec::with_capacity(self.table.len()), end: data_offset };
        let too_long = || refused(SealFault::Limit("the file would be longer than a file can be".to_owned()));
        for (position, info) in self.table.iter().enumerate() {
            let raw = compressed.get(position).copied().flatten();
            let plain = raw.unwrap_or(info.nbytes);
            let size = match options.encrypts() {
                true => Cipher::stored_len(plain, options.segment),
                false => Some(plain),
            };
            let offset = align_up(places.end, self.options.alignment.bytes()).ok_or_else(too_long)?;
            let size = size.ok_or_else(|| refused(SealFault::Limit(OVER_ONE_KEY.to_owned())))?;
            let end = offset.checked_add(size).filter(|&end| end < 1 << 62).ok_or_else(too_long)?;
            places.list.push(Place { offset, size, plain, compressed: raw.is_some() });
            if size > 0 {
                places.end = end;
            }
        }
        Ok(places)
    }

    /// The length of each tensor in LZ4 blocks, where that is less than it has.
    #[cfg(feature = "lz4")]
    fn compressed_lens(
        &self,
        data: &dyn TensorData,
        work: &Execution<'_>,
    ) -> Result<Vec<Option<u64>>, WriteError> {
        let mut lens = vec![None; self.table.len()];
        if self.options.compression == Compression::None {
            return Ok(lens);
        }
        let pieces = Pieces::new(self.table.iter().map(|info| info.nbytes));
        let run = |compressor: &mut crate::compress::Compressor, number: u64| {
            let piece = pieces.at(number);
            if self.keep_raw.contains(&piece.tensor) {
                return Ok((piece, piece.len));
            }
            let done = compressor.compress(self, data, piece.values(), Vec::new())?;
            if work.advance(0).is_break() {
                return Err(WriteError::Cancelled);
            }
            Ok((piece, done.len as u64))
        };
        work.each(pieces.count(), crate::compress::Compressor::new, run, |(piece, len): (Piece, u64)| {
            if let Some(sum) = lens.get_mut(piece.tensor) {
                *sum = Some(sum.unwrap_or(0) + len);
            }
            Ok(())
        })?;
        for (len, info) in lens.iter_mut().zip(self.table.iter()) {
            *len = len.filter(|&len| len < info.nbytes);
        }
        Ok(lens)
    }

    #[cfg(not(feature = "lz4"))]
    fn compressed_lens(&self, _: &dyn TensorData, _: &Execution<'_>) -> Result<Vec<Option<u64>>, WriteError> {
        match self.options.compression {
            Compression::None => Ok(vec![None; self.table.len()]),
            Compression::Lz4 => Err(unfit(Part::new("file"), crate::error::Fault::NoLz4)),
        }
    }
}

fn refused(fault: SealFault) -> WriteError {
    unfit(Part::new("seal section"), fault)
}

/// Where a tensor will lie.
#[derive(Clone, Copy)]
struct Place {
    /// From the start of the file.
    offset: u64,
    /// The bytes that it takes.
    size: u64,
    /// The bytes that are encrypted, or stored as they are.
    plain: u64,
    compressed: bool,
}

impl Place {
    const NOWHERE: Self = Self { offset: 0, size: 0, plain: 0, compressed: false };
}

struct Places {
    data_offset: u64,
    list: Vec<Place>,
    /// Where the last byte of a tensor ends.
    end: u64,
}

/// Some values of one tensor.
#[derive(Clone, Copy)]
struct Piece {
    tensor: usize,
    offset: u64,
    len: u64,
}

#[cfg(feature = "lz4")]
impl Piece {
    const fn values(self) -> crate::compress::Piece {
        crate::compress::Piece::compressed(self.tensor, self.offset, self.len)
    }
}

/// All values, cut into pieces.
struct Pieces {
    lens: Vec<u64>,
    firsts: Vec<u64>,
    count: u64,
}

impl Pieces {
    fn new(lens: impl Iterator<Item = u64>) -> Self {
        let mut pieces = Self { lens: lens.collect(), firsts: Vec::new(), count: 0 };
        for len in &pieces.lens {
            pieces.firsts.push(pieces.count);
            pieces.count += len.div_ceil(PIECE);
        }
        pieces
    }

    const fn count(&self) -> u64 {
        self.count
    }

    fn at(&self, number: u64) -> Piece {
        // The last of those that begin here: the others are empty.
        let tensor = self.firsts.partition_point(|&first| first <= number).saturating_sub(1);
        let first = self.firsts.get(tensor).copied().unwrap_or(0);
        let offset = (number - first).saturating_mul(PIECE);
        let len = self.lens.get(tensor).copied().unwrap_or(0).saturating_sub(offset).min(PIECE);
        Piece { tensor, offset, len }
    }
}

/// What was written before the tensors, as far as it is signed.
struct Front {
    header: [u8; 32],
    flags: Flags,
    metadata: Vec<u8>,
    index: Vec<u8>,
    /// What a sealed index holds.
    hidden: Vec<u8>,
}

struct Writer<'a> {
    plan: &'a Plan,
    options: &'a SealOptions,
    keys: FileKeys,
    places: Places,
    sink: &'a dyn Sink,
    /// Where the next byte goes.
    at: u64,
    /// The CRC of what is before it.
    crc: Crc,
}

impl Writer<'_> {
    fn emit(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.emit_known(bytes, Crc::of(bytes))
    }

    /// Writes bytes whose CRC is known.
    fn emit_known(&mut self, bytes: &[u8], crc: Crc) -> Result<(), WriteError> {
        put(self.sink, self.at, bytes)?;
        self.crc = self.crc.then(crc);
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn pad_to(&mut self, at: u64) -> Result<(), WriteError> {
        let zeros = [0; 64];
        let gap = usize::try_from(at.saturating_sub(self.at)).unwrap_or(0);
        self.emit(zeros.get(..gap).unwrap_or_default())
    }

    /// Header, metadata and index. All sizes are known, so they are final.
    fn front(&mut self) -> Result<Front, WriteError> {
        let compressed = self.places.list.iter().any(|place| place.compressed);
        let is_signed = !self.options.signers.is_empty() || !self.options.encrypts();
        let flags = self.plan.flags(compressed).with(Flags::SIGNED, is_signed || self.plan.options.sharded);
        let flags = flags.with(Flags::ENCRYPTED, self.options.encrypts());
        let index = self.index();
        let mut front =
            Front { header: [0; 32], flags, metadata: self.plan.metadata.clone(), index, hidden: Vec::new() };
        if self.options.hides_index {
            front.hide()?;
        }
        let size = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(u32::MAX); // checked by the plan
        let metadata_size = size(&front.metadata);
        let begin = u32::try_from(HEADER_LEN).unwrap_or(32);
        let data_offset = u32::try_from(self.places.data_offset);
        front.header = Header {
            version_major: 2,
            version_minor: 0,
            flags: front.flags,
            metadata_offset: begin,
            metadata_size,
            index_offset: begin.saturating_add(metadata_size),
            index_size: size(&front.index),
            data_offset: data_offset
                .map_err(|_| refused(SealFault::Limit("the index takes more than 4 GiB".to_owned())))?,
        }
        .encode();
        self.emit(&front.header)?;
        self.emit(&front.metadata)?;
        self.emit(&front.index)?;
        self.pad_to(self.places.data_offset)?;
        Ok(front)
    }

    fn index(&self) -> Vec<u8> {
        let mut index = u32::try_from(self.places.list.len()).unwrap_or(u32::MAX).to_le_bytes().to_vec();
        index.extend([0; 4]);
        for (info, place) in self.plan.table.iter().zip(&self.places.list) {
            let entry = Entry {
                name: info.name,
                dtype: info.dtype,
                dims: info.shape,
                offset: place.offset.saturating_sub(self.places.data_offset),
                size: place.size,
                raw_size: if place.compressed { info.nbytes } else { 0 },
                flags: if place.compressed { TENSOR_COMPRESSED } else { 0 },
            };
            entry.encode(&mut index);
        }
        index
    }

    /// Writes all tensors; returns where they lie with their digests, and the tables of their pages.
    fn data(
        &mut self,
        data: &dyn TensorData,
        work: &Execution<'_>,
    ) -> Result<(Vec<SealedExtent>, Vec<u8>), WriteError> {
        let (plan, options, keys) = (self.plan, self.options, self.keys.clone());
        let list = self.places.list.clone();
        let pieces = Pieces::new(plan.table.iter().map(|info| info.nbytes));
        let spare: Mutex<Vec<Vec<u8>>> = Mutex::default();
        let run = |worker: &mut Worker, number: u64| -> Result<Done, WriteError> {
            let piece = pieces.at(number);
            let mut bytes = spare.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
            let place = list.get(piece.tensor).copied().unwrap_or(Place::NOWHERE); // there is one for each tensor
            let ready = worker.stored(plan, data, options, &keys, piece, place, &mut bytes)?;
            if work.advance(piece.len).is_break() {
                return Err(WriteError::Cancelled);
            }
            Ok(Done { piece, bytes, ready })
        };
        let mut tensors =
            Tensors { writer: self, extents: Vec::new(), pages: Vec::new(), first_page: 0, current: None };
        work.each(pieces.count(), Worker::default, run, |done: Done| {
            tensors.take(&done)?;
            spare.lock().unwrap_or_else(PoisonError::into_inner).push(done.bytes);
            Ok(())
        })?;
        tensors.empty_until(list.len())?;
        Ok((tensors.extents, tensors.pages))
    }

    /// Body, pages, signatures, keys, trailer and footer.
    fn section(
        mut self,
        front: &Front,
        extents: Vec<SealedExtent>,
        pages: &[u8],
    ) -> Result<Written, WriteError> {
        let seal_offset = self.places.end.next_multiple_of(64);
        self.pad_to(seal_offset)?;
        let encrypts = self.options.encrypts();
        let mut sealed_index = Vec::new();
        if self.options.hides_index {
            let plain = front.hidden.len() as u64;
            let cipher = Cipher::of_index(&self.keys, self.options.segment, plain);
            sealed_index = cipher.sealed(0, &front.hidden).map_err(refused)?;
        }
        let body = Body {
            flags: if self.options.hides_index { INDEX_SEALED } else { 0 },
            uuid: self.keys.uuid,
            revision: self.options.revision,
            segment: if encrypts { self.options.segment } else { 0 },
            page: self.options.page,
            commitment: if encrypts { self.keys.commitment() } else { [0; 32] },
            extents,
            sealed_index_at: 0,
        };
        let body = body.encode(seal_offset, &sealed_index);
        let statement: Hash = statement(&front.header, &front.metadata, &front.index, &body);
        let trailer = Trailer {
            seal_offset,
            body_size: body.len() as u64,
            pages_size: pages.len() as u64,
            signatures_size: 0,
            keys_size: 0,
            prefix_crc32: 0,
        };
        self.emit(&body)?;
        self.emit(pages)?;
        let signatures = tail::signatures(&self.options.sign_statement(&statement));
        let keys = match encrypts {
            true => tail::keys(&self.keys, &self.options.slots(&self.keys).map_err(refused)?, &statement),
            false => Vec::new(),
        };
        let tail = tail::encode(&trailer, &signatures, &keys, self.crc).map_err(refused)?;
        self.emit(&tail)?;
        Ok(Written { statement, crc: self.crc })
    }
}

impl Front {
    /// Puts metadata and index where only the key shows them.
    fn hide(&mut self) -> Result<(), WriteError> {
        let too_long = |_| refused(SealFault::Limit("the sealed index is too long".to_owned()));
        let metadata = std::mem::replace(&mut self.metadata, HIDDEN.to_vec());
        let index = std::mem::replace(&mut self.index, vec![0; 8]);
        let lens = [u32::try_from(metadata.len()), u32::try_from(index.len())];
        for len in lens {
            self.hidden.extend(len.map_err(too_long)?.to_le_bytes());
        }
        self.hidden.extend(self.flags.bits().to_le_bytes());
        self.hidden.extend([0; 4]);
        self.hidden.extend(metadata);
        self.hidden.extend(index);
        if self.hidden.len() as u64 >= (1 << 31) - (1 << 20) {
            return Err(refused(SealFault::Limit("the sealed index is too long".to_owned())));
        }
        self.flags = self.flags.without(Flags::COMPRESSED).without(Flags::QUANTIZED);
        Ok(())
    }
}

/// A piece as it is stored, or compressed and yet to be encrypted.
struct Done {
    piece: Piece,
    bytes: Vec<u8>,
    /// The CRC of its bytes, if they are as they will be written.
    ready: Option<Crc>,
}

/// What a thread keeps from piece to piece.
#[derive(Default)]
struct Worker {
    values: Vec<u8>,
    #[cfg(feature = "lz4")]
    compressor: Option<crate::compress::Compressor>,
}

impl Worker {
    /// A piece in its stored form, in place of what `out` held: a compressed one is encrypted later, for its segments go across pieces.
    #[allow(clippy::too_many_arguments, reason = "all of them are what the piece is made of")]
    fn stored(
        &mut self,
        plan: &Plan,
        data: &dyn TensorData,
        options: &SealOptions,
        keys: &FileKeys,
        piece: Piece,
        place: Place,
        out: &mut Vec<u8>,
    ) -> Result<Option<Crc>, WriteError> {
        #[cfg(feature = "lz4")]
        if place.compressed {
            let compressor = self.compressor.get_or_insert_with(crate::compress::Compressor::new);
            let done = compressor.compress(plan, data, piece.values(), std::mem::take(out))?;
            *out = done.bytes;
            out.truncate(done.len);
            return Ok(if options.encrypts() { None } else { Some(Crc::of(out)) });
        }
        let name = || plan.table.info(piece.tensor).map_or_else(String::new, |info| info.name.to_owned());
        let values = match data.borrow(piece.tensor, piece.offset..piece.offset + piece.len) {
            Some(values) => values,
            None => {
                self.values.resize(usize::try_from(piece.len).unwrap_or(0), 0); // at most a piece
                let read = data.read(piece.tensor, piece.offset, &mut self.values);
                read.map_err(|source| WriteError::Data { name: name(), source })?;
                &self.values
            }
        };
        if !options.encrypts() {
            out.clear();
            out.extend(values);
            return Ok(Some(Crc::of(out)));
        }
        // A piece has whole segments.
        let cipher = cipher(plan, options, keys, piece.tensor, place.plain);
        out.resize(cipher.sealed_len(values.len()), 0);
        let mut crc = crc32fast::Hasher::new();
        let saw = |sealed: &[u8]| crc.update(sealed); // while a near cache still has it
        cipher.seal(piece.offset / options.segment, values, out, saw).map_err(refused)?;
        Ok(Some(Crc { value: crc.finalize(), len: out.len() as u64 }))
    }
}

fn cipher(plan: &Plan, options: &SealOptions, keys: &FileKeys, tensor: usize, plain: u64) -> Cipher {
    let identity = plan
        .table
        .info(tensor)
        .map_or_else(Vec::new, |info| wire::identity(info.name, info.dtype, info.shape));
    let ordinal = u32::try_from(tensor).unwrap_or(u32::MAX); // at most 2^20
    Cipher::of_tensor(keys, ordinal, &identity, options.segment, plain)
}

/// Takes pieces in order, and writes the tensors.
struct Tensors<'w, 'a> {
    writer: &'w mut Writer<'a>,
    extents: Vec<SealedExtent>,
    pages: Vec<u8>,
    first_page: u64,
    current: Option<Current>,
}

/// The tensor that is being written.
struct Current {
    digester: Digester,
    /// Compressed bytes that do not fill a segment yet.
    pending: Vec<u8>,
    /// The number of the next segment.
    segment: u64,
    /// Bytes of plaintext so far.
    plain: u64,
}

impl Tensors<'_, '_> {
    fn take(&mut self, done: &Done) -> Result<(), WriteError> {
        let tensor = done.piece.tensor;
        self.empty_until(tensor)?;
        let Some(&place) = self.writer.places.list.get(tensor) else { return Ok(()) };
        let page = self.writer.options.page;
        let mut current = match self.current.take() {
            Some(current) => current,
            None => {
                self.writer.pad_to(place.offset)?;
                Current {
                    digester: Digester::new(place.size, page),
                    pending: Vec::new(),
                    segment: 0,
                    plain: 0,
                }
            }
        };
        match done.ready {
            Some(crc) => {
                current.digester.update(&done.bytes);
                self.writer.emit_known(&done.bytes, crc)?;
            }
            None => self.encrypt(tensor, place, &mut current, &done.bytes)?,
        }
        let nbytes = self.writer.plan.table.info(tensor).map_or(0, |info| info.nbytes);
        if done.piece.offset + done.piece.len == nbytes {
            return self.finish(tensor, place, current);
        }
        self.current = Some(current);
        Ok(())
    }

    /// Encrypts what fills segments; the last one ends with the tensor.
    fn encrypt(
        &mut self,
        tensor: usize,
        place: Place,
        current: &mut Current,
        bytes: &[u8],
    ) -> Result<(), WriteError> {
        let Writer { plan, options, keys, .. } = &*self.writer;
        current.pending.extend(bytes);
        current.plain += bytes.len() as u64;
        let segment = usize::try_from(options.segment).unwrap_or(usize::MAX);
        let whole = if current.plain >= place.plain {
            current.pending.len()
        } else {
            current.pending.len() / segment * segment
        };
        let ready = current.pending.get(..whole).unwrap_or_default();
        let cipher = cipher(plan, options, keys, tensor, place.plain);
        let out = cipher.sealed(current.segment, ready).map_err(refused)?;
        current.segment += (whole / segment) as u64;
        current.pending.drain(..whole);
        current.digester.update(&out);
        self.writer.emit(&out)
    }

    fn finish(&mut self, tensor: usize, place: Place, current: Current) -> Result<(), WriteError> {
        if self.writer.at != place.offset + place.size || !current.pending.is_empty() {
            // What is compressed now is not as long as it was: its values have changed in between.
            let name =
                self.writer.plan.table.info(tensor).map_or_else(String::new, |info| info.name.to_owned());
            return Err(WriteError::Data {
                name,
                source: "its values changed while they were written".into(),
            });
        }
        let (digest, nodes) = current.digester.finish();
        self.list(place, digest);
        self.first_page += pages_of(place.size, self.writer.options.page);
        self.pages.extend(nodes.iter().flatten());
        Ok(())
    }

    /// Lists empty tensors, which have no pieces, up to that number.
    fn empty_until(&mut self, tensor: usize) -> Result<(), WriteError> {
        while self.extents.len() < tensor && self.current.is_none() {
            let Some(&place) = self.writer.places.list.get(self.extents.len()) else { break };
            self.list(place, *blake3::hash(&[]).as_bytes());
        }
        Ok(())
    }

    fn list(&mut self, place: Place, digest: Hash) {
        let offset = place.offset.saturating_sub(self.writer.places.data_offset);
        self.extents.push(SealedExtent { offset, size: place.size, digest, first_page: self.first_page });
    }
}

#[cfg(all(test, feature = "lz4"))]
mod tests;
