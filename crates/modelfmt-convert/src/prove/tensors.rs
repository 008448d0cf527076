//! The tensors of DERIVED: where each comes from, and whether it does.

use std::collections::BTreeSet;

use modelfmt_core::{Execution, TensorInfo};

use super::base::{Base, Given, Way, unit};
use super::compare::{Difference, Extent, Task, compare};
use super::steps::{Variant, fits};
use super::ties::Ties;
use super::{ProveOptions, ProvedTensor, TensorResult, renamed};
use modelfmt_model::checked::Checked;
use modelfmt_model::error::Result;
use modelfmt_model::model::Model;

/// A tensor of DERIVED and what is known about it.
struct Tensor {
    /// The tensors of BASE with this name: as it is stored, and decoded.
    given: Vec<Given>,
    /// The ways that lead from there to its dtype and shape, the most direct first.
    ways: Vec<Way>,
    /// The way that gives these bytes, or the first, and how that differs.
    outcome: Option<(usize, Difference)>,
    /// Whether values are declared and not there, as in BASE.
    is_declared: bool,
}

/// The tensors of DERIVED, in their order.
pub(super) struct Tensors<'a> {
    base: &'a Base<'a>,
    derived: &'a Model,
    all: Vec<Tensor>,
    /// Those that were found under another name.
    renamed: renamed::Found,
    /// The names of the tensors of BASE that others are made of under the same name.
    known: BTreeSet<String>,
}

/// The results of all tensors.
pub(super) struct Results {
    pub(super) tensors: Vec<ProvedTensor>,
    /// Whether all are exact or excused.
    pub(super) is_ok: bool,
    /// The source that most of them come from.
    pub(super) source: usize,
}

impl<'a> Tensors<'a> {
    pub(super) fn new(base: &'a Base<'a>, derived: &'a Model) -> Result<Self> {
        let (mut all, mut known) = (Vec::new(), BTreeSet::new());
        for position in 0..derived.tensor_count() {
            let info = derived.info(position)?;
            let given = base.find(info.name);
            known.extend(given.iter().flat_map(|given| base.names(*given)));
            let ways = if info.has_data { base.ways(&given, info.dtype, info.shape)? } else { Vec::new() };
            let is_same =
                |own: TensorInfo<'_>| !own.has_data && own.dtype == info.dtype && fits(own.shape, info.shape);
            let is_declared =
                !info.has_data && given.iter().any(|given| base.info(*given).is_some_and(is_same));
            all.push(Tensor { given, ways, outcome: None, is_declared });
        }
        Ok(Self { base, derived, all, renamed: renamed::Found::default(), known })
    }

    /// Compares the tensors that BASE has under the same name, one way after the other until one is exact.
    pub(super) fn compare(&mut self, work: &Execution<'_>) -> Result<()> {
        let base = self.base;
        let readers = base.readers(&self.all.iter().flat_map(|tensor| &tensor.ways))?;
        let most = self.all.iter().map(|tensor| tensor.ways.len()).max().unwrap_or(0);
        for way in 0..most {
            // A tensor with one way is counted at once.
            let is_open = |tensor: &Tensor| tensor.outcome.is_none() && tensor.ways.len() > 1;
            self.try_way(way, Extent::First, &readers, &is_open, work)?;
        }
        self.try_way(0, Extent::Whole, &readers, &|tensor| tensor.outcome.is_none(), work)?;
        readers.iter().try_for_each(|reader| reader.finish(work))
    }

