//! An open set: its parts are opened when one of their tensors is asked for.

#[cfg(not(target_arch = "wasm32"))]
use std::path::{Path, PathBuf};
use std::sync::Arc;

use modelfmt_core::claims::{Claims, Watched};
use modelfmt_core::parts::Parts;
use modelfmt_core::source::Files;
#[cfg(not(target_arch = "wasm32"))]
use modelfmt_core::source::{FileSource, Folder};
use modelfmt_core::value::{Object, Value};
use modelfmt_core::{
    AnyError, Bytes, Container, Encoding, Execution, Extent, FileIndex, Limits, Location, Part, Report,
    Source, TensorInfo, TensorTable, TensorView, VerifyLevel, now,
};

use super::{SetFile, SetIndex, file_part, stated};
use crate::chunks::malformed;
use crate::claims::{Asked, claims};
use crate::contents::read;
use crate::error::{Error, Fault, Hex, Result};
use crate::index::Index;
use crate::reader::{OpenOptions, Reader};
use crate::tidx::Entry;
use crate::verify::describe;
use crate::wire::{FourCC, shard_name};

/// An open set. Opening reads its index and the tensor index of `index.aero`; a part is opened when one of its tensors is
/// asked for.
#[derive(Debug)]
pub struct SetReader<F: Files> {
    set: Arc<SetIndex>,
    files: F,
    /// The folder of the index within `files`, with its `/`.
    prefix: String,
    options: OpenOptions,
    global: Reader<F::Source>,
    parts: Parts<Reader<F::Source>, Index, Fault>,
}

#[cfg(not(target_arch = "wasm32"))]
impl SetReader<Folder> {
    /// Opens the set whose index stands at `path`, or in the folder at `path`.
    ///
    /// # Errors
    /// If index or tensor index cannot be read or break a rule; for a folder also if it has not one file `*.aeroset.json`.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, &OpenOptions::new())
    }

    /// As [`open`](Self::open), with options of your own.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self> {
        let failed = |path: &Path| {
            let path = path.display().to_string();
            move |source| Error::Open { path, source }
        };
        let path = index_path(path.as_ref()).map_err(failed(path.as_ref()))?;
        let source = FileSource::open(&path).map_err(failed(&path))?;
        Self::from_source(&source, Folder::of(&path), options)
    }
}

/// The one index of a folder, or the file itself.
#[cfg(not(target_arch = "wasm32"))]
fn index_path(path: &Path) -> std::io::Result<PathBuf> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    let usual = path.join("model.aeroset.json");
    if usual.is_file() {
        return Ok(usual);
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?.path();
        let name = entry.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.ends_with(".aeroset.json") {
            found.push(entry);
        }
    }
    match found.pop() {
        Some(one) if found.is_empty() => Ok(one),
        one => {
            let what = if one.is_some() { "more than one file" } else { "no file" };
            let text = format!("the folder has {what} named *.aeroset.json; give the index itself");
            Err(std::io::Error::new(std::io::ErrorKind::NotFound, text))
        }
    }
}

fn open_file<F: Files>(
    options: &OpenOptions,
    files: &F,
    prefix: &str,
    file: &SetFile,
) -> Result<Reader<F::Source>> {
    let failed = |source| Error::Open { path: file.path.clone(), source };
    let source = files.open(&format!("{prefix}{}", file.path)).map_err(failed)?;
    options.open_source(source).map_err(|error| error.in_file(&file_part(&file.path)))
}

/// Where a tensor is in its part.
#[derive(Clone, Copy)]
enum Home {
    /// The part lists it, at this position.
    Listed(usize),
    /// The part does not, and the number of the shard in the whole set names a chunk of it.
    Shard(Extent),
}

impl Home {
    /// Where its values begin in the part.
    fn offset<S: Source>(self, part: &Reader<S>) -> u64 {
        match self {
            Self::Listed(there) => part.index().location(there).and_then(|found| found.offset).unwrap_or(0),
            Self::Shard(extent) => extent.offset(),
        }
    }
}

impl<F: Files> SetReader<F> {
    /// Opens the set whose index is the file `index` of `files`.
    ///
    /// # Errors
    /// If index or tensor index cannot be read or break a rule.
    pub fn from_files(files: F, index: &str) -> Result<Self> {
        let failed = |source| Error::Open { path: index.to_owned(), source };
        let source = files.open(index).map_err(failed)?;
        let prefix = index.rfind('/').and_then(|at| index.get(..=at)).unwrap_or_default();
        Self::with_prefix(&source, files, prefix.to_owned(), &OpenOptions::new())
    }

