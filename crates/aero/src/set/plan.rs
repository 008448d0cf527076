//! Descriptions to a set: which tensor goes into which shard, which shard into which part.

use std::ops::Range;
#[cfg(not(target_arch = "wasm32"))]
use std::path::Path;

use sha2::{Digest as _, Sha256};
use tensor_core::source::check_relative;
use tensor_core::value::{Object, Value, json};
use tensor_core::write::{NewFiles, Output, Sink, TensorData, TensorSpec, commit_set};
#[cfg(not(target_arch = "wasm32"))]
use tensor_core::write::{NewFolder, Overwrite};
use tensor_core::{NewTensor, Part, TensorTable, Work};

use crate::error::{Error, Fault, Result};
use crate::layout::{Parts, Plan, Shard, WriteOptions, model_of, shards_of, table_of, unfit_metadata};
use crate::reader::hex;
use crate::writer::Written;

/// The shards of a part where nothing else is asked for.
pub(crate) const DEFAULT_SHARDS_PER_PART: u64 = 4;

/// A set that is about to be written: the index, `index.aero`, and parts `part-000.aero` and so on beside it.
///
/// Tensors keep their order. The file that lists them has the model's metadata; the parts have name and
/// architecture only.
#[derive(Clone, Debug)]
pub struct SetPlan {
    index_name: String,
    /// The folder of the index, with its `/`.
    prefix: String,
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

impl SetPlan {
    /// Divides tensors into shards and parts and checks everything. The index will be `index_name`, such as
    /// `model.aeroset.json`; the other files stand in the same folder.
    ///
    /// # Errors
    /// As [`Plan::new`]; also if the name leads out of the folder, or is that of another file of the set.
    pub fn new<'a>(
        index_name: &str,
        specs: impl IntoIterator<Item = TensorSpec<'a>>,
        metadata: &Object,
        options: &WriteOptions,
    ) -> Result<Self> {
        let unfit = |fault| Error::Unfit { part: Part::named("index of the set", index_name), fault };
        check_relative(index_name)
            .map_err(|fault| unfit(Fault::Path { path: index_name.to_owned(), fault }))?;
        let prefix =
            index_name.rfind('/').and_then(|at| index_name.get(..=at)).unwrap_or_default().to_owned();
        let cap = options.part_size.map_or(options.shard_size, |size| size.min(options.shard_size));
        let mut tensors = table_of(specs)?;
        let shards = shards_of(&mut tensors, cap, 0)?;
        let parts = parts_of(&shards, options)?;
        let plan = Self {
            index_name: index_name.to_owned(),
            prefix,
            tensors,
            shards,
            parts,
            metadata: metadata.clone(),
            options: options.clone(),
        };
        if plan.file_names().any(|name| format!("{}{name}", plan.prefix) == index_name) {
            return Err(unfit(Fault::Set("another file of the set has that name".to_owned())));
        }
        // What the index of all tensors can hold, each part can.
        plan.global(None)?;
        if let Some(number) = (!plan.parts.is_empty()).then_some(0) {
            plan.part(number)?;
        }
        Ok(plan)
    }

    /// The name of the index.
    #[must_use]
    pub fn index_name(&self) -> &str {
        &self.index_name
    }

    /// The names of the other files, beside the index: `index.aero` and the parts.
    pub fn file_names(&self) -> impl Iterator<Item = String> {
        std::iter::once(GLOBAL.to_owned()).chain((0..self.parts.len()).map(part_name))
    }

    /// The tensors in the order they will be written.
    #[must_use]
    pub const fn tensors(&self) -> &TensorTable {
        &self.tensors
    }

