//! The bytes of DERIVED that belong to nothing. A file could hide content in them although all of its tensors
//! are exact.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};

use modelfmt_core::{AnyError, Execution, VerifyLevel};

use modelfmt_model::error::Result;
use modelfmt_model::model::Model;

/// The number of bytes that are read at once.
const PIECE: u64 = 1 << 20;

/// The ranges of values in each file, by the number of the file.
type Values = BTreeMap<usize, Vec<Range<u64>>>;

/// Finds everything in DERIVED that its format does not describe, unless DERIVED is a copy of BASE, byte for
/// byte. A finding that both have is no excuse in other files, because its text does not say which bytes it is
/// about.
pub(super) fn unlike(base: &Model, derived: &Model, work: &Execution<'_>) -> Result<Vec<String>> {
    let found = find(derived, work)?;
    if !found.is_empty() && is_copy(base, derived, work)? { Ok(Vec::new()) } else { Ok(found) }
}

/// Checks whether two models have the same files, byte for byte, whatever the names of the files are.
fn is_copy(base: &Model, derived: &Model, work: &Execution<'_>) -> Result<bool> {
    let (of_base, of_derived) = (base.files(), derived.files());
    if of_base.len() != of_derived.len() {
        return Ok(false);
    }
    for (one, other) in of_base.iter().zip(&of_derived) {
        let (one, other) = (one.source()?, other.source()?);
        if one.len() != other.len() {
            return Ok(false);
        }
        let mut at = 0;
        while at < one.len() {
            if work.advance(0) == ControlFlow::Break(()) {
                return Err(derived.failed(AnyError::Cancelled));
            }
            let end = one.len().min(at.saturating_add(PIECE));
            let failed = |model: &Model, source| {
                model.failed(AnyError::Io { at, len: end.saturating_sub(at), source })
            };
            let read = one.read(at..end).map_err(|error| failed(base, error))?;
            if *read != *other.read(at..end).map_err(|error| failed(derived, error))? {
                return Ok(false);
            }
            at = end;
        }
    }
    Ok(true)
}

/// Finds everything in a model that its format does not describe: bytes between and after the tensors, and
/// anything that its format forbids.
fn find(model: &Model, work: &Execution<'_>) -> Result<Vec<String>> {
    // These bytes do not count as progress of the proof.
    let quiet = |_| work.advance(0);
    let report =
        model.verify_with(VerifyLevel::Full, &Execution { threads: work.threads, progress: Some(&quiet) });
    if work.advance(0) == ControlFlow::Break(()) {
        return Err(model.failed(AnyError::Cancelled));
    }
    let mut found = report.errors;
    if !model.format().properties().ends_with_values {
        return Ok(found);
    }
    for (file, mut ranges) in values(model)? {
        let source = model.container().source_of(file).map_err(|error| model.failed(error))?;
        ranges.sort_by_key(|range| range.start);
        let mut end = ranges.first().map_or(source.len(), |range| range.start);
        ranges.push(source.len()..source.len());
        for range in ranges {
            if end < range.start && !is_padding(model, file, end..range.start)? {
                let name = if model.format().is_set() {
                    format!("file {}, ", file.saturating_add(1))
                } else {
                    String::new()
                };
                found.push(format!("{name}bytes {end} to {}: they belong to no tensor", range.start));
            }
            end = end.max(range.end);
        }
    }
    Ok(found)
}

/// Returns the ranges of the values of all tensors.
fn values(model: &Model) -> Result<Values> {
    let mut values = Values::new();
    for position in 0..model.tensor_count() {
        let stored = model.container().stored(position).map_err(|error| model.failed(error))?;
        if let Some(offset) = stored.offset {
            let range = offset..offset.saturating_add(stored.nbytes);
            values.entry(stored.file).or_default().push(range);
        }
    }
    Ok(values)
}

/// Checks whether a range is padding: all its bytes are 0, or all are 0xFF, which magnetron uses.
fn is_padding(model: &Model, file: usize, range: Range<u64>) -> Result<bool> {
    let (mut at, mut first) = (range.start, None);
    let mut buffer = Vec::new();
    while at < range.end {
        let len = PIECE.min(range.end.saturating_sub(at));
        buffer.resize(usize::try_from(len).unwrap_or_default(), 0);
        model.container().read_file(file, at, &mut buffer).map_err(|error| model.failed(error))?;
        let byte = *first.get_or_insert_with(|| buffer.first().copied().unwrap_or_default());
        if !matches!(byte, 0 | 0xFF) || buffer.iter().any(|other| *other != byte) {
            return Ok(false);
        }
        at = at.saturating_add(len);
    }
    Ok(true)
}
