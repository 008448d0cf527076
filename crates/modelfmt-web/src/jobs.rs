//! Work that takes long. Each job runs in a separate worker, which opens the models itself and ends
//! afterwards, so that it can be stopped. Nothing here is inlined into code that a first look needs: it goes
//! into the second module (split.mjs), function by function.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use modelfmt::convert::{Converted, Preset, Unsupported};
use modelfmt::diff::DiffOptions;
use modelfmt::modelfmt_core::source::{Share, Source as _};
use modelfmt::value::json::start;
use modelfmt::{Conversion, DType, Execution, Format, OpenOptions, Target, Value as Tree, VerifyLevel};
use serde_json::{Value, json};

use crate::answers::{Answer, Options, Result, usage};
use crate::args::Args;
use crate::host::{self, HostOutput};
use crate::keys;
use crate::options;
use crate::session;

pub(crate) fn work() -> Execution<'static> {
    Execution { threads: 1, progress: Some(&host::advance) }
}

/// Returns the output of `modelfmt verify --json`. `signature` is the text of the file's signature, and
/// `signers` are public keys. Several workers can do this together: with `part` { number, of }, each returns
/// notes instead of a report, and the last one gets the names of all `notes` and reports.
#[inline(never)]
pub(crate) fn verify(args: &Args) -> Result {
    let level = match args.text("level").unwrap_or("full") {
        "header" => VerifyLevel::Header,
        "control" => VerifyLevel::Control,
        "full" => VerifyLevel::Full,
        other => return Err(usage(format!("there is no level {other:?}"))),
    };
    let share = Arc::new(share(args)?);
    host::share(Arc::clone(&share));
    let name = args.need_text("name")?;
    let source = host::open(name).map_err(|source| modelfmt::Error::Open { path: name.into(), source })?;
    let options = options::opening(args)?;
    let report = match args.text_or_none("signature")? {
        Some(signature) => {
            let keys = keys::signers(args.get("signers"))?;
            options.verify_source_signed(name, Box::new(source), signature.as_bytes(), &keys, level, &work())
        }
        // Of several workers, only the one that reports gets the signature.
        None if args.get("signers").is_some() && args.get("part").is_none() => {
            return Err(usage("signers: their signature is needed too, as `signature`"));
        }
        None => {
            let files = Some(host::files(session::folder(name)));
            options.verify_source(name, Box::new(source), files, level, &work())
        }
    };
    if args.get("part").is_some() {
        return Ok(Answer::from(Value::Null).with_bytes(share.take_notes()));
    }
    Ok(Answer::text(serde_json::to_string(&report)?))
}

/// Returns the share of a verification that is done here: all of it by default.
fn share(args: &Args) -> Result<Share> {
    if let Some(part) = args.get("part") {
        let number = |key: &str| {
            part.get(key).and_then(Value::as_u64).ok_or_else(|| usage("part: { number, of } is needed"))
        };
        return Ok(Share::part(number("number")?, number("of")?));
    }
    let mut notes = Vec::new();
    for name in args.get("notes").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        let failed = |source| modelfmt::Error::Open { path: name.into(), source };
        let file = host::open(name).map_err(failed)?;
        notes.extend_from_slice(&file.read(0..file.len()).map_err(failed)?);
    }
    Ok(Share::whole(notes))
}

/// Returns the output of `modelfmt diff --norms --json`, and as bytes a list with the beginnings of both values
/// of each difference in the metadata, as JSON texts: JavaScript's numbers cannot represent every integer.
#[inline(never)]
pub(crate) fn diff(args: &Args) -> Result {
    const MOST: usize = 200;
    let a = session::open(args.need_text("name")?, &options::opening(args)?)?;
    let b = session::open(args.need_text("other")?, &OpenOptions::new())?;
    let mut options = DiffOptions::default();
    options.norms = true;
    let diff = modelfmt::diff::diff_with(&a, &b, &options, &work())?;
    let text = |value: &Option<Tree>| value.as_ref().map(|value| start(value, MOST));
    let texts: Value = diff.metadata.iter().map(|one| json!([text(&one.a), text(&one.b)])).collect();
    Ok(Answer::text(serde_json::to_string(&diff)?).with_bytes(texts.to_string().into_bytes()))
}

