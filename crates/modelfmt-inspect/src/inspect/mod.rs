//! Lists the content of a file: the object that `modelfmt inspect --json` prints.
//!
//! ```
//! use modelfmt::inspect::{InspectOptions, inspect};
//! use modelfmt::{Execution, Model};
//!
//! let model = Model::open("../../testdata/reference/one-shard.aero")?;
//! let inspection = inspect(&model, &InspectOptions::new(), &Execution::default())?;
//! println!("{}", serde_json::to_string_pretty(&inspection)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod facts;
mod fold;
mod signature;
mod totals;
mod tree;

use modelfmt_core::value::{Object, Value};
use modelfmt_core::{Encoding, Execution, Location, TensorInfo, author::with_causes};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use modelfmt_model::error::Result;
use modelfmt_model::model::Model;
use modelfmt_model::quant::Quant;
use modelfmt_rules::globs::Globs;
use modelfmt_rules::pin::Pin;
use modelfmt_rules::wording::Choice;

pub use facts::{ModelFacts, ModelKind};
pub use fold::{FoldedDType, FoldedRow, LabelPart};
pub use modelfmt_metadata::schemes::{Schemes, StoredWeight};
pub use totals::{Sums, Totals};
pub use tree::TreeNode;

/// The options of an inspection.
#[derive(Clone, Debug, Default)]
pub struct InspectOptions {
    hash: bool,
    tensors: Option<Globs>,
    sort: Option<Sort>,
    top: Option<usize>,
    extent: Extent,
}

/// The order in which tensors are listed. Tensors that compare equal stay in file order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Sort {
    /// By name.
    Name,
    /// By the length of their values in bytes, the largest first.
    Size,
    /// By dtype, in the order of [`DType::ALL`](modelfmt_core::DType::ALL).
    DType,
}

/// The parts of the JSON output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Extent {
    #[default]
    Tensors,
    /// Everything, including the groups of tensors.
    Tree,
    /// Sums instead of tensors, metadata and details.
    Summary,
}

impl InspectOptions {
    /// Makes options that list everything except hashes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Also computes the BLAKE3 hash of each tensor's values. For this, all values are read.
    #[must_use]
    pub const fn hash(mut self, hash: bool) -> Self {
        self.hash = hash;
        self
    }

    /// Lists only tensors whose names match.
    #[must_use]
    pub fn tensors(mut self, globs: Globs) -> Self {
        self.tensors = Some(globs);
        self
    }

    /// Sorts the tensors instead of listing them in file order.
    #[must_use]
    pub const fn sort(mut self, by: Sort) -> Self {
        self.sort = Some(by);
        self
    }

    /// Lists only the `count` tensors with the longest values, the largest first. [`sort`](Self::sort) then
    /// sorts these.
    #[must_use]
    pub const fn top(mut self, count: usize) -> Self {
        self.top = Some(count);
        self
    }

    /// Also serializes the groups of tensors from [`Inspection::tree`].
    #[must_use]
    pub const fn tree(mut self) -> Self {
        self.extent = Extent::Tree;
        self
    }

    /// Serializes the sums from [`Inspection::totals`] instead of tensors, metadata and details.
    #[must_use]
    pub const fn summary(mut self) -> Self {
        self.extent = Extent::Summary;
        self
    }
}

/// The content of a file.
#[derive(Debug)]
#[non_exhaustive]
pub struct Inspection<'a> {
    /// The model.
    pub model: &'a Model,
    /// Facts about the model.
    pub facts: ModelFacts,
    /// The format's own metadata.
    pub metadata: Value,
    /// The selected tensors, in file order or sorted as requested.
    pub tensors: Vec<InspectedTensor<'a>>,
    /// The weights that are stored as several of the tensors.
    pub weights: Schemes,
    /// Features that only this format has.
    pub details: Value,
    /// The pins of the file. See [`Model::pins`].
    pub pins: Vec<Pin>,
    /// The signature next to the model, if the caller has looked for it. See [`Model::detached_signature`].
    #[cfg(all(feature = "sign", not(target_arch = "wasm32")))]
    pub signature: Option<modelfmt_model::signed::DetachedSignature>,
    hash: bool,
    extent: Extent,
}

impl<'a> Inspection<'a> {
    /// Returns sums over the selected tensors.
    #[must_use]
    pub fn totals(&self) -> Totals {
        Totals::of(self.tensors.iter().map(|tensor| tensor.info))
    }

