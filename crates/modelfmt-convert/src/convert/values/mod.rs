//! Supplies the values of the tensors that are written, in pieces: values of the source, unchanged or
//! computed by the tensors' programs.

pub(super) mod clipped;

use std::collections::BTreeSet;
use std::ops::Range;

use modelfmt_core::{DType, Execution};
use modelfmt_write::{BoxError, TensorData};
use tensor_program::ReadError;

use clipped::{Clipped, Counts};
use modelfmt_model::checked::CheckedValues;
use modelfmt_model::error::{Error, Result};
use modelfmt_model::job::tensors::{Item, Origin, OutputTensors, ScaledBy};
use modelfmt_model::model::Model;

/// Values of a model, computed by the programs of its tensors while they are read. Memory does not depend on the size of the tensors.
pub(crate) struct Values<'a> {
    model: &'a Model,
    source: CheckedValues<'a>,
    tensors: &'a OutputTensors,
    /// The counts of lost values for items that are not copied, by the number of the item.
    counts: Vec<(usize, Counts)>,
    /// The counts of lost values for items whose values the model itself computes, for example by merging an
    /// adapter into f16.
    computed: Vec<(usize, Counts)>,
}

impl<'a> Values<'a> {
    /// Prepares to read all tensors. With `verify`, values are checked while they are read.
    pub(crate) fn new(model: &'a Model, tensors: &'a OutputTensors, verify: bool) -> Result<Self> {
        Self::of(model, tensors, &(0..tensors.items.len()), verify)
    }

    /// Prepares to read only the tensors in `numbers`, otherwise like [`new`](Self::new).
    pub(crate) fn of(
        model: &'a Model,
        tensors: &'a OutputTensors,
        numbers: &Range<usize>,
        verify: bool,
    ) -> Result<Self> {
        let OutputTensors { items, scalings, .. } = tensors;
        let read = items.get(numbers.clone()).unwrap_or_default();
        let position = |item: &Item| match item.origin {
            Origin::Model(position) => Some(position),
            _ => None,
        };
        let positions = read.iter().filter_map(position);
        let has_data = |&position: &usize| model.container().info(position).is_some_and(|info| info.has_data);
        let mut positions: Vec<usize> = positions.filter(has_data).collect();
        let used = read.iter().filter_map(|item| scalings.get(item.scaling?));
        let scale_tensors = used.filter_map(|scales| match scales {
            ScaledBy::Tensor(scales) => Some(scales.position),
            ScaledBy::Quant(_) => None,
        });
        positions.extend(scale_tensors.collect::<BTreeSet<_>>());
        let source = CheckedValues::new(model, &positions, verify)?;
        let of = |which: &dyn Fn(&Item) -> bool| {
            let found = items.iter().enumerate().filter(|(_, item)| which(item));
            found.map(|(number, _)| (number, Counts::default())).collect()
        };
        let counts = of(&|item| !item.is_copied());
        let computed = of(&|item| position(item).is_some_and(|position| model.is_computed(position)));
        Ok(Self { model, source, tensors, counts, computed })
    }

    /// Returns notes about values that are not checked, with the reason.
    pub(crate) fn notes(&self) -> &[String] {
        self.source.notes()
    }

    /// Checks that the values match the digests in their file. The output may appear only after this check.
    pub(crate) fn finish(&self, work: &Execution<'_>) -> Result<()> {
        self.source.finish(work)
    }

    /// Does the same as [`finish`](Self::finish) for a writer that does not know this crate's errors.
    /// [`failure`](Self::failure) returns the error.
    pub(super) fn finish_and_keep(&self, work: &Execution<'_>) -> Result<(), BoxError> {
        self.source.finish(work).map_err(|error| self.source.keep((usize::MAX, 0), error))
    }

    /// Returns the error that stopped a writer, if values could not be read.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.source.failure()
    }

    /// Returns the items that lost values. `name` gives the name for the number of an item.
    pub(crate) fn clipped<'n>(&self, name: impl Fn(usize) -> &'n str) -> Vec<Clipped> {
        let of = |all: &[(usize, Counts)], dtype: fn(&Item) -> DType| {
            let clipped = all.iter().filter_map(|(number, counts)| {
                let item = self.tensors.items.get(*number)?;
                counts.of(name(*number), dtype(item))
            });
            clipped.collect::<Vec<_>>()
        };
        let mut clipped = of(&self.computed, |item| item.from);
        clipped.extend(of(&self.counts, |item| item.to));
        clipped
    }

    fn item(&self, number: usize) -> Option<(Item, usize)> {
        let item = *self.tensors.items.get(number)?;
        match item.origin {
            Origin::Model(position) => Some((item, position)),
            _ => None,
        }
    }

    /// Fills `out` with values as they are in their file, or as the model computes them.
    fn fill(&self, number: usize, position: usize, offset: u64, out: &mut [u8]) -> Result<(), BoxError> {
        let lost = self.source.read_into(position, offset, out)?;
        if let Some(counts) = counts_of(&self.computed, number) {
            let dtype = self.tensors.items.get(number).map(|item| item.from);
            let values = dtype.map_or(0, |dtype| values_in(dtype, offset, out.len() as u64));
            counts.add(values, lost);
        }
        Ok(())
    }

    fn computed(&self, number: usize, offset: u64, out: &mut [u8]) -> Result<(), BoxError> {
        let (item, position) = self.item(number).ok_or(NO_VALUES)?;
        if item.is_copied() {
            return self.fill(number, position, offset, out);
        }
        let program = self.tensors.program(self.model.container(), &item)?.ok_or(NO_VALUES)?;
        let mut fill = |position: usize, at: u64, out: &mut [u8]| self.fill(number, position, at, out);
        let lost = program.read(offset, out, &mut fill).map_err(|failed| match failed {
            ReadError::Read(error) => error,
            ReadError::Values(error) => error.into(),
        })?;
        let elements = modelfmt_core::element_count(program.shape()).unwrap_or(0);
        if let Some(counts) = counts_of(&self.counts, number) {
            counts.add(values_in(item.to, offset, out.len() as u64).min(elements), lost);
        }
        Ok(())
    }
}

impl TensorData for Values<'_> {
    fn read(&self, tensor: usize, offset: u64, out: &mut [u8]) -> Result<(), BoxError> {
        // Keep the error for the caller of the writer, who adds the path of the file.
        self.computed(tensor, offset, out).map_err(|error| match error.downcast::<Error>() {
            Ok(error) => self.source.keep((tensor, offset), *error),
            Err(other) => other,
        })
    }

    fn borrow(&self, tensor: usize, range: Range<u64>) -> Option<&[u8]> {
        let (item, position) = self.item(tensor)?;
        if item.is_copied() { self.source.borrow(position, range) } else { None }
    }
}

/// Returns the counts of an item, if there are any.
fn counts_of(all: &[(usize, Counts)], number: usize) -> Option<&Counts> {
    let place = all.binary_search_by_key(&number, |(number, _)| *number).ok()?;
    all.get(place).map(|(_, counts)| counts)
}

/// Returns the number of elements that lie at least partly in these bytes.
fn values_in(dtype: DType, offset: u64, nbytes: u64) -> u64 {
    let Some(block) = dtype.block() else { return 0 };
    let (elements, len) = (u64::from(block.elements), u64::from(block.nbytes).max(1));
    let end = offset.saturating_add(nbytes).div_ceil(len);
    end.saturating_sub(offset / len).saturating_mul(elements)
}

const NO_VALUES: &str = "the tensor has no values";
