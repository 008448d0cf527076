//! Adapters (LoRA): what they add to the weights of a base, as programs over the tensors of both.
//!
//! A weight becomes `W + scale · B · A` in f32: products are added in the order of the rank, and the sum is
//! rounded once to the dtype of the base. So the result does not depend on the number of threads.

mod gguf;
mod patterns;
pub(super) mod peft;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use modelfmt_core::author::Shortened;
use modelfmt_core::{DType, DisplayShape};
use modelfmt_model::error::{Error, Result};
use modelfmt_model::model::Model;
use modelfmt_model::model::mapped::{Computed, Program};
use modelfmt_rules::options::{ConvertOptions, LoraRule};
use modelfmt_rules::wording::{Choice, Note};
use tensor_program::ProgramError;

/// llama.cpp's name of the tensor whose matrices are oriented the other way round.
pub(super) const EMBEDDING: &str = "token_embd.weight";

/// What an adapter does to one tensor of the base.
pub(super) struct Change {
    /// The name of the tensor in the adapter.
    pub(super) base: String,
    pub(super) kind: Kind,
}

pub(super) enum Kind {
    /// Adds the product of two matrices of the adapter, times a number.
    Delta(Delta),
    /// Replaces the tensor by the tensor of the adapter at this position.
    Replaces(usize),
}

/// The matrices of a product, by their positions in the adapter. The product is `b · a`, of shapes
/// `[rows, rank]` and `[rank, columns]`, where each may have to be transposed first.
pub(super) struct Delta {
    pub(super) a: usize,
    pub(super) b: usize,
    /// The factor that belongs to the adapter.
    pub(super) number: f64,
    pub(super) orientation: Orientation,
}

/// The orientation of the product in the weight.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Orientation {
    /// Not transposed.
    Plain,
    /// Transposed: the weight has inputs as rows.
    Transposed,
    /// As the class of the module has it. PEFT goes by the class, whatever the adapter states.
    OfModule {
        /// Whether the adapter states that weights have inputs as rows.
        is_transposed: bool,
    },
    /// Like the embeddings of a GGUF adapter: `a · bᵀ`.
    Embedding,
}

/// Which adapters are merged: those that use the names of the model before a map changes them, or after.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// All adapters, because there is no map.
    Only,
    /// Adapters with the hub's names, before the map.
    #[cfg_attr(not(feature = "gguf"), allow(dead_code, reason = "there are no maps"))]
    BeforeMap,
    /// Adapters with llama.cpp's names, after the map.
    #[cfg_attr(not(feature = "gguf"), allow(dead_code, reason = "there are no maps"))]
    AfterMap,
}

/// Matches adapters and bases whose names are of different kinds.
#[derive(Clone, Copy)]
pub(crate) struct Maps<'a> {
    /// Gives a PEFT adapter the names of its base, a GGUF; `None` if the base is not a GGUF.
    pub(crate) named: &'a dyn Fn(&Model, &Model) -> Result<Option<Model>>,
    /// Returns what llama.cpp has for a hub folder; `None` for another base.
    pub(crate) made: &'a dyn Fn(&Model) -> Result<Option<Made>>,
    /// Returns a function that says whether a weight of a hub folder has inputs as rows; `None` for another
    /// base.
    pub(crate) has_input_rows: &'a dyn Fn(&Model) -> Option<Box<HasInputRows>>,
}

/// Says whether the weight of a base with this name has inputs as rows; `None` if that is not known.
pub(crate) type HasInputRows = dyn Fn(&str) -> Option<bool>;

/// The tensors that llama.cpp has for a hub folder.
#[derive(Default)]
pub(crate) struct Made {
    pub(crate) architecture: String,
    /// The tensors: programs over those of the folder.
    pub(crate) tensors: BTreeMap<String, Program>,
}

impl Maps<'_> {
    /// No maps.
    #[cfg_attr(feature = "gguf", allow(dead_code, reason = "for builds without GGUF"))]
    pub(crate) const NONE: Self =
        Self { named: &|_, _| Ok(None), made: &|_| Ok(None), has_input_rows: &|_| None };
}

