//! `modelfmt inspect`

mod metadata;
mod tensors;
mod totals;

use std::io::Write;
use std::path::Path;

use anstyle::Style;
use modelfmt::inspect::{InspectOptions, Inspection};
use modelfmt::model::Globs;
use modelfmt::wording::Printable;

use crate::args::{Inspect, List};
use crate::failure::{Failure, Result, say};
use crate::flags::Flags;
use crate::json::EscapedJson;
use crate::progress::Progress;
use crate::stop;
use crate::streams;
use crate::units::size;

/// The maximum number of characters of a name or a shape, because the longest one determines the width of its
/// column.
pub(super) const LONGEST: usize = 200;

/// A table with more rows than this is printed piece by piece, without measuring all rows first.
pub(super) const TABLE_ROWS: usize = 10_000;

pub(crate) fn run(args: &Inspect, quiet: bool) -> Result {
    let mut options = InspectOptions::new().hash(args.hash);
    if let Some(pattern) = &args.tensors {
        options = options.tensors(globs(pattern)?);
    }
    if let Some(sort) = args.sort {
        options = options.sort(sort.into());
    }
    if let Some(count) = args.top {
        options = options.top(count);
    }
    options = match (args.tree, args.summary) {
        (_, true) => options.summary(),
        (true, _) => options.tree(),
        _ => options,
    };
    let [path] = &args.files[..] else { return several(args, &options, quiet) };
    inspect(path, args, &options, quiet, "")
}

/// Inspects several files. If one fails, the others are still inspected.
fn several(args: &Inspect, options: &InspectOptions, quiet: bool) -> Result {
    if args.open.pin.is_some() {
        return Err(Failure::Usage("--pin: a pin is for one file; name only that file".to_owned()));
    }
    if args.get.is_some() {
        return Err(Failure::Usage("--get: it prints a value of one file; name no other".to_owned()));
    }
    let (mut failed, mut before) = (false, "");
    for path in &args.files {
        match inspect(path, args, options, quiet, before) {
            Err(failure @ (Failure::Job(_) | Failure::Input(_))) if !stop::is_asked() => {
                failure.report(args.json);
                failed = true;
            }
            done => {
                done?;
                before = "\n";
            }
        }
    }
    if failed { Err(Failure::Checked) } else { Ok(()) }
}

/// Inspects a file. `before` is printed before its text.
fn inspect(path: &Path, args: &Inspect, options: &InspectOptions, quiet: bool, before: &str) -> Result {
    let mut model = streams::open_signed(path, &args.open, &args.beside.options(), quiet)?;
    if let Some(map) = &args.map {
        let (mapped, notes) = modelfmt::convert::mapped(&model, map)?;
        for note in notes.iter().filter(|_| !quiet && !args.json) {
            say(format_args!("note: {}", Printable(&note.in_words(&Flags))));
        }
        model = mapped;
    }
    if let Some(key) = &args.get {
        return metadata::value(&model, key, args.json);
    }
    let total = if args.hash { super::nbytes(&model) } else { 0 };
    let bar = Progress::of("hashing", total, args.json, quiet || !args.hash);
    let mut inspection = bar.run(|work| modelfmt::inspect::inspect(&model, options, work))?;
    inspection.signature = model.detached_signature();
    for note in model.notes().iter().filter(|_| !quiet && !args.json) {
        say(format_args!("note: {}", Printable(note)));
    }
    super::print(|out| {
        if !args.json {
            write!(out, "{before}")?;
            return text(&inspection, args, out);
        }
        let json = EscapedJson(&mut *out);
        // With several files, each object is one line, for programs that read line by line.
        let written = match args.files.len() {
            1 => serde_json::to_writer_pretty(json, &inspection),
            _ => serde_json::to_writer(json, &inspection),
        };
        written.map_err(std::io::Error::from)?;
        Ok(writeln!(out)?)
    })
}

fn globs(pattern: &str) -> Result<Globs> {
    Globs::new([pattern]).map_err(|error| Failure::Usage(format!("--tensors: {error}")))
}

fn text(inspection: &Inspection<'_>, args: &Inspect, out: &mut dyn Write) -> Result {
    let container = inspection.model.container();
    let path = inspection.model.path().display().to_string();
    let version = container.version().map_or_else(String::new, |version| format!(" {version}"));
    let (format, bytes) = (inspection.model.format(), size(container.file_size()));
    writeln!(out, "{}: {format}{version}, {bytes}", Printable(&path))?;
    if inspection.facts.is_known() {
        writeln!(out, "{}", Printable(&inspection.facts.to_string()).cut(LONGEST))?;
    }
    for line in inspection.signature_lines() {
        writeln!(out, "{line}")?;
    }
    totals::write(inspection, args.summary, out)?;
    if args.summary {
        return Ok(());
    }
    match args.list() {
        List::Short => tensors::short(inspection, out)?,
        List::Each => tensors::each(&inspection.tensors, out)?,
        List::Tree => tensors::tree(inspection, out)?,
    }
    tensors::weights(inspection, out)?;
    metadata::tree("metadata", &inspection.metadata, out)?;
    metadata::tree("details", &inspection.details, out)
}

/// Formats the title of a part of the text.
fn title(title: &str) -> String {
    let bold = Style::new().bold();
    format!("{bold}{title}{bold:#}")
}
