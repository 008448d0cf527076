//! Plans a set from the descriptions of its tensors: divides tensors into shards.

#[cfg(not(target_arch = "wasm32"))]
use std::path::Path;

use modelfmt_core::CommonFault;
use modelfmt_core::source::check_relative;
use modelfmt_core::value::{Object, Value, json};
use modelfmt_core::{
    Execution, Part,
    author::{Crc, NameTable, align_up},
};
use modelfmt_write::{
    DataFrom, NewFiles, NewSet, SetPart, TensorData, TensorSpec, WrittenPart, no_part, unfit_parts,
    write_part,
};
#[cfg(not(target_arch = "wasm32"))]
use modelfmt_write::{NewFolder, Overwrite};

use crate::error::{Fault, WriteError, unfit};
use crate::layout::{Plan, WriteOptions};
use crate::metadata::{APR_VERSION, Metadata};
use crate::wire::{DATA_ALIGNMENT, FOOTER_LEN, HEADER_LEN, INDEX_HEADER_LEN, MAGIC_END};

/// A sharded model to write: a manifest, and shards `STEM-00001-of-0000N.apr` in the same folder.
///
/// Tensors keep their order. A tensor that would make a shard larger than [`WriteOptions::shard_size`] begins
/// the next shard. The first shard has the model's metadata, the others only the three required keys.
#[derive(Clone, Debug)]
pub struct SetPlan {
    manifest_name: String,
    apr_version: String,
    shards: Vec<ShardPlan>,
}

#[derive(Clone, Debug)]
struct ShardPlan {
    name: String,
    plan: Plan,
    /// The position in the whole model of the shard's first tensor.
    first: usize,
}

impl SetPlan {
    /// Divides tensors into shards, and checks and lays out each shard. `manifest_name` is the file name of
    /// the manifest, such as `model.apr`. The names of the shards begin with its stem.
    ///
    /// # Errors
    /// If the format cannot hold a tensor or the metadata, or if the name is not a valid file name or has the
    /// form of a shard's name.
    pub fn new<'a>(
        manifest_name: &str,
        specs: impl IntoIterator<Item = TensorSpec<'a>>,
        metadata: &Metadata,
        options: &WriteOptions,
    ) -> Result<Self, WriteError> {
        let refuse = |fault: Fault| unfit(Part::named("manifest", manifest_name), fault);
        check_relative(manifest_name)
            .map_err(|fault| refuse(Fault::Path { path: manifest_name.to_owned(), fault }))?;
        let options = options.sharded(true);
        let plans = divide(specs, metadata, &options)?;
        let stem = stem(manifest_name);
        let count = plans.len();
        let mut first = 0;
        let shards = plans.into_iter().enumerate().map(|(number, plan)| {
            let shard =
                ShardPlan { name: format!("{stem}-{:05}-of-{count:05}.apr", number + 1), first, plan };
            first += shard.plan.tensors().len();
            shard
        });
        let shards: Vec<ShardPlan> = shards.collect();
        check_unique(&shards)?;
        let apr_version = metadata.apr_version().unwrap_or(APR_VERSION).to_owned();
        Ok(Self { manifest_name: manifest_name.to_owned(), apr_version, shards })
    }

    /// Returns the shards, each with its name and its plan.
    pub fn shards(&self) -> impl ExactSizeIterator<Item = (&str, &Plan)> {
        self.shards.iter().map(|shard| (shard.name.as_str(), &shard.plan))
    }

    /// Returns the name of the manifest.
    #[must_use]
    pub fn manifest_name(&self) -> &str {
        &self.manifest_name
    }

    /// Stores this tensor raw, even if the options request compression.
    pub fn keep_raw(&mut self, tensor: usize) {
        let at = self.shards.partition_point(|shard| shard.first <= tensor);
        if let Some(shard) = at.checked_sub(1).and_then(|at| self.shards.get_mut(at)) {
            shard.plan.keep_raw(tensor - shard.first);
        }
    }

    /// Writes the shards, then the manifest. `data` numbers the tensors in the order of their descriptions.
    /// The bytes do not depend on the number of threads that `work` allows.
    ///
    /// # Errors
    /// If a value cannot be read; if a file cannot be created or written, or exists and may not be replaced.
    /// In these cases no file appears, unless only the last step fails.
    pub fn write(
        &self,
        data: &dyn TensorData,
        files: &impl NewFiles,
        work: &Execution<'_>,
    ) -> Result<(), WriteError> {
        let names = self.shards.iter().map(|shard| &shard.name);
        let mut set = NewSet::begin(files, &self.manifest_name, names)?;
        let mut crcs = Vec::with_capacity(self.shards.len());
        for ShardPlan { name, plan, first } in &self.shards {
            let output = set.create(name)?;
            crcs.push(plan.write_whole(&DataFrom { data, first: *first }, &output, work)?);
            set.done(name, output)?;
        }
        set.commit(manifest(self, &crcs, None, false)?.as_bytes())
    }

    /// Returns the shards. Each can be written separately.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = SetPart> + '_ {
        self.shards.iter().map(|shard| SetPart::new(&shard.name, shard.first, shard.plan.tensors().len()))
    }

    /// Writes one shard, which appears when it is complete. The shard does not belong to a set until the
    /// manifest is written. With the same plan, any process writes the same bytes as [`write`](Self::write),
    /// however often.
    ///
    /// # Errors
    /// If a value cannot be read, if the shard cannot be written, or if there is no such shard.
    pub fn write_part(
        &self,
        number: usize,
        data: &dyn TensorData,
        files: &impl NewFiles,
        work: &Execution<'_>,
    ) -> Result<WrittenPart, WriteError> {
        let shard = self.shards.get(number).ok_or_else(|| no_part(&self.manifest_name, number))?;
        write_part(files, &shard.name, false, |output| {
            let crc = shard.plan.write_whole(&DataFrom { data, first: shard.first }, output, work)?;
            Ok(WrittenPart { nbytes: crc.len, digests: crc.value.to_le_bytes().to_vec() })
        })
    }

    /// Writes the manifest after all shards are written. `parts` has the results of
    /// [`write_part`](Self::write_part), in order. The shards themselves are not read.
    ///
    /// # Errors
    /// If the manifest cannot be written, or `parts` do not belong to this plan.
    pub fn finish(&self, parts: &[WrittenPart], files: &impl NewFiles) -> Result<(), WriteError> {
        let crc = |part: &WrittenPart| {
            let value = u32::from_le_bytes(part.digests.as_slice().try_into().ok()?);
            Some(Crc { value, len: part.nbytes })
        };
        let crcs: Option<Vec<Crc>> = parts.iter().map(crc).collect();
        let crcs = crcs.filter(|crcs| crcs.len() == self.shards.len());
        let crcs = crcs.ok_or_else(|| unfit_parts(&self.manifest_name, self.shards.len()))?;
        let set = NewSet::begin(files, &self.manifest_name, [""; 0])?;
        set.commit(manifest(self, &crcs, None, false)?.as_bytes())
    }

    /// Writes the model into an existing folder.
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

