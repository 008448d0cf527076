//! Implements AEROSET for the shared set readers.
//!
//! File 0 of the set lists all tensors, and the parts follow it.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use modelfmt_core::claims::{Claims, FileClaims, WantedRange};
use modelfmt_core::value::Object;
use modelfmt_core::{
    Execution, Fetch, FetchFiles, Limits, OpenFile, OpenSet, Part, Report, TensorInfo, VerifyLevel,
    author::{Extent, Place, Placed, ShardMap, with_causes},
};

use super::index::HEAD;
use super::{SetIndex, matching};
use crate::chunks::malformed;
use crate::claims::{Asked, asked, claims};
use crate::error::{Error, Fault, Result};
use crate::index::Index;
use crate::manifest::put_model;
use crate::tidx::Entry;
use crate::wire::{FourCC, shard_name};

impl SetIndex {
    fn described(&self, position: usize) -> Result<(TensorInfo<'_>, Entry)> {
        let index = self.tensors();
        let found = index.and_then(|index| index.tensors().info(position).zip(index.entry(position)));
        found.ok_or_else(|| Error::no_such_position(position))
    }

    /// Returns the hashes that cover a tensor of a file: the one in the file, and the one in the global
    /// tensor index.
    fn asked(&self, shard: &Index, placed: &Placed) -> Result<Asked> {
        let position = placed.wanted.position;
        let stated = self.hash(position)?;
        match placed.place {
            Place::Listed(there) => {
                let asked = asked(shard, &WantedRange { position: there, ..placed.wanted.clone() })?;
                Ok(Asked { position, hashes: [asked.hashes.into_iter().next().flatten(), stated], ..asked })
            }
            Place::Bytes(extent) => {
                let (info, entry) = self.described(position)?;
                let name = shard_name(entry.shard_id);
                let chunk = shard.find_chunk(FourCC::WTSH, &name).unwrap_or_default(); // `place` has found it
                let stored = Extent::new(extent.offset(), entry.data_len, shard.file_len());
                let stored = stored.map_err(|fault| malformed(Part::named("tensor", info.name), 0, fault))?;
                Asked::new(shard, &placed.wanted, chunk, stored, [None, stated])
            }
        }
    }
}

impl ShardMap for SetIndex {
    type Index = Index;
    type Metadata<'a> = Object;

    const SHARD: &'static str = "part";
    const SIZES_BIND: bool = false;