    /// Compares the tensors that `is_open` names by one of their ways. An outcome is kept if it is exact, or everything was counted.
    fn try_way(
        &mut self,
        way: usize,
        extent: Extent,
        readers: &[Checked<'_>],
        is_open: &dyn Fn(&Tensor) -> bool,
        work: &Execution<'_>,
    ) -> Result<()> {
        let open = self.all.iter().enumerate().filter(|(_, tensor)| is_open(tensor));
        let tasks = open.filter_map(|(position, tensor)| Some(Task { position, way: tensor.ways.get(way)? }));
        let tasks: Vec<Task<'_>> = tasks.collect();
        let positions: Vec<usize> = tasks.iter().map(|task| task.position).collect();
        let found = compare(self.derived, readers, &tasks, extent, work)?;
        for (position, difference) in positions.into_iter().zip(found) {
            if let Some(tensor) = self.all.get_mut(position)
                && (extent == Extent::Whole || difference.different == 0)
            {
                tensor.outcome = Some((way, difference));
            }
        }
        Ok(())
    }

    /// Looks for the tensors that BASE does not have under the same name.
    pub(super) fn find_others(&mut self, work: &Execution<'_>) -> Result<()> {
        let others = self.all.iter().enumerate().filter(|(_, tensor)| tensor.given.is_empty());
        let others: Vec<usize> = others.map(|(position, _)| position).collect();
        self.renamed = renamed::find(self.base, self.derived, &others, &self.known, work)?;
        Ok(())
    }

    /// The results of the tensors of DERIVED, and of those that it lacks.
    pub(super) fn results(self, options: &ProveOptions) -> Results {
        let base = self.base;
        let (mut proved, mut is_ok) = (Vec::new(), true);
        let ties = Ties::of(base.model);
        // The tensors of BASE that a tensor of DERIVED is made of.
        let mut used = self.known.clone();
        let mut counts = vec![0_u64; base.count()];
        // Of the ways to a group of equal tensors, the first that may give one that no tensor is made of.
        let mut next = vec![0_usize; self.renamed.groups.len()];
        for (position, tensor) in self.all.iter().enumerate() {
            let Some(info) = self.derived.container().info(position) else { continue };
            let mut one = nothing(&info);
            let renamed = self.renamed.take(position, &mut next, |way| is_new(base, way, &used));
            let is_tie = |way: &Way| ties.allow(info.name, &base.names(way.given));
            let renamed = renamed.filter(|(way, is_new)| *is_new || is_tie(way));
            let way = match renamed {
                Some((way, _)) => Some(way),
                None => tensor.ways.get(tensor.outcome.map_or(0, |(way, _)| way)),
            };
            let given = way.map(|way| way.given).or_else(|| tensor.given.first().copied());
            one.from = given.map(|given| base.names(given)).unwrap_or_default();
            one.steps = way.map(|way| way.derivation.steps.clone()).unwrap_or_default();
            if let Some((_, is_new)) = renamed {
                one.steps.insert(0, if is_new { "rename" } else { "tie" }.to_owned());
                (one.result, one.different) = (TensorResult::Exact, 0);
            } else {
                one.judge(tensor);
                // How a program computes is known only where it gives the same bytes.
                let is_exact = one.result == TensorResult::Exact;
                one.variant =
                    way.and_then(|way| way.derivation.variant).filter(|_| is_exact).map(Variant::name);
            }
            used.extend(one.from.iter().cloned());
            if let Some(count) = given.and_then(|given| counts.get_mut(given.source)) {
                *count = count.saturating_add(1);
            }
            let is_excused = tensor.given.is_empty() && options.allow_added.is_match(&one.name);
            is_ok &= one.result == TensorResult::Exact || is_excused;
            proved.push(one);
        }
        // The last of those with the most tensors: BASE itself.
        let source = counts.iter().enumerate().max_by_key(|(_, count)| **count).map_or(0, |(at, _)| at);
        let missing = missing(base, source, &used);
        is_ok &= !options.complete || missing.is_empty();
        proved.extend(missing);
        Results { tensors: proved, is_ok, source }
    }
}

/// Whether a way gives a tensor of BASE that no other is made of.
fn is_new(base: &Base<'_>, way: &Way, used: &BTreeSet<String>) -> bool {
    base.names(way.given).iter().any(|name| !used.contains(name))
}

/// The tensors of BASE that a source has and that no tensor of DERIVED is made of.
fn missing(base: &Base<'_>, source: usize, used: &BTreeSet<String>) -> Vec<ProvedTensor> {
    let (mut missing, mut seen) = (Vec::new(), BTreeSet::new());
    for position in 0..base.source(source).tensor_count() {
        let given = Given { source, position };
        for name in base.names(given).into_iter().filter(|name| !used.contains(name)) {
            let own = base.model.container().find(&name).and_then(|at| base.model.container().info(at));
            let Some(info) = own.or_else(|| base.info(given)) else { continue };
            if seen.insert(name.clone()) {
                missing.push(ProvedTensor { name, result: TensorResult::Missing, ..nothing(&info) });
            }
        }
    }
    missing
}

/// A tensor that nothing gives.
fn nothing(info: &TensorInfo<'_>) -> ProvedTensor {
    let (_, len) = unit(info.dtype);
    let blocks = if info.has_data { info.nbytes.div_ceil(len) } else { 0 };
    ProvedTensor {
        name: info.name.to_owned(),
        from: Vec::new(),
        steps: Vec::new(),
        result: TensorResult::Foreign,
        blocks,
        different: blocks,
        max_abs: None,
        variant: None,
    }
}

impl ProvedTensor {
    /// Sets the result of a tensor with a name that BASE has.
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
