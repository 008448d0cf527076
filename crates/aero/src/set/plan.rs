//! Plans a set from the descriptions of its tensors: divides tensors into shards, and shards into parts.

use std::ops::Range;
#[cfg(not(target_arch = "wasm32"))]
use std::path::Path;

use modelfmt_core::source::check_relative;
use modelfmt_core::value::{Object, Value, json};
use modelfmt_core::{Execution, Part, TensorTable, author::NewTensor};
use modelfmt_write::{
    NewFiles, NewSet, Output, SetPart, TensorData, TensorSpec, WrittenPart, no_part, unfit_parts, write_part,
};
#[cfg(not(target_arch = "wasm32"))]
use modelfmt_write::{NewFolder, Overwrite};
use sha2::{Digest as _, Sha256};

use crate::error::{Fault, WriteError};
use crate::hex::hex;
use crate::layout::{Parts, Plan, Shard, model_of, shards_of, table_of};
use crate::options::{WriteOptions, unfit_metadata};
use crate::writer::Written;

/// A set to write: the index and, in the same folder, `STEM.index.aero`, `STEM.part-000.aero` and so on. STEM
/// is the name of the index without `.aeroset.json`, so that two sets can share a folder
/// (docs/formats/aero.md#writing-a-set).
///
/// Tensors keep their order. The file that lists them has the model's metadata. The parts have only its name
/// and architecture.
#[derive(Clone, Debug)]
pub struct SetPlan {
    index_name: String,
    /// The folder of the index, with a final `/`.
    prefix: String,
    /// The prefix of the other files' names.
    stem: String,
    tensors: TensorTable,
    shards: Vec<Shard>,
    /// The shards of each part.
    parts: Vec<Range<usize>>,
    metadata: Object,
    options: WriteOptions,
}

/// A file that has been written.
struct Listed {
    path: String,
    len: u64,
    sha256: [u8; 32],
}

impl WriteOptions {
    /// Sets the advice on fetching the files that the index contains: a URL prefix of their paths, and how to
    /// cache them.
    #[must_use]
    pub fn delivery(mut self, base_url: Option<&str>, cache: Option<Value>) -> Self {
        let keys = [("base_url", base_url.map(Value::from)), ("cache", cache)];
        self.extras.set = keys.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
        self
    }
}