    /// Returns the selected tensors, grouped by the parts of their names, which end at a dot or a slash. Each
    /// group comes before its members.
    #[must_use]
    pub fn tree(&self) -> Vec<TreeNode<'a>> {
        tree::tree(self.tensors.iter().map(|tensor| tensor.info))
    }

    /// Returns the selected tensors as a short list: groups whose names differ only in a number, such as
    /// layers or experts, are one group if their members have the same names and shapes. `None` if there are
    /// no such groups.
    #[must_use]
    pub fn folded(&self) -> Option<Vec<FoldedRow<'a>>> {
        fold::fold(&self.tensors.iter().map(|tensor| tensor.info).collect::<Vec<_>>())
    }
}

/// A tensor with its location, and its hash if it was requested.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InspectedTensor<'a> {
    /// The name, dtype and shape of the tensor.
    pub info: TensorInfo<'a>,
    /// The location of its values.
    pub location: Location,
    /// BLAKE3-256 of its values, uncompressed.
    pub blake3: Option<blake3::Hash>,
    /// The scales and zero points that the file has for it, or the reason why they cannot be read.
    pub quant: Option<Result<Quant, String>>,
}

/// Lists the content of a file.
///
/// # Errors
/// [`Error::NothingSelected`](modelfmt_model::Error::NothingSelected) if no name matches; other errors if the
/// metadata cannot be decoded, a file of a set is missing, or, with hashes, values cannot be read.
pub fn inspect<'m>(
    model: &'m Model,
    options: &InspectOptions,
    work: &Execution<'_>,
) -> Result<Inspection<'m>> {
    model.open_all()?;
    let mut tensors = Vec::new();
    for (position, info) in model.tensors().enumerate() {
        if options.tensors.as_ref().is_none_or(|globs| globs.is_match(info.name)) {
            let location = model.location(position)?;
            let quant = model.quant(position).map_err(|error| with_causes(&error)).transpose();
            tensors.push((position, InspectedTensor { info, location, blake3: None, quant }));
        }
    }
    if let Some(globs) = options.tensors.as_ref().filter(|_| tensors.is_empty()) {
        return Err(model.nothing_selected(&[Choice::Tensors], Some(globs.to_string())));
    }
    if let Some(count) = options.top {
        tensors.sort_by_key(|(_, tensor)| std::cmp::Reverse(tensor.info.nbytes));
        tensors.truncate(count);
    }
    if options.hash {
        let wanted = tensors.iter().filter(|(_, tensor)| tensor.info.has_data);
        let hashes = model.hashes(&wanted.map(|&(position, _)| position).collect::<Vec<_>>(), work)?;
        let wanted = tensors.iter_mut().filter(|(_, tensor)| tensor.info.has_data);
        wanted.zip(hashes).for_each(|((_, tensor), hash)| tensor.blake3 = Some(hash));
    }
    let weights = weights(model, options)?;
    let mut tensors: Vec<_> = tensors.into_iter().map(|(_, tensor)| tensor).collect();
    match options.sort {
        Some(Sort::Name) => tensors.sort_by_key(|tensor| tensor.info.name),
        Some(Sort::Size) => tensors.sort_by_key(|tensor| std::cmp::Reverse(tensor.info.nbytes)),
        Some(Sort::DType) => tensors.sort_by_key(|tensor| tensor.info.dtype),
        None => {}
    }
    Ok(Inspection {
        model,
        facts: ModelFacts::with(model, &weights.0),
        metadata: model.metadata()?,
        tensors,
        weights: weights.1,
        details: model.details()?,
        pins: model.pins()?,
        #[cfg(all(feature = "sign", not(target_arch = "wasm32")))]
        signature: None,
        hash: options.hash,
        extent: options.extent,
    })
}