/// A model with adapters merged.
pub(crate) struct Merged<'m> {
    pub(crate) model: Cow<'m, Model>,
    /// The names of the tensors that an adapter changes or replaces.
    #[cfg_attr(not(feature = "gguf"), allow(dead_code, reason = "there are no maps"))]
    pub(crate) names: BTreeSet<String>,
    pub(crate) notes: Vec<Note>,
}

/// Merges the adapters of the options into the model. If there are none, returns the model itself.
pub(crate) fn merged<'m>(
    model: Cow<'m, Model>,
    stage: Stage,
    options: &ConvertOptions,
    maps: Maps<'_>,
) -> Result<Merged<'m>> {
    let mut adapters = Vec::new();
    for rule in &options.tensors.lora {
        adapters.extend(Adapter::open(rule, &model, stage, maps)?);
    }
    if adapters.is_empty() {
        return Ok(Merged { model, names: BTreeSet::new(), notes: Vec::new() });
    }
    model.open_all()?;
    let is_missing = |change: &Change| find(&model, &change.base).is_none();
    let is_other = |adapter: &Adapter| adapter.is_gguf && adapter.changes.iter().any(is_missing);
    let mapped = if adapters.iter().any(is_other) { (maps.made)(&model)? } else { None };
    if let Some(mapped) = &mapped {
        let mut of_gguf = adapters.iter().filter(|adapter| adapter.is_gguf);
        of_gguf.try_for_each(|adapter| check_architecture(&adapter.model, Some(&mapped.architecture)))?;
    }
    let mapped = mapped.unwrap_or_default().tensors;
    let has_input_rows = (maps.has_input_rows)(&model);
    let mut merging =
        Merging { base: &model, has_input_rows, mapped, made: BTreeMap::new(), notes: Vec::new() };
    let mut models = vec![Model::clone(&model)];
    let mut first = model.tensor_count();
    for adapter in adapters {
        merging.add(&adapter, first)?;
        first = first.saturating_add(adapter.model.tensor_count());
        models.push(adapter.model);
    }
    let (made, notes) = (merging.made, merging.notes);
    let (mut computed, mut names) = (Vec::with_capacity(model.tensor_count()), BTreeSet::new());
    for position in 0..model.tensor_count() {
        let info = model.info(position)?;
        let tensor = Program::tensor(position, &info);
        let program = match made.get(&position) {
            None => tensor,
            Some(made) => {
                names.insert(info.name.to_owned());
                made.program(tensor).map_err(|error| {
                    let why = format!("tensor {:?}: {error}", Shortened(info.name));
                    Error::Adapter { path: model.path().to_owned(), why }
                })?
            }
        };
        let origins = model.origins(position).into_iter().map(str::to_owned).collect();
        let keeps_dtype = model.keeps_dtype(position);
        computed.push(Computed {
            origins,
            ..Computed::new(info.name.to_owned(), program).keep_dtype(keeps_dtype)
        });
    }
    // Adapters may have tensors of the same names; all are found by their positions.
    let inputs = Model::joined(models, &mut |_| false)?;
    Ok(Merged { model: Cow::Owned(model.computed_from(&inputs, computed)?), names, notes })
}

/// What adapters do to one tensor of the base, as programs over the joined tensors.
#[derive(Default)]
struct Changed {
    deltas: Vec<Program>,
    replaced: Option<Program>,
}

impl Changed {
    /// Returns the tensor with all changes, computed in f32 and rounded once.
    fn program(&self, base: Program) -> std::result::Result<Program, ProgramError> {
        let dtype = base.dtype();
        let base = self.replaced.clone().unwrap_or(base);
        if self.deltas.is_empty() {
            return base.cast(dtype);
        }
        let mut sum = base.cast(DType::F32)?;
        for delta in &self.deltas {
            sum = sum.sum(delta.clone())?;
        }
        sum.cast(dtype)
    }
}

struct Merging<'a> {
    base: &'a Model,
    /// Which weights of the base have inputs as rows, if a map says so.
    has_input_rows: Option<Box<HasInputRows>>,
    /// The tensors of a GGUF, as programs over those of the base, if adapters have such names.
    mapped: BTreeMap<String, Program>,
    /// The changes, by the position of the tensor in the base.
    made: BTreeMap<usize, Changed>,
    notes: Vec<Note>,
}

