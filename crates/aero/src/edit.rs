//! Changes the metadata of a file and the names of its tensors. The values stay as they are.

use std::collections::BTreeMap;
use std::ops::Range;

use modelfmt_core::author::{align_up, now};
use modelfmt_core::value::{Object, Value, json};
use modelfmt_core::{CommonFault, Execution, Part, Source};
use modelfmt_write::edit::{NewFile, Preview};

use crate::chunk_writer::{DEFAULT_LEVEL, NewChunk, Stored};
use crate::chunks::{Chunk, entry_at};
use crate::control::{self, ControlHash};
use crate::error::{EditError, Error, Fault, WriteError};
use crate::index::Index;
use crate::msgpack::{self, DEPTH, Walker, put_str};
use crate::options::unfit_metadata;
use crate::wire::{ChunkFlags, FourCC, METADATA_ALIGNMENT, TocEntry, WEIGHT_ALIGNMENT};

impl Index {
    /// Renames the tensors at the given positions, replaces the file's MJSN with `metadata` if given, and
    /// returns the new content of the file. The values and all other chunks stay as they are, except for the
    /// control hash and for the model's name and architecture in the manifest. All hashes are updated.
    ///
    /// A chunk keeps its offset unless the chunks before it have grown into it. If all shards keep theirs,
    /// the file can be changed in place.
    ///
    /// # Errors
    /// [`EditError::Read`] if the file cannot be read, or a chunk that would be changed is damaged.
    /// [`EditError::Write`] if a name is a duplicate, if the metadata do not fit, if the file's table of
    /// contents comes after chunks, or if `metadata` are given and the file has no MJSN.
    pub fn edit(
        &self,
        source: &impl Source,
        names: &BTreeMap<usize, String>,
        metadata: Option<&Object>,
    ) -> Result<NewFile, EditError> {
        self.tensors()
            .renamed(names, |offset| offset)
            .map_err(|fault| unfit(Part::new("TIDX chunk"), fault))?;
        let start = self.control_end()?;
        let mut changed = BTreeMap::new();
        if let Some(metadata) = metadata {
            let Some(position) = self.chunks.first(FourCC::MJSN) else {
                return Err(unchangeable("it has no chunk for metadata (MJSN)"));
            };
            let text = json::to_string_sorted(metadata)
                .map_err(|error| unfit_metadata("metadata", error.to_string()))?;
            changed.insert(position, self.stored(position, text.into_bytes())?);
            if let Some((position, manifest)) = self.manifest_for(source, metadata)? {
                changed.insert(position, self.stored(position, manifest)?);
            }
        }
        if !names.is_empty()
            && let Some(position) = self.chunks.tidx()
        {
            let content = now(self.content(source, position))?;
            let renamed = renamed(&content, names).map_err(|fault| unfit(Part::new("TIDX chunk"), fault))?;
            changed.insert(position, self.stored(position, renamed)?);
        }
        let mut control = read(source, 0..start)?;
        let file = self.assemble(source, &mut control, &changed)?;
        let hashes: Vec<_> =
            self.chunks().enumerate().filter(|(_, chunk)| chunk.fourcc == FourCC::IHSH).collect();
        if hashes.is_empty() {
            return Ok(file);
        }
        let preview = Preview::new(file, source);
        for (position, chunk) in hashes {
            let content = now(self.content(source, position))?;
            let stored = self.control_hash(&content, &preview).map_err(|error| match error {
                EditError::Read(Error::Malformed { fault, .. }) => chunk.malformed(fault).into(),
                other => other,
            })?;
            changed.insert(position, stored);
        }
        self.assemble(source, &mut control, &changed)
    }

    /// Recomputes a control hash over another file. The result has the form of the old one, `content`.
    fn control_hash(&self, content: &[u8], file: &impl Source) -> Result<Stored, EditError> {
        let malformed =
            |fault| EditError::Read(Error::Malformed { part: Part::new("IHSH chunk"), at: 0, fault });
        let stated = ControlHash::parse(content).map_err(malformed)?;
        stated.check_ranges(file.len()).map_err(malformed)?;
        let (toc, entries) = (self.header.toc_offset, self.chunks.len());
        let work = Execution::sequential();
        let digest = now(control::digest(file, toc, entries, &stated.ranges, &work))?;
        let mut bytes = content.to_vec();
        let place = bytes.windows(stated.digest.len()).position(|bytes| *bytes == stated.digest);
        let end = place.map_or(0, |place| place.saturating_add(stated.digest.len()));
        if let Some(old) = place.and_then(|place| bytes.get_mut(place..end)) {
            old.copy_from_slice(&digest);
        }
        let hash = *blake3::hash(&bytes).as_bytes();
        Ok(Stored { ulen: bytes.len() as u64, bytes, hash })
    }

