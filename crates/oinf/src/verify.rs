//! Checks a file and reports every finding. The check names are the same as in `modelfmt verify`.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::{
    DType, Execution, Fetch, Part, Report, SmallType, VerifyLevel,
    author::{Extent, Overlap, ScanError, ScanRange, align_up, overlaps, parse_fetched},
};

use crate::error::{Error, Fault, Result};
use crate::index::Index;
use crate::metadata::{MetaValue, bool_fault, packed_fault, stray_fault, ternaries, ternary_fault};
use crate::parser::IndexParser;
use crate::wire::{ALIGNMENT, HEADER_LEN, malformed};

/// Verifies a file. Parses it again, because `known` may have been made from another source.
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
    let mut quants = file.quants().await;
    let mut padding = file.padding(notes).await;
    padding.append(&mut quants.padding);
    add(&mut report, "padding", &padding, "header, strings, sections and payloads");
    let (mut findings, coverage) = file.values().await;
    findings.append(&mut quants.faults);
    add(&mut report, "values", &findings, &coverage);
    add(&mut report, "extents", &file.extents(), "sections and payloads");
    report
}

fn add(report: &mut Report, name: &'static str, findings: &[Error], coverage: &str) {
    report.add(name, findings.iter().map(with_cause).collect(), coverage);
}

/// Returns the error's message, followed by the messages of its causes.
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

/// A parser that also returns its findings about padding.
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

/// The file to verify.
struct File<'a, S> {
    index: &'a Index,
    source: &'a S,
    work: &'a Execution<'a>,
}

/// A payload of the file and its owner.
#[derive(Clone, Copy)]
struct Blob {
    extent: Extent,
    owner: Owner,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Metadata(usize),
    Tensor(usize),
    Quant(usize),
}

/// The findings about quant payloads.
#[derive(Default)]
struct QuantFindings {
    faults: Vec<Error>,
    padding: Vec<Error>,
}