impl Merging<'_> {
    /// Adds the changes of an adapter whose tensors have numbers from `first` on.
    fn add(&mut self, adapter: &Adapter, first: usize) -> Result<()> {
        let count = adapter.changes.len();
        let others = adapter.others(self.base)?;
        for change in &adapter.changes {
            let failed = |why: String| adapter.failed(format!("{:?}: {why}", Shortened(&change.base)));
            let input = |number: usize| {
                let info = adapter.model.info(number)?;
                Ok::<_, Error>(Program::tensor(first.saturating_add(number), &info))
            };
            let Some(position) = find(self.base, &change.base) else {
                self.add_back(adapter, change, &input)?;
                continue;
            };
            let info = self.base.info(position)?;
            let made = self.made.entry(position).or_default();
            match &change.kind {
                Kind::Replaces(number) => {
                    if adapter.scale != 1.0 {
                        let why = "the adapter has it as a whole, which cannot be merged in part";
                        return Err(failed(format!("{why}; merge without a scale")));
                    }
                    if made.replaced.is_some() || !made.deltas.is_empty() {
                        return Err(failed(
                            "another adapter changes it, and this one has it as a whole".to_owned(),
                        ));
                    }
                    let tensor = input(*number)?;
                    if tensor.shape() != info.shape {
                        return Err(failed(mismatch(tensor.shape(), info.shape)));
                    }
                    if !tensor.dtype().is_float() || tensor.dtype().is_quantized() {
                        return Err(failed(format!("the adapter has it as {}", tensor.dtype())));
                    }
                    if !info.dtype.is_float() || info.dtype.is_quantized() {
                        return Err(failed(format!(
                            "it is {} in the base, and the adapter has floats",
                            info.dtype
                        )));
                    }
                    made.replaced = Some(tensor);
                }
                Kind::Delta(delta) => {
                    check_dtype(info.dtype).map_err(failed)?;
                    let known = || self.has_input_rows.as_ref().and_then(|has| has(info.name));
                    let (a, b) = (input(delta.a)?, input(delta.b)?);
                    let product = product_shape(a.shape(), b.shape());
                    let orientation = delta.orientation.in_base(product, info.shape, known, others);
                    let product = delta.fitting((a, b), orientation, adapter.scale, info.shape);
                    made.deltas.push(product.map_err(failed)?);
                }
            }
        }
        let tensors = if count == 1 { "tensor" } else { "tensors" };
        let path = adapter.model.path().display();
        let scale = if adapter.scale == 1.0 { String::new() } else { format!(" times {}", adapter.scale) };
        self.notes.push(Note::of(&[Choice::Lora], format!("merges {path}{scale} into {count} {tensors}")));
        Ok(())
    }

    /// Applies a change of a tensor of llama.cpp to those tensors of the base from which it is made.
    fn add_back(
        &mut self,
        adapter: &Adapter,
        change: &Change,
        input: &dyn Fn(usize) -> Result<Program>,
    ) -> Result<()> {
        let failed = |why: String| adapter.failed(format!("{:?}: {why}", Shortened(&change.base)));
        let (Some(of_map), Kind::Delta(delta)) = (self.mapped.get(&change.base), &change.kind) else {
            let base = self.base.path().display();
            return Err(failed(format!("{base} has no such tensor, so this is no adapter for it")));
        };
        if !of_map.only_moves() {
            return Err(failed("the map computes it, and nothing can be added to that".to_owned()));
        }
        let matrices = (input(delta.a)?, input(delta.b)?);
        let product = delta.fitting(matrices, delta.orientation, adapter.scale, of_map.shape());
        let product = product.map_err(failed)?;
        for (position, program) in of_map.undone(product).map_err(|error| failed(error.to_string()))? {
            check_dtype(self.base.info(position)?.dtype).map_err(failed)?;
            let program = program.with_moves_first().map_err(|error| failed(error.to_string()))?;
            self.made.entry(position).or_default().deltas.push(program);
        }
        Ok(())
    }
}

/// Returns the position of a tensor of the base. The names may differ by the prefix of a class of the hub's
/// library.
fn find(base: &Model, name: &str) -> Option<usize> {
    const PREFIXES: [&str; 3] = ["model.", "transformer.", "bert."];
    let container = base.container();
    container.find(name).or_else(|| {
        let mut others = PREFIXES.iter().flat_map(|prefix| {
            let more = container.find(&format!("{prefix}{name}"));
            let less = name.strip_prefix(prefix).and_then(|name| container.find(name));
            more.into_iter().chain(less)
        });
        others.next().filter(|_| others.next().is_none())
    })
}

