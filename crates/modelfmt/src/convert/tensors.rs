//! Which tensors are written, in which order, and as what.

use std::collections::BTreeMap;

use modelfmt_core::{DType, DisplayShape, Kind, TensorInfo};

use super::cast::is_number;
use super::chosen::{Item, Origin, Shape, Tensors};
use super::fit::{Examples, Unsupported};
use super::options::{ConvertOptions, Declared, TypeRule};
use super::reserved::Reserved;
use super::rules::{Filter, Rules};
use crate::choice::Choice;
use crate::error::Result;
use crate::formats::capabilities::{Capabilities, Metadata};
use crate::model::Model;
use crate::words::{Note, Remedy};

/// Chooses tensors for a target.
pub(super) struct Chooser<'a> {
    model: &'a Model,
    target: &'static Capabilities,
    options: &'a ConvertOptions,
    filter: Filter<'a>,
    cast: Rules<'a>,
    dequantize: Rules<'a>,
    quantize: Rules<'a>,
    chosen: Tensors,
    unsupported: Vec<Unsupported>,
    /// How many tensors change from one type to another.
    changes: BTreeMap<(DType, DType), u64>,
    /// Float tensors that `--quantize` leaves as they are, by the type that they would have got.
    unquantized: BTreeMap<DType, Vec<String>>,
    /// The number of tensors so far, also those that are only listed.
    place: u64,
}

