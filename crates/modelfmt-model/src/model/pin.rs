//! The pins of a model, and what a report says about them.

use std::ops::Range;
use std::sync::Arc;

#[cfg(not(target_arch = "wasm32"))]
use modelfmt_core::Source as _;
use modelfmt_core::author::{Shortened, with_causes};
use modelfmt_core::proof::{GROUP, ProofError};
use modelfmt_core::{AnyError, Execution, Location, Report, VerifyLevel};

use crate::error::Result;
use crate::model::Model;
#[cfg(not(target_arch = "wasm32"))]
use crate::model::pinned::outboard_of;
use modelfmt_rules::pin::Pin;
use modelfmt_rules::wording::unsupported::Examples;

impl Model {
    /// Returns the pins of the file, as far as they are known without reading values: the pin that it was
    /// opened with; the pin of its format, such as the hash of an AERO file's bytes before its payloads; the
    /// hash of the outboard beside the file. The last two come from the files themselves, and prove nothing
    /// until you compare them with a trusted source.
    ///
    /// # Errors
    /// If the bytes cannot be read.
    pub fn pins(&self) -> Result<Vec<Pin>> {
        let mut pins: Vec<Pin> = self.pin().into_iter().collect();
        let own = match self.format().fns().and_then(|fns| fns.pin) {
            Some(pin) => pin(self.opened()).map_err(|error| self.failed(error))?,
            None => None,
        };
        let found = own.into_iter().chain(self.hash_of_outboard().map(Pin::B3));
        for pin in found {
            if !pins.contains(&pin) {
                pins.push(pin);
            }
        }
        Ok(pins)
    }

    /// Returns the BLAKE3 of the file that the outboard was made from, if there is an outboard that is not
    /// empty.
    #[cfg(not(target_arch = "wasm32"))]
    fn hash_of_outboard(&self) -> Option<[u8; 32]> {
        let file = self.input_paths().next().filter(|_| !self.format().is_set())?;
        let outboard = outboard_of(&file).ok()??;
        let len = self.container().file_size();
        let is_whole = blake3_tree::Shape::new(len).outboard_len() == outboard.len();
        let top = outboard.read(0..64).ok().filter(|_| is_whole)?;
        Some(blake3_tree::root_of(top.first_chunk()?))
    }

    #[cfg(target_arch = "wasm32")]
    #[allow(clippy::unused_self, reason = "as elsewhere")]
    const fn hash_of_outboard(&self) -> Option<[u8; 32]> {
        None
    }
}

impl Model {
    /// Adds the result for the pin to a report. At full level every byte of the file is read once more, even those that the format
    /// does not use.
    pub(crate) fn report_pin(&self, report: &mut Report, work: &Execution<'_>) {
        let Some(pinned) = self.pinned() else { return };
        let (name, by) = match &pinned.outboard {
            Some(outboard) => ("outboard", format!("{} by {outboard}", pinned.pin)),
            None => ("pin", pinned.pin.to_string()),
        };
        match (pinned.pin, report.level) {
            (Pin::B3(_), VerifyLevel::Full) if !self.format().is_set() => {
                let findings = every_byte(self, work);
                report.add(name, findings, format!("{by}: all {} bytes", self.container().file_size()));
            }
            (_, VerifyLevel::Full) => report.add(name, Vec::new(), format!("{by}, and by the hashes in it")),
            _ => report.add_partial(name, Vec::new(), format!("{by}: what was read, and nothing else")),
        }
    }
}

/// The maximum number of findings that are listed. Each is a run of groups.
const MAX_FAULTS: usize = 100;

/// Reads the whole file through its proof, and returns the faults, each with the tensors that it affects.
fn every_byte(model: &Model, work: &Execution<'_>) -> Vec<String> {
    const PIECE: u64 = modelfmt_core::author::PIECE;
    let len = model.container().file_size();
    let one = |buffer: &mut Vec<u8>, number: u64| -> Result<Vec<Fault>, ()> {
        let at = number * PIECE;
        let found = faults(model, at..len.min(at.saturating_add(PIECE)), buffer);
        // The format's own checks count the bytes as progress.
        if work.advance(0).is_break() { Err(()) } else { Ok(found) }
    };
    let (mut found, mut more) = (Vec::new(), 0);
    let stopped = work.each(len.div_ceil(PIECE), Vec::new, one, |faults| {
        for fault in faults {
            let last = found.last_mut();
            if last.is_some_and(|last: &mut Fault| last.continues_in(&fault)) {
                continue;
            }
            if found.len() < MAX_FAULTS { found.push(fault) } else { more += 1 }
        }
        Ok(())
    });
    let mut findings = named(model, &found);
    if more > 0 {
        findings.push(format!("and {more} more"));
    }
    if stopped.is_err() {
        findings.push("stopped on request".to_owned());
    }
    findings
}