    /// Opens the set whose index is what `source` holds, and whose files `files` opens.
    ///
    /// # Errors
    /// As [`from_files`](Self::from_files).
    pub fn from_source(source: &(impl Source + ?Sized), files: F, options: &OpenOptions) -> Result<Self> {
        Self::with_prefix(source, files, String::new(), options)
    }

    fn with_prefix(
        source: &(impl Source + ?Sized),
        files: F,
        prefix: String,
        options: &OpenOptions,
    ) -> Result<Self> {
        let read = || {
            let (len, limits) = (source.len(), options.shared.limits_ref());
            Limits::check("the length of the index of the set", len, limits.metadata_len)?;
            let text = source.read(0..len).map_err(|source| Error::Io { at: 0, len, source })?;
            let set = SetIndex::parse(&text, limits)?;
            let global = open_file(options, &files, &prefix, set.global_tidx())?;
            Ok((Arc::new(set), global))
        };
        let (set, global) = read().map_err(|error: Error| error.in_source(source.name()))?;
        let parts = Parts::new(set.parts().len());
        // The allowance of compressed chunks is that of the whole set.
        let options = OpenOptions { shared: options.shared.clone().one_in(parts.len() as u64) };
        Ok(Self { set, files, prefix, options, global, parts })
    }

    /// What the index of the set says.
    #[must_use]
    pub const fn set(&self) -> &Arc<SetIndex> {
        &self.set
    }

    /// The file that lists all tensors, with the model's metadata; it has no values.
    #[must_use]
    pub const fn global(&self) -> &Reader<F::Source> {
        &self.global
    }

    /// What the global tensor index says.
    #[must_use]
    pub fn index(&self) -> &Arc<Index> {
        self.global.index()
    }

    /// The files.
    #[must_use]
    pub const fn files(&self) -> &F {
        &self.files
    }

    /// A part, opened if it is not yet. One that cannot be opened is tried once.
    ///
    /// # Errors
    /// If there is no such part, or it cannot be opened or breaks a rule.
    pub fn part(&self, number: usize) -> Result<&Reader<F::Source>> {
        let part = self.set.parts().get(number);
        let part = part.ok_or_else(|| Error::NotFound { name: format!("part number {number}") })?;
        self.parts.get(number, || {
            let path = &part.file.path;
            let failed = |source| Error::Open { path: path.clone(), source };
            let source = self.files.open(&format!("{}{path}", self.prefix)).map_err(failed)?;
            let index = self
                .parts
                .index(&source, |source| modelfmt_core::Reader::index_of(source, &self.options.shared));
            index
                .and_then(|index| Reader::with_index(index, source))
                .map_err(|error| error.in_file(&file_part(path)))
        })
    }

    /// The tensors in the order of the global tensor index.
    #[must_use]
    pub fn tensors(&self) -> &TensorTable {
        self.global.tensors()
    }