    /// Returns the offset at which the chunks begin, after the header, the table of contents and the names.
    fn control_end(&self) -> Result<u64, EditError> {
        let start = self.payloads_start();
        let chunks = self.chunks().filter(|chunk| chunk.length > 0);
        let first = chunks.map(|chunk| chunk.offset).min().unwrap_or(u64::MAX);
        start
            .filter(|&start| start <= first)
            .ok_or_else(|| unchangeable("its table of contents is not before its chunks"))
    }

    /// Encodes new content for the chunk at a position.
    fn stored(&self, position: usize, content: Vec<u8>) -> Result<Stored, WriteError> {
        let chunk = self.chunk(position);
        let chunk = chunk.map_or_else(
            || NewChunk::new(FourCC::MJSN, ""),
            |chunk| NewChunk::new(chunk.fourcc, chunk.name).with_flags(chunk.flags),
        );
        Stored::new(&chunk, content, DEFAULT_LEVEL)
    }

    /// Returns the manifest with the name and architecture of the new metadata, if it had those of the old
    /// metadata, or `None` if it stays as it is.
    fn manifest_for(
        &self,
        source: &impl Source,
        metadata: &Object,
    ) -> Result<Option<(usize, Vec<u8>)>, EditError> {
        let Some(position) = self.chunks.first(FourCC::MMSG) else { return Ok(None) };
        let content = now(self.content(source, position))?;
        let mut manifest = now(self.manifest_at(source, position))?;
        // A manifest that a tree cannot represent completely stays as it is.
        if msgpack::encode(&manifest).ok().as_deref() != Some(&*content) {
            return Ok(None);
        }
        let before = now(self.json(source))?.unwrap_or_default();
        let mut is_changed = false;
        if let Some(Value::Object(model)) = manifest.get_mut("model") {
            for (key, own) in [("model_name", "name"), ("architecture", "architecture")] {
                let (old, new) = (before.get(key), metadata.get(key).filter(|new| new.as_str().is_some()));
                if let (Some(old), Some(new)) = (old, new)
                    && old != new
                    && model.get(own) == Some(old)
                {
                    model.insert(own, new.clone());
                    is_changed = true;
                }
            }
        }
        if !is_changed {
            return Ok(None);
        }
        let bytes = msgpack::encode(&manifest).map_err(|text| unfit_metadata("manifest", text))?;
        Ok(Some((position, bytes)))
    }

    /// Assembles the file from these chunks. Writes their offsets, lengths and hashes into `control`, the
    /// bytes before all chunks.
    fn assemble(
        &self,
        source: &impl Source,
        control: &mut [u8],
        changed: &BTreeMap<usize, Stored>,
    ) -> Result<NewFile, EditError> {
        let places = self.places(control.len() as u64, changed);
        for place in &places {
            put_entry(control, self.header.toc_offset, place, changed.get(&place.position));
        }
        let mut file = NewFile::new();
        file.push(&*control);
        let (mut old_end, mut room) = (control.len() as u64, MAX_MOVED);
        for place in places {
            file.push(vec![0; usize::try_from(place.zeros).unwrap_or(0)]);
            file.keep(place.gap);
            // Chunks other than weights can move to make room for a chunk that has grown, even when editing
            // in place.
            let is_light = self.chunk(place.position).is_some_and(|chunk| chunk.fourcc != FourCC::WTSH);
            let moves = place.offset != place.old.start && is_light && place.length <= room;
            room = if moves { room - place.length } else { room };
            match changed.get(&place.position) {
                Some(stored) => file.push(&*stored.bytes),
                None if moves => file.push(read(source, place.old.clone())?),
                None => file.keep(place.old.clone()),
            }
            old_end = old_end.max(place.old.end);
        }
        file.keep(old_end..self.file_len.max(old_end));
        Ok(file)
    }

