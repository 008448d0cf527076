//! Finds the origin of each tensor of DERIVED, and checks it.

use std::collections::BTreeSet;

use modelfmt_core::{Execution, TensorInfo};

use super::base::{Base, BaseTensor, Derivation, unit};
use super::compare::{Difference, StopAt, Task, compare};
use super::steps::{Variant, fits};
use super::ties::Ties;
use super::{ProveOptions, ProvedTensor, TensorResult, renamed};
use modelfmt_model::checked::CheckedValues;
use modelfmt_model::error::Result;
use modelfmt_model::model::Model;

/// A tensor of DERIVED and what is known about it.
struct Tensor {
    /// The tensors of BASE with this name: decoded, if it can be, and as stored.
    origins: Vec<BaseTensor>,
    /// The derivations from these tensors to its dtype and shape, the most direct first.
    derivations: Vec<Derivation>,
    /// The number of the derivation that gives these bytes, or else of the first one, and the difference.
    outcome: Option<(usize, Difference)>,
    /// Whether the tensor is declared without values, as in BASE.
    is_declared: bool,
}

/// The tensors of DERIVED, in their order.
pub(super) struct Tensors<'a> {
    base: &'a Base<'a>,
    derived: &'a Model,
    all: Vec<Tensor>,
    /// The tensors that were found under another name.
    renamed: renamed::Found,
    /// The names of the tensors of BASE from which tensors with the same name are made.
    known: BTreeSet<String>,
}

/// The results of all tensors.
pub(super) struct Results {
    pub(super) tensors: Vec<ProvedTensor>,
    /// Whether all tensors are exact or excused.
    pub(super) is_ok: bool,
    /// The source that most of the tensors come from.
    pub(super) source: usize,
}

impl<'a> Tensors<'a> {
    pub(super) fn new(base: &'a Base<'a>, derived: &'a Model) -> Result<Self> {
        let (mut all, mut known) = (Vec::new(), BTreeSet::new());
        for position in 0..derived.tensor_count() {
            let info = derived.info(position)?;
            let origins = base.find(info.name);
            known.extend(origins.iter().flat_map(|origin| base.names(*origin)));
            let derivations =
                if info.has_data { base.derivations(&origins, info.dtype, info.shape)? } else { Vec::new() };
            let is_same =
                |own: TensorInfo<'_>| !own.has_data && own.dtype == info.dtype && fits(own.shape, info.shape);
            let is_declared =
                !info.has_data && origins.iter().any(|origin| base.info(*origin).is_some_and(is_same));
            all.push(Tensor { origins, derivations, outcome: None, is_declared });
        }
        Ok(Self { base, derived, all, renamed: renamed::Found::default(), known })
    }

    /// Compares the tensors that BASE has under the same name. The derivations are tried in order until
    /// one is exact.
    pub(super) fn compare(&mut self, work: &Execution<'_>) -> Result<()> {
        let base = self.base;
        let readers = base.readers(&self.all.iter().flat_map(|tensor| &tensor.derivations))?;
        let most = self.all.iter().map(|tensor| tensor.derivations.len()).max().unwrap_or(0);
        for number in 0..most {
            // A tensor with only one derivation is skipped here: all its differences are counted below.
            let is_open = |tensor: &Tensor| tensor.outcome.is_none() && tensor.derivations.len() > 1;
            self.try_derivation(number, StopAt::FirstDifference, &readers, &is_open, work)?;
        }
        self.try_derivation(0, StopAt::End, &readers, &|tensor| tensor.outcome.is_none(), work)?;
        readers.iter().try_for_each(|reader| reader.finish(work))
    }

