//! Writes sealed files in one pass: each byte is encrypted, hashed and written once, in file order. The parts
//! before the tensors are written last, when their sizes are known.

mod packed;
mod places;

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use apr2::author::{Compressor, Entry, HEADER_LEN, Header, Planned, TENSOR_COMPRESSED, identity};
use apr2::{Flags, Plan};
use modelfmt_core::{Execution, Part, author::Crc};
use modelfmt_write::{Sink, TensorData};

use self::packed::{Packed, Piece, Pieces};
use self::places::{Place, Places};
use crate::error::{SealFault, WriteError, unfit};
use crate::seal::write::{Body, Cipher, Digester, FileKeys, INDEX_SEALED, SealedExtent, Trailer};
use crate::seal::{Hash, SealOptions, pages_of, statement, tail};

/// The metadata that a file with a sealed index shows at its front.
const HIDDEN: &[u8] = br#"{"apr_version":"2.0.0","architecture":{},"model_type":"sealed"}"#;

/// A sealed file that has been written.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Written {
    /// The hash of everything that is signed. Callers can pin the file with it.
    pub statement: [u8; 32],
    pub(crate) crc: Crc,
}

impl SealOptions {
    /// Writes the model of a plan into a sink, signed, encrypted or both. Whether a tensor is compressed must
    /// be known before its first byte is encrypted, so up to 64 MiB of compressed values are held in memory.
    /// A larger tensor is compressed twice.
    ///
    /// # Errors
    /// If a value cannot be read, or the file cannot be written; if the options cannot be fulfilled, or the
    /// system has no randomness.
    pub fn write(
        &self,
        plan: &Plan,
        data: &dyn TensorData,
        sink: &dyn Sink,
        work: &Execution<'_>,
    ) -> Result<Written, WriteError> {
        self.check().map_err(refused)?;
        if plan.tensors().len() as u64 > 1 << 20 {
            return Err(refused(SealFault::Limit("a sealed file has at most 2^20 tensors".to_owned())));
        }
        let places = Places::new(plan, self)?;
        let keys = self.fresh_keys().map_err(refused)?;
        let at = places.data_offset;
        let mut writer = Writer { plan, options: self, keys, places, sink, at, crc: Crc::default() };
        let (extents, pages) = writer.data(data, work)?;
        let front = writer.front()?;
        writer.section(&front, extents, &pages)
    }
}

fn put(sink: &dyn Sink, at: u64, bytes: &[u8]) -> Result<(), WriteError> {
    sink.write_at(at, bytes).map_err(|source| WriteError::Write { path: sink.name(), source })
}

fn refused(fault: SealFault) -> WriteError {
    unfit(Part::new("seal section"), fault)
}

/// The signed parts before the tensors.
struct Front {
    header: [u8; 32],
    flags: Flags,
    metadata: Vec<u8>,
    index: Vec<u8>,
    /// The content of a sealed index.
    hidden: Vec<u8>,
}