/// Fails for a dtype to which no product is added: 8-bit numbers mean nothing without their scales, and an
/// f64 would lose digits.
fn check_dtype(dtype: DType) -> std::result::Result<(), String> {
    if matches!(dtype, DType::F32 | DType::F16 | DType::BF16) {
        return Ok(());
    }
    let is_packed = dtype.is_quantized() || dtype.is_float() && dtype != DType::F64;
    let help = if is_packed { "; dequantize the base first" } else { "" };
    Err(format!("it is {dtype} in the base, and adapters are added to f32, f16 and bf16{help}"))
}

fn mismatch(found: &[u64], base: &[u64]) -> String {
    format!("its shape is {}, and that of the base {}", DisplayShape(found), DisplayShape(base))
}

impl Delta {
    /// Returns the product for a tensor of this shape.
    fn fitting(
        &self,
        (a, b): (Program, Program),
        orientation: Orientation,
        scale: f32,
        shape: &[u64],
    ) -> std::result::Result<Program, String> {
        let number = self.number * f64::from(scale);
        if number.abs() > f64::from(f32::MAX) {
            return Err("its factor is too large for f32".to_owned());
        }
        let program = program(a, b, number, orientation).map_err(|error| error.to_string())?;
        if program.shape() == shape { Ok(program) } else { Err(mismatch(program.shape(), shape)) }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "rounding to the nearest f32 is what is asked for")]
fn program(
    a: Program,
    b: Program,
    number: f64,
    orientation: Orientation,
) -> std::result::Result<Program, ProgramError> {
    let (a, b) = (a.cast(DType::F32)?, b.cast(DType::F32)?);
    match orientation {
        Orientation::Embedding => a.low_rank(b.transposed()?, number as f32),
        Orientation::Transposed => a.transposed()?.low_rank(b.transposed()?, number as f32),
        Orientation::Plain | Orientation::OfModule { .. } => b.low_rank(a, number as f32),
    }
}

/// Returns the shape of a product that is not transposed: the rows of B and the columns of A.
fn product_shape(a: &[u64], b: &[u64]) -> [u64; 2] {
    [b.first().copied().unwrap_or(0), a.last().copied().unwrap_or(0)]
}

impl Orientation {
    /// Returns the orientation in a weight of the shape `base`. `known` says whether the weight has inputs as
    /// rows, according to a map; `others` says it according to the shapes of the adapter's other weights. If
    /// neither says it of a square weight, the adapter's own statement counts.
    fn in_base(
        self,
        product: [u64; 2],
        base: &[u64],
        known: impl FnOnce() -> Option<bool>,
        others: Option<bool>,
    ) -> Self {
        let Self::OfModule { is_transposed } = self else { return self };
        let [rows, columns] = product;
        let has_input_rows = known().unwrap_or_else(|| match (is_transposed, rows == columns) {
            (false, _) => false,
            (true, false) => base != product.as_slice(),
            (true, true) => others.unwrap_or(true),
        });
        if has_input_rows { Self::Transposed } else { Self::Plain }
    }
}

/// An adapter, as far as it is understood.
struct Adapter {
    model: Model,
    /// The factor that the user chose.
    scale: f32,
    changes: Vec<Change>,
    /// Whether its names are those of llama.cpp.
    is_gguf: bool,
}

impl Adapter {
    /// Opens an adapter; `None` if it is merged at another stage.
    fn open(rule: &LoraRule, base: &Model, stage: Stage, maps: Maps<'_>) -> Result<Option<Self>> {
        let mut model = base.related_options().open(&rule.path)?;
        model.expect_tensors()?;
        model.open_all()?;
        let of_gguf = gguf::changes(&model)?;
        if matches!((stage, &of_gguf), (Stage::BeforeMap, Some(_)) | (Stage::AfterMap, None)) {
            return Ok(None);
        }
        let mut is_gguf = of_gguf.is_some();
        let changes = match of_gguf {
            Some(changes) => changes,
            None => match (maps.named)(base, &model)? {
                Some(other) => {
                    is_gguf = true;
                    model = other;
                    gguf::changes(&model)?.unwrap_or_default()
                }
                None => peft::changes(&model)?,
            },
        };
        if changes.is_empty() {
            return Err(failed(&model, "it has no tensor of an adapter".to_owned()));
        }
        if is_gguf {
            check_architecture(&model, architecture(base)?.as_deref())?;
        }
        Ok(Some(Self { model, scale: rule.scale, changes, is_gguf }))
    }

