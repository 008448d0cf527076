//! A conversion into a set whose parts are written by independent workers.

pub(super) mod receipt;

use std::collections::HashSet;
use std::io;
use std::ops::Range;

use modelfmt_core::Execution;
#[cfg(not(target_arch = "wasm32"))]
use modelfmt_write::InputFiles;
use modelfmt_write::{AnyWriteError, NewFiles, Overwrite, WrittenPart, begin_parts};

#[cfg(not(target_arch = "wasm32"))]
use super::output::guard::{OutputGuard, PartFiles};
use super::output::write;
use super::output::{Recorded, WrittenFile};
use super::values::Values;
use super::{ConversionPlan, Converted};
use modelfmt_model::error::{Error, Result};
use modelfmt_model::formats::Format;
use modelfmt_model::formats::entry::JobError;
use modelfmt_model::formats::set_plan::SetPlan;
use modelfmt_rules::wording::Choice;
use modelfmt_rules::wording::Note;
use receipt::Receipt;

/// A conversion into a set whose parts are written by independent workers. The same model, target, options
/// and name give the same plan in every process, so each worker makes its own plan. Plans with the same
/// [`id`](Self::id) are the same.
///
/// ```no_run
/// use modelfmt::{Conversion, Execution, Format, Model};
/// use modelfmt::convert::Overwrite;
///
/// let model = Model::open("big.safetensors")?;
/// let plan = Conversion::to_format(&model, Format::AeroSet).shard_size(2 << 30).plan()?.into_parts("big.aeroset.json")?;
/// let (files, work) = (plan.folder("out", Overwrite::Refuse), Execution::default());
/// plan.begin(&files)?; // by one process, before the others
/// let receipts = (0..plan.parts().len()).map(|number| plan.part(number)?.write(&files, &work));
/// let receipts = receipts.collect::<modelfmt::Result<Vec<_>>>()?; // by any processes, and sent as text
/// plan.finish(&receipts, &files, &work)?; // by one, which need not have written a part
/// # Ok::<(), modelfmt::Error>(())
/// ```
///
/// The set is the same, byte for byte, as if one process had written it. An AEROSET without an
/// [`AeroOptions::uuid`](super::AeroOptions::uuid) gets a UUID made from the plan. A part appears when it is
/// complete. If a worker is killed, write its part again; if its file exists already, allow files to be
/// replaced. The index appears last.
///
/// Each worker checks its own tensors against the digests in their file. If a digest covers more than these
/// tensors (such as a checksum of the whole file), the worker reads everything that the digest covers.
pub struct PartPlan<'a> {
    conversion: ConversionPlan<'a>,
    name: String,
    plan: Box<dyn SetPlan>,
    parts: Vec<Part>,
    id: [u8; 32],
}

/// A file of a planned set.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Part {
    /// The name of the file, in the folder of the index.
    pub path: String,
    /// The range of its tensors, as numbers among the tensors that are written.
    pub tensors: Range<usize>,
    /// The length in bytes of their values, uncompressed: the total for a progress bar.
    pub nbytes: u64,
}

impl std::fmt::Debug for PartPlan<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PartPlan({:?}, {} in {} parts)", self.conversion, self.name, self.parts.len())
    }
}

impl<'a> ConversionPlan<'a> {
    /// Plans the set whose index has this name, so that its parts can be written independently. Nothing is
    /// written.
    ///
    /// # Errors
    /// If the target cannot hold the model, or is a single file; [`Error::Usage`] with
    /// [`OutputOptions::outboard`](super::OutputOptions::outboard).
    pub fn into_parts(mut self, name: &str) -> Result<PartPlan<'a>> {
        self.expect_no_folder()?;
        if !self.target.is_set() {
            let why = format!("{} is one file, and has no parts; give a shard size", self.target);
            return Err(Error::usage(Choice::Target, why));
        }
        if self.options.output.outboard {
            let why = "an outboard is written beside a file that is there, and parts appear one by one";
            return Err(Error::usage(Choice::Outboard, why));
        }
        #[cfg(feature = "seal")]
        if self.options.apr2.seal.is_some() {
            let why = "the parts of a sealed set share what is made while it is written; one process writes all of it";
            return Err(Error::usage(Choice::Seal, why));
        }
        let name = self.index_name(name)?;
        let id = self.fingerprint(&name);
        if self.target.takes(Choice::Uuid) && self.options.aero.uuid.is_none() {
            // Each part has a UUID, which must be the same in every worker.
            let [uuid @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = id;
            self.options.to_mut().aero.uuid = Some(uuid);
        }
        let plan = write::plan(&self, &name).map_err(|error| match error {
            JobError::Read(error) => self.model.failed(error),
            JobError::Write(error) => write::failed(name.as_ref(), error),
        })?;
        let nbytes: Vec<u64> = self.job().specs().map(|spec| super::nbytes_of(&spec)).collect();
        let part = |part: modelfmt_write::SetPart| {
            let own = nbytes.get(part.tensors.clone()).unwrap_or_default();
            let nbytes = own.iter().copied().fold(0, u64::saturating_add);
            Part { path: part.path, tensors: part.tensors, nbytes }
        };
        let parts = plan.parts().into_iter().map(part).collect();
        let name = plan.index_name();
        Ok(PartPlan { conversion: self, name, plan, parts, id })
    }

