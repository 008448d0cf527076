//! Checks that report every finding; one small function each.

use modelfmt_core::{
    DType, Execution, Fetch, Part, Report, VerifyLevel,
    author::{Extent, Overlap, ScanError, ScanRange, align_up, overlaps, parse_fetched},
};

use crate::error::{Error, Fault, Result};
use crate::index::Index;
use crate::metadata::{MetaValue, bool_fault};
use crate::parser::IndexParser;
use crate::wire::{ALIGNMENT, HEADER_LEN, malformed};

/// The report on a file; the file itself is read again, whatever index it was opened with.
pub(crate) async fn verify(
    known: &Index,
    source: &impl Fetch,
    level: VerifyLevel,
    work: &Execution<'_>,
) -> Report {
    let parser = NotedParser(IndexParser::noting(source.size(), &known.limits));
    let (index, notes) = match parse_fetched(parser, source).await {
        Ok(parsed) => parsed,
        Err(error) => return Report::unreadable(level, with_cause(&error)),
    };
    let mut report = Report::new(level);
    report.add("structure", Vec::new(), structure(&index));
    if level < VerifyLevel::Full {
        return report;
    }
    let file = File { index: &index, source, work };
    add(&mut report, "padding", &file.padding(notes).await, "header, strings, sections and payloads");
    let (findings, looked_at) = file.values().await;
    add(&mut report, "values", &findings, &looked_at);
    add(&mut report, "extents", &file.extents(), "sections and payloads");
    report
}

fn add(report: &mut Report, name: &'static str, findings: &[Error], looked_at: &str) {
    report.add(name, findings.iter().map(with_cause).collect(), looked_at);
}

/// The message with those of its causes.
fn with_cause(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

fn structure(index: &Index) -> String {
    let [sizevars, metadata, tensors] = index.header.counts;
    format!("{sizevars} size variables, {metadata} metadata entries, {tensors} tensors")
}

/// A parser whose result has the notes with it.
struct NotedParser(IndexParser);

impl modelfmt_core::author::Parser for NotedParser {
    type Index = (Index, Vec<Error>);
    type Fault = Fault;

    fn need(&self) -> Option<std::ops::Range<u64>> {
        self.0.need()
    }
    fn feed(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.feed(bytes)
    }
    fn finish(self) -> Result<Self::Index> {
        self.0.finish_with_notes()
    }
}

/// What is being verified.
struct File<'a, S> {
    index: &'a Index,
    source: &'a S,
    work: &'a Execution<'a>,
}

/// A stretch of the file that belongs to something.
#[derive(Clone, Copy)]
struct Blob {
    extent: Extent,
    owner: Owner,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Metadata(usize),
    Tensor(usize),
}

