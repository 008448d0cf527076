//! `modelfmt diff`

use std::io::Write;

use modelfmt::diff::{Changed, Diff as Differences, DiffOptions};
use modelfmt::wording::Printable;

use crate::args::{Diff, OpenArgs, UnlockArgs};
use crate::failure::{Failure, Result, is_reader_gone};
use crate::json::EscapedJson;
use crate::progress::Progress;
use crate::streams;
use crate::units::count;

pub(crate) fn run(args: &Diff, quiet: bool) -> Result {
    let open = |number: usize| OpenArgs {
        pin: args.pin.get(number).copied(),
        root: args.root.get(number).cloned(),
        remote: args.remote,
        signers: args.signers.clone(),
        unlock: args.unlock.clone(),
        allow_unencrypted: true,
    };
    if args.pin.len() > 2 {
        return Err(Failure::Usage("--pin: one for A and one for B at most".to_owned()));
    }
    if args.root.len() > 2 {
        return Err(Failure::Usage("--root: one for A and one for B at most".to_owned()));
    }
    let (a, b) = (streams::open(&args.a, &open(0))?, streams::open(&args.b, &open(1))?);
    if args.unlock != UnlockArgs::default() && !a.is_encrypted() && !b.is_encrypted() {
        let why = "--identity, --passphrase-file, --key-file: neither of the two is encrypted";
        return Err(Failure::Input(why.to_owned()));
    }
    let bar = Progress::of("comparing", a.container().file_size(), args.json, quiet);
    let mut options = DiffOptions::default();
    (options.norms, options.tolerance) = (args.norms, args.tolerance);
    options.ignore_metadata = args.ignore_metadata;
    let diff = bar.run(|work| modelfmt::diff::diff_with(&a, &b, &options, work))?;
    let printed = super::print(|out| {
        if args.json {
            serde_json::to_writer(EscapedJson(&mut *out), &diff).map_err(std::io::Error::from)?;
            writeln!(out)?;
            return Ok(());
        }
        text(&diff, &options, out)
    });
    // The exit status is an answer, too, which `| head` must not change.
    if !is_reader_gone(&printed) {
        printed?;
    }
    if diff.is_same() { Ok(()) } else { Err(Failure::Checked) }
}

fn text(diff: &Differences, options: &DiffOptions, out: &mut dyn Write) -> Result {
    if diff.is_same() {
        let values = match options.tolerance {
            Some(tolerance) => format!("values within {}", digits(tolerance)),
            None => "same values".to_owned(),
        };
        let metadata = if options.ignore_metadata { "metadata not compared" } else { "same metadata" };
        return Ok(writeln!(out, "same tensors, {values}, {metadata}")?);
    }
    for name in &diff.only_in_a {
        writeln!(out, "- tensor {}", Printable(name))?;
    }
    for name in &diff.only_in_b {
        writeln!(out, "+ tensor {}", Printable(name))?;
    }
    for pair in &diff.renamed {
        writeln!(out, "> tensor {} is now {}", Printable(&pair.a), Printable(&pair.b))?;
    }
    for changed in &diff.changed {
        writeln!(out, "~ tensor {}: {}", Printable(&changed.name), how(changed))?;
    }
    for entry in &diff.metadata {
        let json = |value| modelfmt::value::json::to_string(value).unwrap_or_default();
        let (sign, text) = match (&entry.a, &entry.b) {
            (Some(a), Some(b)) => ('~', format!("{} is now {}", json(a), json(b))),
            (Some(a), None) => ('-', json(a)),
            (None, b) => ('+', b.as_ref().map(json).unwrap_or_default()),
        };
        writeln!(out, "{sign} metadata {}: {}", Printable(&entry.key), Printable(&text))?;
    }
    Ok(writeln!(out, "{}", summary(diff))?)
}

/// The last line: how many differences there are, and of which kinds.
fn summary(diff: &Differences) -> String {
    let tensors = [
        (diff.only_in_a.len(), "only in A"),
        (diff.only_in_b.len(), "only in B"),
        (diff.renamed.len(), "renamed"),
        (diff.changed.len(), "changed"),
    ];
    let counted = |number: usize, what: &str| {
        format!("{} {what}{}", count(number as u64), if number == 1 { "" } else { "s" })
    };
    let mut parts = Vec::new();
    for (number, how) in tensors.into_iter().filter(|(number, _)| *number > 0) {
        parts.push(format!("{} {how}", counted(number, "tensor")));
    }
    if !diff.metadata.is_empty() {
        parts.push(counted(diff.metadata.len(), "metadata key"));
    }
    let all = tensors.iter().map(|(number, _)| number).sum::<usize>().saturating_add(diff.metadata.len());
    format!("{}: {}", counted(all, "difference"), parts.join(", "))
}

fn how(changed: &Changed) -> String {
    let mut parts = Vec::new();
    if let Some((a, b)) = changed.dtype {
        parts.push(format!("dtype {a} is now {b}"));
    }
    if let Some((a, b)) = &changed.shape {
        parts.push(format!("shape {a:?} is now {b:?}"));
    }
    if let Some(values) = changed.values {
        parts.push(match (values.max_abs, values.max_rel) {
            (Some(abs), Some(rel)) => {
                format!("values differ by up to {}, relative {}", digits(abs), digits(rel))
            }
            _ => "values differ".to_owned(),
        });
    }
    if let Some(norms) = changed.norms {
        let rmse = norms.rmse.map(|rmse| format!("rmse {}", digits(rmse)));
        // Eight decimals, because its distance from 1 is what matters.
        let cosine = norms.cosine.map(|cosine| format!("cosine {cosine:.8}"));
        let rel_norm = norms.rel_norm.map(|rel_norm| format!("rel_norm {}", digits(rel_norm)));
        let norms: Vec<String> = [rmse, cosine, rel_norm].into_iter().flatten().collect();
        parts.extend((!norms.is_empty()).then(|| norms.join(", ")));
    }
    parts.join("; ")
}

/// Writes four significant digits, with an exponent only if it is not 0.
fn digits(number: f64) -> String {
    let text = format!("{number:.3e}");
    text.strip_suffix("e0").map_or(text.clone(), str::to_owned)
}