    /// The tensor of that name with its values. No hash is looked at.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Io`], [`Error::Open`] for a part that is missing; if no part has its shard, or the
    /// part disagrees about it.
    pub fn tensor(&self, name: &str) -> Result<TensorView<'_>> {
        self.tensor_at(self.position(name)?)
    }

    /// The tensor at a position with its values. No hash is looked at.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor).
    pub fn tensor_at(&self, position: usize) -> Result<TensorView<'_>> {
        let (number, part, home) = self.home(position)?;
        let path = self.path(number);
        let bytes = match home {
            Home::Listed(there) => part.tensor_at(there).map(TensorView::into_bytes),
            Home::Shard(extent) => now(read(part.source(), extent.range())),
        };
        let bytes = bytes.map_err(|error| error.in_file(&file_part(path)))?;
        modelfmt_core::view_of_source(self.info_at(position)?.0, bytes, || home.offset(part))
    }

    /// The tensor of that name with its values, verified: by the `hash_b3` of the global index, else by what hashes its
    /// part has.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor) and [`Reader::tensor_verified`].
    pub fn tensor_verified(&self, name: &str) -> Result<TensorView<'_>> {
        let position = self.position(name)?;
        let (info, entry) = self.info_at(position)?;
        if let Some(expected) = entry.hash_b3 {
            let tensor = self.tensor_at(position)?;
            let found = *blake3::hash(tensor.bytes()).as_bytes();
            if found == expected {
                return Ok(tensor);
            }
            let fault =
                Fault::Hash { stated: "hash_b3", found: Hex::new(found), expected: Hex::new(expected) };
            return Err(malformed(Part::named("tensor", name), 0, fault));
        }
        let (number, part, home) = self.home(position)?;
        match home {
            Home::Listed(there) => {
                let found = part.tensor_at_verified(there).map(TensorView::into_bytes);
                let bytes = found.map_err(|error| error.in_file(&file_part(self.path(number))))?;
                modelfmt_core::view_of_source(info, bytes, || home.offset(part))
            }
            Home::Shard(_) => Err(Error::NoHash { name: name.to_owned() }),
        }
    }

    /// Fills `out` with the values of the tensor at a position, from byte `offset` of them on. No hash is looked at.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor); [`Error::OutOfRange`].
    pub fn read_into(&self, position: usize, offset: u64, out: &mut [u8]) -> Result<()> {
        self.read_from(position, offset, out, |_, source| source)
    }

    /// The same, from what `wrap` makes of the source of the part of that number.
    fn read_from<'s, T: Source>(
        &'s self,
        position: usize,
        offset: u64,
        out: &mut [u8],
        wrap: impl FnOnce(usize, &'s F::Source) -> T,
    ) -> Result<()> {
        let (number, part, home) = self.home(position)?;
        let source = wrap(number, part.source());
        let read = match home {
            Home::Listed(there) => now(part.index().read_into(&source, there, offset, out)),
            Home::Shard(extent) => {
                let (info, len) = (self.info_at(position)?.0, out.len() as u64);
                let (name, nbytes) = (info.name, info.nbytes);
                let outside = |_| Error::OutOfRange { name: name.to_owned(), offset, len, nbytes };
                let at = extent.part(offset, len).map_err(outside)?.offset();
                source.read_into(at, out).map_err(|source| Error::Io { at, len, source })
            }
        };
        read.map_err(|error| error.in_file(&file_part(self.path(number))))
    }

    /// The model's metadata: the MJSN of `index.aero`.
    ///
    /// # Errors
    /// As [`Reader::json`].
    pub fn json(&self) -> Result<Option<Object>> {
        self.global.json().map_err(|error| error.in_file(&file_part(&self.set.global_tidx().path)))
    }

    /// What `inspect --json` prints as metadata: `json` and `manifest` of `index.aero`.
    ///
    /// # Errors
    /// As [`json`](Self::json).
    pub fn metadata(&self) -> Result<Object> {
        self.global.metadata_tree().map_err(|error| error.in_file(&file_part(&self.set.global_tidx().path)))
    }

    /// Checks the index and every file, and reports every finding.
    pub fn verify(&self, level: VerifyLevel) -> Report {
        self.verify_with(level, &Execution::default())
    }

    /// As [`verify`](Self::verify), with the work done as `work` says.
    pub fn verify_with(&self, level: VerifyLevel, work: &Execution<'_>) -> Report {
        super::verify::verify(self, level, work)
    }

    /// Opens a file of the set without looking into it.
    pub(super) fn open_raw(&self, path: &str) -> std::io::Result<F::Source> {
        self.files.open(&format!("{}{path}", self.prefix))
    }

    fn position(&self, name: &str) -> Result<usize> {
        self.index().tensors().find(name).ok_or_else(|| Error::NotFound { name: name.to_owned() })
    }

    fn path(&self, number: usize) -> &str {
        self.set.parts().get(number).map_or("", |part| &part.file.path)
    }

    fn info_at(&self, position: usize) -> Result<(TensorInfo<'_>, Entry)> {
        let index = self.index();
        let found = index.tensors().info(position).zip(index.entry(position));
        found.ok_or_else(|| Error::NotFound { name: format!("number {position}") })
    }

    /// DECISIONS, AEROSET: the weights of a tensor are found by the shard → part map; inside the part, the entry of that name
    /// decides; only where there is none, it is the shard of that number at the global offset.
    fn home(&self, position: usize) -> Result<(usize, &Reader<F::Source>, Home)> {
        let (info, entry) = self.info_at(position)?;
        let tensor = || Part::named("tensor", info.name);
        let Some(number) = self.set.part_of_shard(entry.shard_id) else {
            let text = format!("its values are in shard {}, and no part of the set has that", entry.shard_id);
            return Err(malformed(tensor(), 0, Fault::Set(text)));
        };
        let part = self.part(number)?;
        let index = part.index();
        if let Some(there) = index.tensors().find(info.name) {
            let same = index.tensors().info(there).is_some_and(|found| found == info);
            if same {
                return Ok((number, part, Home::Listed(there)));
            }
            let fault = "its tensor index has another dtype, shape or length for the tensor than the set's"
                .to_owned();
            return Err(malformed(tensor(), 0, Fault::File { path: self.path(number).to_owned(), fault }));
        }
        let chunk =
            index.find_chunk(FourCC::WTSH, &shard_name(entry.shard_id)).and_then(|at| index.chunk(at));
        let placed = chunk.ok_or(Fault::MissingShard { shard: entry.shard_id }).and_then(|chunk| {
            let shard = Extent::new(chunk.offset, chunk.length, index.file_len())?;
            chunk.check_lengths().map_err(|error| Fault::Set(describe(&error)))?;
            Ok(shard.part(entry.data_off, entry.data_len)?)
        });
        match placed {
            Ok(extent) => Ok((number, part, Home::Shard(extent))),
            Err(fault) => {
                let path = self.path(number).to_owned();
                Err(malformed(tensor(), 0, Fault::File { path, fault: fault.to_string() }))
            }
        }
    }

    /// The part, first and last byte of a tensor that has a hash in the global index, and not the same one in its part.
    pub(super) fn unchecked_hash(&self, position: usize) -> Option<(usize, u64, u64)> {
        let entry = self.index().entry(position).filter(|entry| entry.data_len > 0)?;
        let expected = entry.hash_b3?;
        let (number, part, home) = self.home(position).ok()?;
        if let Home::Listed(there) = home
            && part.index().entry(there).is_some_and(|listed| listed.hash_b3 == Some(expected))
        {
            return None;
        }
        let start = home.offset(part);
        Some((number, start, start.saturating_add(entry.data_len)))
    }

    /// What a part and the global tensor index say of a tensor; with the number of the part.
    fn asked(&self, position: usize) -> Result<(usize, Asked)> {
        let (number, part, home) = self.home(position)?;
        let stated = self.index().tensors.hash(position).map_err(|fault| {
            let name = self.index().tensors().info(position).map_or("", |info| info.name);
            malformed(Part::named("tensor", name).with_field("hash_b3"), 0, fault)
        })?;
        let within_part = |error: Error| error.in_file(&file_part(self.path(number)));
        let asked = match home {
            Home::Listed(there) => {
                let asked = crate::claims::asked(part.index(), there).map_err(within_part)?;
                Asked { position, hashes: [asked.hashes.into_iter().next().flatten(), stated], ..asked }
            }
            Home::Shard(extent) => {
                let shard = self.info_at(position).map(|(_, entry)| shard_name(entry.shard_id))?;
                let shard = part.index().find_chunk(FourCC::WTSH, &shard).unwrap_or_default(); // `home` has found it
                Asked { position, shard, extent, hashes: [None, stated] }
            }
        };
        Ok((number, asked))
    }

    /// The hashes that cover these tensors, in every part that has some of them.
    fn claims_of(&self, tensors: &[usize]) -> Result<Claims> {
        let mut asked = tensors.iter().map(|&tensor| self.asked(tensor)).collect::<Result<Vec<_>>>()?;
        asked.sort_by_key(|&(number, _)| number);
        let mut all = Claims::new();
        let mut parts = Vec::new();
        for of_part in asked.chunk_by(|(a, _), (b, _)| a == b) {
            let Some(&(number, _)) = of_part.first() else { continue };
            // Only a hash that the set's own index has says that these values are the set's.
            let is_loose = |(_, asked): &(_, Asked)| asked.hashes[1].is_none() && !asked.extent.is_empty();
            parts.push((number, of_part.iter().any(is_loose)));
        }
        // Once for a file to which several paths lead.
        for (number, _) in &mut asked {
            *number = self.parts.one_number(*number, self.part(*number)?.source());
        }
        asked.sort_by_key(|&(number, _)| number);
        let mut asked = asked.into_iter().peekable();
        while let Some(&(number, _)) = asked.peek() {
            let of_part = std::iter::from_fn(|| asked.next_if(|&(other, _)| other == number));
            let of_part: Vec<Asked> = of_part.map(|(_, asked)| asked).collect();
            let file = file_part(self.path(number));
            let part = self.part(number)?;
            let mut of_file = all.of_set_file(number, file);
            let found = now(claims(part.index(), part.source(), self.index(), &of_part, &mut of_file));
            found.map_err(|error| error.in_file(&file_part(self.path(number))))?;
        }
        stated::check(self, &parts, &mut all)?;
        Ok(all)
    }

    /// Why the part that should have a tensor does not, or has another.
    pub(super) fn check_home(&self, position: usize) -> Result<()> {
        self.home(position).map(|_| ())
    }
}

