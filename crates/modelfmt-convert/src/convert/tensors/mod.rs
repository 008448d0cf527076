//! Selects the tensors to write, and their order and dtypes.

pub(super) mod dedupe;
pub(crate) mod filter;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) mod importance;
mod notes;
mod presets;
pub(super) mod scales;
pub(super) mod tied;
pub(super) mod types;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use modelfmt_core::{DType, DisplayShape, Kind, TensorInfo};

use super::warnings::Warning;
use filter::Filter;
use modelfmt_metadata::names::FROM_CONFIG;
use modelfmt_metadata::quants;
use modelfmt_metadata::reserved::Reserved;
use modelfmt_metadata::schemes::is_weight;
use modelfmt_metadata::source::Content;
use modelfmt_model::error::{Error, Result};
use modelfmt_model::formats::Format;
use modelfmt_model::formats::capabilities::{Capabilities, Metadata, holds_every_value};
use modelfmt_model::job::tensors::{Item, Origin, OutputTensors, ScaledBy, Shape};
use modelfmt_model::model::Model;
use modelfmt_model::quant::Quant;
use modelfmt_rules::options::renamed::Renamed;
use modelfmt_rules::options::rules::{Quantization, TypeChange};
use modelfmt_rules::options::{ConvertOptions, Declared};
use modelfmt_rules::presets::About;
use modelfmt_rules::wording::unsupported::Unsupported;
use modelfmt_rules::wording::{Note, Remedy};
use scales::{Scaled, Scales};
use types::{Candidate, Decision, TypeRules};

/// Selects and converts tensors for a target.
pub(super) struct Chooser<'a> {
    model: &'a Model,
    target: &'static Capabilities,
    options: &'a ConvertOptions,
    filter: Filter<'a>,
    rules: TypeRules<'a>,
    chosen: OutputTensors,
    unsupported: Vec<Unsupported>,
    /// What is known about the scales of tensors, by position. Tensors that are not in the map have no scales.
    scaled: BTreeMap<usize, Scaled>,
    /// The positions of scales that weights are multiplied by, and that are therefore not written.
    used_scales: BTreeSet<usize>,
    /// Scales and zero points of tensors without values that the reserved key of the source lists, by their names.
    declared_quants: HashMap<String, Quant>,
    /// The number of tensors that are dequantized by their own scales and zero points.
    applied_quants: u64,
    /// Parts of the source that no target can keep.
    losses: Vec<Unsupported>,
    /// Notes about what was taken from a config.json next to the model.
    from_config: BTreeSet<String>,
    #[cfg(not(target_arch = "wasm32"))]
    importance: importance::Importance,
    /// The number of tensors so far, including tensors that are only listed.
    place: u64,
}

/// The result of [`Chooser::choose`].
pub(super) struct Found {
    pub(crate) tensors: OutputTensors,
    pub(crate) unsupported: Vec<Unsupported>,
    /// Losses, which are errors unless the options allow them.
    pub(crate) losses: Vec<Unsupported>,
    pub(crate) notes: Vec<Note>,
    pub(crate) warnings: Vec<Warning>,
}

impl<'a> Chooser<'a> {
    pub(crate) fn new(
        model: &'a Model,
        target: &'static Capabilities,
        options: &'a ConvertOptions,
    ) -> Result<Self> {
        Ok(Self {
            model,
            target,
            options,
            filter: Filter::new(options)?,
            rules: TypeRules::new(&options.types.rules, target)?,
            chosen: OutputTensors::default(),
            unsupported: Vec::new(),
            scaled: BTreeMap::new(),
            used_scales: BTreeSet::new(),
            declared_quants: HashMap::new(),
            applied_quants: 0,
            losses: Vec::new(),
            from_config: BTreeSet::new(),
            #[cfg(not(target_arch = "wasm32"))]
            importance: importance::Importance::open(model, options.types.imatrix.as_deref())?,
            place: 0,
        })
    }