/// Lists the formats that can be written, with their extensions. Sets of other formats are made by
/// `shard_size`.
#[inline(never)]
pub(crate) fn targets() -> Value {
    let is_target = |format: &Format| format.is_writable() && format.unsharded() == *format;
    let formats = Format::ALL.iter().copied().filter(is_target);
    let target = |format: Format| json!({ "name": format.name(), "ending": format.extension(), "is_set": format.is_set() });
    formats.map(target).collect::<Vec<_>>().into()
}

/// Lists the types that a conversion offers for each of its options. The program accepts more types for
/// `cast`.
#[inline(never)]
pub(crate) fn types() -> Value {
    let names = |types: &[DType]| types.iter().map(|dtype| dtype.name()).collect::<Vec<_>>();
    let floats = [DType::F32, DType::F16, DType::BF16, DType::F8E4M3, DType::F8E5M2, DType::F64];
    let presets = || Preset::ALL.iter().copied();
    let blocks = DType::ALL.iter().copied().filter(|dtype| {
        matches!(dtype, DType::Iq4Nl | DType::Iq4Xs) || presets().any(|preset| preset.base() == *dtype)
    });
    json!({
        "cast": names(&floats),
        "dequantize": names(&[DType::F32, DType::F16, DType::BF16]),
        "quantize": names(&blocks.collect::<Vec<_>>()),
        "presets": presets().map(|preset| preset.to_string()).collect::<Vec<_>>(),
    })
}

/// Converts a model into files of the host, a single file or a set. With `dry_run`, returns what would be
/// written, or why it cannot be.
#[inline(never)]
pub(crate) fn convert(args: &Args) -> Result {
    let model = session::open(args.need_text("name")?, &options::opening(args)?)?;
    let target: Target = args.need_text("to")?.parse().map_err(|error| usage(format!("to: {error}")))?;
    let options = options::conversion(args.get("options"))?;
    let conversion = Conversion::to_format(&model, target).options(&options).plan()?;
    if args.is("dry_run") {
        let target = conversion.target();
        return Ok(json!({ "to": target.name(), "nbytes": conversion.nbytes(), "is_set": target.is_set(), "ending": target.extension() }).into());
    }
    let name = args.text("output").unwrap_or("the output");
    let converted = if conversion.target().is_set() {
        conversion.write_to_files(name, &HostOutput, &work())?
    } else {
        let sink =
            host::create(name).map_err(|source| modelfmt::Error::Write { path: name.into(), source })?;
        conversion.write_to_sink(&sink, &work())?
    };
    Ok(said(&converted).into())
}

fn said(converted: &Converted) -> Value {
    let dropped = Unsupported::grouped(&converted.dropped);
    json!({
        "to": converted.format.name(),
        "tensors": converted.tensors,
        "nbytes": converted.files.iter().map(|file| file.nbytes).sum::<u64>(),
        "notes": converted.notes.iter().map(|note| note.in_words(&Options)).collect::<Vec<_>>(),
        "warnings": converted.warning_lines(&Options),
        "changed": converted.changed.iter().map(|one| json!({ "tensor": one.tensor, "from": one.from.name(), "to": one.to.name() })).collect::<Vec<_>>(),
        "clipped": converted.clipped.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "dropped": dropped.iter().map(|group| group.in_words(&Options)).collect::<Vec<_>>(),
    })
}

/// Finds out which of the host's files are models. `names` are all files.
pub(crate) fn choose(args: &Args) -> Result {
    let names = args.get("names").and_then(Value::as_array).into_iter().flatten();
    let mut names: Vec<PathBuf> = names.filter_map(Value::as_str).map(PathBuf::from).collect();
    names.sort();
    let open = |path: &std::path::Path| -> io::Result<_> {
        let name = path.to_str().ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Box::new(host::open(name)?) as modelfmt::modelfmt_core::source::BoxSource)
    };
    let found = modelfmt::folder::find_models(names, open);
    let models: Vec<_> = found.models.iter().map(|path| path.to_string_lossy()).collect();
    let foreign = found
        .foreign
        .into_iter()
        .next()
        .map(|(path, hint)| json!({ "name": path.to_string_lossy(), "hint": hint }));
    Ok(json!({ "models": models, "foreign": foreign }).into())
}
