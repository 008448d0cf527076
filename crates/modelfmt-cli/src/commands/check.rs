//! `modelfmt check`

use std::io::Write;
use std::path::Path;

use modelfmt::check::{CheckReport, TensorFindings};
use modelfmt::wording::Printable;

use super::{files, nbytes, verdict};
use crate::args::Check;
use crate::failure::{Failure, Result, is_reader_gone};
use crate::json::EscapedJson;
use crate::progress::Progress;
use crate::stop;
use crate::streams;
use crate::units::count;
use crate::urls::shown;

pub(crate) fn run(args: &Check, quiet: bool) -> Result {
    if args.open.pin.is_some() && args.files.len() > 1 {
        return Err(Failure::Usage("--pin: it is of one file; name no other".to_owned()));
    }
    let mut failed = 0;
    for path in &args.files {
        let shown = shown(path);
        let report = match check(path, args, quiet) {
            Err(Failure::Job(error)) if !stop::is_asked() => {
                CheckReport::unreadable(&shown, error.without_path(&shown))
            }
            Err(Failure::Input(text)) => CheckReport::unreadable(&shown, text),
            report => report?,
        };
        failed += usize::from(!report.is_ok());
        print(|out| if args.json { json(&report, out) } else { text(&report, out) })?;
    }
    if args.files.len() > 1 && !args.json {
        let (all, ok) = (args.files.len(), args.files.len() - failed);
        print(|out| Ok(writeln!(out, "{}: {ok} ok, {failed} failed", files(all, ""))?))?;
    }
    if failed == 0 { Ok(()) } else { Err(Failure::Checked) }
}

fn check(path: &Path, args: &Check, quiet: bool) -> Result<CheckReport> {
    let model = streams::open(path, &args.open)?;
    let bar = Progress::of("checking", nbytes(&model), args.json, quiet);
    Ok(bar.run(|work| modelfmt::check::check(&model, work))?)
}

/// Prints, and ignores that the reader of standard output has gone: the exit status covers all files even then.
fn print(write: impl FnOnce(&mut dyn Write) -> Result) -> Result {
    let printed = super::print(write);
    if is_reader_gone(&printed) { Ok(()) } else { printed }
}

fn json(report: &CheckReport, out: &mut dyn Write) -> Result {
    serde_json::to_writer(EscapedJson(&mut *out), report).map_err(std::io::Error::from)?;
    Ok(writeln!(out)?)
}

/// Writes a line for the file, and one for each tensor with findings.
fn text(report: &CheckReport, out: &mut dyn Write) -> Result {
    let path = report.path.display().to_string();
    write!(out, "{} {}", verdict(report.is_ok()), Printable(&path))?;
    if let Some(looked_at) = report.looked_at {
        write!(out, ": {} tensor{}", count(looked_at as u64), if looked_at == 1 { "" } else { "s" })?;
    }
    if report.without_values > 0 {
        write!(out, ", {} without values", count(report.without_values as u64))?;
    }
    for (what, is) in KINDS {
        let number = report.tensors.iter().filter(|tensor| is(tensor)).count();
        if number > 0 {
            write!(out, ", {} {what}", count(number as u64))?;
        }
    }
    writeln!(out)?;
    for finding in report.disagreements.iter().chain(&report.unread) {
        writeln!(out, "  {}", Printable(finding))?;
    }
    if let Some(pickle) = &report.pickle {
        for unknown in &pickle.unknown {
            writeln!(out, "  {}", Printable(unknown))?;
        }
        if pickle.runs_code() {
            writeln!(
                out,
                "  torch.load(weights_only=False) would run code of the file's choice; nothing of it was run here"
            )?;
        }
    }
    for text in &report.texts {
        writeln!(out, "  {}", Printable(&text.to_string()))?;
    }
    for tensor in report.tensors.iter().filter(|tensor| tensor.first_bad.is_some()) {
        writeln!(out, "  {}: {}", name(&tensor.name), Printable(&bad(tensor)))?;
    }
    for tensor in &report.tensors {
        if let Some(outlier) = tensor.outlier {
            let (max, median) = (outlier.max_abs, outlier.median_abs);
            writeln!(
                out,
                "  {}: one value or more lies far beyond the others: {max:e} at most, about {median:e} in the middle",
                name(&tensor.name)
            )?;
        }
    }
    for (what, is) in ALIKE {
        let which = report.tensors.iter().filter(|tensor| is(tensor)).map(|tensor| match &tensor.same_as {
            Some(other) if what == EQUAL => format!("{} = {}", name(&tensor.name), name(other)),
            _ => name(&tensor.name),
        });
        if let Some(which) = named(which) {
            writeln!(out, "  {what}: {which}")?;
        }
    }
    if let Some(text) = report.not_searched() {
        writeln!(out, "  {}", Printable(&text))?;
    }
    Ok(())
}

/// The first of several names, and how many more there are.
fn named(names: impl Iterator<Item = String>) -> Option<String> {
    const NAMED: usize = 5;
    let mut names = names.peekable();
    names.peek()?;
    let first: Vec<String> = names.by_ref().take(NAMED).collect();
    let more = names.count();
    let more =
        if more > 0 { format!(" and {} more (--json lists all)", count(more as u64)) } else { String::new() };
    Some(first.join(", ") + &more)
}

type Kind = (&'static str, fn(&TensorFindings) -> bool);

/// The kinds of findings by which tensors are counted in the line of their file.
const KINDS: [Kind; 6] = [
    ("with NaN", |tensor| tensor.nan > 0),
    ("with infinities", |tensor| tensor.inf > 0),
    ("with outliers", |tensor| tensor.outlier.is_some()),
    ("all zero", |tensor| tensor.is_zero),
    ("constant", |tensor| tensor.is_constant && !tensor.is_zero),
    ("duplicate", |tensor| tensor.same_as.is_some()),
];

const EQUAL: &str = "equal";

/// The kinds of tensors that share one line.
const ALIKE: [Kind; 3] = [
    ("all zero", |tensor| tensor.is_zero),
    ("constant", |tensor| tensor.is_constant && !tensor.is_zero),
    (EQUAL, |tensor| tensor.same_as.is_some()),
];

/// How many values are not finite, and where the first is.
fn bad(tensor: &TensorFindings) -> String {
    let mut parts = Vec::new();
    if tensor.nan > 0 {
        parts.push(format!("{} NaN", count(tensor.nan)));
    }
    if tensor.inf > 0 {
        let what = if tensor.inf == 1 { "infinity" } else { "infinities" };
        parts.push(format!("{} {what}", count(tensor.inf)));
    }
    if let Some(first) = tensor.first_bad {
        parts.push(format!("the first at index {}", count(first)));
    }
    parts.join(", ")
}

/// A name, in quotation marks if it is empty.
fn name(name: &str) -> String {
    if name.is_empty() { "\"\"".to_owned() } else { Printable(name).to_string() }
}