    /// Chooses from the tensors of the model, and from the tensors without values that its reserved key
    /// lists, in their order.
    pub(crate) fn choose(mut self, content: &Content) -> Result<Found> {
        let reserved = content.reserved.as_ref();
        self.check_types();
        self.find_quants(reserved);
        self.find_scales()?;
        self.plan_presets(content);
        self.rename(reserved)?;
        let mut listed = reserved.map_or(&[][..], |reserved| &reserved.declared).iter().peekable();
        let mut scalars = reserved.map_or(&[][..], |reserved| &reserved.shapes).to_vec();
        scalars.sort_unstable();
        let (mut place, mut listed_before) = (0, 0);
        let order = self.order(reserved.map_or(&[], |reserved| &reserved.order));
        for position in order {
            while let Some((_, declared)) = listed.next_if(|(index, _)| *index <= place) {
                self.declare(declared, listed_before);
                (place, listed_before) = (place + 1, listed_before + 1);
            }
            let info = self.model.info(position)?;
            let was_scalar =
                info.shape == [1] && scalars.binary_search_by(|s| s.as_str().cmp(info.name)).is_ok();
            self.add(position, info, was_scalar)?;
            place += 1;
        }
        listed.zip(listed_before..).for_each(|((_, declared), number)| self.declare(declared, number));
        for declared in &self.options.oinf.declare {
            self.declare_new(declared, &declared.name, &Scaled::No);
        }
        self.filter.check(self.model)?;
        self.rules.check_names(self.model)?;
        self.unsupported.extend(self.rules.presets().unsupported());
        if self.unsupported.is_empty() {
            self.rules.check_acts(self.model, || self.packed_weights())?;
        }
        self.chosen.order = self.sorted();
        let (notes, warnings) = (self.notes(), self.rules.warnings());
        Ok(Found {
            tensors: self.chosen,
            unsupported: self.unsupported,
            losses: self.losses,
            notes,
            warnings,
        })
    }

    /// Finds the new names of the tensors that are written, including those without values that the reserved key lists.
    fn rename(&mut self, reserved: Option<&Reserved>) -> Result<()> {
        if self.options.tensors.rename.is_empty() {
            return Ok(());
        }
        let model = self.model;
        let count = model.tensor_count();
        let mut names = Vec::new();
        for position in 0..count {
            let name = model.info(position)?.name;
            if self.would_take(position) && !self.used_scales.contains(&position) {
                names.push((position, name));
            }
        }
        let listed = reserved.map_or(&[][..], |reserved| &reserved.declared);
        for (number, (_, declared)) in listed.iter().enumerate() {
            if self.filter.would_take(&declared.name) {
                names.push((count.saturating_add(number), &declared.name));
            }
        }
        self.chosen.renamed = Renamed::of(&self.options.tensors.rename, &names)
            .map_err(|fault| Error::rename(model.path(), fault))?;
        Ok(())
    }

    /// Checks whether the filters take the tensor at a position. Does not count it.
    fn would_take(&mut self, position: usize) -> bool {
        let origins = self.model.origins(position);
        origins.is_empty() || origins.into_iter().any(|name| self.filter.would_take(name))
    }

    /// Returns the output name of the tensor at a position.
    fn name(&self, position: usize, old: &str) -> String {
        self.chosen.renamed.name(position).unwrap_or(old).to_owned()
    }

    /// Finds the tensors whose scales and zero points the reserved key lists.
    fn find_quants(&mut self, reserved: Option<&Reserved>) {
        let Some(Reserved { quants, declared, .. }) = reserved else { return };
        let declared: HashMap<&str, &Declared> =
            declared.iter().map(|(_, declared)| (&*declared.name, declared)).collect();
        let quants::Found { of_tensors, others } = quants::find(self.model, quants);
        self.scaled.extend(of_tensors.into_iter().map(|(position, quant)| (position, Scaled::Quant(quant))));
        for (name, quant) in others {
            match declared.get(&*name) {
                Some(declared) if quant.fits(&declared.shape) => {
                    self.declared_quants.insert(name, quant);
                }
                _ if !self.filter.would_take(&name) => {}
                _ => {
                    let why = "there is no tensor of that name which they fit";
                    self.losses.push(Unsupported::loss(quants::SUBJECT, &name, why));
                }
            }
        }
    }

