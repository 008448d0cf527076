//! `modelfmt prove`

use std::collections::BTreeMap;
use std::io::Write;

use modelfmt::Model;
use modelfmt::model::Globs;
use modelfmt::prove::{KeyResult, Proof, ProveOptions, ProvedTensor, TensorResult};
use modelfmt::wording::Printable;

use super::derivation::{self, Files};
use super::{sign, verdict};
use crate::args::{OpenArgs, Prove, SignerArgs};
use crate::failure::{Failure, Result, is_reader_gone, say};
use crate::json::EscapedJson;
use crate::progress::Progress;
use crate::streams;
use crate::units::count;

/// The maximum number of lines about keys of one kind.
const MOST_KEYS: usize = 20;

pub(crate) fn run(args: &Prove, quiet: bool) -> Result {
    let signers = OpenArgs { signers: args.signers.clone(), ..OpenArgs::default() };
    let keys = if args.against.is_some() { signers.keys_beside()? } else { Vec::new() };
    let open = OpenArgs {
        remote: args.remote,
        // With --against, the keys are those of the statement.
        signers: if args.against.is_some() { SignerArgs::default() } else { args.signers.clone() },
        unlock: args.unlock.clone(),
        allow_unencrypted: true,
        ..OpenArgs::default()
    };
    let options = options(args)?;
    let key = args.sign.as_deref().map(sign::key_beside).transpose()?;
    let (base, derived) = (streams::open(&args.base, &open)?, streams::open(&args.derived, &open)?);
    let needs_files = args.sign.is_some() || args.against.is_some();
    let files = needs_files.then(|| Files::of(&base, &derived, args)).transpose()?;
    let bar = Progress::of("proving", derived.container().file_size(), args.json, quiet);
    let mut proof = bar.run(|work| modelfmt::prove::prove(&base, &derived, &options, work))?;
    if !proof.is_ok && !quiet && is_quantized(&base) && !is_quantized(&derived) {
        say("note: BASE, the first argument, is quantized and DERIVED is not; did you swap them?");
    }
    for note in proof.notes.iter().filter(|_| !quiet) {
        say(format_args!("note: {}", Printable(note)));
    }
    if let (Some(statement), Some(files)) = (&args.against, &files) {
        let findings = derivation::against(statement, &keys, files, &proof, quiet)?;
        let path = statement.display().to_string();
        for finding in &findings {
            say(format_args!("error: {}: {}", Printable(&path), Printable(finding)));
        }
        proof.is_ok &= findings.is_empty();
    }
    let printed = super::print(|out| {
        if args.json {
            serde_json::to_writer(EscapedJson(&mut *out), &proof).map_err(std::io::Error::from)?;
            writeln!(out)?;
            return Ok(());
        }
        text(&proof, out)
    });
    // The exit status is also an answer, which `| head` must not change.
    if !is_reader_gone(&printed) {
        printed?;
    }
    match (proof.is_ok, key, files) {
        (false, ..) => Err(Failure::Checked),
        (true, Some(key), Some(files)) => derivation::sign(&files, &proof, args, &key, quiet),
        (true, ..) => Ok(()),
    }
}

fn options(args: &Prove) -> Result<ProveOptions> {
    let globs = |flag: &str, patterns: &[String]| {
        let wrong = |error: modelfmt::wording::ParseError| Failure::Usage(format!("{flag}: {error}"));
        Globs::new(patterns.iter().cloned()).map_err(wrong)
    };
    let mut options = ProveOptions::default();
    (options.map, options.pre) = (args.map.clone(), args.pre.clone());
    options.lora.clone_from(&args.lora);
    options.imatrix.clone_from(&args.imatrix);
    options.require_all = args.complete;
    options.allow_added = globs("--allow-added", &args.allow_added)?;
    options.allow_changed = globs("--allow-changed", &args.allow_changed)?;
    Ok(options)
}

fn is_quantized(model: &Model) -> bool {
    model.tensors().any(|tensor| tensor.dtype.is_quantized())
}