/// Formats the text of the manifest (APR2 2.0, "Manifest File"), with the keys in the specification's order,
/// one per line. With `hides`, the manifest leaves out tensors and metadata, because the shards hide them
/// too.
///
/// # Errors
/// If a value cannot be represented in JSON.
pub fn manifest(
    plan: &SetPlan,
    crcs: &[Crc],
    seal: Option<Object>,
    hides: bool,
) -> Result<String, WriteError> {
    let shards = plan.shards.iter().zip(crcs).map(|(shard, crc)| {
        Object::from_iter([
            ("file", Value::from(shard.name.as_str())),
            ("size", Value::from(crc.len)),
            ("crc32", Value::from(format!("{:08x}", crc.value))),
        ])
    });
    let mut map = Object::new();
    for (number, shard) in plan.shards.iter().enumerate().filter(|_| !hides) {
        for tensor in shard.plan.tensors() {
            map.insert(tensor.name, number);
        }
    }
    let mut manifest = Object::new();
    manifest.insert("apr_version", if hides { APR_VERSION } else { plan.apr_version.as_str() });
    manifest.insert("sharded", true);
    manifest.insert("shard_count", plan.shards.len());
    manifest.insert("shards", shards.collect::<Value>());
    manifest.insert("tensor_shard_map", map);
    if let Some(seal) = seal {
        manifest.insert("seal", seal);
    }
    json::to_string_pretty(&manifest)
        .map_err(|error| unfit(Part::new("manifest"), CommonFault::Metadata(error.to_string())))
}