    /// Returns the places of the chunks, in file order. A chunk keeps its offset unless the chunks before it
    /// have grown into it.
    fn places(&self, start: u64, changed: &BTreeMap<usize, Stored>) -> Vec<Place> {
        let chunks = self.chunks().enumerate();
        let mut order: Vec<_> =
            chunks.map(|(position, chunk)| (chunk.offset, chunk.length, position)).collect();
        order.sort_unstable();
        let (mut places, mut at, mut old_end) = (Vec::with_capacity(order.len()), start, start);
        for (old, old_len, position) in order {
            let length = changed.get(&position).map_or(old_len, |stored| stored.bytes.len() as u64);
            let (offset, gap) = if at <= old {
                // The bytes between chunks stay. Space that becomes free is zeroed.
                (old, old_end.clamp(at, old)..old)
            } else {
                (align_up(at, self.alignment(position)).unwrap_or(at), 0..0)
            };
            let zeros = offset.saturating_sub(at).saturating_sub(gap.end.saturating_sub(gap.start));
            let end = old.saturating_add(old_len);
            places.push(Place { position, offset, length, zeros, gap, old: old..end });
            at = offset.saturating_add(length);
            old_end = old_end.max(end);
        }
        places
    }

    /// Returns the alignment of a chunk that has to move.
    fn alignment(&self, position: usize) -> u64 {
        let mapped = ChunkFlags::CHUNK_IS_MMAP_CRITICAL;
        let is_mapped = |chunk: Chunk<'_>| chunk.fourcc == FourCC::WTSH || chunk.flags.contains(mapped);
        if self.chunk(position).is_some_and(is_mapped) { WEIGHT_ALIGNMENT } else { METADATA_ALIGNMENT }
    }
}

/// The most bytes of chunks that are moved within a file. They are held in memory.
const MAX_MOVED: u64 = 64 << 20;

/// The new place of a chunk.
struct Place {
    position: usize,
    offset: u64,
    length: u64,
    /// The number of zeros before it.
    zeros: u64,
    /// The range of the old file that is kept between these zeros and the chunk.
    gap: Range<u64>,
    /// The chunk's old range.
    old: Range<u64>,
}

/// Writes the offset, length and, if it has changed, hash of a chunk into its TOC entry.
fn put_entry(control: &mut [u8], toc: u64, place: &Place, stored: Option<&Stored>) {
    // AERO 0.1, "TOC Entry": fourcc, flags, offset, length, ulen, …, hash.
    let mut put = |within: u64, bytes: &[u8]| {
        let at = entry_at(toc, place.position).saturating_add(within);
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let field = control.get_mut(at..at.saturating_add(bytes.len()));
        field.into_iter().for_each(|field| field.copy_from_slice(bytes));
    };
    put(8, &place.offset.to_le_bytes());
    put(16, &place.length.to_le_bytes());
    if let Some(stored) = stored {
        put(24, &stored.ulen.to_le_bytes());
        put(TocEntry::HASH_AT, &stored.hash);
    }
}

/// Returns the content of a TIDX with new names for some tensors, otherwise unchanged.
fn renamed(content: &[u8], names: &BTreeMap<usize, String>) -> Result<Vec<u8>, Fault> {
    let (mut walker, mut out, mut copied) = (Walker::new(content), Vec::with_capacity(content.len()), 0);
    for _ in 0..walker.map()? {
        if walker.text()? != b"tensors" {
            walker.skip(DEPTH)?;
            continue;
        }
        for number in 0..walker.array()? {
            for _ in 0..walker.map()? {
                let is_name = walker.text()? == b"name";
                let start = walker.position();
                walker.skip(DEPTH)?;
                let new = usize::try_from(number).ok().and_then(|number| names.get(&number));
                if let Some(new) = new.filter(|_| is_name) {
                    out.extend_from_slice(content.get(copied..start).unwrap_or_default());
                    put_str(&mut out, new);
                    copied = walker.position();
                }
            }
        }
    }
    out.extend_from_slice(content.get(copied..).unwrap_or_default());
    Ok(out)
}

fn read(source: &impl Source, range: Range<u64>) -> Result<Vec<u8>, EditError> {
    let bytes = source.read(range.clone()).map_err(|error| EditError::io(&range, error))?;
    Ok(bytes.to_vec())
}

fn unchangeable(what: &'static str) -> EditError {
    unfit(Part::new("the file"), CommonFault::Unchangeable(what))
}

fn unfit(part: Part, fault: impl Into<Fault>) -> EditError {
    WriteError::unsupported(part, fault).into()
}
