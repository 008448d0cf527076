//! Checks a file and reports every finding. The check names are the same as in `modelfmt verify`.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use modelfmt_core::{
    Execution, Fetch, Part, Report, VerifyLevel,
    author::{PIECE, ScanError, ScanRange, SharedScan, finding, with_causes},
};

use crate::chunks::{Chunk, Expansion, entry_at};
use crate::control;
use crate::error::{Error, Fault, Hex};
use crate::hashes::{Hashes, pass};
use crate::index::Index;
use crate::pages::{PageHashes, Payload};
use crate::wire::{FourCC, MAX_CHUNK_NAME, SHARD_ALIGNMENT};

/// Checks one file.
pub(crate) async fn findings<S: Fetch>(
    index: &Index,
    source: &S,
    level: VerifyLevel,
    work: &Execution<'_>,
) -> Findings {
    let found = Findings::of(index);
    let has_shards = index.chunks.first(FourCC::WTSH).is_some();
    let mut v = Verifier { source, index, found, has_shards, skipped: chunk_overlaps(index), stopped: false };
    v.header();
    if level >= VerifyLevel::Control {
        v.stopped = v.control(work).await.is_break() || v.metadata(level, work).await.is_break();
    }
    if level >= VerifyLevel::Full && !v.stopped && v.shards(work).await.is_ok() {
        v.padding(work).await;
    }
    v.found
}

/// The findings of each check, and how much each check covered.
#[derive(Default)]
pub(crate) struct Findings {
    pub(crate) structure: Vec<String>,
    extents: Vec<String>,
    ihsh: Vec<String>,
    chunks: Vec<String>,
    pub(crate) tensors: Vec<String>,
    pages: Vec<String>,
    padding: Vec<String>,
    chunk_count: usize,
    tensor_count: usize,
    ihsh_count: usize,
    phsh_count: usize,
    has_tensor_hashes: bool,
    /// Chunks without a hash in the TOC: the names of the first few, and the number of all.
    unhashed: (Vec<String>, usize),
}

impl Findings {
    /// The most chunks without a hash that the report names.
    const NAMED: usize = 3;

    fn of(index: &Index) -> Self {
        let count = |fourcc: FourCC| index.chunks().filter(|chunk| chunk.fourcc == fourcc).count();
        Self {
            chunk_count: index.chunks().len(),
            tensor_count: index.tensors().len(),
            ihsh_count: count(FourCC::IHSH),
            phsh_count: count(FourCC::PHSH),
            has_tensor_hashes: index.tensors.has_hashes(),
            ..Self::default()
        }
    }

    /// Adds the findings of a file of a set.
    #[cfg(feature = "set")]
    pub(crate) fn merge(&mut self, path: &str, other: Self) {
        let named = |text: String| format!("{path}: {text}");
        for (all, found) in [
            (&mut self.structure, other.structure),
            (&mut self.extents, other.extents),
            (&mut self.ihsh, other.ihsh),
            (&mut self.chunks, other.chunks),
            (&mut self.tensors, other.tensors),
            (&mut self.pages, other.pages),
            (&mut self.padding, other.padding),
        ] {
            all.extend(found.into_iter().map(&named));
        }
        self.chunk_count = self.chunk_count.saturating_add(other.chunk_count);
        self.tensor_count = self.tensor_count.saturating_add(other.tensor_count);
        self.ihsh_count = self.ihsh_count.saturating_add(other.ihsh_count);
        self.phsh_count = self.phsh_count.saturating_add(other.phsh_count);
        self.has_tensor_hashes |= other.has_tensor_hashes;
        let (chunks, count) = other.unhashed;
        let unnamed = count.saturating_sub(chunks.len());
        chunks.into_iter().for_each(|chunk| self.unhashed(named(chunk)));
        self.unhashed.1 = self.unhashed.1.saturating_add(unnamed);
    }

    /// Records a chunk without a hash.
    fn unhashed(&mut self, chunk: String) {
        let (chunks, count) = &mut self.unhashed;
        if chunks.len() < Self::NAMED {
            chunks.push(chunk);
        }
        *count = (*count).saturating_add(1);
    }

