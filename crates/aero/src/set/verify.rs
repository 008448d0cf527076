//! Verifies a set: its index, each file by itself, and each file against the index.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::iter;

use modelfmt_core::ledger::{Blake3, Ledger, Spans};
use modelfmt_core::{
    Execution, Fetch, FetchFiles, Part, Report, VerifyLevel,
    author::{OpenSet, Place, ScanError, ShardMap as _, Shortened, each_step, with_causes},
};

use super::matching::sha256s;
use super::{SetFile, SetIndex};
use crate::error::{Error, Result};
use crate::hex::hex;
use crate::verify::{Findings, findings};

/// A set that is being verified.
struct Verifier<'a, F: FetchFiles> {
    index: &'a SetIndex,
    set: &'a OpenSet<SetIndex, F>,
    found: Findings,
}

pub(super) async fn report<F: FetchFiles>(
    index: &SetIndex,
    set: &OpenSet<SetIndex, F>,
    level: VerifyLevel,
    work: &Execution<'_>,
) -> Report {
    let mut v = Verifier { index, set, found: Findings::default() };
    let mut hashes = Vec::new();
    v.shard_map();
    v.files(level, work).await;
    v.tensors().await;
    if level >= VerifyLevel::Full {
        v.tensor_hashes(work).await;
        hashes = v.set_hashes(work).await;
    }
    let mut report = v.found.report(level);
    if level >= VerifyLevel::Full {
        report.add("set-hashes", hashes, format!("{} files", index.shard_count()));
    }
    report
}