struct Writer<'a> {
    plan: &'a Plan,
    options: &'a SealOptions,
    keys: FileKeys,
    places: Places,
    sink: &'a dyn Sink,
    /// The offset of the next byte.
    at: u64,
    /// The CRC of everything before `at`. It leaves out the front until the front is written.
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

    /// Writes the header, the metadata and the index. All tensors have been written, so the sizes are final.
    fn front(&mut self) -> Result<Front, WriteError> {
        let compressed = self.places.list.iter().any(|place| place.compressed);
        let is_signed = !self.options.signers.is_empty() || !self.options.encrypts();
        let plan = Planned::of(self.plan);
        let flags = plan.flags(compressed).with(Flags::SIGNED, is_signed || plan.is_sharded);
        let flags = flags.with(Flags::ENCRYPTED, self.options.encrypts());
        let index = self.index();
        let mut front =
            Front { header: [0; 32], flags, metadata: plan.metadata.to_vec(), index, hidden: Vec::new() };
        if self.options.hides_index {
            front.hide()?;
        }
        let size = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(u32::MAX); // checked by the plan
        let metadata_size = size(&front.metadata);
        let begin = u32::try_from(HEADER_LEN).unwrap_or(32);
        front.header = Header {
            version_major: 2,
            version_minor: 0,
            flags: front.flags,
            metadata_offset: begin,
            metadata_size,
            index_offset: begin.saturating_add(metadata_size),
            index_size: size(&front.index),
            data_offset: u32::try_from(self.places.data_offset).unwrap_or(u32::MAX), // checked by the places
        }
        .encode();
        let len = front.header.len() + front.metadata.len() + front.index.len();
        let gap = vec![0; usize::try_from(self.places.data_offset).unwrap_or(len).saturating_sub(len)];
        let (mut at, mut crc) = (0, Crc::default());
        for bytes in [&front.header[..], &front.metadata, &front.index, &gap] {
            put(self.sink, at, bytes)?;
            crc = crc.then(Crc::of(bytes));
            at += bytes.len() as u64;
        }
        self.crc = crc.then(self.crc);
        Ok(front)
    }

    fn index(&self) -> Vec<u8> {
        let mut index = u32::try_from(self.places.list.len()).unwrap_or(u32::MAX).to_le_bytes().to_vec();
        index.extend([0; 4]);
        for (info, place) in self.plan.tensors().iter().zip(&self.places.list) {
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

    /// Writes all tensors. Returns their places and digests, and their page tables.
    fn data(
        &mut self,
        data: &dyn TensorData,
        work: &Execution<'_>,
    ) -> Result<(Vec<SealedExtent>, Vec<u8>), WriteError> {
        let plan = self.plan;
        let pieces = Pieces::new(plan);
        let mut tensors =
            Tensors { writer: self, extents: Vec::new(), pages: Vec::new(), first_page: 0, current: None };
        for batch in pieces.batches(plan) {
            let packed = Packed::new(plan, &pieces, batch.clone(), data, work)?;
            for tensor in batch.clone() {
                let Writer { places, options, .. } = &mut *tensors.writer;
                places.add(plan, options, tensor, packed.len_of(tensor))?;
            }
            tensors.write(batch, &pieces, &packed, data, work)?;
        }
        Ok((tensors.extents, tensors.pages))
    }

    /// Writes the body, the pages, the signatures, the keys, the trailer and the footer.
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
    /// Moves the metadata and the index to the sealed index, which only a key reveals.
    fn hide(&mut self) -> Result<(), WriteError> {
        let too_long = |_| refused(SealFault::Limit(places::TOO_LONG.to_owned()));
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
        self.flags = self.flags.without(Flags::COMPRESSED).without(Flags::QUANTIZED);
        Ok(())
    }
}

/// A piece in its stored form, or compressed if it still has to be encrypted.
struct Done {
    piece: Piece,
    bytes: Vec<u8>,
    /// The CRC of its bytes, if they are in their final form.
    ready: Option<Crc>,
}

/// Buffers that a thread reuses from piece to piece.
#[derive(Default)]
struct Worker {
    values: Vec<u8>,
    compressor: Option<Compressor>,
}

impl Worker {
    /// Puts a piece into `out` in its stored form. A compressed piece is not encrypted yet, because its
    /// segments reach across pieces. With `is_packed`, `out` already holds the compressed piece.
    #[allow(clippy::too_many_arguments, reason = "all of them are what the piece is made of")]
    fn stored(
        &mut self,
        plan: &Plan,
        data: &dyn TensorData,
        options: &SealOptions,
        keys: &FileKeys,
        piece: Piece,
        place: Place,
        is_packed: bool,
        out: &mut Vec<u8>,
    ) -> Result<Option<Crc>, WriteError> {
        if place.compressed {
            if !is_packed {
                let compressor = self.compressor.get_or_insert_with(Compressor::default);
                *out = compressor.blocks(plan, data, piece.tensor, piece.values(), std::mem::take(out))?;
            }
            return Ok(if options.encrypts() { None } else { Some(Crc::of(out)) });
        }
        let name = || plan.tensors().info(piece.tensor).map_or_else(String::new, |info| info.name.to_owned());
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
        // A piece consists of whole segments.
        let cipher = cipher(plan, options, keys, piece.tensor, place.plain);
        out.resize(cipher.sealed_len(values.len()), 0);
        let mut crc = crc32fast::Hasher::new();
        let saw = |sealed: &[u8]| crc.update(sealed); // while a near cache still has it
        cipher.seal(piece.offset / options.segment, values, out, saw).map_err(refused)?;
        Ok(Some(Crc { value: crc.finalize(), len: out.len() as u64 }))
    }
}

fn cipher(plan: &Plan, options: &SealOptions, keys: &FileKeys, tensor: usize, plain: u64) -> Cipher {
    let identity =
        plan.tensors().info(tensor).map_or_else(Vec::new, |info| identity(info.name, info.dtype, info.shape));
    let ordinal = u32::try_from(tensor).unwrap_or(u32::MAX); // at most 2^20
    Cipher::of_tensor(keys, ordinal, &identity, options.segment, plain)
}

/// Takes pieces in order, and writes their tensors.
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
    /// Writes tensors whose places are known.
    fn write(
        &mut self,
        batch: Range<usize>,
        pieces: &Pieces,
        packed: &Packed,
        data: &dyn TensorData,
        work: &Execution<'_>,
    ) -> Result<(), WriteError> {
        let Writer { plan, options, ref keys, ref places, .. } = *self.writer;
        let keys = keys.clone();
        let list = places.list.get(batch.clone()).unwrap_or_default().to_vec();
        let numbers = pieces.of(&batch);
        let spare: Mutex<Vec<Vec<u8>>> = Mutex::default();
        let run = |worker: &mut Worker, number: u64| -> Result<Done, WriteError> {
            let piece = pieces.at(numbers.start + number);
            let kept = packed.take(number);
            let is_packed = kept.is_some();
            let spare = || spare.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
            let mut bytes = kept.unwrap_or_else(spare);
            // Each tensor of the batch has a place.
            let place = list.get(piece.tensor - batch.start).copied().unwrap_or(Place::NOWHERE);
            let ready = worker.stored(plan, data, options, &keys, piece, place, is_packed, &mut bytes)?;
            if work.advance(piece.len).is_break() {
                return Err(WriteError::Cancelled);
            }
            Ok(Done { piece, bytes, ready })
        };
        work.each(numbers.end - numbers.start, Worker::default, run, |done: Done| {
            self.take(&done)?;
            spare.lock().unwrap_or_else(PoisonError::into_inner).push(done.bytes);
            Ok(())
        })?;
        self.empty_until(batch.end)
    }

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
        let nbytes = self.writer.plan.tensors().info(tensor).map_or(0, |info| info.nbytes);
        if done.piece.offset + done.piece.len == nbytes {
            return self.finish(tensor, place, current);
        }
        self.current = Some(current);
        Ok(())
    }

    /// Encrypts all complete segments. The last segment ends with the tensor.
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
            // The compressed length differs from the first pass: the values have changed in between.
            let name =
                self.writer.plan.tensors().info(tensor).map_or_else(String::new, |info| info.name.to_owned());
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

    /// Adds extents for empty tensors, which have no pieces, up to the tensor with this number.
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

#[cfg(test)]
mod tests;