impl<S: Fetch> File<'_, S> {
    /// Checks that quant payloads keep the rules of version 2.
    async fn quants(&self) -> QuantFindings {
        let mut findings = QuantFindings::default();
        for (position, _) in self.index.quants.iter() {
            match self.index.read_quant(self.source, position).await {
                Ok(found) => findings.padding.extend(found.and_then(|(_, padding)| padding)),
                Err(error) => findings.faults.push(error),
            }
        }
        findings
    }

    /// Checks that the bits after the last element of packed tensors are zero.
    async fn stray_bits(&self, findings: &mut Vec<Error>) {
        let tensors = self.index.tensors();
        for (position, tensor) in tensors.iter().enumerate() {
            let is_packed = SmallType::from_dtype(tensor.dtype).is_some_and(|small| small.bits() < 8);
            let extent = tensors.extent(position, self.index.file_len());
            let Some(extent) = extent.filter(|extent| is_packed && !extent.is_empty()) else { continue };
            let at = extent.end().saturating_sub(1);
            match self.source.fetch(at..extent.end()).await {
                Ok(bytes) => {
                    let last = bytes.first().copied().unwrap_or_default();
                    if let Some(fault) = stray_fault(tensor.dtype, last, tensor.elements()) {
                        findings.push(malformed(self.part(Owner::Tensor(position)), at, fault));
                    }
                }
                Err(source) => findings.push(Error::Io { at, len: 1, source }),
            }
        }
    }

    /// Checks that padding is zero (OINF 1, "High-Level Layout"). `notes` are the parser's findings about the
    /// header and strings.
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
            // If the next payload begins inside the padding, `extents` reports an overlap.
            let next = blobs.get(position.saturating_add(1)).map_or(u64::MAX, |next| next.extent.offset());
            if next >= end {
                self.zeros(self.part(blob.owner), end, &mut findings).await;
            }
        }
        self.stray_bits(&mut findings).await;
        findings
    }

    /// Checks the padding inside metadata payloads.
    fn payload_padding(&self) -> Vec<Error> {
        let entries = &self.index.entries;
        let finding = |position: usize| {
            let payload = entries.checked(position)?;
            let at = payload.padding.iter().position(|&byte| byte != 0)?;
            let fault = Fault::Padding(payload.padding.get(at).copied().unwrap_or_default());
            Some(malformed(
                self.part(Owner::Metadata(position)),
                payload.padding_at.saturating_add(at as u64),
                fault,
            ))
        };
        (0..entries.values.len()).filter_map(finding).collect()
    }

    /// Checks that the bytes from `end` to the next multiple of 8 are zero.
    async fn zeros(&self, part: Part, end: u64, findings: &mut Vec<Error>) {
        let Some(to) = align_up(end, ALIGNMENT).filter(|&to| to > end) else { return };
        if to > self.index.file_len() {
            findings.push(malformed(part, end, Fault::CutPadding(to)));
            return;
        }
        match self.source.fetch(end..to).await {
            Ok(bytes) => {
                if let Some((position, &byte)) = bytes.iter().enumerate().find(|&(_, &byte)| byte != 0) {
                    findings.push(malformed(part, end.saturating_add(position as u64), Fault::Padding(byte)));
                }
            }
            Err(source) => findings.push(Error::Io { at: end, len: to.saturating_sub(end), source }),
        }
    }

    /// Checks that booleans are 0 or 1, that ternaries are −1, 0 or 1, and that bitsets have no bits beyond
    /// their count (docs/formats/oinf.md#values).
    async fn values(&self) -> (Vec<Error>, String) {
        let mut findings = Vec::new();
        for position in 0..self.index.entries.values.len() {
            let fault = self.value_fault(position);
            let at = self.index.entries.bytes(position).0;
            findings.extend(fault.map(|fault| malformed(self.part(Owner::Metadata(position)), at, fault)));
        }
        let mut counts = [0; 2];
        for (dtype, count) in [DType::Bool, DType::T2].into_iter().zip(&mut counts) {
            let (mut more, checked) = self.tensor_values(dtype).await;
            findings.append(&mut more);
            *count = checked;
        }
        let [bools, ternaries] = counts;
        let metadata = self.index.entries.values.len();
        let mut coverage = format!("{metadata} metadata values and {bools} boolean tensors");
        if ternaries > 0 {
            coverage = format!("{metadata} metadata values, {bools} boolean and {ternaries} ternary tensors");
        }
        if let quants @ 1.. = self.index.quants.iter().count() {
            coverage = format!("{coverage}, {quants} quant payloads");
        }
        (findings, coverage)
    }

    /// Returns the forbidden values in the tensors of one type, and the number of these tensors.
    async fn tensor_values(&self, dtype: DType) -> (Vec<Error>, usize) {
        let mut findings = Vec::new();
        let (mut tensors, mut reach) = (self.tensors_of(dtype), 0);
        let checked = tensors.len();
        // Every byte is checked once: tied tensors have the same values, and `extents` reports a tensor that
        // begins inside another one. So a small file cannot have the same bytes read a million times.
        tensors.retain(|&(extent, _)| {
            let is_new = extent.offset() >= reach;
            reach = extent.end().max(reach);
            is_new
        });
        for (extent, position) in tensors {
            let name = self.index.tensors().info(position).map_or("", |info| info.name);
            match self.forbidden(dtype, extent).await {
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
        (findings, checked)
    }

    /// Returns the tensors of one type that have bytes, in file order.
    fn tensors_of(&self, dtype: DType) -> Vec<(Extent, usize)> {
        let tensors = self.index.tensors();
        let those = tensors.iter().enumerate().filter(|(_, tensor)| tensor.dtype == dtype);
        let extent = |(position, _)| Some((tensors.extent(position, self.index.file_len())?, position));
        let mut those: Vec<_> = those.filter_map(extent).filter(|(extent, _)| !extent.is_empty()).collect();
        those.sort_unstable();
        those
    }

    fn value_fault(&self, position: usize) -> Option<Fault> {
        let entries = &self.index.entries;
        let (_, bytes) = entries.bytes(position);
        match entries.value(position) {
            MetaValue::Bool(_) => bool_fault(bytes),
            MetaValue::Ndarray(array) if array.dtype() == DType::Bool => bool_fault(array.bytes()),
            MetaValue::Ndarray(array) => packed_fault(array.dtype(), array.bytes(), array.elements()),
            MetaValue::Small(number) => packed_fault(number.dtype(), bytes, 1),
            MetaValue::Bitset(bitset) if bitset.stray() != 0 => Some(Fault::StrayBits(bitset.len())),
            _ => None,
        }
    }

    /// Returns the offset of the first byte that the tensor's type forbids, and a fault with the number of
    /// such elements.
    async fn forbidden(&self, dtype: DType, extent: Extent) -> Result<Option<(u64, Fault)>, ScanError> {
        let look = |at: u64, bytes: &[u8]| match dtype {
            DType::Bool => {
                let first = bytes.iter().position(|&byte| byte > 1)?;
                let Fault::Bool { value, count } = bool_fault(bytes)? else { return None };
                Some((at.saturating_add(first as u64), value, count))
            }
            _ => {
                let first = bytes.iter().position(|&byte| ternaries(byte) != 0)?;
                let Fault::Ternary(count) = ternary_fault(dtype, bytes)? else { return None };
                Some((at.saturating_add(first as u64), 0, count))
            }
        };
        let mut found: Option<(u64, u8, u64)> = None;
        let add = |seen: Option<(u64, u8, u64)>| {
            if let Some((at, value, count)) = seen {
                let (at, value, before) = found.unwrap_or((at, value, 0));
                found = Some((at, value, before.saturating_add(count)));
            }
        };
        let scan = ScanRange::new(extent.range(), modelfmt_core::author::PIECE, look);
        self.source.scan(&scan, self.work, add).await?;
        let fault = |value, count| match dtype {
            DType::Bool => Fault::Bool { value, count },
            _ => Fault::Ternary(count),
        };
        Ok(found.map(|(at, value, count)| (at, fault(value, count))))
    }

    /// Checks that every byte belongs to exactly one part.
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

    /// Reports the bytes between `end`, rounded up to a multiple of 8, and `start`.
    fn gap(&self, end: u64, start: u64, part: Part, findings: &mut Vec<Error>) {
        let Some(padded) = align_up(end, ALIGNMENT).filter(|&padded| padded < start) else { return };
        findings.push(malformed(
            part.with_field("before it"),
            padded,
            Fault::Gap(start.saturating_sub(padded)),
        ));
    }

    /// Returns the payloads that have bytes, in file order.
    fn blobs(&self) -> Vec<Blob> {
        let metadata = self.index.entries.values.iter().enumerate();
        let metadata = metadata.map(|(n, entry)| Blob { extent: entry.extent, owner: Owner::Metadata(n) });
        let tensors = (0..self.index.tensors.len()).filter_map(|n| {
            Some(Blob {
                extent: self.index.tensors().extent(n, self.index.file_len())?,
                owner: Owner::Tensor(n),
            })
        });
        let quants = self.index.quants.iter().map(|(n, extent)| Blob { extent, owner: Owner::Quant(n) });
        let mut blobs: Vec<Blob> =
            metadata.chain(tensors).chain(quants).filter(|blob| !blob.extent.is_empty()).collect();
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
            Owner::Quant(n) => {
                Part::named("quant payload", self.index.tensors().info(n).map_or("", |info| info.name))
            }
        }
    }
}

/// Returns the pairs of payloads with the same bytes in which at least one is not a tensor's values. Only
/// tensor values may share bytes (docs/formats/oinf.md#overlaps).
fn same_bytes(blobs: &[Blob]) -> Vec<Overlap> {
    let tensor = |blob: &Blob| matches!(blob.owner, Owner::Tensor(_));
    let pairs = blobs.windows(2).enumerate();
    let same = pairs.filter(|(_, pair)| match pair {
        [a, b] => a.extent == b.extent && !(tensor(a) && tensor(b)),
        _ => false,
    });
    same.map(|(first, _)| Overlap { first, second: first.saturating_add(1) }).collect()
}
