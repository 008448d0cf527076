//! The pins of a model, and what a report says about them.

#[cfg(not(target_arch = "wasm32"))]
use modelfmt_core::Source as _;
use modelfmt_core::author::with_causes;
use modelfmt_core::{Execution, Report, VerifyLevel};

use crate::error::Result;
use crate::model::Model;
#[cfg(not(target_arch = "wasm32"))]
use crate::model::pinned::outboard_of;
use modelfmt_rules::pin::Pin;

impl Model {
    /// The pins of the file, as far as they are known without reading values: the pin that it was opened with; the pin of its
    /// format, such as the hash of an AERO file's bytes before its payloads; the hash of the outboard beside the file. The last two
    /// come from the files themselves, and prove nothing until you compare them with a trusted source.
    ///
    /// # Errors
    /// If the bytes cannot be read.
    pub fn pins(&self) -> Result<Vec<Pin>> {
        let mut pins: Vec<Pin> = self.pin().into_iter().collect();
        let own = match self.format().driver().and_then(|driver| driver.pin) {
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

    /// The BLAKE3 that the outboard of this file belongs to, if there is an outboard that is not empty.
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

/// Reads the whole file through its proof, and returns the faults.
fn every_byte(model: &Model, work: &Execution<'_>) -> Vec<String> {
    const PIECE: u64 = modelfmt_core::author::PIECE;
    /// The most findings that are listed; each covers at least one group.
    const MOST: usize = 100;
    let (container, len) = (model.container(), model.container().file_size());
    let one = |buffer: &mut Vec<u8>, number: u64| -> Result<Option<String>, ()> {
        let at = number * PIECE;
        let size = usize::try_from(PIECE.min(len - at)).unwrap_or(0);
        buffer.resize(size, 0);
        let found = container.read_file(0, at, buffer).err().map(|error| with_causes(&error));
        // The format's own checks count the bytes as progress.
        if work.advance(0).is_break() { Err(()) } else { Ok(found) }
    };
    let mut findings = Vec::new();
    let mut more = 0;
    let stopped = work.each(len.div_ceil(PIECE), Vec::new, one, |found| {
        match found {
            Some(_) if findings.len() >= MOST => more += 1,
            found => findings.extend(found),
        }
        Ok(())
    });
    if more > 0 {
        findings.push(format!("and {more} more"));
    }
    if stopped.is_err() {
        findings.push("stopped on request".to_owned());
    }
    findings
}