    /// Returns a hash that identifies this conversion: it covers everything that the output depends on,
    /// except the values.
    fn fingerprint(&self, name: &str) -> [u8; 32] {
        let mut options = self.options.clone().into_owned();
        options.output.overwrite = Overwrite::default();
        options.output.inputs.clear();
        let mut hasher = blake3::Hasher::new();
        let mut say = |text: String| {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        };
        say(format!("{} {} {name}", env!("CARGO_PKG_VERSION"), self.target));
        say(format!("{} {} {:?}", self.model.format(), self.model.container().file_size(), self.model.pin()));
        say(format!("{options:?}"));
        say(format!("{:?}", self.metadata));
        self.job().specs().for_each(|spec| say(format!("{spec:?}")));
        *hasher.finalize().as_bytes()
    }
}

impl<'a> PartPlan<'a> {
    /// Returns the id of this plan, as 64 hex digits. Workers with the same id write parts of the same set.
    #[must_use]
    pub fn id(&self) -> String {
        blake3::Hash::from_bytes(self.id).to_hex().to_string()
    }

    /// Returns the format that is written.
    #[must_use]
    pub const fn target(&self) -> Format {
        self.conversion.target
    }

    /// Returns the name of the file that appears last: the index, or the first file of a split GGUF.
    #[must_use]
    pub fn index_name(&self) -> &str {
        &self.name
    }

    /// Returns the files that can be written independently. [`finish`](Self::finish) writes the others.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns the part with this number.
    ///
    /// # Errors
    /// [`Error::Write`] if there is no such part.
    pub fn part(&self, number: usize) -> Result<PlannedPart<'_, 'a>> {
        match self.parts.get(number) {
            Some(part) => Ok(PlannedPart { plan: self, part, number }),
            None => Err(self.unfit(format!("there is no part {number} of {}", self.parts.len()))),
        }
    }

    /// Opens a folder for the new files, for [`begin`](Self::begin) and the other methods. Input files are
    /// never replaced, under whatever name, and neither are files that another index in the folder names.
    #[cfg(not(target_arch = "wasm32"))]
    #[must_use]
    pub fn folder(&self, folder: impl AsRef<std::path::Path>, overwrite: Overwrite) -> PartFiles {
        let conversion = &self.conversion;
        let inputs = conversion.model.read_paths().into_iter().chain(super::named_files(&conversion.options));
        let index = folder.as_ref().join(&self.name);
        PartFiles::new(OutputGuard::new(&index, overwrite, InputFiles::new(inputs)))
    }

    /// Checks that the set can be written, before any worker writes, and removes the index of a set that is replaced. Only one
    /// process may call this, and only once: otherwise files that workers have already written would count as foreign files.
    ///
    /// # Errors
    /// [`Error::Exists`] for a file that may not be replaced; [`Error::Write`] if a file cannot be written.
    pub fn begin(&self, files: &impl NewFiles) -> Result<()> {
        let names = self.parts.iter().map(|part| part.path.as_str());
        begin_parts(files, &self.name, names).map_err(|error: AnyWriteError| self.failed(error))
    }