    /// Finds the scales of all weights, and the scales that are not written because their weights are
    /// multiplied by them.
    fn find_scales(&mut self) -> Result<()> {
        let model = self.model;
        for position in 0..model.tensor_count() {
            if let Some(scheme) = model.scheme(position) {
                self.scaled.insert(position, Scaled::Stored(scheme.to_owned()));
            }
        }
        if self.options.types.scales.is_empty() && !model.tensors().any(|info| is_weight(info.dtype)) {
            return Ok(());
        }
        let mut scales = Scales::new(model, &self.options.types.scales)?;
        // The scales of weights that are written as they are.
        let mut needed = BTreeSet::new();
        for (position, info) in model.tensors().enumerate() {
            let mut scaled = scales.of(&info);
            if self.scaled.contains_key(&position) {
                if scaled == Scaled::No {
                    continue;
                }
                scaled = Scaled::Unclear(quants::TWICE.to_owned());
            }
            let origins = model.origins(position);
            let candidate = Candidate {
                name: info.name,
                origins: &origins,
                keeps_dtype: model.keeps_dtype(position),
                dtype: info.dtype,
                shape: info.shape,
                scaled: &scaled,
            };
            if let Scaled::By(scaling) = &scaled
                && self.would_take(position)
            {
                if self.rules.decodes(candidate) {
                    self.used_scales.insert(scaling.position);
                    self.from_config.extend(scales.note(position, scaling));
                } else {
                    needed.insert(scaling.position);
                }
            }
            match scaled {
                Scaled::No => {}
                Scaled::Unclear(why) if !is_weight(info.dtype) => {
                    let unsupported = Unsupported::tensor(info.name, why, Some(Remedy::Scales));
                    self.unsupported.push(unsupported);
                }
                known => drop(self.scaled.insert(position, known)),
            }
        }
        self.used_scales.retain(|position| !needed.contains(position));
        scales.check()
    }

    /// Asks the presets for the dtypes of all tensors that will be written.
    fn plan_presets(&mut self, content: &Content) {
        if self.rules.presets().is_empty() {
            return;
        }
        let architecture = content.architecture(self.options);
        if let Some(found) = content.architecture_of_config(self.options) {
            self.from_config
                .insert(format!("types are chosen for the architecture {found:?}, {FROM_CONFIG}"));
        }
        let model = self.model;
        let mut tensors = Vec::new();
        for (position, info) in model.tensors().enumerate() {
            if self.would_take(position) && !self.used_scales.contains(&position) {
                tensors.push((info.name, info.shape));
            }
        }
        let about = About {
            architecture,
            heads_per_key: architecture.and_then(|name| heads_per_key(content, name)),
            #[cfg(not(target_arch = "wasm32"))]
            has_importance: self.importance.is_known(),
            #[cfg(target_arch = "wasm32")]
            has_importance: false,
        };
        self.unsupported.extend(self.rules.presets().plan(about, &tensors));
    }

    /// Returns the positions of the model's tensors in the order in which they are written: file order, or
    /// the original order from the reserved key if the source's format sorts tensors
    /// (docs/formats/conversion.md#order).
    fn order(&self, stated: &[u64]) -> Vec<usize> {
        let count = self.model.container().tensor_count();
        let mut seen = vec![false; count];
        let positions = stated.iter().filter_map(|&position| {
            let position = usize::try_from(position).ok()?;
            let seen = seen.get_mut(position)?;
            (!std::mem::replace(seen, true)).then_some(position)
        });
        let stated: Vec<usize> = positions.collect();
        if self.model.format().properties().sorted && stated.len() == count {
            stated
        } else {
            (0..count).collect()
        }
    }

    /// For a target that sorts its index, returns the position of each tensor there. Empty if the tensors are
    /// sorted already.
    fn sorted(&self) -> Vec<u64> {
        if !self.target.properties.sorted {
            return Vec::new();
        }
        let names: Vec<&str> = self
            .chosen
            .items
            .iter()
            .map(|item| self.chosen.name(Some(self.model.container()), item))
            .collect();
        if names.is_sorted() {
            return Vec::new();
        }
        let mut by_name: Vec<usize> = (0..names.len()).collect();
        by_name.sort_unstable_by_key(|&number| names.get(number));
        let mut order = vec![0; names.len()];
        for (position, number) in (0u64..).zip(by_name) {
            order.get_mut(number).into_iter().for_each(|place| *place = position);
        }
        order
    }