    fn failed(&self, why: String) -> Error {
        failed(&self.model, why)
    }

    /// Returns whether weights of the base have inputs as rows, as far as the shapes of the adapter's products
    /// show it: one that fits only transposed counts more than one that fits only as it is.
    fn others(&self, base: &Model) -> Result<Option<bool>> {
        let mut others = None;
        for change in &self.changes {
            let Kind::Delta(Delta { a, b, orientation: Orientation::OfModule { .. }, .. }) = &change.kind
            else {
                continue;
            };
            let Some(position) = find(base, &change.base) else { continue };
            let product = product_shape(self.model.info(*a)?.shape, self.model.info(*b)?.shape);
            let (base, [rows, columns]) = (base.info(position)?, product);
            if rows != columns && base.shape == [columns, rows] {
                return Ok(Some(true));
            }
            if rows != columns && base.shape == product {
                others = Some(false);
            }
        }
        Ok(others)
    }
}

/// Returns the architecture that a model states under the key of GGUF.
fn architecture(model: &Model) -> Result<Option<String>> {
    let keys = model.common_metadata()?.keys;
    Ok(keys.get("general.architecture").and_then(|own| own.as_str()).map(str::to_owned))
}

/// Fails for an adapter of another architecture, whose names and shapes may fit all the same.
fn check_architecture(adapter: &Model, base: Option<&str>) -> Result<()> {
    match (architecture(adapter)?, base) {
        (Some(own), Some(base)) if own != base => {
            Err(failed(adapter, format!("it is for the architecture {own:?}, and the base is {base:?}")))
        }
        _ => Ok(()),
    }
}

pub(super) fn failed(model: &Model, why: String) -> Error {
    Error::Adapter { path: model.path().to_owned(), why }
}

/// Pairs of matrices by the name of their module. The matrices are added one by one.
#[derive(Default)]
struct Pairs(BTreeMap<String, [Option<usize>; 2]>);

impl Pairs {
    /// Adds a matrix: `side` is 0 for A and 1 for B. Returns false if the pair already has this matrix.
    fn add(&mut self, module: &str, side: usize, number: usize) -> bool {
        let pair = self.0.entry(module.to_owned()).or_default();
        pair.get_mut(side).is_some_and(|place| place.replace(number).is_none())
    }

    /// Returns the pairs.
    ///
    /// # Errors
    /// If one matrix of a pair is missing.
    fn complete(self, model: &Model) -> Result<Vec<(String, usize, usize)>> {
        let whole = |(module, pair): (String, [Option<usize>; 2])| match pair {
            [Some(a), Some(b)] => Ok((module, a, b)),
            [a, _] => {
                let lacks = if a.is_some() { "lora_B" } else { "lora_A" };
                Err(failed(model, format!("{:?}: it lacks {lacks}", Shortened(&module))))
            }
        };
        self.0.into_iter().map(whole).collect()
    }
}

/// Returns the rank of a pair: the rows of A and the columns of B.
///
/// # Errors
/// If they are not matrices with the same rank.
fn rank(model: &Model, module: &str, (a, b): (usize, usize)) -> Result<u64> {
    let (a, b) = (model.info(a)?, model.info(b)?);
    let why = match (a.shape, b.shape) {
        (&[rank, _], &[_, same]) if rank == same && rank > 0 => return Ok(rank),
        (&[_, _], &[_, _]) => "no ranks that are the same",
        _ => "not two dimensions each (convolutions are not merged)",
    };
    let (a, b) = (DisplayShape(a.shape), DisplayShape(b.shape));
    Err(failed(model, format!("{:?}: A is {a} and B {b}: {why}", Shortened(module))))
}

/// Converts a rank to a float.
#[allow(clippy::cast_precision_loss, reason = "a rank is below 2^16, or the product is refused")]
pub(super) const fn f64_of(rank: u64) -> f64 {
    rank as f64
}