    /// Compares the tensors for which `is_open` returns true, each by its derivation with this number.
    /// An outcome is kept if it is exact, or if all differences were counted.
    fn try_derivation(
        &mut self,
        number: usize,
        stop_at: StopAt,
        readers: &[CheckedValues<'_>],
        is_open: &dyn Fn(&Tensor) -> bool,
        work: &Execution<'_>,
    ) -> Result<()> {
        let open = self.all.iter().enumerate().filter(|(_, tensor)| is_open(tensor));
        let tasks = open.filter_map(|(position, tensor)| {
            Some(Task { position, derivation: tensor.derivations.get(number)? })
        });
        let tasks: Vec<Task<'_>> = tasks.collect();
        let positions: Vec<usize> = tasks.iter().map(|task| task.position).collect();
        let found = compare(self.derived, readers, &tasks, stop_at, work)?;
        for (position, difference) in positions.into_iter().zip(found) {
            if let Some(tensor) = self.all.get_mut(position)
                && (stop_at == StopAt::End || difference.different == 0)
            {
                tensor.outcome = Some((number, difference));
            }
        }
        Ok(())
    }

    /// Looks for the tensors that BASE does not have under the same name.
    pub(super) fn find_others(&mut self, work: &Execution<'_>) -> Result<()> {
        let others = self.all.iter().enumerate().filter(|(_, tensor)| tensor.origins.is_empty());
        let others: Vec<usize> = others.map(|(position, _)| position).collect();
        self.renamed = renamed::find(self.base, self.derived, &others, &self.known, work)?;
        Ok(())
    }

    /// Returns the results of the tensors of DERIVED, and of the tensors that it lacks.
    pub(super) fn results(self, options: &ProveOptions) -> Results {
        let base = self.base;
        let (mut proved, mut is_ok) = (Vec::new(), true);
        let ties = Ties::of(base.model);
        // The tensors of BASE that a tensor of DERIVED is made from.
        let mut used = self.known.clone();
        let mut counts = vec![0_u64; base.count()];
        // For each group of equal tensors, the first derivation that may use a tensor of BASE that is not
        // used yet.
        let mut next = vec![0_usize; self.renamed.groups.len()];
        for (position, tensor) in self.all.iter().enumerate() {
            let Some(info) = self.derived.container().info(position) else { continue };
            let mut one = foreign(&info);
            let renamed =
                self.renamed.take(position, &mut next, |derivation| is_new(base, derivation, &used));
            let is_tie = |derivation: &Derivation| ties.allow(info.name, &base.names(derivation.from));
            let renamed = renamed.filter(|(derivation, is_new)| *is_new || is_tie(derivation));
            let derivation = match renamed {
                Some((derivation, _)) => Some(derivation),
                None => tensor.derivations.get(tensor.outcome.map_or(0, |(number, _)| number)),
            };
            let origin =
                derivation.map(|derivation| derivation.from).or_else(|| tensor.origins.first().copied());
            one.from = origin.map(|origin| base.names(origin)).unwrap_or_default();
            one.steps = derivation.map(|derivation| derivation.recipe.steps.clone()).unwrap_or_default();
            if let Some((_, is_new)) = renamed {
                one.steps.insert(0, if is_new { "rename" } else { "tie" }.to_owned());
                (one.result, one.different) = (TensorResult::Exact, 0);
            } else {
                one.judge(tensor);
                // The arithmetic of the other program is known only if it gives the same bytes.
                let is_exact = one.result == TensorResult::Exact;
                one.variant = derivation
                    .and_then(|derivation| derivation.recipe.variant)
                    .filter(|_| is_exact)
                    .map(Variant::name);
            }
            used.extend(one.from.iter().cloned());
            if let Some(count) = origin.and_then(|origin| counts.get_mut(origin.source)) {
                *count = count.saturating_add(1);
            }
            let is_excused = tensor.origins.is_empty() && options.allow_added.is_match(&one.name);
            is_ok &= one.result == TensorResult::Exact || is_excused;
            proved.push(one);
        }
        // If several sources have the most tensors, take the last one, which is BASE itself.
        let source = counts.iter().enumerate().max_by_key(|(_, count)| **count).map_or(0, |(at, _)| at);
        let missing = missing(base, source, &used);
        is_ok &= !options.require_all || missing.is_empty();
        proved.extend(missing);
        Results { tensors: proved, is_ok, source }
    }
}

/// Checks whether a derivation uses a tensor of BASE that no tensor is made from yet.
fn is_new(base: &Base<'_>, derivation: &Derivation, used: &BTreeSet<String>) -> bool {
    base.names(derivation.from).iter().any(|name| !used.contains(name))
}

/// Returns the tensors of BASE that a source has and from which no tensor of DERIVED is made.
fn missing(base: &Base<'_>, source: usize, used: &BTreeSet<String>) -> Vec<ProvedTensor> {
    let (mut missing, mut seen) = (Vec::new(), BTreeSet::new());
    for position in 0..base.source(source).tensor_count() {
        let origin = BaseTensor { source, position };
        for name in base.names(origin).into_iter().filter(|name| !used.contains(name)) {
            let own = base.model.container().find(&name).and_then(|at| base.model.container().info(at));
            let Some(info) = own.or_else(|| base.info(origin)) else { continue };
            if seen.insert(name.clone()) {
                missing.push(ProvedTensor { name, result: TensorResult::Missing, ..foreign(&info) });
            }
        }
    }
    missing
}

/// Returns the result for a tensor that nothing in BASE gives.
fn foreign(info: &TensorInfo<'_>) -> ProvedTensor {
    let (_, len) = unit(info.dtype);
    let blocks = if info.has_data { info.nbytes.div_ceil(len) } else { 0 };
    ProvedTensor {
        name: info.name.to_owned(),
        from: Vec::new(),
        steps: Vec::new(),
        result: TensorResult::Foreign,
        blocks,
        has_blocks: info.dtype.block().is_some_and(|block| block.elements > 1),
        different: blocks,
        max_abs: None,
        variant: None,
    }
}

impl ProvedTensor {
    /// Sets the result of a tensor whose name BASE has.
    fn judge(&mut self, tensor: &Tensor) {
        match tensor.outcome {
            Some((_, difference)) => {
                (self.different, self.max_abs) = (difference.different, difference.max_abs);
                let is_exact = difference.different == 0;
                self.result = if is_exact { TensorResult::Exact } else { TensorResult::Differs };
            }
            None if tensor.is_declared => (self.result, self.different) = (TensorResult::Exact, 0),
            None => {}
        }
    }
}