    /// Reports each requested dtype that the target lacks once, not for every tensor.
    fn check_types(&mut self) {
        let asked = self.options.types.rules.iter().filter_map(|rule| match rule.change {
            TypeChange::Cast(dtype) | TypeChange::Quantize(Quantization::Type(dtype)) => {
                Some((rule.choice(), dtype))
            }
            TypeChange::Quantize(Quantization::Preset(_)) | TypeChange::Dequantize(_) => None,
        });
        let mut reported = Vec::new();
        for (choice, dtype) in asked.filter(|&(_, dtype)| !self.target.has(dtype)) {
            if !reported.contains(&(choice, dtype)) {
                let other = self.target.format.version_with(dtype);
                let other = other.map_or_else(String::new, |other| format!(", but {other} has"));
                let why = format!("{} has no {dtype}{other}", self.target.format);
                self.unsupported.push(Unsupported::choice(choice, dtype, why, None));
                reported.push((choice, dtype));
            }
        }
    }

    fn add(&mut self, position: usize, info: TensorInfo<'_>, was_scalar: bool) -> Result<()> {
        let origins = self.model.origins(position);
        let taken = origins.iter().filter(|name| self.filter.takes(name)).count();
        if taken > 0 && taken < origins.len() {
            let why = format!("only {taken} of the {} tensors that it is made of are chosen", origins.len());
            self.unsupported.push(Unsupported::tensor(info.name, why, Some(Remedy::Exclude)));
        }
        if taken == 0 && !origins.is_empty() || self.used_scales.contains(&position) {
            return Ok(());
        }
        let scaled = self.scaled.remove(&position).unwrap_or_default();
        let name = self.name(position, info.name);
        if !info.has_data && !self.target.declared {
            self.keep_quant(&name, scaled);
            self.list(Declared { name, dtype: info.dtype, shape: info.shape.to_vec() });
            return Ok(());
        }
        let shape = self.check(&name, info.shape, was_scalar);
        let source = self.model.stored_format(position);
        let candidate = Candidate {
            name: info.name,
            origins: &origins,
            keeps_dtype: self.model.keeps_dtype(position),
            dtype: info.dtype,
            shape: info.shape,
            scaled: &scaled,
        };
        let (to, is_decoded) = self.dtype(candidate, source);
        self.check_rows(&info, to);
        #[cfg(not(target_arch = "wasm32"))]
        self.weigh(position, &info, to)?;
        let mut item = Item { origin: Origin::Model(position), from: info.dtype, to, shape, scaling: None };
        let scales = match scaled {
            Scaled::By(scaling) if is_decoded => Some(ScaledBy::Tensor(scaling)),
            Scaled::Quant(quant) if is_decoded => {
                self.applied_quants += 1;
                info.has_data.then(|| ScaledBy::Quant(quant.affine(info.shape)))
            }
            other => {
                self.keep_quant(&name, other);
                None
            }
        };
        if let Some(scales) = scales {
            item.scaling = Some(self.chosen.scalings.len());
            self.chosen.scalings.push(scales);
        }
        if info.has_data
            && !item.is_copied()
            && let Err(error) = self.chosen.program(self.model.container(), &item)
        {
            self.unsupported.push(Unsupported::tensor(info.name, error.to_string(), Some(Remedy::Exclude)));
        }
        self.push(item, &name, info.shape);
        Ok(())
    }

    /// Keeps scales and zero points of a tensor for the target.
    fn keep_quant(&mut self, name: &str, scaled: Scaled) {
        if let Scaled::Quant(quant) = scaled {
            self.chosen.quants.push((name.to_owned(), quant));
        }
    }

    /// Checks that copied blocks have the layout of the target. APR pads each row of a q4_k matrix to whole
    /// blocks, and other formats pad no row.
    fn check_rows(&mut self, info: &TensorInfo<'_>, to: DType) {
        let is_copied = to == info.dtype && to.is_quantized() && self.target.has(to) && info.has_data;
        if is_copied && self.target.nbytes(to, info.shape) != Some(info.nbytes) {
            let shape = DisplayShape(info.shape);
            let why = format!(
                "the rows of {shape} are no whole blocks of {to}, and {} stores those otherwise",
                self.target.format
            );
            self.unsupported.push(Unsupported::tensor(info.name, why, self.remedy(to, None)));
        }
    }