    /// Returns the set index in a folder, or the path itself if it is a file.
    fn index_path(path: &Path) -> io::Result<Cow<'_, Path>> {
        if path.is_dir() { index_in(path).map(Cow::Owned) } else { Ok(Cow::Borrowed(path)) }
    }

    fn parse(text: &[u8], limits: &Limits) -> Result<Self> {
        Self::parse(text, limits)
    }

    fn text_len(&self) -> u64 {
        self.text_len()
    }

    fn shard_count(&self) -> usize {
        self.parts().len().saturating_add(1)
    }

    fn path(&self, number: usize) -> Option<&str> {
        self.file(number).map(|file| &*file.path)
    }

    fn stated_size(&self, number: usize) -> Option<u64> {
        self.file(number).map(|file| file.size)
    }

    fn part(&self, number: usize) -> Part {
        self.file_part(number)
    }

    fn head(&self) -> Option<usize> {
        Some(HEAD)
    }

    fn set_head(&mut self, index: Arc<Index>) {
        self.set_tensors(index);
    }

    fn tensor_count(&self) -> usize {
        self.tensors().map_or(0, |index| index.tensors().len())
    }

    fn name(&self, position: usize) -> Option<&str> {
        self.info(position).map(|info| info.name)
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.tensors()?.tensors().find(name)
    }

    fn info(&self, position: usize) -> Option<TensorInfo<'_>> {
        self.tensors()?.tensors().info(position)
    }

    fn shard_of(&self, position: usize) -> Result<usize> {
        let (info, entry) = self.described(position)?;
        self.part_of_shard(entry.shard_id).map(|part| part.saturating_add(1)).ok_or_else(|| {
            let text = format!("its values are in shard {}, and no part of the set has that", entry.shard_id);
            malformed(Part::named("tensor", info.name), 0, Fault::Set(text))
        })
    }

    /// Finds the tensor by its name in the part's own index, because parts by other writers number their
    /// shards from 0 again. If the part's index does not list it, the tensor is in the shard with the set's
    /// number, at the offset in the global tensor index (docs/formats/aero.md#finding-a-tensor).
    fn place(&self, position: usize, shard: &Index) -> Result<Place> {
        let (info, entry) = self.described(position)?;
        let wrong = |fault: String| {
            let path = self.shard_of(position).ok().and_then(|number| self.file(number));
            let path = path.map_or_else(String::new, |file| file.path.clone());
            malformed(Part::named("tensor", info.name), 0, Fault::File { path, fault })
        };
        if let Some(there) = shard.tensors().find(info.name) {
            return match shard.tensors().info(there) == Some(info) {
                true => Ok(Place::Listed(there)),
                false => Err(wrong(
                    "its tensor index has another dtype, shape or length for the tensor than the set's"
                        .to_owned(),
                )),
            };
        }
        let chunk =
            shard.find_chunk(FourCC::WTSH, &shard_name(entry.shard_id)).and_then(|at| shard.chunk(at));
        let placed = chunk.ok_or(Fault::MissingShard { shard: entry.shard_id }).and_then(|chunk| {
            let whole = Extent::new(chunk.offset, chunk.length, shard.file_len())?;
            chunk.check_lengths().map_err(|error| Fault::Set(with_causes(&error)))?;
            // The padding after the values must be inside the chunk too, but only the values are returned.
            Ok(whole.part(entry.data_off, entry.data_len)?.part(0, info.nbytes)?)
        });
        placed.map(Place::Bytes).map_err(|fault| wrong(fault.to_string()))
    }

    fn version_text(&self) -> Option<String> {
        let (major, minor) = self.version();
        Some(format!("{major}.{minor}"))
    }

    /// Returns the JSON of `index.aero`, or an empty object if it has none.
    async fn metadata<F: FetchFiles>(set: &OpenSet<Self, F>) -> Result<Object> {
        set.metadata_of(HEAD).await
    }

    fn described_by(&self) -> Option<usize> {
        Some(HEAD)
    }

    /// Adds the model's description from the set's index where `index.aero` has none or a different one.
    fn flatten(&self, mut keys: Object) -> Object {
        put_model(&mut keys, "set.model.", self.model().clone());
        keys
    }

    /// Returns `base_url` and `cache`, if the index has them.
    fn details(&self) -> Object {
        let mut details = Object::new();
        if let Some(url) = self.base_url() {
            details.insert("base_url", url);
        }
        if let Some(cache) = self.cache() {
            details.insert("cache", cache.clone());
        }
        details
    }

    async fn claims<S: Fetch>(
        &self,
        shard: &Arc<Index>,
        source: &S,
        placed: &[Placed],
        out: &mut FileClaims<'_>,
    ) -> Result<()> {
        let Some(names) = self.tensors() else { return Ok(()) };
        let asked: Vec<Asked> =
            placed.iter().map(|placed| self.asked(shard, placed)).collect::<Result<_>>()?;
        claims(shard, source, names, &asked, out).await
    }

    async fn check_head<S: Fetch>(
        &self,
        head: &OpenFile<Index, S>,
        wanted: &[WantedRange],
        claims: &mut Claims,
    ) -> Result<()> {
        matching::check_head(self, head, wanted, claims).await
    }

    async fn verify<F: FetchFiles>(
        &self,
        set: &OpenSet<Self, F>,
        level: VerifyLevel,
        work: &Execution<'_>,
    ) -> Report {
        super::verify::report(self, set, level, work).await
    }
}

fn index_in(folder: &Path) -> io::Result<PathBuf> {
    let usual = folder.join("model.aeroset.json");
    if usual.is_file() {
        return Ok(usual);
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
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
            Err(io::Error::new(io::ErrorKind::NotFound, text))
        }
    }
}
