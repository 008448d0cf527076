//! What `verify` looks at. The format has no checksum; all its rules are checked when a file is opened.

use modelfmt_core::source::Files;
use modelfmt_core::{Part, Report, VerifyLevel};

use crate::index::Index;
use crate::set::SetReader;

/// The report on one file that has been opened.
pub(crate) fn file(index: &Index, level: VerifyLevel) -> Report {
    let mut report = Report::new(level);
    let looked_at =
        format!("{} tensors, which cover the data of {} bytes", index.tensors().len(), index.file_len());
    report.add("structure", Vec::new(), looked_at);
    report
}

/// The report on a set: every file opens, and the index and the files agree on who has what.
pub(crate) fn set<F: Files>(set: &SetReader<F>, level: VerifyLevel) -> Report {
    let index = set.index();
    let mut findings = Vec::new();
    let mut held = vec![0usize; index.files().len()];
    for position in 0..index.names().len() {
        let Some((name, file)) = index.names().name(position).zip(index.home(position)) else { continue };
        let Ok(shard) = set.shard(file) else { continue }; // reported once, below
        if shard.tensors().find(name).is_some() {
            held.get_mut(file).into_iter().for_each(|count| *count += 1);
        } else {
            let part = Part::entry("tensor", position as u64).with_name(name);
            findings.push(format!(
                "{part}: the index says that it is in {:?}, which does not have it",
                path(set, file)
            ));
        }
    }
    for (file, held) in held.into_iter().enumerate() {
        match set.shard(file) {
            Err(error) => findings.push(chain(&error)),
            Ok(shard) if shard.tensors().len() == held => {}
            Ok(shard) => unlisted(set, file, shard.index(), &mut findings),
        }
    }
    let mut report = Report::new(level);
    let looked_at = format!("{} tensors in {} files", index.names().len(), index.files().len());
    report.add("structure", findings, looked_at);
    report
}

/// The tensors of a file that the index does not look for there.
fn unlisted<F: Files>(set: &SetReader<F>, file: usize, shard: &Index, findings: &mut Vec<String>) {
    let home = |name| set.find(name).and_then(|position| set.index().home(position));
    let mut strangers = shard.tensors().iter().filter(|tensor| home(tensor.name) != Some(file));
    // Many paths may lead to one file: a line for each tensor of each would be a product.
    for tensor in strangers.by_ref().take(MAX_UNLISTED) {
        let part = Part::named("tensor", tensor.name);
        findings.push(format!("{part}: is in {:?}, but the index does not say so", path(set, file)));
    }
    let more = strangers.count();
    if more > 0 {
        let path = path(set, file);
        findings.push(format!("{more} more tensors are in {path:?}, but the index does not say so"));
    }
}

/// How many tensors of a file are named that the index does not look for there.
const MAX_UNLISTED: usize = 20;

fn path<F: Files>(set: &SetReader<F>, file: usize) -> &str {
    set.index().files().name(file).unwrap_or_default()
}

/// An error with its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