impl Serialize for Inspection<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let container = self.model.container();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("path", &self.model.path().display().to_string())?;
        map.serialize_entry("format", self.model.format().name())?;
        map.serialize_entry("version", &container.version())?;
        map.serialize_entry("file_size", &container.file_size())?;
        map.serialize_entry("model", &self.facts)?;
        if self.extent == Extent::Summary {
            map.serialize_entry("summary", &self.totals())?;
        } else {
            map.serialize_entry("metadata", &self.metadata)?;
            map.serialize_entry("tensors", &Tensors(self))?;
            if !self.weights.weights.is_empty() {
                map.serialize_entry("weights", &Weights(self))?;
            }
            map.serialize_entry("details", &self.details)?;
        }
        let notes: Vec<String> = self.model.warnings().into_iter().chain(self.model.notes()).collect();
        if !notes.is_empty() {
            map.serialize_entry("notes", &notes)?;
        }
        if self.extent == Extent::Tree {
            map.serialize_entry("tree", &self.tree())?;
        }
        map.serialize_entry("pins", &self.pins.iter().map(Pin::to_string).collect::<Vec<_>>())?;
        #[cfg(all(feature = "sign", not(target_arch = "wasm32")))]
        if let Some(signature) = &self.signature {
            map.serialize_entry("signature", signature)?;
        }
        map.end()
    }
}

/// Collects the facts about a model.
#[cfg(feature = "bom")]
pub(crate) fn facts(model: &Model) -> Result<ModelFacts> {
    Ok(ModelFacts::with(model, &weights(model, &InspectOptions::new())?.0))
}

/// Finds the weights that are stored as several tensors: all of them, and the selected ones.
fn weights(model: &Model, options: &InspectOptions) -> Result<(Schemes, Schemes)> {
    // In a remote file, reading many small tensors would take many requests.
    #[cfg(not(target_arch = "wasm32"))]
    let reads = model.input_paths().next().is_some();
    #[cfg(target_arch = "wasm32")]
    let reads = false;
    let all = Schemes::find(model, reads)?;
    let mut shown = all.clone();
    if let Some(globs) = &options.tensors {
        let names = |position: usize| model.container().info(position).map(|info| info.name);
        let is_shown = |weight: &StoredWeight| {
            globs.is_match(&weight.name) || weight.parts().filter_map(names).any(|name| globs.is_match(name))
        };
        shown.weights.retain(is_shown);
    }
    Ok((all, shown))
}

struct Weights<'a>(&'a Inspection<'a>);

impl Serialize for Weights<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.0.weights.weights.len()))?;
        for weight in &self.0.weights.weights {
            list.serialize_element(&Weight { weight, model: self.0.model })?;
        }
        list.end()
    }
}

struct Weight<'a> {
    weight: &'a StoredWeight,
    model: &'a Model,
}

impl Serialize for Weight<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { weight, model } = self;
        let mut row = serializer.serialize_map(None)?;
        row.serialize_entry("name", &weight.name)?;
        row.serialize_entry("shape", &weight.shape)?;
        row.serialize_entry("scheme", weight.scheme)?;
        row.serialize_entry("numbers", &weight.numbers)?;
        row.serialize_entry("group", &weight.group)?;
        let names = weight.parts().filter_map(|position| Some(model.container().info(position)?.name));
        row.serialize_entry("tensors", &names.collect::<Vec<_>>())?;
        row.serialize_entry("problem", &weight.fault())?;
        row.end()
    }
}

struct Tensors<'a>(&'a Inspection<'a>);

impl Serialize for Tensors<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.0.tensors.len()))?;
        for tensor in &self.0.tensors {
            list.serialize_element(&Row { tensor, hash: self.0.hash })?;
        }
        list.end()
    }
}

struct Row<'a> {
    tensor: &'a InspectedTensor<'a>,
    hash: bool,
}

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let InspectedTensor { info, location, blake3, quant } = self.tensor;
        let mut row = serializer.serialize_map(None)?;
        row.serialize_entry("name", info.name)?;
        row.serialize_entry("dtype", info.dtype.name())?;
        row.serialize_entry("shape", info.shape)?;
        row.serialize_entry("nbytes", &info.nbytes)?;
        row.serialize_entry("has_data", &info.has_data)?;
        row.serialize_entry("file", &location.file)?;
        // Compressed or strided values are not contiguous at an offset.
        let is_made = matches!(location.encoding, Encoding::Deflate | Encoding::Strided);
        row.serialize_entry("offset", &location.offset.filter(|_| !is_made))?;
        row.serialize_entry("stored_nbytes", &location.stored_nbytes)?;
        row.serialize_entry("encoding", location.encoding.name())?;
        if self.hash {
            row.serialize_entry("blake3", &blake3.map(|hash| hash.to_hex().to_string()))?;
        }
        match quant {
            Some(Ok(quant)) => row.serialize_entry("quant", &quant.to_value())?,
            Some(Err(error)) => row.serialize_entry("quant", &Object::from_iter([("error", &**error)]))?,
            None => {}
        }
        row.end()
    }
}
