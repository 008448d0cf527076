//! Decodes weights that one model stores as several tensors and the other model stores in another way, so
//! that they can be compared.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use modelfmt_metadata::schemes::{Failure, Replacements, Schemes, StoredWeight};
use modelfmt_model::error::Result;
use modelfmt_model::model::Model;
use modelfmt_model::model::mapped::Program;

/// Returns both models, with these weights decoded. A weight that cannot be decoded stays as it is stored in
/// both models.
pub(super) fn both<'m>(a: &'m Model, b: &'m Model) -> Result<(Cow<'m, Model>, Cow<'m, Model>)> {
    let (of_a, of_b) = (Schemes::find(a, true)?, Schemes::find(b, true)?);
    let by_name: HashMap<&str, &StoredWeight> =
        of_b.weights.iter().map(|weight| (&*weight.name, weight)).collect();
    let (mut in_a, mut in_b) = (Replacements::default(), Replacements::default());
    for weight in &of_a.weights {
        let other = by_name.get(&*weight.name).copied();
        let is_in_b = other.is_some() || b.container().find(&weight.name).is_some();
        if !is_in_b || other.is_some_and(|other| other.text() == weight.text()) {
            continue;
        }
        let Some(program) = program(weight, a)? else { continue };
        if let Some(other) = other {
            let Some(program) = self::program(other, b)? else { continue };
            in_b.add(other, program, Some(other.text()));
        }
        in_a.add(weight, program, Some(weight.text()));
    }
    let names: HashSet<&str> = of_a.weights.iter().map(|weight| &*weight.name).collect();
    let alone =
        |weight: &&StoredWeight| !names.contains(&*weight.name) && a.container().find(&weight.name).is_some();
    for weight in of_b.weights.iter().filter(alone) {
        if let Some(program) = program(weight, b)? {
            in_b.add(weight, program, Some(weight.text()));
        }
    }
    Ok((in_a.apply(a)?, in_b.apply(b)?))
}

/// Returns the program that decodes a weight; `None` if it cannot be decoded.
fn program(weight: &StoredWeight, model: &Model) -> Result<Option<Program>> {
    match weight.program(model) {
        Ok(program) => Ok(Some(program)),
        Err(Failure::Why(_)) => Ok(None),
        Err(Failure::Read(error)) => Err(error),
    }
}
