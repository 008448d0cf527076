//! Opening files of which nothing is served that a pin does not prove.

use std::io;
use std::path::Path;

use modelfmt_core::author::with_causes;
use modelfmt_core::proof::{ByOutboard, ProofError, Verified};
#[cfg(not(target_arch = "wasm32"))]
use modelfmt_core::source::FileSource;
use modelfmt_core::source::{BoxSource, SharedFiles};
use modelfmt_core::{AnyError, Execution, Report, Source as _, VerifyLevel};

use crate::error::{Error, Result};
use crate::formats::Format;
use crate::model::Model;
use crate::pin::Pin;

/// What follows the name of a file in that of its outboard.
pub(crate) const ENDING: &str = ".obao4";

/// A pin, and by what the file was checked.
#[derive(Clone, Debug)]
pub(crate) struct Pinned {
    pub(crate) pin: Pin,
    /// The name of the outboard, if there is one.
    pub(crate) outboard: Option<String>,
}

/// The outboard of a file of this machine, if it has one.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn outboard_of(file: &Path) -> Result<Option<BoxSource>> {
    let path = path_of_outboard(file);
    match FileSource::open(&path) {
        Ok(source) => Ok(Some(Box::new(source))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::Open { path, source }),
    }
}

/// Where the outboard of a file is.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn path_of_outboard(file: &Path) -> std::path::PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(ENDING);
    path.into()
}

/// The outboard of a file that has others beside it, if it is one of them.
pub(crate) fn outboard_among(files: &SharedFiles, name: &str) -> Result<Option<BoxSource>> {
    let name = format!("{name}{ENDING}");
    match files.open(&name) {
        Ok(source) => Ok(Some(source)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::Open { path: name.into(), source }),
    }
}

/// A file that is what the hash says.
pub(crate) fn by_hash(
    path: &Path,
    source: BoxSource,
    hash: [u8; 32],
    outboard: Option<BoxSource>,
) -> Result<(BoxSource, Pinned)> {
    let pin = Pin::B3(hash);
    let Some(outboard) = outboard else {
        return Ok((Box::new(Verified::by_hash(source, hash)), Pinned { pin, outboard: None }));
    };
    let name = format!("{}{ENDING}", path.file_name().unwrap_or(path.as_os_str()).to_string_lossy());
    let proof = ByOutboard::new(hash, source.len(), outboard, &name);
    let proof = proof.map_err(|error| unproved(path, error))?;
    Ok((Box::new(Verified::new(source, proof)), Pinned { pin, outboard: Some(name) }))
}

/// An error of a source that has not been told from others yet.
pub(crate) fn unproved(path: &Path, source: io::Error) -> Error {
    match ProofError::within(&source) {
        Some(_) => Error::file(path.to_owned(), AnyError::Io { at: 0, len: crate::formats::PROBE, source }),
        None => Error::Open { path: path.to_owned(), source },
    }
}

/// Whether a pin can be one of a file of that format.
pub(crate) fn check(path: &Path, format: Format, pin: Pin) -> Result<()> {
    let why = match pin {
        Pin::Aero(_) if format != Format::Aero => {
            format!("it is of the format {format}, and such a pin is of an AERO file")
        }
        Pin::B3(_) if format.is_set() && !format.driver().is_some_and(|driver| driver.proves_files) => {
            "its index has no hashes of the files that it names, so that a pin of it proves none of their bytes; \
             pin a file by itself, or convert the model to one file or to an AEROSET"
                .to_owned()
        }
        _ => return Ok(()),
    };
    Err(Error::Unpinnable { path: path.to_owned(), pin, why })
}

impl Model {
    /// What the file can be pinned by, as far as that is known without reading values: what it was opened with; the hash of an AERO's
    /// bytes before its payloads; the hash that an outboard beside the file is of. The last two are what stands there, and
    /// prove nothing until they come from somewhere that is trusted.
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

    /// The hash that the outboard of this file is of, if it has one with parents.
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

impl Pinned {
    /// Adds to a report what the pin says of the file. At full level every byte of it is read once more, whatever the format
    /// looks at.
    pub(crate) fn report(&self, model: &Model, report: &mut Report, work: &Execution<'_>) {
        let (name, by) = match &self.outboard {
            Some(outboard) => ("outboard", format!("{} by {outboard}", self.pin)),
            None => ("pin", self.pin.to_string()),
        };
        match (self.pin, report.level) {
            (Pin::B3(_), VerifyLevel::Full) if !model.format().is_set() => {
                let findings = every_byte(model, work);
                report.add(name, findings, format!("{by}: all {} bytes", model.container().file_size()));
            }
            (_, VerifyLevel::Full) => report.add(name, Vec::new(), format!("{by}, and by the hashes in it")),
            _ => report.add_partial(name, Vec::new(), format!("{by}: what was read, and nothing else")),
        }
    }
}

/// Reads the whole file through its proof, and says what is not right.
fn every_byte(model: &Model, work: &Execution<'_>) -> Vec<String> {
    const PIECE: u64 = modelfmt_core::author::PIECE;
    /// Findings that are listed; each is of a group or more.
    const MOST: usize = 100;
    let (container, len) = (model.container(), model.container().file_size());
    let one = |buffer: &mut Vec<u8>, number: u64| -> Result<Option<String>, ()> {
        let at = number * PIECE;
        let size = usize::try_from(PIECE.min(len - at)).unwrap_or(0);
        buffer.resize(size, 0);
        let found = container.read_file(0, at, buffer).err().map(|error| with_causes(&error));
        // The format's own checks count the bytes.
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