/// Returns the `crc32` that a manifest states for a shard of `len` bytes. A shard ends in its own CRC and its
/// length, so the CRC of the whole file depends only on the length.
#[must_use]
pub fn shard_crc(len: u64) -> u32 {
    // Bytes followed by their own CRC always have the same CRC.
    let own = Crc { len: len.saturating_sub(12), ..Crc::of(&Crc::default().value.to_le_bytes()) };
    own.then(Crc::of(&MAGIC_END)).then(Crc::of(&len.to_le_bytes())).value
}

/// Returns a path without the extension of its last component.
fn stem(path: &str) -> &str {
    match path.rsplit_once('.') {
        Some((stem, extension)) if !extension.contains('/') && !stem.is_empty() => stem,
        _ => path,
    }
}

/// Divides the tensors into shards, in order. There is always at least one shard, because it has the
/// metadata.
fn divide<'a>(
    specs: impl IntoIterator<Item = TensorSpec<'a>>,
    metadata: &Metadata,
    options: &WriteOptions,
) -> Result<Vec<Plan>, WriteError> {
    let mut plans = Vec::new();
    let rest = only_required(metadata);
    let mut here: Vec<TensorSpec<'a>> = Vec::new();
    let mut size = Size::new(Plan::new([], metadata, options)?.metadata.len() as u64);
    let mut first = 0;
    let finish = |specs: Vec<TensorSpec<'a>>, first: usize| {
        let count = specs.len();
        let metadata = if first == 0 { metadata } else { &rest };
        Plan::new(specs, metadata, options)
            .map_err(|error| renumbered(error, first))
            .map(|plan| (plan, count))
    };
    for spec in specs {
        let with = size.with(&spec, options);
        if !here.is_empty() && with.file_len() > options.shard_size {
            let (plan, count) = finish(std::mem::take(&mut here), first)?;
            first += count;
            plans.push(plan);
            size = Size::new(Plan::new([], &rest, options)?.metadata.len() as u64).with(&spec, options);
        } else {
            size = with;
        }
        here.push(spec);
    }
    if !here.is_empty() || plans.is_empty() {
        plans.push(finish(here, first)?.0);
    }
    Ok(plans)
}

/// Returns the metadata of the shards after the first: only the three required keys
/// (docs/formats/apr2.md#writing-shards).
fn only_required(metadata: &Metadata) -> Metadata {
    let mut object = metadata.object().clone();
    object.retain(|key, _| matches!(key, "apr_version" | "model_type" | "architecture"));
    Metadata::from(object)
}

/// The length of a shard without compression.
#[derive(Clone, Copy)]
struct Size {
    head: u64,
    data: u64,
}

impl Size {
    const fn new(metadata_len: u64) -> Self {
        Self { head: HEADER_LEN + metadata_len + INDEX_HEADER_LEN, data: 0 }
    }

    fn with(self, spec: &TensorSpec<'_>, options: &WriteOptions) -> Self {
        // The length of the tensor's entry. A scalar is written with one dimension.
        let entry = 2 + spec.name.len() as u64 + 2 + 8 * spec.shape.len().max(1) as u64 + 28;
        let nbytes = spec.dtype.nbytes(&spec.shape).unwrap_or(0); // what cannot be counted, `Plan::new` refuses
        let begin = align_up(self.data, options.alignment.bytes()).unwrap_or(u64::MAX);
        Self { head: self.head.saturating_add(entry), data: begin.saturating_add(nbytes) }
    }

    fn file_len(self) -> u64 {
        let head = align_up(self.head, DATA_ALIGNMENT).unwrap_or(u64::MAX);
        head.saturating_add(self.data).saturating_add(FOOTER_LEN)
    }
}

/// Changes an error so that it counts tensors from the start of the model instead of the shard.
fn renumbered(error: WriteError, first: usize) -> WriteError {
    match error {
        WriteError::Unsupported { mut part, fault } => {
            if part.what == "tensor" {
                part.entry = part.entry.map(|entry| entry + first as u64);
            }
            WriteError::Unsupported { part, fault }
        }
        other => other,
    }
}

/// Checks that names are unique across shards. Each plan has only checked its own tensors.
fn check_unique(shards: &[ShardPlan]) -> Result<(), WriteError> {
    let mut names = NameTable::default();
    for tensor in shards.iter().flat_map(|shard| shard.plan.tensors()) {
        let number = names.len() as u64;
        names.push(tensor.name).map_err(|error| {
            unfit(Part::entry("tensor", number).with_name(tensor.name), CommonFault::from(error))
        })?;
    }
    Ok(())
}
