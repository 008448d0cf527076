//! The tensors as a tree of the parts of their names.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::answers::Result;
use crate::args::Args;
use crate::session;

/// The most branches that are listed; the page says how many more there are.
const MOST: usize = 2000;

/// Everything below a part of a name.
#[derive(Default)]
struct Branch {
    tensors: u64,
    parameters: u64,
    nbytes: u64,
    /// Whether a tensor has exactly this name.
    is_tensor: bool,
    /// Whether there are longer names.
    has_more: bool,
}

/// Returns the branches below `prefix`, in the order of the file, with their sums. A name is split after each
/// dot or slash.
pub(crate) fn tree(args: &Args) -> Result {
    let session = session::current()?;
    let prefix = args.text("prefix").unwrap_or_default();
    let mut names = Vec::new();
    let mut branches = HashMap::<&str, Branch>::new();
    for info in &session.model {
        let Some(rest) = info.name.strip_prefix(prefix) else { continue };
        let end = rest.find(['.', '/']).map_or(rest.len(), |at| at + 1);
        let name = rest.get(..end).unwrap_or(rest);
        let branch = branches.entry(name).or_insert_with(|| {
            names.push(name);
            Branch::default()
        });
        branch.tensors += 1;
        branch.parameters = branch.parameters.saturating_add(info.elements());
        branch.nbytes = branch.nbytes.saturating_add(info.nbytes);
        branch.is_tensor |= end == rest.len();
        branch.has_more |= end < rest.len();
    }
    let shown: Vec<Value> =
        names.iter().take(MOST).filter_map(|name| Some(row(name, branches.get(name)?))).collect();
    Ok(json!({ "branches": shown, "more": names.len().saturating_sub(MOST) }).into())
}

fn row(name: &str, branch: &Branch) -> Value {
    json!({
        "name": name,
        "tensors": branch.tensors,
        "parameters": branch.parameters,
        "nbytes": branch.nbytes,
        "is_tensor": branch.is_tensor,
        "has_more": branch.has_more,
    })
}