/// Bytes that do not match their proof, or cannot be read.
struct Fault {
    /// The bytes, and the root of their proof; `None` if it is not known which bytes are wrong.
    range: Option<(Range<u64>, Arc<str>)>,
    error: AnyError,
}

impl Fault {
    fn new(error: AnyError) -> Self {
        let range = match error.inner() {
            AnyError::Io { source, .. } => match ProofError::within(source) {
                Some(ProofError::Bytes { start, end, root }) => Some((*start..*end, Arc::clone(root))),
                _ => None,
            },
            _ => None,
        };
        Self { range, error }
    }

    /// Extends this fault by the next one, if the bytes of the next one follow or overlap. Returns whether it
    /// did so.
    fn continues_in(&mut self, next: &Self) -> bool {
        let (Some((own, _)), Some((next, _))) = (&mut self.range, &next.range) else { return false };
        let is_next = (own.start..=own.end).contains(&next.start);
        if is_next {
            own.end = own.end.max(next.end);
        }
        is_next
    }

    fn text(&self) -> String {
        match &self.range {
            Some((range, root)) => {
                let (start, end, root) = (range.start, range.end, Arc::clone(root));
                ProofError::Bytes { start, end, root }.to_string()
            }
            None => with_causes(&self.error),
        }
    }
}

/// Returns the faults in a piece of the file. If there is one, the rest of the piece is read group by group,
/// each once.
fn faults(model: &Model, piece: Range<u64>, buffer: &mut Vec<u8>) -> Vec<Fault> {
    let mut read = |range: &Range<u64>| {
        buffer.resize(usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(0), 0);
        model.container().read_file(0, range.start, buffer).err().map(Fault::new)
    };
    let Some(first) = read(&piece) else { return Vec::new() };
    let Some((bytes, _)) = &first.range else { return vec![first] };
    let mut at = bytes.end;
    let mut found = vec![first];
    while at < piece.end {
        let end = at.saturating_add(GROUP - at % GROUP).min(piece.end);
        let fault = read(&(at..end));
        at = end;
        let Some(fault) = fault else { continue };
        match &fault.range {
            Some((bytes, _)) => at = at.max(bytes.end),
            None => at = piece.end,
        }
        if !found.last_mut().is_some_and(|last| last.continues_in(&fault)) {
            found.push(fault);
        }
    }
    found
}

/// Returns a text for each fault, with the names of the tensors whose values it affects, if there are any.
fn named(model: &Model, faults: &[Fault]) -> Vec<String> {
    let ranges = |fault: &Fault| fault.range.as_ref().map(|(range, _)| range.clone());
    let mut places: Vec<(Range<u64>, usize)> =
        faults.iter().enumerate().filter_map(|(number, fault)| Some((ranges(fault)?, number))).collect();
    places.sort_by_key(|(range, _)| range.start);
    let mut within = vec![Vec::new(); faults.len()];
    let container = model.container();
    let count = if places.is_empty() { 0 } else { container.tensor_count() };
    for position in 0..count {
        let Ok(Location { offset: Some(start), stored_nbytes, .. }) = container.location(position) else {
            continue;
        };
        let end = start.saturating_add(stored_nbytes);
        let first = places.partition_point(|(range, _)| range.end <= start);
        for (_, number) in places.iter().skip(first).take_while(|(range, _)| range.start < end) {
            within.get_mut(*number).into_iter().for_each(|within: &mut Vec<usize>| within.push(position));
        }
    }
    let name = |position: &usize| container.info(*position).map_or("", |info| info.name);
    let text = |(fault, within): (&Fault, &Vec<usize>)| match within.as_slice() {
        [] => fault.text(),
        [one] => format!("tensor {:?}: {}", Shortened(name(one)), fault.text()),
        several => {
            let names = Examples::of(several.iter().map(name));
            format!("{} tensors ({names}): {}", several.len(), fault.text())
        }
    };
    faults.iter().zip(&within).map(text).collect()
}