    fn push(&mut self, item: Item, name: &str, shape: &[u64]) {
        if item.to.is_quantized() {
            let elements = modelfmt_core::element_count(shape).unwrap_or(u64::MAX);
            let sum = self.chosen.blocks.entry(item.to).or_default();
            *sum = sum.saturating_add(elements);
        }
        if item.shape == Shape::One {
            self.chosen.scalars.push(name.to_owned());
        }
        self.chosen.items.push(item);
        self.place += 1;
    }

    /// Adds a tensor without values that the reserved key of the source lists.
    fn declare(&mut self, declared: &Declared, number: usize) {
        if !self.filter.takes(&declared.name) {
            return;
        }
        let quant = self.declared_quants.remove(&declared.name).map_or(Scaled::No, Scaled::Quant);
        let position = self.model.tensor_count().saturating_add(number);
        let (old, name) = (&declared.name, self.name(position, &declared.name));
        let declared = Declared { name, ..declared.clone() };
        let is_decoded = self.target.declared && self.declare_new(&declared, old, &quant);
        if !is_decoded {
            self.keep_quant(&declared.name, quant);
        }
        if !self.target.declared {
            self.list(declared);
        }
    }

    /// Adds a tensor without values. Rules match its old name. Returns whether its scales are applied.
    fn declare_new(&mut self, declared: &Declared, name: &str, scaled: &Scaled) -> bool {
        let shape = self.check(&declared.name, &declared.shape, false);
        let (dtype, shape_of) = (declared.dtype, &declared.shape);
        let candidate =
            Candidate { name, origins: &[name], keeps_dtype: false, dtype, shape: shape_of, scaled };
        let (to, is_decoded) = self.dtype(candidate, self.model.format());
        let origin = Origin::Declared(self.chosen.declared.len());
        self.chosen.declared.push(declared.clone());
        let item = Item { origin, from: declared.dtype, to, shape, scaling: None };
        self.push(item, &declared.name, &declared.shape);
        is_decoded
    }

    /// Lists a tensor without values for a target that cannot declare it.
    fn list(&mut self, declared: Declared) {
        if self.target.metadata != Metadata::Json {
            let why =
                format!("it has no values, and {} cannot hold a tensor without values", self.target.format);
            self.unsupported.push(Unsupported::tensor(&declared.name, why, Some(Remedy::Exclude)));
            return;
        }
        self.chosen.listed.push((self.place, declared));
        self.place += 1;
    }

    /// Checks the name and the shape, and returns how the shape changes.
    fn check(&mut self, name: &str, shape: &[u64], was_scalar: bool) -> Shape {
        if let Some(why) = self.target.name_fault(name) {
            self.unsupported.push(Unsupported::tensor(name, why, Some(Remedy::Exclude)));
        }
        if shape.len() > self.target.max_rank {
            let Capabilities { format, max_rank, .. } = self.target;
            let shape = DisplayShape(shape);
            let why = format!("the shape {shape} has more dimensions than the {max_rank} of {format}");
            self.unsupported.push(Unsupported::tensor(name, why, Some(Remedy::Exclude)));
        }
        match shape.len() {
            0 if self.target.min_rank > 0 => Shape::One,
            1 if was_scalar && self.target.min_rank > 0 => Shape::One,
            1 if was_scalar => Shape::Scalar,
            _ => Shape::Same,
        }
    }

    /// Returns the output dtype of a tensor, and whether it is decoded. If there is an error, the dtype is
    /// its own.
    fn dtype(&mut self, tensor: Candidate<'_>, source: Format) -> (DType, bool) {
        let Candidate { name, dtype: from, shape, scaled, .. } = tensor;
        let (to, is_decoded) = match self.rules.decide(tensor) {
            Decision::Refused(unsupported) => {
                self.unsupported.push(unsupported);
                return (from, false);
            }
            Decision::Becomes(to, TypeChange::Dequantize(_)) => (self.fitting(name, to, source), true),
            Decision::Becomes(to, _) => (Some(to), false),
            Decision::Stays => (self.unchanged(tensor, source), false),
        };
        let Some(to) = to else { return (from, false) };
        if to != from && to.nbytes(shape).is_none() {
            let shape = DisplayShape(shape);
            let why = format!("the shape {shape} does not divide into whole blocks of {to}");
            let remedy = self.nearest(to.kind()).map(|to| Remedy::Cast { to, by_name: true });
            self.unsupported.push(Unsupported::tensor(name, why, remedy));
        }
        debug_assert!(
            !is_decoded || from.is_quantized() || *scaled != Scaled::No,
            "there is something to decode"
        );
        (to, is_decoded)
    }

