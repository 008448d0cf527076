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
    for tensor in &report.tensors {
        writeln!(out, "  {}: {}", name(&tensor.name), Printable(&findings(tensor)))?;
    }
    Ok(())
}

type Kind = (&'static str, fn(&TensorFindings) -> bool);

/// The kinds of findings by which tensors are counted in the line of their file.
const KINDS: [Kind; 5] = [
    ("with NaN", |tensor| tensor.nan > 0),
    ("with infinities", |tensor| tensor.inf > 0),
    ("all zero", |tensor| tensor.is_zero),
    ("constant", |tensor| tensor.is_constant && !tensor.is_zero),
    ("duplicate", |tensor| tensor.same_as.is_some()),
];

fn findings(tensor: &TensorFindings) -> String {
    let mut parts = Vec::new();
    if tensor.nan > 0 {
        parts.push(format!("{} NaN", count(tensor.nan)));
    }
    if tensor.inf > 0 {
        parts.push(format!(
            "{} {}",
            count(tensor.inf),
            if tensor.inf == 1 { "infinity" } else { "infinities" }
        ));
    }
    if tensor.is_zero {
        parts.push("all zero".to_owned());
    } else if tensor.is_constant {
        parts.push("constant".to_owned());
    }
    parts.extend(tensor.same_as.as_ref().map(|other| format!("same as {}", name(other))));
    parts.join(", ")
}

/// A name, in quotation marks if it is empty.
fn name(name: &str) -> String {
    if name.is_empty() { "\"\"".to_owned() } else { Printable(name).to_string() }
}
