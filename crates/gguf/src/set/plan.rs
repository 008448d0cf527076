//! Plans a set from the descriptions of its tensors: divides tensors into files.

#[cfg(not(target_arch = "wasm32"))]
use std::path::Path;

use modelfmt_core::CommonFault;
use modelfmt_core::source::check_relative;
use modelfmt_core::{Execution, Part, author::NameTable};
use modelfmt_write::{
    DataFrom, NewFiles, NewSet, SetPart, TensorData, TensorSpec, WrittenPart, no_part, unfit_parts,
    write_part,
};
#[cfg(not(target_arch = "wasm32"))]
use modelfmt_write::{NewFolder, Overwrite};

use super::name::file_name;
use crate::error::{Fault, WriteError, unfit_key};
use crate::layout::{Plan, padded_end, record_len};
use crate::metadata::{MetaValue, Metadata};
use crate::options::WriteOptions;
use crate::wire;

/// A split set to write: files `STEM-00001-of-0000N.gguf`.
///
/// Tensors keep their order. A tensor that would make a file larger than [`WriteOptions::shard_size`] begins
/// the next file. A model that fits in one file is not split: the file is `STEM.gguf`, as with gguf-py.
#[derive(Clone, Debug)]
pub struct SetPlan {
    shards: Vec<Shard>,
}

#[derive(Clone, Debug)]
struct Shard {
    name: String,
    plan: Plan,
    /// The position in the whole model of the shard's first tensor.
    first: usize,
}

impl Shard {
    fn part(&self) -> SetPart {
        SetPart::new(&self.name, self.first, self.plan.tensors().len())
    }
}

impl SetPlan {
    /// Divides tensors into files, and lays out each file. The metadata goes into the first file, followed by
    /// the keys of the split.
    ///
    /// # Errors
    /// If the format cannot hold a tensor or a key, if the stem is not a valid file name, or if there would
    /// be more than 65,535 files.
    pub fn new<'a>(
        stem: &str,
        specs: impl IntoIterator<Item = TensorSpec<'a>>,
        metadata: &Metadata,
        options: &WriteOptions,
    ) -> Result<Self, WriteError> {
        check_relative(stem)
            .map_err(|why| WriteError::unsupported(Part::named("stem", stem), Fault::Path(why)))?;
        if let Some(key) = wire::SPLIT.into_iter().find(|key| metadata.get(key).is_some()) {
            return Err(unfit_key(key, Fault::SplitReserved));
        }
        let (alignment, replaced) = options.alignment_for(metadata)?;
        let metadata = replaced.as_ref().unwrap_or(metadata);
        options.check_keys(metadata)?;
        let mut others = Metadata::new();
        if let Some(stated) = metadata.get(wire::ALIGNMENT) {
            others.push(wire::ALIGNMENT, stated).map_err(|fault| unfit_key(wire::ALIGNMENT, fault))?;
        }
        let specs: Vec<TensorSpec<'a>> = specs.into_iter().collect();
        check_unique(&specs)?;
        let lens = [metadata, &others].map(|metadata| metadata.encoded_len().saturating_add(SPLIT_LEN));
        let starts = divide(&specs, lens, alignment, options.shard_size);
        let too_many = |what| WriteError::Unsupported { part: Part::new(what), fault: Fault::TooMany };
        let count = u16::try_from(starts.len()).map_err(|_| too_many("files"))?;
        let sum = i32::try_from(specs.len()).map_err(|_| too_many("tensors"))?;
        let mut rest = specs.as_slice();
        let mut shards = Vec::with_capacity(starts.len());
        for number in 0..count {
            let first = specs.len().saturating_sub(rest.len());
            let next = starts.get(usize::from(number) + 1).map_or(specs.len(), |&next| next);
            let (here, later) = rest.split_at_checked(next.saturating_sub(first)).unwrap_or((rest, &[]));
            rest = later;
            let mut own = if number == 0 { metadata.clone() } else { others.clone() };
            let values = [MetaValue::U16(number), MetaValue::U16(count), MetaValue::I32(sum)];
            let said = wire::SPLIT.into_iter().zip(values).filter(|_| count > 1);
            for (key, value) in said {
                own.push(key, value).map_err(|fault| unfit_key(key, fault))?;
            }
            let plan = Plan::lay_out(here.iter().cloned(), &own, alignment)?;
            let name =
                if count > 1 { file_name(stem, number.into(), count.into()) } else { format!("{stem}.gguf") };
            shards.push(Shard { name, plan, first });
        }
        Ok(Self { shards })
    }

    /// Returns the files, each with its name and its plan.
    pub fn shards(&self) -> impl ExactSizeIterator<Item = (&str, &Plan)> {
        self.shards.iter().map(|shard| (shard.name.as_str(), &shard.plan))
    }

    /// Returns the total length of all files in bytes.
    #[must_use]
    pub fn total_len(&self) -> u64 {
        self.shards.iter().map(|shard| shard.plan.file_len()).fold(0, u64::saturating_add)
    }

    /// Writes the set. The first file appears last; without it, the other files are not a model. `data`
    /// numbers the tensors as they were given to [`SetPlan::new`] (docs/formats/gguf.md#writing-a-split).
    ///
    /// # Errors
    /// If a value cannot be read, if a file cannot be written, or if the progress callback stops the work. In
    /// these cases no file appears, unless only the last step fails.
    pub fn write(
        &self,
        data: &dyn TensorData,
        files: &impl NewFiles,
        work: &Execution<'_>,
    ) -> Result<(), WriteError> {
        let Some((head, others)) = self.shards.split_first() else { return Ok(()) }; // there is always one
        let mut set = NewSet::begin(files, &head.name, others.iter().map(|shard| &shard.name))?;
        head.plan.write(data, set.index(), work)?;
        for Shard { name, plan, first } in others {
            let output = set.create(name)?;
            plan.write(&DataFrom { data, first: *first }, &output, work)?;
            set.done(name, output)?;
        }
        set.commit(&[])
    }

    /// Returns the first file of the split, which appears last.
    #[must_use]
    pub fn head(&self) -> SetPart {
        self.shards.first().map_or_else(|| SetPart::new("", 0, 0), Shard::part)
    }

    /// Returns the files after the first. Each can be written separately.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = SetPart> + '_ {
        self.shards.iter().skip(1).map(Shard::part)
    }

    /// Writes one file after the first, which appears when it is complete. With the same plan, any process
    /// writes the same bytes as [`write`](Self::write), however often.
    ///
    /// # Errors
    /// If a value cannot be read, if the part cannot be written, or if there is no such part.
    pub fn write_part(
        &self,
        number: usize,
        data: &dyn TensorData,
        files: &impl NewFiles,
        work: &Execution<'_>,
    ) -> Result<WrittenPart, WriteError> {
        let shard = self.shards.get(1..).and_then(|others| others.get(number));
        let Shard { name, plan, first } = shard.ok_or_else(|| no_part(&self.head().path, number))?;
        write_part(files, name, false, |output| {
            plan.write(&DataFrom { data, first: *first }, output, work)?;
            Ok(WrittenPart { nbytes: plan.file_len(), digests: Vec::new() })
        })
    }

    /// Writes the first file after all other files are written. `parts` has the results of
    /// [`write_part`](Self::write_part), in order. The parts themselves are not read.
    ///
    /// # Errors
    /// If a file cannot be written, or `parts` do not belong to this plan.
    pub fn finish(
        &self,
        parts: &[WrittenPart],
        data: &dyn TensorData,
        files: &impl NewFiles,
        work: &Execution<'_>,
    ) -> Result<(), WriteError> {
        let Some((head, others)) = self.shards.split_first() else { return Ok(()) }; // there is always one
        if !others.iter().map(|shard| shard.plan.file_len()).eq(parts.iter().map(|part| part.nbytes)) {
            return Err(unfit_parts(&head.name, others.len()));
        }
        let set = NewSet::begin(files, &head.name, [""; 0])?;
        head.plan.write(data, set.index(), work)?;
        set.commit(&[])
    }

    /// Writes the set into an existing folder.
    ///
    /// # Errors
    /// If a value cannot be read or a file cannot be written, or if a file exists and may not be replaced.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn write_folder(
        &self,
        folder: impl AsRef<Path>,
        overwrite: Overwrite,
        data: &dyn TensorData,
        work: &Execution<'_>,
    ) -> Result<(), WriteError> {
        self.write(data, &NewFolder::new(folder.as_ref(), overwrite), work)
    }
}

