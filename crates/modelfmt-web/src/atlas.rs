//! Data about all tensors at once, for a picture of the model: sizes, types, groups of names, and magnitudes
//! of values.

use std::collections::HashMap;
use std::ops::Range;

use modelfmt::Model;
use serde_json::{Value, json};

use crate::answers::{Answer, Result, usage};
use crate::args::Args;
use crate::session;

/// Names are not grouped if there are more groups than this, because nobody could read their titles.
const MOST_GROUPS: usize = 4096;
/// The most elements of a tensor that are read for its magnitude, and the number of runs that they form.
const SAMPLE: u64 = 1 << 14;
const RUNS: u64 = 4;
/// The most tensors whose magnitudes are computed in one call.
const MOST: usize = 1 << 12;

/// Returns the names of types and groups, and bytes: first the sizes of all tensors in file order as `f64`,
/// then all groups as `u32`, then all types as `u8`.
pub(crate) fn atlas(_: &Args) -> Result {
    let session = session::current()?;
    let (mut types, mut groups) = (Numbers::default(), Numbers::default());
    let (mut sizes, mut of_group, mut of_type) = (Vec::new(), Vec::new(), Vec::new());
    for info in &session.model {
        let nbytes = if info.has_data { info.nbytes } else { 0 };
        sizes.extend((nbytes as f64).to_le_bytes());
        of_group.extend(groups.of(group(info.name)).to_le_bytes());
        of_type.push(u8::try_from(types.of(info.dtype.name())).unwrap_or(u8::MAX));
    }
    if groups.names.len() > MOST_GROUPS {
        groups = Numbers::default();
        groups.of("");
        of_group.fill(0);
    }
    let answer = json!({ "types": types.names, "groups": groups.names });
    sizes.append(&mut of_group);
    sizes.append(&mut of_type);
    Ok(Answer::from(answer).with_bytes(sizes))
}

/// Numbers names in the order in which they first occur.
#[derive(Default)]
struct Numbers<'a> {
    names: Vec<&'a str>,
    numbers: HashMap<&'a str, u32>,
}

impl<'a> Numbers<'a> {
    fn of(&mut self, name: &'a str) -> u32 {
        let next = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        *self.numbers.entry(name).or_insert_with(|| {
            self.names.push(name);
            next
        })
    }
}

/// Returns the part of a name that tensors of one layer share: up to and including its first number, or else
/// its first part.
fn group(name: &str) -> &str {
    let ends = name.match_indices(['.', '/']).map(|(at, _)| at);
    let mut begin = 0;
    for end in ends {
        let part = name.get(begin..end).unwrap_or_default();
        if !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) {
            return name.get(..end).unwrap_or(name);
        }
        begin = end + 1;
    }
    name.find(['.', '/']).and_then(|end| name.get(..end)).unwrap_or(name)
}

/// Returns the root mean square of a sample of each tensor's finite values, for `count` tensors from the
/// position `from` on, as bytes of `f32`. It is NaN if the sample has no finite value or cannot be read.
pub(crate) fn magnitudes(args: &Args) -> Result {
    let session = session::current()?;
    let from = args.need_size("from")?.min(session.model.tensor_count());
    let to = session.model.tensor_count().min(from.saturating_add(args.need_size("count")?.min(MOST)));
    let elements = args.number("elements").unwrap_or(SAMPLE).clamp(1, SAMPLE);
    let magnitudes = (from..to).map(|position| magnitude(&session.model, position, elements));
    Ok(Answer::from(json!(to - from)).with_bytes(magnitudes.flat_map(f32::to_le_bytes).collect()))
}

#[expect(clippy::cast_possible_truncation, reason = "a color needs no more")]
fn magnitude(model: &Model, position: usize, elements: u64) -> f32 {
    let total =
        model.container().info(position).filter(|info| info.has_data).map_or(0, |info| info.elements());
    let (mut sum, mut count) = (0.0, 0_u64);
    for range in runs(total, elements) {
        let values = modelfmt::show::numbers(model, position, range).unwrap_or_default();
        for value in values.into_iter().filter(|value| value.is_finite()) {
            sum += value * value;
            count += 1;
        }
    }
    (sum / count as f64).sqrt() as f32
}

/// Returns ranges with `wanted` elements in total, spread over `total`.
fn runs(total: u64, wanted: u64) -> impl Iterator<Item = Range<u64>> {
    let count = if total <= wanted { 1 } else { RUNS.min(wanted) };
    let len = total.min(wanted) / count;
    (0..count).map(move |number| {
        let from = u128::from(total - len) * u128::from(number) / u128::from((count - 1).max(1));
        let from = u64::try_from(from).unwrap_or(0);
        from..from + len
    })
}

/// Returns the positions of the tensors in `names`, in the order of `names`; null for a name that does not
/// exist.
pub(crate) fn positions(args: &Args) -> Result {
    let session = session::current()?;
    let names =
        args.get("names").and_then(Value::as_array).ok_or_else(|| usage("names: a list is needed"))?;
    let position = |name: &Value| session.model.find(name.as_str()?).ok();
    Ok(json!(names.iter().map(position).collect::<Vec<_>>()).into())
}
