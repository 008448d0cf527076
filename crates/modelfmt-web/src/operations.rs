//! The operations, by their names.

use std::collections::BTreeMap;

use modelfmt::inspect::InspectOptions;
use modelfmt::model::Globs;
use modelfmt::value::json;
use modelfmt::{DType, Execution, Model, Value as Tree};
use serde_json::{Value, json};

use crate::answers::{self, Answer, Refusal, Result, usage};
use crate::args::Args;
use crate::options;
use crate::session::{self, Search, Session, Sort};
use crate::{atlas, jobs, tree, trust, values};

/// Executes an operation, and answers in JSON and bytes.
pub(crate) fn call(name: &str, args: &[u8]) -> (String, Vec<u8>) {
    answers::sent(Args::parse(args).and_then(|args| run(name, &args)))
}

fn run(name: &str, args: &Args) -> Result {
    match name {
        "open" => open(args),
        "inspect" => inspect(args),
        "metadata" => metadata(args),
        "rows" => rows(args),
        "find" => {
            Ok(json!({ "position": session::current()?.model.find(args.need_text("tensor")?)? }).into())
        }
        "tree" => tree::tree(args),
        "positions" => atlas::positions(args),
        "atlas" => atlas::atlas(args),
        "magnitudes" => atlas::magnitudes(args),
        "tensor" => values::tensor(args),
        "corner" => values::corner(args),
        "image" => values::image(args),
        "sample" => values::sample(args),
        "hex" => values::hex(args),
        "read" => values::read(args),
        "stats" => values::stats(args),
        "choose" => jobs::choose(args),
        "verify" => jobs::verify(args),
        "diff" => jobs::diff(args),
        "prove" => trust::prove(args),
        "bom" => trust::bom(args),
        "policy" => trust::policy(args),
        "targets" => Ok(jobs::targets().into()),
        "types" => Ok(jobs::types().into()),
        "convert" => jobs::convert(args),
        other => Err(usage(format!("there is no operation {other:?}"))),
    }
}

fn open(args: &Args) -> Result {
    let options = options::opening(args)?.ignore_checksum(args.is("ignore_checksum"));
    let model = session::open(args.need_text("name")?, &options)?;
    Ok(summary(&session::keep(model).model)?.into())
}

/// Describes a model in a few numbers.
fn summary(model: &Model) -> Result<Value, Refusal> {
    let mut by_dtype = BTreeMap::<DType, [u64; 3]>::new();
    for info in model {
        let [tensors, elements, nbytes] = by_dtype.entry(info.dtype).or_default();
        *tensors += 1;
        *elements = elements.saturating_add(info.elements());
        *nbytes = nbytes.saturating_add(info.nbytes);
    }
    let total = |which: usize| {
        let of = |sums: &[u64; 3]| sums.get(which).copied().unwrap_or(0);
        by_dtype.values().map(of).fold(0, u64::saturating_add)
    };
    let dtypes = by_dtype.iter().map(|(dtype, [tensors, elements, nbytes])| {
        json!({ "dtype": dtype.name(), "tensors": tensors, "parameters": elements, "nbytes": nbytes })
    });
    let can_be_sealed = model.format().properties().embedded_signatures;
    let details = if can_be_sealed { model.details()? } else { Tree::Null };
    let detail = |key: &str| details.as_object().and_then(|details| details.get(key));
    let pins: Vec<String> = model.pins()?.iter().map(ToString::to_string).collect();
    Ok(json!({
        "path": model.path().to_string_lossy(),
        "format": model.format().name(),
        "version": model.container().version(),
        "file_size": model.container().file_size(),
        "tensors": model.tensor_count(),
        "parameters": total(1),
        "nbytes": total(2),
        "dtypes": dtypes.collect::<Vec<_>>(),
        "pins": pins,
        "signatures": detail("signatures"),
        "encryption": detail("encryption"),
    }))
}

/// Returns the output of `modelfmt inspect --json` as bytes, because JavaScript's numbers cannot represent
/// every integer.
fn inspect(args: &Args) -> Result {
    let session = session::current()?;
    let mut options = InspectOptions::new().hash(args.is("hash"));
    if let Some(pattern) = args.text("tensors") {
        options = options.tensors(Globs::new([pattern]).map_err(|error| usage(error.to_string()))?);
    }
    let work = Execution { threads: 1, progress: Some(&crate::host::advance) };
    let json = serde_json::to_vec_pretty(&modelfmt::inspect::inspect(&session.model, &options, &work)?)?;
    Ok(Answer::from(Value::Null).with_bytes(json))
}

/// Returns metadata and details key by key, with each value cut, or one of them in full.
fn metadata(args: &Args) -> Result {
    let session = session::current()?;
    let trees = [("metadata", session.model.metadata()?), ("details", session.model.details()?)];
    if let Some(key) = args.text("key") {
        let part = args.text("part").unwrap_or("metadata");
        let tree = trees.iter().find(|(name, _)| *name == part).map(|(_, tree)| tree);
        let value = tree.and_then(Tree::as_object).and_then(|object| object.get(key));
        let value = value.ok_or_else(|| usage(format!("there is no {part} {key:?}")))?;
        let text = json::to_string_pretty(value).map_err(|error| usage(error.to_string()))?;
        return Ok(Value::from(text).into());
    }
    let most = args.size("cut").unwrap_or(400);
    let entries = |tree: &Tree| {
        let entries = tree.as_object().into_iter().flat_map(|object| object.iter());
        entries.map(|(key, value)| entry(key, value, most)).collect::<Vec<_>>()
    };
    Ok(json!(trees.iter().map(|(name, tree)| (*name, entries(tree))).collect::<BTreeMap<_, _>>()).into())
}

fn entry(key: &str, value: &Tree, most: usize) -> Value {
    let start = match value {
        Tree::String(text) => text.chars().take(most + 1).collect(),
        other => json::start(other, most + 1),
    };
    let is_cut = start.chars().count() > most;
    let start = match value {
        Tree::Object(_) if !is_cut => json::to_string_pretty(value).unwrap_or(start),
        _ => start,
    };
    json!({ "key": key, "text": if is_cut { start.chars().take(most).collect() } else { start }, "is_cut": is_cut })
}

/// Returns a page of the list of tensors: those that match `query`, ordered by `sort`, largest first if
/// `descending`.
fn rows(args: &Args) -> Result {
    let session = session::current()?;
    let found = session.find(&Search {
        query: args.text("query").unwrap_or_default().to_owned(),
        sort: Sort::named(args.text("sort").unwrap_or_default())?,
        descending: args.is("descending"),
    })?;
    let (from, count) = (args.size("from").unwrap_or(0), args.size("count").unwrap_or(100));
    let page = found.iter().skip(from).take(count);
    let rows = page.filter_map(|&number| row(&session, usize::try_from(number).ok()?));
    Ok(json!({ "total": found.len(), "rows": rows.collect::<Vec<_>>() }).into())
}

fn row(session: &Session, position: usize) -> Option<Value> {
    let info = session.model.container().info(position)?;
    Some(json!({
        "position": position,
        "name": info.name,
        "dtype": info.dtype.name(),
        "shape": info.shape,
        "elements": info.elements(),
        "nbytes": info.nbytes,
        "has_data": info.has_data,
    }))
}
