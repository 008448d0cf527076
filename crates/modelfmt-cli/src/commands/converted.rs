//! A conversion, and what `modelfmt convert` says of it.

use std::path::Path;
use std::time::Instant;

use modelfmt::convert::WrittenFile;
use modelfmt::modelfmt_core::write::Discard;
use modelfmt::{
    Conversion, ConvertOptions, Converted, Execution, Format, Model, Object, Printable, Value, json,
};

use crate::args::Convert;
use crate::failure::{Result, say};
use crate::flags::Flags;
use crate::json::escaped;
use crate::streams;
use crate::units::{count, size};

/// Converts, or rehearses it.
pub(super) fn convert(
    output: &Path,
    is_dry: bool,
    model: &Model,
    target: Format,
    options: &ConvertOptions,
    work: &Execution<'_>,
) -> Result<Converted> {
    Ok(match (streams::is_dash(output), is_dry) {
        (true, true) => modelfmt::convert_to_sink(model, target, &Discard::named("-"), options, work)?,
        (true, false) => {
            streams::to_stdout(|sink| Ok(modelfmt::convert_to_sink(model, target, sink, options, work)?))?
        }
        (false, true) => Conversion::new(model, target, options)?.dry_run(output, work)?,
        (false, false) => modelfmt::convert(model, target, output, options, work)?,
    })
}

/// What to say of formats that tools of today read in another version than the one that is written.
pub(super) fn notes(args: &Convert, target: Format, converted: &Converted) -> Vec<String> {
    let mut notes = Vec::new();
    let is_sealed = args.seal || !args.how.sealing.sign.is_empty(); // other formats have no room for that
    if let Some(today) = target.read_today().filter(|_| args.to.is_none() && !is_sealed) {
        let ending = target.extension().unwrap_or_default();
        notes.push(format!("{ending} is written as {target}; --to {today} writes what tools of today read"));
    }
    let version = args.to.as_ref().and_then(|target| target.version.as_ref());
    if converted.format == Format::Mag && version.is_none() {
        notes.push(MAG_1.to_owned());
    }
    notes
}

/// What to ask for if magnetron is to read a `.mag` file.
const MAG_1: &str = "this is MAG 1, the document's version; magnetron 0.2 reads what --to mag@0.3 writes";

/// A conversion that was done, or rehearsed.
pub(super) struct Done<'a> {
    pub(super) output: &'a Path,
    pub(super) converted: &'a Converted,
    /// A note about the format that the file extension chose.
    pub(super) notes: Vec<String>,
    pub(super) is_dry: bool,
    pub(super) begun: Instant,
}

impl Done<'_> {
    /// The notes of the library and those of the program.
    fn notes(&self) -> impl Iterator<Item = String> {
        let own = self.converted.notes.iter().map(|note| note.in_words(&Flags));
        self.notes.iter().cloned().chain(own)
    }

    fn nbytes(&self) -> u64 {
        self.converted.files.iter().map(|file| file.nbytes).fold(0, u64::saturating_add)
    }

    /// Notes, warnings and what was written, for people. The user asked what would be written, so this is the output.
    pub(super) fn say(&self, quiet: bool) -> Result {
        let Converted { clipped, dropped, tensors, .. } = self.converted;
        for note in self.notes().filter(|_| !quiet) {
            say(format_args!("note: {}", Printable(&note)));
        }
        match clipped.as_slice() {
            [first, _, _, _, ..] => {
                let more = count(clipped.len() as u64 - 1);
                say(format_args!(
                    "warning: {}, and so have {more} others (--json names them)",
                    Printable(first)
                ));
            }
            few => few.iter().for_each(|clipped| say(format_args!("warning: {}", Printable(clipped)))),
        }
        let drops = if self.is_dry { "would drop" } else { "dropped" };
        for dropped in dropped {
            let (what, why) = (dropped.what(), &dropped.why);
            say(format_args!("warning: {drops} {}: {}", Printable(&what), Printable(why)));
        }
        let what = written(self.output, self.converted);
        if self.is_dry {
            let (what, s) = (Printable(&what), if *tensors == 1 { "" } else { "s" });
            let (tensors, nbytes) = (count(*tensors as u64), size(self.nbytes()));
            super::print(|out| Ok(writeln!(out, "would write {what}: {tensors} tensor{s}, {nbytes}")?))
        } else {
            if !quiet {
                super::say_written(&what, *tensors, self.nbytes(), self.begun);
            }
            Ok(())
        }
    }

    /// All of it as one object, for programs.
    pub(super) fn print_json(&self) -> Result {
        let Converted { format, tensors, clipped, dropped, files, .. } = self.converted;
        let dropped = dropped.iter().map(|item| {
            Object::from_iter([("what", Value::from(item.what())), ("why", Value::from(&*item.why))])
        });
        let files = files.iter().map(|file| {
            Object::from_iter([("path", Value::from(file.path.as_str())), ("size", file.nbytes.into())])
        });
        let object = Object::from_iter([
            ("out", Value::from(self.output.display().to_string())),
            ("format", format.name().into()),
            ("dry_run", self.is_dry.into()),
            ("tensors", (*tensors as u64).into()),
            ("size", self.nbytes().into()),
            ("files", files.collect()),
            ("notes", self.notes().collect()),
            ("clipped", clipped.iter().map(String::as_str).collect()),
            ("dropped", dropped.collect()),
        ]);
        let text = json::to_string(&Value::Object(object)).unwrap_or_default();
        super::print(|out| Ok(writeln!(out, "{}", escaped(&text))?))
    }
}

/// Names what was written: a file, or the index of a set and the files beside it, if they are few.
fn written(output: &Path, converted: &Converted) -> String {
    const FEW: usize = 4;
    if streams::is_dash(output) {
        return "to standard output".to_owned();
    }
    // The manifest of an APR2 has the name that was asked for, whatever its ending; of safetensors it gets one of its own.
    let is_index = |file: &&WrittenFile| {
        output.file_name().is_some_and(|name| name == file.path.as_str()) || file.path.ends_with(".json")
    };
    // The first file of a split says how many files there are.
    let first = converted.files.first().filter(|_| converted.format == Format::GgufSharded);
    let index = first.or_else(|| converted.files.iter().find(is_index));
    let Some(index) = index.filter(|_| converted.format.is_set()) else {
        return output.display().to_string();
    };
    let others: Vec<&str> =
        converted.files.iter().filter(|file| *file != index).map(|file| file.path.as_str()).collect();
    let files = match others.as_slice() {
        [] => return output.with_file_name(&index.path).display().to_string(),
        few if few.len() <= FEW => few.join(", "),
        [first, .., last] => format!("{} files, {first} to {last}", others.len()),
        _ => String::new(),
    };
    format!("{} with {files}", output.with_file_name(&index.path).display())
}