    /// Returns the dtype of a tensor that no rule changes: its own, or a wider one if the target lacks it.
    fn unchanged(&mut self, tensor: Candidate<'_>, source: Format) -> Option<DType> {
        let Candidate { name, dtype: from, scaled, .. } = tensor;
        // Scales and zero points that the file has for a tensor are kept, and stay valid for the same numbers
        // in a wider dtype.
        let is_same = |to: DType| matches!(scaled, Scaled::Quant(_)) && holds_every_value(to, from);
        let known = self.unsupported.len();
        let to = self.fitting(name, from, source);
        if to != Some(from) && *scaled != Scaled::No && !is_same(to.unwrap_or(from)) {
            let (why, remedy) = types::lacks_scales(tensor);
            self.unsupported.truncate(known);
            self.unsupported.push(Unsupported::tensor(name, why, Some(remedy)));
            return None;
        }
        to
    }

    /// Returns the dtype itself, or a wider one if the target lacks it; `None` if the tensor has to be
    /// refused.
    fn fitting(&mut self, name: &str, dtype: DType, source: Format) -> Option<DType> {
        let widened = self.target.widened(dtype);
        match widened {
            _ if self.target.has(dtype) => Some(dtype),
            Some(wide) if self.options.types.widen => Some(wide),
            _ => {
                let why =
                    format!("{source}'s {dtype} is not in {}{}", self.target.format, self.elsewhere(dtype));
                self.unsupported.push(Unsupported::tensor(name, why, self.remedy(dtype, widened)));
                None
            }
        }
    }

    /// Returns text that names another version of the target that has the dtype.
    fn elsewhere(&self, dtype: DType) -> String {
        self.target.format.version_with(dtype).map_or_else(String::new, |other| format!(", but in {other}"))
    }

    /// Returns the remedy for a dtype that the target lacks.
    fn remedy(&self, dtype: DType, widened: Option<DType>) -> Option<Remedy> {
        if dtype.is_quantized() {
            return Some(Remedy::Dequantize(DType::F32));
        }
        if let Some(wide) = widened {
            return Some(Remedy::Widen(wide));
        }
        if dtype.kind() == Kind::Opaque {
            return Some(Remedy::Exclude);
        }
        let to = self.nearest(dtype.kind())?;
        Some(Remedy::Cast { to, by_name: dtype.kind() != Kind::Float })
    }

    /// Returns a common dtype of this kind that the target has.
    fn nearest(&self, kind: Kind) -> Option<DType> {
        let order: &[DType] = match kind {
            Kind::Float => &[DType::F32, DType::F16],
            _ => &[DType::I64, DType::I32],
        };
        order.iter().copied().find(|&other| self.target.has(other))
    }
}

/// Returns how many query heads share a key head in the first layer, according to the metadata keys of GGUF.
fn heads_per_key(content: &Content, architecture: &str) -> Option<u64> {
    let number = |key: &str| {
        let value = content.key(&format!("{architecture}.attention.{key}"))?;
        let value = value.as_object().and_then(|typed| typed.get("value")).unwrap_or(value);
        let first = |layers: &modelfmt_core::value::List| layers.get(0)?.as_u64();
        value.as_array().map_or_else(|| value.as_u64(), first)
    };
    let heads = number("head_count")?;
    // If the key is missing, llama.cpp assumes that there are as many key heads as query heads.
    Some(heads.checked_div(number("head_count_kv").unwrap_or(heads)).unwrap_or_default())
}

/// Returns the dtype of a tensor after it is multiplied by its scales, if it is dequantized. The error says
/// why it cannot be.
pub(super) fn scaled_dtype(from: DType, decoded: Option<DType>, scaled: &Scaled) -> Result<DType, String> {
    match (decoded, scaled) {
        (None, _) => Ok(from),
        (Some(float), Scaled::By(_) | Scaled::Quant(_) | Scaled::Stored(_)) => Ok(float),
        (Some(_), Scaled::Unclear(why)) => Err(why.clone()),
        (Some(_), Scaled::No) if is_weight(from) => {
            Err(format!("no scales for this {from} are known; if it has none, cast it instead"))
        }
        (Some(_), Scaled::No) => Ok(from),
    }
}
