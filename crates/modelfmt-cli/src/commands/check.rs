//! `modelfmt check`

use std::collections::HashSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use modelfmt::check::{CheckReport, Powers, TensorFindings};
use modelfmt::folder::{PICKLES, foreign_kind};
use modelfmt::show::Charset;
use modelfmt::wording::Printable;

use super::{nbytes, verdict};
use crate::args::Check;
use crate::chart::charset;
use crate::failure::{Failure, Result, is_reader_gone};
use crate::json::EscapedJson;
use crate::policy;
use crate::progress::Progress;
use crate::stop;
use crate::streams;
use crate::units::count;
use crate::urls::shown;
use crate::walk::{say_foreign, walk};
use crate::width::width;

pub(crate) fn run(args: &Check, quiet: bool) -> Result {
    if args.open.pin.is_some() && args.files.len() > 1 {
        return Err(Failure::Usage("--pin: a pin is for one file; name only that file".to_owned()));
    }
    let (mut failed, files) = (0, with_others(args)?);
    for (path, is_beside) in &files {
        let shown = shown(path);
        let report = match check(path, *is_beside, args, quiet) {
            Err(Failure::Job(error)) if !stop::is_asked() => {
                let why = error.without_path(&shown);
                pickle(path, &error, &why).unwrap_or_else(|| CheckReport::unreadable(&shown, why))
            }
            Err(Failure::Input(text)) => CheckReport::unreadable(&shown, text),
            report => report?,
        };
        failed += usize::from(!report.is_ok());
        print(|out| if args.json { json(&report, out) } else { text(&report, out) })?;
    }
    if files.len() > 1 && !args.json {
        let (all, ok) = (files.len(), files.len() - failed);
        print(|out| Ok(writeln!(out, "{}: {ok} ok, {failed} failed", super::files(all, ""))?))?;
    }
    if failed == 0 { Ok(()) } else { Err(Failure::Checked) }
}

/// Returns the files to check. The flag says that a file is checked alone, because another one covers the
/// rest of its folder. For a folder, this includes checkpoints that are not part of its model, because
/// programs that load the folder may load them. A pin applies to a single file, so it excludes these.
fn with_others(args: &Check) -> Result<Vec<(PathBuf, bool)>> {
    let mut files = Vec::new();
    for path in &args.files {
        if args.recursive && path.is_dir() {
            below(path, &mut files)?;
            continue;
        }
        files.push((path.clone(), false));
        if args.open.pin.is_none() && path.is_dir() {
            // If the folder cannot be read, opening it reports the reason.
            let others = policy::open_options().others_in(path).unwrap_or_default();
            files.extend(others.into_iter().map(|path| (path, true)));
        }
    }
    Ok(files)
}

/// Adds the models and the pickles below a folder. The other files of each folder are checked with its first
/// model.
fn below(folder: &Path, files: &mut Vec<(PathBuf, bool)>) -> Result {
    let found = walk(folder);
    let (pickles, foreign): (Vec<_>, Vec<_>) =
        found.foreign.into_iter().partition(|(_, hint)| foreign_kind(hint) == PICKLES);
    say_foreign(&foreign);
    let mut seen = HashSet::new();
    let none = found.models.is_empty() && pickles.is_empty() && found.unreadable.is_empty();
    for path in found.models {
        let is_beside = !seen.insert(path.parent().map(Path::to_owned));
        files.push((path, is_beside));
    }
    files.extend(pickles.into_iter().map(|(path, _)| (path, true)));
    // Opening them reports why they cannot be read.
    files.extend(found.unreadable.into_iter().map(|(path, _)| (path, true)));
    if none {
        let folder = folder.display().to_string();
        return Err(Failure::Input(format!("{}: there is no model to check below it", Printable(&folder))));
    }
    Ok(())
}

fn check(path: &Path, is_beside: bool, args: &Check, quiet: bool) -> Result<CheckReport> {
    let model = streams::open(path, &args.open)?;
    let bar = Progress::of("checking", nbytes(&model), args.json, quiet);
    let check = if is_beside { modelfmt::check::check_alone } else { modelfmt::check::check };
    Ok(bar.run(|work| check(&model, work))?)
}

/// Returns the report for a file that is a pickle but not a checkpoint.
fn pickle(path: &Path, error: &modelfmt::Error, why: &str) -> Option<CheckReport> {
    if !matches!(error, modelfmt::Error::UnknownFormat { .. }) || !path.is_file() {
        return None;
    }
    modelfmt::check::check_pickle(path, &policy::open_options().open_other(path).ok()?, why)
}

/// Prints, and ignores a closed standard output: the exit status covers all files even then.
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
    if let Some(tensors_checked) = report.tensors_checked {
        write!(
            out,
            ": {} tensor{}",
            count(tensors_checked as u64),
            if tensors_checked == 1 { "" } else { "s" }
        )?;
    }
    if report.without_values > 0 {
        write!(out, ", {} more without values", count(report.without_values as u64))?;
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
                "  {} would run code that the file chooses; modelfmt has not run it",
                pickle.loader
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
                "  {}: one or more values are far larger than the others: the largest is {max:e}, the median about {median:e}",
                name(&tensor.name)
            )?;
        }
        if let Some(powers) = &tensor.powers {
            writeln!(out, "    {}", sparkline(powers, charset(), width()))?;
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

/// Draws how many values have each power of two, or each few powers of two if the line is too short.
fn sparkline(powers: &Powers, charset: Charset, width: Option<usize>) -> String {
    /// The most and the fewest characters of the sparkline itself.
    const MOST: usize = 48;
    const LEAST: usize = 8;
    let last = powers.counts.len().saturating_sub(1);
    let (first, last) = (powers.first, i64::from(powers.first).saturating_add(last as i64));
    let (first, last) = (format!("2^{first} |"), format!("| 2^{last}"));
    let beside = 4 + first.len() + last.len();
    let room = width.map_or(MOST, |width| width.saturating_sub(beside)).clamp(LEAST, MOST);
    let step = powers.counts.len().div_ceil(room).max(1);
    let sums: Vec<u64> = powers
        .counts
        .chunks(step)
        .map(|part| part.iter().fold(0, |sum: u64, x| sum.saturating_add(*x)))
        .collect();
    format!("{first}{}{last}", charset.sparkline(&sums))
}

/// Returns the first few names, and how many more there are.
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

/// The kinds of findings by which the line of a file counts tensors.
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

/// Says how many values are not finite, and where the first one is.
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

/// Returns a name, in quotation marks if it is empty.
fn name(name: &str) -> String {
    if name.is_empty() { "\"\"".to_owned() } else { Printable(name).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two_are_one_line_that_fits() {
        let mut powers = Powers::default();
        (powers.first, powers.counts) = (-3, vec![1, 50, 100, 0, 0, 1]);
        assert_eq!(sparkline(&powers, Charset::Blocks, None), "2^-3 |▁▅█  ▁| 2^2");
        assert_eq!(sparkline(&powers, Charset::Ascii, Some(1)), "2^-3 |_=#  _| 2^2");
        powers.counts = vec![7; 2046];
        for width in [Some(1), Some(20), Some(40), Some(200), None] {
            let line = sparkline(&powers, Charset::Blocks, width);
            let most = width.map_or(80, |width| width.max(30));
            assert!(line.starts_with("2^-3 |") && line.ends_with("| 2^2042"), "{line}");
            assert!(4 + line.chars().count() <= most, "{width:?}: {line}");
        }
    }
}