impl SetPlan {
    /// Divides tensors into shards and parts, and checks everything. `index_name` is the path of the index,
    /// such as `model.aeroset.json`. The other files are in the same folder and are named after it.
    ///
    /// # Errors
    /// If the format cannot hold the model, or the name leads out of the folder.
    pub fn new<'a>(
        index_name: &str,
        specs: impl IntoIterator<Item = TensorSpec<'a>>,
        metadata: &Object,
        options: &WriteOptions,
    ) -> Result<Self, WriteError> {
        let unfit =
            |fault| WriteError::Unsupported { part: Part::named("index of the set", index_name), fault };
        check_relative(index_name)
            .map_err(|fault| unfit(Fault::Path { path: index_name.to_owned(), fault }))?;
        let prefix =
            index_name.rfind('/').and_then(|at| index_name.get(..=at)).unwrap_or_default().to_owned();
        let stem = stem(index_name.get(prefix.len()..).unwrap_or_default()).to_owned();
        let cap = options.part_size.map_or(options.shard_size, |size| size.min(options.shard_size));
        let mut tensors = table_of(specs)?;
        let shards = shards_of(&mut tensors, cap, 0)?;
        let parts = parts_of(&shards, options)?;
        let plan = Self {
            index_name: index_name.to_owned(),
            prefix,
            stem,
            tensors,
            shards,
            parts,
            metadata: metadata.clone(),
            options: options.clone(),
        };
        // If the index of all tensors fits, so does each part.
        plan.global(None)?;
        if let Some(number) = (!plan.parts.is_empty()).then_some(0) {
            plan.part(number)?;
        }
        Ok(plan)
    }

    /// Returns the name of the index.
    #[must_use]
    pub fn index_name(&self) -> &str {
        &self.index_name
    }

    /// Returns the names of the files other than the index: the file that lists all tensors, and the parts.
    pub fn file_names(&self) -> impl Iterator<Item = String> {
        std::iter::once(self.global_name()).chain((0..self.parts.len()).map(|number| self.part_name(number)))
    }

    fn global_name(&self) -> String {
        format!("{}.index.aero", self.stem)
    }

    fn part_name(&self, number: usize) -> String {
        format!("{}.part-{number:03}.aero", self.stem)
    }

    /// Returns the tensors in the order in which they will be written.
    #[must_use]
    pub const fn tensors(&self) -> &TensorTable {
        &self.tensors
    }

    /// Writes the parts, the file that lists all tensors, and the index. `data` numbers tensors in the order
    /// of their descriptions. The same input with the same identity gives the same bytes, however many
    /// threads `work` allows.
    ///
    /// A part begins with its table of contents, which has the hashes of the weights and is therefore written
    /// last. To compute its SHA-256, each complete part is read back once, while the next one is written.
    ///
    /// # Errors
    /// If a value cannot be read; if a file cannot be created or written, or exists and may not be replaced.
    /// In these cases no file appears, unless only the last step fails.
    pub fn write<N>(&self, data: &dyn TensorData, files: &N, work: &Execution<'_>) -> Result<(), WriteError>
    where
        N: NewFiles,
    {
        let names = self.file_names().map(|name| format!("{}{name}", self.prefix));
        let mut set = NewSet::begin(files, &self.index_name, names)?;
        let (parts, hashes) = self.write_parts(data, &mut set, work)?;
        self.complete(set, &parts, hashes, work)
    }

    /// Writes the set into a folder, which must exist.
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

    /// Returns the parts. Each can be written separately.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = SetPart> + '_ {
        self.parts.iter().enumerate().map(|(number, shards)| {
            let shards = self.shards.get(shards.clone()).unwrap_or_default();
            let first = shards.first().map_or(0, |shard| shard.tensors.start);
            let count = shards.iter().map(|shard| shard.tensors.len()).sum();
            SetPart::new(format!("{}{}", self.prefix, self.part_name(number)), first, count)
        })
    }

    /// Writes one part, which appears when it is complete. The part does not belong to a set until the index
    /// is written. With the same plan and identity, any process writes the same bytes as
    /// [`write`](Self::write), however often.
    ///
    /// # Errors
    /// If a value cannot be read, if the part cannot be written, or if there is no such part.
    pub fn write_part<N: NewFiles>(
        &self,
        number: usize,
        data: &dyn TensorData,
        files: &N,
        work: &Execution<'_>,
    ) -> Result<WrittenPart, WriteError> {
        let part = self.parts().nth(number).ok_or_else(|| no_part(&self.index_name, number))?;
        write_part(files, &part.path, true, |output| {
            let Written { file_len, hashes } = self.part(number)?.run(data, output, work)?;
            let mut digests = sha256(output, file_len, work)?.to_vec();
            if self.options.tensor_hashes {
                digests.extend_from_slice(hashes.as_flattened());
            }
            Ok(WrittenPart { nbytes: file_len, digests })
        })
    }

    /// Writes the remaining files after all parts are written: the file that lists all tensors, and the
    /// index. `parts` has the results of [`write_part`](Self::write_part), in order. The parts themselves are
    /// not read.
    ///
    /// # Errors
    /// If a file cannot be written, or `parts` do not belong to this plan.
    pub fn finish<N: NewFiles>(
        &self,
        parts: &[WrittenPart],
        files: &N,
        work: &Execution<'_>,
    ) -> Result<(), WriteError> {
        let unfit = || unfit_parts(&self.index_name, self.parts.len());
        if parts.len() != self.parts.len() {
            return Err(unfit());
        }
        let (mut listed, mut hashes) = (Vec::new(), Vec::new());
        for ((number, part), planned) in parts.iter().enumerate().zip(self.parts()) {
            let (sha256, own) = part.digests.split_first_chunk::<32>().ok_or_else(unfit)?;
            let (own, rest) = own.as_chunks::<32>();
            let count = if self.options.tensor_hashes { planned.tensors.len() } else { 0 };
            if own.len() != count || !rest.is_empty() {
                return Err(unfit());
            }
            hashes.extend_from_slice(own);
            listed.push(Listed { path: self.part_name(number), len: part.nbytes, sha256: *sha256 });
        }
        let name = [format!("{}{}", self.prefix, self.global_name())];
        let set = NewSet::begin(files, &self.index_name, &name)?;
        self.complete(set, &listed, hashes, work)
    }

    /// Writes the file that lists all tensors, and the index.
    fn complete<N: NewFiles>(
        &self,
        mut set: NewSet<'_, N>,
        parts: &[Listed],
        hashes: Vec<[u8; 32]>,
        work: &Execution<'_>,
    ) -> Result<(), WriteError> {
        let hashes = self.options.tensor_hashes.then_some(hashes);
        let name = self.global_name();
        let path = format!("{}{name}", self.prefix);
        let global = set.create_to_read_back(&path)?;
        let written = self.global(hashes.as_deref())?.run(&[[0u8; 0]; 0], &global, work)?;
        let sha256 = sha256(&global, written.file_len, work)?;
        set.done(&path, global)?;
        let listed = Listed { path: name, len: written.file_len, sha256 };
        set.commit(self.index_text(parts, &listed)?.as_bytes())
    }

    /// Writes every part. Returns the parts' entries for the index, and the hash of each tensor.
    fn write_parts<N: NewFiles>(
        &self,
        data: &dyn TensorData,
        set: &mut NewSet<'_, N>,
        work: &Execution<'_>,
    ) -> Result<(Vec<Listed>, Vec<[u8; 32]>), WriteError> {
        let (mut listed, mut hashes) = (Vec::new(), Vec::new());
        // The complete part that is being read back.
        let mut before: Option<(String, N::Output, u64)> = None;
        for number in 0..self.parts.len() {
            let name = self.part_name(number);
            let output = set.create_to_read_back(&format!("{}{name}", self.prefix))?;
            let read_back = || before.as_ref().map(|(_, output, len)| sha256(output, *len, work)).transpose();
            let (sha256, written) = work.join(read_back, || self.part(number)?.run(data, &output, work));
            let sha256 = sha256?;
            let Written { file_len, hashes: of_part } = written?;
            hashes.extend(of_part);
            let complete = before.replace((name, output, file_len));
            self.take(complete.zip(sha256), &mut listed, set)?;
        }
        let sha256 = before.as_ref().map(|(_, output, len)| sha256(output, *len, work)).transpose()?;
        self.take(before.zip(sha256), &mut listed, set)?;
        Ok((listed, hashes))
    }

    /// Closes a part that has been written and read back, and records it.
    #[allow(clippy::type_complexity, reason = "what `write_parts` keeps of a part, with its hash")]
    fn take<N: NewFiles>(
        &self,
        part: Option<((String, N::Output, u64), [u8; 32])>,
        listed: &mut Vec<Listed>,
        set: &mut NewSet<'_, N>,
    ) -> Result<(), WriteError> {
        let Some(((path, output, len), sha256)) = part else { return Ok(()) };
        set.done(&format!("{}{path}", self.prefix), output)?;
        listed.push(Listed { path, len, sha256 });
        Ok(())
    }

    /// Returns the plan of a part.
    fn part(&self, number: usize) -> Result<Plan, WriteError> {
        let shards =
            self.parts.get(number).and_then(|shards| self.shards.get(shards.clone())).unwrap_or_default();
        let first = shards.first().map_or(0, |shard| shard.tensors.start);
        let end = shards.last().map_or(0, |shard| shard.tensors.end);
        let mut tensors = TensorTable::with_capacity(end.saturating_sub(first));
        for position in first..end {
            let Some(info) = self.tensors.info(position) else { continue };
            let tensor = NewTensor {
                name: info.name,
                dtype: info.dtype,
                offset: self.tensors.offset(position),
                packed_nbytes: info.nbytes,
            };
            let unfit = |fault: modelfmt_core::CommonFault| WriteError::Unsupported {
                part: Part::named("tensor", info.name),
                fault: fault.into(),
            };
            tensors.push(tensor, info.shape.iter().copied()).map_err(unfit)?;
        }
        let shards = shards.iter().map(|shard| Shard {
            tensors: shard.tensors.start.saturating_sub(first)..shard.tensors.end.saturating_sub(first),
            ..shard.clone()
        });
        let model = model_of(&self.metadata, &self.options)?;
        let json = Object::from_iter([("model_name", model.0), ("architecture", model.1)]);
        let options = self.options.of_part();
        Plan::of_parts(
            Parts {
                tensors,
                shards: shards.collect(),
                first_tensor: first,
                json: Some(&json),
                model,
                holds_shards: true,
                hashes: None,
            },
            &options,
        )
    }

    /// Returns the plan of the file that lists all tensors.
    fn global(&self, hashes: Option<&[[u8; 32]]>) -> Result<Plan, WriteError> {
        let parts = Parts {
            tensors: self.tensors.clone(),
            shards: self.shards.clone(),
            first_tensor: 0,
            json: Some(&self.metadata),
            model: model_of(&self.metadata, &self.options)?,
            holds_shards: false,
            hashes,
        };
        Plan::of_parts(parts, &self.options)
    }

    /// Formats the text of the index, indented by 2, without a final newline.
    fn index_text(&self, parts: &[Listed], global: &Listed) -> Result<String, WriteError> {
        let (name, architecture) = model_of(&self.metadata, &self.options)?;
        let file = |listed: &Listed| {
            Object::from_iter([
                ("path", Value::from(listed.path.as_str())),
                ("sha256", hex(&listed.sha256).into()),
                ("size_bytes", listed.len.into()),
            ])
        };
        let parts = parts.iter().zip(&self.parts).map(|(listed, shards)| {
            let ids = self.shards.get(shards.clone()).unwrap_or_default().iter().map(|shard| shard.id);
            let mut part = file(listed);
            part.insert("shards", ids.collect::<Value>());
            part
        });
        let mut index = Object::new();
        let version: Value = [0u64, 2].into_iter().collect();
        index.insert("format", Object::from_iter([("name", Value::from("AEROSET")), ("version", version)]));
        index.insert("model", Object::from_iter([("name", name), ("architecture", architecture)]));
        index.insert("parts", parts.collect::<Value>());
        index.insert("global_tidx", file(global));
        for (key, value) in &self.options.extras.set {
            index.insert(key, value.clone());
        }
        json::to_string_pretty(&index).map_err(|error| unfit_metadata("index of the set", error.to_string()))
    }
}