impl<F: FetchFiles> Verifier<'_, F> {
    /// Checks that every shard is in exactly one part, and that every hash is valid
    /// (docs/formats/aero.md#opening-and-checking-a-set).
    fn shard_map(&mut self) {
        let found = &mut self.found.structure;
        for (shard, first, second) in self.index.twice_listed() {
            found.push(format!("index of the set: shard {shard} is in parts {first} and {second}"));
        }
        for file in self.index.files().filter(|file| file.sha256.is_none()) {
            let path = Shortened(&file.path);
            found.push(format!("index of the set: the sha256 of {path:?} is not 64 hex digits"));
        }
    }

    /// Verifies each file by itself, and its size.
    async fn files(&mut self, level: VerifyLevel, work: &Execution<'_>) {
        for (number, file) in self.index.files().enumerate() {
            match self.set.shard(number).await {
                Ok(reader) => {
                    let (index, source) = (reader.index(), reader.source());
                    self.size(file, source.size());
                    self.found.merge(&file.path, findings(index, source, level, work).await);
                }
                Err(error) => {
                    let (path, error) = (Shortened(&file.path), with_causes(&error));
                    let which =
                        number.checked_sub(1).map_or("file".to_owned(), |part| format!("part {part}"));
                    self.found.structure.push(format!("{which} {path:?}: {error}"));
                }
            }
        }
    }

    fn size(&mut self, file: &SetFile, len: u64) {
        if len != file.size {
            let (path, stated) = (Shortened(&file.path), file.size);
            let text = format!("file {path:?}: it has {len} bytes, but the index of the set says {stated}");
            self.found.structure.push(text);
        }
    }

    /// Checks that every tensor is in the part that has its shard, as the global index describes it.
    async fn tensors(&mut self) {
        for position in 0..self.index.tensor_count() {
            if let Ok(number) = self.index.shard_of(position)
                && self.set.shard(number).await.is_err()
            {
                continue; // that the part does not open is a finding
            }
            if let Err(error) = self.set.place_of(position).await {
                let name = Shortened(self.index.name(position).unwrap_or_default());
                self.found.structure.push(format!("tensor {name:?}: {}", with_causes(&error)));
            }
        }
    }

    /// Returns the file, the start and the end of a tensor whose hash is only in the global index, or is
    /// different in its part.
    async fn unchecked_hash(&self, position: usize) -> Option<(usize, u64, u64)> {
        let entry = self.index.tensors()?.entry(position).filter(|entry| entry.data_len > 0)?;
        let expected = entry.hash_b3?;
        let (number, place) = self.set.place_of(position).await.ok()?;
        let part = self.set.shard(number).await.ok()?.index();
        let start = match place {
            Place::Bytes(extent) => extent.offset(),
            Place::Listed(there) if part.entry(there)?.hash_b3 == Some(expected) => return None,
            Place::Listed(there) => part.location(there).and_then(|found| found.offset).unwrap_or(0),
        };
        Some((number, start, start.saturating_add(entry.data_len)))
    }

    /// Checks the `hash_b3` of the global index. If the part has the same hash, it was checked with the part.
    /// Otherwise this hashes the values. Tied tensors are hashed once.
    async fn tensor_hashes(&mut self, work: &Execution<'_>) {
        let mut wanted: Vec<(usize, u64, u64, usize)> = Vec::new();
        for position in 0..self.index.tensor_count() {
            if let Some((part, start, end)) = self.unchecked_hash(position).await {
                wanted.push((part, start, end, position));
            }
        }
        wanted.sort_unstable();
        let mut last: Option<(usize, u64, u64, [u8; 32])> = None;
        for (part, start, end, position) in wanted {
            let tensor = Part::named("tensor", self.index.name(position).unwrap_or_default());
            let hash = match last {
                Some((same, from, to, hash)) if (same, from, to) == (part, start, end) => hash,
                Some((same, _, reach, _)) if same == part && start < reach => {
                    self.found.tensors.push(format!(
                        "{tensor}: it shares some of its bytes with another; its hash_b3 is not checked"
                    ));
                    continue;
                }
                _ => match self.blake3(part, start, end, work).await {
                    Ok(hash) => hash,
                    Err(error) => {
                        self.found.tensors.push(format!("{tensor}: {}", with_causes(&error)));
                        if matches!(error, Error::Cancelled) {
                            return;
                        }
                        continue;
                    }
                },
            };
            last = Some((part, start, end, hash));
            let expected = self.index.tensors().and_then(|index| index.entry(position)?.hash_b3);
            if expected.is_some_and(|expected| expected != hash) {
                let (hash, expected) = (hex(&hash), hex(&expected.unwrap_or_default()));
                self.found.tensors.push(format!(
                    "{tensor}: has BLAKE3 {hash}, but the hash_b3 of the global index says {expected}: the content is damaged"
                ));
            }
        }
    }

    async fn blake3(&self, number: usize, start: u64, end: u64, work: &Execution<'_>) -> Result<[u8; 32]> {
        let source = self.set.shard(number).await?.source();
        let ledger = Ledger::<Blake3, 1>::new([Spans::Listed(iter::once(start..end).collect())]);
        let mut at = start;
        while at < end {
            let len = STEP.min(end.saturating_sub(at));
            let bytes = source.fetch(at..at.saturating_add(len)).await;
            ledger.observe(at, &bytes.map_err(|source| Error::Io { at, len, source })?);
            // The bytes are counted as progress when the chunks are hashed.
            if work.advance(0).is_break() {
                return Err(Error::Cancelled);
            }
            at = at.saturating_add(len);
        }
        let [found] = ledger.finish();
        Ok(found.first().copied().unwrap_or_default())
    }

    /// Checks the SHA-256 of every file, including files that are not valid AERO files.
    async fn set_hashes(&self, work: &Execution<'_>) -> Vec<String> {
        let mut reopened: Vec<Option<Result<F::File>>> = Vec::new();
        for number in 0..self.index.shard_count() {
            let is_open = self.set.shard(number).await.is_ok();
            reopened.push(if is_open { None } else { Some(self.set.file(number).await) });
        }
        let (mut sources, mut found) = (Vec::new(), Vec::new());
        for (number, (file, reopened)) in self.index.files().zip(&reopened).enumerate() {
            let source = match reopened {
                Some(opened) => opened.as_ref().map_err(|error| with_causes(&error)),
                None => {
                    self.set.shard(number).await.map(|reader| reader.source()).map_err(|e| with_causes(&e))
                }
            };
            match source {
                Ok(source) => sources.push((file, source)),
                Err(error) => found.push(format!("file {:?}: {error}", Shortened(&file.path))),
            }
        }
        let (files, sources): (Vec<&SetFile>, Vec<&F::File>) = sources.into_iter().unzip();
        let hashes = set_sha256s(&sources, work).await;
        found.extend(files.into_iter().zip(hashes).filter_map(|(file, hash)| {
            let path = Shortened(&file.path);
            match (hash, file.sha256) {
                (Ok(hash), Some(stated)) if hash != stated => {
                    let (hash, stated) = (hex(&hash), hex(&stated));
                    Some(format!(
                        "file {path:?}: it has SHA-256 {hash}, but the index of the set says {stated}"
                    ))
                }
                (Err(error), _) => Some(format!("file {path:?}: {error}")),
                _ => None,
            }
        }));
        found
    }
}

/// Computes the SHA-256 of each of these files, on several threads. If other processes share the work, hashes
/// only some of the files.
async fn set_sha256s<S: Fetch>(sources: &[&S], work: &Execution<'_>) -> Vec<Result<[u8; 32], ScanError>> {
    let Some(share) = sources.first().and_then(|source| source.part_of_job()) else {
        return sha256s(sources, work).await;
    };
    let sizes: Vec<u64> = sources.iter().map(|source| source.size()).collect();
    let one = async |number: usize| match sources.get(number) {
        Some(source) => sha256s(&[*source], work).await.pop().unwrap_or(Err(ScanError::Cancelled)),
        None => Err(ScanError::Cancelled),
    };
    let all = each_step(Some(share), &sizes, one).await;
    all.into_iter().map(|hashed| hashed.unwrap_or(Err(ScanError::Cancelled))).collect()
}

/// The number of bytes that are read at once.
const STEP: u64 = 1 << 20;