fn text(proof: &Proof, out: &mut dyn Write) -> Result {
    exact(proof, out)?;
    for tensor in proof.tensors.iter().filter(|tensor| tensor.result != TensorResult::Exact) {
        let sign = match tensor.result {
            TensorResult::Foreign => '+',
            TensorResult::Missing => '-',
            _ => '~',
        };
        writeln!(out, "{sign} tensor {}: {}", Printable(&tensor.name), how(tensor))?;
    }
    for (sign, result) in [('~', KeyResult::Changed), ('+', KeyResult::Added), ('-', KeyResult::Missing)] {
        let keys: Vec<&str> =
            proof.metadata.iter().filter(|key| key.result == result).map(|key| &*key.key).collect();
        for key in keys.iter().take(MOST_KEYS) {
            writeln!(out, "{sign} metadata {}: {}", Printable(key), result.name())?;
        }
        let more = keys.len().saturating_sub(MOST_KEYS);
        if more > 0 {
            writeln!(out, "{sign} {} more metadata keys: {}", count(more as u64), result.name())?;
        }
    }
    let of_derived = proof.tensors.iter().filter(|tensor| tensor.result != TensorResult::Missing).count();
    let exact = proof.tensors.iter().filter(|tensor| tensor.result == TensorResult::Exact).count();
    let tensors = if of_derived == 1 { "tensor is" } else { "tensors are" };
    let (exact, all) = (count(exact as u64), count(of_derived as u64));
    write!(out, "{}: {exact} of {all} {tensors} exact", verdict(proof.is_ok))?;
    if !proof.is_ok && proof.tensors.iter().all(|tensor| tensor.result == TensorResult::Exact) {
        // The list of tensors does not show why.
        let has = |result| proof.metadata.iter().any(|key| key.result == result);
        let helps = [
            (KeyResult::Changed, "--allow-changed KEY accepts a changed key"),
            (KeyResult::Added, "--allow-added KEY accepts an added key"),
        ];
        if let Some((_, help)) = helps.into_iter().find(|(result, _)| has(*result)) {
            write!(out, ", but the metadata differs: {help}")?;
        }
    }
    Ok(writeln!(out)?)
}

/// Writes a line for each list of steps, with the number of tensors that it reproduces exactly.
fn exact(proof: &Proof, out: &mut dyn Write) -> Result {
    let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
    for tensor in proof.tensors.iter().filter(|tensor| tensor.result == TensorResult::Exact) {
        let number = kinds.entry(steps(tensor)).or_default();
        *number = number.saturating_add(1);
    }
    for (steps, number) in kinds {
        let plural = if number == 1 { "" } else { "s" };
        writeln!(out, "= {} tensor{plural}: {}", count(number), Printable(&steps))?;
    }
    Ok(())
}

/// Returns the steps of a tensor as text.
fn steps(tensor: &ProvedTensor) -> String {
    let steps = if tensor.steps.is_empty() { "copy".to_owned() } else { tensor.steps.join(", ") };
    match tensor.variant {
        Some(variant) => format!("{steps} ({variant})"),
        None => steps,
    }
}

/// Returns what is wrong with a tensor.
fn how(tensor: &ProvedTensor) -> String {
    match tensor.result {
        TensorResult::Missing => "missing".to_owned(),
        TensorResult::Foreign if tensor.from.is_empty() => "nothing in BASE gives it".to_owned(),
        TensorResult::Foreign => "BASE has the name, but no step gives this dtype and shape".to_owned(),
        _ => {
            let (different, all) = (count(tensor.different), count(tensor.blocks));
            let counted = if tensor.has_blocks { "blocks" } else { "values" };
            let apart = tensor.max_abs.map_or_else(String::new, |max| format!(", by up to {max:.3e}"));
            format!(
                "{} gives other values: {different} of {all} {counted} differ{apart}",
                Printable(&steps(tensor))
            )
        }
    }
}