impl<S: Fetch> File<'_, S> {
    /// Padding must be zero (OINF 1, "High-Level Layout"; DECISIONS, OINF 1). `notes` are the parser's: strings and header.
    async fn padding(&self, notes: Vec<Error>) -> Vec<Error> {
        let mut findings = notes;
        findings.extend(self.payload_padding());
        let mut covered = HEADER_LEN;
        for (end, what) in
            self.index.ends.into_iter().zip(["size variables", "metadata entries", "tensor entries"])
        {
            self.zeros(Part::new(what), covered.max(end), &mut findings).await;
            covered = covered.max(end);
        }
        let blobs = self.blobs();
        for (position, blob) in blobs.iter().enumerate() {
            let end = blob.extent.end();
            // Where the next payload begins inside the padding it is an overlap, for `extents`.
            let next = blobs.get(position + 1).map_or(u64::MAX, |next| next.extent.offset());
            if next >= end {
                self.zeros(self.part(blob.owner), end, &mut findings).await;
            }
        }
        findings
    }

    /// The padding inside payloads of metadata.
    fn payload_padding(&self) -> Vec<Error> {
        let entries = &self.index.entries;
        let finding = |position: usize| {
            let payload = entries.checked(position)?;
            let at = payload.padding.iter().position(|&byte| byte != 0)?;
            let fault = Fault::Padding(payload.padding.get(at).copied().unwrap_or_default());
            Some(malformed(self.part(Owner::Metadata(position)), payload.padding_at + at as u64, fault))
        };
        (0..entries.values.len()).filter_map(finding).collect()
    }

    /// The bytes from `end` to the next multiple of 8.
    async fn zeros(&self, part: Part, end: u64, findings: &mut Vec<Error>) {
        let Some(to) = align_up(end, ALIGNMENT).filter(|&to| to > end) else { return };
        if to > self.index.file_len() {
            findings.push(malformed(part, end, Fault::CutPadding(to)));
            return;
        }
        match self.source.fetch(end..to).await {
            Ok(bytes) => {
                if let Some((position, &byte)) = bytes.iter().enumerate().find(|&(_, &byte)| byte != 0) {
                    findings.push(malformed(part, end + position as u64, Fault::Padding(byte)));
                }
            }
            Err(source) => findings.push(Error::Io { at: end, len: to - end, source }),
        }
    }

    /// Booleans are 0 or 1, and bitsets have no bits beyond their count (DECISIONS, OINF 1).
    async fn values(&self) -> (Vec<Error>, String) {
        let mut findings = Vec::new();
        for position in 0..self.index.entries.values.len() {
            let fault = self.value_fault(position);
            let at = self.index.entries.bytes(position).0;
            findings.extend(fault.map(|fault| malformed(self.part(Owner::Metadata(position)), at, fault)));
        }
        let (mut bools, mut reach) = (self.bool_tensors(), 0);
        let looked_at = bools.len();
        // Every byte is looked at once: tied tensors have the same values, and one that begins inside another is a finding of
        // its own (`extents`). So a small file cannot have the same bytes read a million times.
        bools.retain(|&(extent, _)| {
            let is_new = extent.offset() >= reach;
            reach = extent.end().max(reach);
            is_new
        });
        for (extent, position) in bools {
            let name = self.index.tensors().info(position).map_or("", |info| info.name);
            match self.bools(extent).await {
                Ok(None) => {}
                Ok(Some((at, fault))) => {
                    findings.push(malformed(Part::named("tensor", name), at, fault));
                }
                Err(error) => {
                    let is_stopped = matches!(error, ScanError::Cancelled);
                    findings.push(error.into());
                    if is_stopped {
                        break;
                    }
                }
            }
        }
        let metadata = self.index.entries.values.len();
        (findings, format!("{metadata} metadata values and {looked_at} boolean tensors"))
    }

    /// The boolean tensors that have bytes, in the order of the file.
    fn bool_tensors(&self) -> Vec<(Extent, usize)> {
        let tensors = self.index.tensors();
        let bools = tensors.iter().enumerate().filter(|(_, tensor)| tensor.dtype == DType::Bool);
        let extent = |(position, _)| Some((tensors.extent(position, self.index.file_len())?, position));
        let mut bools: Vec<_> = bools.filter_map(extent).filter(|(extent, _)| !extent.is_empty()).collect();
        bools.sort_unstable();
        bools
    }

    fn value_fault(&self, position: usize) -> Option<Fault> {
        let entries = &self.index.entries;
        let (_, bytes) = entries.bytes(position);
        match entries.value(position) {
            MetaValue::Bool(_) => bool_fault(bytes),
            MetaValue::Ndarray(array) if array.dtype() == DType::Bool => bool_fault(array.bytes()),
            MetaValue::Bitset(bitset) if bitset.stray() != 0 => Some(Fault::StrayBits(bitset.len())),
            _ => None,
        }
    }

    /// Where the first byte of a boolean tensor is that is neither 0 nor 1, and how many there are.
    async fn bools(&self, extent: Extent) -> Result<Option<(u64, Fault)>, ScanError> {
        let look = |at: u64, bytes: &[u8]| {
            let first = bytes.iter().position(|&byte| byte > 1)?;
            let Fault::Bool { value, count } = bool_fault(bytes)? else { return None };
            Some((at + first as u64, value, count))
        };
        let mut found = None;
        let add = |seen: Option<(u64, u8, u64)>| {
            if let Some((at, value, count)) = seen {
                let (at, value, before) = found.unwrap_or((at, value, 0));
                found = Some((at, value, before + count));
            }
        };
        let scan = ScanRange::new(extent.range(), modelfmt_core::author::PIECE, look);
        self.source.scan(&scan, self.work, add).await?;
        Ok(found.map(|(at, value, count)| (at, Fault::Bool { value, count })))
    }

    /// Every byte belongs to one part, and parts follow each other (DECISIONS, OINF 1).
    fn extents(&self) -> Vec<Error> {
        let mut findings = self.section_gaps();
        let blobs = self.blobs();
        let extents: Vec<Extent> = blobs.iter().map(|blob| blob.extent).collect();
        let owner = |position: usize| blobs.get(position).copied();
        let shared = overlaps(&extents).into_iter().chain(same_bytes(&blobs));
        for (first, second) in shared.filter_map(|o| owner(o.first).zip(owner(o.second))) {
            let fault = Fault::Overlap(self.part(first.owner).to_string());
            findings.push(malformed(self.part(second.owner), second.extent.offset(), fault));
        }
        let mut covered = self.index.header.data;
        for blob in &blobs {
            self.gap(covered, blob.extent.offset(), self.part(blob.owner), &mut findings);
            covered = covered.max(blob.extent.end());
        }
        self.gap(covered, self.index.file_len(), Part::new("end of the file"), &mut findings);
        findings
    }

    fn section_gaps(&self) -> Vec<Error> {
        let header = &self.index.header;
        let mut findings = Vec::new();
        let mut covered = HEADER_LEN;
        let starts = header.tables.into_iter().chain([header.data]);
        let names = ["size variables", "metadata entries", "tensor entries", "data section"];
        for ((start, what), end) in starts.zip(names).zip(self.index.ends.into_iter().chain([0])) {
            self.gap(covered, start, Part::new(what), &mut findings);
            covered = covered.max(end).max(start);
        }
        findings
    }

    /// Bytes between the end of what is before and `start`, beyond the padding to 8.
    fn gap(&self, end: u64, start: u64, part: Part, findings: &mut Vec<Error>) {
        let Some(padded) = align_up(end, ALIGNMENT).filter(|&padded| padded < start) else { return };
        findings.push(malformed(part.with_field("before it"), padded, Fault::Gap(start - padded)));
    }

    /// Payloads that have bytes, in the order of the file.
    fn blobs(&self) -> Vec<Blob> {
        let metadata = self.index.entries.values.iter().enumerate();
        let metadata = metadata.map(|(n, entry)| Blob { extent: entry.extent, owner: Owner::Metadata(n) });
        let tensors = (0..self.index.tensors.len()).filter_map(|n| {
            Some(Blob {
                extent: self.index.tensors().extent(n, self.index.file_len())?,
                owner: Owner::Tensor(n),
            })
        });
        let mut blobs: Vec<Blob> = metadata.chain(tensors).filter(|blob| !blob.extent.is_empty()).collect();
        blobs.sort_by_key(|blob| blob.extent);
        blobs
    }

    fn part(&self, owner: Owner) -> Part {
        match owner {
            Owner::Metadata(n) => {
                Part::named("metadata value", self.index.entries.keys.name(n).unwrap_or_default())
            }
            Owner::Tensor(n) => {
                Part::named("tensor", self.index.tensors().info(n).map_or("", |info| info.name))
            }
        }
    }
}

/// Payloads over the same bytes of which one is metadata: only tensors may be tied (DECISIONS, "For every format").
fn same_bytes(blobs: &[Blob]) -> Vec<Overlap> {
    let tensor = |blob: &Blob| matches!(blob.owner, Owner::Tensor(_));
    let pairs = blobs.windows(2).enumerate();
    let same = pairs.filter(|(_, pair)| match pair {
        [a, b] => a.extent == b.extent && !(tensor(a) && tensor(b)),
        _ => false,
    });
    same.map(|(first, _)| Overlap { first, second: first + 1 }).collect()
}