    /// Writes parts, `index.aero` and index. `data` numbers tensors as their descriptions were given. The same input
    /// with the same identity gives the same bytes, however many threads `work` allows.
    ///
    /// The SHA-256 of a part begins with its table of contents, which holds the hashes of the weights and so is known
    /// last: each part is read back once when it is complete, while the next one is written.
    ///
    /// # Errors
    /// As [`Plan::write`]; also if a file cannot be created, or exists and may not be replaced. Then no file
    /// appears, unless it is the last step that fails.
    pub fn write<N>(&self, data: &dyn TensorData, files: &N, work: &Work<'_>) -> Result<()>
    where
        N: NewFiles,
    {
        // All are created first, so that one that exists is found before hours of work.
        let create = |name: &str| {
            let failed = |source| Error::Write { path: name.to_owned(), source };
            files.create(name).map_err(failed)
        };
        let index = create(&self.index_name)?;
        let global = create(&format!("{}{GLOBAL}", self.prefix))?;
        let outputs: Vec<N::Output> = (0..self.parts.len())
            .map(|number| create(&format!("{}{}", self.prefix, part_name(number))))
            .collect::<Result<_>>()?;
        let (parts, hashes) = self.write_parts(data, &outputs, work)?;
        let hashes = self.options.tensor_hashes.then_some(hashes);
        let written = self.global(hashes.as_deref())?.run(&[[0u8; 0]; 0], &global, work)?;
        let listed = Listed {
            path: GLOBAL.to_owned(),
            len: written.file_len,
            sha256: sha256(&global, written.file_len, work)?,
        };
        let failed = |name: &str| {
            let path = name.to_owned();
            move |source| Error::Write { path, source }
        };
        let text = self.index_text(&parts, &listed)?;
        index.write_at(0, text.as_bytes()).map_err(failed(&self.index_name))?;
        let parts = parts.iter().map(|part| part.path.as_str()).zip(outputs);
        commit_set(parts.chain([(GLOBAL, global)]), (&self.index_name, index))
    }

    /// Writes the set into a folder, which must exist.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    #[cfg(not(target_arch = "wasm32"))]
    pub fn write_folder(
        &self,
        folder: impl AsRef<Path>,
        overwrite: Overwrite,
        data: &dyn TensorData,
        work: &Work<'_>,
    ) -> Result<()> {
        self.write(data, &NewFolder::new(folder.as_ref(), overwrite), work)
    }

    /// Writes every part; returns what the index says of them, and the hash of each tensor.
    fn write_parts<O: Output>(
        &self,
        data: &dyn TensorData,
        outputs: &[O],
        work: &Work<'_>,
    ) -> Result<(Vec<Listed>, Vec<[u8; 32]>)> {
        let (mut listed, mut hashes) = (Vec::new(), Vec::new());
        let mut before: Option<(usize, &O, u64)> = None;
        for (number, output) in outputs.iter().enumerate() {
            let (sha, written) = both(
                work,
                || before.map(|(number, output, len)| list(number, output, len, work)).transpose(),
                || self.part(number)?.run(data, output, work),
            );
            listed.extend(sha?);
            let Written { file_len, hashes: of_part } = written?;
            hashes.extend(of_part);
            before = Some((number, output, file_len));
        }
        listed.extend(before.map(|(number, output, len)| list(number, output, len, work)).transpose()?);
        Ok((listed, hashes))
    }

    /// The plan of a part.
    fn part(&self, number: usize) -> Result<Plan> {
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
            let unfit = |fault: tensor_core::Fault| Error::Unfit {
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
        let options = WriteOptions { chunks: Vec::new(), ..self.options.clone() };
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

    /// The plan of the file that lists all tensors.
    fn global(&self, hashes: Option<&[[u8; 32]]>) -> Result<Plan> {
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

    /// DECISIONS, AEROSET: indent 2, no final newline.
    fn index_text(&self, parts: &[Listed], global: &Listed) -> Result<String> {
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
        json::to_string_pretty(&index).map_err(|error| unfit_metadata("index of the set", error.to_string()))
    }
}

const GLOBAL: &str = "index.aero";

fn part_name(number: usize) -> String {
    format!("part-{number:03}.aero")
}

/// Shards in order; one that would take a part over a cap begins the next.
fn parts_of(shards: &[Shard], options: &WriteOptions) -> Result<Vec<Range<usize>>> {
    for (what, cap) in
        [("part size", options.part_size.unwrap_or(1)), ("shards of a part", options.shards_per_part)]
    {
        if cap == 0 {
            return Err(Error::Unfit { part: Part::new(what), fault: Fault::Zero });
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

/// Runs both, at once if there is more than one thread.
fn both<A: Send, B>(work: &Work<'_>, a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B) -> (A, B) {
    if !cfg!(all(feature = "parallel", not(target_arch = "wasm32"))) || work.threads <= 1 {
        return (a(), b());
    }
    std::thread::scope(|scope| {
        let helper = scope.spawn(a);
        let b = b();
        match helper.join() {
            Ok(a) => (a, b),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

fn list(number: usize, output: &impl Output, len: u64, work: &Work<'_>) -> Result<Listed> {
    Ok(Listed { path: part_name(number), len, sha256: sha256(output, len, work)? })
}

/// Reads back what has been written.
fn sha256(output: &impl Output, len: u64, work: &Work<'_>) -> Result<[u8; 32]> {
    const STEP: u64 = 1 << 20;
    let mut hasher = Sha256::new();
    let mut buffer = Vec::new();
    let mut at = 0;
    while at < len {
        let step = STEP.min(len.saturating_sub(at));
        buffer.resize(usize::try_from(step).unwrap_or(0), 0);
        output.read_back(at, &mut buffer).map_err(|source| Error::Write { path: output.name(), source })?;
        hasher.update(&buffer);
        if work.advance(0).is_break() {
            return Err(Error::Cancelled);
        }
        at = at.saturating_add(step);
    }
    Ok(hasher.finalize().into())
}