    /// Returns what `chunk-hashes` covered. An attacker who changes a chunk can zero its hash, so chunks
    /// without a hash do not count as good.
    fn coverage(&self, level: VerifyLevel) -> String {
        let which = if level >= VerifyLevel::Full { "all chunks" } else { "TIDX, MMSG and MJSN" };
        let (chunks, count) = &self.unhashed;
        let named = chunks.join(", ");
        match count.saturating_sub(chunks.len()) {
            _ if chunks.is_empty() => which.to_owned(),
            0 => format!("{which} but those whose hash is not recorded: {named}"),
            others => format!("{which} but those whose hash is not recorded: {named} and {others} more"),
        }
    }

    pub(crate) fn report(self, level: VerifyLevel) -> Report {
        let mut report = Report::new(level);
        let (chunks, tensors) = (self.chunk_count, self.tensor_count);
        let coverage = self.coverage(level);
        report.add("structure", self.structure, format!("{chunks} chunks, {tensors} tensors"));
        report.add("extents", self.extents, format!("{chunks} chunks, {tensors} tensors"));
        if level >= VerifyLevel::Control {
            match self.ihsh_count {
                0 => report.add_absent("ihsh", "there is no IHSH chunk"),
                n => report.add("ihsh", self.ihsh, format!("{n} IHSH")),
            }
            match self.unhashed.1 {
                0 => report.add("chunk-hashes", self.chunks, coverage),
                _ => report.add_partial("chunk-hashes", self.chunks, coverage),
            }
        }
        if level >= VerifyLevel::Full {
            if self.has_tensor_hashes {
                report.add("tensor-hashes", self.tensors, format!("{tensors} tensors"));
            } else {
                report.add_absent("tensor-hashes", "no tensor has a hash_b3");
            }
            match self.phsh_count {
                0 => report.add_absent("page-hashes", "there is no PHSH chunk"),
                n => report.add("page-hashes", self.pages, format!("{n} shards")),
            }
            report.add("padding", self.padding, "between chunks");
        }
        report
    }
}

struct Verifier<'a, S> {
    source: &'a S,
    index: &'a Index,
    found: Findings,
    /// Whether the file has any WTSH chunk.
    has_shards: bool,
    /// Chunks that share bytes with an earlier chunk, each with that chunk. Their content is not checked,
    /// because a small file could list the same bytes a million times.
    skipped: BTreeMap<usize, usize>,
    /// Whether the progress callback asked to stop.
    stopped: bool,
}

/// Finds chunks that begin inside an earlier chunk or take the same bytes. Returns the earlier chunk of each.
fn chunk_overlaps(index: &Index) -> BTreeMap<usize, usize> {
    let mut order: Vec<(u64, u64, usize)> = index
        .chunks()
        .enumerate()
        .filter(|(_, chunk)| chunk.length > 0)
        .map(|(position, chunk)| (chunk.offset, chunk.offset.saturating_add(chunk.length), position))
        .collect();
    order.sort_unstable();
    let mut overlaps = BTreeMap::new();
    let mut reach: Option<(u64, usize)> = None;
    for (start, end, position) in order {
        if let Some((_, first)) = reach.filter(|&(reach, _)| start < reach) {
            overlaps.insert(position, first);
        }
        if reach.is_none_or(|(reach, _)| end > reach) {
            reach = Some((end, position));
        }
    }
    overlaps
}

