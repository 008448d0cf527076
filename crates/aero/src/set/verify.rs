//! Checks a set: its index, every file by itself and against the index.

use modelfmt_core::source::Files;
use modelfmt_core::{Execution, Part, Report, Shortened, Source, VerifyLevel, poll_once};
use sha2::{Digest as _, Sha256};

use super::{SetFile, SetReader};
use crate::error::{Error, Result};
use crate::reader::{Reader, hex};
use crate::verify::{Findings, describe, findings};

pub(super) fn verify<F: Files>(set: &SetReader<F>, level: VerifyLevel, work: &Execution<'_>) -> Report {
    let mut found = Findings::default();
    let mut hashes = Vec::new();
    shard_map(set, &mut found);
    files(set, level, work, &mut found);
    tensors(set, &mut found);
    if level >= VerifyLevel::Full {
        tensor_hashes(set, work, &mut found.tensors);
        hashes = set_hashes(set, work);
    }
    let mut report = found.report(level);
    if level >= VerifyLevel::Full {
        let count = set.set().parts().len() + 1;
        report.add("set-hashes", hashes, format!("{count} files"));
    }
    report
}

/// DECISIONS, AEROSET: every shard is in exactly one part, every hash is one.
fn shard_map<F: Files>(set: &SetReader<F>, found: &mut Findings) {
    let index = set.set();
    for (shard, first, second) in index.twice_listed() {
        found.structure.push(format!("index of the set: shard {shard} is in parts {first} and {second}"));
    }
    for file in index.files().filter(|file| file.sha256.is_none()) {
        let path = Shortened(&file.path);
        found.structure.push(format!("index of the set: the sha256 of {path:?} is not 64 hex digits"));
    }
}

/// Every file by itself, and its size.
fn files<F: Files>(set: &SetReader<F>, level: VerifyLevel, work: &Execution<'_>, found: &mut Findings) {
    let global = set.set().global_tidx();
    size(global, set.global().source().len(), found);
    found.merge(&global.path, of_file(set.global(), level, work));
    for (number, part) in set.set().parts().iter().enumerate() {
        match set.part(number) {
            Ok(reader) => {
                size(&part.file, reader.source().len(), found);
                found.merge(&part.file.path, of_file(reader, level, work));
            }
            Err(error) => {
                found.structure.push(format!(
                    "part {number} {:?}: {}",
                    Shortened(&part.file.path),
                    describe(&error)
                ));
            }
        }
    }
}

/// The checks of one file; over a source nothing has to be waited for.
fn of_file<S: Source>(file: &Reader<S>, level: VerifyLevel, work: &Execution<'_>) -> Findings {
    poll_once(findings(file.index(), file.source(), level, work)).unwrap_or_default()
}

fn size(file: &SetFile, len: u64, found: &mut Findings) {
    if len != file.size_bytes {
        let (path, stated) = (Shortened(&file.path), file.size_bytes);
        found
            .structure
            .push(format!("file {path:?}: it has {len} bytes, but the index of the set says {stated}"));
    }
}

/// Every tensor is in the part that has its shard, as the global index describes it.
fn tensors<F: Files>(set: &SetReader<F>, found: &mut Findings) {
    for (position, info) in set.tensors().iter().enumerate() {
        let part = set.index().entry(position).and_then(|entry| set.set().part_of_shard(entry.shard_id));
        if part.is_some_and(|number| set.part(number).is_err()) {
            continue; // that the part does not open is a finding
        }
        if let Err(error) = set.check_home(position) {
            found.structure.push(format!("tensor {:?}: {}", Shortened(info.name), describe(&error)));
        }
    }
}

