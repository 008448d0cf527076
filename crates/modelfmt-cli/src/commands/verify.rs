//! `modelfmt verify`

use std::io::Write;

use anstyle::{AnsiColor, Style};
use modelfmt::{FileReport, Printable, Status};

use crate::args::Verify;
use crate::failure::{Failure, Result, is_reader_gone};
use crate::progress::Progress;
use crate::stop;
use crate::streams;

pub(crate) fn run(args: &Verify, quiet: bool) -> Result {
    let mut failed = 0;
    for path in &args.files {
        let size = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        let bar = Progress::new("verifying", size, quiet || args.json);
        let report = bar.run(|work| streams::verify(path, args.level.into(), work));
        if stop::is_asked() {
            return Err(Failure::Checked);
        }
        let report = report?;
        failed += usize::from(!report.is_ok());
        print(|out| if args.json { json(&report, out) } else { text(&report, out) })?;
    }
    if args.files.len() > 1 && !args.json {
        let all = args.files.len();
        print(|out| Ok(writeln!(out, "{all} files: {} ok, {failed} failed", all - failed)?))?;
    }
    if failed > 0 { Err(Failure::Checked) } else { Ok(()) }
}

/// Prints, unless nobody reads: the exit status speaks of all files even then.
fn print(write: impl FnOnce(&mut dyn Write) -> Result) -> Result {
    let printed = super::print(write);
    if is_reader_gone(&printed) { Ok(()) } else { printed }
}

fn json(report: &FileReport, out: &mut dyn Write) -> Result {
    serde_json::to_writer(super::EscapedJson(&mut *out), report).map_err(std::io::Error::from)?;
    Ok(writeln!(out)?)
}

/// A line for the file, and one for each finding.
fn text(report: &FileReport, out: &mut dyn Write) -> Result {
    let (word, color) = if report.is_ok() { ("ok", AnsiColor::Green) } else { ("FAILED", AnsiColor::Red) };
    let style = Style::new().fg_color(Some(color.into())).bold();
    let path = report.path.display().to_string();
    let format = report.format.map_or("unknown format", |format| format.name());
    write!(out, "{style}{word}{style:#} {} ({format}", Printable(&path))?;
    let done = report.report.checks.iter().filter(|check| check.status != Status::Absent);
    for (i, check) in done.enumerate() {
        let mark = if check.status == Status::Failed { "!" } else { "" };
        write!(out, "{} {}{mark}", if i == 0 { ":" } else { "," }, check.name)?;
    }
    writeln!(out, ")")?;
    for error in &report.report.errors {
        writeln!(out, "  {}", Printable(error))?;
    }
    Ok(())
}
