//! Collects what a report shows about one model, with the functions of the other commands.

use std::collections::HashMap;

use modelfmt_core::author::with_causes;
use modelfmt_core::{AnyError, Execution, Report as Verification};
use modelfmt_model::error::{Error, Result};
use modelfmt_model::model::Model;

use super::ReportOptions;
use super::charts::{COLUMNS, HeatMap};
use super::profile::Profile;
use crate::bom::Stated;
use crate::check::{CheckReport, check_and};
use crate::inspect::{InspectOptions, Inspection, inspect};

/// A model with everything that is shown about it.
#[derive(Debug)]
pub(super) struct Subject<'m> {
    pub(super) inspection: Inspection<'m>,
    pub(super) stated: Stated,
    /// The names and sizes of its files. If a file cannot be opened, its size is `None`.
    pub(super) files: Vec<(String, Option<u64>)>,
    /// The findings, or the reason why values could not be read.
    pub(super) check: Result<CheckReport, String>,
    pub(super) verification: Verification,
    /// The values to show, by the positions of tensors.
    values: HashMap<usize, Values>,
    /// For each tensor, the first tensor that shares its bytes.
    firsts: HashMap<usize, usize>,
    /// The number of tensors that have no charts because there are too many tensors.
    pub(super) without_charts: usize,
}

/// What is shown about the values of a tensor.
#[derive(Clone, Debug)]
pub(super) struct Values {
    pub(super) count: u64,
    pub(super) min: f64,
    pub(super) max: f64,
    pub(super) mean: f64,
    /// The standard deviation.
    pub(super) std: f64,
    /// The sum of the squares.
    pub(super) squares: f64,
    pub(super) charts: Option<(Vec<u64>, HeatMap)>,
}

impl Values {
    fn of(profile: &Profile) -> Self {
        let (mean, std) = profile.moments();
        let shape = profile.grid.shape;
        let [across, down] = [shape.across, shape.down].map(|side| usize::try_from(side).unwrap_or(0));
        let has_charts = profile.count > 0 && across > 0;
        let map = || HeatMap::new(&profile.grid.means(), across, down);
        Self {
            count: profile.count,
            min: profile.min,
            max: profile.max,
            mean,
            std,
            squares: profile.squares,
            charts: has_charts.then(|| (profile.bins.columns(COLUMNS), map())),
        }
    }
}

impl<'m> Subject<'m> {
    /// Reads a model: its values once, and once more if the format has hashes of them. Faults in its values
    /// are shown and are not errors.
    pub(super) fn of(
        model: &'m Model,
        options: &ReportOptions,
        tensors: usize,
        work: &Execution<'_>,
    ) -> Result<Self> {
        #[cfg_attr(
            any(not(feature = "sign"), target_arch = "wasm32"),
            expect(unused_mut, reason = "the signature is set")
        )]
        let mut inspection = inspect(model, &InspectOptions::new(), work)?;
        #[cfg(all(feature = "sign", not(target_arch = "wasm32")))]
        {
            inspection.signature = model.detached_signature();
        }
        let sides = Sides::of(model, tensors);
        let (mut values, mut current) = (HashMap::new(), None::<(usize, Profile)>);
        let mut take = |position: usize, next: Option<Profile>| {
            let Some(next) = next else { return };
            match &mut current {
                Some((at, profile)) if *at == position => profile.then(&next),
                other => {
                    let info = model.container().info(position);
                    let whole = info.map(|info| Profile::whole(&info, sides.of_tensor(info.nbytes)));
                    let begun = whole.map(|mut whole| {
                        whole.then(&next);
                        (position, whole)
                    });
                    if let Some((position, done)) = std::mem::replace(other, begun) {
                        values.insert(position, Values::of(&done));
                    }
                }
            }
        };
        let side =
            |position: usize| model.container().info(position).map_or(0, |info| sides.of_tensor(info.nbytes));
        let checked = check_and(model, work, |piece| Profile::of(piece, side(piece.position)), &mut take);
        if let Some((position, done)) = current {
            values.insert(position, Values::of(&done));
        }
        let (check, firsts) = match checked {
            Ok((report, firsts)) => (Ok(report), firsts),
            Err(error) if is_cancelled(&error) => return Err(error),
            Err(error) => (Err(with_causes(&error)), HashMap::new()),
        };
        let verification = model.verify_with(options.verify, work);
        if work.advance(0).is_break() {
            return Err(model.failed(AnyError::Cancelled));
        }
        let files = model.files();
        let size =
            |file: &modelfmt_model::model::ModelFile<'_>| file.source().ok().map(modelfmt_core::Source::len);
        Ok(Self {
            stated: Stated::of(model)?,
            files: files.iter().map(|file| (file.name.clone(), size(file))).collect(),
            without_charts: sides.without(model),
            inspection,
            check,
            verification,
            values,
            firsts,
        })
    }

    /// Returns what is known about the values of the tensor at a position.
    pub(super) fn values(&self, position: usize) -> Option<&Values> {
        self.values.get(self.firsts.get(&position).unwrap_or(&position))
    }

    /// Checks that neither `check` nor `verify` has found a fault.
    pub(super) fn is_ok(&self) -> bool {
        self.check.as_ref().is_ok_and(CheckReport::is_ok) && self.verification.is_ok()
    }
}

fn is_cancelled(error: &Error) -> bool {
    matches!(error, Error::File { error: AnyError::Cancelled, .. })
}

/// The number of blocks of a heat map in each direction. It is chosen so that a page stays small, however
/// many tensors there are.
struct Sides {
    side: usize,
    /// The minimum size in bytes of a tensor with charts.
    least: u64,
}

impl Sides {
    /// The maximum number of tensors with charts.
    const MOST: usize = 4000;

    fn of(model: &Model, tensors: usize) -> Self {
        let side = match tensors {
            0..=200 => 32,
            201..=1200 => 16,
            _ => 8,
        };
        let mut sizes: Vec<u64> = model.tensors().map(|info| info.nbytes).collect();
        sizes.sort_unstable_by(|x, y| y.cmp(x));
        let least = sizes.get(Self::MOST).map_or(0, |&next| next.saturating_add(1));
        Self { side, least }
    }

    /// Returns the number of blocks for a tensor of this size in bytes; 0 if it has no charts.
    const fn of_tensor(&self, nbytes: u64) -> usize {
        if nbytes < self.least { 0 } else { self.side }
    }

    fn without(&self, model: &Model) -> usize {
        model.tensors().filter(|info| info.nbytes < self.least).count()
    }
}
