//! Data that a GGUF carries if it is made from a hub folder, so that the folder can be restored from it.

use std::collections::BTreeMap;

use modelfmt_hub::back::{ExtraKeys, extra_keys, file_names, inverse_programs};
use modelfmt_hub::{Config, HubTensor, Key, Map, MapError, Mapped};
use modelfmt_metadata::config;
use modelfmt_model::error::{Error, Result};
use modelfmt_model::model::{Model, mapped::Program};
use modelfmt_rules::wording::Note;

/// The maximum number of bytes of tensors that are carried in addition to those of the GGUF.
const MAX_VALUES: u64 = 256 << 20;
/// The bytes of a tensor that are compared at once.
const PIECE: usize = 1 << 20;

/// Returns the keys for what the others, `all`, do not say. Adds notes about what cannot be carried.
pub(crate) fn keys(
    model: &Model,
    (map, read): (&Map, &Config),
    tensors: &[HubTensor<'_>],
    (mapped, all): (&Mapped, &[(String, Key)]),
    notes: &mut Vec<Note>,
) -> Result<Vec<(String, Key)>> {
    let failed = |error: MapError| Error::Unmapped {
        path: model.path().to_owned(),
        why: error.to_string(),
        help: None,
    };
    let mut left = MAX_VALUES;
    let (mut values, mut too_large) = (Vec::new(), 0_u64);
    for (number, program) in inverse_programs(mapped).map_err(failed)? {
        let Some(tensor) = tensors.get(number) else { continue };
        let own = Program::input(number, tensor.dtype, tensor.shape);
        if are_same(model, &program, &own)? {
            continue;
        }
        let len = own.nbytes().unwrap_or(u64::MAX);
        match left.checked_sub(len) {
            Some(rest) => {
                left = rest;
                let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
                model.read_into(number, 0, &mut bytes)?;
                values.push((number, bytes));
            }
            None => too_large += 1,
        }
    }
    if too_large > 0 {
        notes.push(Note::from(format!(
            "{too_large} tensors cannot be restored bit for bit from the GGUF: more than {} MiB would have to travel in it",
            MAX_VALUES >> 20
        )));
    }
    let mut extra = extra_keys(map, read.written(), tensors, mapped, values).map_err(failed)?;
    extra.add_files(&files(model, notes), all);
    let ExtraKeys { keys, notes: more } = extra;
    notes.extend(more.into_iter().map(Note::from));
    Ok(keys)
}

/// Reads the files beside the model that are carried.
fn files(model: &Model, notes: &mut Vec<Note>) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for (name, max_len) in file_names() {
        match config::file(model.sidecars(), name, max_len) {
            Ok(found) => files.extend(found.map(|bytes| (name.to_owned(), bytes))),
            Err(why) => notes.push(Note::from(format!("{name} is not stored in the GGUF: {why}"))),
        }
    }
    files
}

/// Checks whether two programs over the tensors of a model have the same values. The values are read in
/// pieces.
pub(crate) fn are_same(model: &Model, a: &Program, b: &Program) -> Result<bool> {
    if (a.dtype(), a.shape()) != (b.dtype(), b.shape()) {
        return Ok(false);
    }
    let Some(len) = a.nbytes() else { return Ok(false) };
    let mut at = 0_u64;
    let (mut of_a, mut of_b) = (Vec::new(), Vec::new());
    while at < len {
        let count = usize::try_from(len - at).unwrap_or(usize::MAX).min(PIECE);
        let can_both = read(model, a, at, count, &mut of_a)? && read(model, b, at, count, &mut of_b)?;
        if !can_both || of_a != of_b {
            return Ok(false);
        }
        at += count as u64;
    }
    Ok(true)
}

/// Reads a range of the values of a program. Returns whether they can be computed.
fn read(model: &Model, program: &Program, at: u64, count: usize, out: &mut Vec<u8>) -> Result<bool> {
    out.resize(count, 0);
    let mut inputs = |number: usize, at: u64, out: &mut [u8]| model.read_into(number, at, out);
    match program.read(at, out, &mut inputs) {
        Ok(_) => Ok(true),
        Err(tensor_program::ReadError::Read(error)) => Err(error),
        Err(_) => Ok(false),
    }
}