impl<S: Fetch> Verifier<'_, S> {
    /// Reports faults that do not keep a file from opening. Reads nothing.
    fn header(&mut self) {
        self.reserved();
        let toc = self.index.header.toc_offset;
        for duplicate in self.index.chunks.duplicates() {
            let Some(chunk) = self.index.chunk(duplicate) else { continue };
            let what = Fault::DuplicateChunk(chunk.fourcc);
            self.found.structure.push(finding(&chunk.part(), entry_at(toc, duplicate), what));
        }
        for (position, chunk) in self.index.chunks().enumerate() {
            if let Err(error) = chunk.check_lengths() {
                self.found.structure.push(with_causes(&error));
            }
            if chunk.is_misnamed() {
                let what = Fault::ControlName(chunk.fourcc);
                self.found.structure.push(finding(&chunk.part(), entry_at(toc, position), what));
            }
            let len = chunk.name.len() as u64;
            if len > MAX_CHUNK_NAME {
                let what = format!("the name has {len} bytes, and aerotensor reads at most {MAX_CHUNK_NAME}");
                self.found.structure.push(finding(&chunk.part(), entry_at(toc, position), what));
            }
            self.chunk_extent(position, &chunk);
        }
        self.missing_shards();
        for shard in tensors_by_shard(self.index) {
            self.found.extents.extend(shard.overlaps);
        }
    }

    fn reserved(&mut self) {
        const WHAT: &str = "is reserved and must be zero";
        if !self.index.header.reserved_zero {
            self.found.structure.push(finding(&Part::new("header").with_field("reserved"), 68, WHAT));
        }
        let toc = self.index.header.toc_offset;
        if !self.index.toc_reserved_zero {
            let part = Part::new("TOC header").with_field("reserved");
            self.found.structure.push(finding(&part, toc.saturating_add(4), WHAT));
        }
        for (entry, _) in self.index.chunks.reserved() {
            let part = Part::entry("TOC entry", entry as u64).with_field("reserved0");
            self.found.structure.push(finding(&part, entry_at(toc, entry).saturating_add(40), WHAT));
        }
    }

    fn chunk_extent(&mut self, position: usize, chunk: &Chunk<'_>) {
        let (start, end) = (chunk.offset, chunk.offset.saturating_add(chunk.length));
        let mut found = |what: String| self.found.extents.push(finding(&chunk.part(), start, what));
        if chunk.fourcc == FourCC::WTSH && !start.is_multiple_of(SHARD_ALIGNMENT) {
            found("the payload of a shard must begin at a multiple of 16".to_owned());
        }
        for (what, from, to) in control::regions(self.index) {
            if start < to && from < end {
                found(format!("lies over the {what}"));
            }
        }
        if let Some(first) = self.skipped.get(&position).and_then(|&first| self.index.chunk(first)) {
            found(format!("shares bytes with {}; its content is not looked at", first.part()));
        }
    }

    /// Checks that every tensor's shard is in the file, unless the file has no shards: then it is the index
    /// of a set (docs/formats/aero.md#a-file-without-tensors).
    fn missing_shards(&mut self) {
        if !self.has_shards {
            return;
        }
        for (position, info) in self.index.tensors().iter().enumerate() {
            let Some(shard) = self.index.tensors.shard_id(position) else { continue };
            if self.index.shard_chunk(shard).is_none() {
                let part = Part::entry("TIDX entry", position as u64).with_name(info.name);
                self.found.structure.push(finding(&part, self.tidx_at(), Fault::MissingShard { shard }));
            }
        }
    }

    fn tidx_at(&self) -> u64 {
        self.index.chunks.tidx().and_then(|at| self.index.chunk(at)).map_or(0, |chunk| chunk.offset)
    }

    /// Recomputes every control hash (IHSH) and compares it with the stated one.
    async fn control(&mut self, work: &Execution<'_>) -> ControlFlow<()> {
        let mut left = self.index.file_len();
        for (position, chunk) in self.index.chunks().enumerate() {
            if chunk.fourcc != FourCC::IHSH || self.is_skipped(position) {
                continue;
            }
            if let Err(error) = self.control_chunk(position, &chunk, &mut left, work).await {
                self.found.ihsh.push(with_causes(&error));
                if matches!(error, Error::Cancelled) {
                    return ControlFlow::Break(());
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Checks one control hash. All control hashes together may cover as many bytes as the file has, and
    /// `left` is what remains of that. Otherwise many small chunks could ask for any amount of hashing.
    async fn control_chunk(
        &self,
        position: usize,
        chunk: &Chunk<'_>,
        left: &mut u64,
        work: &Execution<'_>,
    ) -> Result<(), Error> {
        let (stated, covered) = control::stated(self.index, self.source, position, chunk).await?;
        *left = control::within(*left, covered).map_err(|fault| chunk.malformed(fault))?;
        control::check(self.index, self.source, &stated, work).await
    }

    /// Checks chunks other than shards and IHSH: at [`VerifyLevel::Control`] those that a reader needs, at
    /// [`VerifyLevel::Full`] all of them.
    async fn metadata(&mut self, level: VerifyLevel, work: &Execution<'_>) -> ControlFlow<()> {
        let mut expansion = Expansion::default();
        for (position, chunk) in self.index.chunks().enumerate() {
            let at = match chunk.fourcc {
                FourCC::WTSH | FourCC::IHSH => continue,
                FourCC::TIDX | FourCC::MMSG | FourCC::MJSN => VerifyLevel::Control,
                _ => VerifyLevel::Full,
            };
            if level < at || self.is_skipped(position) || chunk.check_lengths().is_err() {
                continue; // reported before
            }
            // Asks the callback before each chunk, because a compressed one can be a thousand times as long
            // as its stored bytes.
            if work.advance(0).is_break() {
                self.found.chunks.push(Error::Cancelled.to_string());
                return ControlFlow::Break(());
            }
            let content = match chunk.check_budget(&self.index.limits, &mut expansion) {
                Ok(_) => self.index.content(self.source, position).await,
                Err(error) => Err(error),
            };
            if let Err(error) = content {
                self.found.chunks.push(with_causes(&error));
                continue;
            }
            if !chunk.has_hash() {
                self.found.unhashed(chunk.part().to_string());
            }
            let decoded = match chunk.fourcc {
                FourCC::MJSN => self.index.json_at(self.source, position).await.map(|_| ()),
                FourCC::MMSG => {
                    let manifest = self.index.manifest_at(self.source, position).await;
                    manifest.map(|manifest| self.listed_shards(&chunk, &manifest))
                }
                _ => Ok(()),
            };
            if let Err(error) = decoded {
                self.found.structure.push(with_causes(&error));
            }
        }
        ControlFlow::Continue(())
    }

    /// Reports a file without shards whose manifest lists some. It is not the index of a set.
    fn listed_shards(&mut self, chunk: &Chunk<'_>, manifest: &modelfmt_core::value::Object) {
        let listed =
            manifest.optional_array("shards").ok().flatten().map_or(0, modelfmt_core::value::List::len);
        if listed > 0 && !self.has_shards {
            let what = format!("lists {listed} shards, and the file has no WTSH chunk");
            self.found.structure.push(finding(&chunk.part(), chunk.offset, what));
        }
    }

    /// Computes all hashes over each shard, in one pass over it. Fails if the work was stopped.
    async fn shards(&mut self, work: &Execution<'_>) -> Result<(), ()> {
        let pages = self.page_hashes().await;
        let mut tensors: BTreeMap<usize, ShardTensors> =
            tensors_by_shard(self.index).into_iter().map(|shard| (shard.chunk, shard)).collect();
        self.malformed_hashes();
        for (position, chunk) in self.index.chunks().enumerate() {
            if chunk.fourcc != FourCC::WTSH || self.is_skipped(position) || chunk.check_lengths().is_err() {
                continue;
            }
            let shard = tensors.remove(&position).unwrap_or_default();
            self.shard(&chunk, shard, pages.get(&position).map(|pages| &**pages), work).await?;
        }
        Ok(())
    }

    async fn shard(
        &mut self,
        chunk: &Chunk<'_>,
        mut shard: ShardTensors,
        pages: Option<&PageHashes>,
        work: &Execution<'_>,
    ) -> Result<(), ()> {
        shard.spans.retain(|(_, owners)| {
            owners.iter().any(|&owner| matches!(self.index.tensors.hash(owner), Ok(Some(_))))
        });
        let tensors = shard.spans.iter().map(|(span, _)| span.clone()).collect();
        let pass = pass(chunk.length, tensors, pages.map(PageHashes::page_size));
        let range = chunk.offset..chunk.offset.saturating_add(chunk.length);
        let look = |at: u64, bytes: &[u8]| pass.hash(at.saturating_sub(chunk.offset), bytes);
        let scan = SharedScan(ScanRange::new(range, PIECE, look));
        match self.source.scan(&scan, work, |seen| pass.take(seen)).await {
            Ok(()) => self.compare(chunk, &shard, pages, &pass.into()),
            Err(error) => {
                let stopped = matches!(error, ScanError::Cancelled);
                self.found.chunks.push(format!("{}: {}", chunk.part(), with_causes(&Error::from(error))));
                return if stopped { Err(()) } else { Ok(()) };
            }
        }
        Ok(())
    }

    fn compare(
        &mut self,
        chunk: &Chunk<'_>,
        shard: &ShardTensors,
        pages: Option<&PageHashes>,
        hashes: &Hashes,
    ) {
        if let Err(error) = chunk.check_hash(hashes.whole) {
            self.found.chunks.push(with_causes(&error));
        }
        for ((span, owners), &hash) in shard.spans.iter().zip(&hashes.tensors) {
            for &owner in owners {
                self.compare_tensor(owner, chunk.offset.saturating_add(span.start), hash);
            }
        }
        let Some(pages) = pages else { return };
        for ((page, &expected), &found) in (0u64..).zip(pages.digests()).zip(&hashes.pages) {
            if found != expected {
                let part = Part::entry("page", page).with_name(chunk.name);
                let at = chunk.offset.saturating_add(page.saturating_mul(pages.page_size()));
                let what = Fault::Hash {
                    stated: "PHSH chunk",
                    found: Hex::new(found),
                    expected: Hex::new(expected),
                };
                self.found.pages.push(finding(&part, at, what));
            }
        }
    }

    fn compare_tensor(&mut self, position: usize, at: u64, found: [u8; 32]) {
        if let Ok(Some(expected)) = self.index.tensors.hash(position)
            && found != expected
        {
            let what =
                Fault::Hash { stated: "hash_b3", found: Hex::new(found), expected: Hex::new(expected) };
            self.found.tensors.push(finding(&self.tensor_part(position), at, what));
        }
    }

    /// Reports malformed hashes, and checks those of tensors without bytes, which a pass over a shard does
    /// not see.
    fn malformed_hashes(&mut self) {
        let empty = *blake3::hash(&[]).as_bytes();
        for (position, info) in self.index.tensors().iter().enumerate() {
            match self.index.tensors.hash(position) {
                Err(fault) => {
                    let part = self.tensor_part(position).with_field("hash_b3");
                    self.found.tensors.push(finding(&part, self.tidx_at(), fault));
                }
                Ok(Some(_)) if info.nbytes == 0 => self.compare_tensor(position, self.tidx_at(), empty),
                Ok(_) => {}
            }
        }
    }

    fn tensor_part(&self, position: usize) -> Part {
        Part::named("tensor", self.index.tensors().info(position).map_or("", |info| info.name))
    }

    /// Returns the page hashes of each shard that has valid ones.
    async fn page_hashes(&mut self) -> BTreeMap<usize, Arc<PageHashes>> {
        let mut pages = BTreeMap::new();
        for (position, chunk) in self.index.chunks().enumerate() {
            if chunk.fourcc != FourCC::PHSH || self.is_skipped(position) {
                continue;
            }
            let content = match self.index.content(self.source, position).await {
                Ok(content) => content,
                Err(error) => {
                    // Damage was reported with the chunks. Only I/O errors are new, because a source can fail
                    // at any time.
                    if error.is_io() {
                        self.found.pages.push(with_causes(&error));
                    }
                    continue;
                }
            };
            match self.page_hashes_of(&content, &chunk) {
                Ok((shard, hashes)) => {
                    pages.entry(shard).or_insert_with(|| Arc::new(hashes));
                }
                Err(fault) => self.found.pages.push(with_causes(&chunk.malformed(fault))),
            }
        }
        pages
    }

    fn page_hashes_of(&self, content: &[u8], chunk: &Chunk<'_>) -> Result<(usize, PageHashes), Fault> {
        let payload = Payload::parse(content)?;
        let shard = self.index.find_chunk(FourCC::WTSH, payload.shard_name);
        let found = shard.and_then(|position| Some((position, self.index.chunk(position)?)));
        let Some((position, shard)) = found else {
            return Err(Fault::Pages(format!(
                "shard_name is {:?}, and there is no such shard",
                payload.shard_name
            )));
        };
        PageHashes::new(payload, chunk.name, &shard).map(|hashes| (position, hashes))
    }

    /// Checks that the bytes between chunks are zero. No hash covers them, and every change of the file must
    /// be noticed.
    async fn padding(&mut self, work: &Execution<'_>) {
        let mut covered: Vec<(u64, u64)> = self
            .index
            .chunks()
            .map(|chunk| (chunk.offset, chunk.offset.saturating_add(chunk.length)))
            .chain(control::regions(self.index).map(|(_, start, end)| (start, end)))
            .chain([(self.index.file_len(), self.index.file_len())])
            .collect();
        covered.sort_unstable();
        let mut reach = 0;
        for (start, end) in covered {
            if start > reach {
                self.gap(reach, start, work).await;
            }
            reach = reach.max(end);
        }
    }

    async fn gap(&mut self, start: u64, end: u64, work: &Execution<'_>) {
        let look = |at: u64, bytes: &[u8]| {
            let position = bytes.iter().position(|&byte| byte != 0)?;
            Some(at.saturating_add(position as u64))
        };
        let mut first = None;
        let scan = ScanRange::new(start..end, PIECE, look);
        let read = self.source.scan(&scan, work, |at| first = first.or(at)).await;
        let what = match (read, first) {
            (Ok(()), Some(at)) => finding(&Part::new("padding"), at, "is not zero"),
            (Ok(()), None) => return,
            (Err(error), _) => with_causes(&Error::from(error)),
        };
        self.found.padding.push(what);
    }

    fn is_skipped(&self, position: usize) -> bool {
        self.skipped.contains_key(&position)
    }
}

/// The tensors of a shard.
#[derive(Default)]
struct ShardTensors {
    /// The position of the shard's chunk.
    chunk: usize,
    /// Ascending spans that do not overlap, each with the tensors that take exactly its bytes.
    spans: Vec<(Range<u64>, Vec<usize>)>,
    /// Tensors that partly overlap an earlier one. They are in no span.
    overlaps: Vec<String>,
}

/// Returns the tensors that have bytes, by shard. Two tensors may take the same bytes (tied weights). A
/// partial overlap is a finding.
fn tensors_by_shard(index: &Index) -> Vec<ShardTensors> {
    let mut order: Vec<(usize, (u64, u64), usize)> = Vec::new();
    for position in 0..index.tensors().len() {
        let Some(entry) = index.entry(position).filter(|entry| entry.data_len > 0) else { continue };
        let Some(chunk) = index.shard_chunk(entry.shard_id) else { continue };
        let span = (entry.data_off, entry.data_off.saturating_add(entry.data_len));
        order.push((chunk, span, position));
    }
    order.sort_unstable();
    let mut shards: Vec<ShardTensors> = Vec::new();
    let mut reach = (0, 0);
    for (chunk, (start, end), position) in order {
        let span = start..end;
        if shards.last().is_none_or(|shard| shard.chunk != chunk) {
            shards.push(ShardTensors { chunk, ..ShardTensors::default() });
            reach = (0, position);
        }
        let Some(shard) = shards.last_mut() else { continue };
        match shard.spans.last_mut() {
            Some((same, owners)) if *same == span => owners.push(position),
            _ if start < reach.0 => shard.overlaps.push(overlap(index, chunk, start, position, reach.1)),
            _ => shard.spans.push((span, vec![position])),
        }
        if end > reach.0 {
            reach = (end, position);
        }
    }
    shards
}

fn overlap(index: &Index, chunk: usize, start: u64, position: usize, first: usize) -> String {
    let part = |position| Part::named("tensor", index.tensors().info(position).map_or("", |info| info.name));
    let at = index.chunk(chunk).map_or(0, |chunk| chunk.offset).saturating_add(start);
    finding(&part(position), at, format!("shares some of its bytes with {}", part(first)))
}