impl<F: Files> Container for SetReader<F> {
    fn version(&self) -> Option<String> {
        let (major, minor) = self.set.version();
        Some(format!("{major}.{minor}"))
    }

    /// As the index states the sizes of the files.
    fn file_size(&self) -> u64 {
        self.set.files().map(|file| file.size_bytes).fold(self.set.text_len(), u64::saturating_add)
    }

    fn tensor_count(&self) -> usize {
        self.index().tensors().len()
    }

    fn info(&self, tensor: usize) -> Option<TensorInfo<'_>> {
        self.index().tensors().info(tensor)
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.index().tensors().find(name)
    }

    fn file_paths(&self) -> Vec<String> {
        let parts = self.set.parts().iter().map(|part| &part.file);
        parts.chain([self.set.global_tidx()]).map(|file| file.path.clone()).collect()
    }

    fn location(&self, tensor: usize) -> Result<Location, AnyError> {
        let (number, part, home) = self.home(tensor).map_err(Error::erase)?;
        let location = match home {
            Home::Listed(there) => part.index().location(there),
            Home::Shard(extent) => Some(Location {
                file: None,
                offset: Some(extent.offset()),
                stored_nbytes: extent.len(),
                encoding: Encoding::Raw,
            }),
        };
        let location = location.ok_or_else(|| AnyError::NotFound { name: format!("number {tensor}") })?;
        Ok(Location { file: Some(self.path(number).to_owned()), ..location })
    }

    fn read(&self, tensor: usize) -> Result<Bytes<'_>, AnyError> {
        self.tensor_at(tensor).map(TensorView::into_bytes).map_err(Error::erase)
    }

    fn read_into(&self, tensor: usize, offset: u64, out: &mut [u8]) -> Result<(), AnyError> {
        Self::read_into(self, tensor, offset, out).map_err(Error::erase)
    }

    fn read_into_checked(
        &self,
        tensor: usize,
        offset: u64,
        out: &mut [u8],
        claims: &Claims,
    ) -> Result<(), AnyError> {
        let wrap = |number, source| Watched::new(source, self.parts.one_number(number, source), claims);
        self.read_from(tensor, offset, out, wrap).map_err(Error::erase)
    }

    fn read_file(&self, file: usize, at: u64, out: &mut [u8]) -> Result<(), AnyError> {
        let len = out.len() as u64;
        let part = self.part(file).map_err(Error::erase)?;
        let read = part.source().read_into(at, out).map_err(|source| Error::Io { at, len, source });
        read.map_err(|error| error.in_file(&file_part(self.path(file))).erase())
    }

    fn claims(&self, tensors: &[usize]) -> Result<Claims, AnyError> {
        self.claims_of(tensors).map_err(Error::erase)
    }

    fn metadata(&self) -> Result<Value, AnyError> {
        Self::metadata(self).map(Value::Object).map_err(Error::erase)
    }

    /// Those of `index.aero`; `files`: path and size of each file as the index states them; `base_url` and `cache` where the
    /// index has them.
    fn details(&self) -> Result<Value, AnyError> {
        let mut details = Container::details(&self.global)?;
        let files = self.set.files().map(|file| {
            Object::from_iter([("path", Value::from(file.path.as_str())), ("size", file.size_bytes.into())])
        });
        if let Value::Object(details) = &mut details {
            details.insert("files", files.collect::<Value>());
            if let Some(url) = self.set.base_url() {
                details.insert("base_url", url);
            }
            if let Some(cache) = self.set.cache() {
                details.insert("cache", cache.clone());
            }
        }
        Ok(details)
    }

    fn verify(&self, level: VerifyLevel, work: &Execution<'_>) -> Report {
        self.verify_with(level, work)
    }
}