/// Returns the name of an index without its suffix.
fn stem(name: &str) -> &str {
    let endings = [".aeroset.json", ".json", ".aero"];
    let stem = endings.iter().find_map(|ending| name.strip_suffix(ending));
    stem.filter(|stem| !stem.is_empty()).unwrap_or(name)
}

/// Divides shards into parts, in order. A shard that would exceed a limit on the current part starts a new
/// one.
fn parts_of(shards: &[Shard], options: &WriteOptions) -> Result<Vec<Range<usize>>, WriteError> {
    for (what, cap) in
        [("part size", options.part_size.unwrap_or(1)), ("shards of a part", options.shards_per_part)]
    {
        if cap == 0 {
            return Err(WriteError::Unsupported { part: Part::new(what), fault: Fault::Zero });
        }
    }
    let mut parts: Vec<Range<usize>> = Vec::new();
    let (mut begin, mut len) = (0usize, 0u64);
    for (number, shard) in shards.iter().enumerate() {
        let too_many = number.saturating_sub(begin) as u64 >= options.shards_per_part;
        let too_long = options.part_size.is_some_and(|cap| len.saturating_add(shard.len) > cap);
        if number > begin && (too_many || too_long) {
            parts.push(begin..number);
            (begin, len) = (number, 0);
        }
        len = len.saturating_add(shard.len);
    }
    if shards.len() > begin {
        parts.push(begin..shards.len());
    }
    Ok(parts)
}

/// Computes the SHA-256 of bytes that were written, by reading them back.
fn sha256(output: &impl Output, len: u64, work: &Execution<'_>) -> Result<[u8; 32], WriteError> {
    const STEP: u64 = 1 << 20;
    let mut hasher = Sha256::new();
    let mut buffer = Vec::new();
    let mut at = 0;
    while at < len {
        let step = STEP.min(len.saturating_sub(at));
        buffer.resize(usize::try_from(step).unwrap_or(0), 0);
        output
            .read_back(at, &mut buffer)
            .map_err(|source| WriteError::Write { path: output.name(), source })?;
        hasher.update(&buffer);
        if work.advance(0).is_break() {
            return Err(WriteError::Cancelled);
        }
        at = at.saturating_add(step);
    }
    Ok(hasher.finalize().into())
}
