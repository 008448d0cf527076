//! `modelfmt diff`

use std::io::Write;

use modelfmt::DType;
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
    (options.ignore_metadata, options.ignore_dtype) = (args.ignore_metadata, args.ignore_dtype);
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
        let (sign, text) = match (&entry.a, &entry.b) {
            (Some(a), Some(b)) => ('~', metadata::both(entry, a, b)),
            (Some(a), None) => ('-', metadata::one(a)),
            (None, b) => ('+', b.as_ref().map(metadata::one).unwrap_or_default()),
        };
        writeln!(out, "{sign} metadata {}: {text}", Printable(&entry.key))?;
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
    if let Some([a, b]) = &changed.schemes {
        let (of_a, of_b) = changed.dtype.unwrap_or((DType::F32, DType::F32));
        let name =
            |scheme: &Option<String>, dtype: DType| scheme.clone().unwrap_or_else(|| dtype.to_string());
        parts.push(format!("{} is now {}", name(a, of_a), name(b, of_b)));
    } else if let Some((a, b)) = changed.dtype {
        parts.push(format!("dtype {a} is now {b}"));
    }
    if let Some((a, b)) = &changed.shape {
        parts.push(format!("shape {a:?} is now {b:?}"));
    }
    if let Some(values) = changed.values {
        parts.push(match (values.max_abs, values.max_rel) {
            (Some(abs), _) if abs.is_nan() => "values differ, some by a NaN in one of them".to_owned(),
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

/// Values of metadata, of which long ones are cut.
mod metadata {
    use modelfmt::Value;
    use modelfmt::diff::MetadataDiff;
    use modelfmt::value::json;
    use modelfmt::wording::Printable;

    use crate::units::count;

    /// The maximum number of characters of a value.
    const MAX: usize = 160;

    /// A value that only one model has.
    pub(super) fn one(value: &Value) -> String {
        let text = cut(value);
        match value.as_array() {
            Some(list) if is_long(value) => format!("{} entries: {text}", count(list.len() as u64)),
            _ => text,
        }
    }

    /// Two values that differ.
    pub(super) fn both(entry: &MetadataDiff, a: &Value, b: &Value) -> String {
        if !is_long(a) && !is_long(b) {
            return format!("{} is now {}", cut(a), cut(b));
        }
        if let (Some(a), Some(b)) = (a.as_str(), b.as_str()) {
            return texts(a, b);
        }
        let (Some(lists), Some(of_a), Some(of_b)) = (entry.lists(), a.as_array(), b.as_array()) else {
            return format!("{} is now {}", one(a), one(b));
        };
        let number = |number: usize| count(number as u64);
        let counts = match lists.a == lists.b {
            true => format!("{} of {} entries differ", number(lists.differ), number(lists.a)),
            false => format!(
                "{} entries are now {}, {} differ",
                number(lists.a),
                number(lists.b),
                number(lists.differ)
            ),
        };
        let at =
            |list: &modelfmt::value::List| list.get(lists.first).map_or("none".to_owned(), |one| cut(&one));
        format!("{counts}, the first is [{}]: {} is now {}", lists.first, at(of_a), at(of_b))
    }

    /// Two texts, from a little before the place where they begin to differ.
    fn texts(a: &str, b: &str) -> String {
        let same = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
        let from = same.saturating_sub(20);
        let part = |text: &str| {
            let rest: String = text.chars().skip(from).take(MAX + 1).collect();
            let start = if from > 0 { "…" } else { "" };
            Printable(&format!("\"{start}{rest}\"")).cut(MAX)
        };
        let [of_a, of_b] = [a, b].map(|text| count(text.chars().count() as u64));
        format!(
            "{of_a} characters are now {of_b}, they differ from character {same} on: {} is now {}",
            part(a),
            part(b)
        )
    }

    fn is_long(value: &Value) -> bool {
        json::start(value, MAX + 1).chars().count() > MAX
    }

    fn cut(value: &Value) -> String {
        Printable(&json::start(value, MAX + 1)).cut(MAX)
    }
}