/// The `hash_b3` of the global index. Where the part has the same, that was checked with the part; of the others the values are
/// hashed, and those of tied tensors once.
fn tensor_hashes<F: Files>(set: &SetReader<F>, work: &Execution<'_>, found: &mut Vec<String>) {
    let mut wanted: Vec<(usize, u64, u64, usize)> = (0..set.tensors().len())
        .filter_map(|position| {
            let (part, start, end) = set.unchecked_hash(position)?;
            Some((part, start, end, position))
        })
        .collect();
    wanted.sort_unstable();
    let mut last: Option<(usize, u64, u64, [u8; 32])> = None;
    for (part, start, end, position) in wanted {
        let name = set.tensors().info(position).map_or("", |info| info.name);
        let tensor = Part::named("tensor", name);
        let hash = match last {
            Some((same, from, to, hash)) if (same, from, to) == (part, start, end) => hash,
            Some((same, _, reach, _)) if same == part && start < reach => {
                found.push(format!(
                    "{tensor}: it shares some of its bytes with another; its hash_b3 is not checked"
                ));
                continue;
            }
            _ => match set.part(part).and_then(|reader| blake3(reader.source(), start, end, work)) {
                Ok(hash) => hash,
                Err(error) => {
                    found.push(format!("{tensor}: {}", describe(&error)));
                    if matches!(error, Error::Cancelled) {
                        return;
                    }
                    continue;
                }
            },
        };
        last = Some((part, start, end, hash));
        let expected = set.index().entry(position).and_then(|entry| entry.hash_b3);
        if expected.is_some_and(|expected| expected != hash) {
            let (hash, expected) = (hex(&hash), hex(&expected.unwrap_or_default()));
            found.push(format!(
                "{tensor}: has BLAKE3 {hash}, but the hash_b3 of the global index says {expected}: the content is damaged"
            ));
        }
    }
}

fn blake3(source: &(impl Source + ?Sized), start: u64, end: u64, work: &Execution<'_>) -> Result<[u8; 32]> {
    let mut hasher = blake3::Hasher::new();
    let mut at = start;
    while at < end {
        let len = STEP.min(end - at);
        hasher.update(&source.read(at..at + len).map_err(|source| Error::Io { at, len, source })?);
        // The bytes count where the hashes of the chunks go over them.
        if work.advance(0).is_break() {
            return Err(Error::Cancelled);
        }
        at += len;
    }
    Ok(*hasher.finalize().as_bytes())
}

/// Bytes that are read at once.
const STEP: u64 = 1 << 20;

/// SHA-256 goes through a file from its beginning to its end, so several cores take a file each.
fn set_hashes<F: Files>(set: &SetReader<F>, work: &Execution<'_>) -> Vec<String> {
    let stated: Vec<&SetFile> = set.set().files().collect();
    // Those that are open are read as they are; a file that is no AERO file has a hash all the same.
    let opened = |number: usize| match number.checked_sub(1) {
        None => Some(set.global().source()),
        Some(part) => set.part(part).ok().map(|reader| reader.source()),
    };
    let sources: Vec<Option<&F::Source>> = (0..stated.len()).map(opened).collect();
    let shared: Option<Vec<_>> = sources.iter().map(|source| source.and_then(Source::shared)).collect();
    let compare = |file: &SetFile, hash: std::io::Result<[u8; 32]>| {
        let path = Shortened(&file.path);
        match (hash, file.sha256) {
            (Ok(hash), Some(stated)) if hash != stated => {
                let (hash, stated) = (hex(&hash), hex(&stated));
                Some(format!("file {path:?}: it has SHA-256 {hash}, but the index of the set says {stated}"))
            }
            (Err(error), _) => Some(format!("file {path:?}: {error}")),
            _ => None,
        }
    };
    let Some(shared) = shared else {
        let hash = |(&file, source): (&&SetFile, &Option<&F::Source>)| match source {
            Some(source) => compare(file, sha256(*source, work)),
            None => compare(file, set.open_raw(&file.path).and_then(|source| sha256(&source, work))),
        };
        return stated.iter().zip(&sources).filter_map(hash).collect();
    };
    let one = |(): &mut (), number: u64| {
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        let found = stated.get(number).zip(shared.get(number));
        Ok::<_, ()>(found.and_then(|(file, source)| compare(file, sha256(*source, work))))
    };
    work.map(stated.len() as u64, || (), one).unwrap_or_default().into_iter().flatten().collect()
}

pub(super) fn sha256(source: &(impl Source + ?Sized), work: &Execution<'_>) -> std::io::Result<[u8; 32]> {
    let mut hasher = Sha256::new();
    let mut at = 0;
    while at < source.len() {
        let end = source.len().min(at.saturating_add(STEP));
        hasher.update(&*source.read(at..end)?);
        // The bytes count where BLAKE3 goes over them.
        if work.advance(0).is_break() {
            return Err(std::io::Error::other("stopped on request"));
        }
        at = end;
    }
    Ok(hasher.finalize().into())
}
