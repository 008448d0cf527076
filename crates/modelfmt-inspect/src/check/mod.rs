//! Finds suspicious values: NaN, infinities, values far beyond the others, tensors that are all zero or
//! constant, tensors that are equal to another tensor, an index that disagrees with its files, and templates
//! that could run code.

mod duplicates;
mod pickle;
mod report;
mod scan;
mod template;
mod text;

use std::collections::HashMap;

use modelfmt_core::author::with_causes;
use modelfmt_core::{Execution, VerifyLevel};

use modelfmt_model::error::Result;
use modelfmt_model::model::Model;
use modelfmt_model::tied_weights::Ties;

pub use pickle::check_pickle;
pub use report::{CheckReport, PickleFindings, TensorFindings, TextFinding};
use scan::Found;
pub(crate) use scan::Piece;
pub use tensor_stats::{Outlier, Powers};

/// Reads every value of a model once, on as many threads as `work` allows. Reports the tensors that contain
/// NaN or infinities, have a value far beyond the others, are all zero, are constant, or are equal to an
/// earlier one. For a set, it also reports where the index and the files disagree. Blocks are decoded.
/// Tensors that may have a value far beyond the others are read once more.
///
/// Texts in the metadata, and the templates in the files next to the model, are searched for code that a
/// template renderer could run, and for invisible characters. Long lists of texts, such as vocabularies, are
/// not searched.
///
/// Tensors of one element are checked only for NaN and infinities; tensors without elements or data are only
/// counted. Two tensors are equal if they have the same dtype, shape and bytes. Fingerprints find candidates,
/// and BLAKE3 hashes prove that they are equal. Hashes and checksums in the file are not checked: use
/// [`Model::verify`] for that.
///
/// ```
/// use modelfmt::{Execution, Model, View};
/// use modelfmt::check::check;
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.safetensors");
/// let (w, zeros) = ([1.0, f32::NAN], [0.0f32; 2]);
/// let tensors = [("w", View::new(&w, [2])?), ("bias", View::new(&zeros, [2])?)];
/// modelfmt::save(&path, tensors, &Default::default())?;
/// let report = check(&Model::open(&path)?, &Execution::default())?;
/// assert!(!report.is_ok());
/// assert_eq!((report.tensors[0].nan, report.tensors[1].is_zero), (1, true));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the format has no list of tensors, values cannot be read, or the progress callback stops the work.
/// Missing files of a set are reported as a finding, not as an error.
pub fn check(model: &Model, work: &Execution<'_>) -> Result<CheckReport> {
    Ok(check_and(model, work, |_| Ok(()), |_, ()| {})?.0)
}

/// Checks a model like [`check`], but ignores the files next to it. Use this if they belong to another model.
///
/// # Errors
/// Those of [`check`].
pub fn check_alone(model: &Model, work: &Execution<'_>) -> Result<CheckReport> {
    let mut report = check(model, work)?;
    report.texts = text::of_metadata(model).findings;
    Ok(report)
}

/// Checks a model, and computes something else from the values in the same pass: `also` is called for each
/// piece, and `take` receives its results in order, with the position of the tensor. If tensors share their
/// bytes, only the first is read. Also returns, for the position of each tensor with values, the position of
/// that first tensor.
pub(crate) fn check_and<T: Send>(
    model: &Model,
    work: &Execution<'_>,
    also: impl Fn(&Piece<'_>) -> Result<T> + Sync,
    mut take: impl FnMut(usize, T) + Send,
) -> Result<(CheckReport, HashMap<usize, usize>)> {
    model.expect_tensors()?;
    let mut report = CheckReport::new(model.path());
    report.disagreements = disagreements(model, work);
    report.pickle = pickle::of_model(model);
    let mut positions = Vec::new();
    for position in 0..model.tensor_count() {
        match model.info(position) {
            Ok(info) if info.has_data && info.elements() > 0 => positions.push(position),
            Ok(_) => report.without_values += 1,
            // Report a missing file once, for the whole set.
            Err(error) if report.disagreements.is_empty() => {
                report.disagreements.push(with_causes(&error));
            }
            Err(_) => {}
        }
    }
    let ties = Ties::of(model, positions.iter().copied())?;
    ties.check_reading(model)?;
    let take = |place: usize, made: T| {
        if let Some(&position) = ties.firsts.get(place) {
            take(position, made);
        }
    };
    let found = scan::scan(model, &ties.firsts, work, also, take)?;
    let outliers = outliers(model, &ties, &found, work)?;
    let same = duplicates::duplicates(model, &positions, &ties, &found, work)?;
    report.set_checked(positions.len());
    for (&position, group) in positions.iter().zip(&ties.groups) {
        let (Some(info), Some(found)) = (model.container().info(position), found.get(*group)) else {
            continue;
        };
        report.add(info, found, outliers.get(group).cloned(), name_of(model, same.get(&position)));
    }
    let texts = text::texts(model);
    (report.texts, report.unsearched) = (texts.findings, texts.not_searched);
    let first_of = |group: &usize| ties.firsts.get(*group).copied();
    let firsts = positions.iter().zip(&ties.groups);
    let firsts = firsts.filter_map(|(&position, group)| Some((position, first_of(group)?)));
    Ok((report, firsts.collect()))
}

/// Finds the outliers, by the number of each tensor's group.
fn outliers(
    model: &Model,
    ties: &Ties,
    found: &[Found],
    work: &Execution<'_>,
) -> Result<HashMap<usize, (Outlier, Powers)>> {
    const AT_ONCE: usize = 64; // each takes 16 KiB
    let groups = ties.firsts.iter().zip(found).enumerate();
    let groups = groups.filter(|(_, (_, found))| found.values.may_have_outlier());
    let (groups, positions): (Vec<usize>, Vec<usize>) =
        groups.map(|(group, (&first, _))| (group, first)).unzip();
    let mut outliers = HashMap::new();
    for (groups, positions) in groups.chunks(AT_ONCE).zip(positions.chunks(AT_ONCE)) {
        let of = scan::outliers(model, positions, work)?;
        let of = groups.iter().zip(of).filter_map(|(&group, outlier)| Some((group, outlier?)));
        outliers.extend(of);
    }
    Ok(outliers)
}

/// Returns the disagreements between the index of a set and its files.
fn disagreements(model: &Model, work: &Execution<'_>) -> Vec<String> {
    if !model.format().is_set() {
        return Vec::new();
    }
    let no_progress = |_| work.advance(0);
    model.container().verify(VerifyLevel::Header, &Execution { progress: Some(&no_progress), ..*work }).errors
}

fn name_of(model: &Model, position: Option<&usize>) -> Option<String> {
    Some(model.container().info(*position?)?.name.to_owned())
}