    /// Writes the remaining files after all parts are written, the index last. `receipts` has one receipt for
    /// each part, in any order. The parts themselves are not checked; use `verify` for that.
    ///
    /// # Errors
    /// [`Error::Write`] if a receipt is missing or belongs to another plan, or a file cannot be written.
    pub fn finish(
        &self,
        receipts: &[Receipt],
        files: &impl NewFiles,
        work: &Execution<'_>,
    ) -> Result<Converted> {
        let receipts = self.sorted(receipts)?;
        let values = self.values(&self.plan.last())?;
        let finish = || values.finish_and_keep(work);
        let recorded = Recorded::new(files, &self.name, &finish);
        let written: Vec<WrittenPart> = receipts.iter().map(|receipt| receipt.written.clone()).collect();
        self.plan
            .finish(&written, &values, &&recorded, work)
            .map_err(|error| self.conversion.failed(&values, self.name.as_ref(), JobError::Write(error)))?;
        let mut converted = self.conversion.done(&values, Vec::new());
        converted.dropped.clone_from(&self.conversion.dropped);
        let file = |(part, receipt): (&Part, &&Receipt)| WrittenFile {
            path: part.path.clone(),
            nbytes: receipt.written.nbytes,
        };
        converted.files = self.parts.iter().zip(&receipts).map(file).collect();
        converted.files.extend(recorded.into_files());
        let mut known: HashSet<String> = converted.notes.iter().map(Note::to_string).collect();
        for receipt in receipts {
            converted.clipped.extend(receipt.clipped.iter().cloned());
            let new = receipt.notes.iter().filter(|note| known.insert((*note).clone()));
            converted.notes.extend(new.cloned().map(Note::from));
        }
        Ok(converted)
    }

    /// Returns the receipts in the order of their parts.
    fn sorted<'r>(&self, receipts: &'r [Receipt]) -> Result<Vec<&'r Receipt>> {
        let mut sorted: Vec<Option<&Receipt>> = vec![None; self.parts.len()];
        for receipt in receipts {
            let number = receipt.part();
            let slot = sorted.get_mut(number).filter(|_| receipt.plan == self.id);
            let slot = slot.ok_or_else(|| {
                self.unfit(format!("the receipt of part {number} is one of another plan; make it of the same model, with the same options"))
            })?;
            if slot.is_some_and(|known| known.written != receipt.written) {
                return Err(self.unfit(format!(
                    "there are two receipts of part {number}, which differ; write it again"
                )));
            }
            *slot = Some(receipt);
        }
        let missing =
            |number: usize| self.unfit(format!("the receipt of part {number} is missing; write that part"));
        sorted
            .into_iter()
            .enumerate()
            .map(|(number, receipt)| receipt.ok_or_else(|| missing(number)))
            .collect()
    }

    fn values(&self, tensors: &Range<usize>) -> Result<Values<'_>> {
        let conversion = &self.conversion;
        Values::of(&conversion.model, &conversion.tensors, tensors, !conversion.options.no_verify)
    }

    fn failed(&self, error: AnyWriteError) -> Error {
        write::failed(self.name.as_ref(), error)
    }

    fn unfit(&self, text: String) -> Error {
        let source = io::Error::new(io::ErrorKind::InvalidInput, text);
        Error::Write { path: self.name.clone().into(), source }
    }
}

/// A part of a [`PartPlan`].
#[derive(Clone, Copy, Debug)]
pub struct PlannedPart<'p, 'a> {
    plan: &'p PartPlan<'a>,
    part: &'p Part,
    number: usize,
}

impl PlannedPart<'_, '_> {
    /// Returns the description of the part.
    #[must_use]
    pub const fn as_part(&self) -> &Part {
        self.part
    }

    /// Writes the part. It appears when it is complete and its values match the digests in their own file.
    ///
    /// # Errors
    /// If the model cannot be read, or the part cannot be written.
    pub fn write(&self, files: &impl NewFiles, work: &Execution<'_>) -> Result<Receipt> {
        let Self { plan, part, number } = *self;
        let values = plan.values(&part.tensors)?;
        let finish = || values.finish_and_keep(work);
        let recorded = Recorded::new(files, &plan.name, &finish);
        let written = plan.plan.write_part(number, &values, &&recorded, work);
        let path = part.path.as_ref();
        let written =
            written.map_err(|error| plan.conversion.failed(&values, path, JobError::Write(error)))?;
        let Converted { clipped, .. } = plan.conversion.done(&values, Vec::new());
        let notes = values.notes().to_vec();
        Ok(Receipt { plan: plan.id, number, written, clipped, notes })
    }
}