/// The number of bytes that the three keys of a split take, each with its type and value.
const SPLIT_LEN: u64 = (8 + 8 + 4 + 2) + (8 + 11 + 4 + 2) + (8 + 19 + 4 + 4);

/// Checks that names are unique across files. Each plan only checks its own tensors.
fn check_unique(specs: &[TensorSpec<'_>]) -> Result<(), WriteError> {
    let mut names = NameTable::default();
    specs.iter().try_for_each(|spec| {
        let part = || Part::named("tensor", &spec.name);
        names
            .push(&spec.name)
            .map(|_| ())
            .map_err(|error| WriteError::unsupported(part(), CommonFault::from(error)))
    })
}

/// Returns the position of the first tensor of each file. There is at least one file. `lens` has the length
/// of the metadata in the first file, and in each of the others.
fn divide(specs: &[TensorSpec<'_>], lens: [u64; 2], alignment: u32, cap: u64) -> Vec<usize> {
    let mut starts = vec![0];
    let [first, others] = lens.map(|len| len.saturating_add(wire::HEADER_LEN));
    let (mut head, mut data) = (first, 0u64);
    for (number, spec) in specs.iter().enumerate() {
        let record = record_len(&spec.name, spec.shape.len());
        // A tensor whose length cannot be computed is refused when its file is laid out.
        let nbytes = spec.dtype.nbytes(&spec.shape).unwrap_or(0);
        let with = |head: u64, data: u64| {
            let head = head.saturating_add(record);
            (head, padded_end(data, nbytes, alignment).unwrap_or(u64::MAX))
        };
        let (new_head, new_data) = with(head, data);
        let start = padded_end(new_head, 0, alignment).unwrap_or(u64::MAX);
        let is_begun = starts.last().is_some_and(|&start| start < number);
        if is_begun && start.saturating_add(new_data) > cap {
            starts.push(number);
            (head, data) = with(others, 0);
        } else {
            (head, data) = (new_head, new_data);
        }
    }
    starts
}