/// What [`Chooser::choose`] finds.
pub(super) struct Found {
    pub(crate) tensors: Tensors,
    pub(crate) unsupported: Vec<Unsupported>,
    pub(crate) notes: Vec<Note>,
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
            cast: Rules::new(Choice::Cast, &options.cast)?,
            dequantize: Rules::new(Choice::Dequantize, &options.dequantize)?,
            quantize: Rules::new(Choice::Quantize, &options.quantize)?,
            chosen: Tensors::default(),
            unsupported: Vec::new(),
            changes: BTreeMap::new(),
            unquantized: BTreeMap::new(),
            place: 0,
        })
    }

    /// Goes through the tensors of the model, and those without values that its reserved key lists, in their order.
    pub(crate) fn choose(mut self, reserved: Option<&Reserved>) -> Result<Found> {
        self.check_types();
        let mut listed = reserved.map_or(&[][..], |reserved| &reserved.declared).iter().peekable();
        let mut scalars = reserved.map_or(&[][..], |reserved| &reserved.shapes).to_vec();
        scalars.sort_unstable();
        let container = self.model.container();
        let mut place = 0;
        for position in 0..container.tensor_count() {
            while let Some((_, declared)) = listed.next_if(|(index, _)| *index <= place) {
                self.declare(declared);
                place += 1;
            }
            let info = self.model.info(position)?;
            let was_scalar =
                info.shape == [1] && scalars.binary_search_by(|s| s.as_str().cmp(info.name)).is_ok();
            self.add(position, info, was_scalar);
            place += 1;
        }
        listed.for_each(|(_, declared)| self.declare(declared));
        for declared in &self.options.declare {
            self.declare_new(declared);
        }
        self.filter.check(self.model)?;
        for rules in [&self.cast, &self.dequantize, &self.quantize] {
            rules.check(self.model)?;
        }
        let notes = self.notes();
        Ok(Found { tensors: self.chosen, unsupported: self.unsupported, notes })
    }

    /// Types that were asked for and that the target lacks are said once, not for each tensor.
    fn check_types(&mut self) {
        let rules = |choice, rules: &'a [TypeRule]| rules.iter().map(move |rule| (choice, rule.dtype));
        let asked =
            rules(Choice::Cast, &self.options.cast).chain(rules(Choice::Quantize, &self.options.quantize));
        let mut said = Vec::new();
        for (choice, dtype) in asked.filter(|&(_, dtype)| !self.target.has(dtype)) {
            if !said.contains(&(choice, dtype)) {
                let why = format!("{} has no {dtype}", self.target.format);
                self.unsupported.push(Unsupported::choice(choice, dtype, why));
                said.push((choice, dtype));
            }
        }
    }

    fn add(&mut self, position: usize, info: TensorInfo<'_>, was_scalar: bool) {
        if !self.filter.takes(info.name) {
            return;
        }
        if !info.has_data && !self.target.declared {
            self.list(Declared { name: info.name.to_owned(), dtype: info.dtype, shape: info.shape.to_vec() });
            return;
        }
        let shape = self.check(info.name, info.shape, was_scalar);
        let to = self.dtype(info.name, info.dtype, info.shape);
        let item = Item { origin: Origin::Model(position), from: info.dtype, to, shape };
        self.push(item, info.name, info.shape);
    }

    fn push(&mut self, item: Item, name: &str, shape: &[u64]) {
        if item.from != item.to {
            *self.changes.entry((item.from, item.to)).or_default() += 1;
        }
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

    /// A tensor without values that the reserved key of the source lists.
    fn declare(&mut self, declared: &Declared) {
        if !self.filter.takes(&declared.name) {
            return;
        }
        if self.target.declared {
            self.declare_new(declared);
        } else {
            self.list(declared.clone());
        }
    }

    fn declare_new(&mut self, declared: &Declared) {
        let shape = self.check(&declared.name, &declared.shape, false);
        let to = self.dtype(&declared.name, declared.dtype, &declared.shape);
        let origin = Origin::Declared(self.chosen.declared.len());
        self.chosen.declared.push(declared.clone());
        let item = Item { origin, from: declared.dtype, to, shape };
        self.push(item, &declared.name, &declared.shape);
    }

    /// A tensor without values, for a target that cannot declare it.
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

    /// Checks name and shape, and says what becomes of the shape.
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

    /// The type that a tensor gets, if its shape divides into whole blocks of it.
    fn dtype(&mut self, name: &str, from: DType, shape: &[u64]) -> DType {
        let to = self.chosen_dtype(name, from, shape);
        if to != from && to.nbytes(shape).is_none() {
            let shape = DisplayShape(shape);
            let why = format!("the shape {shape} does not divide into whole blocks of {to}");
            let remedy = self.nearest(to.kind()).map(|to| Remedy::Cast { to, by_name: true });
            self.unsupported.push(Unsupported::tensor(name, why, remedy));
        }
        to
    }

    /// The type that a tensor gets; its own where something is wrong.
    fn chosen_dtype(&mut self, name: &str, from: DType, shape: &[u64]) -> DType {
        let mut dtype = from;
        let decoded = self.dequantize.find(name, true);
        if let Some(float) = decoded.filter(|_| from.is_quantized()) {
            if !ggml_quant::can_decode(from) {
                let why = format!("there is no decoder for {from}");
                self.unsupported.push(Unsupported::tensor(name, why, Some(Remedy::Exclude)));
                return from;
            }
            dtype = float;
        }
        let blocks = self.quantize.find(name, true);
        let cast = self.cast.find(name, dtype.kind() == Kind::Float);
        if let Some(blocks) = blocks.filter(|_| dtype.kind() == Kind::Float) {
            if has_whole_blocks(blocks, shape) {
                return blocks;
            }
            self.unquantized.entry(blocks).or_default().push(name.to_owned());
        }
        if let Some(to) = cast.filter(|_| is_number(dtype)) {
            return to;
        }
        let widened = self.target.widened(dtype);
        match widened {
            _ if self.target.has(dtype) => dtype,
            Some(wide) if self.options.widen => wide,
            _ => {
                let why = format!("{}'s {dtype} is not in {}", self.model.format(), self.target.format);
                self.unsupported.push(Unsupported::tensor(name, why, self.remedy(dtype, widened)));
                from
            }
        }
    }

    /// What would make a type fit.
    fn remedy(&self, dtype: DType, widened: Option<DType>) -> Option<Remedy> {
        if dtype.is_quantized() {
            let is_decoded = ggml_quant::can_decode(dtype);
            return Some(if is_decoded { Remedy::Dequantize(DType::F32) } else { Remedy::Exclude });
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

    /// A usual type of that kind that the target has.
    fn nearest(&self, kind: Kind) -> Option<DType> {
        let order: &[DType] = match kind {
            Kind::Float => &[DType::F32, DType::F16],
            _ => &[DType::I64, DType::I32],
        };
        order.iter().copied().find(|&other| self.target.has(other))
    }

    fn notes(&self) -> Vec<Note> {
        let plural = |count: u64| if count == 1 { "tensor" } else { "tensors" };
        let change = |(&(from, to), &count): (&(DType, DType), &u64)| {
            format!("{count} {}: {from} becomes {to}", plural(count))
        };
        let mut notes: Vec<Note> = self.filter.notes();
        notes.extend(self.changes.iter().map(change).map(Note::from));
        for (blocks, names) in &self.unquantized {
            let names = Examples::of(names.iter().map(String::as_str));
            notes.push(format!(
                "not quantized, because the rank is below 2 or a row is not whole blocks of {blocks}: {names}"
            ).into());
        }
        if !self.dequantize.is_empty() && !self.changes.keys().any(|(from, _)| from.is_quantized()) {
            notes.push(Note::of(&[Choice::Dequantize], "has nothing to do: no tensor is quantized"));
        }
        if !self.cast.is_empty() && self.changes.is_empty() {
            let why =
                "has nothing to do: no tensor of another type is meant, and without a glob only floats are";
            notes.push(Note::of(&[Choice::Cast], why));
        }
        if !self.chosen.scalars.is_empty() {
            let names = Examples::of(self.chosen.scalars.iter().map(String::as_str));
            notes.push(
                format!("{} has no scalars; written with shape [1]: {names}", self.target.format).into(),
            );
        }
        if !self.chosen.listed.is_empty() {
            let names = Examples::of(self.chosen.listed.iter().map(|(_, declared)| declared.name.as_str()));
            notes.push(
                format!(
                    "{} has no tensors without data; kept in its metadata, for the way back: {names}",
                    self.target.format
                )
                .into(),
            );
        }
        notes
    }
}

/// Whether `--quantize` takes a tensor of floats: matrices, as ggml's own tools do, whose rows are whole blocks.
fn has_whole_blocks(blocks: DType, shape: &[u64]) -> bool {
    let row = shape.last().copied().unwrap_or(1);
    let block = blocks.block().map_or(1, |block| u64::from(block.elements));
    shape.len() >= 2 && row.is_multiple_of(block)
}
